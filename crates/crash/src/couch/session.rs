//! The host while power is on: commits, snapshots, and compaction alongside.

use std::io::ErrorKind;

use rand::{Rng, RngExt, SeedableRng};
use tantalum::UNIT_BYTES;
use tantalum_couch::{Compaction, Error, Options, Snapshot, Store, VolumeStorage, Way};

use super::contents::{Contents, Random};
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

pub(super) fn open(storage: &VolumeStorage, way: Way) -> Result<Store<VolumeStorage>, Error> {
    Store::open(storage.clone(), NAME, Options { way, cache_bytes: 40 * UNIT_BYTES, stage_units: 16 })
}

/// The host.
pub(super) struct Session<'a> {
    storage: VolumeStorage,
    store: Store<VolumeStorage>,
    pub expected: &'a mut Expected,
    snapshots: Vec<(Snapshot<VolumeStorage>, Contents)>,
    compaction: Option<Compaction<VolumeStorage>>,
    /// Draws the next step.
    random: Random,
    /// Comparisons made.
    pub checked: u64,
    /// Commits acknowledged.
    pub commits: u64,
}

impl<'a> Session<'a> {
    pub fn new(
        storage: VolumeStorage,
        store: Store<VolumeStorage>,
        seed: u64,
        expected: &'a mut Expected,
    ) -> Session<'a> {
        let random = Random::seed_from_u64(seed);
        let (snapshots, compaction) = (Vec::new(), None);
        Session { storage, store, expected, snapshots, compaction, random, checked: 0, commits: 0 }
    }

    /// Does one step.
    pub fn step(&mut self) -> Result<(), Stop> {
        let is_large = self.store.statistics().file_bytes > MOST_FILE_BYTES;
        let done = match self.random.random_range(0..100) {
            _ if is_large && self.compaction.is_some() => self.compact().map(|()| None),
            _ if is_large => self.begin_compaction(),
            0..6 if self.snapshots.len() < SNAPSHOTS => {
                self.snapshots.push((self.store.snapshot(), self.expected.contents.clone()));
                Ok(None)
            }
            6..14 if !self.snapshots.is_empty() => {
                let (snapshot, contents) = self.snapshots.remove(0);
                self.look(&snapshot, &contents)
            }
            14..18 if self.compaction.is_none() => self.begin_compaction(),
            18..36 => self.compact().map(|()| None),
            36..44 => self.write_other_data().map(|()| None),
            _ => self.commit(),
        };
        match done {
            Ok(None) => Ok(()),
            Ok(Some(broken)) => Err(Stop::Broken(broken)),
            Err(_) if !goes_on(&self.storage.volume().device()) => Err(Stop::PowerLost),
            Err(Error::Io(error)) if error.kind() == ErrorKind::StorageFull => {
                self.give_room();
                Ok(())
            }
            Err(error) => Err(Stop::Broken(Broken::error("the store works", error.to_string()))),
        }
    }

    fn commit(&mut self) -> Result<Option<Broken>, Error> {
        let (batch, next) = self.expected.contents.draw(&mut self.random);
        let seq = next.seq();
        self.expected.under_way = Some(next);
        let committed = self.store.commit(&batch)?;
        self.expected.contents = self.expected.under_way.take().expect("it was put there");
        self.commits += 1;
        let wrong = || Broken::new("changes are counted", format!("change {committed}, should be {seq}"));
        Ok((committed != seq).then(wrong))
    }

    fn begin_compaction(&mut self) -> Result<Option<Broken>, Error> {
        self.compaction = Some(self.store.compaction(0)?);
        Ok(None)
    }

    /// The volume is full: the refused change must have no effect. Closes the snapshots, which keep old files.
    fn give_room(&mut self) {
        self.expected.under_way = None;
        self.snapshots.clear();
        self.compaction = None;
    }

    fn compact(&mut self) -> Result<(), Error> {
        let Some(mut compaction) = self.compaction.take() else { return Ok(()) };
        match compaction.step(self.random.random_range(1..40))? {
            true => self.compaction = Some(compaction),
            false => compaction.finish()?,
        }
        Ok(())
    }

    fn look(
        &mut self,
        snapshot: &Snapshot<VolumeStorage>,
        contents: &Contents,
    ) -> Result<Option<Broken>, Error> {
        self.checked += 1;
        let difference = match Contents::read(snapshot)? {
            Ok(found) => contents.difference(&found),
            Err(what) => Some(what),
        };
        Ok(difference.map(|difference| Broken::new("a snapshot stays what it was", difference)))
    }

    fn write_other_data(&mut self) -> Result<(), Error> {
        let mut unit = [0; UNIT_BYTES];
        for _ in 0..OTHER_UNITS_WRITTEN {
            self.random.fill_bytes(&mut unit);
            let offset = self.random.random_range(0..OTHER_UNITS) * UNIT_BYTES as u64;
            let mut volume = self.storage.volume();
            let file = volume.find(OTHER_DATA).expect("it was made durable before the first cut");
            volume.write(file, offset, &unit).map_err(std::io::Error::other)?;
        }
        Ok(())
    }
}
