//! Writes that repeat earlier ones become shares.

use crate::common;

use common::*;
use tantalum::{Command, PowerLoss};
use tantalum_volume::{FileId, Volume};

const UNIT: u64 = 4096;
const PAGE: u64 = 4 * UNIT;

/// Pages as a database has them: a number in front, content behind.
fn page(number: u64, version: u64) -> Vec<u8> {
    let mut page = vec![(number * 31 + version) as u8; PAGE as usize];
    for (unit, bytes) in page.chunks_mut(UNIT as usize).enumerate() {
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&version.to_le_bytes());
        bytes[16] = unit as u8;
    }
    page
}

fn database(pages: u64) -> (Volume, FileId, FileId) {
    let mut volume = volume(64, LARGE_CACHE);
    volume.set_remap_duplicates(true);
    let system = volume.create("ibdata1").unwrap();
    volume.allocate(system, 0, 256 * UNIT, false).unwrap();
    let table = volume.create("table.ibd").unwrap();
    for number in 0..pages {
        volume.write_direct(table, number * PAGE, &page(number, 0)).unwrap();
    }
    volume.sync_all().unwrap();
    (volume, system, table)
}

/// One flush as MariaDB does it: pages one after another to the doublewrite area, sync, each home in any order, sync.
fn flush(volume: &mut Volume, (system, table): (FileId, FileId), numbers: &[u64], version: u64) {
    let area: Vec<u8> = numbers.iter().flat_map(|&number| page(number, version)).collect();
    volume.write_direct(system, 64 * UNIT, &area).unwrap();
    volume.sync_data(system).unwrap();
    for &number in numbers.iter().rev() {
        volume.write_direct(table, number * PAGE, &page(number, version)).unwrap();
    }
    volume.sync_data(table).unwrap();
}

#[test]
fn a_page_that_is_written_twice_is_programmed_once() {
    let (mut volume, system, table) = database(40);
    let numbers: Vec<u64> = (0..20).map(|i| i * 2).collect();
    for version in 1..5 {
        let written = units_written(&mut volume, |volume| flush(volume, (system, table), &numbers, version));
        assert_eq!(written, 20 * 4, "the doublewrite area alone");
    }
    let statistics = volume.statistics();
    assert_eq!(statistics.units_remapped, 4 * 20 * 4);
    let mut volume = power_cut(volume, LARGE_CACHE);
    for number in 0..40 {
        let mut data = vec![0; PAGE as usize];
        volume.read_direct(table, number * PAGE, &mut data).unwrap();
        assert_eq!(data, page(number, if number % 2 == 0 { 4 } else { 0 }));
    }
}

#[test]
fn what_is_shared_is_read_at_once_and_from_the_page_cache_too() {
    let (mut volume, system, table) = database(4);
    volume.write_direct(system, 0, &page(1, 7)).unwrap();
    volume.write(table, PAGE, &page(1, 7)).unwrap();
    volume.sync(table).unwrap();
    assert_eq!(volume.statistics().units_remapped, 4);
    let mut data = vec![0; PAGE as usize];
    volume.read(table, PAGE, &mut data).unwrap();
    assert_eq!(data, page(1, 7));
    // The first copy changes, the second stays.
    volume.write_direct(system, 0, &page(2, 8)).unwrap();
    volume.sync_all().unwrap();
    let mut volume = power_cut(volume, LARGE_CACHE);
    volume.read_direct(table, PAGE, &mut data).unwrap();
    assert_eq!(data, page(1, 7));
}

#[test]
fn a_source_that_changed_in_any_way_is_no_source() {
    let (mut volume, system, table) = database(4);
    let changes: [fn(&mut Volume, FileId); 6] = [
        |volume, file| volume.write_direct(file, 0, &[1; PAGE as usize]).unwrap(),
        |volume, file| volume.write_atomic(file, &[(0, &[1; PAGE as usize])], None).unwrap(),
        |volume, file| volume.zero_range(file, 0, PAGE, true).unwrap(),
        |volume, file| {
            let tx = volume.tx_begin().unwrap();
            volume.tx_write(tx, file, 0, &[1; PAGE as usize]).unwrap();
            volume.tx_commit(tx, file, None).unwrap();
        },
        |volume, file| {
            volume.punch_hole(file, 0, PAGE).unwrap();
            volume.sync(file).unwrap();
        },
        |volume, file| {
            let lpn = volume.lpn(file, 0).unwrap();
            volume
                .submit(Command::Write { lpn, data: &[1; PAGE as usize], fua: false, handle: None })
                .unwrap();
        },
    ];
    for (version, change) in (1..).zip(changes) {
        volume.write_direct(system, 0, &page(1, version)).unwrap();
        change(&mut volume, system);
        volume.write_direct(table, PAGE, &page(1, version)).unwrap();
        let mut data = vec![0; PAGE as usize];
        volume.read_direct(table, PAGE, &mut data).unwrap();
        assert_eq!(data, page(1, version));
    }
    assert_eq!(volume.statistics().units_remapped, 0);
}

/// Two pages that differ in one byte are not taken for each other; `drive/tests/it/duplicates.rs` has units with one checksum.
#[test]
fn pages_that_look_alike_are_compared_to_the_last_byte() {
    let (mut volume, system, table) = database(4);
    for differing in (0..PAGE as usize).step_by(37) {
        let (first, mut second) = (page(9, differing as u64), page(9, differing as u64));
        second[differing] ^= 1;
        volume.write_direct(system, 0, &first).unwrap();
        volume.write_direct(table, 0, &second).unwrap();
        let mut data = vec![0; PAGE as usize];
        volume.read_direct(table, 0, &mut data).unwrap();
        assert_eq!(data, second, "byte {differing}");
    }
    assert!(volume.statistics().units_remapped > 0, "the other units of the pages are equal");
}

/// Many copies of one content do not count as second writes: the drive would keep a list of owners for each place.
#[test]
fn one_unit_is_shared_a_few_times_only() {
    let (mut volume, _, table) = database(0);
    volume.write_direct(table, 0, &[7; 100 * UNIT as usize]).unwrap();
    for copy in 1..20 {
        volume.write_direct(table, copy * 100 * UNIT, &[7; 100 * UNIT as usize]).unwrap();
    }
    let remapped = volume.statistics().units_remapped;
    assert!((1..200).contains(&remapped), "{remapped} of 1900 units are shares");
}

/// The home write is acknowledged only with its sync: until then it is the old page or the new one, unit by unit; the
/// doublewrite area was synced before and is whole.
#[test]
fn power_may_go_at_any_operation_of_a_flush() {
    let (old, system, table) = database(10);
    let numbers: Vec<u64> = (0..10).collect();
    for operation in 1.. {
        let mut volume = old.try_clone().unwrap();
        volume.device().cut_after(Some(operation));
        let mut done = 0;
        let mut steps = || -> Result<(), tantalum_volume::VolumeError> {
            for version in 1..4 {
                let area: Vec<u8> = numbers.iter().flat_map(|&number| page(number, version)).collect();
                volume.write_direct(system, 64 * UNIT, &area)?;
                volume.sync_data(system)?;
                done = 2 * version - 1;
                for &number in &numbers {
                    volume.write_direct(table, number * PAGE, &page(number, version))?;
                }
                volume.sync_data(table)?;
                done = 2 * version;
            }
            Ok(())
        };
        let finished = steps().is_ok();
        let mut volume = power_cut_now(volume, PowerLoss::seeded(operation), LARGE_CACHE);
        let (durable, newest) = (done / 2, done.div_ceil(2));
        for &number in &numbers {
            let mut data = vec![0; PAGE as usize];
            volume.read_direct(table, number * PAGE, &mut data).unwrap();
            for (unit, bytes) in data.chunks(UNIT as usize).enumerate() {
                let is = |version| bytes == &page(number, version)[unit * UNIT as usize..][..UNIT as usize];
                assert!(
                    (durable..=newest).any(is),
                    "page {number} unit {unit}, cut {operation}, {done} done"
                );
            }
        }
        if finished {
            assert!(operation > 30, "cuts came at {operation} operations only");
            break;
        }
    }
}
