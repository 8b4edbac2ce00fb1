//! Media faults (M6) through the whole drive: blocks that fail are retired, units that can still be read are moved,
//! lost units read as an error and never as something else, and a drive at the end of its life is read-only.

use crate::media_host;

use media_host::{MediaHost, profile};
use tantalum::{
    Command, CommandFailure, Device, FailingStep, Faults, Generation, Hint, Lpn, Outcome, PowerLoss,
    ShareRange, Status, StepFault, TxId, UNIT_BYTES, result_of,
};

const NONE: Faults = Faults {
    seed: 0,
    program_failure_ppm: 0,
    erase_failure_ppm: 0,
    read_failure_ppm: 0,
    endurance_cycles: None,
};

const EVERY_READ: Faults = Faults { read_failure_ppm: 1_000_000, ..NONE };

fn write(device: &mut Device, lpn: u32, byte: u8) {
    let data = [byte; UNIT_BYTES];
    device
        .submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }, device.time_ns())
        .unwrap();
}

fn read(device: &mut Device, lpn: u32) -> Result<u8, Status> {
    let mut data = [0; UNIT_BYTES];
    let at_ns = device.time_ns();
    device.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }, at_ns)?;
    Ok(data[0])
}

/// Checkpoints that the drive has begun.
fn checkpoints(device: &Device) -> u64 {
    device.smart().counters.checkpoints
}

/// Reads a unit while every read fails: its page is lost.
fn lose(device: &mut Device, lpn: u32) {
    device.set_faults(EVERY_READ).unwrap();
    assert_eq!(read(device, lpn), Err(Status::Unreadable { lpn: Lpn(lpn) }));
    device.set_faults(NONE).unwrap();
}

fn cycle(device: &mut Device) {
    device.cut_power(device.time_ns());
    device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
    device.audit();
}

fn submit(device: &mut Device, command: Command<'_>) -> Result<tantalum::Completion, Status> {
    device.submit(command, device.time_ns())
}

// -- everything at once -------------------------------------------------------------------------------------------

#[test]
fn units_read_right_or_as_lost_whatever_fails() {
    let mut totals = [0; 4];
    for seed in 0..24 {
        println!("seed {seed}");
        let faults = Faults {
            seed,
            program_failure_ppm: 3_000,
            erase_failure_ppm: 10_000,
            read_failure_ppm: 2_000,
            endurance_cycles: None,
        };
        let mut host = MediaHost::new(&profile(seed), seed, faults);
        for _ in 0..1_500 {
            host.step();
        }
        host.compare();
        let smart = host.device.smart();
        let failures =
            [smart.counters.program_failures, smart.counters.erase_failures, host.lost_reads, host.cuts];
        totals.iter_mut().zip(failures).for_each(|(total, new)| *total += new);
    }
    println!("program failures, erase failures, lost reads, cuts: {totals:?}");
    assert!(totals.iter().all(|total| *total > 20), "the faults really came: {totals:?}");
}

#[test]
fn nothing_is_lost_when_only_programs_and_erases_fail() {
    for seed in 100..116 {
        println!("seed {seed}");
        let faults = Faults { seed, program_failure_ppm: 5_000, erase_failure_ppm: 5_000, ..NONE };
        let mut host = MediaHost::new(&profile(seed), seed, faults);
        for _ in 0..1_500 {
            host.step();
        }
        host.compare();
        assert_eq!(host.lost_reads, 0);
        assert!(host.device.smart().bad_blocks > 0);
    }
}

// -- lost units ---------------------------------------------------------------------------------------------------

#[test]
fn a_lost_unit_reads_as_an_error_until_it_is_written() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    write(&mut device, 5, 1);
    lose(&mut device, 5);
    assert_eq!(read(&mut device, 5), Err(Status::Unreadable { lpn: Lpn(5) }));
    write(&mut device, 5, 2);
    assert_eq!(read(&mut device, 5), Ok(2));
    assert_eq!(device.smart().counters.uncorrectable_reads, 2);
}

/// A drive without room for the checkpoint that records a loss tried to take it in every command, also in each read.
#[test]
fn a_loss_that_finds_no_room_is_recorded_once_there_may_be_some() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    write(&mut device, 5, 1);
    write(&mut device, 6, 1);
    write(&mut device, 5, 2);
    // a second try would find room
    let no_room = StepFault { step: FailingStep::Reservation, after: 0, lasts: false };
    device.set_faults(EVERY_READ).unwrap();
    device.fail_step(Some(no_room)).unwrap();
    assert_eq!(read(&mut device, 5), Err(Status::Unreadable { lpn: Lpn(5) }));
    assert!(device.step_has_failed(), "it was tried");
    let tried = checkpoints(&device);
    device.set_faults(NONE).unwrap();
    for _ in 0..10 {
        assert_eq!(read(&mut device, 5), Err(Status::Unreadable { lpn: Lpn(5) }));
        assert_eq!(read(&mut device, 6), Ok(1));
    }
    assert_eq!(checkpoints(&device), tried, "nothing has changed");
    write(&mut device, 7, 3);
    assert_eq!(checkpoints(&device), tried + 1);
    cycle(&mut device);
    assert_eq!(read(&mut device, 5), Err(Status::Unreadable { lpn: Lpn(5) }));
}

/// A read that met a loss took a checkpoint, which made durable what a command had changed that had failed in the middle.
#[test]
fn a_drive_that_has_stopped_takes_no_checkpoint_for_a_loss() {
    for stops in [false, true] {
        let mut device = Device::in_memory(&profile(0)).unwrap();
        write(&mut device, 5, 1);
        if stops {
            device.fail_command(Some((1, CommandFailure::HostBefore)));
            submit(&mut device, Command::Flush).unwrap_err();
        }
        let before = checkpoints(&device);
        lose(&mut device, 5);
        assert_eq!(checkpoints(&device) - before, u64::from(!stops));
    }
}

#[test]
fn a_lost_unit_reads_as_zeros_once_it_is_trimmed() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    write(&mut device, 5, 1);
    lose(&mut device, 5);
    submit(&mut device, Command::Trim { lpn: Lpn(5), units: 1 }).unwrap();
    submit(&mut device, Command::Flush).unwrap();
    cycle(&mut device);
    assert_eq!(read(&mut device, 5), Ok(0));
}

/// The spare area that recorded the newest version is lost with its page: the older copy must not come back.
#[test]
fn an_older_version_of_a_lost_unit_does_not_come_back_after_a_cut() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    write(&mut device, 5, 1);
    write(&mut device, 5, 2);
    lose(&mut device, 5);
    cycle(&mut device);
    assert_eq!(read(&mut device, 5), Err(Status::Unreadable { lpn: Lpn(5) }));
}

#[test]
fn a_lost_member_of_a_batch_takes_no_other_with_it() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    let lpns: Vec<u32> = (0..24).collect();
    lpns.iter().for_each(|lpn| write(&mut device, *lpn, 1));
    let data = [2; UNIT_BYTES];
    let writes: Vec<(Lpn, &[u8])> = lpns.iter().map(|lpn| (Lpn(*lpn), &data[..])).collect();
    submit(&mut device, Command::WriteAtomic { writes: &writes }).unwrap();
    lose(&mut device, 0);
    cycle(&mut device);
    let units_per_page = device.profile().flash.page_bytes / UNIT_BYTES as u32;
    for lpn in lpns {
        let expected = if lpn < units_per_page { Err(Status::Unreadable { lpn: Lpn(lpn) }) } else { Ok(2) };
        assert_eq!(read(&mut device, lpn), expected, "unit {lpn}");
    }
}

/// A page of a hinted log is lost; what later pages brought home by their hints alone stays there.
#[test]
fn a_lost_page_of_a_log_undoes_nothing_that_came_home() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    (0..8).for_each(|home| write(&mut device, home, 1));
    let generation = result_of(|generation| submit(&mut device, Command::BeginLog { generation })).unwrap();
    for slot in 1..=8_u32 {
        let hint = Hint {
            generation,
            attempt: 0,
            start: 1,
            first: slot,
            slot,
            end: true,
            home: Some(Lpn(slot - 1)),
        };
        let (data, metadata) = ([2; UNIT_BYTES], [0; 24]);
        let lpn = Lpn(100 + slot);
        submit(&mut device, Command::WriteHinted { lpn, data: &data, metadata: &metadata, hint }).unwrap();
        submit(&mut device, Command::Flush).unwrap();
    }
    let ranges = [ShareRange { dst: Lpn(0), src: Lpn(101), units: 8 }];
    submit(&mut device, Command::Share { ranges: &ranges, deferred: false }).unwrap();
    assert_eq!(device.smart().counters.units_brought_home, 8);
    lose(&mut device, 101);
    cycle(&mut device);
    assert_eq!(read(&mut device, 0), Err(Status::Unreadable { lpn: Lpn(0) }));
    for home in 1..8 {
        assert_eq!(read(&mut device, home), Ok(2), "home {home}");
    }
}

#[test]
fn a_lost_page_of_a_transaction_is_an_error_to_it_and_after_its_commit() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    let units_per_page = device.profile().flash.page_bytes / UNIT_BYTES as u32;
    let tx = result_of(|tx| submit(&mut device, Command::Begin { tx })).unwrap();
    for lpn in 0..units_per_page {
        let data = [7; UNIT_BYTES];
        submit(&mut device, Command::TxWrite { tx, lpn: Lpn(lpn), data: &data }).unwrap();
    }
    device.set_faults(EVERY_READ).unwrap();
    let mut data = [0; UNIT_BYTES];
    let lost = submit(&mut device, Command::TxRead { tx, lpn: Lpn(0), data: &mut data });
    assert_eq!(lost.unwrap_err(), Status::Unreadable { lpn: Lpn(0) });
    device.set_faults(NONE).unwrap();
    submit(&mut device, Command::Commit { tx }).unwrap();
    cycle(&mut device);
    assert_eq!(read(&mut device, 0), Err(Status::Unreadable { lpn: Lpn(0) }));
}

/// The version of a lost unit is not known, so a transaction that wrote before must not keep its own.
#[test]
fn a_commit_over_a_lost_unit_is_newer_than_all_its_copies() {
    let mut device = Device::in_memory(&profile(0)).unwrap();
    let units_per_page = device.profile().flash.page_bytes / UNIT_BYTES as u32;
    let tx = result_of(|tx| submit(&mut device, Command::Begin { tx })).unwrap();
    for lpn in 0..units_per_page {
        let data = [9; UNIT_BYTES];
        submit(&mut device, Command::TxWrite { tx, lpn: Lpn(lpn), data: &data }).unwrap();
    }
    write(&mut device, 0, 1);
    write(&mut device, 0, 2);
    device.audit();
    lose(&mut device, 0);
    submit(&mut device, Command::Commit { tx }).unwrap();
    assert_eq!(read(&mut device, 0), Ok(9));
    cycle(&mut device);
    assert_eq!(read(&mut device, 0), Ok(9));
}

#[test]
fn a_block_with_lost_units_is_retired_and_the_others_are_moved() {
    let mut host = MediaHost::new(&profile(0), 1, NONE);
    (0..host.units()).for_each(|lpn| host.write(lpn));
    lose(&mut host.device, 3);
    host.note_lost(3);
    for _ in 0..20 * host.units() {
        host.write_random_but(3);
    }
    host.compare();
    assert_eq!(host.device.smart().bad_blocks, 1);
    assert!(host.lost_reads > 0);
}

// -- the end of life ----------------------------------------------------------------------------------------------

fn wear_out(faults: Faults, seed: u64) -> MediaHost {
    let mut host = MediaHost::new(&profile(seed), seed, faults);
    (0..host.units()).for_each(|lpn| host.write(lpn));
    for _ in 0..400_000 {
        if host.device.is_read_only() {
            return host;
        }
        host.write_random();
    }
    panic!("{:?} did not end the drive's life", host.device.smart());
}

fn assert_read_only(host: &mut MediaHost) {
    let smart = host.device.smart();
    assert!(smart.read_only && smart.spare_blocks == 0 && smart.available_spare_percent == 0, "{smart:?}");
    let data = [0; UNIT_BYTES];
    let writes: [(Lpn, &[u8]); 1] = [(Lpn(0), &data)];
    let ranges = [ShareRange { dst: Lpn(0), src: Lpn(1), units: 1 }];
    for command in [
        Command::Write { lpn: Lpn(0), data: &data, fua: false, handle: None },
        Command::WriteZeroes { lpn: Lpn(0), units: 1 },
        Command::Trim { lpn: Lpn(0), units: 1 },
        Command::Share { ranges: &ranges, deferred: false },
        Command::Remap { src: Lpn(1), dst: Lpn(0), units: 1 },
        Command::WriteAtomic { writes: &writes },
        Command::Begin { tx: &mut TxId::default() },
        Command::BeginLog { generation: &mut Generation::default() },
    ] {
        assert_eq!(submit(&mut host.device, command).unwrap_err(), Status::ReadOnly);
    }
    host.compare();
}

/// What it has acknowledged becomes durable with a flush. The last blocks were used up by garbage collection, each of whose
/// programs might cost another one, and the flush found none.
#[test]
fn at_the_end_of_its_life_a_drive_is_read_only_and_stays_so() {
    for seed in 0..12 {
        println!("seed {seed}");
        let faults = match seed % 3 {
            0 => Faults { seed, program_failure_ppm: 20_000, ..NONE },
            1 => Faults { seed, erase_failure_ppm: 50_000, ..NONE },
            _ => Faults { seed, endurance_cycles: Some(30), ..NONE },
        };
        let mut host = wear_out(faults, seed);
        submit(&mut host.device, Command::Flush).unwrap();
        assert_read_only(&mut host);
        for _ in 0..3 {
            host.cut();
            assert_read_only(&mut host);
        }
        host.device.power_off(host.device.time_ns()).unwrap();
        host.device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
        host.device.audit();
        assert_read_only(&mut host);
    }
}

/// No flush needs to be refused later: what was acknowledged goes to flash when the drive becomes read-only. Without that no
/// test failed, since each of them flushed, or the drive had a capacitor.
#[test]
fn what_waits_goes_to_flash_when_the_drive_becomes_read_only() {
    for seed in [0, 1, 3, 4] {
        let mut host = wear_out(Faults { seed, erase_failure_ppm: 50_000, ..NONE }, seed);
        let before: Vec<_> = (0..host.units()).map(|lpn| host.read(lpn)).collect();
        // until everything issued is there
        host.device.cut_power(host.device.time_ns() + 1_000_000_000);
        host.device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
        let after: Vec<_> = (0..host.units()).map(|lpn| host.read(lpn)).collect();
        assert_eq!(before, after, "seed {seed}");
    }
}

/// No blocks are reserved for a dump any more, so nothing acknowledged may wait in DRAM.
#[test]
fn what_a_capacitor_protects_survives_a_cut_at_the_end_of_the_drives_life() {
    for seed in [2, 5, 8, 11, 14, 17] {
        println!("seed {seed}");
        let faults = match seed % 2 {
            0 => Faults { seed, program_failure_ppm: 20_000, ..NONE },
            _ => Faults { seed, erase_failure_ppm: 50_000, ..NONE },
        };
        let mut host = wear_out(faults, seed);
        host.cut();
        host.compare();
    }
}

#[test]
fn a_read_only_image_opens_and_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("worn");
    let mut device = Device::create(&path, &profile(0)).unwrap();
    let units = device.limits().capacity_units as u32;
    (0..units).for_each(|lpn| write(&mut device, lpn, lpn as u8));
    device.set_faults(Faults { endurance_cycles: Some(4), ..NONE }).unwrap();
    let data = [255; UNIT_BYTES];
    let mut written = vec![0; units as usize];
    for round in 0..400_000_u32 {
        let lpn = round.wrapping_mul(2_654_435_761) % units;
        match submit(&mut device, Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }) {
            Ok(_) => written[lpn as usize] = 1,
            Err(Status::ReadOnly) => break,
            Err(status) => panic!("round {round}: {status}"),
        }
    }
    let at_ns = device.time_ns();
    device.shutdown(at_ns).unwrap();
    let mut device = Device::open(&path).unwrap();
    // without the faults the remaining blocks might be erased once more
    device.set_faults(Faults { endurance_cycles: Some(4), ..NONE }).unwrap();
    for round in 0.. {
        let lpn = round % units;
        match submit(&mut device, Command::Write { lpn: Lpn(lpn), data: &data, fua: true, handle: None }) {
            Ok(_) => written[lpn as usize] = 1,
            Err(Status::ReadOnly) => break,
            Err(status) => panic!("round {round} after the drive was opened again: {status}"),
        }
    }
    let smart = device.smart();
    assert!(smart.read_only && smart.counters.erase_failures > 0 && smart.bad_blocks > 0, "{smart:?}");
    for lpn in 0..units {
        let expected = if written[lpn as usize] == 1 { 255 } else { lpn as u8 };
        let found = read(&mut device, lpn).unwrap();
        // the refused write may have reached the flash
        assert!(found == expected || found == 255, "unit {lpn} reads {found}, not {expected}");
    }
    device.shutdown(0).unwrap();
}

// -- factory bad blocks -------------------------------------------------------------------------------------------

#[test]
fn a_drive_works_around_blocks_that_are_bad_from_the_factory() {
    let mut with_bad = profile(0);
    let spare = Device::in_memory(&with_bad).unwrap().smart().spare_blocks;
    with_bad.flash.factory_bad_blocks = 5;
    let mut host = MediaHost::new(&with_bad, 1, NONE);
    let smart = host.device.smart();
    assert_eq!((smart.bad_blocks, smart.spare_blocks, smart.read_only), (5, spare - 5, false));
    (0..host.units()).for_each(|lpn| host.write(lpn));
    for _ in 0..4 * host.units() {
        host.write_random();
    }
    host.cut();
    host.compare();
    assert_eq!(host.device.smart().bad_blocks, 5);
}

#[test]
fn more_factory_bad_blocks_than_spare_ones_are_refused_with_the_figures() {
    let mut with_bad = profile(0);
    with_bad.flash.factory_bad_blocks = Device::in_memory(&with_bad).unwrap().smart().spare_blocks + 1;
    let error = Device::in_memory(&with_bad).unwrap_err().to_string();
    assert!(error.contains("good flash blocks are too few"), "{error}");
}
