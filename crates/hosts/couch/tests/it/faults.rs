//! Faults of storage: tests in memory that keep what a sync made durable apart from what was only written: each
//! unit that was written since may reach the medium or not, in any order, and names as well.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use rand::{Rng, RngExt, SeedableRng};
use tantalum_couch::{
    Batch, Error, Options, ShareRange, Shared, Storage, StorageFile, Store, UNIT_BYTES, Way,
};

type Random = rand_xoshiro::Xoshiro256PlusPlus;

const NAME: &str = "docs.couch";

#[derive(Default)]
struct Disk {
    live: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Default)]
struct State {
    files: Vec<Disk>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    share_units: u32,
    /// This sync of a file fails, counted from 1.
    fail_sync: u32,
    fail_name_syncs: u32,
    refuse_shares: u32,
    /// The next share is done, and reported as failed.
    share_lies: bool,
    takes_no_changes: bool,
}

#[derive(Clone)]
struct Mem(Arc<Mutex<State>>);

struct MemFile(Mem, usize);

impl Mem {
    fn new(share_units: u32) -> Mem {
        Mem(Arc::new(Mutex::new(State { share_units, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Power is cut: of the unsynced units, those that `keep` names by their place in the store's file stay.
    fn cut(&self, keep: impl Fn(u64) -> bool) {
        self.cut_pieces(UNIT_BYTES, keep);
    }

    /// Power is cut: of the unsynced pieces of `bytes`, those that `keep` names stay. A disk may tear a unit.
    fn cut_pieces(&self, bytes: usize, keep: impl Fn(u64) -> bool) {
        let state = &mut *self.state();
        for disk in &mut state.files {
            disk.durable.resize(disk.live.len(), 0);
            let pieces = disk.live.chunks(bytes).zip(disk.durable.chunks_mut(bytes));
            for (piece, (live, durable)) in pieces.enumerate() {
                if live != durable && keep(piece as u64) {
                    durable.copy_from_slice(live);
                }
            }
            disk.live = disk.durable.clone();
        }
        state.names = state.durable_names.clone();
        (state.fail_sync, state.fail_name_syncs, state.refuse_shares) = (0, 0, 0);
    }

    /// No faults are waiting any more.
    fn calm(&self) {
        let state = &mut *self.state();
        (state.fail_sync, state.fail_name_syncs, state.refuse_shares, state.share_lies) = (0, 0, 0, false);
    }

    /// The units of the store's file that are written and not durable.
    fn unsynced(&self) -> Vec<u64> {
        let state = self.state();
        let disk = &state.files[state.names[NAME]];
        let unit = |bytes: &[u8], unit: u64| {
            let at = unit as usize * UNIT_BYTES;
            bytes.get(at..at + UNIT_BYTES).map_or(vec![0; UNIT_BYTES], <[u8]>::to_vec)
        };
        let units = 0..(disk.live.len() / UNIT_BYTES) as u64;
        units.filter(|at| unit(&disk.live, *at) != unit(&disk.durable, *at)).collect()
    }

    fn open(&self, way: Way) -> Store<Mem> {
        self.try_open(way).unwrap()
    }

    fn try_open(&self, way: Way) -> Result<Store<Mem>, Error> {
        Store::open(self.clone(), NAME, Options { way, stage_units: 16, ..Options::default() })
    }

    /// Power is cut; a random part of what was not synced stays, and names stay or not.
    fn cut_by_chance(&self, random: &mut Random) {
        let (salt, most) = (random.next_u64() | 1, [0, 5, 9, 10][random.random_range(0..4)]);
        let names = self.state().names.clone();
        let bytes = if self.state().share_units == 0 {
            [512, UNIT_BYTES][random.random_range(0..2)]
        } else {
            UNIT_BYTES
        };
        self.cut_pieces(bytes, |piece| {
            (piece + 1).wrapping_mul(salt) >> 32 & 0xffff_ffff < most * 0x1999_9999
        });
        if random.random_bool(0.5) && names.contains_key(NAME) {
            self.state().names = names.clone();
            self.state().durable_names = names;
        }
    }
}

impl Storage for Mem {
    type File = MemFile;
    type Lock = ();

    fn lock(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, name: &str) -> io::Result<Option<MemFile>> {
        Ok(self.state().names.get(name).map(|id| MemFile(self.clone(), *id)))
    }

    fn create(&self, name: &str) -> io::Result<MemFile> {
        let mut state = self.state();
        state.files.push(Disk::default());
        let id = state.files.len() - 1;
        state.names.insert(name.into(), id);
        Ok(MemFile(self.clone(), id))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().names.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let id = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.into(), id);
        Ok(())
    }

    fn refuses_changes(&self) -> Option<String> {
        self.state().takes_no_changes.then(|| "it is only read".to_owned())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.fail_name_syncs > 0 {
            state.fail_name_syncs -= 1;
            return Err(io::Error::other("names were not synced"));
        }
        state.durable_names = state.names.clone();
        Ok(())
    }
}

impl StorageFile for MemFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.state().files[self.1].live.len() as u64)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        let live = &mut self.0.state().files[self.1].live;
        live.resize(live.len().max(size as usize), 0);
        Ok(())
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.fill(0);
        let state = self.0.state();
        let rest = state.files[self.1].live.get(offset as usize..).unwrap_or_default();
        let bytes = rest.len().min(data.len());
        data[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.state();
        let offset = offset as usize;
        state.files[self.1].live[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let was_armed = state.fail_sync > 0;
        state.fail_sync = state.fail_sync.saturating_sub(1);
        if was_armed && state.fail_sync == 0 {
            return Err(io::Error::other("not synced"));
        }
        let disk = &mut state.files[self.1];
        disk.durable = disk.live.clone();
        Ok(())
    }

    fn share_units(&self) -> u32 {
        self.0.state().share_units
    }

    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared> {
        let mut state = self.0.state();
        if state.refuse_shares > 0 {
            state.refuse_shares -= 1;
            return Ok(Shared::Refused);
        }
        let lies = std::mem::take(&mut state.share_lies);
        let disk = &mut state.files[self.1];
        let size = disk.durable.len().max(disk.live.len());
        for range in ranges {
            let (from, to, bytes) = (range.from as usize, range.to as usize, range.bytes as usize);
            let content = disk.live[from..from + bytes].to_vec();
            // only its contents are durable
            disk.durable.resize(size, 0);
            for place in [from, to] {
                disk.live[place..place + bytes].copy_from_slice(&content);
                disk.durable[place..place + bytes].copy_from_slice(&content);
            }
        }
        if lies { Err(io::Error::other("an answer was lost")) } else { Ok(Shared::Done) }
    }

    fn copy_from(&self, from: &MemFile, from_offset: u64, to_offset: u64, bytes: u64) -> io::Result<()> {
        let mut data = vec![0; bytes as usize];
        from.read(from_offset, &mut data)?;
        self.write(to_offset, &data)
    }
}

fn batch(changes: &[(&str, &[u8])]) -> Batch {
    let mut batch = Batch::new();
    changes.iter().for_each(|(key, value)| batch.put(key.as_bytes(), value).unwrap());
    batch
}

fn value(store: &Store<Mem>, key: &str) -> Option<Vec<u8>> {
    store.get(key.as_bytes()).unwrap().map(tantalum_couch::Document::into_value)
}

/// Documents by key, and the keys in the changes.
type Told = (BTreeMap<String, Vec<u8>>, BTreeSet<String>);

/// All documents, and the keys of all changes.
fn all(store: &Store<Mem>) -> Result<Told, Error> {
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let snapshot = store.snapshot();
    let mut found = BTreeMap::new();
    for document in snapshot.iter()? {
        let document = document?;
        found.insert(text(document.key()), document.value().to_vec());
    }
    let mut changed = BTreeSet::new();
    for document in snapshot.changes(0)? {
        assert!(changed.insert(text(document?.key())), "a document is told twice");
    }
    Ok((found, changed))
}

/// A commit is torn by a power cut: its header and nodes reached the medium, its document of many units did not. It is
/// rightly given up. Then a small commit returns, whose document, nodes and header fit in the place of the torn document.
/// The next open finds the torn commit's header further on, and its nodes, and "a document with a later number": the torn
/// commit is taken for whole, and the commit that had returned is lost.
#[test]
fn a_torn_commit_does_not_come_back_over_a_later_one() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.put(b"a", b"first").unwrap();
    mem.state().fail_sync = 1;
    store.put(b"big", &[1; 40_000]).unwrap_err();
    drop(store);
    let first = mem.unsynced()[0];
    mem.cut(|unit| unit != first + 3);

    let store = mem.open(Way::Share);
    assert_eq!((value(&store, "big"), value(&store, "a")), (None, Some(b"first".to_vec())));
    store.put(b"small", b"returned").unwrap();
    drop(store);

    mem.cut(|_| false);
    let store = mem.open(Way::Share);
    assert_eq!(value(&store, "small").as_deref(), Some(&b"returned"[..]), "a commit that had returned");
    assert_eq!(value(&store, "big"), None);
}

/// The drive refuses a share (or a snapshot is opened in the middle), so a batch is appended again from the same place
/// on, where the first attempt has left documents with numbers of the same batch, durable. Power is cut while the second
/// attempt is written, and a document does not reach the medium. What the first attempt left is taken for that document.
#[test]
fn a_torn_commit_after_a_refused_share_is_given_up() {
    // whichever sync is the second attempt's
    for failing in 2..4 {
        let mem = Mem::new(64);
        let store = mem.open(Way::Share);
        store.put(b"a", b"old").unwrap();
        let end = store.statistics().file_bytes / UNIT_BYTES as u64;
        mem.state().refuse_shares = 1;
        mem.state().fail_sync = failing;
        let Err(_) = store.commit(&batch(&[("a", b"new"), ("b", b"new")])) else { continue };
        drop(store);
        mem.cut(|unit| unit != end);
        let store = mem.open(Way::Share);
        let (found, changed) = all(&store).expect("nothing is damaged");
        assert_eq!(found, BTreeMap::from([("a".to_owned(), b"old".to_vec())]), "all or nothing");
        assert_eq!(changed.len(), 1);
    }
}

/// Without a refusal: a torn commit leaves a document; the first commit after the next open is torn as well and
/// loses its document at the same place. What is found there was never committed, and is taken for it.
#[test]
fn documents_of_two_torn_commits_are_not_mixed() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.put(b"x", b"old").unwrap();
    let end = store.statistics().file_bytes / UNIT_BYTES as u64;
    mem.state().fail_sync = 1;
    store.commit(&batch(&[("a", b"first life"), ("b", b"first life")])).unwrap_err();
    drop(store);
    mem.cut(|unit| unit == end);
    let store = mem.open(Way::Share);
    assert_eq!((value(&store, "a"), value(&store, "b")), (None, None));
    mem.state().fail_sync = 1;
    store.commit(&batch(&[("a", b"second life"), ("b", b"second life")])).unwrap_err();
    drop(store);
    mem.cut(|unit| unit != end);
    let store = mem.open(Way::Share);
    let (a, b) = (value(&store, "a"), value(&store, "b"));
    assert_eq!(a, b, "half of a batch of one life, half of one of another");
}

/// A commit is written and not synced when the process is killed (or the sync fails). The next open finds it whole in
/// the page cache and builds on it, without making it durable. The next commit is torn by a power cut: its own units
/// are there and those of the commit before are not. Everything below them is lost.
#[test]
fn what_an_open_finds_is_durable_before_a_commit_builds_on_it() {
    for way in [Way::Original, Way::Share] {
        let mem = Mem::new(0);
        let store = mem.open(way);
        for number in 0..300 {
            store.put(format!("k{number:04}").as_bytes(), b"returned").unwrap();
        }
        mem.state().fail_sync = 1;
        store.put(b"k0000", b"unsynced").unwrap_err();
        drop(store);
        let lost = mem.unsynced();

        let store = mem.open(way);
        mem.state().fail_sync = 1;
        // if the open syncs, this is still the commit's
        let _ = store.put(b"k0299", b"in progress");
        drop(store);
        mem.cut(|unit| !lost.contains(&unit));
        let store = mem.open(way);
        let (found, _) = all(&store).expect("nothing is damaged");
        assert_eq!(found.len(), 300);
    }
}

/// An unsynced commit of a killed process is followed by a shared commit, which returns: the drive makes durable what is
/// shared and nothing else.
#[test]
fn a_shared_commit_after_a_kill_is_durable() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.put(b"a", b"old").unwrap();
    mem.state().fail_sync = 1;
    store.put(b"b", b"unsynced").unwrap_err();
    drop(store);
    let store = mem.open(Way::Share);
    store.put(b"b", b"returned").unwrap();
    let seq = store.put(b"a", b"returned").unwrap();
    drop(store);
    mem.cut(|_| false);
    let store = mem.open(Way::Share);
    assert_eq!(value(&store, "a").as_deref(), Some(&b"returned"[..]));
    assert_eq!(value(&store, "b").as_deref(), Some(&b"returned"[..]), "a commit that had returned");
    assert_eq!(store.snapshot().seq(), seq);
}

/// Compaction has given the file its name and the process is killed before names are made durable (or that fails). The
/// next open takes the new file, and commits to it are lost with the name.
#[test]
fn what_an_open_finds_has_a_durable_name_before_a_commit_goes_to_it() {
    let mem = Mem::new(0);
    let store = mem.open(Way::Original);
    store.put(b"a", b"old").unwrap();
    let mut compaction = store.compaction(0).unwrap();
    while compaction.step(8).unwrap() {}
    mem.state().fail_name_syncs = 1;
    compaction.finish().unwrap_err();
    drop(store);
    let store = mem.open(Way::Original);
    store.put(b"a", b"returned").unwrap();
    drop(store);
    mem.cut(|_| false);
    let store = mem.open(Way::Original);
    assert_eq!(value(&store, "a").as_deref(), Some(&b"returned"[..]), "a commit that had returned");
}

/// A store on a file system that is mounted read-only could not be opened at all.
#[test]
fn what_takes_no_changes_is_read_and_stays_as_it_is() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.put(b"a", b"first").unwrap();
    mem.state().fail_sync = 1;
    store.put(b"big", &[1; 40_000]).unwrap_err();
    drop(store);
    // a commit is torn, and a compaction was interrupted
    let first = mem.unsynced()[0];
    mem.cut(|unit| unit != first + 3);
    mem.create(&format!("{NAME}.compact")).unwrap();
    let contents = || {
        let state = mem.state();
        (state.names.clone(), state.files.iter().map(|disk| disk.live.clone()).collect::<Vec<_>>())
    };
    let before = contents();
    mem.state().takes_no_changes = true;
    let store = mem.open(Way::Share);
    assert_eq!((value(&store, "big"), value(&store, "a")), (None, Some(b"first".to_vec())));
    assert_eq!(store.refuses_changes(), Some("it is only read"));
    let refused = [store.put(b"a", b"second").map(drop), store.delete(b"none").map(drop), store.compact()];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
        assert!(error.to_string().ends_with("can only be read: it is only read"), "{error}");
    }
    let Err(error) = Store::open(mem.clone(), "none", Options::default()) else { panic!("it was created") };
    assert!(matches!(&error, Error::Io(why) if why.kind() == io::ErrorKind::NotFound), "{error}");
    assert!(contents() == before, "it was changed");
    drop(store);
    mem.state().takes_no_changes = false;
    let store = mem.open(Way::Share);
    assert_eq!((value(&store, "a"), store.refuses_changes()), (Some(b"first".to_vec()), None));
    store.put(b"a", b"second").unwrap();
}

/// One bit of one document of the last appended commit is damaged at rest. The open gives up the whole commit, and what
/// was shared since (which proves that it had returned), without reporting anything.
#[test]
fn damage_of_the_last_commit_is_told_if_later_ones_prove_it() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.commit(&batch(&[("a", b"1"), ("b", b"1"), ("c", b"1")])).unwrap();
    let end = store.statistics().file_bytes as usize;
    store.commit(&batch(&[("d", b"1"), ("e", b"1"), ("f", b"1")])).unwrap();
    store.put(b"a", b"2").unwrap();
    store.put(b"d", b"2").unwrap();
    drop(store);
    {
        let mut state = mem.state();
        let id = state.names[NAME];
        // the value of "e"
        state.files[id].live[end + UNIT_BYTES + 33] ^= 1;
    }
    let opened = Store::open(mem.clone(), NAME, Options { stage_units: 16, ..Options::default() });
    let Ok(store) = opened else { return };
    let Ok((found, changed)) = all(&store) else { return };
    assert!(
        found.len() == 6 && changed.len() == 6,
        "no error, and instead of 6 documents {found:?}, changes of {changed:?}, seq {}",
        store.snapshot().seq()
    );
}

/// Damage at rest again, and only documents of the damaged commit were shared over since. One bit in one of 1000 documents of
/// the last appended commit is flipped, and the open finds an empty store, reports nothing, and overwrites the rest.
#[test]
fn damage_of_the_last_commit_is_told() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    let end = store.statistics().file_bytes as usize;
    let mut batch = Batch::new();
    (0..1000).for_each(|number| batch.put(format!("k{number}").as_bytes(), b"1").unwrap());
    store.commit(&batch).unwrap();
    store.put(b"k999", b"2").unwrap();
    drop(store);
    {
        let mut state = mem.state();
        let id = state.names[NAME];
        // the value of k1
        state.files[id].live[end + UNIT_BYTES + 33] ^= 1;
    }
    let opened = Store::open(mem.clone(), NAME, Options { stage_units: 16, ..Options::default() });
    let Ok(store) = opened else { return };
    let Ok((found, _)) = all(&store) else { return };
    assert_eq!(found.len(), 1000, "and no error");
}

/// A share takes effect and its answer is lost. The store stops, and still reads: a snapshot has the new document, and its
/// changes have neither the new nor the old one.
#[test]
fn changes_of_a_stopped_store_tell_each_document() {
    let mem = Mem::new(64);
    let store = mem.open(Way::Share);
    store.commit(&batch(&[("a", b"old"), ("b", b"old")])).unwrap();
    mem.state().share_lies = true;
    store.put(b"a", b"new").unwrap_err();
    let Ok((found, changed)) = all(&store) else { return };
    assert_eq!(found.len(), 2);
    assert_eq!(changed.len(), 2, "{found:?}, but changes of {changed:?}");
}

/// Opening one store removes another whose name is its own and `.compact`.
#[test]
fn opening_a_store_leaves_others_alone() {
    let mem = Mem::new(0);
    let open = |name: &str| Store::open(mem.clone(), name, Options::default());
    let Ok(other) = open("docs.couch.compact") else { return };
    other.put(b"a", b"returned").unwrap();
    drop(other);
    open(NAME).unwrap();
    let other = open("docs.couch.compact").unwrap();
    assert!(other.get(b"a").unwrap().is_some(), "a commit that had returned");
}

/// Each key's last change.
type Model = BTreeMap<String, Option<Vec<u8>>>;

fn contents(store: &Store<Mem>) -> Model {
    let snapshot = store.snapshot();
    let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
    let mut changed = Model::new();
    let mut seq = 0;
    for document in snapshot.changes(0).unwrap() {
        let document = document.unwrap();
        assert!(document.seq() > seq && document.seq() <= snapshot.seq());
        seq = document.seq();
        let value = (!document.is_deleted()).then(|| document.value().to_vec());
        assert!(changed.insert(text(document.key()), value).is_none(), "told twice");
    }
    let found: Vec<_> = snapshot.iter().unwrap().map(Result::unwrap).collect();
    let live: Vec<_> = changed.iter().filter_map(|(key, value)| Some((key, value.as_ref()?))).collect();
    assert_eq!(found.len(), live.len(), "documents and changes");
    assert_eq!(snapshot.len(), live.len() as u64);
    for (found, (key, value)) in found.iter().zip(live) {
        assert!(found.key() == key.as_bytes() && found.value() == &value[..], "{found:?}");
    }
    changed
}

/// A key of up to 400 bytes, so that trees have several levels.
fn random_key(number: u32, keys: u32) -> String {
    format!("k{number:03}{}", "-".repeat(if keys > 9 { 40 * (number % 10) as usize } else { 0 }))
}

/// Random lives of a store, each ended by a kill or a cut, at a failed sync, a failed share, a share whose answer is lost, or
/// between commits; what was not synced reaches the medium piece by piece, by chance. Opening is cut as well.
#[test]
fn random_lives_hold_what_returned() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("COUCH_SEED").unwrap_or(0);
    for seed in first..first + number("COUCH_SEEDS").unwrap_or(60) {
        println!("seed {seed}");
        let mut random = Random::seed_from_u64(seed);
        let keys = [9, 300][random.random_range(0..2)];
        let mem = Mem::new([0, 8, 64][random.random_range(0..3)]);
        let mut models = vec![Model::new()];
        for life in 0..12 {
            let way = if random.random_bool(0.8) { Way::Share } else { Way::Original };
            while random.random_bool(0.2) {
                mem.state().fail_sync = random.random_range(1..4);
                drop(mem.try_open(way));
                mem.calm();
                if random.random_bool(0.7) {
                    mem.cut_by_chance(&mut random);
                }
            }
            let store = mem.open(way);
            let found = contents(&store);
            assert!(models.contains(&found), "seed {seed}, life {life}: neither before nor after");
            let mut model = found;
            models = vec![model.clone()];
            let mut snapshots = Vec::new();
            let mut compaction = None;
            for _ in 0..random.random_range(1..14) {
                match random.random_range(0..20) {
                    0 => snapshots.push((store.snapshot(), model.clone())),
                    1 => {
                        snapshots.pop();
                    }
                    2 if compaction.is_none() && mem.state().fail_sync == 0 => {
                        compaction = Some(store.compaction(0).unwrap())
                    }
                    3 | 4 => {
                        mem.calm();
                        if let Some(mut going) = compaction.take() {
                            match going.step(3).unwrap() {
                                true => compaction = Some(going),
                                false if random.random_bool(0.2) => {
                                    mem.state().fail_name_syncs = 1;
                                    going.finish().unwrap_err();
                                    break;
                                }
                                false => going.finish().unwrap(),
                            }
                        }
                    }
                    5 => mem.state().refuse_shares = 1,
                    6 => mem.state().fail_sync = random.random_range(1..4),
                    7 => mem.state().share_lies = true,
                    _ => {}
                }
                let mut batch = Batch::new();
                let mut after = model.clone();
                let large = random.random_bool(0.1);
                for _ in 0..random.random_range(1..if large { 40 } else { 5 }) {
                    let key = random_key(random.random_range(0..keys), keys);
                    let bytes = [0, 100, 3000, 5000, 20_000, 40_000]
                        [random.random_range(0..if large { 2 } else { 6 })];
                    let mut value = vec![0; bytes];
                    random.fill_bytes(&mut value);
                    if random.random_bool(0.2) {
                        batch.delete(key.as_bytes()).unwrap();
                    } else {
                        batch.put(key.as_bytes(), &value).unwrap();
                    }
                }
                for key in (0..keys).map(|number| random_key(number, keys)) {
                    let Some(value) = batch.get(key.as_bytes()) else { continue };
                    if value.is_some() || after.get(&key).is_some_and(Option::is_some) {
                        after.insert(key, value.map(<[u8]>::to_vec));
                    }
                }
                match store.commit(&batch) {
                    Ok(_) => {
                        model = after;
                        models = vec![model.clone()];
                    }
                    Err(_) => {
                        models = vec![model.clone(), after];
                        break;
                    }
                }
                for (snapshot, model) in &snapshots {
                    let found = snapshot.iter().unwrap().map(|found| found.unwrap().into_value());
                    assert!(found.eq(model.values().flatten().cloned()), "seed {seed}: a snapshot changed");
                }
            }
            drop((compaction, snapshots));
            drop(store);
            mem.calm();
            if random.random_bool(0.7) {
                mem.cut_by_chance(&mut random);
            }
        }
    }
}
