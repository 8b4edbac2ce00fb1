//! Pages that pass through an area of a data file on their way home: a doublewrite buffer that is part of a data file, as
//! MariaDB's in `ibdata1`.
//!
//! Told by contents and order, wherever the area lies. A unit *passes* a place if the same bytes are written to another place
//! later, and something else then replaces them where they passed. Its home does not: there the bytes stay until the page
//! changes. A place that units passed at least twice, and hardly anything else was written to, belongs to an area. A copy of a
//! file is not one, because nothing replaces what was copied.

use std::collections::HashMap;

use tantalum::UNIT_BYTES;
use tantalum_record::operation::FileNumber;

/// A unit of a file.
type Spot = (FileNumber, u64);

/// Units that must have passed a place.
const LEAST_PASSED: u32 = 2;

/// One unit of a write.
#[derive(Clone, Copy, Debug)]
struct UnitWrite {
    event: u64,
    spot: Spot,
    /// None of zeros.
    hash: Option<u64>,
}

/// The writes of whole units to data files, in order.
#[derive(Debug, Default)]
pub(crate) struct UnitWrites(Vec<UnitWrite>);

impl UnitWrites {
    /// Records a unit that an event wrote to a data file, by its hash. Zeros, which have none, say nothing, but they replace
    /// what was there.
    pub fn note(&mut self, event: u64, spot: Spot, hash: Option<u64>) {
        self.0.push(UnitWrite { event, spot, hash });
    }

    /// For each write of a unit, whether the same bytes are written to another place later.
    fn comes_elsewhere(&self) -> Vec<bool> {
        // of each content, the places of the last two later writes to different places
        let mut later: HashMap<u64, (Spot, Option<Spot>)> = HashMap::new();
        let mut elsewhere = vec![false; self.0.len()];
        for (at, write) in self.0.iter().enumerate().rev() {
            let Some(hash) = write.hash else { continue };
            let Some((first, second)) = later.get_mut(&hash) else {
                later.insert(hash, (write.spot, None));
                continue;
            };
            elsewhere[at] = *first != write.spot || second.is_some();
            if *first != write.spot {
                *second = Some(std::mem::replace(first, write.spot));
            }
        }
        elsewhere
    }

    /// What passed an area.
    pub fn passing(&self) -> Passing {
        let elsewhere = self.comes_elsewhere();
        // of each place: what is written to it next, units that passed it, and others
        let mut places: HashMap<Spot, (Option<u64>, u32, u32)> = HashMap::new();
        for (write, elsewhere) in self.0.iter().zip(&elsewhere).rev() {
            let Some((next, passed, others)) = places.get_mut(&write.spot) else {
                places.insert(write.spot, (write.hash, 0, 0));
                continue;
            };
            match *elsewhere && *next != write.hash {
                true => *passed += 1,
                false if write.hash.is_some() => *others += 1,
                false => {}
            }
            *next = write.hash;
        }
        let is_area = |spot: &Spot| {
            let (_, passed, others) = places[spot];
            passed >= LEAST_PASSED && passed >= 3 * others
        };
        let mut passing = Passing::default();
        let pairs: Vec<(&UnitWrite, bool)> = self.0.iter().zip(elsewhere).collect();
        for writes in pairs.chunk_by(|(a, _), (b, _)| a.event == b.event) {
            let passes: Vec<Option<bool>> = writes
                .iter()
                .map(|(write, elsewhere)| write.hash.map(|_| *elsewhere && is_area(&write.spot)))
                .collect();
            let units: Vec<u64> = (0..writes.len())
                .filter(|at| passes[*at].unwrap_or_else(|| zeros_pass(&passes, *at)))
                .map(|at| writes[at].0.spot.1)
                .collect();
            if !units.is_empty() {
                passing.units.insert(writes[0].0.event, units);
            }
        }
        passing
    }
}

/// Zeros, which pages that are not full hold, pass with what is around them.
fn zeros_pass(passes: &[Option<bool>], at: usize) -> bool {
    let before = passes[..at].iter().rev().find_map(|passes| *passes);
    let after = passes[at + 1..].iter().find_map(|passes| *passes);
    before.or(after).is_some_and(|near| near && after.unwrap_or(near))
}

/// The units of each write that only pass.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// By the event's number: units of its file.
    units: HashMap<u64, Vec<u64>>,
}

impl Passing {
    /// What remains of a write without the units that pass, as ranges of its data. None if all of it remains.
    pub fn remaining(&self, event: u64, offset: u64, bytes: usize) -> Option<Vec<std::ops::Range<usize>>> {
        let mut ranges = Vec::new();
        let mut from = 0;
        for unit in self.units.get(&event)? {
            let at = (unit * UNIT_BYTES as u64 - offset) as usize;
            if from < at {
                ranges.push(from..at);
            }
            from = at + UNIT_BYTES;
        }
        if from < bytes {
            ranges.push(from..bytes);
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::whole_units;

    const UNIT: u64 = UNIT_BYTES as u64;
    const SYSTEM: FileNumber = 1;
    const TABLE: FileNumber = 2;

    /// A page of three units in a version: its second unit changes only with every other version, and the third is empty.
    fn page(number: u8, version: u8) -> Vec<u8> {
        let unit = |part: u8, version: u8| [number + 1, version, part, 7].repeat(UNIT_BYTES / 4);
        [unit(0, version), unit(1, version / 2), vec![0; UNIT_BYTES]].concat()
    }

    struct Recorded {
        writes: UnitWrites,
        events: u64,
    }

    impl Recorded {
        fn write(&mut self, file: FileNumber, offset: u64, data: &[u8]) -> u64 {
            self.events += 1;
            whole_units(offset, data)
                .for_each(|(unit, hash)| self.writes.note(self.events, (file, unit), hash));
            self.events
        }
    }

    /// Three pages of a table, written again and again, in an order that differs; each goes to a slot of an area first, all of
    /// them in one write behind a page of something else.
    #[test]
    fn pages_pass_an_area_and_stay_at_home() {
        let mut recorded = Recorded { writes: UnitWrites::default(), events: 0 };
        let (mut areas, mut homes) = (Vec::new(), Vec::new());
        for version in 0..8 {
            let order = [0, 1, 2].map(|number| (number + version) % 3);
            let other = [200, version, 0, 9].repeat(UNIT_BYTES / 4);
            let slots: Vec<u8> = order.iter().flat_map(|number| page(*number, version)).collect();
            areas.push(recorded.write(SYSTEM, 10 * UNIT, &[other, slots].concat()));
            for number in order {
                let offset = u64::from(number) * 3 * UNIT;
                homes.push(recorded.write(TABLE, offset, &page(number, version)));
            }
        }
        let passing = recorded.writes.passing();
        for event in areas {
            let remaining = passing.remaining(event, 10 * UNIT, 10 * UNIT_BYTES);
            let other = 0..UNIT_BYTES;
            assert_eq!(remaining, Some(vec![other]), "event {event}");
        }
        for event in homes {
            assert_eq!(passing.remaining(event, 0, 3 * UNIT_BYTES), None, "event {event}");
        }
    }

    #[test]
    fn a_copy_of_a_file_does_not_pass() {
        let mut recorded = Recorded { writes: UnitWrites::default(), events: 0 };
        for file in [SYSTEM, TABLE] {
            for number in 0..9 {
                recorded.write(file, u64::from(number) * 3 * UNIT, &page(number, 3));
            }
        }
        // one page of the original changes, once
        recorded.write(SYSTEM, 0, &page(0, 4));
        assert!(recorded.writes.passing().units.is_empty());
    }

    #[test]
    fn what_remains_of_a_write_is_what_does_not_pass() {
        let passing = Passing { units: HashMap::from([(7, vec![3, 5])]) };
        let unit = UNIT_BYTES;
        let ranges = passing.remaining(7, 2 * UNIT + 100, 5 * unit);
        assert_eq!(
            ranges,
            Some(vec![0..unit - 100, 2 * unit - 100..3 * unit - 100, 4 * unit - 100..5 * unit])
        );
        assert_eq!(passing.remaining(8, 0, unit), None);
    }
}
