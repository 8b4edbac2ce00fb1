//! How a drive starts and shuts down, and what it reports about that.

use crate::host;
use crate::small_drive;

use std::path::Path;

use host::Host;
use small_drive::small_drive;
use tantalum::{
    Access, CacheMode, Command, Device, Lpn, Outcome, Plp, PowerLoss, Profile, Status, UNIT_BYTES,
};

const ONES: [u8; UNIT_BYTES] = [1; UNIT_BYTES];

fn profile(plp: Plp, cache: CacheMode) -> Profile {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 30.0, plp);
    profile.cache.mode = cache;
    profile
}

fn create(folder: &Path, plp: Plp, cache: CacheMode) -> (std::path::PathBuf, Host) {
    let path = folder.join("drive.tantalum");
    let device = Device::create(&path, &profile(plp, cache)).unwrap();
    (path, Host { device, now_ns: 0 })
}

#[test]
fn a_new_drive_needed_no_recovery() {
    let device = Device::in_memory(&profile(Plp::None, CacheMode::Volatile)).unwrap();
    assert!(device.recovery().clean);
}

#[test]
fn a_device_that_was_put_away_answers_nothing_and_was_shut_down() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut host) = create(folder.path(), Plp::None, CacheMode::Volatile);
    host.write(3, 1);
    host.device.put_away(host.now_ns).unwrap();
    assert_eq!(host.submit(Command::Flush).map(drop), Err(Status::PowerLost));
    let mut host = Host { device: Device::open(&path).unwrap(), now_ns: 0 };
    assert!(host.device.recovery().clean);
    assert_eq!(host.read(3), 1);
}

#[test]
fn recovery_begins_after_the_cut_even_if_the_drive_was_idle() {
    let mut host = Host::new(&profile(Plp::None, CacheMode::Volatile));
    host.write_through(3, 1);
    let cut_ns = host.now_ns + 1_000_000_000;
    host.device.cut_power(cut_ns);
    host.device.power_on(&mut PowerLoss::seeded(1)).unwrap();
    assert!(host.device.time_ns() > cut_ns, "recovered at {} ns, cut at {cut_ns} ns", host.device.time_ns());
}

#[test]
fn what_changed_is_synced_once() {
    let folder = tempfile::tempdir().unwrap();
    let (path, host) = create(folder.path(), Plp::None, CacheMode::Volatile);
    host.device.shutdown(host.now_ns).unwrap();
    let mut host = Host { device: Device::open_as(&path, Access::Ordered).unwrap(), now_ns: 0 };
    if let Some(sync) = host.device.sync_begin().unwrap() {
        sync.run().unwrap();
        host.device.sync_end().unwrap();
    }
    host.write_through(3, 1);
    let sync = host.device.sync_begin().unwrap().expect("a unit was written");
    sync.run().unwrap();
    host.device.sync_end().unwrap();
    assert!(host.device.sync_begin().unwrap().is_none(), "nothing changed since");
}

/// The process lives until the power loss is settled: operations in flight that had not started must not be in the
/// image.
#[test]
fn a_power_loss_that_was_settled_is_in_the_image() {
    for (outcome, expected) in [(Outcome::NotStarted, 0), (Outcome::Completed, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut host) = create(folder.path(), Plp::None, CacheMode::Off);
        let write = Command::Write { lpn: Lpn(3), data: &ONES, fua: true, handle: None };
        let done_ns = host.device.submit(write, 0).unwrap().done_ns;
        host.device.cut_power(done_ns - 1);
        assert!(!host.device.in_flight().is_empty(), "the write is under way");
        host.device.settle_power_loss(&mut PowerLoss::all(outcome)).unwrap();
        drop(host);
        let mut host = Host { device: Device::open(&path).unwrap(), now_ns: 0 };
        host.now_ns = host.device.time_ns();
        assert_eq!(host.read(3), expected, "{outcome:?}");
    }
}

#[test]
fn recovery_tells_how_many_units_the_capacitor_saved() {
    let mut host = Host::new(&profile(Plp::Capacitor, CacheMode::Durable));
    (0..5).for_each(|lpn| host.write(lpn, 1));
    host.device.cut_power(host.now_ns);
    let report = host.device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
    assert_eq!(report.units_restored, 5);
}

#[test]
fn a_device_knows_when_its_last_command_was_issued() {
    let mut host = Host::new(&profile(Plp::None, CacheMode::Volatile));
    host.device.submit(Command::Write { lpn: Lpn(0), data: &ONES, fua: true, handle: None }, 1_000).unwrap();
    assert_eq!(host.device.issued_ns(), 1_000);
}

#[test]
fn units_beyond_the_capacity_are_in_no_range_and_hold_nothing() {
    let host = Host::new(&profile(Plp::None, CacheMode::Volatile));
    let capacity_units = host.device.limits().capacity_units;
    let end = Lpn(capacity_units as u32);
    assert_eq!(host.device.check_range(Lpn(0), capacity_units), Ok(()));
    let beyond = Status::OutOfRange { lpn: end, units: 1, capacity_units };
    assert_eq!(host.device.check_range(end, 1), Err(beyond));
    assert!(!host.device.holds(end, &ONES));
}

/// For a unit in the cache, and for one on flash.
#[test]
fn a_unit_holds_data_only_if_it_reads_so_and_has_no_metadata() {
    let mut host = Host::new(&profile(Plp::None, CacheMode::Volatile));
    let with =
        |lpn, metadata| Command::WriteWithMetadata { lpn: Lpn(lpn), data: &ONES, metadata, fua: false };
    host.submit(with(3, &[0; 24])).unwrap();
    host.submit(with(4, &[7; 24])).unwrap();
    for when in ["cached", "on flash"] {
        let holds = |lpn, byte| host.device.holds(Lpn(lpn), &[byte; UNIT_BYTES]);
        assert_eq!(
            [holds(3, 1), holds(3, 2), holds(4, 1), holds(5, 0)],
            [true, false, false, false],
            "{when}"
        );
        host.flush();
    }
}

#[test]
fn what_waits_in_the_cache_is_trimmed_too() {
    let mut host = Host::new(&profile(Plp::None, CacheMode::Volatile));
    (2..7).for_each(|lpn| host.write(lpn, 1));
    host.submit(Command::Trim { lpn: Lpn(3), units: 3 }).unwrap();
    assert_eq!(host.read_all([2, 3, 4, 5, 6]), [1, 0, 0, 0, 1]);
    host.flush();
    assert_eq!(host.read_all([2, 3, 4, 5, 6]), [1, 0, 0, 0, 1]);
}
