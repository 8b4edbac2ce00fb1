//! Transactions: each sees its own units; requests to one that is not open, or beyond a limit, are refused with the
//! figures.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::profiles;
use tantalum::{Command, Lpn, Profile, Status, TxId, UNIT_BYTES, result_of};

/// Four units in a page, so that a few of them wait.
fn four_units() -> [Profile; 3] {
    profiles().map(|mut profile| {
        profile.flash.page_bytes = 16384;
        profile
    })
}

fn begin(host: &mut Host) -> Result<TxId, Status> {
    result_of(|tx| host.submit(Command::Begin { tx }))
}

fn write(host: &mut Host, tx: TxId, lpn: u32, byte: u8) -> Result<(), Status> {
    host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &[byte; UNIT_BYTES] }).map(drop)
}

fn read(host: &mut Host, tx: TxId, lpn: u32) -> Result<u8, Status> {
    let mut data = [0; UNIT_BYTES];
    host.submit(Command::TxRead { tx, lpn: Lpn(lpn), data: &mut data })?;
    Ok(data[0])
}

/// Units that wait for a full page are distinguished by their transaction and by their number.
#[test]
fn each_transaction_sees_its_own_units_before_they_are_on_flash() {
    for profile in four_units() {
        let mut host = Host::new(&profile);
        host.write_through(0, 1);
        host.write_through(1, 2);
        let (a, b) = (begin(&mut host).unwrap(), begin(&mut host).unwrap());
        write(&mut host, a, 0, 10).unwrap();
        write(&mut host, b, 0, 20).unwrap();
        write(&mut host, b, 1, 21).unwrap();
        write(&mut host, b, 0, 22).unwrap();
        let seen = |host: &mut Host, tx| [0, 1].map(|lpn| read(host, tx, lpn).unwrap());
        assert_eq!((seen(&mut host, a), seen(&mut host, b)), ([10, 2], [22, 21]));
        assert_eq!(host.read_all([0, 1]), [1, 2]);
        host.submit(Command::Abort { tx: a }).unwrap();
        assert_eq!(seen(&mut host, b), [22, 21]);
        host.submit(Command::Commit { tx: b }).unwrap();
        host.cut();
        assert_eq!(host.read_all([0, 1]), [22, 21]);
    }
}

#[test]
fn a_transaction_that_is_over_is_not_known() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let (committed, aborted) = (begin(&mut host).unwrap(), begin(&mut host).unwrap());
        host.submit(Command::Commit { tx: committed }).unwrap();
        host.submit(Command::Abort { tx: aborted }).unwrap();
        for tx in [committed, aborted] {
            assert_eq!(write(&mut host, tx, 0, 1), Err(Status::UnknownTransaction(tx)));
            assert_eq!(read(&mut host, tx, 0), Err(Status::UnknownTransaction(tx)));
            assert_eq!(host.submit(Command::Commit { tx }), Err(Status::UnknownTransaction(tx)));
            assert_eq!(host.submit(Command::Abort { tx }), Err(Status::UnknownTransaction(tx)));
        }
    }
}

#[test]
fn as_many_as_the_drive_tells_are_open_and_no_more() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let limit = host.device.limits().open_transactions;
        for _ in 0..limit {
            begin(&mut host).unwrap();
        }
        let limit = u64::from(limit);
        let refused = Status::OverLimit { what: "open transactions", asked: limit + 1, limit };
        assert_eq!(begin(&mut host), Err(refused));
    }
}

#[test]
fn open_transactions_hold_as_many_units_as_the_drive_tells_and_no_more() {
    for profile in profiles() {
        let mut host = Host::new(&profile);
        let limit = host.device.limits().transaction_units;
        let (a, b) = (begin(&mut host).unwrap(), begin(&mut host).unwrap());
        for lpn in 0..limit {
            write(&mut host, if lpn % 3 == 0 { a } else { b }, lpn, 1).unwrap();
        }
        let limit = u64::from(limit);
        let refused = Status::OverLimit { what: "units of open transactions", asked: limit + 1, limit };
        assert_eq!(write(&mut host, a, 0, 1), Err(refused));
    }
}

#[test]
fn as_many_hints_live_as_the_drive_tells_and_no_more() {
    let [profile, ..] = profiles();
    let mut host = Host::new(&profile);
    let log = host.begin_log();
    let limit = host.device.limits().hints;
    for slot in 1..=limit {
        host.write_page(slot, 1, hint(log, slot, 0)).unwrap();
    }
    let limit = u64::from(limit);
    let refused = Status::OverLimit { what: "living hints", asked: limit + 1, limit };
    assert_eq!(host.write_page(999, 1, hint(log, limit as u32 + 1, 0)).unwrap_err(), refused);
}
