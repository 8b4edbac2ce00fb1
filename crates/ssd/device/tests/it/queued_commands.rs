//! Hazard 12 with a host that has a queue: it issues many commands before the first is done, and power fails at any
//! time. A drive whose capacitor would have to save more than it can is lost.

use crate::small_drive;

use small_drive::small_drive;
use tantalum::{
    CacheMode, Command, Device, Key, KvRecord, Lpn, NamespaceAttributes, NamespaceId, Nanoseconds, Plp,
    PowerLoss, Profile, ShareRange, UNIT_BYTES, result_of,
};

fn profile() -> Profile {
    let mut profile = small_drive("tlc-nvme", 8 << 20, 100.0, Plp::Capacitor);
    profile.flash.program_ns = 1_000_000;
    profile
}

fn unit(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(UNIT_BYTES / 4)
}

/// Issues a command at `at_ns`; returns when it is done.
fn give(device: &mut Device, command: Command<'_>, at_ns: Nanoseconds) -> Nanoseconds {
    device.submit(command, at_ns).unwrap().done_ns
}

fn write(device: &mut Device, number: u32, at_ns: Nanoseconds) -> Nanoseconds {
    give(device, Command::Write { lpn: Lpn(number), data: &unit(number), fua: false, handle: None }, at_ns)
}

fn create(device: &mut Device) -> NamespaceId {
    let (attributes, at_ns) = (NamespaceAttributes::default(), device.time_ns());
    result_of(|namespace| device.submit(Command::CreateNamespace { attributes, namespace }, at_ns)).unwrap()
}

fn read(device: &mut Device, number: u32) -> Vec<u8> {
    let (mut data, at_ns) = (vec![0; UNIT_BYTES], device.time_ns());
    give(device, Command::Read { lpn: Lpn(number), data: &mut data }, at_ns);
    data
}

/// A copy of the drive in which power fails at `cut_ns` and comes back.
fn cut(device: &Device, cut_ns: Nanoseconds) -> Device {
    let mut cut = device.try_clone().unwrap();
    cut.cut_power(cut_ns);
    cut.power_on(&mut PowerLoss::seeded(cut_ns)).unwrap();
    cut.audit();
    cut
}

/// Times from `from_ns` to `to_ns`, both included.
fn times(from_ns: Nanoseconds, to_ns: Nanoseconds) -> impl Iterator<Item = Nanoseconds> {
    (0..=20).map(move |part| from_ns + (to_ns - from_ns) * part / 20)
}

/// Whoever issued a read was there at that time, so power cannot have failed before.
#[test]
fn power_does_not_fail_before_the_last_command_even_if_that_is_a_read() {
    let mut device = Device::in_memory(&profile()).unwrap();
    let done_ns = write(&mut device, 1, 0);
    let mut data = vec![0; UNIT_BYTES];
    let issued_ns = done_ns + 1000;
    give(&mut device, Command::Read { lpn: Lpn(1), data: &mut data }, issued_ns);
    device.cut_power(done_ns);
    assert_eq!(device.power_lost_ns(), Some(issued_ns));
}

/// They all went into the dump, which had room for 96 units.
#[test]
fn writes_wait_for_room_in_the_order_in_which_they_are_given() {
    let mut device = Device::in_memory(&profile()).unwrap();
    let begun_ns = device.time_ns();
    let done_ns: Vec<Nanoseconds> = (0..600).map(|number| write(&mut device, number, begun_ns)).collect();
    assert!(done_ns.is_sorted(), "{done_ns:?}");
    let program_ns = device.profile().flash.program_ns;
    let at_once = done_ns.iter().filter(|done_ns| **done_ns < begun_ns + program_ns).count();
    assert!((20..=24).contains(&at_once), "{at_once} of 600 have room");
    for cut_ns in times(begun_ns, done_ns[599]) {
        let mut cut = cut(&device, cut_ns);
        for (number, done_ns) in (0..).zip(&done_ns) {
            let found = read(&mut cut, number);
            assert!(found == unit(number) || *done_ns > cut_ns && found == [0; UNIT_BYTES], "unit {number}");
        }
    }
}

/// It was programmed only once there was room, and so later than without a capacitor.
#[test]
fn puts_wait_for_room_no_longer_than_for_flash() {
    let mut without = profile();
    (without.power.plp, without.power.dump_bytes) = (Plp::None, 0);
    without.cache.mode = CacheMode::Volatile;
    let [protected, unprotected] = [profile(), without].map(|profile| {
        let mut device = Device::in_memory(&profile).unwrap();
        let namespace = create(&mut device);
        let begun_ns = device.time_ns();
        let value = [7; 10 * UNIT_BYTES];
        let put = |number: u32| {
            let key = Key::new(&number.to_le_bytes()).unwrap();
            let records = [KvRecord { namespace, key, value: Some(&value) }];
            give(&mut device, Command::KvPut { records: &records }, begun_ns) - begun_ns
        };
        (0..40).map(put).collect::<Vec<Nanoseconds>>()
    });
    assert!(protected.iter().zip(&unprotected).all(|(a, b)| a <= b), "{protected:?} {unprotected:?}");
    assert!(protected[1] < unprotected[1] / 2, "{protected:?} {unprotected:?}");
}

/// A put that waits gives up the rest of a page that it waited for, which is not free before the page is on flash.
#[test]
fn puts_and_writes_wait_for_room_together() {
    let mut device = Device::in_memory(&profile()).unwrap();
    let namespace = create(&mut device);
    let begun_ns = device.time_ns();
    let value = |number: u32| unit(number).repeat(1 + number as usize % 3);
    let mut done_ns = Vec::new();
    for number in 0..200 {
        let value = value(number);
        let key = Key::new(&number.to_le_bytes()).unwrap();
        let records = [KvRecord { namespace, key, value: Some(&value) }];
        done_ns.push(give(&mut device, Command::KvPut { records: &records }, begun_ns));
        done_ns.push(write(&mut device, number, begun_ns));
    }
    assert!(done_ns.is_sorted(), "{done_ns:?}");
    for cut_ns in times(begun_ns, done_ns[399]) {
        let mut cut = cut(&device, cut_ns);
        for (number, done_ns) in (0..).zip(done_ns.chunks(2)) {
            let (mut found, at_ns) = (Vec::new(), cut.time_ns());
            let key = Key::new(&u32::to_le_bytes(number)).unwrap();
            let got = cut.submit(Command::KvGet { namespace, key, value: &mut found }, at_ns);
            assert!(got.is_ok() && found == value(number) || got.is_err() && done_ns[0] > cut_ns, "{number}");
            let found = read(&mut cut, number);
            assert!(found == unit(number) || done_ns[1] > cut_ns, "unit {number}");
        }
    }
}

#[test]
fn records_of_the_journal_wait_too() {
    let mut device = Device::in_memory(&profile()).unwrap();
    for number in 0..200 {
        let at_ns = device.time_ns();
        write(&mut device, number, at_ns);
    }
    let begun_ns = device.time_ns();
    let mut done_ns = begun_ns;
    for round in 0..600_u32 {
        let ranges = [ShareRange { src: Lpn(round % 2 * 100), dst: Lpn(700), units: 100 }];
        done_ns = give(&mut device, Command::Share { ranges: &ranges, deferred: false }, begun_ns);
    }
    for cut_ns in times(begun_ns, done_ns) {
        let mut cut = cut(&device, cut_ns);
        let found = read(&mut cut, 700);
        assert!(found == unit(100) || cut_ns < done_ns && [unit(0), vec![0; UNIT_BYTES]].contains(&found));
    }
}

/// A delete of a key that another one had just deleted was done at once, and the record was back after a cut.
#[test]
fn a_delete_behind_a_delete_is_done_when_that_is_durable() {
    let mut profile = profile();
    profile.cache.mode = CacheMode::Volatile;
    (profile.power.plp, profile.power.dump_bytes) = (Plp::None, 0);
    let mut device = Device::in_memory(&profile).unwrap();
    let namespace = create(&mut device);
    let key = Key::new(b"key").unwrap();
    let put = |value| [KvRecord { namespace, key, value }];
    let now_ns = device.time_ns();
    let start_ns = give(&mut device, Command::KvPut { records: &put(Some(b"value")) }, now_ns);
    give(&mut device, Command::KvPut { records: &put(None) }, start_ns);
    let done_ns = give(&mut device, Command::KvPut { records: &put(None) }, start_ns);
    let mut device = cut(&device, done_ns);
    let (mut value, at_ns) = (Vec::new(), device.time_ns());
    let got = device.submit(Command::KvGet { namespace, key, value: &mut value }, at_ns);
    assert!(got.is_err(), "the record is back");
}

/// The second put was on flash before the delete that it relied on: a cut left it with half of its records.
/// The trim found nothing to record, and the remap that had unmapped the unit was not durable yet.
#[test]
fn a_trim_behind_a_remap_is_durable_when_it_is_done() {
    let mut device = Device::in_memory(&profile()).unwrap();
    write(&mut device, 18, 0);
    give(&mut device, Command::Flush, 0);
    let at_ns = device.time_ns() + 100_000_000;
    let mut data = vec![0; UNIT_BYTES];
    give(&mut device, Command::Read { lpn: Lpn(0), data: &mut data }, at_ns);
    let remapped_ns = give(&mut device, Command::Remap { src: Lpn(18), dst: Lpn(22), units: 1 }, at_ns);
    let trimmed_ns = give(&mut device, Command::Trim { lpn: Lpn(18), units: 1 }, at_ns);
    assert!(trimmed_ns < remapped_ns);
    for cut_ns in times(trimmed_ns, remapped_ns) {
        assert_eq!(read(&mut cut(&device, cut_ns), 18), vec![0; UNIT_BYTES], "cut at {cut_ns}");
    }
}

#[test]
fn a_put_with_a_delete_behind_a_delete_is_all_or_nothing() {
    let mut profile = profile();
    profile.cache.mode = CacheMode::Volatile;
    (profile.power.plp, profile.power.dump_bytes) = (Plp::None, 0);
    let mut device = Device::in_memory(&profile).unwrap();
    let namespace = create(&mut device);
    let [one, other] = [b"one", b"two"].map(|key| Key::new(key).unwrap());
    let record = |key, value| KvRecord { namespace, key, value };
    let now_ns = device.time_ns();
    let put = [record(one, Some(b"value"))];
    let start_ns = give(&mut device, Command::KvPut { records: &put }, now_ns);
    give(&mut device, Command::KvPut { records: &[record(one, None)] }, start_ns);
    let both = [record(one, None), record(other, Some(b"value"))];
    let done_ns = give(&mut device, Command::KvPut { records: &both }, start_ns);
    for cut_ns in times(start_ns, done_ns + 1) {
        for seed in 0..8 {
            let mut cut = device.try_clone().unwrap();
            cut.cut_power(cut_ns);
            cut.power_on(&mut PowerLoss::seeded(seed)).unwrap();
            let mut is_there = |key| {
                let at_ns = cut.time_ns();
                cut.submit(Command::KvExists { namespace, key }, at_ns).is_ok()
            };
            let there = (is_there(one), is_there(other));
            assert_ne!(there, (true, true), "one record of two was put, cut at {cut_ns}");
        }
    }
}
