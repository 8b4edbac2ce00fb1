//! Earlier versions of changed records, kept as long as a snapshot may read them, within a budget of bytes.
//!
//! Puts are numbered. A snapshot sees those up to the one after which it was opened. What a put replaces is kept with
//! the put's number if an open snapshot sees it. Beyond the budget the oldest snapshots become unreadable; nothing else
//! is affected.

use std::collections::BTreeMap;

use tantalum::{Key, NamespaceId};
use tantalum_canaries::guard;

use crate::record::{Name, Value};

/// Memory of a version besides its value.
const OVERHEAD_BYTES: usize = 128;

/// The number of the last put that a snapshot sees.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct AsOf(u64);

/// What a record was before it changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    Missing,
    Value(Value),
    /// Its flash could not be read.
    Lost,
}

impl From<Option<Value>> for Earlier {
    fn from(value: Option<Value>) -> Earlier {
        value.map_or(Earlier::Missing, Earlier::Value)
    }
}

struct Old {
    /// The put that replaced it.
    until: u64,
    record: Earlier,
}

/// A record's place in the order in which a namespace lists its keys.
type Listed = (NamespaceId, (u64, Key));

pub(crate) struct Versions {
    budget_bytes: usize,
    puts: u64,
    /// Open snapshots, and the number of each.
    open: BTreeMap<AsOf, usize>,
    /// The newest snapshot that is lost; so are all older ones.
    lost: Option<AsOf>,
    /// The versions kept of each record, the oldest first.
    old: BTreeMap<Listed, Vec<Old>>,
    bytes: usize,
}

fn listed((namespace, key): Name) -> Listed {
    (namespace, key.listing_order())
}

fn cost(record: &Earlier) -> usize {
    let value_bytes = if let Earlier::Value(value) = record { value.len() } else { 0 };
    value_bytes + OVERHEAD_BYTES
}

impl Versions {
    pub fn new(budget_bytes: usize) -> Versions {
        Versions { budget_bytes, puts: 0, open: BTreeMap::new(), lost: None, old: BTreeMap::new(), bytes: 0 }
    }

    /// Opens a snapshot of the current state.
    pub fn open(&mut self) -> AsOf {
        let now = AsOf(self.puts);
        assert!(!self.is_lost(now), "{now:?} is lost before it is opened: {:?}", self.lost);
        *self.open.entry(now).or_default() += 1;
        now
    }

    /// Closes a snapshot.
    pub fn close(&mut self, at: AsOf) {
        let Some(count) = self.open.get_mut(&at) else {
            assert!(self.is_lost(at), "{at:?} is closed, and is neither open nor lost: {:?}", self.lost);
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.open.remove(&at);
            self.forget();
        }
    }

    /// Whether a snapshot can no longer be read.
    pub fn is_lost(&self, at: AsOf) -> bool {
        debug_assert!(at.0 <= self.puts, "{at:?} is later than the last put, {}", self.puts);
        self.lost.is_some_and(|lost| at <= lost)
    }

    /// Whether a snapshot is open, and can be read.
    pub fn is_open(&self, at: AsOf) -> bool {
        self.open.contains_key(&at)
    }

    /// Whether an open snapshot sees what a put replaced.
    pub fn sees(&self, until: u64) -> bool {
        assert!(until <= self.puts, "put {until} is later than the last one, {}", self.puts);
        self.open.first_key_value().is_some_and(|(AsOf(oldest), _)| *oldest < until)
    }

    /// The number of the last put.
    pub fn puts(&self) -> u64 {
        self.puts
    }

    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a record's current version must be kept when it changes.
    pub fn wants(&self, name: Name) -> bool {
        let Some((newest, _)) = self.open.last_key_value() else { return false };
        let last = self.old.get(&listed(name)).and_then(|old| old.last());
        guard!(VersionsForgotten, last.is_none_or(|last| last.until <= newest.0))
    }

    /// A put was done. It replaced these records, which must be kept.
    pub fn replaced(&mut self, records: Vec<(Name, Earlier)>) {
        self.puts += 1;
        assert!(
            records.is_empty() || !self.open.is_empty(),
            "{} records are kept at put {}, and no snapshot is open",
            records.len(),
            self.puts
        );
        for (name, record) in records {
            self.bytes += cost(&record);
            let old = self.old.entry(listed(name)).or_default();
            let last = old.last().map_or(0, |last| last.until);
            assert!(last < self.puts, "{name:?} is kept twice for put {last}");
            old.push(Old { until: self.puts, record });
        }
        while self.bytes > self.budget_bytes
            && let Some((at, _)) = self.open.pop_first()
        {
            self.lost = Some(at);
            self.forget();
        }
        let Versions { bytes, budget_bytes, .. } = *self;
        assert!(bytes <= budget_bytes, "{bytes} bytes of {budget_bytes} are kept for {:?}", self.open);
    }

    /// Drops versions that no open snapshot sees.
    fn forget(&mut self) {
        let Some((&AsOf(oldest), _)) = self.open.first_key_value() else {
            self.old.clear();
            self.bytes = 0;
            return;
        };
        let bytes = &mut self.bytes;
        self.old.retain(|_, versions| {
            versions.retain(|old| {
                let is_seen = old.until > oldest;
                *bytes -= if is_seen { 0 } else { cost(&old.record) };
                is_seen
            });
            !versions.is_empty()
        });
        assert!(!self.is_lost(AsOf(oldest)), "{:?} is lost, and {oldest} is open", self.lost);
        debug_assert_eq!(self.bytes, self.counted(), "bytes of the versions that are kept");
    }

    /// What the versions take, counted.
    fn counted(&self) -> usize {
        self.old.values().flatten().map(|old| cost(&old.record)).sum()
    }

    /// A record's version as a snapshot sees it, if it has changed since.
    pub fn of(&self, name: Name, at: AsOf) -> Option<&Earlier> {
        if self.old.is_empty() {
            return None;
        }
        seen(self.old.get(&listed(name))?, at)
    }

    /// The changed records of a namespace, starting at a key, in the order in which it lists them, and whether they
    /// existed for a snapshot.
    pub fn listed_from(
        &self,
        namespace: NamespaceId,
        from: Option<&Key>,
        at: AsOf,
    ) -> impl Iterator<Item = (Key, bool)> {
        let from = from.map(Key::listing_order);
        let all = self.old.range((namespace, from.unwrap_or((0, Key::LEAST)))..);
        all.take_while(move |((of, _), _)| *of == namespace)
            .filter_map(move |((_, (_, key)), old)| Some((*key, *seen(old, at)? != Earlier::Missing)))
    }
}

fn seen(versions: &[Old], at: AsOf) -> Option<&Earlier> {
    debug_assert!(versions.is_sorted_by(|a, b| a.until < b.until), "versions of a record are out of order");
    versions.iter().find(|old| old.until > at.0).map(|old| &old.record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: u8) -> Name {
        (NamespaceId(1), Key::new(&[key]).unwrap())
    }

    fn value(number: u8) -> Earlier {
        Earlier::Value(vec![number; 100].into())
    }

    /// Changes a record that was `old`, as a store does.
    fn change(versions: &mut Versions, key: u8, old: Earlier) {
        let wanted = versions.wants(name(key));
        versions.replaced(if wanted { vec![(name(key), old)] } else { Vec::new() });
    }

    #[test]
    fn each_snapshot_sees_what_was_there_when_it_was_opened() {
        let mut versions = Versions::new(1 << 20);
        change(&mut versions, 1, Earlier::Missing);
        assert_eq!(versions.bytes(), 0, "nobody asks");
        let first = versions.open();
        change(&mut versions, 1, value(1));
        change(&mut versions, 1, value(2));
        let second = versions.open();
        change(&mut versions, 2, Earlier::Missing);
        assert_eq!(versions.of(name(1), first), Some(&value(1)));
        assert_eq!(versions.of(name(1), second), None, "it is as it was");
        change(&mut versions, 1, value(3));
        assert_eq!(versions.of(name(1), second), Some(&value(3)));
        assert_eq!(versions.of(name(2), second), Some(&Earlier::Missing));
        let mut listed: Vec<_> = versions.listed_from(NamespaceId(1), None, second).collect();
        listed.sort();
        assert_eq!(listed, [(name(1).1, true), (name(2).1, false)]);
        versions.close(first);
        assert_eq!(versions.of(name(1), second), Some(&value(3)));
        versions.close(second);
        assert_eq!(versions.bytes(), 0);
    }

    #[test]
    fn beyond_the_budget_the_oldest_snapshot_is_lost() {
        let mut versions = Versions::new(5 * (100 + OVERHEAD_BYTES));
        let first = versions.open();
        (0..3).for_each(|key| change(&mut versions, key, value(0)));
        let second = versions.open();
        (0..3).for_each(|key| change(&mut versions, key, value(1)));
        assert!(versions.is_lost(first) && !versions.is_lost(second));
        assert_eq!(versions.of(name(0), second), Some(&value(1)));
        assert_eq!(versions.bytes(), 3 * (100 + OVERHEAD_BYTES));
        (3..9).for_each(|key| change(&mut versions, key, value(2)));
        assert!(versions.is_lost(second) && versions.bytes() == 0);
        let third = versions.open();
        assert!(!versions.is_lost(third));
        versions.close(first);
        versions.close(second);
        change(&mut versions, 1, value(9));
        assert_eq!(versions.of(name(1), third), Some(&value(9)));
    }
}
