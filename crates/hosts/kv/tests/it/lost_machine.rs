//! A machine that is lost while a process commits leaves every commit that returned, and none in part.
//!
//! A process that commits from several threads is traced: what it writes to the image, when it syncs, which commits
//! returned. A simulated disk then keeps what was synced, and of everything else any version of any sector; holes are zeros. What is left
//! is opened, checked, and becomes the image of the next process, so that machines are also lost while a log is read. Or
//! the process is only killed: then the next one finds everything written, though the disk may not have it. `SEED=17`
//! runs one seed, `SEEDS=50` seeds 0 to 49; every other one has a drive with a capacitor, as a store's own is.
//!
//! In addition, a process that syncs nothing is killed at each of its writes.

mod disk;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::disk::{Disk, Event, events};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Access, Device};
use tantalum_kv::{Error, Namespace, Store, Sync, Transaction};

const THREADS: usize = 3;
const RECORDS: u8 = 4;
/// Processes on one image, one after the other.
const PROCESSES: usize = 4;
/// Losses examined for each process.
const LOSSES: usize = 18;
const VICTIM: &str = "TANTALUM_KV_TRACED";

/// The number of commits of each thread.
type Counts = [u64; THREADS];

fn key(thread: usize, record: u8) -> [u8; 2] {
    [thread as u8, record]
}

fn value(number: u64, record: u8) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    // occasionally one of several units
    let bytes =
        if number.is_multiple_of(40) { 20_000 } else { (number as usize * 37 + usize::from(record)) % 900 };
    value.resize(8 + bytes, number as u8 ^ record);
    value
}

/// The keys of a thread in the ordered namespace: the last few numbers, so that leaves are filled and emptied.
fn ordered_key(thread: usize, number: u64) -> String {
    format!("{}{thread} {number:08}", "long ".repeat((number % 50) as usize))
}

/// How many numbers a thread keeps there.
const KEPT: u64 = 40;

/// Transactions with such a number are larger than a `put` of the drive.
fn is_large(number: u64) -> bool {
    number % 31 == 30
}

fn large_key(thread: usize, record: u64) -> String {
    format!("{thread} {record}")
}

/// Records that a large transaction writes in addition to the others, each under its own key.
const LARGE_RECORDS: u64 = 1100;

fn number(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// The work of the traced process: each thread counts in its own records, and marks its progress.
#[test]
fn victim() {
    let Ok(what) = std::env::var(VICTIM) else { return };
    let [commits, closes, sync, path] = what.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{what}") };
    let commits: u64 = commits.parse().unwrap();
    let sync = if sync == "host" { Sync::Host } else { Sync::None };
    let store = Store::options().sync(sync).open(path).unwrap();
    let namespaces = (store.hashed_namespace("a").unwrap(), store.namespace("o").unwrap());
    let marks =
        OpenOptions::new().create(true).append(false).write(true).open(format!("{path}.mark")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, marks) = (&store, &marks);
            scope.spawn(move || (0..commits).for_each(|_| count_on(store, namespaces, thread, marks)));
        }
    });
    if closes == "close" {
        store.close().unwrap();
    }
    std::process::exit(0);
}

fn count_on(store: &Store, (namespace, ordered): (Namespace, Namespace), thread: usize, marks: &File) {
    let committed = store.transact::<_, Error>(|tx| {
        let number = number(tx.read_for_update(namespace, key(thread, 0))?.as_deref()) + 1;
        for record in 0..RECORDS {
            tx.put(namespace, key(thread, record), value(number, record))?;
        }
        tx.put(ordered, ordered_key(thread, number), number.to_le_bytes())?;
        if number > KEPT {
            tx.delete(ordered, ordered_key(thread, number - KEPT))?;
        }
        if is_large(number) {
            (0..LARGE_RECORDS)
                .try_for_each(|record| tx.put(namespace, large_key(thread, record), number.to_le_bytes()))?;
        }
        Ok(number)
    });
    let mark = [thread as u64, committed.unwrap()].map(u64::to_le_bytes).concat();
    marks.write_all_at(&mark, 0).unwrap();
}

/// Runs a process on an image; returns what it did.
fn traced(folder: &Path, image: &Path, commits: u64, closes: &str, sync: &str) -> Vec<Event> {
    let trace = folder.join("trace");
    let _ = std::fs::remove_file(&trace);
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["lost_machine::victim", "--exact", "--test-threads=1"])
        .env(VICTIM, format!("{commits} {closes} {sync} {}", image.display()))
        .env("LD_PRELOAD", folder.join("trace.so"))
        .env("IMAGE", image)
        .env("TRACE", &trace)
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    events(&trace)
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/lost_machine/trace.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&path.join("trace.so"), &source])
        .args(["-ldl", "-lpthread"])
        .status();
    assert!(compiled.unwrap().success());
    (folder, path)
}

/// Opens what is left, in memory. Returns the count of each thread, or what is wrong.
fn counts(image: &Path) -> Result<Counts, String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    let device = Device::open_as(image, Access::Overlay).map_err(|error| said(&error))?;
    let store = Store::over(device, Store::options()).map_err(|error| said(&error))?;
    let namespace = store.hashed_namespace("a").map_err(|error| said(&error))?;
    let audit = || store.with_drive(|drive| drive.audit()).unwrap();
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(audit)).map_err(|_| "maps and flash disagree")?;
    let mut tx = store.begin().map_err(|error| said(&error))?;
    let ordered = store.namespace("o").map_err(|error| said(&error))?;
    let (mut counts, mut expected) = ([0; THREADS], Vec::new());
    for (thread, count) in counts.iter_mut().enumerate() {
        let keys = (0..RECORDS).map(|record| key(thread, record));
        let found = tx.scan(namespace, keys).map_err(|error| said(&error))?;
        *count = number(found[0].as_deref());
        for (record, found) in (0..RECORDS).zip(&found) {
            if found.as_deref() != (*count > 0).then(|| value(*count, record)).as_deref() {
                return Err(format!("thread {thread}: half of a commit, {count} in record 0"));
            }
        }
        let kept = (*count).saturating_sub(KEPT - 1).max(1)..=*count;
        expected.extend(kept.map(|number| (ordered_key(thread, number).into_bytes(), number)));
        let large = (1..=*count).rev().find(|number| is_large(*number)).unwrap_or(0);
        for record in (0..LARGE_RECORDS).step_by(7) {
            let found = tx.read(namespace, large_key(thread, record)).map_err(|error| said(&error))?;
            if number(found.as_deref()) != large {
                return Err(format!("thread {thread}: half of a large commit, {large} and {found:?}"));
            }
        }
    }
    expected.sort();
    let found: Result<Vec<_>, Error> = tx.all(ordered).map_err(|error| said(&error))?.collect();
    let found = found.map_err(|error| said(&error))?.into_iter();
    if !found.map(|(key, value)| (key.to_vec(), number(Some(&value)))).eq(expected) {
        return Err(format!("the ordered namespace does not fit {counts:?}"));
    }
    Ok(counts)
}

/// What was checked.
#[derive(Default, Debug)]
struct Seen {
    losses: u32,
    /// Losses that left more than was acknowledged.
    unacknowledged_there: u32,
    /// How often the log started over while a process ran, or when it ended.
    restarts: u32,
    /// How often a log was put in place when an image was opened.
    replays: u32,
    kills: u32,
    blocks_erased: u64,
    /// Pieces of the image that went back to the host.
    holes: usize,
}

/// An image on a disk, and its expected contents.
struct Machine {
    folder: PathBuf,
    image: PathBuf,
    disk: Disk,
    acknowledged: Counts,
    /// What the process found: after a kill that may be more.
    began: Counts,
    honours_syncs: bool,
    random: Xoshiro256PlusPlus,
}

/// Whether a group without contents was written, which says that the log is empty.
fn begins_log_anew(event: &Event) -> bool {
    matches!(event, Event::Write { data, .. } if data.starts_with(b"TANTLOG1") && data[24..28] == [0; 4])
}

/// Whether that was for the sake of what an opened image had in its log: not a whole sector.
fn ends_replay(event: &Event) -> bool {
    begins_log_anew(event) && matches!(event, Event::Write { data, .. } if data.len() == 32)
}

impl Machine {
    /// With the image that is in the folder, all of it on the disk.
    fn new(folder: &Path, honours_syncs: bool, random: Xoshiro256PlusPlus) -> Machine {
        let [image, base] = ["app.tant", "base"].map(|name| folder.join(name));
        std::fs::copy(&image, &base).unwrap();
        let acknowledged = counts(&base).unwrap();
        Machine {
            folder: folder.to_owned(),
            image,
            disk: Disk::new(&base),
            acknowledged,
            began: acknowledged,
            honours_syncs,
            random,
        }
    }

    /// One process on the image, and machines lost while it ran. Then the process was killed, or the last loss was
    /// true.
    fn process(&mut self, seen: &mut Seen) -> Result<(), String> {
        let (commits, closes) =
            (self.random.random_range(60..220), ["close", "exit"][self.random.random_range(0..2)]);
        self.began = counts(&self.image)?;
        let events = traced(&self.folder, &self.image, commits, closes, "host");
        let cuts = self.cuts(&events, seen);
        let kill = self.random.random_range(0..2) == 0;
        let mut end = if kill { self.random.random_range(0..=events.len()) } else { events.len() };
        // what was written and not synced is known to the next process, and perhaps to nobody after it
        while events.get(end).is_some_and(|event| !matches!(event, Event::Sync)) {
            end += 1;
        }
        let lost = self.folder.join("lost");
        let mut cuts = cuts.into_iter().filter(|cut| *cut <= end).peekable();
        for (place, event) in events[..end].iter().map(Some).chain([None]).enumerate() {
            while cuts.next_if(|cut| *cut <= place).is_some() {
                self.disk.lose(&lost, &mut self.random);
                seen.losses += 1;
                let found = self.found(&lost).map_err(|wrong| format!("at event {place}: {wrong}"))?;
                seen.unacknowledged_there += u32::from(found != self.acknowledged);
            }
            if let Some(event) = event {
                self.replay(event);
            }
        }
        if kill {
            seen.kills += 1;
            self.disk.keep(&self.image);
        } else {
            self.disk.lose(&lost, &mut self.random);
            self.acknowledged = self.found(&lost)?;
            let base = self.folder.join("base");
            std::fs::copy(&lost, &base).unwrap();
            std::fs::rename(&lost, &self.image).unwrap();
            self.disk = Disk::new(&base);
        }
        Ok(())
    }

    /// Where machines are lost.
    fn cuts(&mut self, events: &[Event], seen: &mut Seen) -> Vec<usize> {
        // while the image is opened, and anywhere
        let limits = [events.len().min(60), events.len(), events.len()];
        let mut cuts: Vec<usize> =
            (0..LOSSES).map(|loss| self.random.random_range(0..=limits[loss % 3])).collect();
        let restarts = events.iter().enumerate().filter(|(_, event)| begins_log_anew(event));
        let restarts: Vec<usize> = restarts.map(|(place, _)| place).collect();
        let replays = events.iter().filter(|event| ends_replay(event)).count() as u32;
        seen.restarts += restarts.len() as u32 - 1 - replays;
        seen.replays += replays;
        seen.holes += events.iter().filter(|event| matches!(event, Event::Hole { .. })).count();
        // just before, in and after each
        cuts.extend(restarts.iter().flat_map(|&place| [place.max(1) - 1, place + 1, place + 2]));
        cuts.sort_unstable();
        cuts
    }

    fn replay(&mut self, event: &Event) {
        match event {
            Event::Write { at, data } => self.disk.write(*at, data),
            Event::Hole { at, bytes } => self.disk.write(*at, &vec![0; *bytes as usize]),
            Event::Sync if self.honours_syncs => self.disk.sync(),
            Event::Sync => {}
            Event::Mark(mark) => {
                let number = |at: usize| u64::from_le_bytes(mark[at..at + 8].try_into().unwrap());
                self.acknowledged[number(0) as usize] = number(8);
            }
        }
    }

    /// The contents: what was acknowledged, and perhaps the commits in progress.
    fn found(&self, image: &Path) -> Result<Counts, String> {
        let found = counts(image)?;
        let is_right = |thread: usize| {
            let (least, began) = (self.acknowledged[thread], self.began[thread]);
            (least..=least.max(began) + 1).contains(&found[thread])
        };
        if !(0..THREADS).all(is_right) {
            return Err(format!("{:?} were acknowledged, {found:?} are there", self.acknowledged));
        }
        Ok(found)
    }
}

/// Creates an image on which garbage is collected: otherwise no slot of the image would ever be reused.
fn make_used(image: &Path, has_capacitor: bool) {
    let options = Store::options().capacity_bytes(16 << 20).sync(Sync::None);
    let options = if has_capacitor { options } else { options.profile("femu-2021") };
    let store = options.open(image).unwrap();
    let [_, other] = ["a", "other"].map(|name| store.hashed_namespace(name).unwrap());
    store.namespace("o").unwrap();
    for number in 0..6000_u32 {
        let put = |tx: &mut Transaction| tx.put(other, (number % 1500).to_le_bytes(), [number as u8; 3000]);
        store.transact::<_, Error>(put).unwrap();
    }
    store.close().unwrap();
}

fn erased(image: &Path) -> u64 {
    Device::open_as(image, Access::Overlay).unwrap().smart().counters.blocks_erased
}

fn run(seed: u64, honours_syncs: bool, seen: &mut Seen) -> Result<(), String> {
    let (_folder, path) = folder();
    let image = path.join("app.tant");
    make_used(&image, seed.is_multiple_of(2));
    let before = erased(&image);
    let mut machine = Machine::new(&path, honours_syncs, Xoshiro256PlusPlus::seed_from_u64(seed));
    for number in 0..PROCESSES {
        machine.process(seen).map_err(|wrong| format!("seed {seed}, process {number}, {wrong}"))?;
    }
    seen.blocks_erased += erased(&image) - before;
    Ok(())
}

#[test]
fn what_was_acknowledged_before_the_machine_was_lost_is_there_and_nothing_is_halved() {
    let setting = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = setting("SEED").map_or(0..setting("SEEDS").unwrap_or(3), |seed| seed..seed + 1);
    let mut seen = Seen::default();
    for seed in seeds {
        run(seed, true, &mut seen).unwrap();
    }
    println!("{seen:?}");
    assert!(seen.unacknowledged_there > 0 && seen.replays > 0 && seen.kills > 0, "{seen:?}");
    assert!(seen.blocks_erased > 10, "garbage is collected: {seen:?}");
    assert!(seen.holes > 10, "space goes back: {seen:?}");
    assert!(seen.restarts > 2, "the log is used up and begins anew: {seen:?}");
}

/// A canary: without the syncs of the process, commits are lost.
#[test]
fn without_syncs_acknowledged_commits_are_lost() {
    let wrong = run(0, false, &mut Seen::default()).expect_err("nothing was synced");
    println!("{wrong}");
}

/// A killed process leaves everything it wrote until then, in the order in which it wrote.
#[test]
fn a_process_that_is_killed_at_any_write_leaves_what_was_acknowledged() {
    let (_folder, path) = folder();
    let image = path.join("app.tant");
    make_used(&image, true);
    let mut machine = Machine::new(&path, true, Xoshiro256PlusPlus::seed_from_u64(0));
    let events = traced(&path, &image, 40, "exit", "none");
    let killed = path.join("killed");
    let writes = events.iter().filter(|event| matches!(event, Event::Write { .. })).count();
    assert!(writes > 300, "{writes}");
    for (place, event) in events.iter().enumerate() {
        machine.replay(event);
        // opening the image, and then some of each kind
        if (place + 40 > events.len() || place % 7 == 0) && matches!(event, Event::Write { .. }) {
            machine.disk.keep(&killed);
            machine.found(&killed).unwrap_or_else(|wrong| panic!("after event {place}: {wrong}"));
        }
    }
}
