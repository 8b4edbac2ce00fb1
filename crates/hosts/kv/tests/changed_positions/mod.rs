//! A commit that deletes keys by their positions is interrupted, and then the keys are at other positions: something that the
//! drive must never do.

use tantalum::{Command, Device, Key, KvRecord, PowerLoss, Profile};
use tantalum_kv::{Error, Options, Store};

const RECORDS: u32 = 3000;

/// A drive with a store whose commit is interrupted once it counts.
fn interrupted() -> Device {
    for operations in 1.. {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 64 << 20;
        let store = Store::over(Device::in_memory(&profile).unwrap(), Options::default()).unwrap();
        let namespace = store.hashed_namespace("all").unwrap();
        let all = |tx: &mut tantalum_kv::Transaction, delete: bool| {
            (0..RECORDS).filter(|number| !delete || number % 2 == 0).try_for_each(|number| match delete {
                true => tx.delete(namespace, number.to_be_bytes()).map(drop),
                false => tx.put(namespace, number.to_be_bytes(), b"value"),
            })
        };
        store.transact(|tx| all(tx, false)).unwrap();
        store.with_drive(|device| device.cut_after(Some(operations))).unwrap();
        let done = store.transact(|tx| all(tx, true));
        assert!(done.is_err(), "no cut was between the marker and the last step");
        let mut device = store.into_drive().unwrap();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        device.power_on(&mut PowerLoss::seeded(operations)).unwrap();
        let first = device.namespaces()[0].namespace;
        let (key, mut value, at_ns) = (Key::new(b"redo").unwrap(), Vec::new(), device.time_ns());
        if device.submit(Command::KvGet { namespace: first, key, value: &mut value }, at_ns).is_ok() {
            return device;
        }
    }
    unreachable!("some cut is there")
}

/// Whether opening the store fails, instead of deleting other keys.
pub fn refuses_other_keys() -> bool {
    let mut device = interrupted();
    let namespace = device.namespaces()[1].namespace;
    let mut keys = Vec::new();
    let at_ns = device.time_ns();
    device
        .submit(Command::KvList { namespace, from: None, keys: &mut keys, limit: usize::MAX }, at_ns)
        .unwrap();
    // of those that are left the first one, so that the others are at other positions
    let record = KvRecord { namespace, key: keys[0], value: None };
    device.submit(Command::KvPut { records: &[record] }, device.time_ns()).unwrap();
    matches!(Store::over(device, Options::default()), Err(Error::Redo { .. }))
}
