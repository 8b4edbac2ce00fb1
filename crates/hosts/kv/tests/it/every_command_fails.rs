//! Every command of a workload that uses all of the store fails once, in each way in which a drive's commands fail. The
//! operation then did nothing, or the store stops; what was committed is there, through the cache, after the store is
//! opened again, and after power failed; and what follows works.
//!
//! Every 29th command does, `FAILING_STEP=1` takes each; `FAILING_COMMAND=n` lets only the nth command fail.

use std::collections::BTreeMap;

use tantalum::{CommandFailure, Device, Outcome, PowerLoss, Profile};
use tantalum_kv::{Error, Options, Order, Store};

/// Namespaces, by name, with their records.
type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

const HASHED: &str = "hashed";
const ORDERED: &str = "ordered";

/// Namespace, key and new value; none if the record is deleted.
type RecordChange = (&'static str, Vec<u8>, Option<Vec<u8>>);

#[derive(Clone, Debug)]
enum Operation {
    /// Puts and deletes in both namespaces.
    Commit(Vec<RecordChange>),
    Create(&'static str, Order),
    Delete(&'static str),
    /// A snapshot that is read after more commits.
    Snapshot,
    Read,
}

fn value(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 7 + at) as u8).collect()
}

fn records(range: std::ops::Range<usize>, bytes: usize, number: usize) -> Operation {
    let keys = range.map(|record| format!("key {record}").into_bytes());
    Operation::Commit(
        keys.enumerate()
            .flat_map(|(at, key)| {
                let new = (!(at + number).is_multiple_of(5)).then(|| value(number + at, bytes));
                [(HASHED, key[..key.len().min(16)].to_vec(), new.clone()), (ORDERED, key, new)]
            })
            .collect(),
    )
}

fn workload() -> Vec<Operation> {
    use Operation::*;
    let one =
        |name, key: &str, bytes| Commit(vec![(name, key.as_bytes().to_vec(), Some(value(bytes, bytes)))]);
    vec![
        Create(HASHED, Order::Hashed),
        Create(ORDERED, Order::Ordered),
        one(HASHED, "a", 10),
        records(0..30, 100, 1),
        Snapshot,
        one(ORDERED, "b", 5000),
        records(10..60, 300, 2),
        Read,
        Create("extra", Order::Ordered),
        one("extra", "x", 100),
        // more than one `put` takes
        records(0..700, 20, 3),
        Snapshot,
        Delete("extra"),
        Create("extra", Order::Hashed),
        one("extra", "y", 100),
        // in parts; then two in the place of it and beside it, and one that goes with its namespace
        one(ORDERED, "large", 1_100_000),
        Commit(vec![
            (ORDERED, b"large".to_vec(), Some(value(1, 2_100_000))),
            (HASHED, b"large".to_vec(), Some(value(2, 1_046_449))),
            (HASHED, b"a".to_vec(), None),
        ]),
        Snapshot,
        one("extra", "large", 1_200_000),
        Commit(vec![(ORDERED, b"large".to_vec(), None), (HASHED, b"large".to_vec(), Some(value(3, 30)))]),
        records(0..30, 3000, 4),
        Delete("extra"),
        Read,
    ]
}

fn apply(model: &mut Model, operation: &Operation) {
    match operation {
        Operation::Commit(changes) => {
            for (name, key, value) in changes {
                let records = model.get_mut(*name).expect("the namespace was made");
                match value {
                    Some(value) => drop(records.insert(key.clone(), value.clone())),
                    None => drop(records.remove(key)),
                }
            }
        }
        Operation::Create(name, _) => drop(model.insert((*name).to_owned(), BTreeMap::new())),
        Operation::Delete(name) => drop(model.remove(*name)),
        Operation::Snapshot | Operation::Read => {}
    }
}

fn perform(store: &Store, model: &Model, operation: &Operation) -> Result<(), Error> {
    match operation {
        Operation::Commit(changes) => {
            let mut tx = store.begin()?;
            for (name, key, value) in changes {
                let namespace =
                    if *name == ORDERED { store.namespace(name)? } else { namespace(store, model, name)? };
                match value {
                    Some(value) => tx.put(namespace, key, value.clone())?,
                    None => drop(tx.delete(namespace, key)?),
                }
            }
            tx.commit()
        }
        Operation::Create(name, Order::Hashed) => store.hashed_namespace(name).map(drop),
        Operation::Create(name, Order::Ordered) => store.namespace(name).map(drop),
        Operation::Delete(name) => store.delete_namespace(name),
        Operation::Snapshot => {
            let snapshot = store.snapshot()?;
            let found: Vec<String> = snapshot.namespaces().map(|(name, ..)| name.to_owned()).collect();
            assert!(found.iter().eq(model.keys()));
            for (name, namespace, _) in snapshot.namespaces() {
                for (key, value) in &model[name] {
                    let found = snapshot.read(namespace, key)?;
                    assert!(found.as_deref() == Some(&value[..]), "{name} in a snapshot");
                }
            }
            Ok(())
        }
        Operation::Read => check(store, model).map(drop),
    }
}

fn namespace(store: &Store, model: &Model, name: &str) -> Result<tantalum_kv::Namespace, Error> {
    assert!(model.contains_key(name), "{name:?} would be created");
    store.namespace(name)
}

/// Reads everything. Fails if the drive does, and panics if something else is found.
fn check(store: &Store, model: &Model) -> Result<bool, Error> {
    if !store.namespaces()?.iter().eq(model.keys()) {
        return Ok(false);
    }
    let mut tx = store.begin()?;
    for (name, expected) in model {
        let namespace = namespace(store, model, name)?;
        if store.order_of(namespace)? == Order::Ordered {
            let found: Result<Vec<_>, Error> = tx.all(namespace)?.collect();
            let found = found?;
            let is_same = found.iter().map(|(key, value)| (&key[..], &value[..]));
            if !is_same.eq(expected.iter().map(|(key, value)| (&key[..], &value[..]))) {
                return Ok(false);
            }
            continue;
        }
        if store.list(namespace, None, usize::MAX)?.len() != expected.len() {
            return Ok(false);
        }
        for (key, value) in expected {
            if tx.read(namespace, key)?.as_deref() != Some(&value[..]) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn open(device: Device) -> Store {
    Store::over(device, Options::default().cache_bytes(40_000)).expect("nothing fails")
}

fn power_cycle(store: Store, seed: u64) -> Store {
    let mut device = store.into_drive().expect("nobody else has the store");
    device.fail_command(None);
    let now_ns = device.time_ns();
    device.cut_power(now_ns);
    let mut loss =
        if seed.is_multiple_of(2) { PowerLoss::seeded(seed) } else { PowerLoss::all(Outcome::NotStarted) };
    device.power_on(&mut loss).expect("the drive recovers");
    open(device)
}

/// Runs the workload; its nth command fails. Returns whether there was one.
fn run(profile: &Profile, command: u64, failure: CommandFailure) -> bool {
    let mut store = open(Device::in_memory(profile).expect("the profile is valid"));
    store.with_drive(|device| device.fail_command(Some((command, failure)))).unwrap();
    let mut model = Model::new();
    let mut failed = false;
    for (number, operation) in workload().iter().enumerate() {
        let what = || format!("{failure:?} at command {command}, in operation {number}");
        let mut attempted = model.clone();
        apply(&mut attempted, operation);
        let done = perform(&store, &model, operation);
        let is_now =
            !failed && (done.is_err() || store.with_drive(|device| !device.fails_commands()).unwrap_or(true));
        if !is_now {
            done.unwrap_or_else(|error| panic!("{}, now {number}: {error}", what()));
            model = attempted;
            continue;
        }
        failed = true;
        let is_stopped = matches!(store.begin(), Err(Error::Stopped { .. }));
        if failure.ends_nothing() && !is_stopped {
            let expected = if done.is_ok() { &attempted } else { &model };
            assert!(check(&store, expected).unwrap(), "{}, which ended with {done:?}", what());
        }
        if is_stopped || !failure.ends_nothing() || command.is_multiple_of(3) {
            store = power_cycle(store, command);
            let is_old = check(&store, &model).unwrap();
            let is_new = check(&store, &attempted).unwrap();
            let may_be_new = done.is_ok() || is_stopped || !failure.ends_nothing();
            assert!(is_old && done.is_err() || is_new && may_be_new, "{}: {done:?}, then power went", what());
            if is_new {
                model = attempted;
                continue;
            }
        }
        if done.is_err() {
            perform(&store, &model, operation).unwrap_or_else(|error| panic!("{} again: {error}", what()));
        }
        model = attempted;
        assert!(check(&store, &model).unwrap(), "{}, done again", what());
    }
    if !failed {
        return false;
    }
    assert!(check(&store, &model).unwrap(), "{failure:?} at command {command}, at the end");
    store.with_drive(|device| device.audit()).unwrap();
    let store = power_cycle(store, command);
    assert!(check(&store, &model).unwrap(), "{failure:?} at command {command}, after power went at the end");
    // the names, and the numbers of large values
    let own = store.with_drive(|device| device.namespaces()[0].records).unwrap();
    assert_eq!(own, 2, "{failure:?} at command {command}: parts are left");
    true
}

#[test]
fn whichever_command_fails_no_commit_is_lost_or_torn() {
    let setting = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let (only, step) = (setting("FAILING_COMMAND"), setting("FAILING_STEP").unwrap_or(29));
    let mut failed = 0;
    for (number, failure) in (0..).zip(CommandFailure::ALL) {
        let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][number % 2]).unwrap();
        profile.capacity_bytes = 128 << 20;
        profile.over_provisioning_percent = 40.0;
        let commands = only.map_or(1..u64::MAX, |command| command..command + 1);
        let commands = commands.skip(number % step as usize).step_by(step as usize);
        failed += commands.take_while(|command| run(&profile, *command, failure)).count();
    }
    println!("{failed} commands failed");
    assert!(only.is_some() || failed > 100, "only {failed} commands failed");
}

fn small_store() -> Store {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 128 << 20;
    open(Device::in_memory(&profile).expect("the profile is valid"))
}

/// The namespace had no number any more, although its name was still there: it could not be used until the store was
/// opened again.
#[test]
fn a_namespace_whose_deletion_is_refused_is_as_it_was() {
    for command in 1..=2 {
        let store = small_store();
        let namespace = store.namespace("a").unwrap();
        store.transact::<_, Error>(|tx| tx.put(namespace, "key", "value")).unwrap();
        let full = CommandFailure::CapacityExceeded;
        store.with_drive(|device| device.fail_command(Some((command, full)))).unwrap();
        if store.delete_namespace("a").is_err() {
            assert_eq!((command, store.namespaces().unwrap().len()), (1, 1));
            assert!(store.begin().unwrap().read(namespace, "key").unwrap().is_some());
            store.transact::<_, Error>(|tx| tx.put(namespace, "key", "other")).unwrap();
            store.delete_namespace("a").unwrap();
        }
        assert_eq!(store.namespaces().unwrap().len(), 0);
        let store = power_cycle(store, command);
        assert_eq!(store.namespaces().unwrap().len(), 0);
        assert_eq!(
            store.with_drive(|device| device.namespaces().len()).unwrap(),
            1,
            "only that of the names"
        );
    }
}

/// Each attempt left a namespace without a name, until the drive would take no more.
#[test]
fn a_namespace_that_could_not_be_named_is_gone() {
    let store = small_store();
    let of_drive = || store.with_drive(|device| device.namespaces().len()).unwrap();
    for _ in 0..3 {
        let full = CommandFailure::CapacityExceeded;
        store.with_drive(|device| device.fail_command(Some((2, full)))).unwrap();
        assert!(store.hashed_namespace("a").is_err());
        assert_eq!((store.namespaces().unwrap().len(), of_drive()), (0, 1));
    }
    store.hashed_namespace("a").unwrap();
    assert_eq!(of_drive(), 2);
}

/// A commit of more records than one `put` takes is done once its marker is there. If the drive stopped at the marker, the
/// open store read the old records, and the next one the new ones. No test read the records of such a commit both times.
#[test]
fn what_is_read_after_a_large_commit_failed_is_what_the_store_has_when_it_is_opened_again() {
    let (mut stopped, mut in_doubt) = (0, 0);
    for failure in [CommandFailure::HostBefore, CommandFailure::HostAfter, CommandFailure::PowerAfter] {
        for command in 1.. {
            let store = small_store();
            let namespace = store.hashed_namespace("a").unwrap();
            let key = |number: u32| number.to_be_bytes();
            let put = |numbers: &[u32], value: &'static [u8]| {
                store.transact::<_, Error>(|tx| {
                    numbers.iter().try_for_each(|number| tx.put(namespace, key(*number), value))
                })
            };
            let read_by = [0, 700, 1499];
            put(&read_by, b"old").unwrap();
            store.with_drive(|device| device.fail_command(Some((command, failure)))).unwrap();
            let done = put(&(0..1500).collect::<Vec<u32>>(), b"new");
            if done.is_ok() {
                break;
            }
            stopped += 1;
            let read = |store: &Store, namespace, number: u32| {
                store.begin()?.read(namespace, key(number)).map(|value| value.map(|value| value.to_vec()))
            };
            let before = read_by.map(|number| read(&store, namespace, number));
            let store = power_cycle(store, 1);
            let namespace = store.hashed_namespace("a").unwrap();
            for (number, before) in read_by.into_iter().zip(before) {
                let Ok(before) = before else {
                    in_doubt += 1;
                    continue;
                };
                let now = read(&store, namespace, number).unwrap();
                assert!(
                    now == before,
                    "{failure:?} at command {command}: {before:?} was read, and then {now:?}"
                );
            }
        }
    }
    assert!(stopped > 6 && in_doubt > 0, "{stopped} commits stopped, {in_doubt} records were in doubt");
}
