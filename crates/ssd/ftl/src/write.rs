//! Programming pages: the host's writes, and pages of open transactions.

use tantalum_nand::{Nand, NandError, Nanoseconds, PageId, Slot, Source};

use crate::allocate::Allocator;
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::host_unit::HostUnit;
use crate::map::TxPage;
use crate::metadata::Record;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reservation::{Need, Purpose, Reservation};
use crate::space::Target;
use crate::spare::{Kind, Spare};
use crate::types::{Lpn, Seq, TxId};

impl Parts {
    /// Programs a page into a stream, which has an open block for it. None if the program failed: the block is set aside, and room
    /// has to be made for the page again.
    pub(crate) fn program(
        &mut self,
        room: &mut Reservation,
        target: Target,
        page: &PageImage,
        step: Seq,
        earliest_ns: Nanoseconds,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let program = match target {
            Target::Host | Target::Logs(_) => Nand::program,
            Target::Collect | Target::LogCopies(_) => Nand::program_in_background,
        };
        let programmed =
            self.program_with(room, target, (step, page.marked), earliest_ns, |nand, place| {
                program(nand, place, &page.sources[..units], &page.spares[..units], earliest_ns)
            })?;
        if programmed.is_some() {
            self.counters.flash_units.padding += (units - page.used) as u64;
        }
        Ok(programmed)
    }

    /// The common part of all programs into a stream, at a step, with marks or without; `program` programs the given page.
    #[inline]
    pub(crate) fn program_with(
        &mut self,
        room: &mut Reservation,
        target: Target,
        (step, marked): (Seq, bool),
        earliest_ns: Nanoseconds,
        program: impl FnOnce(&mut Nand, PageId) -> Result<Nanoseconds, NandError>,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let (map, nand) = (&mut self.map, &mut self.nand);
        let programmed = self.space.program(target, (step, marked), (map, nand), earliest_ns, program)?;
        match programmed {
            Some(_) => {
                room.take_page();
                self.metadata.data_programmed();
            }
            None => self.counters.program_failures += 1,
        }
        Ok(programmed)
    }

    /// Programs a page of units, and points L2P at them.
    fn write_units(
        &mut self,
        room: &mut Reservation,
        units: &[HostUnit],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let hinted = self.concern_hints(units);
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
        let Some((place, done_ns)) = self.program(room, Target::Host, &page, step, at_ns)? else {
            return Ok(None);
        };
        if page.marked {
            self.metadata.step_programmed(done_ns);
        }
        self.counters.flash_units.host += units.len() as u64;
        for (index, unit) in units.iter().enumerate() {
            self.map.map_plain(unit.lpn, self.geometry.unit(place, index as u32));
        }
        if hinted {
            let ended = self.note_hints(units);
            self.append_step(room, ended, at_ns).map_err(FtlError::unfinished)?;
        }
        Ok(Some(done_ns))
    }

    /// Whether units have hints, or replace pages that have.
    fn concern_hints(&self, units: &[HostUnit]) -> bool {
        units.iter().any(|unit| unit.hint.is_some() || self.map.is_hinted(unit.lpn))
    }

    /// Claims that this many log pages may end.
    pub(crate) fn claims_of(&self, units: usize) -> usize {
        units.min(self.tenants.units.logs.count())
    }

    /// Programs a page of units of open transactions.
    fn write_transaction_units(
        &mut self,
        room: &mut Reservation,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Option<Nanoseconds>, FtlError> {
        let step = self.next_seq();
        let mut page = PageImage::new();
        for &(_, lpn, slot) in units {
            page.push(Source::Staged(slot), Spare::with_owner(Kind::Transaction, step, lpn, step).encode());
        }
        let Some((place, done_ns)) = self.program(room, Target::Host, &page, step, at_ns)? else {
            return Ok(None);
        };
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
        Ok(Some(done_ns))
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
}

impl Allocator {
    /// Programs a page of a step that is under way, in room that was made for all of its pages: nothing is collected. A block whose
    /// program fails is set aside and another one is tried.
    pub(crate) fn program_reserved(
        &mut self,
        room: &mut Reservation,
        target: Target,
        page: &PageImage,
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        loop {
            // program failures use up the room
            self.open_host_block(target, true, at_ns)?;
            if let Some(programmed) = self.program(room, target, page, step, at_ns)? {
                return Ok(programmed);
            }
        }
    }
}

impl Ftl {
    /// Programs up to a page of units and points L2P at them. The buffers still belong to the caller if this fails and
    /// [`FtlError::changed_nothing`].
    pub fn write_page(&mut self, units: &[HostUnit], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        self.map.warm(units.iter().map(|unit| unit.lpn));
        loop {
            let claims = if self.concern_hints(units) { self.claims_of(units.len()) } else { 0 };
            let mut room = self.reserve(&Need::units(claims), at_ns)?;
            if let Some(done_ns) = self.write_units(&mut room, units, at_ns)? {
                return Ok(done_ns);
            }
        }
    }

    /// Programs up to a page of units of open transactions.
    pub fn write_transaction_page(
        &mut self,
        units: &[(TxId, Lpn, Slot)],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            let mut room = self.reserve(&Need::transactions(), at_ns)?;
            if let Some(done_ns) = self.write_transaction_units(&mut room, units, at_ns)? {
                return Ok(done_ns);
            }
        }
    }

    /// A reservation for the record that ends the claim of a page, for [`Ftl::replaced_in_dram`].
    pub fn reserve_end_of_claim(&mut self, at_ns: Nanoseconds) -> Result<Reservation, FtlError> {
        self.reserve(&Need::record(Purpose::ReplacedInDram), at_ns)
    }

    /// A unit that waits in protected DRAM replaces a page that claims its home: the claim ends with it.
    pub fn replaced_in_dram(
        &mut self,
        mut room: Reservation,
        lpn: Lpn,
        version: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let ended = self.superseded(lpn, version);
        self.append_step(&mut room, ended.into_iter().collect(), at_ns).map_err(FtlError::unfinished)
    }
}
