//! What a drive must hold: units, records, a transaction, a hinted log and lists of files, and what each may hold after a cut.

use std::collections::BTreeMap;

use tantalum::{Generation, NamespaceId, TxId};

/// The units that commands work on; all others of the drive hold [`COLD`].
pub const HOT: u32 = 64;

/// Pages of the hinted log.
pub const LOG: std::ops::Range<u32> = 48..64;

/// What cold units hold.
pub const COLD: u32 = 1;

/// A namespace, by its place in [`Model::namespaces`], and a key.
pub type Name = (usize, u8);

/// The versions of a unit or record; 0 is nothing.
#[derive(Clone, Default, Debug)]
pub struct Versions {
    pub now: u32,
    /// Besides `now`, after a cut.
    old: Vec<u32>,
    /// Pages of a log that claim this unit as their home.
    claims: Vec<u32>,
}

impl Versions {
    pub fn write(&mut self, new: u32, durable: bool) {
        self.old.append(&mut self.claims);
        self.old.push(self.now);
        if durable {
            self.old.clear();
        }
        self.now = new;
    }

    fn flush(&mut self) {
        self.old.clear();
    }

    /// Whether a cut may leave this.
    pub fn allows(&self, found: u32) -> bool {
        found == self.now || self.old.contains(&found) || self.claims.contains(&found)
    }
}

/// See the head of this file.
#[derive(Clone, Default)]
pub struct Model {
    pub units: BTreeMap<u32, Versions>,
    pub records: BTreeMap<Name, Versions>,
    pub namespaces: [Option<NamespaceId>; 3],
    pub tx: Option<(TxId, BTreeMap<u32, u32>)>,
    /// The log's number and its next slot.
    pub log: Option<(Generation, u32)>,
    pub lists: BTreeMap<u32, Vec<(u32, u32)>>,
    /// Whether a write is durable when it is acknowledged.
    pub durable_writes: bool,
    /// Whether every command is durable when it is acknowledged.
    pub protected: bool,
}

/// What a command changes.
#[derive(Clone, Default, Debug)]
pub struct Effect {
    pub units: BTreeMap<u32, u32>,
    pub records: BTreeMap<Name, u32>,
    /// Whether it is durable when acknowledged.
    pub durable: bool,
    /// Whether it is all or nothing; otherwise each unit is.
    pub atomic: bool,
    /// The home that a log page claims.
    pub claims: Option<u32>,
    /// Whether everything so far becomes durable.
    pub flushes: bool,
    /// What the lists are afterwards, if the command changes any.
    pub lists: Option<BTreeMap<u32, Vec<(u32, u32)>>>,
}

impl Model {
    pub fn unit(&self, lpn: u32) -> u32 {
        self.units.get(&lpn).map_or(0, |unit| unit.now)
    }

    pub fn record(&self, name: Name) -> u32 {
        self.records.get(&name).map_or(0, |record| record.now)
    }

    /// The command was acknowledged.
    pub fn apply(&mut self, effect: &Effect) {
        for (&lpn, &stamp) in &effect.units {
            self.units.entry(lpn).or_default().write(stamp, effect.durable);
            if let Some(home) = effect.claims {
                self.units.entry(home).or_default().claims.push(stamp);
            }
        }
        for (&name, &stamp) in &effect.records {
            self.records.entry(name).or_default().write(stamp, true);
        }
        if effect.flushes {
            self.units.values_mut().for_each(Versions::flush);
        }
        if let Some(lists) = &effect.lists {
            self.lists = lists.clone();
        }
    }

    /// It may have taken effect in each unit, or not.
    pub fn apply_in_part(&mut self, effect: &Effect, found: impl Fn(u32) -> u32) {
        for &lpn in effect.units.keys() {
            let unit = self.units.entry(lpn).or_default();
            let found = found(lpn);
            if found != unit.now {
                unit.write(found, false);
            }
        }
    }

    /// Power was lost, and this is what was found.
    pub fn settle(&mut self) {
        self.tx = None;
        self.log = None;
    }
}
