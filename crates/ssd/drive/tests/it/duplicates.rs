//! Writes that repeat an earlier one become shares, whoever made it, and never of anything else.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{small, twin, unit};
use tantalum::{Command, Device, Lpn, Outcome, PowerLoss, Profile, Status, UNIT_BYTES};
use tantalum_drive::{Drive, DuplicateCounts, InReply, Output, Reply, Request, Units};
use tantalum_image::checksum_of;

fn profile() -> Profile {
    small("tlc-nvme", 64)
}

fn drive_of(device: Device) -> Drive {
    let drive = Drive::new(device);
    drive.set_remap_duplicates(true);
    drive
}

fn drive() -> Drive {
    drive_of(Device::in_memory(&profile()).unwrap())
}

/// Performs one request after all earlier ones are done.
fn ask(drive: &Drive, request: Request) -> Result<Reply, Status> {
    let at_ns = drive.lock().time_ns();
    drive.perform(request, at_ns)
}

fn write(drive: &Drive, lpn: u32, data: Vec<u8>) {
    ask(drive, Request::Write { lpn: Lpn(lpn), data, fua: false, handle: None }).unwrap();
}

fn read(drive: &Drive, lpn: u32, units: u32) -> Vec<u8> {
    ask(drive, Request::Read { lpn: Lpn(lpn), data: Units(units) }).unwrap().into_data()
}

fn flush(drive: &Drive) {
    ask(drive, Request::Flush).unwrap();
}

fn units_written(drive: &Drive) -> u64 {
    drive.lock().smart().counters.host_units_written
}

/// Power fails when everything is done, and whatever is not durable is lost.
fn cut_power(drive: &Drive) {
    let mut device = drive.lock();
    let now_ns = device.time_ns();
    device.cut_power(now_ns);
    device.power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
}

/// Like a file system: writes to its journal, flush, home in any order, flush.
#[test]
fn a_block_that_is_written_twice_is_programmed_once() {
    let folder = tempfile::tempdir().unwrap();
    let in_file = Device::create(&folder.path().join("drive.tant"), &profile()).unwrap();
    for device in [Device::in_memory(&profile()).unwrap(), in_file] {
        let drive = drive_of(device);
        let (mut client, blocks) = (drive.client(), 0..64_u64);
        let journal: Vec<u8> = blocks.clone().flat_map(unit).collect();
        write(&drive, 100, journal);
        flush(&drive);
        let before = units_written(&drive);
        for block in blocks.clone().rev().step_by(2) {
            write(&drive, 1000 + block as u32, unit(block));
        }
        for block in blocks.clone().step_by(2) {
            let (lpn, data) = (Lpn(1000 + block as u32), unit(block));
            client.submit_or_share(Command::Write { lpn, data: &data, fua: false, handle: None }).unwrap();
        }
        flush(&drive);
        assert_eq!(units_written(&drive), before, "no home was written");
        let counts = DuplicateCounts { remapped: 64, without_duplicate: 64 };
        assert_eq!(drive.lock().duplicates(), counts);
        // some units are shared, and some are written
        let mixed = [unit(5), unit(100), unit(7), unit(8), unit(101)].concat();
        write(&drive, 2000, mixed.clone());
        assert!(read(&drive, 2000, 5) == mixed);
        assert_eq!(units_written(&drive), before + 2);
        write(&drive, 100, vec![9; 64 * UNIT_BYTES]);
        cut_power(&drive);
        assert!(read(&drive, 1000, 64) == blocks.flat_map(unit).collect::<Vec<u8>>());
    }
}

/// The share that took the place of an acknowledged write waited for a flush, although the write would not have: power
/// went a second later, and the unit held what it had held before.
#[test]
fn without_a_cache_a_duplicate_is_durable_when_it_is_acknowledged() {
    let drive = drive_of(Device::in_memory(&small("femu-2021", 64)).unwrap());
    write(&drive, 0, unit(1));
    write(&drive, 1, unit(2));
    write(&drive, 1, unit(1));
    assert_eq!(drive.lock().duplicates().remapped, 1);
    let mut device = drive.lock();
    let later_ns = device.time_ns() + 1_000_000_000;
    device.cut_power(later_ns);
    device.power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
    drop(device);
    assert!(read(&drive, 1, 1) == unit(1));
}

#[test]
fn duplicates_are_written_unless_they_are_to_be_remapped() {
    let drive = Drive::new(Device::in_memory(&profile()).unwrap());
    (0..3).for_each(|lpn| write(&drive, lpn, unit(1)));
    assert_eq!((units_written(&drive), drive.lock().duplicates()), (3, DuplicateCounts::default()));
    drive.set_remap_duplicates(true);
    (3..6).for_each(|lpn| write(&drive, lpn, unit(1)));
    assert_eq!(units_written(&drive), 4);
    drive.set_remap_duplicates(false);
    write(&drive, 6, unit(1));
    assert_eq!(units_written(&drive), 5);
}

/// The checksum finds a candidate; only the bytes show that it is one.
#[test]
fn two_blocks_with_one_checksum_are_told_apart() {
    let drive = drive();
    for number in 0..50 {
        let (first, second) = (unit(number), twin(number));
        assert!(checksum_of(&first) == checksum_of(&second) && first != second);
        write(&drive, 10, first);
        write(&drive, 20, second.clone());
        assert!(read(&drive, 20, 1) == second, "pair {number}");
    }
    assert_eq!(drive.lock().duplicates().remapped, 0);
}

#[test]
fn a_write_is_not_shared_with_a_part_of_itself() {
    let drive = drive();
    write(&drive, 10, [unit(1), unit(2)].concat());
    // the contents of unit 10 go to unit 11, and vice versa
    write(&drive, 10, [unit(2), unit(1)].concat());
    assert!(read(&drive, 10, 2) == [unit(2), unit(1)].concat());
    assert_eq!(drive.lock().duplicates().remapped, 0);
}

#[test]
fn a_source_that_changed_in_any_way_is_no_source() {
    let lpn = Lpn(10);
    let changes: [fn(&Drive, Lpn); 9] = [
        |drive, lpn| {
            drop(ask(drive, Request::Write { lpn, data: unit(1), fua: true, handle: None }).unwrap())
        },
        |drive, lpn| drop(ask(drive, Request::WriteAtomic { writes: vec![(lpn, unit(2))] }).unwrap()),
        |drive, lpn| drop(ask(drive, Request::WriteZeroes { lpn, units: 1 }).unwrap()),
        |drive, lpn| drop(ask(drive, Request::Trim { lpn, units: 1 }).unwrap()),
        |drive, lpn| drop(ask(drive, Request::Remap { src: lpn, dst: Lpn(90), units: 1 }).unwrap()),
        |drive, lpn| {
            write(drive, 91, unit(3));
            let ranges = vec![tantalum::ShareRange { dst: lpn, src: Lpn(91), units: 1 }];
            ask(drive, Request::Share { ranges, deferred: true }).unwrap();
        },
        |drive, lpn| {
            let begun = ask(drive, Request::Begin { tx: InReply }).unwrap().output;
            let Output::Transaction(tx) = begun else { panic!("{begun:?}") };
            ask(drive, Request::TxWrite { tx, lpn, data: unit(4) }).unwrap();
            ask(drive, Request::Commit { tx }).unwrap();
        },
        |drive, lpn| {
            let (data, metadata) = (unit(5), [0; 24]);
            ask(drive, Request::WriteWithMetadata { lpn, data, metadata, fua: false }).unwrap();
        },
        // it was not durable
        |drive, _| cut_power(drive),
    ];
    for is_flushed in [false, true] {
        let drive = drive();
        for (number, change) in (100..).zip(changes) {
            write(&drive, lpn.0, unit(number));
            if is_flushed && number != 108 {
                flush(&drive);
            }
            change(&drive, lpn);
            write(&drive, 20, unit(number));
            assert!(read(&drive, 20, 1) == unit(number), "change {number}");
            flush(&drive);
            cut_power(&drive);
            assert!(read(&drive, 20, 1) == unit(number), "change {number}, after power went");
        }
        // a remap takes the bytes to another unit, but nobody wrote them there
        assert_eq!(drive.lock().duplicates().remapped, 0);
    }
}

/// A unit with metadata differs from what a plain write leaves, even if its bytes do not.
#[test]
fn metadata_are_not_shared() {
    for is_flushed in [false, true] {
        let drive = drive();
        let metadata = [7; 24];
        write(&drive, 10, unit(1));
        let with = Request::WriteWithMetadata { lpn: Lpn(10), data: unit(1), metadata, fua: false };
        ask(&drive, with).unwrap();
        if is_flushed {
            flush(&drive);
        }
        write(&drive, 20, unit(1));
        let found = ask(&drive, Request::ReadWithMetadata { lpn: Lpn(20), data: InReply, metadata: InReply })
            .unwrap();
        assert_eq!(found.output, Output::Unit(unit(1), [0; 24]));
    }
}

/// One client writes a unit and then something else to it; another repeats the first write meanwhile.
#[test]
fn a_source_that_is_overwritten_at_the_same_time_is_compared_and_shared_in_one_step() {
    const ROUNDS: u32 = 3000;
    let (drive, round) = (drive(), AtomicU32::new(0));
    let number = |round: u32| 2 * u64::from(round);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for now in 1..=ROUNDS {
                write(&drive, 10, unit(number(now)));
                round.store(now, Ordering::Release);
                for other in 0..4 {
                    write(&drive, 10, unit(number(now) + (other << 32) + 1));
                }
            }
        });
        scope.spawn(|| {
            let mut now = 0;
            while now < ROUNDS {
                let next = round.load(Ordering::Acquire);
                if next == now {
                    std::hint::spin_loop();
                    continue;
                }
                now = next;
                write(&drive, 20, unit(number(now)));
                assert!(read(&drive, 20, 1) == unit(number(now)), "round {now}");
            }
        });
    });
}

#[test]
fn a_forced_write_that_is_shared_is_durable_when_it_returns() {
    for profile in [profile(), small("tlc-nvme-plp", 64)] {
        for is_flushed in [false, true] {
            let drive = drive_of(Device::in_memory(&profile).unwrap());
            write(&drive, 10, [unit(1), unit(2)].concat());
            if is_flushed {
                flush(&drive);
            }
            let data = [unit(2), unit(3), unit(1)].concat();
            ask(&drive, Request::Write { lpn: Lpn(20), data: data.clone(), fua: true, handle: None })
                .unwrap();
            assert_eq!(drive.lock().duplicates().remapped, 2);
            cut_power(&drive);
            assert!(read(&drive, 20, 3) == data, "{}, source flushed: {is_flushed}", profile.name);
        }
    }
}

#[test]
fn a_share_is_durable_with_the_next_flush_and_whole_before() {
    let drive = drive();
    write(&drive, 10, unit(1));
    write(&drive, 20, unit(9));
    flush(&drive);
    write(&drive, 20, unit(1));
    assert!(read(&drive, 20, 1) == unit(1));
    cut_power(&drive);
    let found = read(&drive, 20, 1);
    assert!(found == unit(9) || found == unit(1));
    write(&drive, 20, unit(1));
    flush(&drive);
    cut_power(&drive);
    assert!(read(&drive, 20, 1) == unit(1));
    assert_eq!(drive.lock().duplicates().remapped, 2);
}

/// A drive keeps a limited number of owners of places beyond the first.
#[test]
fn what_the_drive_refuses_to_share_is_written() {
    let drive = drive();
    let limit = drive.lock().limits().capacity_units as u32 / 8;
    let contents = limit / 3;
    for copy in 0..5 {
        for content in 0..contents {
            write(&drive, copy * contents + content, unit(content.into()));
        }
    }
    let DuplicateCounts { remapped, without_duplicate } = drive.lock().duplicates();
    assert_eq!(remapped + without_duplicate, 5 * u64::from(contents));
    assert!(
        remapped > u64::from(contents) && remapped <= u64::from(limit),
        "{remapped} shared, limit {limit}"
    );
    for copy in 0..5 {
        for content in 0..contents {
            assert!(read(&drive, copy * contents + content, 1) == unit(content.into()));
        }
    }
    drive.lock().audit();
}

/// As many units as fit in one share of the drive, and more.
#[test]
fn a_long_write_takes_several_shares() {
    let drive = drive();
    let units = 3 * drive.lock().limits().share_units / 2;
    let data: Vec<u8> = (0..u64::from(units)).flat_map(unit).collect();
    write(&drive, 0, data.clone());
    flush(&drive);
    write(&drive, units, data.clone());
    assert!(read(&drive, units, units) == data);
    assert_eq!(drive.lock().duplicates().remapped, u64::from(units));
}

#[test]
fn what_is_no_write_of_the_drive_is_refused_as_without_duplicates() {
    let drive = drive();
    let capacity = drive.lock().limits().capacity_units as u32;
    let refused =
        |lpn, data: Vec<u8>| ask(&drive, Request::Write { lpn: Lpn(lpn), data, fua: true, handle: None });
    assert!(matches!(refused(0, Vec::new()), Err(Status::DataLength { .. })));
    assert!(matches!(refused(0, vec![0; 4095]), Err(Status::DataLength { .. })));
    assert!(matches!(refused(capacity - 1, vec![0; 8192]), Err(Status::OutOfRange { .. })));
    assert!(matches!(refused(u32::MAX, vec![0; 8192]), Err(Status::OutOfRange { .. })));
}

/// A write of the size that is all or nothing was one step for the drive, and was two for its client: a part that was shared, and
/// a part that was written.
#[test]
fn a_write_that_is_all_or_nothing_is_shared_as_a_whole_or_not_at_all() {
    for (atomic_write_units, remapped) in [(1, 2), (4, 0)] {
        let mut profile = profile();
        profile.limits.atomic_write_units = atomic_write_units;
        let drive = drive_of(Device::in_memory(&profile).unwrap());
        let blocks = |numbers: [u64; 4]| numbers.into_iter().flat_map(unit).collect::<Vec<u8>>();
        write(&drive, 100, blocks([1, 2, 3, 4]));
        write(&drive, 200, blocks([1, 8, 3, 9]));
        assert_eq!(drive.lock().duplicates().remapped, remapped, "two of four units are duplicates");
        write(&drive, 300, blocks([1, 2, 3, 4]));
        assert_eq!(drive.lock().duplicates().remapped, remapped + 4, "all of them are");
        assert_eq!(read(&drive, 200, 4), blocks([1, 8, 3, 9]));
        assert_eq!(read(&drive, 300, 4), blocks([1, 2, 3, 4]));
    }
}
