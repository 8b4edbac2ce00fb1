//! Swapped-out indexes: records are found, moved, deleted and recovered as if all indexes were in DRAM.

use std::collections::BTreeMap;

use tantalum_nand::{BlockId, Geometry, Nand};

use super::record::{RecordPlace, SEGMENT_BYTES};
use super::residence::InCheckpoint;
use super::{Key, KeyValueError, KvRecord, NamespaceAttributes, NamespaceId};
use crate::control::Ftl;
use crate::error::FtlError;
use crate::space::{BlockUse, CheckpointInterval, FtlConfig};
use crate::test_support::{CONFIG, GEOMETRY, TIMING};

/// Bytes of an index of up to 48 entries.
const INDEX_BYTES: u64 = 2048;

/// Room for one of them.
const LIMITED: FtlConfig = FtlConfig { index_dram_bytes: Some(INDEX_BYTES), ..CONFIG };

/// The drive, with its expected contents.
struct TestDrive {
    ftl: Ftl,
    config: FtlConfig,
    namespaces: Vec<NamespaceId>,
    key: fn(u64) -> Key,
    model: BTreeMap<(NamespaceId, Key), Vec<u8>>,
    state: u64,
}

fn key(number: u64) -> Key {
    // lengths on both sides of the limit up to which a hash identifies a key
    Key::new(format!("{number:0width$}", width = 4 + (number % 12) as usize).as_bytes()).unwrap()
}

/// Keys in groups of six with the same hash, as a host could choose them.
fn colliding_key(number: u64) -> Key {
    Key::new(&[b'0' + (number % 4) as u8; 16]).unwrap().colliding(number / 4)
}

impl TestDrive {
    fn new(config: FtlConfig, geometry: Geometry, namespaces: u32) -> TestDrive {
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let namespaces = (0..namespaces)
            .map(|_| ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap())
            .collect();
        TestDrive { ftl, config, namespaces, key, model: BTreeMap::new(), state: 1 }
    }

    /// Power failed when everything was on flash, and came back.
    fn recovered(self) -> TestDrive {
        let mut nand = self.ftl.into_nand();
        nand.advance(u64::MAX);
        let ftl = Ftl::recover(nand, self.config, 0).map_err(|(_, error)| error).unwrap().0;
        TestDrive { ftl, ..self }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn put(&mut self, namespace: usize, number: u64, value: Option<&[u8]>) {
        let place = (self.namespaces[namespace], (self.key)(number));
        self.put_together(BTreeMap::from([(place, value.map(<[u8]>::to_vec))]));
    }

    /// Puts and deletes records of one or two namespaces at once.
    fn put_random(&mut self) {
        let mut batch = BTreeMap::new();
        for _ in 0..=self.random(3) {
            let slot = self.random(self.namespaces.len() as u64) as usize;
            let namespace = self.namespaces[slot];
            let bytes = if self.random(10) == 0 { 9000 } else { self.random(400) as usize };
            let value = (self.random(5) > 0).then(|| vec![self.random(256) as u8; bytes]);
            batch.insert((namespace, (self.key)(self.random(24))), value);
        }
        self.put_together(batch);
    }

    fn put_together(&mut self, batch: BTreeMap<(NamespaceId, Key), Option<Vec<u8>>>) {
        let records: Vec<KvRecord<'_>> = batch
            .iter()
            .map(|((namespace, key), value)| KvRecord {
                namespace: *namespace,
                key: *key,
                value: value.as_deref(),
            })
            .collect();
        self.ftl.maintain(0).unwrap();
        self.ftl.put(&records, 0, 0, &mut |_| None).unwrap();
        for (place, value) in batch {
            match value {
                Some(value) => drop(self.model.insert(place, value)),
                None => drop(self.model.remove(&place)),
            }
        }
    }

    fn compare(&mut self) {
        assert_eq!(self.ftl.audit_maps().findings().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
        for namespace in self.namespaces.clone() {
            let info = self.ftl.namespaces().find(|info| info.namespace == namespace).unwrap();
            let held = self.model.keys().filter(|(of, _)| *of == namespace).count();
            assert_eq!(info.records, held as u64, "of namespace {namespace}");
            let mut keys = Vec::new();
            self.ftl.list(namespace, None, &mut keys, usize::MAX, 0).unwrap();
            assert_eq!(keys.len(), held, "of namespace {namespace}");
        }
        for ((namespace, key), value) in &self.model {
            let mut found = Vec::new();
            self.ftl.get(*namespace, key, &mut found, 0).unwrap();
            assert!(
                &found == value,
                "key {key} of namespace {namespace}: {} bytes of {}",
                found.len(),
                value.len()
            );
        }
    }

    fn resident_bytes(&self) -> u64 {
        self.ftl.namespaces().map(|info| info.index_bytes).sum()
    }

    fn swapped_out(&self) -> Vec<bool> {
        self.ftl.namespaces().map(|info| info.swapped_out).collect()
    }

    /// Drops everything from DRAM except the last namespace's index.
    fn swap_out_all_but_last(&mut self) {
        let last = *self.namespaces.last().unwrap();
        self.ftl.exists(last, &key(0), 0).unwrap();
        self.ftl.maintain(0).unwrap();
        let mut expected = vec![true; self.namespaces.len()];
        *expected.last_mut().unwrap() = false;
        assert_eq!(self.swapped_out(), expected);
    }
}

/// Random work over three namespaces with DRAM for one, with power cuts and clean shutdowns.
#[test]
fn swapped_namespaces_are_what_was_put_into_them() {
    let mut drive = TestDrive::new(LIMITED, GEOMETRY, 3);
    for round in 0..40 {
        (0..40).for_each(|_| drive.put_random());
        drive.compare();
        drive.ftl.maintain(0).unwrap();
        assert_eq!(drive.resident_bytes(), INDEX_BYTES, "round {round}");
        if round % 3 > 0 {
            if round % 3 == 2 {
                drive.ftl.take_checkpoint(0, true).unwrap();
            }
            drive = drive.recovered();
            assert!(drive.resident_bytes() <= INDEX_BYTES, "round {round}: recovery swaps out too");
            drive.compare();
        }
    }
    let counters = drive.ftl.counters();
    assert!(counters.collections > 10, "{counters:?}");
    assert!(counters.indexes_swapped_out > 200 && counters.indexes_swapped_in > 200, "{counters:?}");
    assert!(counters.index_checkpoints > 50 && counters.index_units_read > 200, "{counters:?}");
}

#[test]
fn without_a_limit_nothing_is_swapped() {
    let mut drive = TestDrive::new(CONFIG, GEOMETRY, 3);
    (0..500).for_each(|_| drive.put_random());
    drive.compare();
    assert_eq!((drive.resident_bytes(), drive.swapped_out()), (3 * INDEX_BYTES, vec![false; 3]));
    let counters = drive.ftl.counters();
    assert_eq!((counters.indexes_swapped_out, counters.index_checkpoints), (0, 0));
}

/// Four namespaces, and room for two: the least recently used go first, and unchanged ones need no checkpoint.
#[test]
fn those_used_longest_ago_are_swapped_out() {
    let mut drive =
        TestDrive::new(FtlConfig { index_dram_bytes: Some(2 * INDEX_BYTES), ..CONFIG }, GEOMETRY, 4);
    for namespace in [0, 1, 2, 3] {
        drive.put(namespace, 1, Some(b"value"));
    }
    drive.ftl.maintain(0).unwrap();
    assert_eq!(drive.swapped_out(), [true, true, false, false]);
    drive.ftl.take_checkpoint(0, false).unwrap();
    let checkpoints = drive.ftl.counters().checkpoints;
    let use_of = |drive: &mut TestDrive, namespace: usize| {
        assert!(drive.ftl.exists(drive.namespaces[namespace], &key(1), 0).unwrap().0);
    };
    use_of(&mut drive, 2);
    use_of(&mut drive, 0);
    assert_eq!(drive.swapped_out(), [false, true, false, true]);
    use_of(&mut drive, 1);
    assert_eq!(drive.swapped_out(), [false, false, true, true]);
    assert_eq!(drive.ftl.counters().checkpoints, checkpoints);
}

/// The drive's time: an index that is only on flash is read before the record.
#[test]
fn loading_takes_flash_reads() {
    let mut drive = TestDrive::new(LIMITED, GEOMETRY, 2);
    drive.put(0, 1, Some(b"value"));
    drive.swap_out_all_but_last();
    let at_ns = drive.ftl.nand().idle_ns();
    let (namespace, mut value) = (drive.namespaces[0], Vec::new());
    let loaded_ns = drive.ftl.get(namespace, &key(1), &mut value, at_ns).unwrap();
    let resident_ns = drive.ftl.get(namespace, &key(1), &mut value, loaded_ns).unwrap() - loaded_ns;
    assert!(resident_ns < 2 * TIMING.read_ns, "{resident_ns}");
    assert!(loaded_ns - at_ns >= 2 * TIMING.read_ns, "{}", loaded_ns - at_ns);
    assert_eq!(drive.ftl.counters().index_units_read, 1);
}

/// Records of a swapped-out namespace are among those of another one, which are overwritten.
#[test]
fn collection_loads_what_it_needs_to_move_records() {
    let mut drive = TestDrive::new(LIMITED, GEOMETRY, 2);
    for number in 0..24 {
        drive.put(0, number, Some(&[number as u8; 900]));
        drive.put(1, number, Some(&[number as u8; 900]));
    }
    drive.swap_out_all_but_last();
    let before = drive.ftl.counters().indexes_swapped_in;
    (0..1500).for_each(|number| drive.put(1, number % 24, Some(&[number as u8; 900])));
    let counters = drive.ftl.counters();
    assert!(counters.indexes_swapped_in > before && counters.flash_units.key_value_copyback > 20);
    drive.compare();
}

/// With a capacitor, records wait in protected DRAM, and their index names them when their page is programmed.
#[test]
fn what_waits_for_a_swapped_namespace_is_named_when_it_is_programmed() {
    let config = FtlConfig { dump_units: 16, protected_units: 8, ..LIMITED };
    let mut drive = TestDrive::new(config, GEOMETRY, 2);
    drive.put(0, 1, Some(b"one"));
    drive.put(0, 2, Some(b"two"));
    drive.swap_out_all_but_last();
    drive.ftl.program_waiting(0).unwrap();
    drive.compare();
    assert_eq!(drive.ftl.counters().flash_units.key_value, 1);
}

#[test]
fn a_swapped_namespace_is_deleted_with_all_that_it_holds() {
    let mut drive = TestDrive::new(LIMITED, GEOMETRY, 2);
    for number in 0..24 {
        drive.put(0, number, Some(&[7; 900]));
    }
    drive.swap_out_all_but_last();
    let deleted = drive.namespaces.remove(0);
    let at_ns = drive.ftl.nand().idle_ns();
    assert!(drive.ftl.delete_namespace(deleted, at_ns).unwrap() >= at_ns + TIMING.read_ns);
    drive.model.clear();
    drive.compare();
    let found = drive.ftl.get(deleted, &key(1), &mut Vec::new(), 0);
    assert!(matches!(found, Err(KeyValueError::NoSuchNamespace(_))), "{found:?}");
}

/// Indexes of several pages, at any position in the checkpoint's bytes, in the checkpoint itself and copied over.
#[test]
fn large_indexes_come_back_as_they_were() {
    let geometry = Geometry { blocks_per_plane: 128, pages_per_block: 16, ..GEOMETRY };
    let config = FtlConfig { logical_units: 4000, index_dram_bytes: Some(1), ..CONFIG };
    let mut drive = TestDrive::new(config, geometry, 3);
    for (namespace, count) in [(0, 700), (1, 3000), (2, 1300)] {
        (0..count).for_each(|number| drive.put(namespace, number, Some(&[number as u8; 20])));
    }
    for _ in 0..3 {
        drive.ftl.take_checkpoint(0, false).unwrap();
        drive.compare();
    }
    drive.swap_out_all_but_last();
    // a checkpoint of what is swapped out
    drive.put(2, 5000, Some(b"more"));
    drive.ftl.take_checkpoint(0, true).unwrap();
    drive = drive.recovered();
    assert_eq!(drive.swapped_out(), [true; 3]);
    drive.compare();
}

/// What is read equals what was written, or it is rejected.
#[test]
fn an_index_that_is_not_what_it_was_is_refused() {
    let mut drive = TestDrive::new(LIMITED, GEOMETRY, 2);
    drive.put(0, 1, Some(b"value"));
    drive.swap_out_all_but_last();
    let id = drive.namespaces[0];
    let place = drive.ftl.records().namespaces[&id].index.on_flash().unwrap();
    let other = InCheckpoint { checksum: !place.checksum, ..place };
    drive.ftl.records_mut().are_in_checkpoint(&[(id, other)]);
    let found = drive.ftl.get(id, &key(1), &mut Vec::new(), 0);
    assert!(matches!(found, Err(KeyValueError::Ftl(FtlError::Damaged(_)))), "{found:?}");
    assert!(drive.ftl.audit_maps().findings().count() > 0);
    let taken = drive.ftl.take_checkpoint(0, false);
    assert!(matches!(taken, Err(FtlError::Damaged(_))), "{taken:?}");
}

/// Keys of more than eight bytes may have the same hash, and a host can choose them so. Random work with only such keys,
/// with power cuts: only the keys stored with the records distinguish them, also among copies.
#[test]
fn keys_with_the_same_hash_are_told_apart() {
    for (config, namespaces) in [(CONFIG, 1), (LIMITED, 2)] {
        let mut drive = TestDrive { key: colliding_key, ..TestDrive::new(config, GEOMETRY, namespaces) };
        drive.ftl.flush_journal(0).unwrap();
        assert_eq!(colliding_key(0).hash(), colliding_key(20).hash());
        for round in 0..20 {
            (0..300).for_each(|_| drive.put_random());
            drive.compare();
            if round % 3 == 2 {
                drive.ftl.take_checkpoint(0, true).unwrap();
            }
            drive = drive.recovered();
            drive.compare();
        }
        assert!(drive.ftl.counters().collections > 10);
    }
}

/// Two keys with one hash, whose records the checkpoint has. They were copied since, and the originals erased: only the
/// copies show which is which, and how many segments each has.
#[test]
fn copies_of_keys_with_the_same_hash_are_told_apart_when_the_originals_are_gone() {
    for (order, replaced) in [([0, 4], None), ([4, 0], Some(0)), ([0, 4], Some(4))] {
        let config = FtlConfig { checkpoint_interval: CheckpointInterval::Pages(u64::MAX), ..CONFIG };
        let mut drive = TestDrive { key: colliding_key, ..TestDrive::new(config, GEOMETRY, 1) };
        for number in order {
            drive.put(0, number, Some(&vec![number as u8; 100 + 2500 * number as usize]));
        }
        drive.ftl.take_checkpoint(0, false).unwrap();
        let erases = |ftl: &Ftl, block| ftl.nand().erase_count(block);
        let old: Vec<BlockId> =
            (0..GEOMETRY.blocks()).map(BlockId).filter(|block| drive.ftl.map().valid(*block) > 0).collect();
        let before: Vec<u32> = old.iter().map(|block| erases(&drive.ftl, *block)).collect();
        for round in 0..1000_u64 {
            drive.put(0, 1 + round % 3, Some(&[round as u8; 4000]));
            if old.iter().zip(&before).all(|(block, before)| erases(&drive.ftl, *block) > *before) {
                break;
            }
            for block in &old {
                if drive.ftl.space().block_use(*block) == BlockUse::Closed
                    && drive.ftl.map().valid(*block) > 0
                {
                    drive.ftl.empty_block(*block);
                }
            }
        }
        assert!(old.iter().zip(&before).all(|(block, before)| erases(&drive.ftl, *block) > *before));
        assert_eq!(drive.ftl.counters().checkpoints, 2, "that of the new drive, and the one above");
        if let Some(number) = replaced {
            drive.put(0, number, Some(b"its original is gone too"));
        }
        let mut drive = drive.recovered();
        drive.compare();
    }
}

/// Takes no checkpoint by itself.
const NO_CHECKPOINTS: FtlConfig =
    FtlConfig { checkpoint_interval: CheckpointInterval::Pages(u64::MAX), ..CONFIG };

/// The place of the first segment of a key's value; no other key of the namespace has its hash.
fn place_of(drive: &TestDrive, namespace: usize, key: &Key) -> RecordPlace {
    let namespace = &drive.ftl.records().namespaces[&drive.namespaces[namespace]];
    let found = namespace.index.get().with_hash(key.hash()).next();
    found.expect("the key is there").place
}

/// Fills the blocks in which these keys' values begin, and takes a checkpoint.
fn checkpoint_of_full_blocks(drive: &mut TestDrive, namespace: usize, keys: &[Key]) {
    let is_open = |drive: &TestDrive, key: &Key| {
        let block = GEOMETRY.block_of_unit(place_of(drive, namespace, key).ppn);
        drive.ftl.space().block_use(block) != BlockUse::Closed
    };
    for number in 100.. {
        if !keys.iter().any(|key| is_open(drive, key)) {
            break;
        }
        drive.put(namespace, number, Some(&[1; 4000]));
    }
    drive.ftl.take_checkpoint(0, false).unwrap();
}

/// Moves what is in the block of the first segment of a key's value, unless it was moved with another.
fn move_head(drive: &mut TestDrive, namespace: usize, key: &Key) {
    let old = place_of(drive, namespace, key);
    let block = GEOMETRY.block_of_unit(old.ppn);
    if drive.ftl.space().block_use(block) == BlockUse::Closed {
        drive.ftl.empty_block(block);
        assert_ne!(place_of(drive, namespace, key), old);
    }
}

/// The last segment stays where it was, and a checkpoint names it there.
#[test]
fn a_value_of_which_a_part_was_copied_is_whole() {
    let mut drive = TestDrive::new(NO_CHECKPOINTS, GEOMETRY, 1);
    for number in [4, 11] {
        drive.put(0, number, Some(&[number as u8; 9000]));
    }
    checkpoint_of_full_blocks(&mut drive, 0, &[4, 11].map(key));
    for number in [4, 11] {
        move_head(&mut drive, 0, &key(number));
    }
    let mut drive = drive.recovered();
    drive.compare();
    drive.put(0, 4, None);
    drive.put(0, 11, Some(b"short"));
    drive.recovered().compare();
}

/// The checkpoint, the copy and its replacement: only the last one counts, once.
#[test]
fn a_record_that_was_copied_and_replaced_is_there_once() {
    for new in [None, Some(&b"new"[..]), Some(&[8; 9000])] {
        let mut drive = TestDrive::new(NO_CHECKPOINTS, GEOMETRY, 1);
        for number in [4, 11] {
            drive.put(0, number, Some(&[number as u8; 9000]));
        }
        checkpoint_of_full_blocks(&mut drive, 0, &[4, 11].map(key));
        let others = drive.model.len() as u64 - 2;
        for number in [4, 11] {
            move_head(&mut drive, 0, &key(number));
            drive.put(0, number, new);
        }
        let mut drive = drive.recovered();
        drive.compare();
        let namespace = &drive.ftl.records().namespaces[&drive.namespaces[0]];
        let segments = new.map_or(0, |value| value.len().div_ceil(SEGMENT_BYTES) as u64);
        assert_eq!(namespace.index.entries(), others + 2 * segments);
    }
}

/// Copies made since the checkpoint name a namespace that the journal ends.
#[test]
fn a_namespace_whose_records_were_copied_is_deleted() {
    let mut drive = TestDrive::new(NO_CHECKPOINTS, GEOMETRY, 2);
    for number in [4, 11] {
        drive.put(0, number, Some(&[number as u8; 900]));
        drive.put(1, number, Some(&[number as u8; 900]));
    }
    checkpoint_of_full_blocks(&mut drive, 0, &[key(4)]);
    move_head(&mut drive, 0, &key(4));
    let deleted = drive.namespaces.remove(0);
    drive.ftl.delete_namespace(deleted, 0).unwrap();
    drive.ftl.flush_journal(0).unwrap();
    drive.model.retain(|(namespace, _), _| *namespace != deleted);
    drive.recovered().compare();
}

/// Keys of eight bytes: the first later segment of the second key's value has the same hash as the second one of the
/// first key's.
fn crossing_key(number: u64) -> Key {
    let first = Key::new(b"crossing").unwrap();
    let step = 0x9e37_79b9_7f4a_7c15_u64;
    let crossing = Key::of_hash(first.hash().wrapping_add(step.wrapping_mul(number)), 8).unwrap();
    if number == 0 { first } else { crossing }
}

/// A key of up to eight bytes follows from its hash; the segments of its value may have the same hashes as another
/// key's.
#[test]
fn segments_with_the_same_hash_are_told_apart() {
    assert_eq!(crossing_key(1).segment_hash(1), crossing_key(0).segment_hash(2));
    for (order, replaced) in [([0, 1], 0), ([0, 1], 1), ([1, 0], 0), ([1, 0], 1)] {
        let mut drive = TestDrive { key: crossing_key, ..TestDrive::new(NO_CHECKPOINTS, GEOMETRY, 1) };
        for number in order {
            drive.put(0, number, Some(&[number as u8; 9000]));
        }
        drive.compare();
        drive.ftl.take_checkpoint(0, false).unwrap();
        drive.put(0, replaced, Some(b"short"));
        let mut drive = drive.recovered();
        drive.compare();
    }
}

/// In the place of one key's record there is now a record of another key with the same hash: it does not show whose
/// entry the checkpoint's is.
#[test]
fn a_record_written_over_another_key_with_its_hash_is_not_taken_for_what_was_there() {
    let mut drive = TestDrive { key: colliding_key, ..TestDrive::new(NO_CHECKPOINTS, GEOMETRY, 1) };
    let (namespace, hash) = (drive.namespaces[0], colliding_key(0).hash());
    let places = |drive: &TestDrive| -> Vec<RecordPlace> {
        let index = drive.ftl.records().namespaces[&namespace].index.get();
        index.with_hash(hash).filter(|entry| entry.key_length > 0).map(|entry| entry.place).collect()
    };
    drive.put(0, 0, Some(b"small"));
    let small = places(&drive)[0];
    drive.put(0, 4, Some(&[4; 9000]));
    drive.ftl.take_checkpoint(0, false).unwrap();
    let large = GEOMETRY.block_of_unit(places(&drive)[1].ppn);
    let small_block = GEOMETRY.block_of_unit(small.ppn);
    for round in 0..2000_u64 {
        for block in [small_block, large] {
            let is_old = drive.ftl.nand().erase_count(block) == 1;
            if is_old
                && drive.ftl.space().block_use(block) == BlockUse::Closed
                && drive.ftl.map().valid(block) > 0
            {
                drive.ftl.empty_block(block);
            }
        }
        drive.put(0, 1 + round % 3, Some(&[round as u8; 4000]));
        drive.put(0, 4, Some(b"replaced"));
        let is_over =
            drive.ftl.nand().erase_count(small_block) > 1 && drive.ftl.nand().erase_count(large) > 1;
        if is_over && places(&drive).contains(&small) {
            break;
        }
    }
    assert!(places(&drive).contains(&small), "the place has a record of the other key");
    assert_eq!(drive.ftl.counters().checkpoints, 2, "that of the new drive, and the one above");
    let mut drive = drive.recovered();
    drive.compare();
    assert_eq!(drive.ftl.records().namespaces[&namespace].index.entries(), drive.model.len() as u64);
    drive.put(0, 4, Some(&[5; 9000]));
    drive.compare();
}
