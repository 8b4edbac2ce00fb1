//! Space: what each block is used for, the open blocks of each stream, how much flash each purpose gets, and the blocks
//! that go bad.
//!
//! A block is *taken* from the free ones, *opened* (erased first, if it must be: `control/erase.rs`), *closed* when it takes no more
//! pages, and *released* when nothing in it is needed any more. One that fails a program, or keeps lost units, is *failing*:
//! it is emptied, then out of use, then retired, and never free again. One that fails an erase is retired at once.
//!
//! Bad blocks, and units lost with a page (M6):
//!
//! - A lost unit stays mapped to the unreadable place, and reads as an error until it is written or trimmed. What its
//!   spare area asserted is lost too. So when a loss is detected, a checkpoint records where the unit is, and no older
//!   copy comes back after a cut ([`Space::has_loss_since`]).
//! - A drive that can no longer be laid out is read-only: with fewer good blocks than [`Layout::least_blocks`], plus
//!   two for each namespace with its own logs, it accepts no writes, collects no garbage for the host, and stores what
//!   it has acknowledged in the blocks that are left. That follows from the bad blocks alone, so it
//!   holds after every power cycle. The same happens if the last free blocks fail while others hold data: the next
//!   checkpoint records that, and if there is no room for one, every recovery finds the same again.

mod audit;
mod blocks;
mod free;
mod handles;
mod layout;
mod stream;
mod victim;
mod wear;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Geometry, Nand, NandError, Nanoseconds, PageId, PlaneId};

use self::blocks::Blocks;
pub use self::blocks::{BlockUse, Marked, PageSummary, Wear};
pub use self::handles::{HandlesIn, handles_in};
pub use self::layout::{CheckpointInterval, FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout, map_bytes};
#[cfg(test)]
pub use self::stream::Stream;
use self::stream::Streams;
pub use self::stream::Target;
pub use self::victim::VictimPolicy;
use self::wear::WearLevelling;
use crate::error::FtlError;
use crate::key::NamespaceId;
use crate::map::Map;
use crate::placement::Handle;
use crate::types::Seq;

/// The maximum number of partial blocks that are remembered; recovery reads this many more.
const PARTIAL_BLOCKS: usize = 16;

/// The good blocks of a drive beyond those that it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareBlocks {
    /// Blocks that may still fail before the drive becomes read-only.
    pub available: u32,
    /// The same number without bad blocks.
    pub total: u32,
}

/// See the head of this file.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    geometry: Geometry,
    /// How much flash each purpose gets.
    layout: Layout,
    /// What each block is used for.
    blocks: Blocks,
    /// The open blocks.
    streams: Streams,
    /// Closed blocks that a power cut left partly filled, those with the most room last. If no block is free, garbage
    /// collection continues in them. Checkpoints name them along with the open ones, since recovery reads the named
    /// blocks and those begun later.
    partial: Vec<BlockId>,
    /// Blocks that failed a program, or keep lost units, and must be emptied and retired. None of them is ever free.
    failing: Vec<BlockId>,
    /// Whether the drive reached the end of its life because its last free blocks failed.
    exhausted: bool,
    /// Blocks whose data keep them from wearing.
    wear: WearLevelling,
    /// Blocks that are not retired.
    good_blocks: u32,
    /// The newest step programmed into a block that lost units, when it did.
    newest_loss: Seq,
}

impl Space {
    /// All blocks free; erased if the medium is new.
    pub fn new(nand: &Nand, layout: Layout, erased: bool) -> Space {
        let geometry = *nand.geometry();
        Space {
            blocks: Blocks::new(&geometry, nand, erased),
            streams: Streams::new(&geometry, &layout),
            layout,
            partial: Vec::new(),
            failing: Vec::new(),
            exhausted: false,
            wear: WearLevelling::default(),
            good_blocks: geometry.blocks() - bad_blocks(nand),
            newest_loss: Seq(0),
            geometry,
        }
    }

    /// The medium's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The plan of the flash.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The use of a block.
    #[inline]
    pub fn block_use(&self, block: BlockId) -> BlockUse {
        self.blocks.block_use(block)
    }

    /// All blocks with this use.
    pub fn blocks_with(&self, block_use: BlockUse) -> impl Iterator<Item = BlockId> {
        self.blocks.with_use(block_use)
    }

    // -- free blocks --------------------------------------------------------------------------------------------

    /// Free blocks.
    pub fn free_blocks(&self) -> u32 {
        self.blocks.free()
    }

    /// Whether fewer than this many free blocks are covered by a checkpoint, although more than that are free: recovery may
    /// erase only covered ones before it has taken its own checkpoint.
    pub fn needs_cover(&self, blocks: u32) -> bool {
        self.blocks.free_unmarked() < blocks && self.blocks.free() > blocks
    }

    /// The time from which this many free blocks can be opened without waiting for garbage collection; 0 if they
    /// already can.
    pub fn ready_ns(&self, blocks: u32, nand: &Nand) -> Nanoseconds {
        self.blocks.ready_ns(blocks, nand)
    }

    /// Takes the best free block of a plane for a use, if there is one that may be taken.
    pub fn take(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
        wear: Wear,
        nand: &Nand,
    ) -> Option<BlockId> {
        let block = self.blocks.take(plane, block_use, marked, wear, nand)?;
        debug_assert!(
            !self.streams.blocks().any(|open| open == block),
            "block {block} is taken for {block_use:?} while a stream writes to it"
        );
        Some(block)
    }

    /// Which free block a stream takes. What is moved has stayed for long: while wear is uneven it goes to worn blocks.
    pub fn wear_for(&self, target: Target) -> Wear {
        match target {
            Target::Collect | Target::LogCopies(_) | Target::HandleCopies(_) if self.wear.is_uneven() => {
                Wear::Most
            }
            _ => Wear::Least,
        }
    }

    /// Takes a free block that needs no erase.
    pub fn take_erased(&mut self, block_use: BlockUse) -> Option<BlockId> {
        let planes = (0..self.geometry.planes()).map(PlaneId);
        let free =
            planes.flat_map(|plane| self.blocks.free_list(plane).iter().map(move |free| (plane, free.block)));
        let (plane, block) = free.into_iter().find(|(_, block)| self.blocks.is_erased(*block))?;
        self.blocks.take_block(plane, block, block_use);
        Some(block)
    }

    /// The plane on which to take a block for journal, checkpoint or dump: the one that is idle first, among equals the one
    /// with the most free blocks.
    pub fn system_plane(&self, marked: Marked, nand: &Nand, at_ns: Nanoseconds) -> Option<PlaneId> {
        let planes = (0..self.geometry.planes()).map(PlaneId);
        planes
            .filter(|plane| self.blocks.has_free(*plane, marked))
            .min_by_key(|plane| (nand.plane_idle_ns(*plane).max(at_ns), Reverse(self.blocks.free_in(*plane))))
    }

    /// The plane on which a zone takes its next block: of those with a free one, the one where it has the fewest, and among these the
    /// one that is idle first, with the most free blocks.
    pub fn zone_plane(
        &self,
        taken: impl Iterator<Item = BlockId>,
        nand: &Nand,
        at_ns: Nanoseconds,
    ) -> Option<PlaneId> {
        let mut has = vec![0; self.geometry.planes() as usize];
        taken.for_each(|block| has[self.geometry.plane_of(block).index()] += 1);
        let planes = (0..self.geometry.planes()).map(PlaneId);
        planes.filter(|plane| self.blocks.free_in(*plane) > 0).min_by_key(|plane| {
            let idle_ns = nand.plane_idle_ns(*plane).max(at_ns);
            (
                has[plane.index()],
                !self.blocks.has_ready(*plane, nand),
                idle_ns,
                Reverse(self.blocks.free_in(*plane)),
            )
        })
    }

    /// A page was programmed into a block of a zone.
    pub fn zone_programmed(&mut self, block: BlockId, summary: PageSummary) {
        self.blocks.programmed(block, summary);
    }

    /// Whether a block is known to be erased.
    pub fn is_erased(&self, block: BlockId) -> bool {
        self.blocks.is_erased(block)
    }

    /// A taken block is erased: it starts afresh. Nothing is programmed there before `ready_ns`, when recovery has room without
    /// it.
    pub fn opened(&mut self, block: BlockId, nand: &mut Nand, ready_ns: Nanoseconds) {
        nand.hold(block, ready_ns);
        self.blocks.begin_anew(block);
        self.partial.retain(|partial| *partial != block);
    }

    /// A block takes no more pages: it may be collected from now on.
    pub fn close(&mut self, block: BlockId, map: &mut Map) {
        self.blocks.set_use(block, BlockUse::Closed);
        map.add_candidate(block);
    }

    /// Nothing in a block is needed any more: it is free, unless it failed a program or keeps lost units. Such a block is out
    /// of use until it is retired, and never opened again. A cut may leave a retired block in use.
    pub fn release(&mut self, block: BlockId, nand: &Nand) {
        if self.failing.contains(&block) {
            self.blocks.set_use(block, BlockUse::Bad);
        } else if self.blocks.block_use(block) != BlockUse::Bad {
            self.blocks.release(self.geometry.plane_of(block), block, nand);
        }
    }

    /// Closes every open block: each stream continues in others, and none in what a cut left partly filled.
    pub fn close_streams(&mut self, map: &mut Map) {
        self.partial.clear();
        for block in self.streams.take_all() {
            self.close(block, map);
        }
    }

    /// Takes a free block that holds old pages, to erase it although nobody opens it.
    pub fn take_stale(&mut self) -> Option<BlockId> {
        let block = self.blocks.stale()?;
        self.blocks.take_block(self.geometry.plane_of(block), block, BlockUse::Open);
        Some(block)
    }

    /// Whether a free block holds old pages.
    pub fn has_stale(&self) -> bool {
        self.blocks.stale().is_some()
    }

    /// Nothing is in a block that was erased: it is free.
    pub fn release_erased(&mut self, block: BlockId, nand: &Nand) {
        self.blocks.release_erased(self.geometry.plane_of(block), block, nand);
    }

    // -- erases -------------------------------------------------------------------------------------------------

    /// Whether a block has marks that no checkpoint covers.
    pub fn is_marked(&self, block: BlockId) -> bool {
        self.blocks.is_marked(block)
    }

    /// When all programs issued before a block was released are done.
    pub fn released_ns(&self, block: BlockId) -> Nanoseconds {
        self.blocks.released_ns(block)
    }

    /// The marks of a block about to be erased have been recorded.
    pub fn clear_marks(&mut self, block: BlockId) {
        self.blocks.clear_marks(block);
    }

    /// A checkpoint covers all marks.
    pub fn clear_all_marks(&mut self) {
        self.blocks.clear_all_marks();
    }

    /// An erase failed: the block is out of use.
    pub fn erase_failed(&mut self, block: BlockId) {
        self.blocks.set_use(block, BlockUse::Bad);
    }

    // -- streams ------------------------------------------------------------------------------------------------

    /// Whether a stream should open another block.
    pub fn wants_block(&self, target: Target) -> bool {
        self.streams.of(target).wants_block()
    }

    /// Whether a stream has an open block.
    pub fn has_open(&self, target: Target) -> bool {
        self.streams.of(target).opened() > 0
    }

    /// Blocks that this many pages take beyond the open ones of their stream.
    pub fn missing_blocks(&self, target: Target, pages: u32, nand: &Nand) -> u32 {
        let left = |block| self.geometry.pages_per_block - nand.next_page(block);
        let open: u32 = self.streams.of(target).blocks().map(left).sum();
        pages.saturating_sub(open).div_ceil(self.geometry.pages_per_block)
    }

    /// The plane on which a stream opens its next block: one of its own with a free block, if possible one that need not wait for
    /// garbage collection; with `elsewhere` any other one.
    pub fn plane_to_open(
        &self,
        target: Target,
        elsewhere: bool,
        nand: &Nand,
        at_ns: Nanoseconds,
    ) -> Option<PlaneId> {
        let has_ready = |plane| self.blocks.has_ready(plane, nand);
        let has_free = |plane| self.blocks.free_in(plane) > 0;
        let stream = self.streams.of(target);
        let own = stream
            .plane_to_open(nand, at_ns, has_ready)
            .or_else(|| stream.plane_to_open(nand, at_ns, has_free));
        if own.is_none() && elsewhere { stream.plane_elsewhere(nand, at_ns, has_free) } else { own }
    }

    /// Gives a stream a block that was opened for it.
    pub fn give(&mut self, target: Target, block: BlockId) {
        self.streams.of_mut(target).add(self.geometry.plane_of(block), block);
    }

    /// Garbage collection continues in a block that a power cut left partly programmed. Otherwise repeated power losses would
    /// leave no free block: each time, garbage collection would lose the rest of the blocks that it writes to. False if there
    /// is none: for handles that are kept apart, one that takes copies of the stream's handle.
    pub fn reopen_for_copies(&mut self, target: Target, map: &mut Map, nand: &Nand) -> bool {
        let Some(block) = self.take_partial(target, nand) else { return false };
        debug_assert!(
            nand.next_page(block) < self.geometry.pages_per_block,
            "block {block} is full and would be written further"
        );
        self.blocks.set_use(block, BlockUse::Open);
        map.remove_candidate(block);
        self.give(target, block);
        true
    }

    /// Whether a block is known to have only units whose spare areas are plain.
    #[inline]
    pub fn is_plain(&self, block: BlockId) -> bool {
        self.blocks.is_plain(block)
    }

    /// Programs the next page of a stream with `program`. None if the program failed: the block
    /// is failing and not opened again, so that whoever tries again comes to an end even if all programs fail.
    ///
    /// # Errors
    /// No block of the stream is open, or what the medium says.
    #[inline]
    pub fn program(
        &mut self,
        target: Target,
        summary: PageSummary,
        (map, nand): (&mut Map, &mut Nand),
        earliest_ns: Nanoseconds,
        program: impl FnOnce(&mut Nand, PageId) -> Result<Nanoseconds, NandError>,
    ) -> Result<Option<(PageId, Nanoseconds)>, FtlError> {
        let stream = self.streams.of_mut(target);
        let Some((plane, place)) = stream.next_page(&self.geometry, nand, earliest_ns) else {
            return Err(FtlError::CapacityExceeded);
        };
        let block = self.geometry.block_of(place);
        match program(nand, place) {
            Ok(done_ns) => {
                self.blocks.programmed(block, summary);
                if nand.next_page(block) == self.geometry.pages_per_block {
                    stream.close(plane);
                    self.close(block, map);
                }
                Ok(Some((place, done_ns)))
            }
            Err(NandError::ProgramFailed { .. }) => {
                stream.close(plane);
                self.close(block, map);
                self.program_failed(block);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The blocks that data streams have open, or may continue in: recovery reads on in them.
    pub fn open_blocks(&self) -> Vec<BlockId> {
        self.streams.blocks().chain(self.partial.iter().copied()).collect()
    }

    /// The stream that takes the records of a namespace.
    pub fn logs_of(&self, namespace: NamespaceId) -> Target {
        if self.streams.logs.contains_key(&namespace) { Target::Logs(namespace) } else { Target::Host }
    }

    /// The stream that takes records of a namespace that garbage collection moves.
    pub fn copies_of(&self, namespace: NamespaceId) -> Target {
        if self.streams.logs.contains_key(&namespace) {
            Target::LogCopies(namespace)
        } else {
            Target::Collect
        }
    }

    /// Namespaces with logs of their own.
    pub fn namespaces_with_logs(&self) -> u32 {
        self.streams.logs.len() as u32
    }

    /// Gives each of these namespaces its dies and the number of blocks that its logs may keep open, which falls as blocks go
    /// bad, down to one.
    ///
    /// A namespace with L logs of its own has one on each of L dies (KAML, sections 3.2.2 and 3.3.3). They are one stream:
    /// a page of records goes to the log whose die is idle first, in turn. If the key determined the log, a page would wait
    /// for a busy die while others are idle, and a `put` of many keys would leave part of a page on each.
    ///
    /// The existing namespaces determine these dies, so they are not stored: in order of creation, each namespace takes the
    /// dies with the fewest logs. Deleting a namespace may therefore move the logs of later ones; what they wrote stays
    /// where it is until it is collected.
    pub fn plan_logs(&mut self, namespaces: impl Iterator<Item = (NamespaceId, u32)>) {
        let mut on_die = vec![0; self.geometry.dies() as usize];
        let mut room = self.layout.log_blocks;
        for (id, logs) in namespaces {
            let mut dies: Vec<usize> = (0..on_die.len()).collect();
            // adjacent numbers are on different channels
            dies.sort_by_key(|die| on_die[*die]);
            dies.truncate(logs as usize);
            if dies.is_empty() {
                continue;
            }
            dies.iter().for_each(|die| on_die[*die] += 1);
            let is_home = |plane: &PlaneId| dies.contains(&self.geometry.die_of(*plane).index());
            let home: Vec<PlaneId> = (0..self.geometry.planes()).map(PlaneId).filter(is_home).collect();
            let width = room.saturating_sub(1).clamp(1, home.len() as u32);
            room = room.saturating_sub(width + 1);
            self.streams.plan_logs(id, &self.geometry, home, width);
        }
    }

    /// A namespace is deleted, and its logs with it. False if it had none; otherwise the others are to be planned anew.
    pub fn drop_logs(&mut self, namespace: NamespaceId, map: &mut Map) -> bool {
        let Some(logs) = self.streams.logs.remove(&namespace) else { return false };
        logs.blocks().for_each(|block| self.close(block, map));
        true
    }

    // -- collection ---------------------------------------------------------------------------------------------

    /// Spare blocks that only garbage collection may use: among them one for the copies of each namespace with logs of its own,
    /// and of each handle that is kept apart.
    pub fn collection_reserve(&self) -> u32 {
        self.reserve_without_logs() + self.namespaces_with_logs()
    }

    /// Those that copies for logs leave to others.
    pub fn reserve_without_logs(&self) -> u32 {
        self.layout.collect_width + 1 + self.streams.isolated_handles()
    }

    /// Streams of copies that are kept apart and have no open block: one that has leaves each of them a free block.
    pub fn copies_without_block(&self) -> u32 {
        self.streams.copies_without_block()
    }

    /// The block to collect next.
    pub fn choose_victim(&self, policy: VictimPolicy, map: &mut Map, now: Seq) -> Option<BlockId> {
        victim::choose(policy, &self.blocks, self.geometry.units_per_block(), map, now)
    }

    /// The planes on which a namespace's logs have no open block and find no free one.
    pub fn full_planes(&self, target: Target) -> Vec<PlaneId> {
        let is_full = |plane: &PlaneId| self.blocks.free_in(*plane) == 0;
        self.streams.of(target).unopened().filter(is_full).collect()
    }

    /// The block of a plane with the fewest valid units, if collecting it frees at least half of it. If more must be
    /// moved, the log is better off on other planes.
    pub fn choose_victim_on(&self, plane: PlaneId, map: &Map) -> Option<BlockId> {
        let first = plane.0 * self.geometry.blocks_per_plane;
        let closed = (first..first + self.geometry.blocks_per_plane)
            .map(BlockId)
            .filter(|block| map.is_candidate(*block));
        let victim = closed.min_by_key(|block| map.valid(*block))?;
        (map.valid(victim) <= self.geometry.units_per_block() / 2).then_some(victim)
    }

    /// A block is being emptied. It cannot become a victim again while its last units wait for a full page, and nothing is moved
    /// into it.
    pub fn begin_collecting(&mut self, victim: BlockId, map: &mut Map) {
        self.blocks.set_use(victim, BlockUse::Open);
        map.remove_candidate(victim);
    }

    /// The block whose data are to be moved after this many erases, because they keep it from wearing (static wear levelling).
    #[inline]
    pub fn next_too_cold(&mut self, erases: u64, spread: u32, nand: &Nand) -> Option<BlockId> {
        self.wear.next(erases, spread, &self.blocks, nand)
    }

    // -- blocks that go bad -------------------------------------------------------------------------------------

    /// A block failed a program: it must be emptied and retired, and is not opened again before.
    pub fn program_failed(&mut self, block: BlockId) {
        self.failing.push(block);
    }

    /// A block that was being emptied keeps only lost units: it is out of use, and retired when this is convenient.
    pub fn keeps_lost_units(&mut self, block: BlockId) {
        self.blocks.set_use(block, BlockUse::Bad);
        self.failing.push(block);
    }

    /// The blocks that must be emptied and retired.
    pub fn failing(&self) -> &[BlockId] {
        &self.failing
    }

    /// A failing block that holds nothing that can be moved.
    pub fn emptied(&self) -> Option<BlockId> {
        let is_emptied = |block: &&BlockId| self.blocks.block_use(**block) == BlockUse::Bad;
        self.failing.iter().rev().find(is_emptied).copied()
    }

    /// Marks a block that is out of use as permanently bad, and plans with the remaining ones. Its contents can still be read.
    /// Returns whether it was good before; then the logs of namespaces are to be planned anew.
    pub fn retire(&mut self, block: BlockId, config: &FtlConfig, nand: &mut Nand) -> Result<bool, FtlError> {
        debug_assert_eq!(self.blocks.block_use(block), BlockUse::Bad, "block {block} is out of use");
        let was_good = !nand.is_bad(block);
        if was_good {
            nand.retire(block)?;
            debug_assert_ne!(self.good_blocks, 0, "a block was retired, and none was left");
            self.good_blocks -= 1;
            self.layout = Layout::with_good_blocks(&self.geometry, config, self.good_blocks);
            self.streams.plan(&self.layout);
        }
        self.failing.retain(|failing| *failing != block);
        Ok(was_good)
    }

    /// Whether a block has failed.
    pub fn has_failed(&self) -> bool {
        self.good_blocks < self.geometry.blocks() || !self.failing.is_empty()
    }

    /// Units of a block are lost.
    pub fn note_loss_in(&mut self, block: BlockId) {
        self.newest_loss = self.newest_loss.max(self.blocks.last_step(block));
    }

    /// Whether units were lost that were programmed after this step, of the last checkpoint: the next one must say where they
    /// are.
    #[inline]
    pub fn has_loss_since(&self, step: Seq) -> bool {
        self.newest_loss > step
    }

    /// The fewest good blocks with which the drive accepts writes: those that every drive needs, plus an open block and
    /// one in reserve for each namespace with its own logs.
    fn least_blocks(&self) -> u32 {
        self.layout.least_blocks + 2 * self.namespaces_with_logs()
    }

    /// Whether too few good blocks are left for writes.
    pub fn is_read_only(&self) -> bool {
        self.exhausted || self.good_blocks < self.least_blocks()
    }

    /// There was no room for something, and no block is left to make room. If some blocks are bad, then it is not the
    /// host's data that fill the flash: the drive is at the end of its life, even if more good blocks than the minimum
    /// hold data. This happens when all blocks wear out together.
    pub fn note_exhaustion(&mut self) {
        self.exhausted |= self.good_blocks < self.geometry.blocks();
    }

    /// Whether the drive reached the end of its life because its last free blocks failed.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Spare blocks in SMART's sense: those that may still fail.
    pub fn spare_good_blocks(&self) -> SpareBlocks {
        let available = if self.exhausted { 0 } else { self.good_blocks };
        SpareBlocks {
            available: available.saturating_sub(self.least_blocks()),
            total: self.geometry.blocks().saturating_sub(self.least_blocks()),
        }
    }

    // -- recovery -----------------------------------------------------------------------------------------------

    /// Recovery found these blocks of the metadata log, and data where the map says: none of them is free.
    pub fn found(&mut self, uses: BTreeMap<BlockId, BlockUse>, exhausted: bool, map: &mut Map) {
        self.exhausted = exhausted;
        for (block, block_use) in uses {
            if self.blocks.block_use(block) == BlockUse::Free {
                self.blocks.take_block(self.geometry.plane_of(block), block, block_use);
            }
        }
        for block in (0..self.geometry.blocks()).map(BlockId) {
            if map.valid(block) > 0 && self.blocks.block_use(block) == BlockUse::Free {
                self.blocks.take_block(self.geometry.plane_of(block), block, BlockUse::Open);
                self.close(block, map);
            }
        }
    }

    /// Finds the partly filled blocks, only among those that the last checkpoint names if there will be no new one.
    pub fn find_partial(&mut self, nand: &Nand, named: Option<&[BlockId]>) {
        let pages = self.geometry.pages_per_block;
        let closed = self.blocks.with_use(BlockUse::Closed).filter(|block| nand.next_page(*block) < pages);
        self.partial = closed.filter(|block| named.is_none_or(|named| named.contains(block))).collect();
        self.partial.sort_by_key(|block| Reverse(nand.next_page(*block)));
        if self.layout.isolates {
            return self.keep_partial_by_handle(nand);
        }
        let first = self.partial.len().saturating_sub(PARTIAL_BLOCKS);
        self.partial.drain(..first);
    }

    /// Keeps those with the most room, and of each handle at least one: copies of another handle are no use of it.
    fn keep_partial_by_handle(&mut self, nand: &Nand) {
        let (mut seen, mut kept) = ([false; Handle::MOST as usize], 0);
        let mut is_kept = |block: &BlockId| {
            let is_first = match handles_in(*block, nand) {
                HandlesIn::Several => return false,
                HandlesIn::None => false,
                HandlesIn::One(handle) => !std::mem::replace(&mut seen[handle.index() % seen.len()], true),
            };
            kept += 1;
            is_first || kept <= PARTIAL_BLOCKS
        };
        let mut partial: Vec<BlockId> =
            self.partial.iter().rev().copied().filter(|block| is_kept(block)).collect();
        partial.reverse();
        self.partial = partial;
    }

    /// The one of them with the most room that takes copies of this stream.
    fn take_partial(&mut self, target: Target, nand: &Nand) -> Option<BlockId> {
        let isolates = self.layout.isolates;
        let fits = |block: &BlockId| {
            let leaves_room = || handles_in(*block, nand).leaves_room_for(target.handle());
            !isolates || guard!(PartialTakesAnyHandle, leaves_room())
        };
        while let Some(last) = self.partial.iter().rposition(fits) {
            let block = self.partial.remove(last);
            // neither a victim nor a block that is to be retired
            if self.blocks.block_use(block) == BlockUse::Closed && !self.failing.contains(&block) {
                return Some(block);
            }
        }
        None
    }

    /// A block that is in use, or known to be free, has marks that no checkpoint covers: recovery found them.
    pub fn mark(&mut self, block: BlockId) {
        self.blocks.mark(block);
    }

    /// Whether the meaning of the marks is still only on flash: until recovery's checkpoint stands. Then marked blocks are opened
    /// last.
    pub fn set_recovering(&mut self, is_recovering: bool) {
        self.blocks.recovering = is_recovering;
    }
}

/// For tests that bring blocks about.
#[cfg(test)]
impl Space {
    /// The blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The blocks, to change them.
    pub fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    /// A stream.
    pub fn stream(&self, target: Target) -> &Stream {
        self.streams.of(target)
    }

    /// A stream, to change it.
    pub fn stream_mut(&mut self, target: Target) -> &mut Stream {
        self.streams.of_mut(target)
    }

    /// The plan, to change it.
    pub fn layout_mut(&mut self) -> &mut Layout {
        &mut self.layout
    }
}

/// Blocks that are retired.
pub fn bad_blocks(nand: &Nand) -> u32 {
    (0..nand.geometry().blocks()).filter(|block| nand.is_bad(BlockId(*block))).count() as u32
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Scheduling, Source};

    use super::*;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    /// A drive with closed blocks, in each of which this many of four pages are programmed.
    fn space(pages: &[u32]) -> (Nand, Space) {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let layout = Layout::with_good_blocks(&GEOMETRY, &CONFIG, GEOMETRY.blocks());
        let mut space = Space::new(&nand, layout, true);
        for (block, pages) in (0..).map(BlockId).zip(pages) {
            space.blocks.take_block(GEOMETRY.plane_of(block), block, BlockUse::Closed);
            for index in 0..*pages {
                let page = GEOMETRY.page(block, index);
                nand.program(page, &[Source::Padding; 2], &[[0; _]; 2], 0).unwrap();
            }
        }
        (nand, space)
    }

    #[test]
    fn of_partial_blocks_the_one_with_the_most_room_is_taken_first() {
        let (nand, mut space) = space(&[3, 4, 1, 2]);
        space.find_partial(&nand, None);
        assert_eq!(
            [(); 4].map(|()| space.take_partial(Target::Collect, &nand)),
            [Some(BlockId(2)), Some(BlockId(3)), Some(BlockId(0)), None]
        );
    }

    /// Recovery does not read what is programmed into others.
    #[test]
    fn without_a_new_checkpoint_only_blocks_that_the_last_one_names_are_partial() {
        let (nand, mut space) = space(&[3, 4, 1, 2]);
        space.find_partial(&nand, Some(&[BlockId(0), BlockId(1)]));
        assert_eq!(space.partial, [BlockId(0)]);
    }

    #[test]
    fn victims_blocks_that_failed_and_blocks_that_begin_anew_are_not_taken() {
        let (mut nand, mut space) = space(&[1, 1, 1, 1]);
        space.find_partial(&nand, None);
        space.blocks.set_use(BlockId(0), BlockUse::Open);
        space.failing.push(BlockId(1));
        space.opened(BlockId(2), &mut nand, 0);
        assert_eq!([(); 2].map(|()| space.take_partial(Target::Collect, &nand)), [Some(BlockId(3)), None]);
    }

    /// Until then a cut may undo the erase, and bring back what the block held.
    #[test]
    fn a_block_that_was_erased_ahead_is_ready_when_the_erase_is_over() {
        let (mut nand, mut space) = space(&[1]);
        nand.set_scheduling(Scheduling::ReadFirst);
        let begun_ns = nand.programs_done_ns();
        let done_ns = nand.erase(BlockId(0), begun_ns).unwrap();
        space.release_erased(BlockId(0), &nand);
        assert_eq!(space.ready_ns(space.free_blocks(), &nand), done_ns);
        assert_eq!(done_ns, begun_ns + TIMING.erase_ns);
    }

    #[test]
    fn few_partial_blocks_are_remembered() {
        let mut pages = [2; PARTIAL_BLOCKS + 2];
        pages[0] = 3;
        pages[1] = 1;
        let (nand, mut space) = space(&pages);
        space.find_partial(&nand, None);
        assert_eq!(space.partial.len(), PARTIAL_BLOCKS);
        assert!(space.partial.contains(&BlockId(1)) && !space.partial.contains(&BlockId(0)));
    }
}
