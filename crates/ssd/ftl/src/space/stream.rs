//! A stream: a log with one open block for each of several planes; and all streams of a drive.
//!
//! The next page goes to the first plane that is idle, in turn, or to the one of the next few that is idle first.

use std::collections::BTreeMap;

use tantalum_nand::{BlockId, Geometry, Nand, Nanoseconds, PageId, PlaneId};

use super::layout::Layout;
use crate::key::NamespaceId;

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
        }
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
    }

    /// The open blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.open.iter().map(|(_, block)| *block)
    }

    /// How many blocks are open.
    pub fn opened(&self) -> u32 {
        self.open.len() as u32
    }

    /// Whether another block should be opened.
    pub fn wants_block(&self) -> bool {
        self.opened() < self.width
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
        Some(self.open.remove(position).1)
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
}

impl Streams {
    /// The streams that every drive has.
    pub fn new(geometry: &Geometry, layout: &Layout) -> Streams {
        Streams {
            host: Stream::new(geometry, layout.host_width),
            collect: Stream::new(geometry, layout.collect_width),
            logs: BTreeMap::new(),
        }
    }

    /// The stream that takes a page.
    pub fn of(&self, target: Target) -> &Stream {
        match target {
            Target::Host => &self.host,
            Target::Collect => &self.collect,
            Target::Logs(namespace) | Target::LogCopies(namespace) => &self.logs[&namespace],
        }
    }

    /// The same, mutable.
    pub fn of_mut(&mut self, target: Target) -> &mut Stream {
        match target {
            Target::Host => &mut self.host,
            Target::Collect => &mut self.collect,
            Target::Logs(namespace) | Target::LogCopies(namespace) => {
                self.logs.get_mut(&namespace).expect("the namespace has logs of its own")
            }
        }
    }

    /// A namespace with logs of its own has them on these planes, where they may keep this many blocks open.
    pub fn plan_logs(&mut self, namespace: NamespaceId, geometry: &Geometry, home: Vec<PlaneId>, width: u32) {
        let logs = self.logs.entry(namespace);
        logs.or_insert_with(|| Stream::new(geometry, width)).set_home(home, width);
    }

    /// The open blocks of all.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        let logs = self.logs.values().flat_map(Stream::blocks);
        self.host.blocks().chain(self.collect.blocks()).chain(logs)
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
