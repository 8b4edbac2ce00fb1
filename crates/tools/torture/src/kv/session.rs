//! The host while power is on: transactions, ranges, snapshots, and a drive that is occasionally full.

use rand::{Rng, RngExt, SeedableRng};
use tantalum::{Key, Status, UNIT_BYTES};
use tantalum_kv::{Error, Snapshot, Store};

use super::contents::{Contents, Namespaces, Random};
use super::draw::Changes;
use super::keys::bulk_key;
use super::ranges::compare;
use crate::program::{Broken, Stop, goes_on};

/// The initial number of other records, on the drive's 4096 units.
const OTHER: u32 = 2000;

/// Bytes of their values.
const OTHER_BYTES: usize = UNIT_BYTES - 100;

/// Other records that one step overwrites, or adds.
const OTHER_AT_ONCE: usize = 12;

/// Other records that are added at once to fill the drive.
const OTHER_TO_FILL: u32 = 40;

/// The maximum number of open snapshots.
const SNAPSHOTS: usize = 3;

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
        let Some(difference) = self.contents.difference(found) else { return Ok(()) };
        match &self.under_way {
            None => Err(Broken::new("acknowledged means there", difference)),
            Some(next) => match next.difference(found) {
                None => Ok(()),
                Some(other) => Err(Broken::new(
                    "a transaction is there or not",
                    format!("without the one under way, {difference}; with it, {other}"),
                )),
            },
        }
    }
}

/// Writes the other records.
pub(super) fn fill(store: &Store, namespaces: Namespaces, random: &mut Random) -> Result<(), Error> {
    let numbers: Vec<u32> = (0..OTHER).collect();
    numbers.chunks(100).try_for_each(|numbers| write_other(store, namespaces, random, numbers))
}

fn write_other(
    store: &Store,
    namespaces: Namespaces,
    random: &mut Random,
    numbers: &[u32],
) -> Result<(), Error> {
    let mut tx = store.begin()?;
    let mut value = vec![0; OTHER_BYTES];
    for number in numbers {
        random.fill_bytes(&mut value);
        tx.put(namespaces.other, number.to_be_bytes(), &value)?;
    }
    tx.commit()
}

/// The host.
pub(super) struct Session<'a> {
    store: Store,
    namespaces: Namespaces,
    pub expected: &'a mut Expected,
    snapshots: Vec<(Snapshot, Contents)>,
    /// Other records that were added until the drive was full.
    added: u32,
    /// Draws the next step.
    random: Random,
    /// Comparisons made.
    pub checked: u64,
    /// Commits acknowledged.
    pub commits: u64,
    /// Transactions that deleted more than a quarter of all keys when the drive had refused a put for room.
    #[cfg(test)]
    large_deletes: u64,
}

impl<'a> Session<'a> {
    pub fn new(store: Store, namespaces: Namespaces, seed: u64, expected: &'a mut Expected) -> Session<'a> {
        let (snapshots, random) = (Vec::new(), Random::seed_from_u64(seed));
        Session {
            store,
            namespaces,
            expected,
            snapshots,
            added: 0,
            random,
            checked: 0,
            commits: 0,
            #[cfg(test)]
            large_deletes: 0,
        }
    }

    /// Does one step.
    pub fn step(&mut self) -> Result<(), Stop> {
        let done = match self.random.random_range(0..100) {
            0..10 if self.snapshots.len() < SNAPSHOTS => self.open_snapshot(),
            10..20 if !self.snapshots.is_empty() => self.look(),
            20..32 => self.overwrite_other(),
            32..35 => self.add_other(),
            35 if self.random.random() => self.fill(),
            35 => self.fill_at_once(),
            36..46 => self.read_ranges(),
            46..54 => self.commit(true),
            _ => self.commit(false),
        };
        match done {
            Ok(None) => Ok(()),
            Ok(Some(broken)) => Err(Stop::Broken(broken)),
            Err(_) if !self.has_power() => Err(Stop::PowerLost),
            Err(Error::Drive(Status::CapacityExceeded)) => self.give_room(),
            Err(error) => Err(Stop::Broken(Broken::error("the store works", error.to_string()))),
        }
    }

    fn has_power(&self) -> bool {
        self.store.with_drive(|drive| goes_on(drive)).expect("it is the same process")
            && self.store.refuses_changes().is_none()
    }

    fn commit(&mut self, is_large: bool) -> Result<Option<Broken>, Error> {
        let is_there = self.expected.contents.ordered.contains_key(&bulk_key(1)[..]);
        let changes = match is_large {
            true => Changes::many(&mut self.random, is_there),
            false => Changes::some(&mut self.random),
        };
        let mut tx = self.store.begin()?;
        let next = changes.make(&mut tx, self.namespaces, &self.expected.contents)?;
        self.checked += 1;
        // with its own changes
        let wrong = compare(&mut tx, self.namespaces.ordered, &next.ordered, &mut self.random)?;
        if let Some(wrong) = wrong {
            return Ok(Some(Broken::new("a transaction sees its own changes", wrong)));
        }
        self.expected.under_way = Some(next);
        tx.commit()?;
        self.expected.contents = self.expected.under_way.take().expect("it was put there");
        self.commits += 1;
        Ok(None)
    }

    fn read_ranges(&mut self) -> Result<Option<Broken>, Error> {
        let mut tx = self.store.begin()?;
        for _ in 0..3 {
            self.checked += 1;
            let expected = &self.expected.contents.ordered;
            let wrong = compare(&mut tx, self.namespaces.ordered, expected, &mut self.random)?;
            if let Some(wrong) = wrong {
                return Ok(Some(Broken::new("a range is all that is committed there", wrong)));
            }
        }
        Ok(None)
    }

    fn open_snapshot(&mut self) -> Result<Option<Broken>, Error> {
        self.snapshots.push((self.store.snapshot()?, self.expected.contents.clone()));
        Ok(None)
    }

    /// Reads a snapshot, which may be lost if it reports that.
    fn look(&mut self) -> Result<Option<Broken>, Error> {
        let at = self.random.random_range(0..self.snapshots.len());
        let (snapshot, contents) = self.snapshots.swap_remove(at);
        let difference = match Contents::read(&snapshot, self.namespaces) {
            Err(Error::SnapshotLost { .. }) => return Ok(None),
            read => match read? {
                Ok(found) => contents.difference(&found),
                Err(what) => Some(what),
            },
        };
        self.checked += 1;
        if difference.is_none() && self.random.random_range(0..2) == 0 {
            self.snapshots.push((snapshot, contents));
        }
        Ok(difference.map(|difference| Broken::new("a snapshot stays what it was", difference)))
    }

    fn overwrite_other(&mut self) -> Result<Option<Broken>, Error> {
        let number = |_| self.random.random_range(0..OTHER);
        let numbers: Vec<u32> = (0..OTHER_AT_ONCE).map(number).collect();
        write_other(&self.store, self.namespaces, &mut self.random, &numbers).map(|()| None)
    }

    /// Adds records until the drive has no room for more.
    fn add_other(&mut self) -> Result<Option<Broken>, Error> {
        for _ in 0..self.random.random_range(1..20) {
            let first = OTHER + self.added;
            self.added += OTHER_AT_ONCE as u32;
            let numbers: Vec<u32> = (first..OTHER + self.added).collect();
            write_other(&self.store, self.namespaces, &mut self.random, &numbers)?;
        }
        Ok(None)
    }

    /// Adds records until the drive is full.
    fn fill(&mut self) -> Result<Option<Broken>, Error> {
        loop {
            let first = OTHER + self.added;
            self.added += OTHER_TO_FILL;
            let numbers: Vec<u32> = (first..OTHER + self.added).collect();
            write_other(&self.store, self.namespaces, &mut self.random, &numbers)?;
        }
    }

    /// Adds records in one transaction, for which there is room, but hardly for its log as well, or not.
    fn fill_at_once(&mut self) -> Result<Option<Broken>, Error> {
        let room = self.store.room_for(OTHER_BYTES)? as u32;
        let first = OTHER + self.added;
        self.added += room * self.random.random_range(30..110) / 100;
        let numbers: Vec<u32> = (first..OTHER + self.added).collect();
        write_other(&self.store, self.namespaces, &mut self.random, &numbers).map(|()| None)
    }

    /// The drive is full: the refused change has no effect, and the store continues to work. Deletes what was added.
    fn give_room(&mut self) -> Result<(), Stop> {
        self.expected.under_way = None;
        match self.check_and_delete() {
            Ok(None) => Ok(()),
            Ok(Some(difference)) => {
                Err(Stop::Broken(Broken::new("a refused commit changes nothing", difference)))
            }
            Err(_) if !self.has_power() => Err(Stop::PowerLost),
            Err(error) => Err(Stop::Broken(Broken::error("a full store gives room", error.to_string()))),
        }
    }

    /// A full store can delete, although this writes a node.
    fn delete_one(&mut self) -> Result<(), Error> {
        let mut next = self.expected.contents.clone();
        let Some((key, _)) = next.ordered.pop_first() else { return Ok(()) };
        let mut tx = self.store.begin()?;
        tx.delete(self.namespaces.ordered, &key)?;
        self.expected.under_way = Some(next);
        tx.commit()?;
        self.expected.contents = self.expected.under_way.take().expect("it was put there");
        Ok(())
    }

    /// However many records it deletes at once.
    fn delete_many(&mut self, others: &[&Key]) -> Result<(), Error> {
        let changes = Changes::deletes(&mut self.random, &self.expected.contents);
        let mut tx = self.store.begin()?;
        let next = changes.make(&mut tx, self.namespaces, &self.expected.contents)?;
        for key in others {
            tx.delete(self.namespaces.other, key)?;
        }
        #[cfg(test)]
        {
            let others_before = self.store.list(self.namespaces.other, None, usize::MAX)?.len();
            let all = self.expected.contents.len() + others_before;
            let deleted = self.expected.contents.len() - next.len() + others.len();
            self.large_deletes += u64::from(deleted * 4 > all);
        }
        self.expected.under_way = Some(next);
        tx.commit()?;
        self.expected.contents = self.expected.under_way.take().expect("it was put there");
        Ok(())
    }

    fn check_and_delete(&mut self) -> Result<Option<String>, Error> {
        self.checked += 1;
        let difference = match Contents::read(&self.store.snapshot()?, self.namespaces)? {
            Ok(found) => self.expected.contents.difference(&found),
            Err(what) => Some(what),
        };
        if difference.is_some() {
            return Ok(difference);
        }
        self.delete_one()?;
        let keys = self.store.list(self.namespaces.other, None, usize::MAX)?;
        let added = keys.iter().filter(|key| {
            let number = key.as_bytes().try_into().map(u32::from_be_bytes);
            number.is_ok_and(|number| number >= OTHER)
        });
        let added: Vec<_> = added.collect();
        // with everything else, or by themselves
        let mut rest = &added[..];
        if self.random.random_range(0..2) == 0 {
            let (now, later) = rest.split_at(self.random.random_range(0..rest.len() + 1));
            self.delete_many(now)?;
            rest = later;
        }
        for keys in rest.chunks(500) {
            let mut tx = self.store.begin()?;
            for key in keys {
                tx.delete(self.namespaces.other, key)?;
            }
            tx.commit()?;
        }
        self.added = 0;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::under_test::KeyValue;
    use super::*;
    use crate::program::Program;

    /// The seeds to run.
    fn seeds() -> u64 {
        std::env::var("SEEDS").map_or(10, |seeds| seeds.parse().expect("SEEDS is a number"))
    }

    /// How often a transaction deletes more than a quarter of all keys of a drive that has just refused a put for room, in a
    /// life of that many commits without cuts.
    fn large_deletes(seed: u64, commits: u64) -> u64 {
        let device = KeyValue::prepare(seed).unwrap();
        let store = Store::over(device, tantalum_kv::Options::default()).unwrap();
        let namespaces = Namespaces::open(&store).unwrap();
        let mut expected = Expected::default();
        let mut session = Session::new(store, namespaces, seed, &mut expected);
        while session.commits < commits {
            assert!(session.step().is_ok(), "seed {seed}");
        }
        session.large_deletes
    }

    /// `SEEDS=300` counts over more of them.
    #[test]
    fn full_drives_delete_much_in_one_transaction() {
        let seeds = seeds();
        let large: Vec<u64> = (0..seeds).map(|seed| large_deletes(seed, 200)).collect();
        let some = large.iter().filter(|large| **large > 0).count() as u64;
        println!("{} large deletes, in {some} of {seeds} seeds", large.iter().sum::<u64>());
        assert!(some * 10 >= seeds, "{large:?}");
    }
}
