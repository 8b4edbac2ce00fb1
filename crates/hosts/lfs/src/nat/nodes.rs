//! Nodes in memory: read when needed, changed there, and written to the log by a sync or a checkpoint.
//!
//! Invariants:
//! - A node is in use if the table has a place for it, or [`NEW`]: then it is in memory only, and space is reserved.

use tantalum::Lpn;
use tantalum_filesystem::{Errno, FileId};

use super::Nat;
use super::heads::{COLD_NODES, FILE_NODES, FOLDER_NODES};
use super::node::{Level, Node, OF_FOLDER};
use super::summary::NODE;
use crate::error::{Damage, LfsError, Result, refuse};
use crate::node_cache::CachedNode;
use crate::segments::Log;

/// The place of a node that has never been written.
pub(super) const NEW: u32 = u32::MAX;

impl CachedNode for Node {
    type Number = u32;
    /// A file's nodes are adjacent.
    type Order = (FileId, u32);

    fn number(&self) -> u32 {
        self.number()
    }

    fn order(&self) -> (FileId, u32) {
        (self.file(), self.number())
    }
}

impl Nat {
    /// A node that is in use.
    pub(super) fn node(&mut self, log: &mut Log, number: u32) -> Result<&Node> {
        self.load(log, number)?;
        Ok(self.nodes.get(number))
    }

    /// The changed nodes of a file.
    pub(super) fn changed_of(&self, file: FileId) -> Vec<u32> {
        let of_file = self.nodes.changed().range((file, 0)..=(file, u32::MAX));
        of_file.map(|(_, number)| *number).collect()
    }

    /// A node that is in use, mutable.
    pub(super) fn node_mut(&mut self, log: &mut Log, number: u32) -> Result<&mut Node> {
        self.load(log, number)?;
        Ok(self.nodes.change(number))
    }

    fn load(&mut self, log: &mut Log, number: u32) -> Result<()> {
        if self.nodes.contains(number) {
            return Ok(());
        }
        let lpn = self.place_of(log, number)?;
        let node = read_node(log, lpn)?;
        if node.number() != number {
            let damage = Damage::OtherNode { found: node.number(), expected: number };
            return Err(LfsError::Damaged { lpn, damage });
        }
        self.nodes.insert(node, false);
        Ok(())
    }

    /// Where a node that is not in memory is.
    fn place_of(&mut self, log: &mut Log, number: u32) -> Result<Lpn> {
        let [place, _] = self.entry(log, number)?;
        if log.segments.find(Lpn(place)).is_none() {
            let damage = Damage::Beyond {
                what: "the place of a node",
                value: u64::from(place),
                most: log.segments.first_lpn(log.segments.count()).0.into(),
            };
            return Err(LfsError::Damaged { lpn: self.layout.node_table, damage });
        }
        Ok(Lpn(place))
    }

    /// The place of a node and its file; zeros if the number is not in use.
    pub(super) fn entry(&mut self, log: &mut Log, number: u32) -> Result<[u32; 2]> {
        if number == 0 || number >= self.layout.nodes {
            let damage = Damage::Beyond {
                what: "the number of a node",
                value: u64::from(number),
                most: u64::from(self.layout.nodes) - 1,
            };
            return Err(LfsError::Damaged { lpn: self.layout.node_table, damage });
        }
        self.places.get(log, number)
    }

    /// A new node, empty. With `file`, a node of that file; without, the inode of a new one.
    pub(super) fn new_node(
        &mut self,
        log: &mut Log,
        file: Option<FileId>,
        first: u32,
        level: Level,
        is_folder: bool,
    ) -> Result<u32> {
        let number = self.free_number(log)?;
        self.use_number(log, number, file.unwrap_or(FileId(number)), first, level, is_folder)?;
        Ok(number)
    }

    /// A new node with a number that is not in use.
    pub(super) fn use_number(
        &mut self,
        log: &mut Log,
        number: u32,
        file: FileId,
        first: u32,
        level: Level,
        is_folder: bool,
    ) -> Result<()> {
        match self.is_recovering {
            true => log.segments.reserve_anyway(),
            false => log.segments.reserve()?,
        }
        debug_assert_eq!(
            self.places.get(log, number),
            Ok([0, 0]),
            "node {number} is made for file {file}, and is in use"
        );
        self.places.set(log, number, [NEW, file.0])?;
        // Numbers are issued in turn, so that one that was given up is not reused soon.
        self.last_node = number;
        self.nodes_in_use += 1;
        self.nodes.insert(Node::new(number, file, first, level, is_folder), true);
        Ok(())
    }

    fn free_number(&mut self, log: &mut Log) -> Result<u32> {
        let nodes = self.layout.nodes;
        if self.nodes_in_use + 1 >= nodes {
            return refuse(Errno::ENOSPC);
        }
        let mut number = self.last_node;
        for _ in 0..nodes {
            number = if number + 1 >= nodes { 1 } else { number + 1 };
            if self.places.get(log, number)? == [0, 0] {
                return Ok(number);
            }
        }
        refuse(Errno::ENOSPC)
    }

    /// Gives up a node whose pointers are already void.
    pub(super) fn free_node(&mut self, log: &mut Log, number: u32) -> Result<()> {
        let [place, _] = self.entry(log, number)?;
        match place {
            NEW => log.segments.unreserve(),
            lpn => log.segments.release(Lpn(lpn))?,
        }
        self.places.set(log, number, [0, 0])?;
        self.nodes_in_use -= 1;
        self.freed.insert(number);
        self.nodes.remove(number);
        Ok(())
    }

    /// Appends a changed node to its log.
    pub(super) fn append_node(&mut self, log: &mut Log, number: u32, is_synced: bool) -> Result<()> {
        let node = self.node(log, number)?;
        let (head, file) = (head_of(node), node.file());
        let place = log.allocate(head)?;
        let version = self.version;
        assert!(
            self.nodes.is_changed(number),
            "node {number} of file {file} goes to unit {}, but does not differ",
            place.lpn
        );
        let node = self.node_mut(log, number)?;
        node.seal(version, place.next, is_synced);
        log.fill(head, place.lpn, &node.page)?;
        log.written.nodes += 1;
        self.summaries.begin(log, place.lpn);
        self.summaries.set(log, place.lpn, (number, NODE))?;
        self.move_node(log, number, file, place.lpn)?;
        self.nodes.mark_clean(number);
        Ok(())
    }

    /// A node is now elsewhere.
    pub(super) fn move_node(&mut self, log: &mut Log, number: u32, file: FileId, to: Lpn) -> Result<()> {
        match self.entry(log, number)?[0] {
            NEW => log.segments.unreserve(),
            old => log.segments.release(Lpn(old))?,
        }
        log.segments.add(to)?;
        self.places.set(log, number, [to.0, file.0])
    }
}

/// The log head that writes a node.
fn head_of(node: &Node) -> usize {
    match node.level() {
        Level::Indirect | Level::DoubleIndirect => COLD_NODES,
        _ if node.flags() & OF_FOLDER != 0 => FOLDER_NODES,
        _ => FILE_NODES,
    }
}

/// Reads a node.
pub(super) fn read_node(log: &mut Log, lpn: Lpn) -> Result<Node> {
    let mut page = crate::bytes::zeros();
    log.read(lpn, &mut page[..])?;
    Node::parse(page).map_err(|damage| LfsError::Damaged { lpn, damage })
}
