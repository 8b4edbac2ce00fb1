//! A refused command has changed nothing: not now, and not after a cut.

use crate::host;
use crate::small_drive;

use host::{Host, hint};
use small_drive::small_drive;
use tantalum::{
    CacheMode, Command, FailingStep, Faults, Lpn, Plp, Profile, ShareRange, Status, StepFault, UNIT_BYTES,
    result_of,
};

/// Pages of 4 KiB, and no cache unless requested.
fn profile(cache: CacheMode) -> Profile {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 30.0, Plp::None);
    profile.flash.page_bytes = 4096;
    profile.cache.mode = cache;
    profile.cache.bytes = 16 * UNIT_BYTES as u64;
    profile
}

/// A drive filled with units and records: every unit below the returned one is written, and no other.
fn full(cache: CacheMode) -> (Host, u32) {
    let mut host = Host::new(&profile(cache));
    let namespace = host.create_namespace();
    for number in 0..400 {
        host.put(namespace, number, 3000).unwrap();
    }
    for lpn in 0.. {
        match host.submit(Command::Write { lpn: Lpn(lpn), data: &[1; UNIT_BYTES], fua: true, handle: None }) {
            Ok(_) => {}
            Err(Status::CapacityExceeded) => return (host, lpn),
            Err(other) => panic!("unit {lpn}: {other}"),
        }
    }
    unreachable!("the drive has less than {} units", u32::MAX)
}

/// The refused unit stayed among those that waited for a full page, which was never programmed again, and was committed.
#[test]
fn a_refused_write_of_a_transaction_is_not_committed() {
    let (mut host, end) = full(CacheMode::Off);
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    let write = |host: &mut Host, lpn, byte| {
        host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &[byte; UNIT_BYTES] })
    };
    let mut taken = Vec::new();
    for lpn in 0..end {
        match write(&mut host, lpn, 100) {
            Ok(_) => taken.push(lpn),
            Err(Status::CapacityExceeded | Status::OverLimit { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    let refused = taken.len() as u32;
    let mut data = [0; UNIT_BYTES];
    host.submit(Command::TxRead { tx, lpn: Lpn(refused), data: &mut data }).unwrap();
    assert_eq!(data[0], 1, "a refused write is not there");
    host.submit(Command::Trim { lpn: Lpn(end - 100), units: 100 }).unwrap();
    // units without a mapping take more of the drive's capacity
    let fresh = end - 1;
    if write(&mut host, fresh, 101).is_ok() {
        taken.push(fresh);
    }
    host.submit(Command::Commit { tx }).unwrap();
    host.device.audit();
    let check = |host: &mut Host| {
        assert_eq!(host.read(refused), 1, "a refused write was committed");
        for lpn in &taken {
            assert_eq!(host.read(*lpn), if *lpn == fresh { 101 } else { 100 }, "unit {lpn}");
        }
    };
    check(&mut host);
    host.cut();
    check(&mut host);
}

/// A page that was refused read as the new data, the identical page was out of order, and after a cut it was there and home.
#[test]
fn a_refused_page_of_a_log_can_be_written_again() {
    let (mut host, end) = full(CacheMode::Off);
    let log = host.begin_log();
    let page = hint(log, 1, 0);
    assert_eq!(host.write_page(end, 3, page), Err(Status::CapacityExceeded));
    assert_eq!(host.read_all([0, end]), [1, 0]);
    let mut cut = host.fork();
    cut.cut();
    assert_eq!(cut.read_all([0, end]), [1, 0], "a refused page is there after a cut");
    host.submit(Command::Trim { lpn: Lpn(end - 100), units: 100 }).unwrap();
    host.write_page(end, 3, page).unwrap();
    host.cut();
    assert_eq!(host.read_all([0, end]), [3, 3]);
}

/// As many units were written as there was room for.
#[test]
fn a_refused_write_of_many_units_has_written_none() {
    for cache in [CacheMode::Off, CacheMode::Volatile] {
        let (mut host, end) = full(cache);
        host.trim(end - 3);
        host.flush();
        let fua = cache == CacheMode::Off;
        let command = Command::Write { lpn: Lpn(end - 8), data: &[2; 40 * UNIT_BYTES], fua, handle: None };
        assert_eq!(host.submit(command), Err(Status::CapacityExceeded));
        let expected = |lpn| u8::from(lpn < end && lpn != end - 3);
        for lpn in end - 8..end + 32 {
            assert_eq!(host.read(lpn), expected(lpn), "{cache:?}, unit {lpn}");
        }
        host.cut();
        for lpn in end - 8..end + 32 {
            assert_eq!(host.read(lpn), expected(lpn), "{cache:?}, unit {lpn} after a cut");
        }
    }
}

/// Blocks failed between the pages of one write: it was refused, and its first page was written. The documents said that a
/// refused command changes nothing, and the torture of several clients believed them.
#[test]
fn a_write_refused_between_its_steps_has_written_its_first_units() {
    let mut in_part = 0;
    for cache in [CacheMode::Off, CacheMode::Volatile] {
        let (drive, end) = full(cache);
        let fua = cache == CacheMode::Off;
        let units = end - 12..end - 2;
        for after in 0..40 {
            let mut host = drive.fork();
            let fault = StepFault { step: FailingStep::Reservation, after, lasts: true };
            host.device.fail_step(Some(fault)).unwrap();
            let data = [2; 10 * UNIT_BYTES];
            let answer =
                host.submit(Command::Write { lpn: Lpn(units.start), data: &data, fua, handle: None });
            host.device.fail_step(None).unwrap();
            let found: Vec<u8> = units.clone().map(|lpn| host.read(lpn)).collect();
            let written = found.iter().take_while(|found| **found == 2).count();
            assert!(found[written..].iter().all(|found| *found == 1), "{cache:?}, {after}: {found:?}");
            match answer {
                Ok(_) => assert_eq!(written, 10),
                Err(status) => assert_eq!(status, Status::CapacityExceeded),
            }
            in_part += u32::from(written > 0 && written < 10);
            host.device.audit();
            host.submit(Command::Flush).unwrap();
            host.cut();
            let kept: Vec<u8> = units.clone().map(|lpn| host.read(lpn)).collect();
            assert_eq!(kept, found, "{cache:?}, {after}: after a cut");
        }
    }
    assert!(in_part > 0, "no write was refused between its steps");
}

/// Every way to give data to units that have none.
#[test]
fn no_command_maps_more_than_there_is_room_for() {
    let (mut host, end) = full(CacheMode::Off);
    let refused = |answer: Result<tantalum::Completion, Status>| {
        assert_eq!(answer.map(drop), Err(Status::CapacityExceeded));
    };
    let ranges = [ShareRange { dst: Lpn(end), src: Lpn(0), units: 4 }];
    refused(host.submit(Command::Share { ranges: &ranges, deferred: false }));
    refused(host.submit(Command::Remap { src: Lpn(0), dst: Lpn(end), units: 4 }));
    let data = [4; UNIT_BYTES];
    refused(host.submit(Command::WriteAtomic { writes: &[(Lpn(0), &data), (Lpn(end), &data)] }));
    let metadata = [7; 24];
    refused(host.submit(Command::WriteWithMetadata {
        lpn: Lpn(end),
        data: &data,
        metadata: &metadata,
        fua: true,
    }));
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    host.submit(Command::TxWrite { tx, lpn: Lpn(end), data: &data }).unwrap();
    refused(host.submit(Command::Commit { tx }));
    for lpn in (0..4).chain(end..end + 4) {
        assert_eq!(host.read(lpn), u8::from(lpn < end));
    }
    host.device.audit();
    // mapped units can be written for ever, and trims make room
    for round in 0..1000 {
        host.write_through(round * 7 % end, 1);
    }
    host.trim(9);
    host.submit(Command::Commit { tx }).unwrap();
    assert_eq!(host.read(end), 4);
}

/// Whatever a drive without room refuses is refused before, so that no test had a page of a transaction fail: it would have
/// stayed among those that wait, to be committed.
#[test]
fn a_page_of_a_transaction_that_cannot_be_programmed_leaves_what_waited_before() {
    let every_program = |program_failure_ppm| Faults {
        seed: 1,
        program_failure_ppm,
        erase_failure_ppm: 0,
        read_failure_ppm: 0,
        endurance_cycles: None,
    };
    let mut host = Host::new(&small_drive("tlc-nvme", 4 << 20, 30.0, Plp::None));
    host.write_through(1, 1);
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    let write = |host: &mut Host, lpn, byte| {
        host.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &[byte; UNIT_BYTES] })
    };
    write(&mut host, 0, 100).unwrap();
    host.device.set_faults(every_program(1_000_000)).unwrap();
    assert_eq!(write(&mut host, 1, 101), Err(Status::CapacityExceeded));
    host.device.set_faults(every_program(0)).unwrap();
    let found = [0, 1].map(|lpn| {
        let mut data = [0; UNIT_BYTES];
        host.submit(Command::TxRead { tx, lpn: Lpn(lpn), data: &mut data }).unwrap();
        data[0]
    });
    assert_eq!(found, [100, 1]);
}
