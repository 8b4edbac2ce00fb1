//! A table of fixed-size entries, each of whose units has two places.
//!
//! Invariant: a changed unit is written to the place that the last durable checkpoint does not name, however often this
//! is repeated. So the checkpoint's table stays intact until the next one names the other places.
//!
//! Layout of a unit: checksum, its number (4 each), then entries of some words each.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::{Lpn, UNIT_BYTES};

use crate::bytes::{Page, get32, put32, seal, verify, zeros};
use crate::error::{Damage, LfsError, Result};
use crate::segments::Log;

const HEADER_BYTES: usize = 8;

/// Entries of `words` words that a unit holds.
pub(super) const fn entries_per_unit(words: usize) -> usize {
    (UNIT_BYTES - HEADER_BYTES) / (4 * words)
}

/// Such a table. Its units are read when they are first needed.
#[derive(Debug)]
pub(super) struct PairedTable {
    first: Lpn,
    units: u32,
    words: usize,
    loaded: BTreeMap<u32, Box<Page>>,
    changed: BTreeSet<u32>,
    /// Which of a unit's places the last durable checkpoint names.
    durable: Vec<bool>,
    /// Which one the next checkpoint will name.
    next: Vec<bool>,
    /// Units that neither checkpoint wrote are zeros.
    written: Vec<bool>,
}

impl PairedTable {
    /// An empty table in the `2 * units` units that start at `first`.
    pub fn new(first: Lpn, units: u32, words: usize) -> PairedTable {
        let bits = vec![false; units as usize];
        PairedTable {
            first,
            units,
            words,
            loaded: BTreeMap::new(),
            changed: BTreeSet::new(),
            durable: bits.clone(),
            next: bits.clone(),
            written: bits,
        }
    }

    /// The table that a checkpoint names: for each unit its place, in bits.
    pub fn load(&mut self, places: &[u8]) {
        let bytes = (self.units as usize).div_ceil(8);
        assert_eq!(places.len(), bytes, "a table of {} units has other bytes of places", self.units);
        for unit in 0..self.units as usize {
            let place = places[unit / 8] >> (unit % 8) & 1 == 1;
            (self.durable[unit], self.next[unit], self.written[unit]) = (place, place, true);
        }
    }

    /// The places that the next checkpoint is to name, in bits.
    pub fn places(&self) -> Vec<u8> {
        let mut bits = vec![0; (self.units as usize).div_ceil(8)];
        for (unit, _) in self.next.iter().enumerate().filter(|(_, place)| **place) {
            bits[unit / 8] |= 1 << (unit % 8);
        }
        bits
    }

    fn place(&self, unit: u32, second: bool) -> Lpn {
        debug_assert!(unit < self.units, "unit {unit} is beyond a table of {}", self.units);
        Lpn(self.first.0 + 2 * unit + u32::from(second))
    }

    fn unit(&mut self, log: &mut Log, unit: u32) -> Result<&mut Box<Page>> {
        if !self.loaded.contains_key(&unit) {
            let mut page = zeros();
            let lpn = self.place(unit, self.next[unit as usize]);
            if self.written[unit as usize] {
                log.read(lpn, &mut page[..])?;
                // A unit that no checkpoint has written reads as zeros.
                if page.iter().any(|byte| *byte != 0) {
                    let damaged = |damage| LfsError::Damaged { lpn, damage };
                    verify(&page[..]).map_err(damaged)?;
                    if get32(&page[..], 4) != unit {
                        return Err(damaged(Damage::NotA { expected: "a unit of a table" }));
                    }
                }
            }
            self.loaded.insert(unit, page);
        }
        Ok(self.loaded.get_mut(&unit).expect("it is loaded"))
    }

    fn position(&self, entry: u32) -> (u32, usize) {
        let per_unit = entries_per_unit(self.words) as u32;
        (entry / per_unit, HEADER_BYTES + (entry % per_unit) as usize * 4 * self.words)
    }

    /// An entry.
    pub fn get<const WORDS: usize>(&mut self, log: &mut Log, entry: u32) -> Result<[u32; WORDS]> {
        assert_eq!(WORDS, self.words, "words of an entry");
        let (unit, at) = self.position(entry);
        let page = self.unit(log, unit)?;
        Ok(std::array::from_fn(|word| get32(&page[..], at + 4 * word)))
    }

    /// Changes an entry.
    pub fn set<const WORDS: usize>(&mut self, log: &mut Log, entry: u32, words: [u32; WORDS]) -> Result<()> {
        if self.get(log, entry)? != words {
            let (unit, at) = self.position(entry);
            let page = self.unit(log, unit)?;
            for (word, value) in words.into_iter().enumerate() {
                put32(&mut page[..], at + 4 * word, value);
            }
            self.changed.insert(unit);
        }
        Ok(())
    }

    /// Whether the next checkpoint names another place of a unit than the last durable one.
    fn is_moved(&self, unit: u32) -> bool {
        self.next[unit as usize] != self.durable[unit as usize]
    }

    /// Writes changed units to their other places.
    pub fn store(&mut self, log: &mut Log) -> Result<()> {
        for unit in self.changed.clone() {
            let second = !self.durable[unit as usize];
            let lpn = self.place(unit, second);
            let page = self.loaded.get_mut(&unit).expect("a changed unit is loaded");
            put32(&mut page[..], 4, unit);
            seal(&mut page[..]);
            log.write(lpn, &page[..], false)?;
            log.written.tables += 1;
            self.next[unit as usize] = second;
            assert!(self.is_moved(unit), "unit {unit} was written to {lpn}, which the last checkpoint names");
        }
        Ok(())
    }

    /// The checkpoint that names the places written last is durable.
    pub fn checkpointed(&mut self) {
        debug_assert!(
            (0..self.units).all(|unit| self.is_moved(unit) == self.changed.contains(&unit)),
            "a checkpoint names other places of {:?}",
            self.changed
        );
        self.durable.clone_from(&self.next);
        self.changed.clear();
    }
}
