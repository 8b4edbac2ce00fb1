//! The dump: what a drive with a capacitor saves in its last moment (DuraSSD, section 3.4).
//!
//! The dump goes to blocks kept erased for it, as ordinary pages: recovery folds their spare areas and journal
//! records like any others, so a second cut in recovery changes nothing. Saved are cached units, units whose
//! program did not complete, and the journal records whose units were all on flash when power went.

use std::collections::VecDeque;

use tantalum_nand::{LostProgram, Nanoseconds, Slot, Source, UnitSpare};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::{Ftl, HostUnit, PageImage};
use crate::journal::{Record, Waiting, encode_page, used_bytes};
use crate::spare::{Kind, Mark, Spare};

/// Journal pages whose program may not have completed, kept for the dump.
#[derive(Clone, Debug, Default)]
pub struct InFlightRecords(VecDeque<(Nanoseconds, Vec<Waiting>)>);

impl InFlightRecords {
    /// A page of records was issued and will be on flash at `done_ns`.
    pub fn issued(&mut self, now_ns: Nanoseconds, done_ns: Nanoseconds, records: Vec<Waiting>) {
        while self.0.front().is_some_and(|(done_ns, _)| *done_ns <= now_ns) {
            self.0.pop_front();
        }
        self.0.push_back((done_ns, records));
    }
}

impl Ftl {
    /// Whether a capacitor keeps what is in DRAM.
    pub fn has_capacitor(&self) -> bool {
        self.config.dump_units > 0
    }

    /// Saves what may be lost: `lost` from the medium, `cached` units, and the journal. Returns the units dumped.
    ///
    /// # Panics
    /// If it is more than the capacitor's budget: the controller accepted too much (hazard 12).
    pub fn dump(
        &mut self,
        lost: Vec<LostProgram>,
        cached: impl Iterator<Item = HostUnit>,
        cut_ns: Nanoseconds,
    ) -> Result<u64, FtlError> {
        let mut dump = Dump { page: PageImage::new(), place: 0, units: 0 };
        for (slot, bytes) in lost.into_iter().flat_map(|program| program.units) {
            // an atomic batch is acknowledged once it is on flash: one that is lost may be lost
            let saved = !canary::out(Guard::ProgramsNotDumped)
                && Spare::decode(&bytes)
                    .is_some_and(|spare| spare.kind == Kind::Data && !matches!(spare.mark, Mark::Batch(_)));
            if saved {
                self.dump_unit(&mut dump, slot, bytes, cut_ns)?;
            } else {
                self.nand.release(slot);
            }
        }
        let step = self.next_seq();
        for unit in cached {
            self.dump_unit(&mut dump, unit.slot, unit.spare(step), cut_ns)?;
        }
        self.program_dump_page(&mut dump, cut_ns)?;
        self.dump_journal(&mut dump, cut_ns)?;
        assert!(
            dump.units <= u64::from(self.config.dump_units),
            "{} units dumped; the capacitor holds {}",
            dump.units,
            self.config.dump_units
        );
        self.counters.programmed.dump += dump.units;
        Ok(dump.units)
    }

    fn dump_unit(
        &mut self,
        dump: &mut Dump,
        slot: Slot,
        bytes: UnitSpare,
        cut_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        dump.page.push(Source::Staged(slot), bytes);
        if dump.page.used == self.geometry.units_per_page() as usize {
            self.program_dump_page(dump, cut_ns)?;
        }
        Ok(())
    }

    fn program_dump_page(&mut self, dump: &mut Dump, cut_ns: Nanoseconds) -> Result<(), FtlError> {
        if dump.page.used == 0 {
            return Ok(());
        }
        let units = self.geometry.units_per_page() as usize;
        loop {
            let block = *self.dump_blocks.get(dump.place).ok_or(FtlError::CapacityExceeded)?;
            let index = self.nand.next_page(block);
            if index == self.geometry.pages_per_block {
                dump.place += 1;
                continue;
            }
            let place = self.geometry.page(block, index);
            match self.nand.program(place, &dump.page.sources[..units], &dump.page.spares[..units], cut_ns) {
                Ok(_) => break,
                Err(tantalum_nand::NandError::ProgramFailed { .. }) => dump.place += 1,
                Err(error) => return Err(error.into()),
            }
        }
        dump.units += dump.page.used as u64;
        dump.page = PageImage::new();
        Ok(())
    }

    fn dump_journal(&mut self, dump: &mut Dump, cut_ns: Nanoseconds) -> Result<(), FtlError> {
        let in_flight = std::mem::take(&mut self.in_flight_records.0);
        let records: Vec<Record> = in_flight
            .into_iter()
            .filter(|(done_ns, _)| *done_ns > cut_ns)
            .flat_map(|(_, records)| records)
            .chain(self.journal.buffer.drain(..))
            .filter(|waiting| waiting.ready_ns <= cut_ns)
            .map(|waiting| waiting.record)
            .collect();
        // on a block of its own, as its first page tells recovery what a block holds
        if self.dump_blocks.get(dump.place).is_some_and(|block| self.nand.next_page(*block) > 0) {
            dump.place += 1;
        }
        let step = self.next_seq();
        for chunk in records.chunks(self.records_per_page()) {
            let mut bytes = vec![0; self.geometry.page_bytes as usize];
            encode_page(chunk.iter(), &mut bytes);
            dump.page =
                self.stage_page(&bytes[..used_bytes(chunk.len())], &Spare::new(Kind::Journal, step))?;
            self.program_dump_page(dump, cut_ns)?;
        }
        Ok(())
    }
}

/// A dump under way.
struct Dump {
    page: PageImage,
    place: usize,
    units: u64,
}
