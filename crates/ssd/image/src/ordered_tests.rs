//! A machine that is lost at any time leaves what was synced, or what was about to be synced, and never a mixture.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::checksum::checksum_of;
use crate::locked_file::LockedFile;
use crate::random::SplitMix64;
use crate::redo_log::{GroupHead, Replayed, UNUSED, replay, settle};
use crate::store::Store;
use crate::tally::TALLY_AT;

const PLACE: RedoPlace = RedoPlace { log_at: 1 << 18, slots_at: (1 << 18) + REDO_LOG_BYTES };

/// With more room for records than the redo log has.
const LARGE: RedoPlace = RedoPlace { log_at: 8 << 20, slots_at: (8 << 20) + REDO_LOG_BYTES };

fn large_file() -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LARGE.slots_at).unwrap();
    file
}

fn ordered(file: &File, place: RedoPlace) -> Ordered {
    let Store::Ordered(store) = Store::ordered(locked(file), place).unwrap() else { unreachable!() };
    *store
}

fn hosted(file: &File) -> HostFile {
    HostFile::new(file.try_clone().unwrap(), None)
}

fn locked(file: &File) -> LockedFile {
    LockedFile::lock(hosted(file), Path::new("a file without a name")).unwrap()
}

fn file_of(contents: &BTreeMap<u64, Vec<u8>>) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PLACE.slots_at + (64 << 12)).unwrap();
    contents.iter().for_each(|(at, data)| file.write_all_at(data, *at).unwrap());
    file
}

/// The disk after a loss: what was synced, and any of the sectors written since.
struct Disk {
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    fn write(&mut self, at: u64, data: &[u8], mut lands: impl FnMut(u64) -> bool) {
        let mut done = 0;
        while done < data.len() {
            let place = at + done as u64;
            let bytes = (SECTOR - place as usize % SECTOR).min(data.len() - done);
            if lands(place / SECTOR as u64) {
                let page = self.pages.entry(place / 4096 * 4096).or_insert_with(|| vec![0; 4096]);
                let offset = (place % 4096) as usize;
                page[offset..offset + bytes].copy_from_slice(&data[done..done + bytes]);
            }
            done += bytes;
        }
    }
}

/// What the drive sees: records below the redo log, and the units that they name.
type Model = (Vec<u8>, BTreeMap<u64, Vec<u8>>);

/// Opens what a lost machine left, and requires one of two states.
fn assert_is_either(disk: &Disk, synced: &Model, begun: Option<&Model>, seed: u64) -> bool {
    let file = file_of(&disk.pages);
    // an overlay reads the redo log as the others do, and does not wait for the disk
    let store = Store::overlay(locked(&file), Some(PLACE)).unwrap();
    let mut records = vec![0; PLACE.log_at as usize];
    store.read(&mut records, 0).unwrap();
    let is = |model: &Model| {
        records == model.0
            && model.1.iter().all(|(at, data)| {
                let mut found = vec![0; data.len()];
                store.read(&mut found, *at).unwrap();
                found == *data
            })
    };
    let is_begun = begun.is_some_and(is);
    assert!(is_begun || is(synced), "seed {seed}: neither what was synced nor what was about to be");
    is_begun
}

/// How often the last group was lost, how often it was there, how often the redo log started over, and how many slots went back.
fn run(seed: u64) -> [u64; 4] {
    let mut random = SplitMix64(seed);
    let mut disk = Disk { pages: BTreeMap::new() };
    let file = file_of(&disk.pages);
    let mut store = ordered(&file, PLACE);
    disk.write(PLACE.log_at, &encode(store.sequence, 0, &[], &[]).1, |_| true);
    let mut model: Model = (vec![0; PLACE.log_at as usize], BTreeMap::new());
    let mut synced = model.clone();
    let mut outcomes = [0; 4];
    // slots that no durable state names
    let mut free: Vec<u64> = (0..64).map(|slot| PLACE.slots_at + (slot << 12)).collect();
    let mut given_up_before = Vec::new();
    for _ in 0..60 {
        let mut given_up = Vec::new();
        for _ in 0..1 + random.below(6) {
            if let Some(slot) = free.pop().filter(|_| random.below(2) == 0) {
                let data = vec![random.below(256) as u8; 4096];
                store.write_unit(&data, slot, checksum_of(&data)).unwrap();
                model.1.insert(slot, data);
            }
            if random.below(3) == 0
                && let Some((slot, _)) = model.1.pop_first()
            {
                given_up.push(slot);
            }
            // what may be overwritten may go back to the host
            if random.below(4) == 0
                && let Some(slot) = free.last()
            {
                assert!(store.give_back_slots(*slot..slot + 4096).unwrap());
                outcomes[3] += 1;
            }
            let (at, bytes) = match random.below(3) {
                0 => (TALLY_AT, 24),
                1 => (random.below(1 << 13) + 8192, 1 + random.below(600)),
                _ => (8192 + random.below(4) * 12_000, 9000 + random.below(30_000) * random.below(2) / 3),
            };
            let data = vec![random.below(256) as u8; (bytes.min(PLACE.log_at - at)) as usize];
            store.write(&data, at).unwrap();
            model.0[at as usize..at as usize + data.len()].copy_from_slice(&data);
        }
        if random.below(4) == 0 {
            // a large group pushes the redo log over its end; one that is too large would become durable by itself
            store.write(&[9; 240_000], 8192).unwrap();
            model.0[8192..248_192].fill(9);
        }
        let sync = store.sync_begin().unwrap().expect("records changed");
        let mut written = store.unsynced.lock().unwrap().clone();
        written.push((sync.gathered().at, sync.gathered().group.bytes().to_vec()));
        for _ in 0..3 {
            // pages stay whole or do not, and a lost sector may contain something that nobody ever wrote
            let (share, together) = (random.below(5), [1, 8][random.below(2) as usize]);
            let mut lost = Disk { pages: disk.pages.clone() };
            let (mut last, mut spoiled) = ((u64::MAX, false), Vec::new());
            for (at, data) in &written {
                lost.write(*at, data, |sector| {
                    if last.0 != sector / together {
                        last = (sector / together, share == 4 || random.below(4) < share);
                    }
                    if !last.1 && random.below(4) == 0 {
                        spoiled.push(sector * SECTOR as u64);
                    }
                    last.1
                });
            }
            spoiled.iter().for_each(|at| lost.write(*at, &[0xa5; SECTOR], |_| true));
            outcomes[usize::from(assert_is_either(&lost, &synced, Some(&model), seed))] += 1;
        }
        written.iter().for_each(|(at, data)| disk.write(*at, data, |_| true));
        synced = model.clone();
        // a slot that was freed after one sync and reused at once made the group that had last named it look torn
        free.append(&mut given_up_before);
        given_up_before = given_up;
        // the records may be put in place, and the redo log started over: each of these may be lost as well, until its
        // own sync
        sync.run_in_cache().unwrap();
        store.sync_end().unwrap();
        let syncs = std::mem::take(&mut *store.synced.lock().unwrap());
        outcomes[2] += u64::from(!syncs.is_empty());
        for written in syncs {
            for _ in 0..3 {
                let mut lost = Disk { pages: disk.pages.clone() };
                // a new group was torn, and the first old one was written over newer contents
                written.iter().for_each(|(at, data)| lost.write(*at, data, |_| random.below(2) == 0));
                assert_is_either(&lost, &synced, None, seed);
            }
            written.iter().for_each(|(at, data)| disk.write(*at, data, |_| true));
        }
    }
    // a process that is killed leaves the whole file
    assert_is_either(&disk, &synced, None, seed);
    store.close().unwrap();
    outcomes
}

#[test]
fn a_lost_machine_leaves_what_was_synced_or_what_was_about_to_be() {
    let mut outcomes = [0; 4];
    (0..12).map(run).for_each(|run| outcomes.iter_mut().zip(run).for_each(|(sum, count)| *sum += count));
    let most = [30, 30, 5, 300];
    assert!(outcomes.iter().zip(most).all(|(count, most)| *count > most), "all of it happens: {outcomes:?}");
}

/// Records of an erased block. A page of it was programmed again before their space went back.
#[test]
fn space_of_void_records_goes_back_when_no_group_has_older_ones() {
    let file = file_of(&BTreeMap::new());
    let mut store = ordered(&file, PLACE);
    let records = 8192 + 100..8192 + 100 + 5 * 4096;
    store.write(&vec![1; 5 * 4096], records.start).unwrap();
    let sync = |store: &mut Ordered| {
        store.sync_begin().unwrap().unwrap().run_in_cache().unwrap();
        store.sync_end().unwrap();
    };
    sync(&mut store);
    store.is_void(records.clone());
    store.write(&[2; 500], 4 * 4096).unwrap();
    let (mut in_place, mut rounds) = (vec![0; 6 * 4096], 0);
    loop {
        let head = store.head;
        store.write(&[rounds; 200_000], 1 << 16).unwrap();
        sync(&mut store);
        file.read_exact_at(&mut in_place, 8192).unwrap();
        if store.head < head {
            break;
        }
        assert!(in_place.iter().all(|byte| *byte == 0), "nothing is in place yet");
        rounds += 1;
    }
    assert!(rounds > 3, "{rounds}");
    // of the whole pages of the host's cache, all but the one with the new record are holes
    let mut expected = vec![0; 6 * 4096];
    expected[100..4096].fill(1);
    expected[2 * 4096..3 * 4096].fill(1);
    expected[2 * 4096..2 * 4096 + 500].fill(2);
    expected[5 * 4096..5 * 4096 + 100].fill(1);
    assert!(in_place == expected);
    let mut found = vec![0; 6 * 4096];
    store.read(&mut found, 8192).unwrap();
    assert!(found == expected, "the records in memory are those in place");
}

#[test]
fn a_closed_file_needs_no_log_and_sequence_numbers_go_on() {
    let file = file_of(&BTreeMap::new());
    for round in 1..4_u8 {
        let mut store = ordered(&file, PLACE);
        store.write(&[round; 100], 5000).unwrap();
        store.close().unwrap();
        drop(store);
        let mut found = [0; 100];
        file.read_exact_at(&mut found, 5000).unwrap();
        assert_eq!(found, [round; 100]);
        let Replayed { sequence, says_anything, .. } = replay(&hosted(&file), PLACE, |_, _| Ok(())).unwrap();
        assert_eq!((sequence, says_anything), (3 * u64::from(round), false));
    }
}

#[test]
fn sizes_on_the_image_are_fixed() {
    assert_eq!(size_of::<GroupHead>(), 32);
    assert_eq!(size_of::<SlotSum>(), 12);
    assert_eq!(size_of::<EntryHead>(), 12);
    // a group that was asked for, and the changes during its sync, of which one may go beyond the limit
    let most = Group::length(GROUP_BYTES) + Group::length(GROUP_BYTES + CUT + size_of::<EntryHead>() as u64);
    assert!(REDO_LOG_FULL + most <= REDO_LOG_BYTES);
}

/// A checkpoint of a large drive is written to its buffers before any of its pages has a record.
#[test]
fn a_group_of_units_alone_becomes_durable_before_it_outgrows_the_redo_log() {
    let mut store = ordered(&file_of(&BTreeMap::new()), PLACE);
    let before = store.sequence;
    store.slots =
        vec![SlotSum { at: 0.into(), checksum: 0.into() }; GROUP_BYTES as usize / size_of::<SlotSum>()];
    store.write_unit(&[7; 4096], PLACE.slots_at, checksum_of(&[7; 4096])).unwrap();
    assert_eq!((store.body_bytes(), store.sequence), (0, before + 1));
}

/// A redo log of three groups, of which the last wrote data to a slot; each changes the bytes at 8192. Also where each begins.
fn three_groups() -> (File, [u64; 3]) {
    let file = file_of(&BTreeMap::new());
    let mut store = ordered(&file, PLACE);
    let starts = [1, 2, 3_u8].map(|group| {
        let start = PLACE.log_at + store.head;
        if group == 3 {
            store.write_unit(&[7; 4096], PLACE.slots_at, checksum_of(&[7; 4096])).unwrap();
        }
        store.write(&[group; 2000], 8192).unwrap();
        store.sync_begin().unwrap().unwrap().run_in_cache().unwrap();
        store.sync_end().unwrap();
        start
    });
    // as a killed process leaves it
    std::mem::forget(store);
    (file, starts)
}

fn found(file: &File) -> io::Result<u8> {
    let mut byte = [0];
    Store::overlay(locked(file), Some(PLACE))?.read(&mut byte, 8192)?;
    Ok(byte[0])
}

fn flip(file: &File, at: u64) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

#[test]
fn a_damaged_last_group_is_as_one_that_was_lost_and_one_before_others_is_refused() {
    for (damaged, finds) in [(0, None), (1, None), (2, Some(2))] {
        let (file, starts) = three_groups();
        assert_eq!(found(&file).unwrap(), 3);
        flip(&file, starts[damaged] + 100);
        match (found(&file), finds) {
            (Ok(found), Some(finds)) => assert_eq!(found, finds),
            (Err(error), None) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                assert!(error.to_string().contains("are missing"), "{error}");
            }
            (found, _) => panic!("group {damaged} was damaged: {found:?}"),
        }
    }
    // the data that prove the last group
    let (file, _) = three_groups();
    flip(&file, PLACE.slots_at + 9);
    assert_eq!(found(&file).unwrap(), 2);
}

#[test]
fn a_log_that_names_places_where_no_record_is_is_refused_and_nothing_is_written() {
    let entry = |at: u64, bytes: u32| {
        [EntryHead { at: at.into(), bytes: bytes.into() }.as_bytes(), &[9; 30]].concat()
    };
    let bad_entries = [
        entry(PLACE.log_at - 10, 30),
        entry(0, 30),
        entry(u64::MAX - 5, 30),
        entry(8192, 31),
        [entry(8192, 30), vec![1; 5]].concat(),
    ];
    let bad_slots = [PLACE.log_at, u64::MAX - 4000, i64::MAX as u64];
    let groups = bad_entries.map(|entries| encode(1, 0, &[], &entries).1);
    let slots = bad_slots
        .map(|at| encode(1, 0, &[SlotSum { at: at.into(), checksum: 5.into() }], &entry(8192, 30)).1);
    for group in groups.iter().chain(&slots) {
        let file = file_of(&BTreeMap::from([(PLACE.log_at, group.clone())]));
        let Err(error) = Store::file(locked(&file), Some(PLACE)) else { panic!("{group:?} is refused") };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        let mut byte = [0];
        file.read_exact_at(&mut byte, 8192).unwrap();
        assert_eq!(byte, [0]);
    }
    let whole = encode(1, 0, &[], &entry(8192, 30)).1;
    assert_eq!(found(&file_of(&BTreeMap::from([(PLACE.log_at, whole)]))).unwrap(), 9);
}

#[test]
fn after_a_sync_that_did_not_end_nothing_is_written() {
    let file = file_of(&BTreeMap::new());
    let mut store = ordered(&file, PLACE);
    store.write(&[1; 100], 8192).unwrap();
    store.sync_begin().unwrap().unwrap().run_in_cache().unwrap();
    // the caller's sync fails, and the drive is dropped
    store.write(&[2; 100], 8192).unwrap();
    assert!(store.sync_begin().is_err());
    assert!(store.close().is_err());
    let mut byte = [9];
    file.read_exact_at(&mut byte, 8192).unwrap();
    assert_eq!(byte, [0]);
    assert_eq!(found(&file).unwrap(), 1);
}

#[test]
fn what_changes_during_a_sync_is_for_the_next_one_also_when_the_log_is_full() {
    let file = file_of(&BTreeMap::new());
    let mut store = ordered(&file, PLACE);
    let mut restarts = 0;
    for round in 0..200_u8 {
        store.write(&[round; 30_000], 8192).unwrap();
        let sync = store.sync_begin().unwrap().unwrap();
        // neither needs the other
        store.write(&[round ^ 0x80; 30_000], 8192).unwrap();
        sync.run_in_cache().unwrap();
        let head = store.head;
        store.sync_end().unwrap();
        restarts += u32::from(store.head < head);
        // only what the redo log contains is put in place
        assert_eq!(found(&file).unwrap(), if store.head < head { round ^ 0x80 } else { round });
    }
    assert!(restarts > 1, "{restarts}");
}

/// The drive stopped, because the next group was too long for the redo log.
#[test]
fn more_may_change_during_a_sync_than_the_redo_log_has_room_for() {
    let file = large_file();
    let mut store = ordered(&file, LARGE);
    store.write(&[9; 100], 8192).unwrap();
    let sync = store.sync_begin().unwrap().unwrap();
    for round in 1..=9_u8 {
        store.write(&vec![round; 1 << 20], 8192).unwrap();
    }
    assert!(store.sync_begin().is_err(), "the first one did not end for its caller");
    // it has run already: written again, its group would replace one that came later
    let log = || {
        let mut log = vec![0; REDO_LOG_BYTES as usize];
        file.read_exact_at(&mut log, LARGE.log_at).map(|()| log).unwrap()
    };
    let before = log();
    sync.run().unwrap();
    assert!(log() == before);
    store.sync_end().unwrap();
    if let Some(last) = store.sync_begin().unwrap() {
        last.run().unwrap();
        store.sync_end().unwrap();
    }
    // as a killed process leaves it
    std::mem::forget(store);
    let mut found = vec![0; 1 << 20];
    Store::overlay(locked(&file), Some(LARGE)).unwrap().read(&mut found, 8192).unwrap();
    assert!(found.iter().all(|byte| *byte == 9));
}

/// The drive stopped: two groups of the greatest size had no room behind what is not yet reused.
#[test]
fn a_sync_that_must_end_has_room_when_the_redo_log_is_nearly_full() {
    let mut store = ordered(&large_file(), LARGE);
    while store.head + 2048 <= REDO_LOG_FULL {
        store.write(&[1; 1000], 8192).unwrap();
        store.sync().unwrap();
    }
    store.write(&vec![2; GROUP_BYTES as usize - 100], 8192).unwrap();
    let sync = store.sync_begin().unwrap().expect("it is not so large that it was synced");
    store.write(&vec![3; 3 << 20], 8192).unwrap();
    sync.run().unwrap();
    store.sync_end().unwrap();
    store.close().unwrap();
}

#[test]
fn a_sync_that_failed_elsewhere_fails_for_what_changes_during_it() {
    let mut store = ordered(&file_of(&BTreeMap::new()), PLACE);
    store.write(&[1; 100], 8192).unwrap();
    store.sync_begin().unwrap().unwrap().fail();
    let many = GROUP_BYTES as usize / size_of::<SlotSum>();
    store.slots = vec![SlotSum { at: 0.into(), checksum: 0.into() }; many];
    let written = store.write_unit(&[7; 4096], PLACE.slots_at, checksum_of(&[7; 4096]));
    assert_eq!(written.unwrap_err().to_string(), "the disk failed");
    assert!(store.close().is_err(), "what the disk has is not known");
}

/// A whole write was put in place when a part of it had filled the redo log: anyone who then opened the image saw half of a
/// write, because the redo log did not have the rest yet.
#[test]
fn of_a_write_that_fills_the_log_only_what_the_log_has_comes_in_place() {
    let file = large_file();
    let mut store = ordered(&file, LARGE);
    let bytes = 5 << 20;
    store.write(&vec![1; bytes], 8192).unwrap();
    let mut in_place = vec![0; bytes];
    file.read_exact_at(&mut in_place, 8192).unwrap();
    let put = in_place.iter().filter(|byte| **byte == 1).count() as u64;
    assert!(put > REDO_LOG_FULL, "the redo log was full: {put}");
    assert!(put < bytes as u64, "the redo log does not have the end of it: {put}");
    assert!(in_place[put as usize..].iter().all(|byte| *byte == 0));
    std::mem::forget(store);
}

#[test]
fn what_changed_twice_is_in_a_group_once() {
    let file = file_of(&BTreeMap::new());
    let mut store = ordered(&file, PLACE);
    for round in 1..=100 {
        store.write(&[round; 24], TALLY_AT).unwrap();
        store.write(&[round; 300], 8192 + u64::from(round)).unwrap();
    }
    let sync = store.sync_begin().unwrap().unwrap();
    assert_eq!(sync.gathered().group.bytes().len(), (32 + 12 + 24 + 12 + 399_usize).next_multiple_of(SECTOR));
    sync.run_in_cache().unwrap();
    store.sync_end().unwrap();
    let mut found = [0; 399];
    Store::overlay(locked(&file), Some(PLACE)).unwrap().read(&mut found, 8193).unwrap();
    let expected: Vec<u8> = (1..100).chain([100; 300]).collect();
    assert_eq!(&found[..], expected);
    std::mem::forget(store);
}

#[test]
fn the_log_has_its_place_on_the_disk_before_it_is_used_and_gets_it_once() {
    use std::os::unix::fs::MetadataExt;

    let file = file_of(&BTreeMap::new());
    let log = PLACE.log_at + REDO_LOG_FULL / 2;
    let mut byte = [0];
    for open in 0..3 {
        drop(Store::ordered(locked(&file), PLACE).unwrap());
        assert!(file.metadata().unwrap().blocks() * 512 >= REDO_LOG_FULL);
        file.read_exact_at(&mut byte, log).unwrap();
        assert_eq!(byte, [if open == 0 { UNUSED } else { 1 }]);
        file.write_all_at(&[1], log).unwrap();
    }
}

/// A machine that is lost while a redo log is being overwritten with filler may leave some of its groups, and a group
/// after a gap is refused.
#[test]
fn a_log_with_a_group_is_not_filled() {
    let file = file_of(&BTreeMap::from([(PLACE.log_at, encode(7, 0, &[], &[]).1)]));
    fill(&hosted(&file), PLACE).unwrap();
    let mut rest = [1; 4096];
    file.read_exact_at(&mut rest, PLACE.log_at + SECTOR as u64).unwrap();
    assert_eq!(rest, [0; 4096]);
    assert_eq!(settle(&hosted(&file), PLACE).unwrap(), 7);
}
