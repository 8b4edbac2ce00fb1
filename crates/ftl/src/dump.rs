//! The dump: what a drive with a capacitor saves in its last moment (DuraSSD, section 3.4).
//!
//! The dump goes to blocks kept erased for it, as ordinary pages: recovery folds their spare areas and journal
//! records like any others, so a second cut in recovery changes nothing. Saved are cached units, units whose
//! program did not complete, and the journal records whose units were all on flash when power went. Of atomic batches
//! only `put`s that were acknowledged are saved: with their marks, so that they count together with what is on flash.

use std::collections::{BTreeSet, VecDeque};

use tantalum_nand::{
    BlockId, LostProgram, Nand, NandError, Nanoseconds, Slot, Source, UNIT_BYTES, UnitSpare,
};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::{Ftl, HostUnit};
use crate::journal::{Record, Waiting, encode_page, records_per_page, used_bytes};
use crate::key_value::is_copied;
use crate::page_image::PageImage;
use crate::spare::{Kind, Mark, Spare};
use crate::types::Seq;

/// What may not be on flash yet, kept for the dump, with the time at which it will be.
#[derive(Clone, Debug)]
pub struct UnderWay<T>(VecDeque<(Nanoseconds, T)>);

/// Journal pages: their records.
pub type InFlightRecords = UnderWay<Vec<Waiting>>;

/// `put`s of several units that are acknowledged, for there is room for them in protected DRAM: their batches. The dump saves
/// them, and of other batches none.
pub type InFlightPuts = UnderWay<Seq>;

impl<T> Default for UnderWay<T> {
    fn default() -> UnderWay<T> {
        UnderWay(VecDeque::new())
    }
}

impl<T> UnderWay<T> {
    /// All of it was issued and will be on flash at `done_ns`. Power may go at `now_ns`, and not earlier.
    pub fn issued(&mut self, now_ns: Nanoseconds, done_ns: Nanoseconds, what: T) {
        while self.0.front().is_some_and(|(done_ns, _)| *done_ns <= now_ns) {
            self.0.pop_front();
        }
        self.0.push_back((done_ns, what));
    }
}

impl Ftl {
    /// Whether a capacitor keeps what is in DRAM.
    pub fn has_plp(&self) -> bool {
        self.config.dump_units > 0
    }

    /// Saves what may be lost: `lost` from the medium, `cached` units, and the journal. Returns the units of data
    /// among it.
    ///
    /// # Panics
    /// If it is more than the capacitor's budget: the controller accepted too much (hazard 12).
    pub fn dump(
        &mut self,
        lost: Vec<LostProgram>,
        cached: impl Iterator<Item = HostUnit>,
        cut_ns: Nanoseconds,
    ) -> Result<u64, FtlError> {
        let mut dump = DumpPages::new(self.dump_blocks.clone());
        let acknowledged = self.in_flight_puts.0.iter().map(|(_, batch)| *batch).collect();
        for (slot, bytes) in lost.into_iter().flat_map(|program| program.units) {
            let saved = !canary::out(Guard::ProgramsNotDumped)
                && Spare::decode(&bytes).is_some_and(|spare| is_saved(&spare, &acknowledged));
            if saved {
                dump.push(&mut self.nand, slot, bytes, cut_ns)?;
            } else {
                self.nand.release(slot);
            }
        }
        let step = self.next_seq();
        for unit in cached {
            dump.push(&mut self.nand, unit.slot, unit.spare(step), cut_ns)?;
        }
        for target in self.waiting_targets() {
            let records = self.stage_waiting(target, step)?;
            for (source, spare) in records.sources.iter().zip(records.spares) {
                if let Source::Staged(slot) = *source {
                    dump.push(&mut self.nand, slot, spare, cut_ns)?;
                }
            }
        }
        dump.end_page(&mut self.nand, cut_ns)?;
        let saved = dump.units;
        self.dump_journal(&mut dump, cut_ns)?;
        assert!(
            dump.units <= u64::from(self.config.dump_units),
            "{} units dumped; the capacitor holds {}",
            dump.units,
            self.config.dump_units
        );
        self.counters.flash_units.dump += dump.units;
        self.restart_protected()?;
        Ok(saved)
    }

    fn dump_journal(&mut self, dump: &mut DumpPages, cut_ns: Nanoseconds) -> Result<(), FtlError> {
        let in_flight = std::mem::take(&mut self.in_flight_records.0);
        let records: Vec<Record> = in_flight
            .into_iter()
            .filter(|(done_ns, _)| *done_ns > cut_ns)
            .flat_map(|(_, records)| records)
            .chain(self.journal.buffer.drain(..))
            .filter(|waiting| waiting.ready_ns <= cut_ns)
            .map(|waiting| waiting.record)
            .collect();
        let step = self.next_seq();
        dump.push_records(&mut self.nand, &records, step, cut_ns)
    }
}

/// Whether a unit on its way to flash was acknowledged as durable, and is nowhere else: what garbage collection was
/// moving is still where it was. Of atomic batches those of `put`s are acknowledged before they are on flash, if there
/// is room; another one that is lost may be lost.
fn is_saved(spare: &Spare, acknowledged: &BTreeSet<Seq>) -> bool {
    let holds = spare.kind == Kind::Data || spare.kind == Kind::KeyValue && !is_copied(spare);
    match spare.mark {
        Mark::Batch(batch) => holds && acknowledged.contains(&batch.id),
        Mark::Plain | Mark::Hint(..) => holds,
    }
}

/// The pages of a dump, on the blocks kept for it.
pub(crate) struct DumpPages {
    blocks: Vec<BlockId>,
    place: usize,
    page: PageImage,
    units: u64,
}

impl DumpPages {
    /// A dump onto these blocks, which are erased or hold the start of it.
    pub fn new(blocks: Vec<BlockId>) -> DumpPages {
        DumpPages { blocks, place: 0, page: PageImage::new(), units: 0 }
    }

    /// Adds a unit.
    pub fn push(
        &mut self,
        nand: &mut Nand,
        slot: Slot,
        bytes: UnitSpare,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.page.push(Source::Staged(slot), bytes);
        if self.page.used == nand.geometry().units_per_page() as usize {
            self.end_page(nand, at_ns)?;
        }
        Ok(())
    }

    /// Programs the page that is being filled.
    pub fn end_page(&mut self, nand: &mut Nand, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.page.used == 0 {
            return Ok(());
        }
        let geometry = *nand.geometry();
        let units = geometry.units_per_page() as usize;
        loop {
            let block = *self.blocks.get(self.place).ok_or(FtlError::CapacityExceeded)?;
            let index = nand.next_page(block);
            if index == geometry.pages_per_block {
                self.place += 1;
                continue;
            }
            let place = geometry.page(block, index);
            match nand.program(place, &self.page.sources[..units], &self.page.spares[..units], at_ns) {
                Ok(_) => break,
                // the rest of the block is still good enough: there is no other
                Err(NandError::ProgramFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.units += self.page.used as u64;
        self.page = PageImage::new();
        Ok(())
    }

    /// Programs journal pages.
    pub fn push_records(
        &mut self,
        nand: &mut Nand,
        records: &[Record],
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        // on a block of its own, as its first page tells recovery what a block holds
        while self.blocks.get(self.place).is_some_and(|block| nand.next_page(*block) > 0) {
            self.place += 1;
        }
        let units_per_page = nand.geometry().units_per_page();
        let spare = Spare::new(Kind::Journal, step);
        for chunk in records.chunks(records_per_page(units_per_page)) {
            let mut bytes = vec![0; units_per_page as usize * UNIT_BYTES];
            encode_page(chunk.iter(), &mut bytes);
            self.page = PageImage::stage(nand, &bytes[..used_bytes(chunk.len())], &spare)?;
            self.end_page(nand, at_ns)?;
        }
        Ok(())
    }
}
