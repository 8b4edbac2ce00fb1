//! Commands that change the map and write no data: share, remap, trim, commit.
//!
//! Each is one step: its records are on one journal page, or are tied together as a group.

use std::collections::BTreeSet;

use tantalum_canaries::guard;
use tantalum_nand::{Nand, Ppn};

use super::{Units, whereabouts};
use crate::counters::Counters;
use crate::map::{Claim, IN_SPARE, Map, Owner, TxPage};
use crate::metadata::{MetadataLog, Record};
use crate::reservation::Reservation;
use crate::types::{Lpn, Numbers, Seq, ShareRange, TxId};

/// Why a share or remap is refused. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShareRefusal {
    /// An empty range.
    #[error("a range is empty: dst {dst}, src {src}")]
    Empty {
        /// The range's destination.
        dst: Lpn,
        /// The range's source.
        src: Lpn,
    },
    /// A unit occurs twice as a destination.
    #[error("unit {0} occurs twice as a destination")]
    Twice(Lpn),
    /// A unit is a destination and a source.
    #[error("unit {0} is both a destination and a source")]
    Overlap(Lpn),
    /// A source is not mapped.
    #[error("unit {0} is not mapped")]
    Unmapped(Lpn),
    /// More units than fit in one step.
    #[error("{units} units requested; one step takes at most {limit}")]
    TooMany {
        /// Units asked for.
        units: u64,
        /// The limit.
        limit: u64,
    },
    /// The table of shared units is full.
    #[error("{owners} owners of shared units requested; the drive keeps at most {limit}")]
    TableFull {
        /// Owners after the share.
        owners: u64,
        /// The limit.
        limit: u64,
    },
}

/// Checks a share of at most `most` units, after which there may be `owners_limit` owners beyond the first, before anything is
/// changed.
pub(crate) fn check_share(
    map: &Map,
    ranges: &[ShareRange],
    most: u32,
    owners_limit: u32,
) -> Result<(), ShareRefusal> {
    let units: u64 = ranges.iter().map(|range| u64::from(range.units)).sum();
    let limit = u64::from(most);
    if units > limit {
        return Err(ShareRefusal::TooMany { units, limit });
    }
    let owners = map.extra_owners() as u64 + units;
    let limit = u64::from(owners_limit);
    if owners > limit {
        return Err(ShareRefusal::TableFull { owners, limit });
    }
    let mut destinations = BTreeSet::new();
    for range in ranges {
        if range.units == 0 {
            return Err(ShareRefusal::Empty { dst: range.dst, src: range.src });
        }
        for (dst, _) in pairs(range) {
            if !destinations.insert(dst) {
                return Err(ShareRefusal::Twice(dst));
            }
        }
    }
    for (_, src) in ranges.iter().flat_map(pairs) {
        if destinations.contains(&src) {
            return Err(ShareRefusal::Overlap(src));
        }
        if map.lookup(src).is_none() {
            return Err(ShareRefusal::Unmapped(src));
        }
    }
    Ok(())
}

/// A step that changes the map: what it changes, what it draws on, and the records that make it durable.
pub(crate) struct MapStep<'a> {
    pub units: &'a mut Units,
    pub map: &'a mut Map,
    pub log: &'a mut MetadataLog,
    pub numbers: &'a mut Numbers,
    pub counters: &'a mut Counters,
    pub nand: &'a Nand,
    pub room: &'a mut Reservation,
    pub records: Vec<Record>,
}

impl MapStep<'_> {
    /// Maps every dst to what its src maps to.
    pub fn share(&mut self, ranges: &[ShareRange]) {
        for (dst, src) in ranges.iter().flat_map(pairs) {
            self.counters.units_shared += 1;
            match self.hint_proves_share(dst, src) {
                Some(version) => {
                    self.counters.units_brought_home += 1;
                    self.map_to(dst, version, src);
                }
                None => self.map_as_step(dst, src),
            }
        }
    }

    /// Moves the mappings of `range.src..` to `range.dst..`.
    pub fn remap(&mut self, range: &ShareRange) {
        pairs(range).for_each(|(dst, src)| self.map_as_step(dst, src));
        self.counters.units_remapped += u64::from(range.units);
        self.unmap(range.src, range.units);
    }

    /// Unmaps units.
    pub fn unmap(&mut self, first: Lpn, units: u32) {
        let version = self.numbers.draw();
        self.units.last_unmap = version;
        for lpn in (first.0..first.0 + units).map(Lpn) {
            if self.map.is_hinted(lpn) {
                self.supersede(lpn, version);
            }
            self.map.unmap(lpn);
        }
        self.records.push(Record::Trim { lpn: first, units, version, step: version });
    }

    /// Maps a transaction's pages. Returns the logical pages.
    pub fn commit(&mut self, tx: TxId) -> Vec<Lpn> {
        let pages = self.units.transactions.take(tx).expect("the transaction is open");
        self.counters.transactions_committed += 1;
        let step = self.numbers.draw();
        self.records.reserve(pages.len());
        for (&lpn, page) in &pages {
            let version = self.map_committed(lpn, page);
            self.records.push(Record::Map { lpn, version, step, ppn: page.ppn });
        }
        pages.into_keys().collect()
    }

    /// Whether a share of `src` with `dst` needs no record: the hint of a whole run is the record.
    fn hint_proves_share(&mut self, dst: Lpn, src: Lpn) -> Option<Seq> {
        if !self.map.is_hinted(src) {
            return None;
        }
        let logs = &mut self.units.logs;
        let living = *logs.hint(src)?;
        // a newer page that claims the same home would win after a cut, although it was written before the share
        let is_newest = guard!(OlderPageComesHome, logs.newest_claim(dst) == Some(living.version));
        if living.hint.home != Some(dst) || !is_newest {
            return None;
        }
        logs.extend(living.hint.generation);
        logs.is_whole(&living.hint).then_some(living.version)
    }

    /// Maps `dst` to what `src` has, at a new version; no records if `dst` already has it.
    fn map_as_step(&mut self, dst: Lpn, src: Lpn) {
        let ppn = self.map.lookup(src).expect("the source is mapped");
        if self.map.lookup(dst) == Some(ppn) {
            // it keeps its version, unless a log page claims it: that page would win after a cut
            if !guard!(SharedInPlaceStaysClaimed, self.units.logs.is_claimed(dst)) {
                return;
            }
            self.map.unmap(dst);
        }
        let version = self.numbers.draw();
        self.map_to(dst, version, src);
        self.records.push(Record::Map { lpn: dst, version, step: version, ppn });
    }

    /// Maps `dst` to what `src` has.
    fn map_to(&mut self, dst: Lpn, version: Seq, src: Lpn) {
        let ppn = self.map.lookup(src).expect("the source is mapped");
        self.supersede(dst, version);
        self.map_shared(dst, version, ppn);
    }

    fn map_shared(&mut self, lpn: Lpn, version: Seq, ppn: Ppn) {
        self.room.take_owners(1);
        self.map.map_shared(lpn, version, ppn);
        self.log.gave_owner(ppn);
    }

    /// `lpn` takes `version`. Adds the record that ends a claim, if this ends one.
    fn supersede(&mut self, lpn: Lpn, version: Seq) {
        let ended = self.units.superseded(self.map, self.numbers, lpn, version);
        self.records.extend(ended);
    }

    /// Maps a unit of a transaction. Returns its version.
    fn map_committed(&mut self, lpn: Lpn, page: &TxPage) -> Seq {
        // the page may be older than one that claims this unit as its home, and the commit is newer than both
        let newest = self.units.logs.newest_claim(lpn);
        let is_claimed = guard!(CommitBelowClaim, newest.is_some_and(|claim| claim > page.version));
        let told = !is_claimed && self.units.is_newest(self.map, self.nand, lpn, page);
        let version = if told { page.version } else { self.numbers.draw() };
        self.supersede(lpn, version);
        self.map.unclaim(page.ppn);
        if told {
            self.map.map_plain(lpn, page.ppn);
            self.log.gave_owner(page.ppn);
        } else {
            self.map_shared(lpn, version, page.ppn);
        }
        version
    }
}

impl Units {
    /// Whether a page of a transaction is known to be newer than anything its logical page has or had. A page that has been
    /// copied since counts as unknown: then the commit takes a new version.
    pub fn is_newest(&self, map: &Map, nand: &Nand, lpn: Lpn, page: &TxPage) -> bool {
        let Some(ppn) = map.lookup(lpn) else {
            return self.last_unmap < page.version;
        };
        let claimed = match map.owner(ppn) {
            Owner::Claim(Claim::Owners(owners)) => {
                owners.iter().find(|owner| owner.0 == lpn).expect("the place is the page's").1
            }
            _ => IN_SPARE,
        };
        match claimed {
            IN_SPARE => page.over == whereabouts(map, nand, lpn),
            version => version < page.version,
        }
    }
}

/// The units of a range: (dst, src).
fn pairs(range: &ShareRange) -> impl Iterator<Item = (Lpn, Lpn)> + use<> {
    let (dst, src) = (range.dst.0, range.src.0);
    (0..range.units).map(move |unit| (Lpn(dst + unit), Lpn(src + unit)))
}
