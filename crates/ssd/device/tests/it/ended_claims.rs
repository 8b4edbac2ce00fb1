//! The end of a log page's claim to its home is as durable as what replaces the page, and comes with it or not at all.
//!
//! Found by reviewing the drive with the aim of losing data: the torture test's journal hardly ever fills, and its oracle
//! called a claim uncertain until the next flush.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::profiles;
use tantalum::{Command, Hint, Lpn, Profile, ShareRange, UNIT_BYTES};

/// Lets time pass, so that everything issued is on flash.
fn idle(host: &mut Host) {
    host.now_ns += 1_000_000_000;
    host.read(0);
}

/// A drive with a transaction of two pages, 50 for 10 and 51 for 11, that is whole and flushed; and this many records wait
/// for the journal.
fn whole_transaction(waiting: u32) -> Host {
    let mut host = Host::new(&profiles()[0]);
    for lpn in [10, 11] {
        host.write_through(lpn, 1);
    }
    host.write_through(40, 6);
    for lpn in 300..700 {
        host.write(lpn, 9);
    }
    host.flush();
    let log = host.begin_log();
    let page = |slot, home| Hint { first: 1, end: slot == 2, ..hint(log, slot, home) };
    host.write_page(50, 3, page(1, 10)).unwrap();
    host.write_page(51, 4, page(2, 11)).unwrap();
    host.flush();
    for lpn in 0..waiting {
        host.trim(300 + lpn);
    }
    host
}

/// 292 records fill a page of the journal.
const WAITING: std::ops::Range<u32> = 288..294;

#[test]
fn a_trim_ends_the_claim_of_its_page_or_is_not_done() {
    for waiting in WAITING {
        let mut host = whole_transaction(waiting);
        host.trim(50);
        idle(&mut host);
        host.cut();
        let found = host.read_all([50, 51, 10, 11]);
        assert!([[3, 4, 3, 4], [0, 4, 1, 4]].contains(&found), "{waiting}: {found:?}");
    }
}

#[test]
fn a_share_ends_the_claim_of_the_page_it_replaces_or_is_not_done() {
    for waiting in WAITING {
        let mut host = whole_transaction(waiting);
        let ranges = [ShareRange { dst: Lpn(50), src: Lpn(40), units: 1 }];
        host.submit(Command::Share { ranges: &ranges, deferred: true }).unwrap();
        idle(&mut host);
        host.cut();
        let found = host.read_all([50, 51, 10, 11]);
        assert!([[3, 4, 3, 4], [6, 4, 1, 4]].contains(&found), "{waiting}: {found:?}");
    }
}

#[test]
fn an_atomic_write_ends_the_claims_of_all_its_pages_or_of_none() {
    for waiting in WAITING {
        let mut host = whole_transaction(waiting);
        let data = [8; UNIT_BYTES];
        host.submit(Command::WriteAtomic { writes: &[(Lpn(50), &data), (Lpn(51), &data)] }).unwrap();
        idle(&mut host);
        host.cut();
        let found = host.read_all([50, 51, 10, 11]);
        assert!([[8, 8, 3, 4], [8, 8, 1, 1]].contains(&found), "{waiting}: {found:?}");
    }
}

#[test]
fn a_durable_write_ends_the_claims_of_all_its_pages_or_of_none() {
    for waiting in WAITING {
        let mut host = whole_transaction(waiting);
        host.submit(Command::Write { lpn: Lpn(50), data: &[8; 2 * UNIT_BYTES], fua: true, handle: None })
            .unwrap();
        idle(&mut host);
        host.cut();
        let found = host.read_all([50, 51, 10, 11]);
        assert!([[8, 8, 3, 4], [8, 8, 1, 1]].contains(&found), "{waiting}: {found:?}");
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum How {
    Write,
    Fua,
    Atomic,
}

/// As `a_page_that_was_overwritten_claims_nothing`, but what overwrites it is durable without a flush.
fn overwritten(profile: &Profile, how: How) {
    let mut host = Host::new(profile);
    host.write_through(10, 1);
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    host.flush();
    // with a capacitor this brings the page to flash
    host.share(60, 10);
    match how {
        How::Write => host.write(50, 4),
        How::Fua => host.write_through(50, 4),
        How::Atomic => {
            host.submit(Command::WriteAtomic { writes: &[(Lpn(50), &[4; UNIT_BYTES])] }).unwrap();
        }
    }
    assert_eq!(host.read_all([50, 10]), [4, 1]);
    host.cut();
    assert_eq!(host.read_all([50, 10]), [4, 1], "{:?} {how:?}", profile.cache.mode);
}

#[test]
fn a_claim_ends_with_a_write_through_a_volatile_cache() {
    overwritten(&profiles()[0], How::Fua);
}

#[test]
fn a_claim_ends_with_an_atomic_write() {
    overwritten(&profiles()[0], How::Atomic);
}

#[test]
fn a_claim_ends_with_a_write_without_a_cache() {
    overwritten(&profiles()[1], How::Write);
}

#[test]
fn a_claim_ends_with_a_write_to_protected_dram() {
    overwritten(&profiles()[2], How::Write);
}

/// With a capacitor a trim is durable when it returns, so the end of the claim is.
#[test]
fn a_claim_ends_with_a_trim_while_programs_are_under_way() {
    let mut host = Host::new(&profiles()[2]);
    host.write_through(10, 1);
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    for lpn in 100..140 {
        host.write(lpn, 7);
    }
    idle(&mut host);
    for lpn in 100..114 {
        host.write(lpn, 8);
    }
    host.trim(50);
    assert_eq!(host.read_all([50, 10]), [0, 1]);
    host.cut();
    assert_eq!(host.read_all([50, 10]), [0, 1]);
}
