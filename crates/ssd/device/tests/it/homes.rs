//! Homes of hinted logs that others write too. After a cut a home has what it last received, from a command or from a
//! log page that claims it, and a transaction comes home as a whole or not at all.
//!
//! Found by reviewing the drive with the aim of losing data: the torture test's only log kept its pages and homes to
//! itself.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::profiles;
use tantalum::{
    Command, Generation, Hint, Lpn, Plp, PowerLoss, Profile, ShareRange, Status, UNIT_BYTES, result_of,
};

fn volatile() -> Profile {
    let [mut volatile, ..] = profiles();
    volatile.ftl.checkpoint_interval_pages = Some(4);
    volatile
}

/// A drive on which unit 50, a page that waits in the cache, holds 3 and claims unit 10, which holds 1.
fn with_claim() -> Host {
    let mut host = Host::new(&volatile());
    host.write_through(10, 1);
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    host
}

/// Other writes, until a checkpoint has been taken. Pages that wait stay in the cache.
fn checkpoint(host: &mut Host) {
    let before = host.device.smart().counters.checkpoints;
    for lpn in 200.. {
        if host.device.smart().counters.checkpoints > before {
            return;
        }
        host.write_through(lpn % 300, 9);
    }
}

#[test]
fn a_commit_wins_over_a_page_that_claimed_its_unit_before() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        host.write(10, 1);
        host.write(11, 1);
        host.flush();
        let log = host.begin_log();
        let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
        for lpn in [10, 11] {
            host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &[7; UNIT_BYTES] }).unwrap();
        }
        host.write_page(50, 3, hint(log, 1, 10)).unwrap();
        host.flush();
        host.submit(Command::Commit { tx }).unwrap();
        host.flush();
        host.cut();
        assert_eq!(host.read_all([10, 11]), [7, 7], "{:?}", profile.cache.mode);
    }
}

/// With a capacitor a page is durable as soon as it is acknowledged. One that still waited when its unit was written over or
/// trimmed left a gap in the log, so that after a cut the durable pages behind it did not come home. So did one on flash whose
/// transaction ended with a page that still waited.
#[test]
fn what_follows_a_durable_page_that_was_replaced_in_dram_comes_home() {
    let protected: Vec<Profile> =
        profiles().into_iter().filter(|drive| drive.power.plp == Plp::Capacitor).collect();
    for (profile, replace) in
        protected.iter().flat_map(|profile| (0..12).map(move |replace| (profile, replace)))
    {
        let mut host = Host::new(profile);
        (10..12).for_each(|home| host.write(home, 1));
        let log = host.begin_log();
        let atomic = |host: &mut Host, lpn, byte| {
            let writes = [(Lpn(lpn), &[byte; UNIT_BYTES][..])];
            host.submit(Command::WriteAtomic { writes: &writes }).unwrap();
        };
        host.write_page(50, 3, Hint { end: false, ..hint(log, 1, 10) }).unwrap();
        if replace / 3 % 2 == 1 {
            // what waits goes to flash
            host.write(60, 1);
            atomic(&mut host, 60, 2);
        }
        host.write_page(51, 3, Hint { first: 1, home: None, ..hint(log, 2, 10) }).unwrap();
        host.write_page(52, 4, hint(log, 3, 11)).unwrap();
        match replace % 3 {
            0 => host.write(50, 7),
            1 => host.trim(50),
            _ => atomic(&mut host, 50, 7),
        }
        if replace / 6 == 1 {
            host.device.power_off(host.now_ns).unwrap();
            host.device.power_on(&mut PowerLoss::seeded(0)).unwrap();
            host.now_ns = host.device.time_ns();
        } else {
            host.cut();
        }
        assert_eq!(host.read(11), 4, "{:?}, replaced in way {replace}", profile.cache.mode);
        assert_eq!(host.read(50), if replace % 3 == 1 { 0 } else { 7 });
    }
    assert!(!protected.is_empty());
}

#[test]
fn a_page_that_waits_does_not_undo_a_durable_write_of_its_home() {
    let mut host = with_claim();
    host.write_through(10, 7);
    checkpoint(&mut host);
    host.flush();
    host.cut();
    assert_eq!(host.read_all([10, 50]), [7, 3]);
}

#[test]
fn a_page_that_waits_does_not_undo_an_atomic_write_of_its_home() {
    let mut host = with_claim();
    host.submit(Command::WriteAtomic { writes: &[(Lpn(10), &[7; UNIT_BYTES])] }).unwrap();
    checkpoint(&mut host);
    host.flush();
    host.cut();
    assert_eq!(host.read(10), 7);
}

#[test]
fn a_page_that_waits_does_not_bring_a_trimmed_home_back() {
    for profile in profiles() {
        for (mapped, with_checkpoint) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut profile = profile.clone();
            profile.ftl.checkpoint_interval_pages = Some(4);
            let mut host = Host::new(&profile);
            if mapped {
                host.write(10, 1);
                host.flush();
            }
            let log = host.begin_log();
            host.write_page(50, 3, hint(log, 1, 10)).unwrap();
            host.trim(10);
            if with_checkpoint && profile.power.plp == Plp::None {
                checkpoint(&mut host);
            }
            host.flush();
            host.cut();
            assert_eq!(host.read(10), 0, "{:?}, {mapped}, {with_checkpoint}", profile.cache.mode);
        }
    }
}

/// A drive with a capacitor dumps the page with its hint, after a checkpoint that has no versions.
#[test]
fn a_dumped_page_does_not_bring_a_trimmed_home_back() {
    let [.., mut capacitor] = profiles();
    capacitor.ftl.checkpoint_interval_pages = Some(1);
    let mut host = Host::new(&capacitor);
    host.write(10, 1);
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    host.trim(10);
    let before = host.device.smart().counters.checkpoints;
    // an atomic write goes past the cache, where the page waits
    while host.device.smart().counters.checkpoints == before {
        host.submit(Command::WriteAtomic { writes: &[(Lpn(99), &[9; UNIT_BYTES])] }).unwrap();
    }
    host.cut();
    assert_eq!(host.read_all([10, 50]), [0, 3]);
}

#[test]
fn a_share_with_what_a_unit_holds_already_ends_older_claims() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        host.write(12, 2);
        host.flush();
        host.share(10, 12);
        let log = host.begin_log();
        host.write_page(50, 3, hint(log, 1, 10)).unwrap();
        host.flush();
        host.share(10, 12);
        host.cut();
        assert_eq!(host.read_all([10, 12, 50]), [2, 2, 3], "{:?}", profile.cache.mode);
    }
}

#[test]
fn a_remap_to_what_a_unit_holds_already_ends_older_claims() {
    let mut host = Host::new(&volatile());
    host.write_through(12, 2);
    host.share(10, 12);
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    host.flush();
    host.submit(Command::Remap { src: Lpn(12), dst: Lpn(10), units: 1 }).unwrap();
    host.cut();
    assert_eq!(host.read_all([10, 12]), [2, 0]);
}

/// The hint of the page is the record of such a share, and its version is older than that of the other claim.
#[test]
fn a_share_of_an_older_page_wins_over_a_newer_claim() {
    for (other_log, waits) in [(false, false), (true, false), (true, true)] {
        let mut host = Host::new(&volatile());
        let log = host.begin_log();
        host.write_page(50, 3, hint(log, 1, 10)).unwrap();
        host.flush();
        let (newer, slot) = if other_log { (host.begin_log(), 1) } else { (log, 2) };
        host.write_page(51, 4, hint(newer, slot, 10)).unwrap();
        if !waits {
            host.flush();
        }
        host.share(10, 50);
        host.flush();
        host.cut();
        assert_eq!(host.read(10), 3, "{other_log}, {waits}");
    }
}

/// Once a page is durably overwritten, its home keeps its old contents: nobody could read the page any more.
#[test]
fn a_page_that_was_overwritten_claims_nothing() {
    let mut host = with_claim();
    host.flush();
    host.write(50, 4);
    host.flush();
    host.cut();
    assert_eq!(host.read_all([10, 50]), [1, 4]);
}

/// The claim of the other page stood all the time. It was ended together with that of the one that was overwritten.
#[test]
fn an_older_claim_stands_when_a_newer_page_is_overwritten() {
    let mut host = Host::new(&volatile());
    host.write_through(10, 1);
    let (first, second) = (host.begin_log(), host.begin_log());
    host.write_page(50, 3, hint(first, 1, 10)).unwrap();
    host.write_page(51, 4, hint(second, 1, 10)).unwrap();
    host.flush();
    host.write(51, 5);
    host.flush();
    host.cut();
    assert_eq!(host.read(10), 3);
}

/// An unmapping anywhere made claims to homes that are not mapped void.
#[test]
fn a_transaction_comes_home_as_a_whole_though_something_else_is_trimmed() {
    let mut host = Host::new(&volatile());
    host.write_through(11, 1);
    host.write_through(12, 1);
    let log = host.begin_log();
    let page = |slot, home| Hint { first: 1, end: slot == 2, ..hint(log, slot, home) };
    host.write_page(50, 3, page(1, 10)).unwrap();
    host.write_page(51, 4, page(2, 11)).unwrap();
    host.trim(12);
    host.flush();
    host.cut();
    assert_eq!(host.read_all([10, 11, 12]), [3, 4, 0]);
}

/// An unmapping elsewhere made void the claims of pages that were on flash before it, when a checkpoint recorded all.
#[test]
fn a_transaction_on_flash_comes_home_as_a_whole_though_something_else_is_trimmed() {
    let mut host = Host::new(&volatile());
    host.write_through(11, 1);
    host.write_through(12, 1);
    let log = host.begin_log();
    let page = |slot, home| Hint { first: 1, end: slot == 2, ..hint(log, slot, home) };
    host.write_page(50, 3, page(1, 10)).unwrap();
    host.write_page(51, 4, page(2, 11)).unwrap();
    host.flush();
    host.trim(12);
    host.flush();
    checkpoint(&mut host);
    host.cut();
    assert_eq!(host.read_all([10, 11, 12, 50, 51]), [3, 4, 0, 3, 4]);
}

/// The page of slot 1 is erased before the transaction ends: nothing on flash shows that it existed.
#[test]
fn a_share_holds_though_a_page_of_its_transaction_was_overwritten() {
    let mut host = Host::new(&volatile());
    let log = host.begin_log();
    let page = |slot, home| Hint { first: 1, end: slot == 2, ..hint(log, slot, home) };
    host.write_page(50, 3, page(1, 10)).unwrap();
    host.flush();
    host.write_through(50, 9);
    for round in 0..2000 {
        host.write_through(100 + round % 50, round as u8);
    }
    host.write_page(51, 4, page(2, 11)).unwrap();
    host.flush();
    host.share(11, 51);
    host.cut();
    assert_eq!(host.read(11), 4);
}

/// A reader of the log finds what is home and what is not: of two transactions not the second alone.
#[test]
fn a_share_of_a_page_takes_the_pages_before_it_along() {
    let mut host = Host::new(&volatile());
    let log = host.begin_log();
    host.write_page(51, 4, hint(log, 1, 11)).unwrap();
    host.flush();
    // the page of the second transaction is written while that of the first is rewritten in the cache
    let log = host.begin_log();
    host.write_page(50, 3, hint(log, 1, 10)).unwrap();
    host.write(30, 1);
    host.share(11, 51);
    host.cut();
    assert_eq!(host.read_all([11, 50, 10]), [4, 3, 3]);
}

#[test]
fn a_page_must_follow_the_transaction_before_it() {
    let mut host = Host::new(&volatile());
    let log = host.begin_log();
    let mut refused = |hint: Hint| {
        let answer = host.write_page(50, 3, hint);
        assert!(matches!(answer, Err(Status::SlotOutOfOrder(_))), "{hint:?}: {answer:?}");
    };
    refused(hint(log, 2, 10));
    refused(Hint { attempt: 1, start: 2, ..hint(log, 2, 10) });
    host.write_page(50, 3, Hint { end: false, ..hint(log, 1, 10) }).unwrap();
    host.write_page(51, 3, Hint { first: 1, ..hint(log, 2, 11) }).unwrap();
    let mut refused = |hint: Hint| {
        let answer = host.write_page(52, 3, hint);
        assert!(matches!(answer, Err(Status::SlotOutOfOrder(_))), "{hint:?}: {answer:?}");
    };
    // its transaction has ended
    refused(Hint { first: 1, ..hint(log, 3, 10) });
    // an attempt begins behind what has ended, not before it
    refused(Hint { attempt: 1, start: 1, first: 1, ..hint(log, 1, 10) });
    assert_eq!(host.read_all([50, 51, 52]), [3, 3, 0]);
}

/// A host that does not know yet that power failed may still use a log's number, or a transaction's.
#[test]
fn numbers_are_never_given_again() {
    for profile in profiles() {
        for shut_down in [false, true] {
            let mut host = Host::new(&profile);
            host.write(1, 1);
            if shut_down {
                host.device.power_off(host.now_ns).unwrap();
                host.device.power_on(&mut tantalum::PowerLoss::seeded(0)).unwrap();
                host.now_ns = host.device.time_ns();
            }
            let mut given = std::collections::BTreeSet::new();
            for round in 0..4 {
                for _ in 0..3 {
                    let Generation(log) = host.begin_log();
                    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
                    assert!(given.insert(log) && given.insert(tx.0), "{:?} {round}", profile.cache.mode);
                    host.submit(Command::Abort { tx }).unwrap();
                }
                host.cut();
            }
        }
    }
}

/// A flush of protected DRAM waits for nothing, so there a share that is done must not be undone by a cut, deferred or not.
#[test]
fn a_deferred_share_in_protected_dram_is_durable_when_it_is_done() {
    let [.., profile] = profiles();
    assert_eq!(profile.power.plp, Plp::Capacitor);
    let mut host = Host::new(&profile);
    host.write(10, 1);
    let ranges = [ShareRange { dst: Lpn(20), src: Lpn(10), units: 1 }];
    host.submit(Command::Share { ranges: &ranges, deferred: true }).unwrap();
    host.flush();
    host.cut();
    assert_eq!(host.read_all([10, 20]), [1, 1]);
}
