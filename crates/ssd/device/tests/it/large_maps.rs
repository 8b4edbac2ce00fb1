//! Maps that are large enough for huge pages, which drives of the torture tests are not: recovery from their checkpoints
//! after cuts amid writes.

use crate::host::Host;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Key, KvRecord, Lpn, NamespaceId, PowerLoss, Profile, UNIT_BYTES};

const CUTS: u64 = 3;

/// Checkpoints of more than 2 MiB have four bytes for each of these.
const UNITS: u32 = 560 << 10;

/// Indexes of more records than this are in huge pages.
const RECORDS: u64 = 110_000;

/// Records of one put.
const TOGETHER: u64 = 50;

fn large_drive() -> Host {
    let capacity_bytes = u64::from(UNITS) * UNIT_BYTES as u64;
    Host::new(&Profile { capacity_bytes, ..Profile::load("tlc-nvme").unwrap() })
}

/// Whether there was power to the end.
fn submit(host: &mut Host, command: Command<'_>) -> bool {
    let completion = host.submit(command);
    assert!(completion.is_ok() || !host.device.has_power(), "{completion:?}");
    completion.is_ok()
}

fn restore(host: &mut Host, seed: u64) {
    assert!(!host.device.has_power());
    host.device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
    host.now_ns = host.device.time_ns();
    host.device.audit();
}

fn unit(lpn: u32, version: u32) -> [u8; UNIT_BYTES] {
    let mut unit = [0; UNIT_BYTES];
    unit[..4].copy_from_slice(&lpn.to_le_bytes());
    unit[UNIT_BYTES - 4..].copy_from_slice(&version.to_le_bytes());
    unit
}

#[test]
fn units_come_back_from_a_checkpoint_in_huge_pages() {
    let (mut host, mut rng) = (large_drive(), Xoshiro256PlusPlus::seed_from_u64(1));
    // what a unit holds at least, and at most
    let mut versions = vec![(1_u32, 1_u32); UNITS as usize];
    for lpn in 0..UNITS {
        assert!(submit(
            &mut host,
            Command::Write { lpn: Lpn(lpn), data: &unit(lpn, 1), fua: false, handle: None }
        ));
    }
    assert!(submit(&mut host, Command::Flush));
    for cut in 1..=CUTS {
        let operations = rng.random_range(1..6_000);
        host.device.cut_after(Some(operations));
        let mut unsynced = Vec::new();
        for version in 1.. {
            let version = (cut as u32) << 24 | version;
            if rng.random_ratio(1, 2_000) {
                if !submit(&mut host, Command::Flush) {
                    break;
                }
                unsynced.drain(..).for_each(|(lpn, version): (u32, u32)| versions[lpn as usize].0 = version);
            }
            let lpn = rng.random_range(0..UNITS);
            if versions[lpn as usize].0 != versions[lpn as usize].1 {
                continue;
            }
            versions[lpn as usize].1 = version;
            unsynced.push((lpn, version));
            if !submit(
                &mut host,
                Command::Write { lpn: Lpn(lpn), data: &unit(lpn, version), fua: false, handle: None },
            ) {
                break;
            }
        }
        restore(&mut host, cut);
        for (lpn, (least, most)) in (0..).zip(&mut versions) {
            let mut data = [0; UNIT_BYTES];
            assert!(submit(&mut host, Command::Read { lpn: Lpn(lpn), data: &mut data }));
            let is_kept = [*least, *most].into_iter().find(|version| data == unit(lpn, *version));
            let kept = is_kept.unwrap_or_else(|| panic!("after cut {cut}, lpn {lpn} is {:?}", &data[..4]));
            (*least, *most) = (kept, kept);
        }
    }
}

#[test]
fn records_come_back_from_an_index_in_huge_pages() {
    let (mut host, mut rng) = (large_drive(), Xoshiro256PlusPlus::seed_from_u64(2));
    let namespace = host.create_namespace();
    let mut versions = vec![0_u64; RECORDS as usize];
    for first in (0..RECORDS).step_by(TOGETHER as usize) {
        assert!(put(&mut host, namespace, first, 0));
    }
    for cut in 1..=CUTS {
        let operations = rng.random_range(1..1_000);
        host.device.cut_after(Some(operations));
        let (lost, version) = loop {
            let first = rng.random_range(0..RECORDS / TOGETHER) * TOGETHER;
            let version = cut << 32 | first;
            if !put(&mut host, namespace, first, version) {
                break (first, version);
            }
            versions[first as usize..][..TOGETHER as usize].fill(version);
        };
        restore(&mut host, cut);
        let before = versions[lost as usize];
        let kept = get(&mut host, namespace, lost);
        assert!(kept == version || kept == before, "after cut {cut}, record {lost} is {kept:#x}");
        versions[lost as usize..][..TOGETHER as usize].fill(kept);
        for number in 0..RECORDS {
            let version = versions[number as usize];
            assert_eq!(get(&mut host, namespace, number), version, "record {number} after cut {cut}");
        }
    }
}

fn key(number: u64) -> Key {
    Key::new(&number.to_be_bytes()).unwrap()
}

/// Puts records that begin with this number, all or none.
fn put(host: &mut Host, namespace: NamespaceId, first: u64, version: u64) -> bool {
    let value = version.to_le_bytes();
    let records: Vec<KvRecord<'_>> = (first..first + TOGETHER)
        .map(|number| KvRecord { namespace, key: key(number), value: Some(&value) })
        .collect();
    submit(host, Command::KvPut { records: &records })
}

fn get(host: &mut Host, namespace: NamespaceId, number: u64) -> u64 {
    let mut value = Vec::new();
    assert!(submit(host, Command::KvGet { namespace, key: key(number), value: &mut value }));
    u64::from_le_bytes(value.try_into().unwrap())
}
