//! Every call on the file of a synced image fails once, in each way, and from then on: what was synced is there, or what was
//! about to be; and a group that a failed sync left is durable before anything is built on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use super::host_faults::{HostCall, HostFailure, HostFault, Mapping, TestHost};
use super::host_file::HostFile;
use super::locked_file::LockedFile;
use super::ordered::Ordered;
use super::redo_log::{REDO_LOG_BYTES, RedoPlace};
use super::store::Store;
use crate::checksum::checksum_of;
use crate::random::SplitMix64;

const PLACE: RedoPlace = RedoPlace { log_at: 1 << 18, slots_at: (1 << 18) + REDO_LOG_BYTES };
const UNITS: u64 = 24;

/// Records, and the units that they name.
#[derive(Clone, PartialEq)]
struct Model {
    records: Vec<u8>,
    units: BTreeMap<u64, u8>,
}

/// What may be found: what was synced last, and what the sync after that would have made durable.
struct Expected {
    synced: Model,
    begun: Option<Model>,
}

impl Expected {
    fn new() -> Expected {
        let empty = Model { records: vec![0; PLACE.log_at as usize], units: BTreeMap::new() };
        Expected { synced: empty, begun: None }
    }
}

fn open(path: &Path, host: &TestHost) -> std::io::Result<Box<Ordered>> {
    let file = File::options().read(true).write(true).open(path)?;
    let file = LockedFile::lock(HostFile::new(file, Some(host.clone())), path).expect("nobody else has it");
    match Store::ordered(file, PLACE)? {
        Store::Ordered(ordered) => Ok(ordered),
        _ => unreachable!(),
    }
}

/// Requires one of the states that are expected, which is the state from then on.
fn assert_found(path: &Path, expected: &mut Expected, story: &str) {
    let host = TestHost::new(Mapping::Never, 0);
    let file = File::options().read(true).write(true).open(path).unwrap();
    let file = LockedFile::lock(HostFile::new(file, Some(host)), path).unwrap();
    let store = Store::overlay(file, Some(PLACE)).unwrap_or_else(|error| panic!("{story}: {error}"));
    let mut records = vec![0; PLACE.log_at as usize];
    store.read(&mut records, 0).unwrap();
    let is = |model: &Model| {
        records == model.records
            && model.units.iter().all(|(at, byte)| {
                let mut found = [0; 4096];
                store.read(&mut found, *at).is_ok() && found == [*byte; 4096]
            })
    };
    let begun = expected.begun.take();
    if !is(&expected.synced) {
        let begun = begun.filter(|begun| is(begun));
        expected.synced =
            begun.unwrap_or_else(|| panic!("{story}: neither what was synced nor what was begun"));
    }
}

/// Works until an error. Every sync that succeeds is noted.
fn work(
    store: &mut Ordered,
    expected: &mut Expected,
    random: &mut SplitMix64,
    syncs: u64,
) -> std::io::Result<()> {
    let mut model = expected.synced.clone();
    let (mut given_up_before, mut given_up) = (Vec::new(), Vec::new());
    let mut free: Vec<u64> = (0..UNITS).map(|unit| PLACE.slots_at + (unit << 12)).collect();
    free.retain(|slot| !model.units.contains_key(slot));
    for _ in 0..syncs {
        for _ in 0..1 + random.below(4) {
            // whatever happens from here on, a group that is begun may have it
            if let Some(slot) = free.pop() {
                let byte = random.below(256) as u8;
                store.write_unit(&[byte; 4096], slot, checksum_of(&[byte; 4096]))?;
                model.units.insert(slot, byte);
            }
            if random.below(3) == 0
                && let Some((slot, _)) = model.units.pop_first()
            {
                given_up.push(slot);
            }
            if random.below(3) == 0
                && let Some(slot) = free.last()
            {
                store.give_back_slots(*slot..slot + 4096)?;
            }
            let (at, byte) = (8192 + random.below(5) * 9000, random.below(256) as u8);
            let bytes = [24, 700, 9000][random.below(3) as usize];
            store.write(&vec![byte; bytes], at)?;
            model.records[at as usize..at as usize + bytes].fill(byte);
        }
        if random.below(2) == 0 {
            // the redo log starts over soon
            let byte = random.below(256) as u8;
            store.write(&vec![byte; 240_000], 8192)?;
            model.records[8192..248_192].fill(byte);
        }
        expected.begun = Some(model.clone());
        let Some(sync) = store.sync_begin()? else { continue };
        sync.run()?;
        expected.synced = expected.begun.take().expect("it was begun");
        store.sync_end()?;
        free.append(&mut given_up_before);
        given_up_before = std::mem::take(&mut given_up);
    }
    Ok(())
}

/// A file and its host. One that was used has its redo log filled, which takes many calls.
fn make(folder: &Path, seed: u64, is_used: bool) -> (std::path::PathBuf, TestHost) {
    let path = folder.join("image");
    File::create(&path).unwrap().set_len(PLACE.slots_at).unwrap();
    if is_used {
        open(&path, &TestHost::new(Mapping::Never, 0)).unwrap().close().unwrap();
    }
    (path, TestHost::new(Mapping::Never, seed))
}

/// The calls of a life that nothing befalls.
fn calls_of(seed: u64, syncs: u64, is_used: bool) -> Vec<HostCall> {
    let folder = folder();
    let (path, host) = make(folder.path(), seed, is_used);
    let mut store = open(&path, &host).unwrap();
    work(&mut store, &mut Expected::new(), &mut SplitMix64(seed), syncs).unwrap();
    store.close().unwrap();
    host.faults.calls_since(0)
}

/// In memory, if the host has files there: nothing here is about the disk.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// How the life in which a call failed ends, and what happens next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum After {
    /// The store is closed, which may write, and opened again.
    Close,
    /// The process is killed: the store is dropped as it is.
    Kill,
    /// The machine is lost, or is lost after the image was opened again.
    Lose,
    OpenAndLose,
    /// The image is opened again, a call fails again, and the machine is lost.
    FailAgain,
}

const AFTERWARDS: [After; 5] = [After::Close, After::Kill, After::Lose, After::OpenAndLose, After::FailAgain];

fn run(seed: u64, syncs: u64, is_used: bool, fault: HostFault, after: After, draw: u64) -> Option<HostCall> {
    let story = format!("seed {seed}, {fault:?}, {after:?}, draw {draw}");
    let folder = folder();
    let (path, host) = make(folder.path(), seed ^ fault.after << 8 ^ draw << 40, is_used);
    let (mut expected, mut random) = (Expected::new(), SplitMix64(seed));
    host.faults.fail(fault);
    if let Ok(mut store) = open(&path, &host) {
        let worked = work(&mut store, &mut expected, &mut random, syncs);
        if let Err(first) = worked {
            assert!(host.faults.failed().is_some(), "{story}: {first}");
            let then = [store.write(&[1], 8192), store.sync_begin().map(drop), store.close()];
            for refused in then {
                let error = refused.expect_err(&story);
                assert!(
                    error.kind() == first.kind() || error.to_string().contains("reopen"),
                    "{story}: {error}"
                );
            }
        }
        match after {
            After::Kill | After::Lose => drop(store),
            _ => drop(store.close()),
        }
    }
    host.faults.heal();
    let failed = host.faults.failed();
    let lose = |faults: &TestHost| faults.faults.lose_machine(&path).unwrap();
    match after {
        After::Close | After::Kill => {}
        After::Lose => lose(&host),
        After::OpenAndLose => {
            // somebody looks at the contents, and builds on them
            assert_found(&path, &mut expected, &story);
            let store = open(&path, &host).unwrap_or_else(|error| panic!("{story}: {error}"));
            drop(store);
            lose(&host);
        }
        After::FailAgain => {
            let calls = 1 + random.below(30);
            host.faults.fail(HostFault {
                after: calls,
                failure: HostFailure::Io,
                lasts: random.below(2) == 0,
            });
            drop(open(&path, &host));
            host.faults.heal();
            lose(&host);
        }
    }
    assert_found(&path, &mut expected, &story);
    // it goes on
    let mut store = open(&path, &host).unwrap_or_else(|error| panic!("{story}: {error}"));
    work(&mut store, &mut expected, &mut random, 3).unwrap();
    drop(store);
    lose(&host);
    assert_found(&path, &mut expected, &story);
    failed
}

#[test]
fn whatever_call_fails_what_was_synced_is_there() {
    let mut runs = Vec::new();
    for (seed, syncs, is_used) in [(1, 8, true), (2, 1, false)] {
        // pages of one write, and records read in a row, are all alike
        let mut seen = BTreeMap::<HostCall, u32>::new();
        let calls = calls_of(seed, syncs, is_used).into_iter().enumerate();
        let chosen = calls.filter(|(_, call)| {
            let number = seen.entry(*call).or_default();
            *number += 1;
            let each = match call {
                HostCall::Read => 7,
                HostCall::Write => 31,
                _ => 1,
            };
            number.is_multiple_of(each)
        });
        for (number, call) in chosen.collect::<Vec<_>>() {
            for failure in [HostFailure::Io, HostFailure::NoSpace] {
                for after in AFTERWARDS {
                    if !failure.applies_to(call) {
                        continue;
                    }
                    let fault = HostFault { after: number as u64, failure, lasts: number % 2 == 0 };
                    // what a failed sync leaves is drawn for each page
                    for draw in 0..if call == HostCall::Sync { 3 } else { 1 } {
                        runs.push((seed, syncs, is_used, fault, after, draw));
                    }
                }
            }
        }
    }
    // two at once: no other test of this crate takes as long
    let (first, second) = runs.split_at(runs.len() / 2);
    let half = |runs: &[_]| {
        let failed = runs.iter().filter_map(|&(seed, syncs, is_used, fault, after, draw)| {
            run(seed, syncs, is_used, fault, after, draw)
        });
        failed.collect::<Vec<HostCall>>()
    };
    let failed = std::thread::scope(|scope| {
        let second = scope.spawn(|| half(second));
        [half(first), second.join().unwrap()].concat()
    });
    let seen = |call| failed.iter().filter(|failed| **failed == call).count();
    assert!(
        seen(HostCall::Write) > 60
            && seen(HostCall::Sync) > 50
            && seen(HostCall::Read) > 2
            && seen(HostCall::Punch) > 10,
        "{failed:?}"
    );
}

/// The host took the pages for written: a later sync succeeded without them, and the records of the group were durable without
/// its data.
#[test]
fn a_group_whose_sync_failed_is_durable_before_anything_is_built_on_it() {
    let mut found = 0;
    for seed in 0..100 {
        let folder = folder();
        let (path, host) = make(folder.path(), seed, true);
        let mut store = open(&path, &host).unwrap();
        let mut expected = Expected::new();
        store.write_unit(&[7; 4096], PLACE.slots_at, checksum_of(&[7; 4096])).unwrap();
        store.write(&[7; 24], 8192).unwrap();
        let mut begun = expected.synced.clone();
        begun.units.insert(PLACE.slots_at, 7);
        begun.records[8192..8216].fill(7);
        expected.begun = Some(begun.clone());
        let sync = store.sync_begin().unwrap().unwrap();
        // the group is written first
        host.faults.fail(HostFault { after: 1, failure: HostFailure::Io, lasts: false });
        assert!(sync.run().is_err() && host.faults.failed() == Some(HostCall::Sync));
        drop(store);
        host.faults.heal();
        let story = format!("host {seed}");
        assert_found(&path, &mut expected, &story);
        found += u32::from(expected.synced == begun);
        // whoever opens it sees that, and may build on it
        drop(open(&path, &host).unwrap());
        host.faults.lose_machine(&path).unwrap();
        assert_found(&path, &mut expected, &story);
    }
    assert!(found > 10, "{found}");
}
