//! A purge leaves nothing of what was deallocated, overwritten or deleted in the image: on flash, in spare areas, in buffers and in
//! memory that keeps its contents; and everything that is in use stays.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Device, FailingStep, FdpProfile, Handle, Isolation, Key, KvRecord, Lpn, METADATA_BYTES,
    NamespaceAttributes, NamespaceId, Outcome, Plp, PowerLoss, Profile, Status, StepFault, TxId, UNIT_BYTES,
};

use crate::small_drive::small_drive;

const UNITS: u32 = 1024;
/// In everything that must be gone.
const OLD: &[u8; 16] = b"OLD-DATA-PATTERN";
const NEW: &[u8; 16] = b"living-data-here";

/// Handles with which the host places data.
const HANDLES: u32 = 3;

/// Without handles, and with both kinds of them.
const PLACEMENTS: [Option<Isolation>; 3] = [None, Some(Isolation::Initially), Some(Isolation::Persistently)];

fn profile(plp: Plp, placement: Option<Isolation>) -> Profile {
    let mut profile = small_drive("tlc-nvme", u64::from(UNITS) * UNIT_BYTES as u64, 50.0, plp);
    if let Some(isolation) = placement {
        profile.fdp = Some(FdpProfile { handles: HANDLES, isolation });
        profile.over_provisioning_percent = 400.0;
    }
    profile
}

fn unit(pattern: &[u8; 16], lpn: u32) -> Vec<u8> {
    let mut unit = pattern.repeat(UNIT_BYTES / 16);
    unit[100..104].copy_from_slice(&lpn.to_le_bytes());
    unit
}

fn submit(device: &mut Device, command: Command<'_>) -> Result<(), Status> {
    let at_ns = device.time_ns();
    device.submit(command, at_ns).map(drop)
}

/// How often a pattern is in a file.
fn count(path: &Path, pattern: &[u8]) -> usize {
    std::fs::read(path).unwrap().windows(pattern.len()).filter(|found| *found == pattern).count()
}

/// Writes old data in every way there is, and makes them old; unit 0 and a record stay.
fn fill(device: &mut Device, rng: &mut Xoshiro256PlusPlus) -> NamespaceId {
    let namespace = &mut NamespaceId::default();
    submit(device, Command::CreateNamespace { attributes: NamespaceAttributes::default(), namespace })
        .unwrap();
    let namespace = *namespace;
    let key = |number: u32| Key::new(&[&OLD[..12], &number.to_le_bytes()].concat()).unwrap();
    let stays = Key::new(b"stays").unwrap();
    submit(device, Command::KvPut { records: &[KvRecord { namespace, key: stays, value: Some(NEW) }] })
        .unwrap();
    let has_handles = !device.handles().is_empty();
    for number in 0..3 * UNITS {
        let lpn = if number < UNITS - 8 { number } else { rng.random_range(0..UNITS - 8) };
        let handle = has_handles.then_some(Handle((lpn % HANDLES) as u8));
        submit(device, Command::Write { lpn: Lpn(lpn), data: &unit(OLD, lpn), fua: false, handle }).unwrap();
    }
    submit(device, Command::Trim { lpn: Lpn(0), units: UNITS }).unwrap();
    let mut metadata = [0; METADATA_BYTES];
    metadata[..16].copy_from_slice(OLD);
    let command =
        Command::WriteWithMetadata { lpn: Lpn(7), data: &unit(OLD, 7), metadata: &metadata, fua: false };
    submit(device, command).unwrap();
    let writes: Vec<(Lpn, Vec<u8>)> = (20..24).map(|lpn| (Lpn(lpn), unit(OLD, lpn))).collect();
    let writes: Vec<(Lpn, &[u8])> = writes.iter().map(|(lpn, data)| (*lpn, &data[..])).collect();
    submit(device, Command::WriteAtomic { writes: &writes }).unwrap();
    let tx = &mut TxId::default();
    submit(device, Command::Begin { tx }).unwrap();
    submit(device, Command::TxWrite { tx: *tx, lpn: Lpn(30), data: &unit(OLD, 30) }).unwrap();
    submit(device, Command::Abort { tx: *tx }).unwrap();
    for number in 0..40 {
        let value = OLD.repeat(if number % 4 == 0 { 700 } else { 3 });
        let record = KvRecord { namespace, key: key(number), value: Some(&value) };
        submit(device, Command::KvPut { records: &[record] }).unwrap();
    }
    submit(device, Command::Flush).unwrap();
    for number in 0..40 {
        submit(device, Command::KvDelete { namespace, key: key(number) }).unwrap();
    }
    submit(device, Command::Write { lpn: Lpn(0), data: &unit(NEW, 0), fua: false, handle: None }).unwrap();
    submit(device, Command::Trim { lpn: Lpn(1), units: UNITS - 1 }).unwrap();
    submit(device, Command::Flush).unwrap();
    namespace
}

fn check_new(device: &mut Device, namespace: NamespaceId) {
    let (mut data, mut value) = (vec![0; UNIT_BYTES], Vec::new());
    submit(device, Command::Read { lpn: Lpn(0), data: &mut data }).unwrap();
    assert!(data == unit(NEW, 0));
    let key = Key::new(b"stays").unwrap();
    submit(device, Command::KvGet { namespace, key, value: &mut value }).unwrap();
    assert_eq!(value, NEW);
    device.audit();
    device.audit_flash().unwrap();
}

#[test]
fn nothing_old_is_left_in_the_image() {
    let kinds = [Plp::None, Plp::Capacitor].into_iter().flat_map(|plp| PLACEMENTS.map(|of| (plp, of)));
    for (plp, placement, is_cut) in kinds.flat_map(|(plp, of)| [(plp, of, false), (plp, of, true)]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive.tant");
        let mut device = Device::create(&path, &profile(plp, placement)).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let namespace = fill(&mut device, &mut rng);
        // what a capacitor dumps and recovery reads is old as well
        if is_cut {
            let at_ns = device.time_ns();
            device.cut_power(at_ns);
            device.power_on(&mut PowerLoss::seeded(1)).unwrap();
        }
        assert!(count(&path, OLD) > 1000 && count(&path, &OLD[..12]) > 0);
        let at_ns = device.time_ns();
        assert_eq!(device.purge(at_ns), Ok(0));
        assert_eq!((count(&path, OLD), count(&path, &OLD[..12])), (0, 0), "{plp:?}, {placement:?}");
        check_new(&mut device, namespace);
        if placement.is_some() {
            for lpn in (1..UNITS - 8).rev() {
                let handle = Some(Handle((lpn % HANDLES) as u8));
                let command = Command::Write { lpn: Lpn(lpn), data: &unit(NEW, lpn), fua: false, handle };
                submit(&mut device, command).unwrap();
            }
        }
        let at_ns = device.time_ns();
        device.shutdown(at_ns).unwrap();
        assert_eq!(count(&path, &OLD[..12]), 0);
        check_new(&mut Device::open(&path).unwrap(), namespace);
    }
}

/// What cuts have left partly filled is emptied, and not filled further meanwhile: a block of copies was erased as a victim.
#[test]
fn a_purge_after_power_cuts_keeps_what_is_in_use() {
    let kinds = [Plp::None, Plp::Capacitor].into_iter().flat_map(|plp| PLACEMENTS.map(|of| (plp, of)));
    for (plp, placement) in kinds {
        let mut device = Device::in_memory(&profile(plp, placement)).unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut expected: Vec<Option<Vec<u8>>> = vec![None; UNITS as usize];
        for round in 0..12_u32 {
            // three rounds leave blocks partly filled; then what is in them is copied, and there is garbage to collect
            let is_purged = round % 4 == 3;
            if is_purged {
                let at_ns = device.time_ns();
                assert_eq!(device.purge(at_ns), Ok(0));
                device.audit();
            }
            for _ in 0..if is_purged { 8 * UNITS } else { 60 } {
                let lpn = rng.random_range(0..UNITS);
                let handle = placement.map(|_| Handle((lpn % HANDLES) as u8));
                let data = unit(NEW, lpn << 8 | round);
                submit(&mut device, Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle })
                    .unwrap();
                expected[lpn as usize] = Some(data);
            }
            submit(&mut device, Command::Flush).unwrap();
            device.audit();
            device.audit_flash().unwrap();
            let at_ns = device.time_ns();
            device.cut_power(at_ns);
            device.power_on(&mut PowerLoss::seeded(u64::from(round))).unwrap();
            for (lpn, expected) in expected.iter().enumerate() {
                let mut data = vec![0; UNIT_BYTES];
                submit(&mut device, Command::Read { lpn: Lpn(lpn as u32), data: &mut data }).unwrap();
                let is_right =
                    expected.as_ref().map_or(data == [0; UNIT_BYTES], |expected| data == *expected);
                assert!(is_right, "{plp:?}, {placement:?}, round {round}, {lpn}");
            }
        }
    }
}

/// Records that leave no whole unit of their block unused when they are deleted.
#[test]
fn nothing_is_left_of_few_records_among_many() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let mut device = Device::create(&path, &profile(Plp::None, None)).unwrap();
    let namespace = &mut NamespaceId::default();
    submit(&mut device, Command::CreateNamespace { attributes: NamespaceAttributes::default(), namespace })
        .unwrap();
    let namespace = *namespace;
    let key = |number: u32| Key::new(&number.to_le_bytes()).unwrap();
    for first in (0..4000_u32).step_by(100) {
        let value = |number: u32| if number.is_multiple_of(500) { OLD.repeat(4) } else { NEW.repeat(12) };
        let values: Vec<(Key, Vec<u8>)> =
            (first..first + 100).map(|number| (key(number), value(number))).collect();
        let records: Vec<_> =
            values.iter().map(|(key, value)| KvRecord { namespace, key: *key, value: Some(value) }).collect();
        submit(&mut device, Command::KvPut { records: &records }).unwrap();
    }
    for number in (0..4000).step_by(500) {
        submit(&mut device, Command::KvDelete { namespace, key: key(number) }).unwrap();
    }
    submit(&mut device, Command::Flush).unwrap();
    assert!(count(&path, OLD) > 0);
    let at_ns = device.time_ns();
    assert_eq!(device.purge(at_ns), Ok(0));
    assert_eq!(count(&path, OLD), 0);
    for number in 0..4000 {
        let mut value = Vec::new();
        let found = submit(&mut device, Command::KvGet { namespace, key: key(number), value: &mut value });
        assert_eq!(found.is_ok(), number % 500 != 0, "{number}");
    }
}

/// A block that failed a program is out of use, with what was in it: nobody may erase it any more.
#[test]
fn a_purge_counts_the_blocks_that_keep_old_data() {
    let mut device = Device::in_memory(&profile(Plp::None, None)).unwrap();
    let write_all = |device: &mut Device| {
        for lpn in 0..UNITS - 8 {
            let command = Command::Write { lpn: Lpn(lpn), data: &unit(OLD, lpn), fua: false, handle: None };
            submit(device, command).unwrap();
        }
        submit(device, Command::Flush).unwrap();
    };
    write_all(&mut device);
    let at_ns = device.time_ns();
    assert_eq!(device.purge(at_ns), Ok(0));
    for kept in 1..3 {
        let after = 20 * u64::from(kept);
        device.fail_step(Some(StepFault { step: FailingStep::Program, after, lasts: false })).unwrap();
        write_all(&mut device);
        assert!(device.step_has_failed());
        submit(&mut device, Command::Trim { lpn: Lpn(0), units: UNITS }).unwrap();
        submit(&mut device, Command::Flush).unwrap();
        let at_ns = device.time_ns();
        assert_eq!(device.purge(at_ns), Ok(kept));
    }
}

/// Power is cut at each flash operation of a purge. What is in use stays, and a purge after that leaves nothing old.
#[test]
fn a_purge_that_power_cuts_short_is_repeated() {
    let persistently = Some(Isolation::Persistently);
    for (plp, placement) in [(Plp::None, None), (Plp::Capacitor, None), (Plp::None, persistently)] {
        let mut cuts = 0;
        for operation in (1..).step_by(3) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("drive.tant");
            let mut device = Device::create(&path, &profile(plp, placement)).unwrap();
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(operation);
            let namespace = fill(&mut device, &mut rng);
            device.cut_after(Some(operation));
            let at_ns = device.time_ns();
            if device.purge(at_ns) == Ok(0) {
                break;
            }
            cuts += 1;
            let mut loss = match operation % 3 {
                0 => PowerLoss::all(Outcome::Completed),
                _ => PowerLoss::seeded(operation),
            };
            device.power_on(&mut loss).unwrap();
            check_new(&mut device, namespace);
            let at_ns = device.time_ns();
            assert_eq!(device.purge(at_ns), Ok(0));
            assert_eq!((count(&path, OLD), count(&path, &OLD[..12])), (0, 0), "{plp:?}, {operation}");
            check_new(&mut device, namespace);
        }
        println!("{cuts} cuts, {plp:?}, {placement:?}");
        assert!(cuts > 5);
    }
}
