//! A command that changes something and fails halfway leaves doubt. The drive then accepts no more changes, and what can
//! be read stays readable.

use crate::host;
use crate::small_drive;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use host::Host;
use small_drive::small_drive;
use tantalum::{
    Access, Command, CommandFailure, Completion, Device, FailingStep, Faults, HostCall, HostFailure,
    HostFault, Key, KvRecord, Lpn, Mapping, NamespaceAttributes, NamespaceId, Plp, ShareRange, Status,
    StepFault, TestHost, TxId, UNIT_BYTES, result_of,
};

/// A drive that keeps in DRAM only the index that is in use, and namespaces; the index of the first one is on flash.
fn swapped_out(path: &Path) -> (Host, [NamespaceId; 3]) {
    let mut profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None);
    profile.limits.index_dram_bytes = Some(1);
    profile.ftl.checkpoint_interval_pages = Some(1_000_000);
    let mut host = Host { device: Device::create(path, &profile).unwrap(), now_ns: 0 };
    let namespaces = [(); 3].map(|()| host.create_namespace());
    host.write_through(7, 1);
    for namespace in namespaces {
        for number in 0..20 {
            host.put(namespace, number, 100).unwrap();
        }
        host.flush();
    }
    host.write_through(8, 2);
    for namespace in [namespaces[1], namespaces[2]] {
        get(&mut host, namespace, 3).unwrap();
    }
    (host, namespaces)
}

fn get(host: &mut Host, namespace: NamespaceId, number: u32) -> Result<Vec<u8>, Status> {
    let (key, mut value) = (Key::new(&number.to_le_bytes()).unwrap(), Vec::new());
    host.submit(Command::KvGet { namespace, key, value: &mut value })?;
    Ok(value)
}

/// Changes a byte of every stored unit that is more than one byte repeated.
fn damage_structured_units(image: &Path, units: u64) {
    let file = File::options().read(true).write(true).open(image).unwrap();
    let mut unit = [0; UNIT_BYTES];
    // the units end the file
    let end = file.metadata().unwrap().len();
    for at in (0..units).map(|index| end - (index + 1) * UNIT_BYTES as u64) {
        file.read_exact_at(&mut unit, at).unwrap();
        if unit.iter().any(|byte| *byte != unit[0]) {
            file.write_all_at(&[!unit[0]], at).unwrap();
        }
    }
}

#[test]
fn after_a_change_that_met_damage_the_drive_takes_no_more_and_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let (mut host, [first, ..]) = swapped_out(&path);
    damage_structured_units(&path, host.device.profile().geometry().unwrap().units().into());
    // a get that meets damage changes nothing, and so leaves no doubt
    let damaged = get(&mut host, first, 3).unwrap_err();
    assert!(matches!(damaged, Status::Damaged(_)), "{damaged}");
    let data = [3; UNIT_BYTES];
    host.submit(Command::Write { lpn: Lpn(9), data: &data, fua: false, handle: None }).unwrap();

    let put = [KvRecord { namespace: first, key: Key::new(b"new").unwrap(), value: Some(b"value") }];
    assert_eq!(host.submit(Command::KvPut { records: &put }), Err(damaged.clone()));
    let data = [4; UNIT_BYTES];
    let write = host.submit(Command::Write { lpn: Lpn(9), data: &data, fua: false, handle: None });
    assert_eq!(write, Err(damaged.clone()));
    assert_eq!(host.submit(Command::Flush), Err(damaged.clone()));
    assert_eq!(host.read_all([7, 8, 9]), [1, 2, 3]);
    assert_eq!(host.device.shutdown(host.now_ns), Err(damaged));
}

/// A read took a checkpoint for the memory of an index, and failed on a host that had failed. Where a command had failed in the
/// middle, the checkpoint made durable what that had changed.
#[test]
fn a_drive_that_has_stopped_takes_no_checkpoint_for_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let (mut host, [_, second, third]) = swapped_out(&folder.path().join("drive.tant"));
    let index_checkpoints = |host: &Host| host.device.smart().counters.index_checkpoints;
    // the index of the second namespace has changed since the last checkpoint
    for stops in [false, true] {
        host.put(second, 3, 100).unwrap();
        if stops {
            host.device.fail_command(Some((1, CommandFailure::HostBefore)));
            host.submit(Command::Flush).unwrap_err();
        }
        let before = index_checkpoints(&host);
        get(&mut host, third, 3).unwrap();
        assert_eq!(index_checkpoints(&host) - before, u64::from(!stops));
    }
}

/// ext4 had no block for a page that it had reserved: the store of a mapped page got SIGBUS, which ended the process.
#[test]
fn after_a_page_that_the_host_could_not_serve_the_drive_takes_no_more_and_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None);
    Device::create(&path, &profile).unwrap().shutdown(0).unwrap();
    let test_host = TestHost::new(Mapping::Allowed, 1);
    let device = Device::open_on(&path, Access::Write, &test_host).unwrap();
    let mut host = Host { now_ns: device.time_ns(), device };
    host.write_through(7, 1);
    host.submit(Command::Begin { tx: &mut TxId::default() }).unwrap();
    test_host.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true });
    let before = test_host.faults.call_count();
    let write = Command::Write { lpn: Lpn(8), data: &[2; UNIT_BYTES], fua: true, handle: None };
    let refused = host.submit(write).unwrap_err();
    assert!(matches!(refused, Status::Host(_)), "{refused}");
    let calls = test_host.faults.calls_since(before);
    let is_mapped = calls.contains(&HostCall::Store);
    let ends_so = calls.ends_with(&[HostCall::Store, HostCall::Write]);
    assert!(ends_so || !is_mapped, "a system call says what is wrong: {calls:?}");
    test_host.faults.heal();
    assert_eq!(host.submit(Command::Begin { tx: &mut TxId::default() }).map(drop), Err(refused.clone()));
    assert_eq!(host.submit(Command::Flush).map(drop), Err(refused.clone()));
    assert_eq!(host.read(7), 1);
    assert_eq!(host.device.shutdown(host.now_ns), Err(refused));
    let device = Device::open(&path).unwrap();
    let mut host = Host { now_ns: device.time_ns(), device };
    assert_eq!(host.read(7), 1);
    assert!([0, 2].contains(&host.read(8)), "it was not acknowledged");
}

/// An image on a full disk could not be opened at all.
#[test]
fn what_can_only_be_read_refuses_changes_and_has_nothing_to_flush_or_close() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    let profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None);
    let mut host = Host { device: Device::create(&path, &profile).unwrap(), now_ns: 0 };
    host.write_through(7, 1);
    host.flush();
    drop(host);
    let as_it_was = std::fs::read(&path).unwrap();
    let disk = TestHost::new(Mapping::Never, 1);
    disk.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true });
    let (mut device, why) = Device::open_or_read_on(&path, Access::Write, &disk).unwrap();
    let why = why.expect("the disk is full");
    assert!(matches!(&why, Status::WriteProtected(_)) && why.to_string().contains("No space left"), "{why}");
    device.refuse_changes(why.clone());
    let now_ns = device.time_ns();
    let mut host = Host { device, now_ns };
    let data = [2; UNIT_BYTES];
    let write = host.submit(Command::Write { lpn: Lpn(7), data: &data, fua: false, handle: None });
    assert_eq!(write, Err(why.clone()));
    assert_eq!(host.submit(Command::Trim { lpn: Lpn(7), units: 1 }), Err(why));
    host.submit(Command::Flush).expect("nothing waits to become durable");
    assert_eq!(host.read_all([7]), [1]);
    host.device.shutdown(host.now_ns).expect("nothing was changed");
    assert!(std::fs::read(&path).unwrap() == as_it_was, "the image was changed");
}

/// A drive whose format could not be stored left its image behind.
#[test]
fn an_image_that_cannot_be_created_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    for plp in [Plp::None, Plp::Capacitor] {
        let mut profile = small_drive("tlc-nvme", 8 << 20, 100.0, plp);
        profile.flash.factory_bad_blocks = 3;
        for mapping in [Mapping::Allowed, Mapping::Never] {
            for (failure, lasts) in
                [(HostFailure::Io, false), (HostFailure::NoSpace, true), (HostFailure::Io, true)]
            {
                let (mut refused, mut made) = (0, 0);
                for after in 0.. {
                    let disk = TestHost::new(mapping, after);
                    disk.faults.fail(HostFault { after, failure, lasts });
                    let created = Device::create_on(&path, &profile, &disk);
                    disk.faults.heal();
                    let at = format!(
                        "{plp:?}, {mapping:?}, {failure:?} at call {after}: {:?}",
                        disk.faults.failed()
                    );
                    match created {
                        Err(_) => {
                            refused += 1;
                            let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
                            assert!(left.is_empty(), "{at}: {left:?}");
                        }
                        Ok(device) => {
                            made += 1;
                            drop(device);
                            let opened = Device::open(&path).unwrap_or_else(|error| panic!("{at}: {error}"));
                            assert_eq!(opened.limits().capacity_units, (8 << 20) / UNIT_BYTES as u64, "{at}");
                            drop(opened);
                            std::fs::remove_file(&path).unwrap();
                        }
                    }
                    if disk.faults.failed().is_none() {
                        break;
                    }
                }
                assert!(refused > 2 && made > 0, "{refused} were refused, {made} made");
            }
        }
    }
}

#[test]
fn a_file_that_exists_stays_as_it_is_when_an_image_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    std::fs::write(&path, "not an image").unwrap();
    let profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None);
    for after in 0..4 {
        let disk = TestHost::new(Mapping::Never, after);
        disk.faults.fail(HostFault { after, failure: HostFailure::Io, lasts: true });
        assert!(Device::create_on(&path, &profile, &disk).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"not an image");
    }
}

/// A drive with units 7 and 8, a transaction that has written unit 9, and a namespace.
fn with_transaction() -> (Host, TxId, NamespaceId) {
    let mut profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None);
    profile.ftl.checkpoint_interval_pages = Some(1);
    let mut host = Host::new(&profile);
    let namespace = host.create_namespace();
    host.write_through(7, 1);
    host.write_through(8, 2);
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    host.submit(Command::TxWrite { tx, lpn: Lpn(9), data: &[3; UNIT_BYTES] }).unwrap();
    (host, tx, namespace)
}

/// Submits a command to a copy of the drive, on which a step of it fails; none if it has no such step.
fn failing(
    host: &Host,
    (step, after): (FailingStep, u64),
    submit: impl FnOnce(&mut Host) -> Result<Completion, Status>,
) -> Option<(Host, Result<Completion, Status>)> {
    let mut copy = host.fork();
    copy.device.fail_step(Some(StepFault { step, after, lasts: false })).unwrap();
    let answer = submit(&mut copy);
    let failed = copy.device.step_has_failed();
    copy.device.fail_step(None).unwrap();
    failed.then_some((copy, answer))
}

/// The map had the change, and the page of its record found no room: the status said that nothing was changed, and the next
/// flush made the change durable. No test let the journal fail between the two.
#[test]
fn a_change_of_the_map_whose_record_finds_no_room_stops_the_drive() {
    type Submit<'a> = &'a dyn Fn(&mut Host) -> Result<Completion, Status>;
    let (host, tx, namespace) = with_transaction();
    let ranges = [ShareRange { dst: Lpn(20), src: Lpn(7), units: 1 }];
    let attributes = NamespaceAttributes::default();
    // with the units that nobody knows once it has failed
    let commands: [(&str, &[u32], Submit<'_>); 5] = [
        ("share", &[20], &|host| host.submit(Command::Share { ranges: &ranges, deferred: false })),
        ("remap", &[7, 20], &|host| host.submit(Command::Remap { src: Lpn(7), dst: Lpn(20), units: 1 })),
        ("commit", &[9], &|host| host.submit(Command::Commit { tx })),
        ("create", &[], &|host| {
            host.submit(Command::CreateNamespace { attributes, namespace: &mut NamespaceId::default() })
        }),
        ("delete", &[], &|host| host.submit(Command::DeleteNamespace { namespace })),
    ];
    for (name, unknown, submit) in commands {
        let mut stopped = 0;
        for after in 0.. {
            let Some((mut copy, answer)) = failing(&host, (FailingStep::Reservation, after), submit) else {
                break;
            };
            let Err(status) = answer else { continue };
            if status != Status::CapacityExceeded {
                assert_eq!(
                    status,
                    Status::Unfinished(Box::new(Status::CapacityExceeded)),
                    "{name}, room {after}"
                );
                assert_eq!(
                    copy.submit(Command::Flush).map(drop),
                    Err(status.clone()),
                    "{name}, room {after}"
                );
                let data = &mut [0; UNIT_BYTES];
                for lpn in unknown {
                    let read = copy.submit(Command::Read { lpn: Lpn(*lpn), data });
                    assert_eq!(read.map(drop), Err(status.clone()), "{name}, room {after}: unit {lpn}");
                }
                assert_eq!(copy.read(8), 2, "{name}, room {after}");
                let read = copy.submit(Command::TxRead { tx, lpn: Lpn(9), data });
                assert_eq!(read.map(drop), Err(status), "{name}, room {after}: it can commit no more");
                stopped += 1;
            } else {
                copy.flush();
                assert_eq!(copy.read_all([7, 9, 20]), [1, 0, 0], "{name}, room {after}");
                assert_eq!(copy.device.namespaces().len(), 1, "{name}, room {after}");
            }
        }
        assert!(stopped > 0, "{name}: its page of the journal found room each time");
    }
}

/// The commit was durable, and then a buffer was missing for a checkpoint: the commit failed with a status that says that
/// nothing was changed. Only a lack of room was overlooked.
#[test]
fn a_commit_that_is_done_is_acknowledged_although_maintenance_fails() {
    let (host, tx, _) = with_transaction();
    let mut overlooked = 0;
    for after in 0.. {
        let submit = |host: &mut Host| host.submit(Command::Commit { tx });
        let Some((mut copy, answer)) = failing(&host, (FailingStep::Buffer, after), submit) else { break };
        match &answer {
            Ok(_) => overlooked += 1,
            Err(Status::Unfinished(_)) => continue,
            Err(status) => assert!(matches!(status, Status::OutOfBuffers { .. }), "buffer {after}: {status}"),
        }
        let expected = if answer.is_ok() { 3 } else { 0 };
        assert_eq!(copy.read(9), expected, "buffer {after}");
    }
    assert!(overlooked > 0, "no buffer was needed after the commit");
}

/// Whoever overlooks that a sync failed does not go on: a later sync must not make durable what is built on it.
#[test]
fn after_a_sync_that_failed_nothing_more_is_stored_or_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive.tant");
    Device::create(&path, &small_drive("tlc-nvme", 8 << 20, 100.0, Plp::None)).unwrap().shutdown(0).unwrap();
    let disk = TestHost::new(Mapping::Never, 1);
    let device = Device::open_on(&path, Access::Ordered, &disk).unwrap();
    let mut host = Host { now_ns: device.time_ns(), device };
    host.write_through(7, 1);
    let sync = host.device.sync_begin().unwrap().expect("a unit was written");
    // the group is written first
    disk.faults.fail(HostFault { after: 1, failure: HostFailure::Io, lasts: false });
    assert!(sync.run().is_err() && disk.faults.failed() == Some(HostCall::Sync));
    disk.faults.heal();
    assert!(
        matches!(host.device.sync_begin(), Err(Status::Host(_))),
        "nothing changed since, and it is not durable"
    );
    let write = Command::Write { lpn: Lpn(8), data: &[2; UNIT_BYTES], fua: true, handle: None };
    assert!(matches!(host.submit(write), Err(Status::Host(_))));
    assert!(matches!(host.submit(Command::Flush), Err(Status::Host(_))));
    let _ = host.device.sync_end();
    assert!(matches!(host.device.sync_begin(), Err(Status::Host(_))));
    assert_eq!(host.read(7), 1);
    assert!(matches!(host.device.shutdown(host.now_ns), Err(Status::Host(_))));
}

/// What waits is stored when too few blocks are left and the drive becomes read-only. No test had the host fail in that.
#[test]
fn a_drive_whose_host_fails_while_it_becomes_read_only_takes_no_more() {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 100.0, Plp::None);
    profile.cache.bytes = 16 * UNIT_BYTES as u64;
    let write = |host: &mut Host, number: u32| {
        let lpn = Lpn(number.wrapping_mul(2_654_435_761) % 1024);
        host.submit(Command::Write { lpn, data: &[number as u8; UNIT_BYTES], fua: false, handle: None })
    };
    let folder = tempfile::tempdir().unwrap();
    let begun = |disk: &TestHost, name: &str| {
        let device = Device::create_on(&folder.path().join(name), &profile, disk).unwrap();
        let mut host = Host { now_ns: device.time_ns(), device };
        host.device.set_faults(Faults { seed: 1, program_failure_ppm: 20_000, ..Faults::default() }).unwrap();
        host
    };
    let disk = TestHost::new(Mapping::Never, 1);
    let mut host = begun(&disk, "worn.tant");
    let (mut last, mut calls) = (0, 0);
    while !host.device.is_read_only() {
        let before = disk.faults.call_count();
        let written = write(&mut host, last);
        assert!(written.is_ok() || host.device.is_read_only(), "{written:?}");
        calls = disk.faults.calls_since(before).len() as u64;
        last += 1;
    }
    // it sends to flash what waits, and then a checkpoint
    let mut failed = 0;
    for from_the_end in (1..calls).step_by((calls / 16).max(1) as usize) {
        let disk = TestHost::new(Mapping::Never, 1);
        let mut host = begun(&disk, &format!("{from_the_end}.tant"));
        for number in 0..last - 1 {
            write(&mut host, number).unwrap();
        }
        let after = calls - from_the_end;
        disk.faults.fail(HostFault { after, failure: HostFailure::Io, lasts: false });
        let _ = write(&mut host, last - 1);
        if !host.device.is_read_only() || disk.faults.failed().is_none() {
            continue;
        }
        failed += 1;
        let ended = host.device.ended().expect("the host has failed");
        assert!(matches!(ended, Status::Host(_)), "{ended}");
        assert_eq!(host.submit(Command::Flush).map(drop), Err(ended));
    }
    assert!(failed > 0, "the host never failed so late");
}
