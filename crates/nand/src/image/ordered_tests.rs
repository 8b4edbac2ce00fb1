//! A machine that is lost at any time leaves what was synced, or what was about to be; no mixture.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::locked_file::LockedFile;
use super::super::store::Store;
use super::*;

const PLACE: LogPlace = LogPlace { log_at: 1 << 16, slots_at: (1 << 16) + LOG_BYTES };

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % limit
    }
}

fn locked(file: &File) -> LockedFile {
    LockedFile::lock(file.try_clone().unwrap(), Path::new("a file without a name")).unwrap()
}

fn file_of(contents: &BTreeMap<u64, Vec<u8>>) -> File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PLACE.slots_at + (64 << 12)).unwrap();
    contents.iter().for_each(|(at, data)| file.write_all_at(data, *at).unwrap());
    file
}

/// The disk, page by page, after a loss: what was synced, and any of the pages written since.
struct Disk {
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Disk {
    fn write(&mut self, at: u64, data: &[u8], mut lands: impl FnMut() -> bool) {
        let mut done = 0;
        while done < data.len() {
            let (page, offset) = ((at + done as u64) / 4096 * 4096, ((at + done as u64) % 4096) as usize);
            let bytes = (4096 - offset).min(data.len() - done);
            if lands() {
                let page = self.pages.entry(page).or_insert_with(|| vec![0; 4096]);
                page[offset..offset + bytes].copy_from_slice(&data[done..done + bytes]);
            }
            done += bytes;
        }
    }
}

/// What the drive sees: records below the log, and the units that they name.
type Model = (Vec<u8>, BTreeMap<u64, Vec<u8>>);

/// Opens what a lost machine left, and demands one of two states.
fn assert_is_either(disk: &Disk, synced: &Model, begun: Option<&Model>, seed: u64) -> bool {
    let file = file_of(&disk.pages);
    // an overlay reads the log as the others do, and does not wait for the disk
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

fn run(seed: u64) -> [u64; 2] {
    let mut random = Random(seed);
    let mut disk = Disk { pages: BTreeMap::new() };
    let file = file_of(&disk.pages);
    let Store::Ordered(mut store) = Store::ordered(locked(&file), PLACE).unwrap() else { unreachable!() };
    disk.write(PLACE.log_at, &encode(store.sequence, 0, &[], &[]).1, || true);
    let mut model: Model = (vec![0; PLACE.log_at as usize], BTreeMap::new());
    let mut synced = model.clone();
    let mut outcomes = [0; 2];
    // slots that no durable state names
    let mut free: Vec<u64> = (0..64).map(|slot| PLACE.slots_at + (slot << 12)).collect();
    let mut given_up_before = Vec::new();
    for _ in 0..60 {
        let mut given_up = Vec::new();
        for _ in 0..1 + random.below(6) {
            if let Some(slot) = free.pop().filter(|_| random.below(2) == 0) {
                let data = vec![random.below(256) as u8; 4096];
                store.write(&data, slot).unwrap();
                model.1.insert(slot, data);
            }
            if random.below(3) == 0
                && let Some((slot, _)) = model.1.pop_first()
            {
                given_up.push(slot);
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
        if random.below(6) == 0 {
            // a large group pushes the log over its end; one that is too large would become durable by itself
            for _ in 0..20 {
                store.write(&[9; 30_000], 8192).unwrap();
            }
            model.0[8192..38_192].fill(9);
        }
        store.sync_begin().unwrap();
        let written = store.unsynced.lock().unwrap().clone();
        for _ in 0..3 {
            let share = random.below(5);
            let mut lost = Disk { pages: disk.pages.clone() };
            for (at, data) in &written {
                lost.write(*at, data, || share == 4 || random.below(4) < share);
            }
            outcomes[usize::from(assert_is_either(&lost, &synced, Some(&model), seed))] += 1;
        }
        written.iter().for_each(|(at, data)| disk.write(*at, data, || true));
        synced = model.clone();
        // a slot that was free after one sync, taken at once, made the group that had last named it look torn
        free.append(&mut given_up_before);
        given_up_before = given_up;
        // the records may be brought in place, which is lost or not as well
        store.unsynced.lock().unwrap().clear();
        let in_place = store.head > LOG_FULL;
        let changed: Vec<_> = store.records.changed().map(|(at, piece)| (at, piece.to_vec())).collect();
        if in_place {
            let mut lost = Disk { pages: disk.pages.clone() };
            changed.iter().for_each(|(at, piece)| lost.write(*at, piece, || random.below(2) == 0));
            assert_is_either(&lost, &synced, None, seed);
            changed.iter().for_each(|(at, piece)| disk.write(*at, piece, || true));
            // a new group was torn, and the first old one was put over what was newer
            disk.write(PLACE.log_at, &encode(store.sequence + 1, 0, &[], &[]).1, || true);
        }
        store.sync_end().unwrap();
    }
    // a process that is killed leaves the whole file
    assert_is_either(&disk, &synced, None, seed);
    store.close().unwrap();
    outcomes
}

#[test]
fn a_lost_machine_leaves_what_was_synced_or_what_was_about_to_be() {
    let outcomes = (0..12).map(run).fold([0; 2], |sum, outcome| [sum[0] + outcome[0], sum[1] + outcome[1]]);
    assert!(outcomes.iter().all(|count| *count > 30), "both happen: {outcomes:?}");
}

#[test]
fn a_closed_file_needs_no_log_and_sequence_numbers_go_on() {
    let file = file_of(&BTreeMap::new());
    for round in 1..4_u8 {
        let Store::Ordered(mut store) = Store::ordered(locked(&file), PLACE).unwrap() else { unreachable!() };
        store.write(&[round; 100], 5000).unwrap();
        store.close().unwrap();
        drop(store);
        let mut found = [0; 100];
        file.read_exact_at(&mut found, 5000).unwrap();
        assert_eq!(found, [round; 100]);
        let (sequence, applied) = replay(&file, PLACE, |_, _| Ok(())).unwrap();
        assert_eq!((sequence, applied), (3 * u64::from(round), false));
    }
}

#[test]
fn sizes_on_the_image_are_fixed() {
    assert_eq!(size_of::<GroupHead>(), 32);
    assert_eq!(size_of::<SlotSum>(), 12);
    assert_eq!(size_of::<EntryHead>(), 12);
    assert!(LOG_FULL + Group::length(GROUP_BYTES as u64 + (1 << 19)) < LOG_BYTES);
}
