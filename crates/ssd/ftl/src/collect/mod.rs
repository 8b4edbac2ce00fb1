//! Garbage collection: moves valid units out of a victim, which becomes free.
//!
//! Moved units fill whole pages, across victims. A victim is free only when all its units are programmed elsewhere.
//! Records of a namespace with logs of its own are packed separately, and go to these logs if there is room.

mod moving;
mod moving_page;

use tantalum_nand::{BlockId, Nanoseconds};

use crate::allocate::Allocator;
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::parts::Parts;
use crate::space::Target;
use crate::tenants::{Packer, TENANTS};
use moving_page::MovingPage;

/// Victims being emptied together, so that moved units fill whole pages.
struct Collection {
    /// For the collection stream.
    moving: MovingPage,
    /// For the logs of namespaces that have their own.
    moving_to_logs: Vec<MovingPage>,
    /// By tenant, once it has anything in a victim.
    packers: [Option<Box<dyn Packer>>; TENANTS.len()],
    victims: Vec<BlockId>,
}

impl Collection {
    /// The page that takes units of a stream.
    fn page_for(&mut self, target: Target, earliest_ns: Nanoseconds) -> &mut MovingPage {
        if target == Target::Collect {
            return &mut self.moving;
        }
        let index = self.moving_to_logs.iter().position(|moving| moving.target == target);
        let index = index.unwrap_or_else(|| {
            self.moving_to_logs.push(MovingPage::new(target, earliest_ns));
            self.moving_to_logs.len() - 1
        });
        &mut self.moving_to_logs[index]
    }

    /// The most pages that the units in transit take.
    fn waiting_pages(&self) -> u32 {
        let packed: usize = self.packers.iter().flatten().map(|packer| packer.open_units()).sum();
        (packed + self.moving_to_logs.len() + 1) as u32
    }
}

impl Parts {
    /// What was on the way stays where it is. The buffers of pages that were not programmed are released.
    fn give_up_moving(&mut self, collection: &mut Collection, error: &FtlError) {
        for moving in std::iter::once(&mut collection.moving).chain(&mut collection.moving_to_logs) {
            self.release_page(&moving.page, error);
        }
    }

    /// Frees the victims that are empty, except the last one, whose units may still be scanned.
    fn free_emptied(&mut self, collection: &mut Collection) {
        let last = collection.victims.pop();
        for index in (0..collection.victims.len()).rev() {
            if self.map.valid(collection.victims[index]) == 0 {
                let block = collection.victims.remove(index);
                self.free_block(block);
            }
        }
        collection.victims.extend(last);
    }

    fn free_block(&mut self, block: BlockId) {
        debug_assert_eq!(self.map.valid(block), 0, "block {block} is freed with places in use");
        self.counters.collections += 1;
        self.space.release(block, &self.nand);
    }

    /// Releases the victims. One that is not empty keeps units that could not be moved: it stays closed if there was no
    /// space for them, and must be retired if all of them are lost.
    fn release_victims(&mut self, collection: &mut Collection) {
        for block in collection.victims.drain(..) {
            if self.map.valid(block) == 0 {
                self.free_block(block);
            } else if self.keeps_only_lost_units(block) {
                self.space.keeps_lost_units(block);
                self.space.note_loss_in(block);
            } else {
                self.close_block(block);
            }
        }
    }

    fn new_collection(&mut self, at_ns: Nanoseconds) -> Collection {
        // members of an atomic batch lose their mark when moved, so the whole batch must be on flash first
        let earliest_ns = at_ns.max(self.batches.done_ns());
        self.metadata.between_steps(at_ns);
        Collection {
            moving: MovingPage::new(Target::Collect, earliest_ns),
            moving_to_logs: Vec::new(),
            packers: Default::default(),
            victims: Vec::new(),
        }
    }
}

impl Allocator {
    fn collect_into(
        &mut self,
        collection: &mut Collection,
        victim: BlockId,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let parts = &mut self.parts;
        parts.space.begin_collecting(victim, &mut parts.map);
        self.finish_if_short(collection, at_ns).inspect_err(|_| self.close_block(victim))?;
        collection.victims.push(victim);
        let mut units = std::mem::take(&mut self.scratch.valid_units);
        let moved = self
            .find_valid_units(victim, &mut units)
            .and_then(|()| self.move_units(&units, collection, at_ns));
        self.scratch.valid_units = units;
        if let Err(error) = &moved {
            self.release_victims(collection);
            self.give_up_moving(collection, error);
        }
        moved
    }

    /// Programs what waits if there is no room for both that and one more victim. A packed unit with a little of each
    /// victim keeps all of them from becoming free, while their other units take up blocks.
    fn finish_if_short(&mut self, collection: &mut Collection, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let pages = self.geometry.pages_per_block + collection.waiting_pages();
        if collection.victims.is_empty() || self.missing_blocks(Target::Collect, pages) <= self.spare_blocks()
        {
            return Ok(());
        }
        let waiting = std::mem::replace(collection, self.new_collection(at_ns));
        self.finish_collection(waiting, at_ns)
    }

    fn finish_collection(&mut self, mut collection: Collection, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let packers = collection.packers.iter_mut().flatten();
        let last = packers.flat_map(|packer| packer.take_open()).collect();
        let programmed = self
            .move_packed(last, &mut collection, at_ns)
            .and_then(|()| self.program_all_moving(&mut collection, at_ns));
        self.release_victims(&mut collection);
        programmed.inspect_err(|error| self.give_up_moving(&mut collection, error))
    }
}

impl Ftl {
    fn choose_victim(&mut self) -> Option<BlockId> {
        let parts = &mut self.allocator.parts;
        parts.space.choose_victim(parts.config.victim_policy, &mut parts.map, parts.seq)
    }

    /// Collects until there is space beyond the reserve.
    pub(crate) fn collect_garbage(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let target = self.collection_reserve() + 2;
        let mut collection = self.new_collection(at_ns);
        // each victim frees something; more rounds than there are blocks mean that nothing is gained
        for _ in 0..2 * self.geometry.blocks() {
            // if there are no longer enough blocks, nothing is gained either, and each program may cost another block
            self.retire_emptied()?;
            if self.spare_blocks() >= target || self.is_read_only() {
                break;
            }
            let Some(victim) = self.choose_victim() else { break };
            self.collect_into(&mut collection, victim, at_ns)?;
        }
        self.finish_collection(collection, at_ns)
    }

    /// Collects one victim, whatever the reserve says. False if there is none.
    pub(crate) fn collect_one(&mut self, at_ns: Nanoseconds) -> Result<bool, FtlError> {
        let Some(victim) = self.choose_victim() else { return Ok(false) };
        self.collect_block(victim, at_ns)?;
        Ok(true)
    }

    /// Collects on the planes on which a namespace's logs have no open block and find no free one.
    pub(crate) fn collect_for_logs(&mut self, target: Target, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let full = self.space.full_planes(target);
        if full.is_empty() {
            return Ok(());
        }
        let mut collection = self.new_collection(at_ns);
        for plane in full {
            if let Some(victim) = self.space.choose_victim_on(plane, &self.map) {
                self.collect_into(&mut collection, victim, at_ns)?;
            }
        }
        self.finish_collection(collection, at_ns)
    }

    /// Moves a block of cold data, if the spread of erase counts is too wide (static wear levelling).
    pub(crate) fn level_wear(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        match self.space.too_cold(self.config.wear_spread, &self.nand) {
            Some(coldest) if self.spare_blocks() > 1 => self.collect_block(coldest, at_ns),
            _ => Ok(()),
        }
    }

    /// Moves everything out of one block and frees it.
    pub(crate) fn collect_block(&mut self, block: BlockId, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut collection = self.new_collection(at_ns);
        self.collect_into(&mut collection, block, at_ns)?;
        self.finish_collection(collection, at_ns)
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{FailingStep, Geometry, Nand, StepFault, UNIT_BYTES};

    use super::*;
    use crate::host_unit::HostUnit;
    use crate::key::{Key, NamespaceAttributes};
    use crate::metadata::Record;
    use crate::space::FtlConfig;
    use crate::tenants::records::KvRecord;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::{Lpn, METADATA_BYTES, ShareRange};

    const UNITS_PER_PAGE: u32 = 2;

    fn write_page(ftl: &mut Ftl, lpn: u32) -> Result<(), FtlError> {
        let units: Vec<HostUnit> = (lpn..lpn + UNITS_PER_PAGE)
            .map(|lpn| HostUnit {
                slot: ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap(),
                lpn: Lpn(lpn),
                version: ftl.next_seq(),
                metadata: [0; METADATA_BYTES],
                hint: None,
            })
            .collect();
        let at_ns = ftl.nand().programs_done_ns();
        ftl.write_page(&units, at_ns).map(|_| ())
    }

    #[test]
    fn a_packed_unit_that_takes_a_little_of_each_victim_does_not_keep_them_all() {
        const BLOCKS: u32 = 40;
        const PAGES: u32 = 8;
        let geometry = Geometry { channels: 1, blocks_per_plane: 64, pages_per_block: PAGES, ..GEOMETRY };
        let config = FtlConfig { logical_units: 800, ..CONFIG };
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        // each block has a page with one small record, and pages of units
        for block in 0..BLOCKS {
            let key = Key::new(&block.to_be_bytes()).unwrap();
            let record = KvRecord { namespace, key, value: Some(&[1; 50]) };
            let at_ns = ftl.nand().programs_done_ns();
            ftl.put(&[record], 0, at_ns, &mut |_| None).unwrap();
            for page in 1..PAGES {
                write_page(&mut ftl, UNITS_PER_PAGE * (block * PAGES + page)).unwrap();
            }
        }
        // one of those pages is written again, so that every block has the same room
        for round in 0..14 {
            for block in 0..BLOCKS {
                write_page(&mut ftl, UNITS_PER_PAGE * (block * PAGES + 1 + round % (PAGES - 1))).unwrap();
                assert!(ftl.space.free_blocks() > 0, "in round {round}, block {block}");
            }
        }
    }

    /// Owners that a spare area has no room for are recorded once the unit has its new place. If there is no room for these
    /// records, the drive may not go on: a cut would lose those owners. No test had so many owners and no room.
    #[test]
    fn a_collection_that_cannot_record_all_owners_is_unfinished() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        write_page(&mut ftl, 0).unwrap();
        let ranges: Vec<ShareRange> =
            (10..30).map(|dst| ShareRange { dst: Lpn(dst), src: Lpn(0), units: 1 }).collect();
        ftl.share(&ranges, 0).unwrap();
        ftl.flush_journal(0).unwrap();
        // the step is durable, so that copies of the unit need not wait for it
        let now_ns = ftl.nand.programs_done_ns();
        ftl.nand.advance(now_ns);
        ftl.metadata.between_steps(now_ns);
        while ftl.metadata.has_room(1) {
            let version = ftl.next_seq();
            let trim = Record::Trim { lpn: Lpn(100), units: 1, version, step: version };
            ftl.append_reserved(trim, 0).unwrap();
        }
        let old = ftl.map.lookup(Lpn(0)).unwrap();
        let (mut unfinished, block) = (0, ftl.geometry.block_of_unit(old));
        for after in 0.. {
            let mut ftl = ftl.try_clone().unwrap();
            ftl.nand.fail_step(Some(StepFault { step: FailingStep::Room, after, lasts: true }));
            let Err(error) = ftl.collect_block(block, now_ns) else { break };
            let has_moved = ftl.map.lookup(Lpn(0)) != Some(old);
            assert_eq!(error.changed_nothing(), !has_moved, "step {after}: {error}");
            unfinished += u32::from(has_moved);
        }
        assert!(unfinished > 0);
    }
}
