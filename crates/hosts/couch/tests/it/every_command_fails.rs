//! Every command that a store on a volume sends to the drive fails once, in each way in which a drive's commands fail. The
//! operation then did nothing, or the store stops; what was committed is there, in the open store, after it is opened
//! again, and after power failed; nothing is torn, and what follows works.
//!
//! Every 23rd command does, `FAILING_STEP=1` takes each; `FAILING_COMMAND=n` lets only the nth command fail.

use std::collections::BTreeMap;

use tantalum::{CommandFailure, Device, Outcome, PowerLoss, Profile};
use tantalum_couch::{Batch, Error, Options, Store, VolumeStorage, Way};
use tantalum_volume::Volume;

const NAME: &str = "docs.couch";

/// Values by key.
type Model = BTreeMap<u32, Vec<u8>>;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Puts documents of this size under every third key from the first on, and deletes the one after each.
    Commit(u32, usize),
    Compact,
    Read,
}

fn workload() -> Vec<Operation> {
    use Operation::{Commit, Compact, Read};
    let mut operations = vec![Commit(0, 100), Commit(1, 4000), Commit(2, 9000), Read, Compact];
    for round in 0..5 {
        operations.extend([Commit(round % 3, 300 + round as usize), Commit((round + 1) % 3, 4090)]);
    }
    operations.extend([Read, Compact, Commit(0, 4090), Commit(0, 4091), Read]);
    operations
}

fn changes(first: u32, bytes: usize) -> impl Iterator<Item = (u32, Option<Vec<u8>>)> {
    (first..30).step_by(3).flat_map(move |key| {
        let value = (0..bytes).map(|at| (at as u32 * 7 + key + bytes as u32) as u8).collect();
        let deleted = (key % 2 == 0).then_some((key + 31, None));
        [Some((key, Some(value))), deleted].into_iter().flatten()
    })
}

fn apply(model: &mut Model, operation: Operation) {
    if let Operation::Commit(first, bytes) = operation {
        for (key, value) in changes(first, bytes) {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
        model.insert(first + 31, vec![9; bytes]);
    }
}

fn name(key: u32) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn perform(store: &Store<VolumeStorage>, model: &Model, operation: Operation) -> Result<(), Error> {
    match operation {
        Operation::Commit(first, bytes) => {
            let mut batch = Batch::new();
            for (key, value) in changes(first, bytes) {
                match value {
                    Some(value) => batch.put(&name(key), &value)?,
                    None => batch.delete(&name(key))?,
                }
            }
            batch.put(&name(first + 31), &vec![9; bytes])?;
            store.commit(&batch).map(drop)
        }
        Operation::Compact => store.compact(),
        Operation::Read => {
            check(store, model).map(|is_same| assert!(is_same, "the store reads something else"))
        }
    }
}

/// Whether the store holds this and nothing else.
fn check(store: &Store<VolumeStorage>, model: &Model) -> Result<bool, Error> {
    let snapshot = store.snapshot();
    let mut found = Model::new();
    for document in snapshot.iter()? {
        let document = document?;
        let key = std::str::from_utf8(&document.key()[4..]).unwrap().parse().unwrap();
        found.insert(key, document.value().to_vec());
    }
    Ok(found == *model)
}

fn open(device: Device, way: Way) -> (VolumeStorage, Store<VolumeStorage>) {
    let storage = VolumeStorage::new(Volume::mount(device, 1 << 20).expect("it mounts"));
    let store = open_store(&storage, way);
    (storage, store)
}

fn open_store(storage: &VolumeStorage, way: Way) -> Store<VolumeStorage> {
    let options = Options { way, cache_bytes: 16 << 10, stage_units: 24 };
    Store::open(storage.clone(), NAME, options).expect("it opens")
}

fn power_cycle(
    storage: VolumeStorage,
    store: Store<VolumeStorage>,
    way: Way,
    seed: u64,
) -> (VolumeStorage, Store<VolumeStorage>) {
    drop(store);
    let volume = storage.into_volume().expect("the store is closed");
    let mut device = volume.into_client_without_sync().into_device().expect("nobody else has it");
    device.fail_command(None);
    let now_ns = device.time_ns();
    device.cut_power(now_ns);
    let mut loss =
        if seed.is_multiple_of(2) { PowerLoss::seeded(seed) } else { PowerLoss::all(Outcome::NotStarted) };
    device.power_on(&mut loss).expect("the drive recovers");
    open(device, way)
}

/// Runs the workload; its nth command fails. None if there was none; otherwise whether the store was read after its host had failed.
fn run(profile: &Profile, way: Way, command: u64, failure: CommandFailure) -> Option<bool> {
    let device = Device::in_memory(profile).expect("the profile is valid");
    let volume = Volume::format(device, 1 << 20).expect("there is room");
    let client = volume.unmount().expect("nothing fails");
    let (mut storage, mut store) = open(client.into_device().expect("nobody else has it"), way);
    storage.volume().device().fail_command(Some((command, failure)));
    let (mut model, mut failed, mut reads) = (Model::new(), false, false);
    for (number, operation) in workload().into_iter().enumerate() {
        let what =
            || format!("{way:?}, {failure:?} at command {command}, in operation {number} {operation:?}");
        let mut attempted = model.clone();
        apply(&mut attempted, operation);
        let done = perform(&store, &model, operation);
        let met = done.is_err() || !storage.volume().device().fails_commands();
        if failed || !met {
            done.unwrap_or_else(|error| panic!("{}: {error}", what()));
            model = attempted;
            continue;
        }
        failed = true;
        let mut is_known = failure.ends_nothing();
        if matches!(failure, CommandFailure::HostBefore | CommandFailure::HostAfter)
            && let Ok(is_old) = check(&store, &model)
        {
            reads = true;
            assert!(is_old || check(&store, &attempted).unwrap(), "{}, read on", what());
            assert!(perform(&store, &model, Operation::Commit(0, 1)).is_err(), "{}, then a change", what());
        }
        if is_known && command % 3 == 1 && done.is_err() {
            // the open store goes on, unless it has stopped
            match perform(&store, &model, operation) {
                Ok(()) => {
                    model = attempted;
                    assert!(check(&store, &model).unwrap(), "{}, done again", what());
                    continue;
                }
                Err(Error::Stopped) => {}
                Err(error) => panic!("{}, then {error}", what()),
            }
        }
        if is_known && command % 3 == 2 {
            drop(store);
            store = open_store(&storage, way);
        } else {
            (storage, store) = power_cycle(storage, store, way, command);
            is_known = false;
        }
        let is_old = check(&store, &model).unwrap();
        let is_new = check(&store, &attempted).unwrap();
        assert!(is_new || is_old && done.is_err(), "{}: {done:?}, opened again ({is_known})", what());
        if !is_new {
            perform(&store, &model, operation).unwrap_or_else(|error| panic!("{} again: {error}", what()));
        }
        model = attempted;
        assert!(check(&store, &model).unwrap(), "{}, done again", what());
    }
    if !failed {
        return None;
    }
    assert!(check(&store, &model).unwrap(), "{failure:?} at command {command}, at the end");
    let (_storage, store) = power_cycle(storage, store, way, command);
    assert!(check(&store, &model).unwrap(), "{failure:?} at command {command}, after power went at the end");
    Some(reads)
}

#[test]
fn whichever_command_fails_no_commit_is_lost_or_torn() {
    let setting = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let (only, step) = (setting("FAILING_COMMAND"), setting("FAILING_STEP").unwrap_or(23));
    let (mut failed, mut read) = (0, 0);
    for (number, failure) in (0..).zip(CommandFailure::ALL) {
        for way in [Way::Share, Way::Original] {
            let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][number % 2]).unwrap();
            profile.capacity_bytes = 64 << 20;
            profile.over_provisioning_percent = 40.0;
            let commands = only.map_or(1..u64::MAX, |command| command..command + 1);
            let commands = commands.skip(number % step as usize).step_by(step as usize);
            for command in commands {
                let Some(reads) = run(&profile, way, command, failure) else { break };
                (failed, read) = (failed + 1, read + u32::from(reads));
            }
        }
    }
    println!("{failed} commands failed; {read} stores were read on");
    assert!(only.is_some() || read > 5, "only {read} stores were read on");
    assert!(only.is_some() || failed > 50, "only {failed} commands failed");
}
