//! Random work on a store, compared with a map in memory: on a volume and in a folder, in both ways, with snapshots,
//! compaction and reopening. `COUCH_SEED=17` runs one seed, `COUCH_SEEDS=200` more.

use std::collections::BTreeMap;

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_couch::{Batch, Compaction, Folder, Options, Snapshot, Storage, Store, VolumeStorage, Way};
use tantalum_volume::Volume;

const NAME: &str = "docs.couch";

/// Each key's value and the number of its last change; `None` is a deletion.
type Model = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

fn volume() -> VolumeStorage {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 256 << 20;
    VolumeStorage::new(Volume::format(Device::in_memory(&profile).unwrap(), 1 << 20).unwrap())
}

fn options(way: Way) -> Options {
    Options { way, cache_bytes: 64 << 10, stage_units: 24 }
}

fn key(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let number: u32 = random.random_range(0..300);
    // some keys are long, so that trees are high
    let mut key = format!("key{number:05}").into_bytes();
    if number.is_multiple_of(3) {
        key.resize(400, b'k');
    }
    key
}

fn value(random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let bytes = [0..200, 200..4000, 4000..4100, 9000..20_000][random.random_range(0..4)].clone();
    let mut value = vec![0; random.random_range(bytes)];
    random.fill_bytes(&mut value);
    value
}

fn check_snapshot<S: Storage>(snapshot: &Snapshot<S>, model: &Model, since: u64) {
    let found: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).collect();
    let expected: Vec<_> =
        model.iter().filter_map(|(key, (seq, value))| Some((key, *seq, value.as_ref()?))).collect();
    assert_eq!(snapshot.len(), expected.len() as u64);
    assert_eq!(found.len(), expected.len());
    for (found, (key, seq, value)) in found.iter().zip(&expected) {
        assert_eq!((found.key(), found.seq()), (&key[..], *seq));
        assert!(found.value() == &value[..], "{found:?}");
    }
    // from both ends, until they meet
    let mut range = snapshot.iter().unwrap();
    let mut left = expected.iter();
    for turn in since.. {
        let (found, key) = match turn % 3 {
            0 => (range.next(), left.next()),
            _ => (range.next_back(), left.next_back()),
        };
        assert_eq!(found.as_ref().map(|found| found.as_ref().unwrap().key()), key.map(|(key, ..)| &key[..]));
        if key.is_none() {
            break;
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
    let mut expected: Vec<_> = model.iter().map(|(key, (seq, value))| (*seq, key, value)).collect();
    expected.retain(|(seq, ..)| *seq > since);
    expected.sort_unstable();
    let found: Vec<_> = snapshot.changes(since).unwrap().map(Result::unwrap).collect();
    assert!(found.iter().map(|document| document.seq()).eq(expected.iter().map(|change| change.0)));
    for (found, (_, key, value)) in found.iter().zip(&expected) {
        assert_eq!((found.key(), found.is_deleted()), (&key[..], value.is_none()));
        assert!(found.value() == value.as_deref().unwrap_or_default(), "{found:?}");
    }
}

struct Host<S: Storage> {
    store: Store<S>,
    model: Model,
    snapshots: Vec<(Snapshot<S>, Model)>,
    compaction: Option<Compaction<S>>,
    random: Xoshiro256PlusPlus,
}

impl<S: Storage> Host<S> {
    fn commit(&mut self) {
        let mut batch = Batch::new();
        let mut changed: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        for _ in 0..self.random.random_range(1..12) {
            let key = key(&mut self.random);
            let new = self.random.random_bool(0.9).then(|| value(&mut self.random));
            match &new {
                Some(value) => batch.put(&key, value).unwrap(),
                None => batch.delete(&key).unwrap(),
            }
            match changed.iter_mut().find(|(known, _)| *known == key) {
                Some((_, last)) => *last = new,
                None => changed.push((key, new)),
            }
        }
        let mut seq = self.store.statistics().seq;
        for (key, new) in changed {
            let is_there = self.model.get(&key).is_some_and(|(_, value)| value.is_some());
            if new.is_some() || is_there {
                seq += 1;
                self.model.insert(key, (seq, new));
            }
        }
        assert_eq!(self.store.commit(&batch).unwrap(), seq);
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..5 if self.snapshots.len() < 3 => {
                self.snapshots.push((self.store.snapshot(), self.model.clone()));
            }
            5..10 if !self.snapshots.is_empty() => {
                let (snapshot, model) = self.snapshots.swap_remove(0);
                check_snapshot(&snapshot, &model, self.random.random_range(0..=snapshot.seq()));
            }
            10..12 if self.compaction.is_none() => {
                self.compaction = Some(self.store.compaction(0).unwrap());
            }
            12..22 => {
                let steps = self.random.random_range(0..60);
                if let Some(mut compaction) = self.compaction.take() {
                    match compaction.step(steps).unwrap() {
                        true => self.compaction = Some(compaction),
                        false => compaction.finish().unwrap(),
                    }
                }
            }
            22..40 => {
                let key = key(&mut self.random);
                let found = self.store.get(&key).unwrap();
                let expected = self.model.get(&key).and_then(|(seq, value)| Some((*seq, value.as_ref()?)));
                assert_eq!(found.is_some(), expected.is_some());
                if let (Some(found), Some((seq, value))) = (found, expected) {
                    assert_eq!(found.seq(), seq);
                    assert!(found.value() == value);
                }
            }
            _ => self.commit(),
        }
    }
}

/// Works on a store, reopens it and continues; `open` opens the storage each time.
fn run<S: Storage>(open: impl Fn() -> S, way: Way, seed: u64) {
    println!("seed {seed}, {way:?}");
    let mut model = Model::new();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..3 {
        let store = Store::open(open(), NAME, options(way)).unwrap();
        check_snapshot(&store.snapshot(), &model, 0);
        let mut host = Host { store, model, snapshots: Vec::new(), compaction: None, random };
        (0..150).for_each(|_| host.step());
        check_snapshot(&host.store.snapshot(), &host.model, 0);
        for (snapshot, model) in &host.snapshots {
            check_snapshot(snapshot, model, 0);
        }
        let statistics = host.store.statistics();
        assert!(statistics.live_bytes <= statistics.file_bytes, "{statistics:?}");
        (model, random) = (host.model, host.random);
    }
    let store = Store::open(open(), NAME, options(way)).unwrap();
    check_snapshot(&store.snapshot(), &model, 0);
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    match number("COUCH_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("COUCH_SEEDS").unwrap_or(8)).collect(),
    }
}

#[test]
fn a_store_on_a_volume_holds_what_was_committed() {
    for seed in seeds() {
        for way in [Way::Share, Way::Original] {
            let storage = volume();
            run(|| storage.clone(), way, seed);
        }
    }
}

#[test]
fn a_store_in_a_folder_holds_what_was_committed() {
    for seed in seeds() {
        let folder = tempfile::tempdir().unwrap();
        run(|| Folder::new(folder.path()).unwrap(), Way::Share, seed);
    }
}

/// A file created in one way is used in the other, and compaction converts it.
#[test]
fn a_file_of_either_way_can_be_opened_in_the_other() {
    let storage = volume();
    let mut model = Model::new();
    for (round, way) in [Way::Original, Way::Share, Way::Original, Way::Share].into_iter().enumerate() {
        let store = Store::open(storage.clone(), NAME, options(way)).unwrap();
        check_snapshot(&store.snapshot(), &model, 0);
        let random = Xoshiro256PlusPlus::seed_from_u64(round as u64);
        let mut host = Host { store, model, snapshots: Vec::new(), compaction: None, random };
        (0..60).for_each(|_| host.commit());
        host.store.compact().unwrap();
        let before = host.store.statistics().documents_shared;
        (0..60).for_each(|_| host.commit());
        let shared = host.store.statistics().documents_shared - before;
        assert_eq!(shared > 0, way == Way::Share, "{shared} documents were shared");
        check_snapshot(&host.store.snapshot(), &host.model, 0);
        model = host.model;
    }
}
