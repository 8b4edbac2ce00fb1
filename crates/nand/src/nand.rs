//! The medium's state, and its promises. What the medium promises; it gives exactly this and nothing more:
//!
//! - **M1** A page is programmed at most once between erases, and pages of a block in order. Breaking this is a bug in
//!   the FTL: the medium panics. (`operations`)
//! - **M2** Data and spare area of one page are programmed together. If power is lost during a program, the page reads as
//!   uncorrectable, or as complete, or as erased; never as a mix. (`resolve`, `image`)
//! - **M3** If power is lost during an erase, the block may read as old, as erased, or as uncorrectable, page by page.
//!   (`resolve`)
//! - **M4** What completed before the cut stays. What was still queued did not happen. What was on its way on different
//!   planes may have completed in any combination. (`power`, `resolve`)
//! - **M5** DRAM is lost ([`Nand::lose_dram`]), unless the profile has PLP; then up to `dump_bytes` of it are saved, no
//!   more: through the slots of [`crate::LostProgram`], or in the protected DRAM.
//! - **M6** Erase and program may fail and report it; reads may be uncorrectable by injection ([`Nand::set_faults`]).
//!   (`faults`) The FTL retires the block and loses nothing that it could still read.
//!
//! Each operation changes the state when it is issued, and returns when it would be done. What may still be undone
//! by a power cut is kept until the host's time has passed it ([`Nand::advance`]).
//!
//! Invariants: an entry of `slot_of` names the slot with the unit's bytes, 0 if it has none (erased or padding).
//! Among the entries that name one slot, one owns it; the others carry the mark `MOVED`: their bytes went to a
//! copy, and they stay readable until they are erased. When the owner's erase is past, the slot is free. What
//! a place marked `MOVED` then reads as is undefined: an FTL erases the last copy only when nothing needs the unit.

use std::fmt;
use std::path::Path;

use crate::array::Array;
use crate::counters::Counters;
use crate::error::{MediumError, NandError};
use crate::faults::FaultGenerator;
use crate::geometry::{BlockId, Geometry, Nanoseconds, PageId, PlaneId, Ppn};
use crate::image::{
    Access, Contents, Damage, Examination, FileImage, HostSync, Image, Life, MAX_DESCRIPTION_BYTES,
    MAX_PROTECTED_BYTES, MemoryImage,
};
use crate::power::Power;
use crate::slots::Slots;
use crate::state::{Block, PageState};
use crate::time::{Place, Resources, Timing};

/// The medium of one drive.
pub struct Nand {
    pub(crate) geometry: Geometry,
    pub(crate) description: String,
    pub(crate) image: Box<dyn Image>,
    pub(crate) blocks: Vec<Block>,
    /// [`PageState`] of each page, as bytes so that untouched memory costs nothing.
    pub(crate) page_states: Vec<u8>,
    /// The slot of each unit, with [`MOVED`].
    pub(crate) slot_of: Array,
    pub(crate) slots: Slots,
    pub(crate) time: Resources,
    pub(crate) power: Power,
    pub(crate) faults: FaultGenerator,
    pub(crate) counters: Counters,
    pub(crate) operations: u64,
    /// Pages whose records were damaged in the image.
    pub(crate) damaged: Vec<PageId>,
}

impl Nand {
    // -- making and opening -----------------------------------------------------------------------------------

    /// An erased medium in memory.
    pub fn in_memory(geometry: Geometry, timing: Timing) -> Result<Nand, MediumError> {
        geometry.validate()?;
        timing.validate()?;
        let image = Box::new(MemoryImage::new(geometry));
        Ok(Nand::assemble(geometry, timing, String::new(), image, Contents::erased(&geometry)))
    }

    /// An erased medium in a new sparse file, locked against other processes. `description` is free text of at
    /// most 64 KiB; `protected_bytes` of DRAM survive the end of the process.
    pub fn create(
        path: &Path,
        geometry: Geometry,
        timing: Timing,
        description: &str,
        protected_bytes: u64,
    ) -> Result<Nand, MediumError> {
        geometry.validate()?;
        timing.validate()?;
        if description.len() > MAX_DESCRIPTION_BYTES {
            return Err(MediumError::DescriptionTooLong {
                bytes: description.len(),
                limit: MAX_DESCRIPTION_BYTES,
            });
        }
        if protected_bytes > MAX_PROTECTED_BYTES {
            return Err(MediumError::ProtectedTooLarge {
                bytes: protected_bytes,
                limit: MAX_PROTECTED_BYTES,
            });
        }
        let image = Box::new(FileImage::create(path, geometry, timing, description, protected_bytes)?);
        Ok(Nand::assemble(geometry, timing, description.to_owned(), image, Contents::erased(&geometry)))
    }

    /// Opens an image, locked against other processes. That the last process ended without a word is a power cut
    /// after everything that it had issued was done.
    pub fn open(path: &Path) -> Result<Nand, MediumError> {
        Nand::open_as(path, Access::Write)
    }

    /// Opens an image as [`Nand::open`] does, with changes going where `access` says.
    pub fn open_as(path: &Path, access: Access) -> Result<Nand, MediumError> {
        Nand::load(path, access, None, Damage::Refuse).map(|(nand, _)| nand)
    }

    /// Opens an image as [`Nand::open`] does, for as long as a life lasts. When it has ended, the image is what a process
    /// leaves that was killed then, and what would change it fails with [`NandError::PowerLost`].
    pub fn open_for(path: &Path, life: &Life) -> Result<Nand, MediumError> {
        Nand::load(path, Access::Write, Some(life.clone()), Damage::Refuse).map(|(nand, _)| nand)
    }

    /// Opens an image whose records may be damaged, and tells what is. Pages whose records are damaged read as
    /// uncorrectable, and are listed by [`Nand::damaged_pages`].
    ///
    /// With [`Access::Write`] they are so for good. That is for a repair that has been found to be sound; and an image
    /// with a finding that is not [`crate::ImageFinding::is_repairable`] is not to be worked with.
    pub fn examine(path: &Path, access: Access) -> Result<(Nand, Examination), MediumError> {
        Nand::load(path, access, None, Damage::Note)
    }

    fn load(
        path: &Path,
        access: Access,
        life: Option<Life>,
        damage: Damage,
    ) -> Result<(Nand, Examination), MediumError> {
        let (mut image, timing, description) = FileImage::open(path, access, life)?;
        let (contents, examination) = Contents::load(&mut image, damage)?;
        let mut nand = Nand::assemble(*image.geometry(), timing, description, Box::new(image), contents);
        nand.damaged = examination.damaged_pages().collect();
        if nand.image.synced().is_some() {
            nand.slots.keep();
        }
        Ok((nand, examination))
    }

    /// Pages whose records were damaged when the image was opened by [`Nand::examine`].
    pub fn damaged_pages(&self) -> &[PageId] {
        &self.damaged
    }

    fn assemble(
        geometry: Geometry,
        timing: Timing,
        description: String,
        image: Box<dyn Image>,
        contents: Contents,
    ) -> Nand {
        Nand {
            geometry,
            description,
            image,
            blocks: contents.blocks,
            page_states: contents.page_states,
            slot_of: contents.slot_of,
            slots: contents.slots,
            time: Resources::new(&geometry, timing),
            power: Power::default(),
            faults: FaultGenerator::default(),
            counters: Counters::default(),
            operations: contents.operations,
            damaged: Vec::new(),
        }
    }

    /// A second medium in the same state; none for an image in a file.
    pub fn try_clone(&self) -> Option<Nand> {
        Some(Nand {
            geometry: self.geometry,
            description: self.description.clone(),
            image: self.image.try_clone()?,
            blocks: self.blocks.clone(),
            page_states: self.page_states.clone(),
            slot_of: self.slot_of.clone(),
            slots: self.slots.clone(),
            time: self.time.clone(),
            power: self.power.clone(),
            faults: self.faults.clone(),
            counters: self.counters,
            operations: self.operations,
            damaged: self.damaged.clone(),
        })
    }

    // -- the loss of the machine --------------------------------------------------------------------------------

    /// Gathers what changed since the last time; once what is returned has run, that survives the loss of the machine,
    /// and [`Nand::sync_end`] is to be called. None if nothing changed, and for an image that was not opened with
    /// [`Access::Ordered`]. What changes in between is for the next time. If the sync fails, the medium is of no more
    /// use: what the disk has cannot be told before it is opened again.
    pub fn sync_begin(&mut self) -> Result<Option<HostSync>, NandError> {
        self.slots.sync_begin();
        self.image.synced().map_or(Ok(None), |image| image.sync_begin())
    }

    /// What [`Nand::sync_begin`] gave has run.
    pub fn sync_end(&mut self) -> Result<(), NandError> {
        self.slots.sync_end();
        self.image.synced().map_or(Ok(()), |image| image.sync_end())
    }

    // -- what it is -------------------------------------------------------------------------------------------

    /// The free text kept in the image; empty in memory.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Its shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Its times.
    pub fn timing(&self) -> &Timing {
        self.time.timing()
    }

    /// When all programs issued so far are done.
    pub fn programs_done_ns(&self) -> Nanoseconds {
        self.time.programs_done_ns()
    }

    /// When a plane is done with what was issued to it.
    pub fn plane_idle_ns(&self, plane: PlaneId) -> Nanoseconds {
        self.time.plane_idle_ns(plane)
    }

    /// When all planes are done with what was issued to them.
    pub fn idle_ns(&self) -> Nanoseconds {
        (0..self.geometry.planes()).map(|plane| self.plane_idle_ns(PlaneId(plane))).max().unwrap_or(0)
    }

    /// What a page reads as.
    pub fn page_state(&self, page: PageId) -> PageState {
        PageState::from_byte(self.page_states[page.index()])
    }

    /// Whether a unit's page is programmed and can be read.
    #[inline]
    pub fn is_readable(&self, ppn: Ppn) -> bool {
        self.page_states[self.geometry.page_of(ppn).index()] == PageState::Programmed as u8
    }

    /// The page of a block to be programmed next, counted in the block; `pages_per_block` if it must be erased
    /// first.
    pub fn next_page(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].next_page
    }

    /// How often a block has been erased.
    pub fn erase_count(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].erase_count
    }

    /// Whether a block is retired.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.blocks[block.index()].bad
    }

    /// Marks a block bad for good. What it holds can still be read.
    pub fn retire(&mut self, block: BlockId) -> Result<(), NandError> {
        self.powered()?;
        let record = Block { bad: true, ..self.blocks[block.index()] };
        self.image.write_block(block, &record)?;
        self.blocks[block.index()] = record;
        Ok(())
    }

    /// Bytes of host memory for page states, places and block records, beside data and spare areas.
    pub fn map_bytes(&self) -> usize {
        size_of_val(&self.page_states[..]) + size_of_val(&self.slot_of[..]) + size_of_val(&self.blocks[..])
    }

    /// What it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Programs and erases issued ever, those that power loss undid included.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Slots that hold bytes: staged, programmed, or kept while an erase may be undone.
    pub fn slots_in_use(&self) -> u32 {
        self.slots.in_use()
    }

    // -- for the operations -----------------------------------------------------------------------------------

    pub(crate) fn powered(&self) -> Result<(), NandError> {
        if self.has_power() { Ok(()) } else { Err(NandError::PowerLost) }
    }

    pub(crate) fn place(&self, block: BlockId) -> Place {
        let plane = self.geometry.plane_of(block);
        Place { plane, channel: self.geometry.channel_of(self.geometry.die_of(plane)) }
    }

    /// The units of a page, as indexes into `slot_of`.
    pub(crate) fn units_of(&self, page: PageId) -> std::ops::Range<usize> {
        let units = self.geometry.units_per_page() as usize;
        page.index() * units..(page.index() + 1) * units
    }

    /// The pages of a block, as indexes into `page_states`.
    pub(crate) fn pages_of(&self, block: BlockId) -> std::ops::Range<usize> {
        let pages = self.geometry.pages_per_block as usize;
        block.index() * pages..(block.index() + 1) * pages
    }

    /// The units of a block, as indexes into `slot_of`.
    pub(crate) fn units_of_block(&self, block: BlockId) -> std::ops::Range<usize> {
        let units = self.geometry.units_per_block() as usize;
        block.index() * units..(block.index() + 1) * units
    }

    /// Makes a programmed page uncorrectable; it keeps its slots until it is erased.
    pub(crate) fn spoil(&mut self, page: PageId) -> Result<(), NandError> {
        self.image.spoil_page(page)?;
        self.page_states[page.index()] = PageState::Uncorrectable as u8;
        Ok(())
    }
}

impl fmt::Debug for Nand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nand")
            .field("geometry", &self.geometry)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}
