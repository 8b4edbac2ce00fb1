//! A command that changes something and fails halfway leaves doubt. The drive then accepts no more changes, and what can
//! be read stays readable.

use crate::host;
use crate::small_drive;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use host::Host;
use small_drive::small_drive;
use tantalum::{Command, Device, Key, KvRecord, Lpn, NamespaceId, Plp, Status, UNIT_BYTES};

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
    host.submit(Command::Write { lpn: Lpn(9), data: &data, fua: false }).unwrap();

    let put = [KvRecord { namespace: first, key: Key::new(b"new").unwrap(), value: Some(b"value") }];
    assert_eq!(host.submit(Command::KvPut { records: &put }), Err(damaged.clone()));
    let data = [4; UNIT_BYTES];
    let write = host.submit(Command::Write { lpn: Lpn(9), data: &data, fua: false });
    assert_eq!(write, Err(damaged.clone()));
    assert_eq!(host.submit(Command::Flush), Err(damaged.clone()));
    assert_eq!(host.read_all([7, 8, 9]), [1, 2, 3]);
    assert_eq!(host.device.shutdown(host.now_ns), Err(damaged));
}
