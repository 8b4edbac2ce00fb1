//! The medium's state, and its promises. The medium guarantees this and nothing more:
//!
//! - **M1** A page is programmed at most once between erases, and the pages of a block in order. Breaking this is a bug in
//!   the FTL: the medium panics.
//! - **M2** A page's data and spare area are programmed together. If power is lost during a program, the page reads as
//!   uncorrectable, as complete or as erased, never as a mix.
//! - **M3** If power is lost during an erase, each page of the block may read as old, as erased or as uncorrectable.
//! - **M4** What completed before the cut stays. What was still queued did not happen. Operations in flight on different
//!   planes may have completed in any combination.
//! - **M5** DRAM is lost, unless the profile has PLP; then up to `dump_bytes` of it are saved, and no more.
//! - **M6** Erases and programs may fail, and report it; injected faults make reads uncorrectable (`Nand::set_faults`). The
//!   FTL retires the block and loses nothing that it could still read (`crates/ssd/ftl/src/space/mod.rs`).
//! - **M7** Memory beside the flash, if the drive has it, keeps its contents. It is written in words of 8 bytes, each
//!   as a whole. Stores to one bank follow each other; the controller's memory is one bank, and each processor's is
//!   another. Of the stores in flight when power is lost, each word is there or not.
//!
//! M1 is kept by `operations`, M2 to M4 by `power` and `resolve`, M2 also by the image, M5 by [`Nand::lose_dram`], the slots
//! of [`crate::LostProgram`] and the protected DRAM, M6 by `faults`, M7 by `nvm`. ARCHITECTURE.md has the list in the same words.
//!
//! Each operation changes the state when it is issued, and returns the time at which it would be done. What a power cut
//! may still undo is kept until the host's time has passed its end ([`Nand::advance`]).
//!
//! Invariants: an entry of `slot_of` names the slot with the unit's bytes, or 0 if there is none (erased or padding).
//! Among the entries that name one slot, one owns it. The others carry the mark `MOVED`: their bytes went to a copy,
//! and they stay readable until they are erased. Once the owner's erase is past, the slot is free. What a place marked
//! `MOVED` reads as from then on is undefined: an FTL erases the last copy only when nothing needs the unit.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use crate::bookings::Booking;
use crate::counters::Counters;
use crate::faults::FaultGenerator;
use crate::in_flight::{Change, Power};
use crate::nvm::Nvm;
use crate::schedule::Scheduling;
use crate::time::{Busy, Resources, Route};
use tantalum_image::Array;
use tantalum_image::Slots;
use tantalum_image::{
    Access, Contents, Damage, Examination, FileImage, HostSync, Image, MAX_DESCRIPTION_BYTES,
    MAX_PROTECTED_BYTES, MediumState, MemoryImage, TestHost,
};
use tantalum_image::{Block, MOVED, PageState};
use tantalum_image::{BlockId, Geometry, Nanoseconds, PageId, PlaneId, Ppn};
use tantalum_image::{MediumError, NandError};
use tantalum_image::{NvmShape, Timing};

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
    pub(crate) nvm: Option<Nvm>,
    pub(crate) faults: FaultGenerator,
    pub(crate) counters: Counters,
    pub(crate) operations: u64,
    /// Pages whose records were damaged in the image.
    pub(crate) damaged: Vec<PageId>,
    /// Blocks that were erased, whose page records may take space of the host's disk; noted if that can be given back.
    blank: BTreeSet<BlockId>,
}

impl Nand {
    // -- creating and opening ---------------------------------------------------------------------------------

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
        Nand::create_with(path, geometry, timing, description, protected_bytes, None, None)
    }

    /// As [`Nand::create`], with memory beside the flash; on a host that a test lets fail.
    pub fn create_with(
        path: &Path,
        geometry: Geometry,
        timing: Timing,
        description: &str,
        protected_bytes: u64,
        nvm: Option<NvmShape>,
        host: Option<&TestHost>,
    ) -> Result<Nand, MediumError> {
        geometry.validate()?;
        timing.validate()?;
        if let Some(shape) = &nvm {
            shape.validate()?;
        }
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
        let host = host.cloned();
        let image = FileImage::create(path, geometry, timing, description, protected_bytes, nvm, host)?;
        let contents = Contents::erased(&geometry);
        let mut nand = Nand::assemble(geometry, timing, description.to_owned(), Box::new(image), contents);
        nand.nvm = nvm.map(Nvm::new);
        Ok(nand)
    }

    /// Opens an image and locks it against other processes. If the previous process was killed, that is a power cut after
    /// everything that it had issued was done.
    pub fn open(path: &Path) -> Result<Nand, MediumError> {
        Nand::open_as(path, Access::Write)
    }

    /// Opens an image as [`Nand::open`] does; `access` says where changes go.
    pub fn open_as(path: &Path, access: Access) -> Result<Nand, MediumError> {
        Nand::load(path, access, None, Damage::Refuse).map(|(nand, _)| nand)
    }

    /// Opens an image as [`Nand::open_as`] does, on a host that may fail. If the life of its process ends, the image is
    /// what a process killed at that moment leaves, and every operation that would change it fails with
    /// [`NandError::PowerLost`].
    pub fn open_on(path: &Path, access: Access, host: &TestHost) -> Result<Nand, MediumError> {
        Nand::load(path, access, Some(host.clone()), Damage::Refuse).map(|(nand, _)| nand)
    }

    /// Opens an image whose records may be damaged, and reports the damage. Pages whose records are damaged read as
    /// uncorrectable, and are listed by [`Nand::damaged_pages`].
    ///
    /// With [`Access::Write`] they become so permanently. Use that only for a repair that has been found to be sound.
    /// Do not use an image with a finding that is not [`crate::ImageFinding::is_repairable`].
    pub fn examine(path: &Path, access: Access) -> Result<(Nand, Examination), MediumError> {
        Nand::load(path, access, None, Damage::Note)
    }

    fn load(
        path: &Path,
        access: Access,
        host: Option<TestHost>,
        damage: Damage,
    ) -> Result<(Nand, Examination), MediumError> {
        let (mut image, timing, description) = FileImage::open(path, access, host)?;
        let nvm = image.nvm().copied();
        let (contents, mut examination) = Contents::load(&mut image, damage)?;
        if damage == Damage::Note {
            image.examine_nvm(access, &mut examination)?;
        }
        let mut nand = Nand::assemble(*image.geometry(), timing, description, Box::new(image), contents);
        nand.nvm = nvm.map(Nvm::new);
        nand.damaged = examination.damaged_pages().collect();
        nand.watch_space()?;
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
            nvm: None,
            faults: FaultGenerator::default(),
            counters: Counters::default(),
            operations: contents.operations,
            damaged: Vec::new(),
            blank: BTreeSet::new(),
        }
    }

    /// A second medium in the same state, or `None` for an image in a file.
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
            nvm: self.nvm,
            faults: self.faults.clone(),
            counters: self.counters,
            operations: self.operations,
            damaged: self.damaged.clone(),
            blank: BTreeSet::new(),
        })
    }

    // -- surviving the loss of the machine ------------------------------------------------------------------------

    /// Gathers what changed since the last call. Once the returned sync has run, these changes survive the loss of the
    /// machine; then call [`Nand::sync_end`]. None if nothing changed, and for an image that was not opened with
    /// [`Access::Ordered`]. Changes made in between belong to the next sync. If the sync fails, the medium must be
    /// reopened, because it is unknown what the disk has.
    pub fn sync_begin(&mut self) -> Result<Option<HostSync>, NandError> {
        self.slots.sync_begin();
        self.image.synced().map_or(Ok(None), |image| image.sync_begin())
    }

    /// The sync that [`Nand::sync_begin`] returned has run.
    pub fn sync_end(&mut self) -> Result<(), NandError> {
        self.slots.sync_end();
        self.image.synced().map_or(Ok(()), |image| image.sync_end())
    }

    // -- space of the host's disk ------------------------------------------------------------------------------

    /// Whether free space of the image goes back to the host, when it is asked for: of an image that was opened with
    /// [`Access::Ordered`], if its host takes space back.
    pub fn gives_space_back(&mut self) -> bool {
        self.image.synced().is_some_and(|image| image.takes_space_back())
    }

    fn watch_space(&mut self) -> Result<(), MediumError> {
        let Some(image) = self.image.synced() else { return Ok(()) };
        let on_disk = image.slots_on_disk(self.slots.in_use())?;
        self.slots.keep();
        self.slots.watch_idle(on_disk);
        let is_blank = |block: &Block| block.erase_count > 0 && block.next_page == 0;
        let blocks = (0..).map(BlockId).zip(&self.blocks);
        self.blank = blocks.filter(|(_, block)| is_blank(block)).map(|(block, _)| block).collect();
        Ok(())
    }

    /// An erase can no longer be undone.
    pub(crate) fn note_blank(&mut self, block: BlockId) {
        if self.image.synced().is_some() {
            self.blank.insert(block);
        }
    }

    /// Gives space of the image back to the host: the records of blocks that were erased, and at most `holes` pieces of the
    /// slots that are free to be overwritten, but for `kept` slots, which are the first to be used again. Returns whether there is
    /// more to give back.
    pub fn give_space_back(&mut self, kept: u32, holes: u32) -> Result<bool, NandError> {
        let Some(image) = self.image.synced().filter(|image| image.takes_space_back()) else {
            return Ok(false);
        };
        for block in std::mem::take(&mut self.blank) {
            if self.blocks[block.index()].next_page == 0 {
                image.give_back_records(block);
            }
        }
        for _ in 0..holes {
            let Some(run) = self.slots.highest_idle(self.slots.idle().saturating_sub(kept)) else {
                return Ok(false);
            };
            if !image.give_back_slots(run.0, run.1)? {
                return Ok(false);
            }
            self.slots.given_back(run);
        }
        Ok(self.slots.idle() > kept)
    }

    /// Whether the image survives the loss of the machine.
    pub fn is_synced(&mut self) -> bool {
        self.image.synced().is_some()
    }

    /// Overwrites what the image still has of pages that are erased: bytes without an owner, and records. Erases that may still be undone
    /// keep theirs, so the medium must be idle. Nothing changes for reads, also those under way: they find other bytes than they
    /// expect, and read again. Not for an image that survives the loss of the machine ([`Nand::is_synced`]): its redo log may need
    /// what is free.
    pub fn scrub(&mut self) -> Result<(), NandError> {
        debug_assert!(!self.is_synced(), "an image is overwritten that its redo log may need");
        let zeros = [0; tantalum_image::UNIT_BYTES];
        for slot in self.slots.unused() {
            self.image.write_slot(slot, &zeros)?;
        }
        for block in (0..self.geometry.blocks()).map(BlockId) {
            for page in self.next_page(block)..self.geometry.pages_per_block {
                self.image.clear_page(self.geometry.page(block, page))?;
            }
        }
        Ok(())
    }

    /// Slots that are free to be overwritten, and may take space of the host's disk.
    pub fn idle_slots(&self) -> u32 {
        self.slots.idle()
    }

    /// Slots that are free to be overwritten after two more syncs.
    pub fn slots_that_wait(&self) -> u32 {
        self.slots.waiting()
    }

    /// Makes everything durable in place, so that all released slots are free. No sync may be under way. Nothing for an image
    /// that was not opened with [`Access::Ordered`].
    pub fn sync_in_place(&mut self) -> Result<(), NandError> {
        if let Some(image) = self.image.synced() {
            image.settle()?;
            self.slots.settle();
        }
        Ok(())
    }

    /// Makes everything durable in place, as [`Nand::sync_in_place`] does, and leaves a summary of the page records in the image,
    /// so that the next opening need not read them. Nothing that was issued can be undone any more. For a host that closes the
    /// image; of one that was not opened with [`Access::Ordered`] nothing is done.
    pub fn leave_summary(&mut self) -> Result<(), NandError> {
        self.powered()?;
        self.advance(self.idle_ns().max(self.now_ns()));
        self.sync_in_place()?;
        if let Some(image) = self.image.synced() {
            image.summarise(&MediumState {
                blocks: &self.blocks,
                page_states: &self.page_states,
                slot_of: &self.slot_of,
                operations: self.operations,
            });
        }
        Ok(())
    }

    // -- state ------------------------------------------------------------------------------------------------

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

    /// Sets how operations follow each other. Must be set before any is issued.
    pub fn set_scheduling(&mut self, scheduling: Scheduling) {
        self.time.set_scheduling(scheduling, self.geometry.blocks());
    }

    /// When all programs, and stores to memory, issued so far are done.
    pub fn programs_done_ns(&self) -> Nanoseconds {
        self.time.programs_done_ns()
    }

    /// How long planes and channels have worked.
    pub fn busy(&self) -> Busy {
        self.time.busy()
    }

    /// From now on [`Nand::bookings`] has what planes are booked for.
    pub fn keep_bookings(&mut self) {
        self.time.keep_bookings();
    }

    /// The last operations of all planes, in the order in which they were issued; none before [`Nand::keep_bookings`]. Some
    /// thousands are kept.
    pub fn bookings(&self) -> impl DoubleEndedIterator<Item = &Booking> {
        self.time.bookings()
    }

    /// When a plane is done with what was issued to it.
    pub fn plane_idle_ns(&self, plane: PlaneId) -> Nanoseconds {
        self.time.plane_idle_ns(plane)
    }

    /// When all programs for hosts issued so far are done; with first come, first served, all programs.
    pub fn host_programs_done_ns(&self) -> Nanoseconds {
        self.time.host_programs_done_ns()
    }

    /// When a programmed page is on flash; with first come, first served, when all programs are done.
    pub fn programmed_ns(&self, page: PageId) -> Nanoseconds {
        let block = self.geometry.block_of(page);
        self.time.programmed_ns(self.geometry.plane_of(block), page, block)
    }

    /// Takes the time at which all programs issued by some moment are done, and returns it; with first come, first served,
    /// returns when all programs are done.
    pub fn released_ns(&self, then_ns: Nanoseconds) -> Nanoseconds {
        self.time.released_ns(then_ns)
    }

    /// Whether waiting until a time costs nothing extra: the time has passed, or, with first come, first served, everything
    /// waits for all programs anyway.
    pub fn wait_is_free(&self, then_ns: Nanoseconds) -> bool {
        self.time.wait_is_free(then_ns)
    }

    /// Lets no program of a block begin before a time. With first come, first served this is unnecessary, since nothing
    /// overtakes what it waits for.
    pub fn hold(&mut self, block: BlockId, until_ns: Nanoseconds) {
        self.time.hold(block, until_ns);
    }

    /// When a plane could begin a program for a host's command, at or after `earliest_ns`; on one of its blocks, if named. `None` if
    /// not before `limit_ns`, which is often known without asking the plane.
    #[inline]
    pub fn plane_ready_before(
        &self,
        plane: PlaneId,
        block: Option<BlockId>,
        earliest_ns: Nanoseconds,
        limit_ns: Nanoseconds,
    ) -> Option<Nanoseconds> {
        self.time.plane_ready_before(plane, block, earliest_ns, limit_ns)
    }

    /// When all planes, and the memory, are done with what was issued to them.
    pub fn idle_ns(&self) -> Nanoseconds {
        let planes = (0..self.geometry.planes()).map(|plane| self.plane_idle_ns(PlaneId(plane)));
        planes.chain(self.nvm.map(|nvm| nvm.free_ns)).max().unwrap_or(0)
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

    /// The next page of a block to program, counted within the block; `pages_per_block` if the block must be erased
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

    /// Bytes of host memory for page states, places and block records, without data and spare areas.
    pub fn map_bytes(&self) -> usize {
        size_of_val(&self.page_states[..]) + size_of_val(&self.slot_of[..]) + size_of_val(&self.blocks[..])
    }

    /// Counters of what it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Programs and erases issued so far, including those that power loss undid.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Those of the slots in use that are not staged: of programmed places, or kept while an erase may be undone.
    pub fn slots_on_flash(&self) -> u32 {
        let owned = |entry: &&u32| **entry != 0 && **entry & MOVED == 0;
        let erased = self.power.issued.iter().filter_map(|issued| match &issued.change {
            Change::Erase(erased) => Some(&erased.slot_of[..]),
            _ => None,
        });
        let kept: usize = erased.map(|slots| slots.iter().filter(owned).count()).sum();
        (self.slot_of.iter().filter(owned).count() + kept) as u32
    }

    /// Slots that hold bytes: staged, programmed, or kept while an erase may be undone.
    pub fn slots_in_use(&self) -> u32 {
        self.slots.in_use()
    }

    /// Those of them that erases give up which could still be undone.
    pub fn slots_being_erased(&self) -> u32 {
        let erases = self.power.issued.iter().filter_map(|issued| match &issued.change {
            Change::Erase(erased) => Some(&erased.slot_of),
            Change::Program { .. } | Change::Store(_) => None,
        });
        let owned = |slots: &[u32]| slots.iter().filter(|entry| **entry != 0 && **entry & MOVED == 0).count();
        erases.map(|slots| owned(slots) as u32).sum()
    }

    // -- for the operations -----------------------------------------------------------------------------------

    pub(crate) fn powered(&self) -> Result<(), NandError> {
        if self.has_power() { Ok(()) } else { Err(NandError::PowerLost) }
    }

    pub(crate) fn place(&self, block: BlockId) -> Route {
        let plane = self.geometry.plane_of(block);
        Route { plane, channel: self.geometry.channel_of(self.geometry.die_of(plane)) }
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

#[cfg(test)]
mod tests {
    /// Recovery rests on these words: they appear twice, and must be identical.
    #[test]
    fn the_promises_are_those_of_architecture_md() {
        let promises = |text: &str| -> Vec<String> {
            let lines = text.lines().map(|line| line.trim_start_matches("//!").trim());
            let lines =
                lines.skip_while(|line| !line.starts_with("- **M1**")).take_while(|line| !line.is_empty());
            let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
            words.join(" ").split(" - **").map(str::to_owned).collect()
        };
        let here = promises(include_str!("nand.rs"));
        assert_eq!(here.len(), 7);
        assert_eq!(here, promises(include_str!("../../../../ARCHITECTURE.md")));
    }
}
