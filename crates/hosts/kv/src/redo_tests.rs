//! Steps are put as they were planned, whenever the process ends, or nothing is.

use std::collections::HashMap;
use std::sync::Arc;

use tantalum::{Key, NamespaceAttributes, Profile, result_of};

use super::*;
use crate::limits::Limits;
use crate::options::{Options, Sync};
use crate::ordered_key::OrderedKey;
use crate::plan::Planner;
use crate::positions::{Positions, Walk};
use crate::record::{Bytes, Namespace, Order, OrderedChanges};
use crate::room::footprint_of;
use crate::step::Form;
use crate::store::Store;
use crate::tree::{Numbers, change};

/// A drive of a profile with namespaces; the first is the store's own.
fn device<const N: usize>(profile: &str, capacity_bytes: u64) -> (Device, [NamespaceId; N]) {
    let mut profile = Profile::load(profile).unwrap();
    profile.capacity_bytes = capacity_bytes;
    profile.over_provisioning_percent = 240.0;
    let mut device = Device::in_memory(&profile).unwrap();
    let attributes = NamespaceAttributes::default();
    let namespaces = [(); N].map(|()| {
        let at_ns = device.time_ns();
        result_of(|namespace| device.submit(Command::CreateNamespace { attributes, namespace }, at_ns))
            .unwrap()
    });
    (device, namespaces)
}

/// The drive of a store that has one namespace, with the store's own and that one.
fn device_of_a_store() -> (Device, NamespaceId, Namespace) {
    let (device, []) = device("tlc-nvme-plp", 64 << 20);
    let store = Store::over(device, Options::default().sync(Sync::None)).unwrap();
    let namespace = store.namespace("a").unwrap();
    let device = store.into_drive().unwrap();
    let first = device.namespaces()[0].namespace;
    (device, first, namespace)
}

fn drive(device: &Device, first: NamespaceId) -> RecordStore {
    RecordStore::new(device.try_clone().unwrap(), first, 1 << 20, 0)
}

fn value(bytes: usize) -> Option<Value> {
    Some(vec![1; bytes].into())
}

/// A commit that failed could not delete all that it had written, and the next one logs a shorter step over it.
#[test]
fn a_piece_of_an_older_commit_is_no_part_of_a_step() {
    let (mut device, [namespace]) = device("tlc-nvme", 64 << 20);
    let (redo, name) = (Redo::new(namespace), (namespace, key(b"a")));
    let step = logged(&Step::of_records(vec![(name, value(1))]));
    let marker = [&[FORMAT][..], &1_u32.to_le_bytes()].concat();
    for (key, bytes) in [(piece_key(0, 0), &step[..]), (piece_key(0, 1), b"stale"), (key(MARKER), &marker)] {
        put(&mut device, &vec![((namespace, key), Some(bytes.into()))]).unwrap();
    }
    redo.recover(&mut device).unwrap();
    assert_eq!(get(&mut device, namespace, key(b"a")).unwrap(), Some(vec![1]));
    assert_eq!(device.namespaces()[0].records, 1, "the stale piece and the marker are gone");
}

#[test]
fn a_commit_of_another_format_is_refused_by_its_number() {
    let (mut device, [namespace]) = device("tlc-nvme", 64 << 20);
    put(&mut device, &vec![((namespace, key(MARKER)), Some([2, 1, 0, 0, 0][..].into()))]).unwrap();
    let error = Redo::new(namespace).recover(&mut device).unwrap_err();
    assert!(error.to_string().contains("in format 2 and not 4"), "{error}");
}

/// The marker, and the deletions that go with each step, take a little room as well. Once a commit counts, it must get
/// in place: the store would stop, and could not be opened again. A tiny step comes before a large one here, so that
/// putting it in place gives back next to nothing. No test had the room run out within a few chunks.
#[test]
fn a_commit_gets_in_place_or_is_refused_before_it_counts_however_little_room_there_is() {
    for profile in ["tlc-nvme", "tlc-nvme-plp"] {
        let (mut refused, mut done) = (0, 0);
        for units in 2..16 {
            let (mut device, [first, namespace]) = device(profile, 8 << 20);
            for number in 0_u32.. {
                if !device.has_room(Footprint::of(4000) * (units + 1)) {
                    break;
                }
                let name = (namespace, key(&number.to_be_bytes()));
                put(&mut device, &vec![(name, value(4000))]).unwrap();
            }
            let limits = Limits { records: 9, bytes: 1 << 20, ..Limits::of(&device) };
            for bytes in (12_000..16_096).step_by(64) {
                let drive = drive(&device, first);
                let records =
                    vec![((namespace, key(b"a")), value(1)), ((namespace, key(b"b")), value(bytes))];
                let mut plan = Plan::default();
                plan.add(&limits, records);
                assert_eq!(plan.steps.len(), 2);
                let put = Redo::new(first).put(&drive, plan, Footprint::default());
                let stopped = put.as_ref().is_err_and(|failure| failure.stops().is_some());
                assert!(!stopped, "{profile}, {units} units, {bytes} bytes: {:?}", put.err());
                refused += u32::from(put.is_err());
                done += u32::from(put.is_ok());
            }
        }
        assert!(refused > 0 && done > 0, "{profile}: {refused} refused, {done} done");
    }
}

/// A transaction that deletes and puts in both kinds of namespaces, on a drive with what it changes, and small steps.
struct Case {
    device: Device,
    first: NamespaceId,
    limits: Limits,
    records: Records,
    ordered: Vec<(NamespaceId, OrderedChanges)>,
}

fn ordered_key(number: u32) -> OrderedKey {
    let text =
        format!("a key that is longer than those of a drive {:04}", number.wrapping_mul(7919) % 10_000);
    text.as_bytes().into()
}

fn in_order(changes: impl Iterator<Item = (OrderedKey, Option<Value>)>) -> OrderedChanges {
    let mut changes: OrderedChanges = changes.collect();
    changes.sort_by(|a, b| a.0.cmp(&b.0));
    changes
}

/// Hashed keys of both kinds: those that the drive knows by their hashes, and longer ones.
fn hashed_key(number: u32) -> Key {
    let long = [&number.to_be_bytes()[..], b"12345678"].concat();
    key(if number.is_multiple_of(2) { &long } else { &long[..5] })
}

impl Case {
    fn new(deletes: impl Fn(u32) -> bool) -> Case {
        let (device, [first, hashed, ordered]) = device("tlc-nvme-plp", 16 << 20);
        let limits = Limits { records: 60, ..Limits::of(&device) };
        let mut case = Case { device, first, limits, records: Records::new(), ordered: Vec::new() };
        case.records = (0..700).map(|number| ((hashed, hashed_key(number)), value(20))).collect();
        let keys = (0..700).map(ordered_key);
        case.ordered = vec![(ordered, in_order(keys.map(|key| (key, value(number_of(0))))))];
        let drive = drive(&case.device, first);
        let plan = case.plan(&drive);
        Redo::new(first).put(&drive, plan, Footprint::default()).unwrap();
        case.device = drive.device().lock().try_clone().unwrap();
        let new = |number: u32| if deletes(number) { None } else { value(number_of(number)) };
        // some of them are not there
        let changed = (0..1000).filter(|number| number % 10 == 3 || deletes(*number));
        case.records = changed.clone().map(|number| ((hashed, hashed_key(number)), new(number))).collect();
        case.ordered = vec![(ordered, in_order(changed.map(|number| (ordered_key(number), new(number)))))];
        case
    }

    fn plan(&self, drive: &RecordStore) -> Plan {
        let numbers_of = |namespace| Numbers::read(drive, namespace);
        Planner::new(drive, &self.limits).plan(&self.records, &self.ordered, numbers_of).unwrap()
    }
}

/// Bytes of a value: some are too large to lie with their keys.
fn number_of(number: u32) -> usize {
    number as usize % 100 + if number.is_multiple_of(7) { 400 } else { 10 }
}

/// All records of a drive.
fn contents(device: &mut Device) -> Vec<(Name, Vec<u8>)> {
    let mut all = Vec::new();
    for info in device.namespaces() {
        let mut keys = Vec::new();
        let list =
            Command::KvList { namespace: info.namespace, from: None, keys: &mut keys, limit: usize::MAX };
        submit(device, list).unwrap();
        all.extend(keys.into_iter().map(|key| {
            ((info.namespace, key), get(device, info.namespace, key).unwrap().expect("it is listed"))
        }));
    }
    all
}

fn cases() -> [Case; 4] {
    [
        Case::new(|number| number.is_multiple_of(2)),
        Case::new(|number| number < 400),
        Case::new(|_| true),
        Case::new(|number| number.wrapping_mul(2_654_435_761) >> 31 == 0),
    ]
}

/// Otherwise a store that is opened could take more room than was asked for, or something else than was read before.
#[test]
fn recovery_computes_the_records_that_were_planned() {
    for (number, case) in cases().into_iter().enumerate() {
        for by_position in [false, true] {
            let drive = drive(&case.device, case.first);
            let mut plan = case.plan(&drive);
            plan.shorten(&Flash(&drive), |_, _| by_position).unwrap();
            let is_position = |step: &&Step| matches!(step.form, Form::Positions { .. });
            assert_eq!(plan.steps.iter().filter(is_position).count() > 8, by_position, "case {number}");
            let mut device = case.device.try_clone().unwrap();
            let mut cursor = Cursor::default();
            for (at, step) in plan.steps.iter().enumerate() {
                assert!(
                    case.limits.hold(&step.records) && step.records.len() <= 52,
                    "{}",
                    step.records.len()
                );
                // the first step that recovery finds may be any
                for cursor in [&mut cursor, &mut Cursor::default()] {
                    let mut again = Step::decode(&step.encode()).unwrap();
                    assert_eq!(again.form, step.form);
                    again.complete(&OnDevice(RefCell::new(&mut device)), cursor, Layout::NOW).unwrap();
                    // by their positions, keys that are not there are not found
                    let mut is_there = |(name, value): &&(Name, Option<Value>)| {
                        value.is_some() || get(&mut device, name.0, name.1).unwrap().is_some()
                    };
                    let planned: Records = step.records.iter().filter(&mut is_there).cloned().collect();
                    let again: Records = again.records.iter().filter(&mut is_there).cloned().collect();
                    assert!(again == planned, "case {number}, step {at}, {by_position}");
                }
                put(&mut device, &step.records).unwrap();
            }
        }
    }
}

#[test]
fn a_commit_of_which_any_number_of_steps_is_in_place_is_finished() {
    for (number, case) in cases().into_iter().enumerate() {
        let redo = Redo::new(case.first);
        let whole = drive(&case.device, case.first);
        let plan = case.plan(&whole);
        redo.put(&whole, plan, Footprint::default()).unwrap();
        let expected = contents(&mut whole.device().lock());
        let drive = drive(&case.device, case.first);
        let mut plan = case.plan(&drive);
        let log = redo.log_of(&drive, &mut plan, Footprint::default()).unwrap();
        redo.write(&drive, &log, &plan, Footprint::default()).unwrap();
        let marker = [&[FORMAT][..], &(log.len() as u32).to_le_bytes()].concat();
        drive.put(&vec![((case.first, key(MARKER)), Some(marker.into()))], None).unwrap();
        for part in &redo.parts(plan, &log) {
            let mut device = drive.device().lock().try_clone().unwrap();
            redo.recover(&mut device).unwrap();
            assert!(contents(&mut device) == expected, "case {number}");
            drive.put(part, None).unwrap();
        }
        assert!(contents(&mut drive.device().lock()) == expected, "case {number}");
    }
}

/// Whatever makes keys be at other positions, they are not deleted.
#[test]
fn keys_that_were_not_meant_are_not_deleted() {
    for (gone, at) in [(true, 0), (true, 300), (false, 300)] {
        let case = Case::new(|number| number.is_multiple_of(2));
        let redo = Redo::new(case.first);
        let drive = drive(&case.device, case.first);
        let mut plan = case.plan(&drive);
        let log = redo.log_of(&drive, &mut plan, Footprint::default()).unwrap();
        redo.write(&drive, &log, &plan, Footprint::default()).unwrap();
        let marker = [&[FORMAT][..], &(log.len() as u32).to_le_bytes()].concat();
        let mut device = drive.device().lock().try_clone().unwrap();
        put(&mut device, &vec![((case.first, key(MARKER)), Some(marker.into()))]).unwrap();
        let other = (case.records[0].0.0, hashed_key(if gone { at } else { 5000 + at }));
        put(&mut device, &vec![(other, if gone { None } else { value(1) })]).unwrap();
        let error = redo.recover(&mut device).unwrap_err();
        assert!(matches!(error, Error::Redo { .. }), "{error}");
    }
}

#[test]
fn a_step_that_is_cut_off_is_refused_or_ends_with_a_record() {
    let case = Case::new(|number| number.is_multiple_of(3));
    let drive = drive(&case.device, case.first);
    let mut plan = case.plan(&drive);
    plan.shorten(&Flash(&drive), |_, _| true).unwrap();
    let (mut cut, mut whole) = (0, 0);
    for step in &plan.steps {
        let bytes = step.encode();
        for length in 0..bytes.len() {
            match Step::decode(&bytes[..length]) {
                None => cut += 1,
                // of records, or of keys, some are there
                Some(_) => whole += 1,
            }
        }
        assert!(footprint_of(&step.records).chunks >= step.records.len() as u64);
    }
    assert!(cut > 20 * whole && whole > 0, "{cut} and {whole}");
}

/// An image of a version that knew no values in leaves: a commit of it is finished as it was planned, its records are read, and change
/// one by one to what this version writes. Others refuse the image only then.
#[test]
fn what_an_earlier_version_has_stored_and_logged_goes_on() {
    use crate::catalog::Catalog;
    let (mut device, first, namespace) = device_of_a_store();
    let (options, of) = (Options::default().sync(Sync::None), namespace.0);
    let changes: Vec<(Arc<[u8]>, Option<Value>)> =
        (0..500_u32).map(|number| (number.to_be_bytes()[..].into(), value(number as usize % 50))).collect();
    let layout = Layout::AllApart;
    let drive = drive(&device, first);
    let numbers = Numbers::read(&drive, of).unwrap();
    let borrowed: Vec<_> = changes.iter().map(|(key, value)| (&key[..], value)).collect();
    let records = change(&Flash(&drive), of, &borrowed, numbers, layout).unwrap().records;
    let form = Form::Keys { namespace: of, numbers, layout, changes: changes.clone() };
    let step = logged(&Step { form, deletes: None, records: records.clone() });
    let marker = [&[FORMAT][..], &1_u32.to_le_bytes()].concat();
    for (key, bytes) in [(piece_key(0, 0), &step[..]), (key(MARKER), &marker)] {
        put(&mut device, &vec![((first, key), Some(bytes.into()))]).unwrap();
    }
    let records_of = |device: &Device| {
        let all = device.namespaces();
        all.iter().find(|info| info.namespace == of).unwrap().records
    };

    let mut device = Store::over(device, options.clone()).unwrap().into_drive().unwrap();
    assert_eq!(records_of(&device), records.len() as u64, "as it was planned");
    assert!(records.len() > 500, "each value is a record");
    assert!(!Catalog::open(&mut device).unwrap().uses.leaves, "the earlier version can go on with it");

    let store = Store::over(device, options.clone()).unwrap();
    let check = |store: &Store, is_changed: &dyn Fn(u32) -> bool| {
        let all: Vec<_> = store.snapshot().unwrap().all(namespace).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), changes.len());
        for (number, ((key, found), (expected_key, before))) in (0..).zip(all.iter().zip(&changes)) {
            let expected = if is_changed(number) { &[9; 60][..] } else { &before.as_ref().unwrap()[..] };
            assert!(key == expected_key && found[..] == *expected, "{number}");
            let read = store.begin().unwrap().read(namespace, key).unwrap();
            assert_eq!(read.as_deref(), Some(expected), "{number}");
        }
    };
    check(&store, &|_| false);
    let third = |number: u32| number.is_multiple_of(3);
    for number in (0..500_u32).filter(|number| third(*number)) {
        store.transact(|tx| tx.put(namespace, number.to_be_bytes(), [9; 60])).unwrap();
    }
    check(&store, &third);
    store.transact(|tx| (0..500_u32).try_for_each(|n| tx.put(namespace, n.to_be_bytes(), [9; 60]))).unwrap();
    let mut device = store.into_drive().unwrap();
    assert!(Catalog::open(&mut device).unwrap().uses.leaves, "versions that do not know them refuse it");
    assert!(records_of(&device) < 100, "{} records are left", records_of(&device));
    let store = Store::over(device, options).unwrap();
    check(&store, &|_| true);
    assert!(store.find_damage().unwrap().is_empty());
}

/// A tree in memory.
#[derive(Default)]
struct Tree(HashMap<Name, Option<Value>>);

impl Source for Tree {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        Ok(self.0.get(&name).cloned().flatten())
    }
}

/// A commit of a version with longer leaves counted on the numbers that its splits take: with those of shorter ones, the values of one
/// step would be given the numbers of another. Afterwards, a leaf of that version is split when it gets a key, and not when it loses
/// one.
#[test]
fn what_was_logged_before_leaves_were_short_is_put_with_its_numbers() {
    let (mut device, first, namespace) = device_of_a_store();
    let (options, of) = (Options::default().sync(Sync::None), namespace.0);
    let value = |number: u32| [&number.to_be_bytes()[..], &[7; 400]].concat();
    let layout = Layout::SmallHere;
    let (mut tree, mut numbers) = (Tree::default(), Numbers::read(&Tree::default(), of).unwrap());
    for step in 0..3 {
        let keys = (0..1200_u32).filter(|number| number % 4 == step);
        let changes: Vec<(Arc<[u8]>, Option<Value>)> = keys
            .map(|number| (number.to_be_bytes()[..].into(), Some(Value::from(&value(number)[..]))))
            .collect();
        let borrowed: Vec<_> = changes.iter().map(|(key, value)| (&key[..], value)).collect();
        let changed = change(&tree, of, &borrowed, numbers, layout).unwrap();
        let form = Form::Keys { namespace: of, numbers, layout, changes };
        let bytes = logged(&Step { form, deletes: None, records: Records::new() });
        put(&mut device, &vec![((first, piece_key(step, 0)), Some(bytes.into()))]).unwrap();
        tree.0.extend(changed.records);
        numbers = changed.numbers;
    }
    let marker = [&[EARLIER_FORMAT][..], &3_u32.to_le_bytes()].concat();
    put(&mut device, &vec![((first, key(MARKER)), Some(marker.into()))]).unwrap();

    let mut expected: BTreeSet<u32> = (0..1200).filter(|number| number % 4 != 3).collect();
    let check = |store: &Store, expected: &BTreeSet<u32>| {
        let all: Vec<_> = store.snapshot().unwrap().all(namespace).unwrap().map(Result::unwrap).collect();
        assert_eq!(all.len(), expected.len());
        for ((key, found), number) in all.iter().zip(expected) {
            assert!(key[..] == number.to_be_bytes() && found[..] == value(*number), "{number}");
        }
        assert!(store.find_damage().unwrap().is_empty());
    };
    let records_of = |device: &Device| {
        let all = device.namespaces();
        all.iter().find(|info| info.namespace == of).unwrap().records
    };
    let store = Store::over(device, options.clone()).unwrap();
    check(&store, &expected);
    let device = store.into_drive().unwrap();
    let before = records_of(&device);

    let store = Store::over(device, options.clone()).unwrap();
    store.transact(|tx| tx.delete(namespace, 400_u32.to_be_bytes())).unwrap();
    expected.remove(&400);
    check(&store, &expected);
    let device = store.into_drive().unwrap();
    assert_eq!(records_of(&device), before - 1, "the leaf stays whole");

    let store = Store::over(device, options).unwrap();
    store.transact(|tx| tx.put(namespace, 403_u32.to_be_bytes(), value(403))).unwrap();
    expected.insert(403);
    check(&store, &expected);
    let device = store.into_drive().unwrap();
    assert!(records_of(&device) >= before + 2, "{} records, and {before} before", records_of(&device));
}

impl Listing for Tree {
    fn list(&self, _: NamespaceId, _: Option<&Key>, _: usize) -> Result<Vec<Key>, Failure> {
        unreachable!("an ordered namespace is walked")
    }
}

/// Changes of a version with longer leaves, which are logged as it did.
struct Earlier {
    of: NamespaceId,
    tree: Tree,
    numbers: Numbers,
}

impl Earlier {
    const LAYOUT: Layout = Layout::SmallHere;

    /// Changes its tree, and returns the records and the numbers with which it began.
    fn change(&mut self, changes: &[(Bytes, Option<Value>)]) -> (Records, Numbers) {
        let borrowed: Vec<_> = changes.iter().map(|(key, value)| (&key[..], value)).collect();
        let changed = change(&self.tree, self.of, &borrowed, self.numbers, Self::LAYOUT).unwrap();
        self.tree.0.extend(changed.records.iter().cloned());
        (changed.records, std::mem::replace(&mut self.numbers, changed.numbers))
    }

    fn deletes(&mut self, keys: &[Vec<Bytes>]) -> Vec<Form> {
        let mut walk = Walk::new(&self.tree, self.of, Order::Ordered);
        let positions: Vec<Positions> =
            keys.iter().map(|keys| Positions::of(&mut walk, keys).unwrap()).collect();
        drop(walk);
        let forms = positions.into_iter().zip(keys).map(|(positions, keys)| {
            let changes: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
            let (_, numbers) = self.change(&changes);
            Form::Positions { namespace: self.of, numbers: Some(numbers), positions }
        });
        forms.collect()
    }
}

/// The same for deletes that are logged by their positions, and merge leaves: a leaf that is merged or is not lets a later step of the
/// commit take other numbers than it was planned with.
#[test]
fn what_was_deleted_before_leaves_were_short_leaves_the_numbers_that_were_planned() {
    let (mut device, first, namespace) = device_of_a_store();
    let (options, of) = (Options::default().sync(Sync::None), namespace.0);
    let key_of = |number: u32| Bytes::from(format!("{number:096}").as_bytes());
    let value = |number: u32| [&number.to_be_bytes()[..], &[7; 400]].concat();
    let puts = |numbers: &[u32]| -> Vec<(Bytes, Option<Value>)> {
        numbers.iter().map(|number| (key_of(*number), Some(value(*number).into()))).collect()
    };
    let numbers = Numbers::read(&Tree::default(), of).unwrap();
    let mut earlier = Earlier { of, tree: Tree::default(), numbers };
    let present: Vec<u32> = (0..2000).map(|number| number * 100).collect();
    for some in present.chunks(500) {
        let (records, _) = earlier.change(&puts(some));
        records.chunks(200).for_each(|records| put(&mut device, &records.to_vec()).unwrap());
    }

    // three of four are deleted; then come others
    let (kept, gone): (Vec<u32>, Vec<u32>) = present.iter().partition(|number| *number / 100 % 4 == 0);
    let new: Vec<u32> = (0..200_000).step_by(50).filter(|number| number % 100 != 0).collect();
    let keys: Vec<Vec<Bytes>> =
        gone.chunks(100).map(|some| some.iter().map(|number| key_of(*number)).collect()).collect();
    let mut forms = earlier.deletes(&keys);
    for some in new.chunks(200) {
        let changes = puts(some);
        let (_, numbers) = earlier.change(&changes);
        forms.push(Form::Keys { namespace: of, numbers, layout: Earlier::LAYOUT, changes });
    }
    for (number, form) in forms.iter().enumerate() {
        let bytes = logged(&Step { form: form.clone(), deletes: None, records: Records::new() });
        put(&mut device, &vec![((first, piece_key(number as u32, 0)), Some(bytes.into()))]).unwrap();
    }
    let marker = [&[EARLIER_FORMAT][..], &(forms.len() as u32).to_le_bytes()].concat();
    put(&mut device, &vec![((first, key(MARKER)), Some(marker.into()))]).unwrap();

    let store = Store::over(device, options).unwrap();
    let expected: BTreeSet<u32> = kept.into_iter().chain(new).collect();
    let all: Vec<_> = store.snapshot().unwrap().all(namespace).unwrap().map(Result::unwrap).collect();
    assert_eq!(all.len(), expected.len());
    for ((key, found), number) in all.iter().zip(&expected) {
        assert!(key[..] == key_of(*number)[..] && found[..] == value(*number), "{number}");
    }
    assert!(store.find_damage().unwrap().is_empty());
}
