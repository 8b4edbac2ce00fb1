//! A stream: a log with one open block for each of several planes; and all streams of a drive.
//!
//! The next page goes to the first plane that is idle, in turn, or to the one of the next few that is idle first.

use std::collections::BTreeMap;

use tantalum_nand::{BlockId, Geometry, Nand, Nanoseconds, PageId, PlaneId};

use super::layout::Layout;
use crate::key::NamespaceId;
use crate::placement::Handle;

/// The stream that a page goes to, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Host data, and records of namespaces without logs of their own.
    Host,
    /// What garbage collection moves.
    Collect,
    /// Records for a namespace's own logs.
    Logs(NamespaceId),
    /// The same, moved by garbage collection: blocks for them come from the reserve.
    LogCopies(NamespaceId),
    /// What the host places with a handle other than the first.
    Handle(Handle),
    /// The same, moved by garbage collection that keeps handles apart: blocks for them come from the reserve.
    HandleCopies(Handle),
}

impl Target {
    /// The stream of what the host places with a handle.
    #[inline]
    pub fn of(handle: Handle) -> Target {
        if handle == Handle::DEFAULT { Target::Host } else { Target::Handle(handle) }
    }

    /// The stream of copies of what was placed with a handle, if handles are kept apart.
    pub fn of_copies(handle: Handle) -> Target {
        if handle == Handle::DEFAULT { Target::Collect } else { Target::HandleCopies(handle) }
    }

    /// The handle of the units that it takes, if handles are kept apart.
    pub fn handle(self) -> Handle {
        match self {
            Target::Handle(handle) | Target::HandleCopies(handle) => handle,
            Target::Host | Target::Collect | Target::Logs(_) | Target::LogCopies(_) => Handle::DEFAULT,
        }
    }

    /// Whether garbage collection writes to it, so that no host waits.
    #[inline]
    pub fn takes_copies(self) -> bool {
        match self {
            Target::Host | Target::Logs(_) | Target::Handle(_) => false,
            Target::Collect | Target::LogCopies(_) | Target::HandleCopies(_) => true,
        }
    }
}

/// The open blocks of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// In the order of their planes, at most one each.
    open: Vec<(PlaneId, BlockId)>,
    /// The planes on which blocks are opened, in order.
    home: Vec<PlaneId>,
    planes: u32,
    width: u32,
    /// The plane that is next in turn.
    cursor: u32,
    /// The reclaim unit that it fills, if its host is told of these.
    reclaim: Option<ReclaimUnit>,
}

/// A reclaim unit: as many blocks as its stream is wide, which are opened one after the other and filled together.
#[derive(Clone, Copy, Debug, Default)]
struct ReclaimUnit {
    /// Its blocks so far, open or full.
    begun: u32,
    /// Whether the one before it was filled, and nobody was told yet.
    is_news: bool,
}

impl Stream {
    /// A stream over all planes that keeps at most `width` blocks open.
    pub fn new(geometry: &Geometry, width: u32) -> Stream {
        let planes = geometry.planes();
        Stream {
            open: Vec::with_capacity(width as usize),
            home: (0..planes).map(PlaneId).collect(),
            planes,
            width,
            cursor: 0,
            reclaim: None,
        }
    }

    /// The same for a handle of the host: it fills a reclaim unit before it begins the next.
    pub fn of_reclaim_units(geometry: &Geometry, width: u32) -> Stream {
        Stream { reclaim: Some(ReclaimUnit::default()), ..Stream::new(geometry, width) }
    }

    /// From now on blocks are opened on these planes, given in order, and at most `width` of them; open ones stay open
    /// until they are full.
    pub fn set_home(&mut self, home: Vec<PlaneId>, width: u32) {
        debug_assert!(home.is_sorted_by(|one, other| one.0 < other.0), "planes {home:?} are not in order");
        (self.home, self.width) = (home, width);
    }

    /// From now on at most `width` blocks are opened; open ones stay open until they are full.
    pub fn set_width(&mut self, width: u32) {
        self.width = width;
        self.end_filled();
    }

    /// Gives up all open blocks; a reclaim unit ends with them.
    pub fn take_all(&mut self) -> impl Iterator<Item = BlockId> + '_ {
        self.reclaim.iter_mut().for_each(|unit| unit.begun = 0);
        self.open.drain(..).map(|(_, block)| block)
    }

    /// The open blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.open.iter().map(|(_, block)| *block)
    }

    /// The number of blocks that it may keep open, and that a reclaim unit has.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// How many blocks are open.
    pub fn opened(&self) -> u32 {
        self.open.len() as u32
    }

    /// Whether another block should be opened.
    pub fn wants_block(&self) -> bool {
        match self.reclaim {
            None => self.opened() < self.width,
            Some(unit) => unit.begun < self.width,
        }
    }

    /// Blocks of its reclaim unit that are not opened yet.
    pub fn unbegun(&self) -> u32 {
        self.reclaim.map_or(0, |unit| self.width.saturating_sub(unit.begun))
    }

    /// Whether a reclaim unit was filled since the last call.
    pub fn take_filled(&mut self) -> bool {
        self.reclaim.as_mut().is_some_and(|unit| std::mem::take(&mut unit.is_news))
    }

    /// Begins the next reclaim unit, once no block is open.
    pub fn begin_reclaim_unit(&mut self) {
        debug_assert!(self.open.is_empty(), "{} blocks of a reclaim unit are open", self.open.len());
        self.reclaim = self.reclaim.map(|_| ReclaimUnit::default());
    }

    /// The position of a plane's block among the open ones, or where it would be.
    fn position(&self, plane: PlaneId) -> Result<usize, usize> {
        self.open.binary_search_by_key(&plane, |(plane, _)| *plane)
    }

    /// Its planes without an open block.
    pub fn unopened(&self) -> impl Iterator<Item = PlaneId> + '_ {
        self.home.iter().copied().filter(|plane| self.position(*plane).is_err())
    }

    /// Among its planes with a free block, the one on which to open the next.
    pub fn plane_to_open(
        &self,
        nand: &Nand,
        at_ns: Nanoseconds,
        has_free: impl Fn(PlaneId) -> bool,
    ) -> Option<PlaneId> {
        let turn = self.home.partition_point(|plane| plane.0 < self.cursor);
        let in_turn = self.home[turn..].iter().chain(&self.home[..turn]).copied();
        self.first_to_open(nand, at_ns, has_free, in_turn)
    }

    /// The same for all planes of the drive.
    pub fn plane_elsewhere(
        &self,
        nand: &Nand,
        at_ns: Nanoseconds,
        has_free: impl Fn(PlaneId) -> bool,
    ) -> Option<PlaneId> {
        let in_turn = (self.cursor..self.planes).chain(0..self.cursor).map(PlaneId);
        self.first_to_open(nand, at_ns, has_free, in_turn)
    }

    fn first_to_open(
        &self,
        nand: &Nand,
        at_ns: Nanoseconds,
        has_free: impl Fn(PlaneId) -> bool,
        in_turn: impl Iterator<Item = PlaneId>,
    ) -> Option<PlaneId> {
        // few planes have a free block
        let can_open = in_turn.filter(|plane| has_free(*plane) && self.position(*plane).is_err());
        first_idle(nand, at_ns, can_open.map(|plane| (plane, None, plane)))
    }

    /// Takes an erased block.
    pub fn add(&mut self, plane: PlaneId, block: BlockId) {
        debug_assert!(plane.0 < self.planes, "plane {plane} of {}", self.planes);
        let Err(position) = self.position(plane) else { panic!("plane {plane} has an open block already") };
        self.open.insert(position, (plane, block));
        if let Some(unit) = &mut self.reclaim {
            unit.begun += 1;
        }
    }

    /// The page to program next; `None` if no block is open.
    pub fn next_page(
        &mut self,
        geometry: &Geometry,
        nand: &Nand,
        at_ns: Nanoseconds,
    ) -> Option<(PlaneId, PageId)> {
        let turn = self.open.partition_point(|(plane, _)| plane.0 < self.cursor);
        let in_turn = self.open[turn..].iter().chain(&self.open[..turn]);
        let (plane, block) = first_idle(nand, at_ns, in_turn.map(|open| (open.0, Some(open.1), *open)))?;
        self.cursor = if plane.0 + 1 == self.planes { 0 } else { plane.0 + 1 };
        let next_page = nand.next_page(block);
        debug_assert!(next_page < geometry.pages_per_block, "open block {block} is full");
        Some((plane, geometry.page(block, next_page)))
    }

    /// Removes a plane's block, full or failed.
    pub fn close(&mut self, plane: PlaneId) -> Option<BlockId> {
        let position = self.position(plane).ok()?;
        let block = self.open.remove(position).1;
        self.end_filled();
        Some(block)
    }

    /// A reclaim unit ends when all blocks that it has are full, also if it was to have more before blocks failed.
    fn end_filled(&mut self) {
        if let Some(unit) = &mut self.reclaim
            && self.open.is_empty()
            && unit.begun > 0
            && unit.begun >= self.width
        {
            *unit = ReclaimUnit { begun: 0, is_news: true };
        }
    }
}

/// All streams of a drive.
#[derive(Clone, Debug)]
pub struct Streams {
    /// What the host writes, and the records of namespaces without logs of their own.
    pub host: Stream,
    /// What garbage collection moves.
    pub collect: Stream,
    /// The logs of each namespace that has its own: one stream, with a log on each of its dies.
    pub logs: BTreeMap<NamespaceId, Stream>,
    /// Those of the host's other handles, from handle 1 on.
    handles: Vec<Stream>,
    /// What garbage collection moves of these, if handles are kept apart.
    handle_copies: Vec<Stream>,
}

impl Streams {
    /// The streams that the drive has by itself.
    pub fn new(geometry: &Geometry, layout: &Layout) -> Streams {
        let new = if layout.handles > 0 { Stream::of_reclaim_units } else { Stream::new };
        let others = layout.handles.saturating_sub(1) as usize;
        let isolated = if layout.isolates { others } else { 0 };
        Streams {
            host: new(geometry, layout.host_width),
            collect: Stream::new(geometry, layout.collect_width),
            logs: BTreeMap::new(),
            handles: vec![new(geometry, layout.host_width); others],
            handle_copies: vec![Stream::new(geometry, layout.collect_width); isolated],
        }
    }

    /// A plan with fewer good blocks.
    pub fn plan(&mut self, layout: &Layout) {
        let of_hosts = self.handles.iter_mut().chain([&mut self.host]);
        of_hosts.for_each(|stream| stream.set_width(layout.host_width));
        let of_copies = self.handle_copies.iter_mut().chain([&mut self.collect]);
        of_copies.for_each(|stream| stream.set_width(layout.collect_width));
    }

    /// Streams of copies that are kept apart and have no open block: each may need one.
    pub fn copies_without_block(&self) -> u32 {
        if self.handle_copies.is_empty() {
            return 0;
        }
        let copies = self.handle_copies.iter().chain([&self.collect]);
        copies.filter(|stream| stream.opened() == 0).count() as u32
    }

    /// Handles whose copies have streams of their own.
    pub fn isolated_handles(&self) -> u32 {
        self.handle_copies.len() as u32
    }

    /// The stream that takes a page.
    #[inline]
    pub fn of(&self, target: Target) -> &Stream {
        match target {
            Target::Host => &self.host,
            Target::Collect => &self.collect,
            Target::Logs(namespace) | Target::LogCopies(namespace) => &self.logs[&namespace],
            Target::Handle(_) | Target::HandleCopies(_) => self.of_handle(target),
        }
    }

    /// The same, mutable.
    #[inline]
    pub fn of_mut(&mut self, target: Target) -> &mut Stream {
        match target {
            Target::Host => &mut self.host,
            Target::Collect => &mut self.collect,
            Target::Logs(namespace) | Target::LogCopies(namespace) => {
                self.logs.get_mut(&namespace).expect("the namespace has logs of its own")
            }
            Target::Handle(_) | Target::HandleCopies(_) => self.of_handle_mut(target),
        }
    }

    /// The stream of a handle other than the first. Out of line, for those who have none.
    #[inline(never)]
    fn of_handle(&self, target: Target) -> &Stream {
        let streams = if target.takes_copies() { &self.handle_copies } else { &self.handles };
        &streams[target.handle().index() - 1]
    }

    #[inline(never)]
    fn of_handle_mut(&mut self, target: Target) -> &mut Stream {
        let streams = if target.takes_copies() { &mut self.handle_copies } else { &mut self.handles };
        &mut streams[target.handle().index() - 1]
    }

    /// A namespace with logs of its own has them on these planes, where they may keep this many blocks open.
    pub fn plan_logs(&mut self, namespace: NamespaceId, geometry: &Geometry, home: Vec<PlaneId>, width: u32) {
        let logs = self.logs.entry(namespace);
        logs.or_insert_with(|| Stream::new(geometry, width)).set_home(home, width);
    }

    /// Gives up all open blocks.
    pub fn take_all(&mut self) -> Vec<BlockId> {
        let others = self.logs.values_mut().chain(&mut self.handles).chain(&mut self.handle_copies);
        self.host.take_all().chain(self.collect.take_all()).chain(others.flat_map(Stream::take_all)).collect()
    }

    /// The open blocks of all.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let others = self.logs.values().chain(&self.handles).chain(&self.handle_copies);
        self.host.blocks().chain(self.collect.blocks()).chain(others.flat_map(Stream::blocks))
    }
}

/// Planes examined for an idle one. More make no noticeable difference, and cost time on drives with many.
const PLANES_TRIED: usize = 4;

/// Among the next planes in turn, the first that is idle at `at_ns`, or else the one that is idle first.
fn first_idle<T>(
    nand: &Nand,
    at_ns: Nanoseconds,
    planes: impl Iterator<Item = (PlaneId, Option<BlockId>, T)>,
) -> Option<T> {
    let (mut best, mut best_ns) = (None, Nanoseconds::MAX);
    for (plane, block, with) in planes.take(PLANES_TRIED) {
        if let Some(idle_ns) = nand.plane_ready_before(plane, block, at_ns, best_ns) {
            (best, best_ns) = (Some(with), idle_ns);
            if idle_ns <= at_ns {
                break;
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::GEOMETRY;

    /// The drive had room for one of its two blocks; then another block failed, and all streams became narrower.
    #[test]
    fn a_reclaim_unit_of_which_all_blocks_are_full_ends_when_no_further_one_fits() {
        let mut stream = Stream::of_reclaim_units(&GEOMETRY, 2);
        stream.add(PlaneId(0), BlockId(0));
        stream.close(PlaneId(0));
        assert!(stream.wants_block() && !stream.take_filled());
        stream.set_width(1);
        assert!(stream.wants_block() && stream.take_filled());
        stream.add(PlaneId(0), BlockId(2));
        assert!(!stream.wants_block());
        stream.set_width(0);
        assert!(!stream.wants_block() && !stream.take_filled(), "one is open");
    }
}
