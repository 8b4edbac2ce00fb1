//! Space of an image that goes back to the host's file system.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Access, CacheMode, Command, Device, Lpn, Mapping, Plp, Portion, PowerLoss, Profile, Slack, Status,
    TestHost, UNIT_BYTES,
};
use tempfile::TempDir;

use crate::host::Host;
use crate::small_drive::small_drive;

const UNITS: u32 = 1024;
const NONE: Slack = Slack { garbage_percent: 0, units: 0 };
const PORTION: Portion = Portion { blocks: 2, holes: 4 };

fn profile(plp: Plp) -> Profile {
    profile_with(plp, 100.0)
}

fn profile_with(plp: Plp, over_provisioning_percent: f64) -> Profile {
    let bytes = u64::from(UNITS) * UNIT_BYTES as u64;
    let mut profile = small_drive("tlc-nvme", bytes, over_provisioning_percent, plp);
    profile.cache.mode = if plp == Plp::None { CacheMode::Off } else { CacheMode::Durable };
    profile
}

fn create(plp: Plp, host: &TestHost) -> (TempDir, PathBuf, Host) {
    create_as(&profile(plp), host)
}

fn create_as(profile: &Profile, host: &TestHost) -> (TempDir, PathBuf, Host) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tantalum");
    Device::create(&path, profile).unwrap().shutdown(1 << 40).unwrap();
    let host = open(&path, host);
    (folder, path, host)
}

fn open(path: &Path, host: &TestHost) -> Host {
    let device = Device::open_on(path, Access::Ordered, host).unwrap();
    Host { now_ns: device.time_ns(), device }
}

fn sync(host: &mut Host) {
    if let Some(sync) = host.device.sync_begin().unwrap() {
        sync.run().unwrap();
        host.device.sync_end().unwrap();
    }
}

fn on_disk(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

/// Gives back until nothing is left to do.
fn give_all_back(host: &mut Host, slack: Slack) {
    let mut steps = 0;
    loop {
        let given = host.device.give_space_back(slack, PORTION, host.device.time_ns()).unwrap();
        host.now_ns = host.device.time_ns();
        if !given.has_more && !given.waits {
            break;
        }
        host.device.sync_in_place().unwrap();
        steps += 1;
        assert!(steps < 3000, "it comes to no end: {given:?}");
    }
}

#[test]
fn what_was_overwritten_and_trimmed_takes_no_space_and_the_rest_is_there() {
    for plp in [Plp::None, Plp::Capacitor] {
        let disk = TestHost::new(Mapping::Never, 1);
        let (_folder, path, mut host) = create(plp, &disk);
        for round in 1..4 {
            (0..UNITS / 2).for_each(|lpn| host.write(lpn, round));
            sync(&mut host);
        }
        let before = on_disk(&path);
        let copies = host.device.counters().flash_units.copyback;
        give_all_back(&mut host, NONE);
        let after = on_disk(&path);
        let stored = u64::from(UNITS / 2) * UNIT_BYTES as u64;
        assert!(before > 3 * stored && before - after > stored * 3 / 2, "{plp:?}: {before}, then {after}");
        assert!((0..UNITS / 2).all(|lpn| host.read(lpn) == 3));
        assert!(host.device.counters().flash_units.copyback - copies < u64::from(UNITS));
        (0..UNITS / 2).for_each(|lpn| host.trim(lpn));
        sync(&mut host);
        give_all_back(&mut host, NONE);
        assert!(on_disk(&path) < after - stored * 3 / 4, "{plp:?}: {}", on_disk(&path));
        // it works on, also after a machine was lost
        (0..UNITS / 4).for_each(|lpn| host.write(lpn, 9));
        sync(&mut host);
        drop(host);
        disk.faults.lose_machine(&path).unwrap();
        let mut host = open(&path, &disk);
        assert!((0..UNITS / 2).all(|lpn| host.read(lpn) == if lpn < UNITS / 4 { 9 } else { 0 }));
        host.device.audit_flash().unwrap();
    }
}

/// Random units are overwritten, and every now and then a step is asked for.
#[test]
fn garbage_stays_within_the_slack() {
    let disk = TestHost::new(Mapping::Never, 1);
    // its pages are full
    let (_folder, path, mut host) = create(Plp::Capacitor, &disk);
    (0..UNITS).for_each(|lpn| host.write(lpn, 1));
    sync(&mut host);
    let stored = u64::from(UNITS) * UNIT_BYTES as u64;
    let full = on_disk(&path);
    let mut most = 0;
    for number in 0..6000_u64 {
        host.write((number * 7919 % u64::from(UNITS)) as u32, 2);
        if number % 4 == 0 {
            sync(&mut host);
            let slack = Slack { garbage_percent: 25, units: 16 };
            let at_ns = host.device.time_ns();
            host.device.give_space_back(slack, PORTION, at_ns).unwrap();
            host.now_ns = host.device.time_ns();
            most = most.max(on_disk(&path));
        }
    }
    // of the flash, which is twice as large, everything would have been in use
    assert!(most < full + stored / 2, "{most} instead of {full}");
    assert!((0..UNITS).all(|lpn| host.read(lpn) == 2));
}

#[test]
fn nothing_happens_where_no_host_takes_space_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tantalum");
    let profile = profile(Plp::None);
    drop(Device::create(&path, &profile).unwrap());
    let devices = [Device::in_memory(&profile).unwrap(), Device::open(&path).unwrap()];
    for device in devices {
        let mut host = Host { now_ns: device.time_ns(), device };
        for round in 1..4 {
            (0..UNITS / 2).for_each(|lpn| host.write(lpn, round));
        }
        let before =
            (host.device.flash_operations(), host.device.time_ns(), host.device.counters().blocks_erased);
        let given = host.device.give_space_back(NONE, PORTION, host.now_ns).unwrap();
        assert!(!given.has_more && !given.waits);
        host.device.sync_in_place().unwrap();
        let after =
            (host.device.flash_operations(), host.device.time_ns(), host.device.counters().blocks_erased);
        assert_eq!(before, after);
    }
}

/// A block that was erased ahead of time is opened without another erase.
#[test]
fn a_block_is_erased_once_although_it_is_erased_early() {
    let erases_of = |gives_back: bool| {
        let disk = TestHost::new(Mapping::Never, 1);
        let (_folder, _path, mut host) = create(Plp::None, &disk);
        for round in 1..12 {
            (0..UNITS).for_each(|lpn| host.write(lpn, round));
            sync(&mut host);
            if gives_back {
                give_all_back(&mut host, Slack { garbage_percent: 100, units: UNITS });
            }
        }
        host.device.counters().blocks_erased
    };
    let (with, without) = (erases_of(true), erases_of(false));
    assert!(with < without + without / 50 && without > 1000, "{with} instead of {without}");
}

/// Power is lost while blocks are erased and emptied; the drive has few blocks left.
#[test]
fn power_may_be_lost_at_any_operation_while_space_goes_back() {
    let (mut cuts, mut during) = (0, 0);
    for seed in 0..40 {
        let plp = if seed % 2 == 0 { Plp::None } else { Plp::Capacitor };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let disk = TestHost::new(Mapping::Never, seed);
        let profile = profile_with(plp, [33.0, 100.0][seed as usize / 2 % 2]);
        let (_folder, _path, mut host) = create_as(&profile, &disk);
        let mut stored = vec![0; UNITS as usize];
        for step in 1..600_u32 {
            if random.random_ratio(1, 16) {
                host.device.cut_after(Some(random.random_range(1..=12)));
            }
            let mut unknown = None;
            let answer = if random.random_ratio(1, 3) {
                let slack = Slack { garbage_percent: 0, units: random.random_range(0..64) };
                let at_ns = host.device.issued_ns().max(host.now_ns);
                let given = host.device.give_space_back(slack, PORTION, at_ns).map(drop);
                during += u64::from(given.is_err());
                given
            } else {
                let (lpn, byte) = (random.random_range(0..UNITS), step as u8);
                let data = [byte; UNIT_BYTES];
                let write = Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None };
                unknown = Some((lpn, byte));
                host.submit(write).map(|_| {
                    stored[lpn as usize] = byte;
                    unknown = None;
                })
            };
            if random.random_ratio(1, 4) && answer.is_ok() {
                host.now_ns = host.device.time_ns();
                sync(&mut host);
            }
            let Err(error) = answer else { continue };
            assert!(matches!(error, Status::PowerLost), "seed {seed}, step {step}: {error}");
            cuts += 1;
            host.device.power_on(&mut PowerLoss::seeded(seed << 20 | u64::from(step))).unwrap();
            host.device.audit_flash().unwrap();
            host.now_ns = host.device.time_ns();
            if let Some((lpn, byte)) = unknown
                && host.read(lpn) == byte
            {
                stored[lpn as usize] = byte;
            }
            let is_stored = |lpn| host.read(lpn) == stored[lpn as usize];
            assert!((0..UNITS).all(is_stored), "seed {seed}, step {step}");
        }
    }
    assert!(cuts > 400 && during > 100, "{cuts}, {during} of them while space goes back");
}

#[test]
fn a_host_that_fails_meanwhile_stops_the_drive_and_reads_go_on() {
    use tantalum::{HostFailure, HostFault};

    let disk = TestHost::new(Mapping::Never, 1);
    let (_folder, path, mut host) = create(Plp::None, &disk);
    for round in 1..4 {
        (0..UNITS / 2).for_each(|lpn| host.write(lpn, round));
        sync(&mut host);
    }
    let mut syncs = 0;
    disk.faults.fail(HostFault { after: 40, failure: HostFailure::Io, lasts: true });
    let error = loop {
        let at_ns = host.device.time_ns();
        match host.device.give_space_back(NONE, PORTION, at_ns) {
            Err(error) => break error,
            Ok(_) => match host.device.sync_in_place() {
                Err(error) => break error,
                Ok(()) => syncs += 1,
            },
        }
        assert!(syncs < 1000);
    };
    assert!(matches!(error, Status::Host(_)), "{error}");
    disk.faults.heal();
    host.now_ns = host.device.time_ns();
    drop(host);
    disk.faults.lose_machine(&path).unwrap();
    let mut host = open(&path, &disk);
    assert!((0..UNITS / 2).all(|lpn| host.read(lpn) == 3));
}
