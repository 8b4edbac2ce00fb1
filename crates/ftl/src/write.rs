//! Programming pages: the host's writes, and pages of open transactions.

use tantalum_nand::{Nand, NandError, Nanoseconds, PageId, Slot, Source};

use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::host_unit::HostUnit;
use crate::map::TxPage;
use crate::metadata::Record;
use crate::page_image::PageImage;
use crate::space::Target;
use crate::spare::{Kind, Spare};
use crate::types::{Lpn, Seq, TxId};

impl Ftl {
    /// Programs a page into a stream. A block whose program fails is set aside and another one is tried.
    pub(crate) fn program(
        &mut self,
        target: Target,
        page: &PageImage,
        step: Seq,
        earliest_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let program = match target {
            Target::Host | Target::Logs(_) => Nand::program,
            Target::Collect | Target::LogCopies(_) => Nand::program_in_background,
        };
        let programmed = self.program_with(target, step, page.marked, earliest_ns, |nand, place| {
            program(nand, place, &page.sources[..units], &page.spares[..units], earliest_ns)
        })?;
        self.counters.flash_units.padding += (units - page.used) as u64;
        Ok(programmed)
    }

    /// The common part of all programs into a stream; `program` programs the given page. A block that failed is not opened
    /// again, so that this ends even if all programs fail.
    #[inline]
    pub(crate) fn program_with(
        &mut self,
        target: Target,
        step: Seq,
        marked: bool,
        earliest_ns: Nanoseconds,
        program: impl Fn(&mut Nand, PageId) -> Result<Nanoseconds, NandError>,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        loop {
            let target = match target {
                Target::Collect | Target::LogCopies(_) => self.ensure_copy_block(target, earliest_ns)?,
                Target::Host | Target::Logs(_) => {
                    self.ensure_host_block(target, earliest_ns)?;
                    target
                }
            };
            let stream = self.space.streams.of_mut(target);
            let Some((plane, place)) = stream.next_page(&self.geometry, &self.nand, earliest_ns) else {
                return Err(FtlError::CapacityExceeded);
            };
            let block = self.geometry.block_of(place);
            match program(&mut self.nand, place) {
                Ok(done_ns) => {
                    self.space.blocks.programmed(block, step, marked);
                    if self.nand.next_page(block) == self.geometry.pages_per_block {
                        stream.close(plane);
                        self.close_block(block);
                    }
                    self.metadata.checkpoint.pages_since += 1;
                    return Ok((place, done_ns));
                }
                Err(NandError::ProgramFailed { .. }) => {
                    stream.close(plane);
                    self.close_block(block);
                    self.program_failed(block);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Programs up to a page of units and points L2P at them. The buffers still belong to the caller if this fails and
    /// [`FtlError::changed_nothing`].
    pub fn write_page(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        self.map.warm(units.iter().map(|unit| unit.lpn));
        let hinted = units.iter().any(|unit| unit.hint.is_some() || self.map.is_hinted(unit.lpn));
        if hinted {
            self.ensure_claim_room(units.len(), at_ns)?;
        }
        let step = self.next_seq();
        let mut page = PageImage::new();
        for unit in units {
            debug_assert!(
                unit.version < step,
                "lpn {} at version {} is programmed with step {step}",
                unit.lpn,
                unit.version
            );
            page.marked |= unit.hint.is_some();
            page.push(Source::Staged(unit.slot), unit.spare(step));
        }
        let (place, done_ns) = self.program(Target::Host, &page, step, at_ns)?;
        if page.marked {
            self.metadata.step_programmed(done_ns);
        }
        self.counters.flash_units.host += units.len() as u64;
        for (index, unit) in units.iter().enumerate() {
            self.map.map_plain(unit.lpn, self.geometry.unit(place, index as u32));
        }
        if hinted {
            let ended = self.note_hints(units);
            self.append_step(ended, at_ns).map_err(FtlError::unfinished)?;
        }
        Ok(done_ns)
    }

    /// Ensures that the journal has room for the records that end the claims of this many log pages.
    pub fn ensure_claim_room(&mut self, units: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        match units.min(self.tenants.units.logs.count()) {
            0 => Ok(()),
            claims => self.ensure_journal_room(claims, at_ns),
        }
    }

    /// Ends the hints that the units supersede, and begins those that they carry. Returns the records of the former.
    fn note_hints(&mut self, units: &[HostUnit]) -> Vec<Record> {
        let mut ended = Vec::new();
        for unit in units {
            if self.map.is_hinted(unit.lpn) {
                ended.extend(self.superseded(unit.lpn, unit.version));
            }
            if let Some(hint) = unit.hint {
                self.tenants.units.logs.programmed(&mut self.map, unit.lpn, hint, unit.version);
            }
        }
        ended
    }

    /// Whether a unit holds a log page that claims its home. What replaces it durably must end that claim durably.
    pub fn is_claiming_page(&self, lpn: Lpn) -> bool {
        self.map.is_hinted(lpn)
            && self.tenants.units.logs.hint(lpn).is_some_and(|living| living.hint.home.is_some())
    }

    /// A unit that waits in protected DRAM replaces a page that claims its home: the claim ends with it.
    pub fn replaced_in_dram(&mut self, lpn: Lpn, version: Seq, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let ended = self.superseded(lpn, version);
        self.append_step(ended.into_iter().collect(), at_ns).map_err(FtlError::unfinished)
    }

    /// Whether the flash holds this version of a logical page at its mapped place, or on `page`.
    pub fn is_on_flash(&self, lpn: Lpn, version: Seq, page: Option<PageId>) -> bool {
        let names = |ppn| {
            let spare = self.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
            spare.is_some_and(|spare| spare.version_of(lpn) == Some(version))
        };
        let on_page =
            (0..self.geometry.units_per_page()).filter_map(|unit| Some(self.geometry.unit(page?, unit)));
        self.map.lookup(lpn).into_iter().chain(on_page).any(names)
    }

    /// Programs up to a page of units of open transactions.
    pub fn write_transaction_page(
        &mut self,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let step = self.next_seq();
        let mut page = PageImage::new();
        for &(_, lpn, slot) in units {
            page.push(Source::Staged(slot), Spare::with_owner(Kind::Transaction, step, lpn, step).encode());
        }
        let (place, done_ns) = self.program(Target::Host, &page, step, at_ns)?;
        self.counters.flash_units.host += units.len() as u64;
        for (index, &(tx, lpn, _)) in units.iter().enumerate() {
            let ppn = self.geometry.unit(place, index as u32);
            let over = self.whereabouts(lpn);
            self.map.claim(ppn, crate::map::Claim::Transaction(tx, lpn));
            if let Some(old) =
                self.tenants.units.transactions.put(tx, lpn, TxPage { ppn, version: step, over })
            {
                self.map.unclaim(old);
            }
        }
        Ok(done_ns)
    }
}
