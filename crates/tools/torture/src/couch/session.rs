//! The host while power is on: commits, snapshots, and compaction alongside, by one thread or by several in turns (`turns.rs`).

use std::io::ErrorKind;

use parking_lot::Mutex;
use rand::{Rng, RngExt, SeedableRng};
use tantalum::UNIT_BYTES;
use tantalum_couch::{Compaction, Error, Options, Snapshot, Store, VolumeStorage, Way};

use super::contents::{self, Contents, Random};
use super::turns::{self, InTurns};
use crate::program::drive::OTHER_DATA;
use crate::program::{Broken, Stop, goes_on};

/// Units of [`OTHER_DATA`], of the volume's 4096.
pub(super) const OTHER_UNITS: u64 = 2000;

/// The store's file.
const NAME: &str = "app.couch";

/// The maximum number of open snapshots.
const SNAPSHOTS: usize = 2;

/// The file is always compacted once it is this large: the volume has room for a few such files.
const MOST_FILE_BYTES: u64 = 500 * UNIT_BYTES as u64;

/// Units of other data that one step overwrites.
const OTHER_UNITS_WRITTEN: usize = 12;

/// Which states the store may be in after a cut.
#[derive(Clone, Default)]
pub(super) struct Expected {
    /// What was committed.
    pub contents: Contents,
    /// The result of the commit in flight.
    pub under_way: Option<Contents>,
}

impl Expected {
    /// Compares what was found after a cut with what is allowed.
    pub fn check(&self, found: &Contents) -> Result<(), Broken> {
        if let Some(next) = &self.under_way
            && next.difference(found).is_none()
        {
            return Ok(());
        }
        let Some(difference) = self.contents.difference(found) else { return Ok(()) };
        let (seq, most) = (self.contents.seq(), self.under_way.as_ref().map_or(0, Contents::seq));
        let range = format!("found change {}, allowed are {seq} and {}", found.seq(), most.max(seq));
        let promise = match found.seq() {
            found if found < seq => "acknowledged means there",
            found if found > seq && found < most => "batches are whole",
            _ => "documents are as they were committed",
        };
        Err(Broken::new(promise, format!("{range}; {difference}")))
    }
}

/// The store's storage, before each use of which a thread may be told to wait.
pub(super) type Held = InTurns<VolumeStorage>;

pub(super) fn open(storage: &Held, way: Way) -> Result<Store<Held>, Error> {
    Store::open(storage.clone(), NAME, Options { way, cache_bytes: 40 * UNIT_BYTES, stage_units: 16 })
}

/// What the threads of a host know together.
#[derive(Default)]
pub(super) struct Common {
    pub expected: Expected,
    /// Whether a thread commits, or switches to a compacted file. The store has one writer, for which others wait here and not
    /// in the store, because there they would wait in their turn.
    is_writing: bool,
    /// Comparisons made.
    pub checked: u64,
    /// Commits acknowledged.
    pub commits: u64,
}

impl Common {
    /// At the beginning of a life.
    pub fn new(contents: Contents) -> Common {
        Common { expected: Expected { contents, under_way: None }, ..Common::default() }
    }

    /// What a reader may find now: what was committed, or what is being committed.
    fn allowed(&self) -> Vec<Contents> {
        [Some(&self.expected.contents), self.expected.under_way.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }
}

/// One thread of the host.
pub(super) struct Session<'a> {
    storage: Held,
    store: Store<Held>,
    common: &'a Mutex<Common>,
    /// Whether there are other threads.
    is_one_of_many: bool,
    /// Snapshots, and what each of them may hold.
    snapshots: Vec<(Snapshot<Held>, Vec<Contents>)>,
    compaction: Option<Compaction<Held>>,
    /// Draws the next step.
    random: Random,
}

impl<'a> Session<'a> {
    pub fn new(
        storage: Held,
        store: Store<Held>,
        seed: u64,
        common: &'a Mutex<Common>,
        is_one_of_many: bool,
    ) -> Session<'a> {
        let random = Random::seed_from_u64(seed);
        Session { storage, store, common, is_one_of_many, snapshots: Vec::new(), compaction: None, random }
    }

    /// Does one step after another until one of them ends everything.
    pub fn run(mut self) -> Stop {
        loop {
            let done = self.step().and_then(|()| turns::pass().map_err(|_| Stop::PowerLost));
            if let Err(why) = done {
                return why;
            }
        }
    }

    /// Does one step.
    pub fn step(&mut self) -> Result<(), Stop> {
        let is_large = self.store.statistics().file_bytes > MOST_FILE_BYTES;
        let done = match self.random.random_range(0..100) {
            _ if is_large && self.compaction.is_some() => self.compact().map(|()| None),
            _ if is_large => self.begin_compaction(),
            0..6 if self.snapshots.len() < SNAPSHOTS => {
                let allowed = self.common.lock().allowed();
                self.snapshots.push((self.store.snapshot(), allowed));
                Ok(None)
            }
            6..14 if !self.snapshots.is_empty() => {
                let (snapshot, allowed) = self.snapshots.remove(0);
                self.look(&snapshot, &allowed)
            }
            14..18 if self.compaction.is_none() => self.begin_compaction(),
            18..36 => self.compact().map(|()| None),
            36..44 => self.write_other_data().map(|()| None),
            44..52 if self.is_one_of_many => self.get(),
            _ => self.commit(),
        };
        match done {
            Ok(None) => Ok(()),
            Ok(Some(broken)) => Err(Stop::Broken(broken)),
            Err(_) if turns::are_over() || !goes_on(&self.storage.0.volume().device()) => {
                Err(Stop::PowerLost)
            }
            Err(Error::Io(error)) if error.kind() == ErrorKind::StorageFull => {
                self.give_room();
                Ok(())
            }
            Err(error) => Err(Stop::Broken(Broken::error("the store works", error.to_string()))),
        }
    }

    /// Does something that the store's writer does.
    fn write<T>(&mut self, write: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        while std::mem::replace(&mut self.common.lock().is_writing, true) {
            turns::pass()?;
        }
        let written = write(self);
        self.common.lock().is_writing = false;
        written
    }

    fn commit(&mut self) -> Result<Option<Broken>, Error> {
        self.write(|session| {
            let common = session.common;
            let (batch, next) = common.lock().expected.contents.draw(&mut session.random);
            let seq = next.seq();
            common.lock().expected.under_way = Some(next);
            let committed = session.store.commit(&batch);
            let mut common = common.lock();
            if let Err(Error::Io(error)) = &committed
                && error.kind() == ErrorKind::StorageFull
            {
                // the refused change must have no effect
                common.expected.under_way = None;
            }
            let committed = committed?;
            common.expected.contents = common.expected.under_way.take().expect("it was put there");
            common.commits += 1;
            let wrong = || Broken::new("changes are counted", format!("change {committed}, should be {seq}"));
            Ok((committed != seq).then(wrong))
        })
    }

    /// Reads one document, whatever is being committed.
    fn get(&mut self) -> Result<Option<Broken>, Error> {
        let key = contents::draw_key(&mut self.random);
        // the store's state is locked meanwhile
        let found = turns::without_turns(|| self.store.get(&key))?;
        let mut common = self.common.lock();
        common.checked += 1;
        let value = found.as_ref().map(|document| (document.seq(), document.value()));
        let is_allowed = common.allowed().iter().any(|contents| contents.has(&key, value));
        let wrong = || {
            let found = value.map(|(seq, value)| (seq, value.len()));
            Broken::new("a reader sees what a commit left", format!("{}: {found:?}", key.escape_ascii()))
        };
        Ok((!is_allowed).then(wrong))
    }

    fn begin_compaction(&mut self) -> Result<Option<Broken>, Error> {
        match self.store.compaction(0) {
            // another thread's
            Err(Error::CompactionUnderWay) if self.is_one_of_many => {}
            begun => self.compaction = Some(begun?),
        }
        Ok(None)
    }

    /// The volume is full. Closes the snapshots, which keep old files.
    fn give_room(&mut self) {
        self.snapshots.clear();
        self.compaction = None;
    }

    fn compact(&mut self) -> Result<(), Error> {
        let Some(mut compaction) = self.compaction.take() else { return Ok(()) };
        match compaction.step(self.random.random_range(1..40))? {
            true => self.compaction = Some(compaction),
            false => {
                compaction.prepare()?;
                self.write(|_| compaction.finish())?;
            }
        }
        Ok(())
    }

    fn look(&mut self, snapshot: &Snapshot<Held>, allowed: &[Contents]) -> Result<Option<Broken>, Error> {
        self.common.lock().checked += 1;
        let difference = match Contents::read(snapshot)? {
            Ok(found) => {
                let differences = allowed.iter().map(|contents| contents.difference(&found));
                differences.reduce(|one, other| one.and(other)).flatten()
            }
            Err(what) => Some(what),
        };
        Ok(difference.map(|difference| Broken::new("a snapshot stays what it was", difference)))
    }

    fn write_other_data(&mut self) -> Result<(), Error> {
        let mut unit = [0; UNIT_BYTES];
        for _ in 0..OTHER_UNITS_WRITTEN {
            self.random.fill_bytes(&mut unit);
            let offset = self.random.random_range(0..OTHER_UNITS) * UNIT_BYTES as u64;
            let mut volume = self.storage.0.volume();
            let file = volume.find(OTHER_DATA).expect("it was made durable before the first cut");
            volume.write(file, offset, &unit).map_err(std::io::Error::other)?;
        }
        Ok(())
    }
}
