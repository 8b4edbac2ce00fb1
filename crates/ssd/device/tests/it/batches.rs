//! Batches on a drive during garbage collection.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Device, FirmwareProfile, Key, KvRecord, Lpn, NamespaceAttributes, Profile, UNIT_BYTES, result_of,
};

const COMMANDS: u64 = 1000;

/// A drive with a part that was filled and overwritten at random, and the first unit after that part.
fn aged() -> (Device, u32) {
    let board = Profile::load("kaml-board").unwrap();
    // its firmware is slower than its planes
    let profile = Profile { capacity_bytes: 512 << 20, firmware: FirmwareProfile::default(), ..board };
    let mut device = Device::in_memory(&profile).unwrap();
    let units = device.limits().capacity_units as u32 * 3 / 5;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let data = vec![1; UNIT_BYTES];
    for number in 0..5 * units {
        let lpn = Lpn(if number < units { number } else { random.random_range(0..units) });
        device
            .submit(Command::Write { lpn, data: &data, fua: false, handle: None }, device.time_ns())
            .unwrap();
    }
    assert!(device.smart().counters.blocks_erased > 0, "garbage is collected");
    (device, units)
}

/// How long this many simultaneous commands take.
fn time_of(mut device: Device, mut submit: impl FnMut(&mut Device, u64, u64)) -> u64 {
    let start_ns = device.time_ns();
    (0..COMMANDS).for_each(|number| submit(&mut device, number, start_ns));
    device.time_ns() - start_ns
}

/// Room for a batch was made block by block, only when there was none at all; so a drive that executed only batches was
/// down to one open block, and its planes worked one after the other.
#[test]
fn batches_keep_as_many_planes_busy_as_other_writes_do() {
    let (device, first) = aged();
    let pair = vec![2; 2 * UNIT_BYTES];
    let writes = time_of(device.try_clone().unwrap(), |device, number, at_ns| {
        let lpn = Lpn(first + number as u32 * 2);
        device.submit(Command::Write { lpn, data: &pair, fua: true, handle: None }, at_ns).unwrap();
    });
    let batches = time_of(device.try_clone().unwrap(), |device, number, at_ns| {
        let (one, other) = pair.split_at(UNIT_BYTES);
        let lpn = first + number as u32 * 2;
        let writes = [(Lpn(lpn), one), (Lpn(lpn + 1), other)];
        device.submit(Command::WriteAtomic { writes: &writes }, at_ns).unwrap();
    });
    let mut with_namespace = device;
    let (attributes, at_ns) = (NamespaceAttributes::default(), with_namespace.time_ns());
    let create =
        |namespace: &mut _| with_namespace.submit(Command::CreateNamespace { attributes, namespace }, at_ns);
    let namespace = result_of(create).unwrap();
    let puts = time_of(with_namespace, |device, number, at_ns| {
        let key = Key::new(&number.to_le_bytes()).unwrap();
        let records = [KvRecord { namespace, key, value: Some(&pair[..5000]) }];
        device.submit(Command::KvPut { records: &records }, at_ns).unwrap();
    });
    println!("{COMMANDS} writes {writes} ns, batches {batches} ns, puts {puts} ns");
    // a batch costs more: its units are marked, and a batch is on flash when it returns
    assert!(puts < 2 * writes && batches < 8 * writes, "writes {writes}, batches {batches}, puts {puts}");
}
