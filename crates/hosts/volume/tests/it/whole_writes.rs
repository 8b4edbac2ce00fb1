//! Writes of several units that are all or nothing.

use crate::common;

use common::*;
use tantalum::PowerLoss;
use tantalum_volume::{FileId, Volume, VolumeError};

const UNIT: usize = 4096;

/// Three units, so that most pages lie on two pages of flash.
const PAGE: usize = 3 * UNIT;

/// Pages that the file has at first; the third of them is a hole.
const OLD_PAGES: usize = 6;
const HOLE: usize = 2;

/// Pages that are written.
const PAGES: usize = 8;

type Write = fn(&mut Volume, FileId, u64, &[u8]) -> Result<(), VolumeError>;

/// Never zeros.
fn page(version: u8, number: usize) -> Vec<u8> {
    vec![100 * (version % 2) + number as u8 + 1 + 10 * version; PAGE]
}

fn database() -> (Volume, FileId) {
    let mut volume = volume(8, LARGE_CACHE);
    let old: Vec<u8> = (0..OLD_PAGES).flat_map(|number| page(0, number)).collect();
    let file = create(&mut volume, "table", &old);
    volume.punch_hole(file, (HOLE * PAGE) as u64, PAGE as u64).unwrap();
    volume.sync(file).unwrap();
    (volume, file)
}

/// What a page reads as: a version, nothing, or a mixture.
fn version_of(content: &[u8], number: usize, versions: u8) -> Option<u8> {
    let bytes = &content[(number * PAGE).min(content.len())..((number + 1) * PAGE).min(content.len())];
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    (0..=versions).find(|version| bytes == page(*version, number))
}

/// Cuts power at every operation of flash while all pages are written three times, and counts the pages that are then
/// mixtures, and those that are older than what was acknowledged.
fn cut_everywhere(write: Write) -> (u32, u32) {
    const VERSIONS: u8 = 3;
    let (old, file) = database();
    let (mut torn, mut lost) = (0, 0);
    for operation in 1.. {
        let mut volume = old.try_clone().unwrap();
        volume.device().cut_after(Some(operation));
        let mut acknowledged = [0; PAGES];
        let mut steps = || -> Result<(), VolumeError> {
            for version in 1..=VERSIONS {
                for (number, acknowledged) in acknowledged.iter_mut().enumerate() {
                    write(&mut volume, file, (number * PAGE) as u64, &page(version, number))?;
                    *acknowledged = version;
                }
            }
            volume.sync(file)
        };
        let finished = steps().is_ok();
        let mut volume = power_cut_now(volume, PowerLoss::seeded(operation), LARGE_CACHE);
        let found = content(&mut volume, file);
        for (number, acknowledged) in acknowledged.into_iter().enumerate() {
            match version_of(&found, number, VERSIONS) {
                None => torn += 1,
                Some(version) => lost += u32::from(version < acknowledged),
            }
        }
        if finished {
            assert!(operation > 5, "cuts came at {operation} operations only");
            return (torn, lost);
        }
    }
    unreachable!("the last cut comes after everything")
}

#[test]
fn power_may_go_at_any_operation_and_a_write_is_there_whole_or_not_at_all() {
    assert_eq!(cut_everywhere(Volume::write_whole), (0, 0));
}

/// Otherwise the test above shows nothing.
#[test]
fn other_writes_are_torn_and_not_durable_yet() {
    let (torn, lost) = cut_everywhere(Volume::write_direct);
    assert!(torn > 0 && lost > 0, "{torn} torn, {lost} lost");
}

#[test]
fn a_whole_write_replaces_what_the_page_cache_has() {
    let (mut volume, file) = database();
    volume.write(file, 5, &[9; 10_000]).unwrap();
    volume.write_whole(file, 0, &page(1, 0)).unwrap();
    volume.write(file, PAGE as u64 - 1, &[7; 2]).unwrap();
    let found = content(&mut volume, file);
    assert_eq!(
        (found[0], found[PAGE - 1], found[PAGE], found[PAGE + 1]),
        (page(1, 0)[0], 7, 7, page(0, 1)[0])
    );
    volume.sync(file).unwrap();
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file), found);
}

/// The batch of this drive takes 16 units, of which one may be the inode's.
#[test]
fn more_units_than_a_batch_takes_are_several_writes() {
    let mut volume = Volume::format(device_with_batches_of(16, 8), LARGE_CACHE).unwrap();
    let file = create(&mut volume, "table", &[]);
    let data: Vec<u8> = (0..40 * UNIT).map(|at| (at / UNIT) as u8 + 1).collect();
    for _ in 0..2 {
        volume.write_whole(file, 0, &data).unwrap();
        assert_eq!(content(&mut volume, file), data);
    }
    volume.write_whole(file, 0, &[]).unwrap();
    let unaligned = VolumeError::Unaligned { offset: 1, bytes: UNIT };
    assert_eq!(volume.write_whole(file, 1, &data[..UNIT]), Err(unaligned));
    let mut volume = crash(volume, LARGE_CACHE);
    assert_eq!(content(&mut volume, file), data);
}
