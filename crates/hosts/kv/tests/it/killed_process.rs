//! A process that is killed while its threads commit leaves every commit that returned, and none in part.
//!
//! The test starts itself as the process to be killed. `SEED=17` runs one seed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tantalum_kv::{Error, Store, Sync};

const THREADS: u64 = 3;
const RECORDS: u64 = 4;
const VICTIM: &str = "TANTALUM_KV_VICTIM";

fn open(path: &Path, sync: Sync) -> Store {
    Store::options().capacity_bytes(32 << 20).sync(sync).open(path).unwrap()
}

fn sync_of(name: &str) -> Sync {
    if name == "host" { Sync::Host } else { Sync::None }
}

fn key(thread: u64, record: u64) -> [u8; 16] {
    (u128::from(thread) << 64 | u128::from(record)).to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + (number as usize * 37) % 900, number as u8);
    value
}

/// The key of a thread's number in the ordered namespace, where it has one key at a time.
fn ordered_key(thread: u64, number: u64) -> Vec<u8> {
    format!("{}{thread} {number:08}", "long ".repeat((number % 50) as usize)).into_bytes()
}

/// The work of the process to be killed: each thread counts in its own records, and reports its progress.
#[test]
fn victim() {
    let Ok(what) = std::env::var(VICTIM) else { return };
    let (sync, path) = what.split_once(' ').unwrap();
    let store = open(Path::new(path), sync_of(sync));
    let (namespace, ordered) = (store.hashed_namespace("a").unwrap(), store.namespace("o").unwrap());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                loop {
                    let committed = store.transact::<_, Error>(|tx| {
                        let found = tx.read_for_update(namespace, key(thread, 0))?;
                        let number =
                            found.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap())) + 1;
                        for record in 0..RECORDS {
                            tx.put(namespace, key(thread, record), value(number))?;
                        }
                        tx.put(ordered, ordered_key(thread, number), value(number))?;
                        tx.delete(ordered, ordered_key(thread, number - 1))?;
                        Ok(number)
                    });
                    let line = format!("\ncommitted {thread} {}\n", committed.unwrap());
                    std::io::stderr().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Kills the process after a while. Returns the commits that it reported.
fn kill_one(sync: &str, path: &Path, after: Duration) -> [u64; THREADS as usize] {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["killed_process::victim", "--exact", "--nocapture", "--test-threads=1"])
        .env(VICTIM, format!("{sync} {}", path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut committed = [0; THREADS as usize];
    let mut note = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["committed", thread, number] = words[..] {
            committed[thread.parse::<usize>().unwrap()] = number.parse().unwrap();
            return true;
        }
        false
    };
    assert!(lines.by_ref().any(&mut note), "it came to commit something");
    std::thread::sleep(after);
    child.kill().unwrap();
    for line in lines {
        note(line);
    }
    child.wait().unwrap();
    committed
}

#[test]
fn what_was_acknowledged_before_a_kill_is_there_and_nothing_is_halved() {
    let seeds = std::env::var("SEED").map_or(0..6, |seed| {
        let seed: u64 = seed.parse().unwrap();
        seed..seed + 1
    });
    for sync in ["host", "none"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tant");
        let mut before = [0; THREADS as usize];
        for seed in seeds.clone() {
            let said = kill_one(sync, &path, Duration::from_millis(seed * 61 % 300));
            let store = open(&path, sync_of(sync));
            let (namespace, ordered) = (store.hashed_namespace("a").unwrap(), store.namespace("o").unwrap());
            store.with_drive(|drive| drive.audit()).unwrap();
            let mut numbers = Vec::new();
            for thread in 0..THREADS {
                let mut tx = store.begin().unwrap();
                let found = tx.scan(namespace, (0..RECORDS).map(|record| key(thread, record))).unwrap();
                let number =
                    found[0].as_ref().map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()));
                let said = said[thread as usize].max(before[thread as usize]);
                assert!(number >= said, "{sync}, seed {seed}: {said} was acknowledged, {number} is there");
                let expected = (number > 0).then(|| value(number));
                assert!(
                    found.iter().all(|found| found.as_deref() == expected.as_deref()),
                    "{sync}, seed {seed}: half of a commit"
                );
                before[thread as usize] = number;
                if number > 0 {
                    numbers.push((ordered_key(thread, number), value(number)));
                }
            }
            let mut tx = store.begin().unwrap();
            let all = tx.all(ordered).unwrap().map(|entry| entry.unwrap());
            let found: Vec<_> = all.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            numbers.sort();
            assert!(found == numbers, "{sync}, seed {seed}: {} keys in the ordered namespace", found.len());
            drop(tx);
            if seed % 2 == 0 {
                store.close().unwrap();
            }
        }
        assert!(before.iter().all(|number| *number > 0), "{before:?}");
    }
}
