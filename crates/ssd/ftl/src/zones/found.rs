//! What a checkpoint keeps of zones, and the fold that finds the rest: pages programmed since, resets and finishes in the journal.
//!
//! - The newest generation that anything names is the zone's. Only a reset draws one.
//! - Of a checkpoint's zone the pages are those that it says, in the blocks that it says. Other pages count only if their step is above
//!   the checkpoint's: recovery ends with a checkpoint, so what a cut left behind a write pointer never counts again.
//! - A block may have been replaced: of those for one column the one with the most pages counts, and of equals the one begun last. A
//!   replaced block is erased only when its copies are on flash, so the other one then has as many.
//! - The write pointer is at the first page that is missing. What lies behind it was not promised, because every promise covers all of
//!   its zone before it.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Geometry, Ppn};

use super::{ZoneId, ZonePlace, Zones, ZonesConfig, pages_in_column};
use crate::error::{Damage, FtlError};
use crate::metadata::{CheckpointBytes, Record, take_word};
use crate::reader::FirstPage;
use crate::spare::{Kind, Spare};
use crate::types::Seq;

/// A zone in a checkpoint.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct KeptZone {
    /// The step of its last reset.
    pub generation: Seq,
    /// Whole pages.
    pub pages: u32,
    /// Units of the next page, on flash or not.
    pub tail: u32,
    /// Whether it takes no more.
    pub finished: bool,
    /// Its blocks.
    pub columns: Vec<Option<BlockId>>,
}

/// Bytes of a zone in a checkpoint, and of each of its columns.
pub(crate) const ZONE_BYTES: (u64, u64) = (4 * 8, 8);

impl KeptZone {
    /// Appends it.
    pub fn encode(&self, out: &mut CheckpointBytes) {
        let fields = [self.generation.0, self.pages.into(), self.tail.into(), self.finished.into()];
        let columns = self.columns.iter().map(|block| block.map_or(u64::MAX, |block| block.0.into()));
        fields.into_iter().chain(columns).for_each(|word| out.extend(word.to_le_bytes()));
    }

    /// Takes one with this many columns off the front of the bytes.
    pub fn decode(bytes: &mut &[u8], columns: u32) -> Option<KeptZone> {
        let mut word = || take_word(bytes);
        let narrow = |word: u64| u32::try_from(word).ok();
        let (generation, pages, tail, finished) = (Seq(word()?), word()?, word()?, word()? != 0);
        let column = |word: u64| match word {
            u64::MAX => Some(None),
            block => narrow(block).map(|block| Some(BlockId(block))),
        };
        let columns = (0..columns).map(|_| column(word()?)).collect::<Option<_>>()?;
        Some(KeptZone { generation, pages: narrow(pages)?, tail: narrow(tail)?, finished, columns })
    }
}

/// Pages of a zone's generation that were programmed into a block since the checkpoint.
#[derive(Default)]
struct Written {
    /// The step of the first one.
    begun: Seq,
    /// By their place in the block.
    pages: BTreeSet<u32>,
}

/// The blocks of a column.
type Candidates = BTreeMap<BlockId, Written>;

/// What was found since the checkpoint.
pub(crate) struct ZonesFold {
    config: ZonesConfig,
    geometry: Geometry,
    kept: Vec<KeptZone>,
    /// Blocks by zone, generation and column.
    written: BTreeMap<(ZoneId, Seq, u32), Candidates>,
    resets: BTreeMap<ZoneId, Seq>,
    finished: BTreeSet<(ZoneId, Seq)>,
}

/// The zones, and the blocks that they have.
pub(crate) struct ZonesFound {
    zones: Vec<KeptZone>,
}

impl ZonesFold {
    /// A fold over what a checkpoint kept.
    pub fn over(config: ZonesConfig, geometry: &Geometry, kept: Vec<KeptZone>) -> ZonesFold {
        ZonesFold {
            config,
            geometry: *geometry,
            kept,
            written: BTreeMap::new(),
            resets: BTreeMap::new(),
            finished: BTreeSet::new(),
        }
    }

    /// The blocks in which the zones of the checkpoint may go on.
    pub fn open_blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let pages = self.config.pages(&self.geometry);
        let open = self.kept.iter().filter(move |zone| !zone.finished && zone.pages < pages);
        open.flat_map(|zone| zone.columns.iter().flatten().copied())
    }

    /// A unit of a zone that was programmed since the checkpoint.
    pub fn unit(&mut self, ppn: Ppn, spare: &Spare) -> Result<(), FtlError> {
        let page = self.geometry.page_of(ppn);
        let block = self.geometry.block_of(page);
        let index = page.0 - self.geometry.page(block, 0).0;
        let place = ZonePlace::of(&spare.metadata);
        let (column, row) = (place.page % self.config.planes, place.page / self.config.planes);
        let pages = self.config.pages(&self.geometry);
        if !place.is_possible(self.config.count, pages, spare.step) || row != index {
            return Err(Damage::Spare { ppn }.into());
        }
        let blocks = self.written.entry((place.zone, place.generation, column)).or_default();
        let written =
            blocks.entry(block).or_insert_with(|| Written { begun: spare.step, ..Written::default() });
        written.begun = written.begun.min(spare.step);
        written.pages.insert(index);
        Ok(())
    }

    /// The journal since the checkpoint.
    pub fn journal(&mut self, records: &[Record]) {
        for record in records {
            match *record {
                Record::ZoneReset { zone, step } => {
                    let newest = self.resets.entry(zone).or_default();
                    *newest = step.max(*newest);
                }
                Record::ZoneFinished { zone, generation, .. } => {
                    self.finished.insert((zone, generation));
                }
                _ => {}
            }
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.resets.is_empty() && self.finished.is_empty()
    }

    /// Decides where each zone ends. `first` are the first pages of all blocks, and `step` is that of the checkpoint.
    pub fn finish(self, first: &[FirstPage], step: Seq) -> Result<ZonesFound, FtlError> {
        let zones = (0..self.config.count).map(|zone| self.found(ZoneId(zone), first, step));
        Ok(ZonesFound { zones: zones.collect::<Result<_, _>>()? })
    }

    fn found(&self, zone: ZoneId, first: &[FirstPage], step: Seq) -> Result<KeptZone, FtlError> {
        let kept = &self.kept[zone.index()];
        let generation = guard!(ResetForgotten(kept.generation), self.generation(zone));
        let is_kept = generation == kept.generation;
        let base = if is_kept { kept.clone() } else { KeptZone { generation, ..KeptZone::default() } };
        let planes = self.config.planes;
        let blocks: Vec<Option<(u32, BlockId)>> =
            (0..planes).map(|column| self.block(zone, column, &base, (first, step))).collect();
        let rows: Vec<u32> = blocks.iter().map(|block| block.map_or(0, |(rows, _)| rows)).collect();
        let all = self.config.pages(&self.geometry);
        let is_there = |page: &u32| rows[(page % planes) as usize] > page / planes;
        let pages = guard!(HoleInZone(&rows), (0..all).find(|page| !is_there(page)).unwrap_or(all));
        if pages < base.pages {
            return Err(Damage::Zone { zone, page: pages }.into());
        }
        let is_used = |column: u32| pages_in_column(pages, column, planes) > 0;
        let columns = (0..planes).zip(blocks).map(|(column, block)| block.filter(|_| is_used(column)));
        Ok(KeptZone {
            generation,
            pages,
            tail: if is_kept && pages == base.pages { base.tail } else { 0 },
            finished: is_kept && base.finished || self.finished.contains(&(zone, generation)),
            columns: columns.map(|block| block.map(|(_, block)| block)).collect(),
        })
    }

    /// The newest generation of a zone.
    fn generation(&self, zone: ZoneId) -> Seq {
        let written = self.written.range((zone, Seq(0), 0)..(ZoneId(zone.0 + 1), Seq(0), 0));
        let written = written.map(|((_, generation, _), _)| *generation);
        let reset = self.resets.get(&zone).copied();
        written.chain(reset).fold(self.kept[zone.index()].generation, Seq::max)
    }

    /// The block of a column, and how many of its pages there are.
    fn block(
        &self,
        zone: ZoneId,
        column: u32,
        base: &KeptZone,
        (first, step): (&[FirstPage], Seq),
    ) -> Option<(u32, BlockId)> {
        let written = self.written.get(&(zone, base.generation, column));
        let kept = base.columns.get(column as usize).copied().flatten();
        let kept = kept.filter(|block| is_since_before(&first[block.index()], step));
        let kept_rows = pages_in_column(base.pages, column, self.config.planes);
        let since = |block: &BlockId| written.and_then(|blocks| blocks.get(block));
        let kept_one = kept.map(|block| (length(kept_rows, since(&block)), Seq(0), block));
        let others = written.into_iter().flatten().filter(|(block, _)| Some(**block) != kept);
        let others = others.map(|(block, since)| (length(0, Some(since)), since.begun, *block));
        kept_one.into_iter().chain(others).max().map(|(rows, _, block)| (rows, block))
    }
}

/// Whether a block may still hold what it held when the checkpoint was taken: it was not begun anew since. A torn first page is one of
/// an erase, or was lost later.
fn is_since_before(first: &FirstPage, step: Seq) -> bool {
    match first {
        FirstPage::Programmed(kind, since) => *kind == Kind::Zone && *since <= step,
        FirstPage::Torn => true,
        FirstPage::Erased => false,
    }
}

/// How many pages follow each other from the beginning of a block, the first of which are known.
fn length(known: u32, since: Option<&Written>) -> u32 {
    let has = |page: &u32| since.is_some_and(|since| since.pages.contains(page));
    (known..).find(|page| !has(page)).unwrap_or(known)
}

impl ZonesFound {
    /// The blocks that zones have.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.zones.iter().flat_map(|zone| zone.columns.iter().flatten().copied())
    }

    /// Makes it the running drive's state. `tail_of` returns how many units of a page are in its zone's tail, of which a checkpoint
    /// has told at least these.
    pub fn restore(
        self,
        zones: &mut Zones,
        mut tail_of: impl FnMut(ZonePlace, u32) -> Result<u32, FtlError>,
    ) -> Result<(), FtlError> {
        for (zone, mut found) in (0..).map(ZoneId).zip(self.zones) {
            let place = ZonePlace { zone, generation: found.generation, page: found.pages, is_lost: false };
            found.tail = if found.pages < zones.config.pages(&zones.geometry) {
                tail_of(place, found.tail)?
            } else {
                0
            };
            zones.found(zone, found);
        }
        Ok(())
    }
}

/// Reads what a checkpoint keeps of these zones.
pub(crate) fn decode_zones(bytes: &mut &[u8], config: Option<ZonesConfig>) -> Option<Vec<KeptZone>> {
    let Some(config) = config else { return Some(Vec::new()) };
    (0..config.count).map(|_| KeptZone::decode(bytes, config.planes)).collect()
}
