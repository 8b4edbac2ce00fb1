//! Zones: blocks that a host fills in order (NVMe's zoned namespaces). A zone *is* a stripe of flash blocks, so it has no map of
//! units and no collection. This file has what a zone is, its states and its limits; `place` what its pages say in their spare
//! areas; `found` what a checkpoint keeps of zones and how recovery finds the rest. `control/zones.rs` programs, reads and resets them.
//!
//! - Page `p` of a zone is page `p / planes` of its block in column `p % planes`. A column gets its block when its first page is written.
//! - The write pointer is the number of whole pages times their units, plus the *tail*: units of the page that is not full yet. The
//!   tail is in units of the map that no host sees ([`Zones::tail_lpns`]), whose metadata say which page they belong to.
//! - A block that cannot take the next page of its column (a program failed, or a power cut left something there) is replaced: its
//!   pages move to another one.
//! - A reset draws a new *generation*. Pages of an older one are garbage.

mod found;
mod place;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tantalum_nand::{BlockId, Geometry, Nanoseconds, Slot};

pub(crate) use self::found::{KeptZone, ZONE_BYTES, ZonesFold, ZonesFound, decode_zones};
pub(crate) use self::place::ZonePlace;
use crate::key::NamespaceId;
use crate::types::{Lpn, Seq};

/// The number that no key-value namespace of a drive with zones has: a host that counts namespaces gives it to the zones.
pub const ZONED_NAMESPACE: NamespaceId = NamespaceId(1);

/// A zone, from 0 to the drive's last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ZoneId(pub u32);

impl ZoneId {
    /// The number as an index into an array.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for ZoneId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The zones of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZonesConfig {
    /// Number of zones.
    pub count: u32,
    /// Blocks of a zone, each on a plane of its own if there are that many with a free one.
    pub planes: u32,
    /// Zones that may be open at once.
    pub max_open: u32,
    /// Zones that may be open or closed at once: those with data that are not full, and those that the host has opened.
    pub max_active: u32,
}

impl ZonesConfig {
    /// Blocks that the zones take when all are full.
    pub fn blocks(&self) -> u32 {
        self.count * self.planes
    }

    /// Blocks kept for zones: theirs, and one to replace another by.
    pub fn planned_blocks(&self) -> u32 {
        self.blocks() + 1
    }

    /// Pages of a zone.
    pub fn pages(&self, geometry: &Geometry) -> u32 {
        self.planes * geometry.pages_per_block
    }

    /// Units of a zone that can be written: its capacity.
    pub fn capacity_units(&self, geometry: &Geometry) -> u32 {
        self.planes * geometry.units_per_block()
    }

    /// Units from the beginning of a zone to that of the next: the capacity, rounded up to a power of two, as Linux wants it.
    pub fn size_units(&self, geometry: &Geometry) -> u32 {
        self.capacity_units(geometry).next_power_of_two()
    }

    /// Units of the map for the tails of all zones.
    pub fn tail_units(&self, units_per_page: u32) -> u32 {
        self.count * units_per_page
    }
}

/// The state of a zone, in NVMe's words (ZNS Command Set, section 2.1.1.3). None goes offline: a block that fails is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneCondition {
    /// Nothing was written since the last reset.
    Empty,
    /// A write has opened it.
    ImplicitlyOpen,
    /// The host has opened it.
    ExplicitlyOpen,
    /// It is neither empty nor full, and not open.
    Closed,
    /// It takes no more data until it is reset.
    Full,
    /// The drive has too few good blocks left for writes.
    ReadOnly,
}

impl ZoneCondition {
    /// Whether it takes one of the drive's open resources.
    pub fn is_open(self) -> bool {
        matches!(self, ZoneCondition::ImplicitlyOpen | ZoneCondition::ExplicitlyOpen)
    }

    /// Whether it takes one of the drive's active resources.
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneCondition::Closed
    }
}

impl std::fmt::Display for ZoneCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ZoneCondition::Empty => "empty",
            ZoneCondition::ImplicitlyOpen => "implicitly open",
            ZoneCondition::ExplicitlyOpen => "explicitly open",
            ZoneCondition::Closed => "closed",
            ZoneCondition::Full => "full",
            ZoneCondition::ReadOnly => "read only",
        })
    }
}

/// What a host may do to the state of a zone (NVMe's Zone Send Action).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ZoneAction {
    /// Opens it explicitly.
    Open,
    /// Closes it.
    Close,
    /// It takes no more data until it is reset.
    Finish,
    /// Everything in it is gone, and it is empty.
    Reset,
}

impl std::fmt::Display for ZoneAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ZoneAction::Open => "open",
            ZoneAction::Close => "close",
            ZoneAction::Finish => "finish",
            ZoneAction::Reset => "reset",
        })
    }
}

/// A zone as a report shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneState {
    /// The zone.
    pub zone: ZoneId,
    /// Its state.
    pub condition: ZoneCondition,
    /// The write pointer, in units of 4 KiB from the beginning of the zone. Of a full zone, how much of it was written.
    pub written: u32,
}

/// Where a unit of a page that becomes full is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneUnit {
    /// In a buffer.
    Buffer(Slot),
    /// On flash, as this unit of the zone's tail.
    Tail(Lpn),
}

/// Why a zone refuses a command. Nothing was changed. The names are those of NVMe's status codes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ZoneRefusal {
    /// The drive has no such zone.
    #[error("there is no zone {zone}: the drive has {count}")]
    NoSuchZone {
        /// The zone.
        zone: ZoneId,
        /// How many there are.
        count: u32,
    },
    /// Zone Boundary Error (B8h).
    #[error("units {offset}..{end} of zone {zone} go beyond its {limit} units", end = u64::from(*offset) + u64::from(*units))]
    Boundary {
        /// The zone.
        zone: ZoneId,
        /// The first unit.
        offset: u32,
        /// How many.
        units: u32,
        /// The capacity for writes, the size for reads.
        limit: u32,
    },
    /// Zone Is Full (B9h).
    #[error("zone {zone} is full; reset it first")]
    Full {
        /// The zone.
        zone: ZoneId,
    },
    /// Zone Invalid Write (BCh).
    #[error("a write to unit {offset} of zone {zone}, whose write pointer is at {pointer}")]
    InvalidWrite {
        /// The zone.
        zone: ZoneId,
        /// The first unit of the write.
        offset: u32,
        /// Where it had to begin.
        pointer: u32,
    },
    /// Too Many Active Zones (BDh).
    #[error("zone {zone} would be one more than {limit} active zones; finish or reset one of them")]
    TooManyActive {
        /// The zone.
        zone: ZoneId,
        /// The limit.
        limit: u32,
    },
    /// Too Many Open Zones (BEh).
    #[error(
        "zone {zone} would be one more than {limit} open zones, and the host has opened all of these; close one"
    )]
    TooManyOpen {
        /// The zone.
        zone: ZoneId,
        /// The limit.
        limit: u32,
    },
    /// Invalid Zone State Transition (BFh).
    #[error("zone {zone} is {condition}; it cannot {action}")]
    Transition {
        /// The zone.
        zone: ZoneId,
        /// Its state.
        condition: ZoneCondition,
        /// What was to be done.
        action: ZoneAction,
    },
}

/// What zones cost, in units since power came on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZoneCosts {
    /// Units that the host wrote.
    pub written: u64,
    /// Units programmed for that: whole pages, tails with the padding of pages that have nothing else, and copies to other blocks.
    pub programmed: u64,
}

/// A zone.
#[derive(Clone, Debug)]
struct Zone {
    condition: ZoneCondition,
    /// The step of its last reset; 0 if there was none.
    generation: Seq,
    /// Whole pages.
    pages: u32,
    /// Units of the next page.
    tail: u32,
    /// Its blocks.
    columns: Vec<Option<BlockId>>,
    /// Nothing of it is programmed earlier: a cut would leave too many active zones.
    begins_ns: Nanoseconds,
    /// When all of its pages so far are on flash, and its last reset is durable.
    done_ns: Nanoseconds,
    /// When all of its tails so far are on flash.
    tail_done_ns: Nanoseconds,
    /// When it was last written or opened, in turns.
    turn: u64,
}

/// All zones of a drive.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    config: ZonesConfig,
    geometry: Geometry,
    /// The first unit of the map for tails.
    first_tail: Lpn,
    zones: Vec<Zone>,
    /// Blocks in use.
    blocks: u32,
    open: u32,
    active: u32,
    /// Those that writes have opened, by the turn when they were last written.
    implicitly_open: BTreeMap<u64, ZoneId>,
    /// When zones that are no longer active are so durably, if a cut may still make them active again.
    ending: Vec<Nanoseconds>,
    turns: u64,
    /// Units programmed in whole pages since power came on.
    programmed_units: u64,
    costs: ZoneCosts,
}

impl Zones {
    /// Empty zones, in a map of this many units, the last of which are for tails.
    pub fn new(config: ZonesConfig, geometry: &Geometry, logical_units: u32) -> Zones {
        let zone = Zone {
            condition: ZoneCondition::Empty,
            generation: Seq(0),
            pages: 0,
            tail: 0,
            columns: vec![None; config.planes as usize],
            begins_ns: 0,
            done_ns: 0,
            tail_done_ns: 0,
            turn: 0,
        };
        Zones {
            config,
            geometry: *geometry,
            first_tail: Lpn(logical_units - config.tail_units(geometry.units_per_page())),
            zones: vec![zone; config.count as usize],
            blocks: 0,
            open: 0,
            active: 0,
            implicitly_open: BTreeMap::new(),
            ending: Vec::new(),
            turns: 0,
            programmed_units: 0,
            costs: ZoneCosts::default(),
        }
    }

    fn zone(&self, zone: ZoneId) -> &Zone {
        &self.zones[zone.index()]
    }

    /// Their number and limits.
    pub fn config(&self) -> &ZonesConfig {
        &self.config
    }

    /// Units of a zone that can be written.
    pub fn capacity_units(&self) -> u32 {
        self.config.capacity_units(&self.geometry)
    }

    /// All zones.
    pub fn ids(&self) -> impl Iterator<Item = ZoneId> + use<> {
        (0..self.config.count).map(ZoneId)
    }

    /// A zone as it is now.
    pub fn state(&self, zone: ZoneId) -> ZoneState {
        ZoneState { zone, condition: self.zone(zone).condition, written: self.written(zone) }
    }

    /// The write pointer.
    pub fn written(&self, zone: ZoneId) -> u32 {
        let Zone { pages, tail, .. } = self.zone(zone);
        pages * self.geometry.units_per_page() + tail
    }

    /// Blocks that zones may still take.
    pub fn reserved_blocks(&self) -> u32 {
        self.config.planned_blocks().saturating_sub(self.blocks)
    }

    /// Units programmed in whole pages since power came on.
    pub fn programmed_units(&self) -> u64 {
        self.programmed_units
    }

    /// What they cost.
    pub fn costs(&self) -> ZoneCosts {
        self.costs
    }

    /// Units were programmed besides those of whole pages.
    pub fn count_programmed(&mut self, units: u64) {
        self.costs.programmed += units;
    }

    // -- states -------------------------------------------------------------------------------------------------

    /// Refuses a zone that there is not.
    pub fn check(&self, zone: ZoneId) -> Result<(), ZoneRefusal> {
        let count = self.config.count;
        if zone.0 < count { Ok(()) } else { Err(ZoneRefusal::NoSuchZone { zone, count }) }
    }

    /// Refuses a write that does not begin at the write pointer, or does not fit. `None` writes wherever that is.
    pub fn check_write(&self, zone: ZoneId, offset: Option<u32>, units: u32) -> Result<(), ZoneRefusal> {
        self.check(zone)?;
        let (pointer, limit) = (self.written(zone), self.capacity_units());
        if self.zone(zone).condition == ZoneCondition::Full {
            return Err(ZoneRefusal::Full { zone });
        }
        let offset = offset.unwrap_or(pointer);
        if u64::from(offset) + u64::from(units) > limit.into() {
            return Err(ZoneRefusal::Boundary { zone, offset, units, limit });
        }
        if offset != pointer {
            return Err(ZoneRefusal::InvalidWrite { zone, offset, pointer });
        }
        self.check_room(zone, ZoneCondition::ImplicitlyOpen)
    }

    /// Refuses a read across the end of a zone.
    pub fn check_read(&self, zone: ZoneId, offset: u32, units: u32) -> Result<(), ZoneRefusal> {
        self.check(zone)?;
        let limit = self.config.size_units(&self.geometry);
        if u64::from(offset) + u64::from(units) > limit.into() {
            return Err(ZoneRefusal::Boundary { zone, offset, units, limit });
        }
        Ok(())
    }

    /// The state in which an action leaves a zone; that it has, if there is nothing to do.
    pub fn after(&self, zone: ZoneId, action: ZoneAction) -> Result<ZoneCondition, ZoneRefusal> {
        use ZoneAction::{Close, Finish, Open, Reset};
        use ZoneCondition::{Closed, Empty, ExplicitlyOpen, Full, ImplicitlyOpen, ReadOnly};
        self.check(zone)?;
        let condition = self.zone(zone).condition;
        let after = match (condition, action) {
            (Empty | Closed | ImplicitlyOpen | ExplicitlyOpen, Open) => ExplicitlyOpen,
            // what was opened and not written has nothing that would keep it active
            (ImplicitlyOpen | ExplicitlyOpen | Closed, Close) if self.written(zone) == 0 => Empty,
            (ImplicitlyOpen | ExplicitlyOpen | Closed, Close) => Closed,
            (Empty | Closed | ImplicitlyOpen | ExplicitlyOpen | Full, Finish) => Full,
            (Empty | Closed | ImplicitlyOpen | ExplicitlyOpen | Full, Reset) => Empty,
            (Empty | Full, Close) | (Full, Open) | (ReadOnly, _) => {
                return Err(ZoneRefusal::Transition { zone, condition, action });
            }
        };
        self.check_room(zone, after).map(|()| after)
    }

    /// Refuses a state for which the drive has no resources. An implicitly open zone gives way.
    fn check_room(&self, zone: ZoneId, after: ZoneCondition) -> Result<(), ZoneRefusal> {
        let before = self.zone(zone).condition;
        let ZonesConfig { max_open, max_active, .. } = self.config;
        if after.is_active() && !before.is_active() && self.active >= max_active {
            return Err(ZoneRefusal::TooManyActive { zone, limit: max_active });
        }
        if after.is_open() && !before.is_open() && self.open >= max_open && self.to_close().is_none() {
            return Err(ZoneRefusal::TooManyOpen { zone, limit: max_open });
        }
        Ok(())
    }

    /// Refuses to open all closed zones if they and those that the host has opened are too many.
    pub fn check_open_all(&self) -> Result<(), ZoneRefusal> {
        let limit = self.config.max_open;
        let with = |condition| self.ids().filter(move |zone| self.zone(*zone).condition == condition);
        let free = limit as usize - with(ZoneCondition::ExplicitlyOpen).count();
        match with(ZoneCondition::Closed).nth(free) {
            Some(zone) => Err(ZoneRefusal::TooManyOpen { zone, limit }),
            None => Ok(()),
        }
    }

    /// The implicitly open zone that was written least recently.
    fn to_close(&self) -> Option<ZoneId> {
        self.implicitly_open.first_key_value().map(|(_, zone)| *zone)
    }

    /// Gives a zone a state for which there are resources; the drive closes another one to open it.
    pub fn set(&mut self, zone: ZoneId, after: ZoneCondition) {
        let before = self.zone(zone).condition;
        if after.is_open() && !before.is_open() && self.open >= self.config.max_open {
            let other = self.to_close().expect("a zone opens only if there are resources");
            self.change(other, ZoneCondition::Closed);
        }
        self.take_turn(zone);
        self.change(zone, after);
    }

    /// A zone is the one that was written or opened last.
    fn take_turn(&mut self, zone: ZoneId) {
        let last = self.zone(zone).turn;
        if last == self.turns && last > 0 {
            return;
        }
        self.turns += 1;
        self.zones[zone.index()].turn = self.turns;
        if self.implicitly_open.remove(&last).is_some() {
            self.implicitly_open.insert(self.turns, zone);
        }
    }

    /// A zone is about to be written: it is open.
    pub fn open_for_write(&mut self, zone: ZoneId) {
        let before = self.zone(zone).condition;
        self.set(zone, if before.is_open() { before } else { ZoneCondition::ImplicitlyOpen });
    }

    /// Zones that were active are not any more, durably from that time on.
    pub fn ended(&mut self, zones: usize, done_ns: Nanoseconds) {
        self.ending.extend(std::iter::repeat_n(done_ns, zones));
    }

    /// When a zone that is about to be written may begin: with what a cut can make active again, no more zones are active than may be.
    pub fn begins_ns(&mut self, zone: ZoneId, now_ns: Nanoseconds, at_ns: Nanoseconds) -> Nanoseconds {
        self.ending.retain(|done_ns| *done_ns > now_ns);
        if self.ending.is_empty() || self.written(zone) > 0 {
            return at_ns.max(self.zone(zone).begins_ns);
        }
        let active = self.active + u32::from(!self.zone(zone).condition.is_active());
        let free = self.config.max_active.saturating_sub(active) as usize;
        self.ending.sort_unstable();
        let missing = self.ending.len().saturating_sub(free);
        let begins_ns = missing.checked_sub(1).map_or(0, |last| self.ending[last]);
        self.zones[zone.index()].begins_ns = begins_ns;
        at_ns.max(begins_ns)
    }

    fn change(&mut self, zone: ZoneId, after: ZoneCondition) {
        let changed = &mut self.zones[zone.index()];
        let (before, turn) = (std::mem::replace(&mut changed.condition, after), changed.turn);
        if before == ZoneCondition::ImplicitlyOpen {
            self.implicitly_open.remove(&turn);
        }
        if after == ZoneCondition::ImplicitlyOpen {
            self.implicitly_open.insert(turn, zone);
        }
        self.open = self.open + u32::from(after.is_open()) - u32::from(before.is_open());
        self.active = self.active + u32::from(after.is_active()) - u32::from(before.is_active());
    }

    // -- pages --------------------------------------------------------------------------------------------------

    /// The next page of a zone, and the units of it that have been written.
    pub fn next_page(&self, zone: ZoneId) -> (u32, u32) {
        (self.zone(zone).pages, self.zone(zone).tail)
    }

    /// What the spare areas of a page say.
    pub fn place(&self, zone: ZoneId, page: u32) -> ZonePlace {
        ZonePlace { zone, generation: self.zone(zone).generation, page, is_lost: false }
    }

    /// The column of a page, and the page of its block.
    pub fn column_of(&self, page: u32) -> (usize, u32) {
        ((page % self.config.planes) as usize, page / self.config.planes)
    }

    /// The block of a column.
    pub fn block(&self, zone: ZoneId, column: usize) -> Option<BlockId> {
        self.zone(zone).columns[column]
    }

    /// The blocks of a zone.
    pub fn blocks_of(&self, zone: ZoneId) -> impl Iterator<Item = BlockId> + '_ {
        self.zone(zone).columns.iter().flatten().copied()
    }

    /// Pages of the zone in a column.
    pub fn pages_in(&self, zone: ZoneId, column: usize) -> u32 {
        pages_in_column(self.zone(zone).pages, column as u32, self.config.planes)
    }

    /// A column has this block from now on. Returns the one that it had.
    pub fn give(&mut self, zone: ZoneId, column: usize, block: BlockId) -> Option<BlockId> {
        let before = self.zones[zone.index()].columns[column].replace(block);
        self.blocks += u32::from(before.is_none());
        before
    }

    /// When all of a zone is durable that has been sent to flash.
    pub fn done_ns(&self, zone: ZoneId) -> Nanoseconds {
        self.zone(zone).done_ns.max(self.zone(zone).tail_done_ns)
    }

    /// When a tail may be programmed: it takes the place of one that a cut may still bring back until then.
    pub fn tail_ready_ns(&self, zone: ZoneId) -> Nanoseconds {
        self.zone(zone).done_ns.max(self.zone(zone).begins_ns)
    }

    /// When a page may be programmed.
    pub fn page_ready_ns(&self, zone: ZoneId) -> Nanoseconds {
        self.zone(zone).begins_ns
    }

    /// Units of a tail were programmed, and are on flash at that time.
    pub fn tail_programmed(&mut self, zone: ZoneId, done_ns: Nanoseconds) {
        let programmed = &mut self.zones[zone.index()];
        programmed.tail_done_ns = programmed.tail_done_ns.max(done_ns);
    }

    /// The reset of a zone is durable at that time.
    pub fn reset_recorded(&mut self, zone: ZoneId, done_ns: Nanoseconds) {
        let reset = &mut self.zones[zone.index()];
        reset.done_ns = reset.done_ns.max(done_ns);
    }

    /// The next page was programmed, and is on flash at that time. The zone is full with its last one.
    pub fn page_programmed(&mut self, zone: ZoneId, done_ns: Nanoseconds) {
        let (pages, units) = (self.config.pages(&self.geometry), self.geometry.units_per_page());
        let written = &mut self.zones[zone.index()];
        self.costs.written += u64::from(units - written.tail);
        self.costs.programmed += u64::from(units);
        written.pages += 1;
        written.tail = 0;
        written.done_ns = written.done_ns.max(done_ns);
        self.programmed_units += u64::from(units);
        if self.zone(zone).pages == pages {
            self.change(zone, ZoneCondition::Full);
            self.ended(1, self.done_ns(zone));
        }
    }

    /// Units were added to the page that is not full yet.
    pub fn tail_written(&mut self, zone: ZoneId, units: u32) {
        self.costs.written += u64::from(units);
        let written = &mut self.zones[zone.index()];
        written.tail += units;
        debug_assert!(written.tail < self.geometry.units_per_page(), "a tail of {} units", written.tail);
    }

    /// Nothing is in a zone any more, as of a step. Returns its blocks.
    pub fn reset(&mut self, zone: ZoneId, step: Seq) -> Vec<BlockId> {
        self.change(zone, ZoneCondition::Empty);
        let reset = &mut self.zones[zone.index()];
        (reset.generation, reset.pages, reset.tail) = (step, 0, 0);
        let blocks: Vec<BlockId> = reset.columns.iter_mut().filter_map(Option::take).collect();
        self.blocks -= blocks.len() as u32;
        blocks
    }

    // -- tails --------------------------------------------------------------------------------------------------

    /// The units of the map that have the tail of a zone.
    pub fn tail_lpns(&self, zone: ZoneId) -> std::ops::Range<u32> {
        let units = self.geometry.units_per_page();
        let first = self.first_tail.0 + zone.0 * units;
        first..first + units
    }

    /// The zone whose tail a unit of the map has.
    pub fn zone_of_tail(&self, lpn: Lpn) -> Option<ZoneId> {
        let index = lpn.0.checked_sub(self.first_tail.0)?;
        Some(ZoneId(index / self.geometry.units_per_page()))
    }

    // -- checkpoints --------------------------------------------------------------------------------------------

    /// What a checkpoint keeps of each zone.
    pub fn kept(&self) -> Vec<KeptZone> {
        let kept = |zone: &Zone| KeptZone {
            generation: zone.generation,
            pages: zone.pages,
            tail: zone.tail,
            finished: zone.condition == ZoneCondition::Full,
            columns: zone.columns.clone(),
        };
        self.zones.iter().map(kept).collect()
    }

    /// Recovery found this of a zone. What was open is closed.
    pub fn found(&mut self, zone: ZoneId, kept: KeptZone) {
        let KeptZone { generation, pages, tail, finished, columns } = kept;
        self.blocks += columns.iter().flatten().count() as u32;
        let found = &mut self.zones[zone.index()];
        (found.generation, found.pages, found.tail, found.columns) = (generation, pages, tail, columns);
        let is_full = finished || pages == self.config.pages(&self.geometry);
        self.change(
            zone,
            match (is_full, pages + tail) {
                (true, _) => ZoneCondition::Full,
                (false, 0) => ZoneCondition::Empty,
                (false, _) => ZoneCondition::Closed,
            },
        );
    }
}

/// Of the first pages of a zone, those in a column.
fn pages_in_column(pages: u32, column: u32, planes: u32) -> u32 {
    pages / planes + u32::from(pages % planes > column)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::GEOMETRY;

    const CONFIG: ZonesConfig = ZonesConfig { count: 5, planes: 2, max_open: 2, max_active: 3 };

    fn zones() -> Zones {
        Zones::new(CONFIG, &GEOMETRY, 128)
    }

    fn act(zones: &mut Zones, zone: u32, action: ZoneAction) -> Result<ZoneCondition, ZoneRefusal> {
        let after = zones.after(ZoneId(zone), action)?;
        zones.set(ZoneId(zone), after);
        Ok(after)
    }

    fn write(zones: &mut Zones, zone: u32) -> Result<(), ZoneRefusal> {
        zones.check_write(ZoneId(zone), None, 1)?;
        zones.open_for_write(ZoneId(zone));
        zones.tail_written(ZoneId(zone), 1);
        Ok(())
    }

    /// ZNS Command Set, section 2.1.1.4.
    #[test]
    fn a_write_closes_the_zone_that_was_written_least_recently_but_none_that_the_host_opened() {
        use ZoneCondition::{Closed, Empty, ExplicitlyOpen, ImplicitlyOpen};
        let mut zones = zones();
        let conditions = |zones: &Zones| [0, 1, 2, 3].map(|zone| zones.state(ZoneId(zone)).condition);
        write(&mut zones, 0).unwrap();
        write(&mut zones, 1).unwrap();
        write(&mut zones, 2).unwrap();
        assert_eq!(conditions(&zones), [Closed, ImplicitlyOpen, ImplicitlyOpen, Empty]);
        let (zone, limit) = (ZoneId(3), 3);
        assert_eq!(write(&mut zones, 3), Err(ZoneRefusal::TooManyActive { zone, limit }));
        act(&mut zones, 1, ZoneAction::Open).unwrap();
        act(&mut zones, 0, ZoneAction::Open).unwrap();
        assert_eq!(conditions(&zones), [ExplicitlyOpen, ExplicitlyOpen, Closed, Empty]);
        let (zone, limit) = (ZoneId(2), 2);
        zones.tail_written(zone, 0);
        assert_eq!(
            zones.check_write(zone, None, 1),
            Err(ZoneRefusal::TooManyOpen { zone, limit }),
            "the host has opened both"
        );
        act(&mut zones, 0, ZoneAction::Finish).unwrap();
        zones.check_write(zone, None, 1).unwrap();
        zones.check_write(ZoneId(3), None, 1).unwrap();
    }

    #[test]
    fn what_was_opened_and_not_written_is_empty_once_it_is_closed() {
        let mut zones = zones();
        act(&mut zones, 0, ZoneAction::Open).unwrap();
        assert_eq!(act(&mut zones, 0, ZoneAction::Close), Ok(ZoneCondition::Empty));
        let refused = act(&mut zones, 0, ZoneAction::Close);
        assert_eq!(refused.unwrap_err().to_string(), "zone 0 is empty; it cannot close");
        assert_eq!((zones.open, zones.active), (0, 0));
    }

    #[test]
    fn writes_begin_at_the_write_pointer_and_end_within_the_capacity() {
        let (mut zones, zone) = (zones(), ZoneId(1));
        write(&mut zones, 1).unwrap();
        let limit = 2 * GEOMETRY.units_per_block();
        assert_eq!(
            (zones.capacity_units(), CONFIG.size_units(&GEOMETRY)),
            (limit, limit.next_power_of_two())
        );
        let check = |offset, units| zones.check_write(zone, Some(offset), units);
        assert_eq!(check(1, limit - 1), Ok(()));
        assert_eq!(check(1, limit), Err(ZoneRefusal::Boundary { zone, offset: 1, units: limit, limit }));
        assert_eq!(check(0, 1), Err(ZoneRefusal::InvalidWrite { zone, offset: 0, pointer: 1 }));
        assert_eq!(check(2, 1), Err(ZoneRefusal::InvalidWrite { zone, offset: 2, pointer: 1 }));
        act(&mut zones, 1, ZoneAction::Finish).unwrap();
        assert_eq!(zones.check_write(zone, None, 1), Err(ZoneRefusal::Full { zone }));
        assert_eq!(zones.check(ZoneId(5)), Err(ZoneRefusal::NoSuchZone { zone: ZoneId(5), count: 5 }));
    }

    #[test]
    fn each_column_has_every_other_page() {
        let zones = zones();
        assert_eq!([0, 1, 2, 3].map(|page| zones.column_of(page)), [(0, 0), (1, 0), (0, 1), (1, 1)]);
        assert_eq!(
            [0, 1, 2, 3].map(|pages| [0, 1].map(|column| pages_in_column(pages, column, 2))),
            [[0, 0], [1, 0], [1, 1], [2, 1]]
        );
    }
}
