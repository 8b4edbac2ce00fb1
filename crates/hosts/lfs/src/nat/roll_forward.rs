//! Rolling forward: recovers what was synced since the last checkpoint.
//!
//! Nodes of files are chained: each says where the next one was to be written. The chain ends where there is no
//! complete node of the same checkpoint. For each file, the nodes up to the last one that ended a sync count.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_filesystem::FileId;

use super::Nat;
use super::heads::FILE_NODES;
use super::node::{Level, Node, OF_FOLDER, SYNCED, decode_pointer};
use super::nodes::read_node;
use super::pack::Pack;
use crate::error::{LfsError, Result};
use crate::index::{BlockPointer, Index};
use crate::inode::INODE_BYTES;
use crate::segments::Log;

impl Nat {
    /// Applies the chain after a pack. Returns the files that the pack does not have.
    pub(super) fn roll_forward(&mut self, log: &mut Log, pack: &Pack) -> Result<Vec<FileId>> {
        self.is_recovering = true;
        let chain = self.read_chain(log, pack)?;
        let mut ends = BTreeMap::new();
        for (index, node) in chain.iter().enumerate().filter(|(_, node)| node.flags() & SYNCED != 0) {
            ends.insert(node.file(), index);
        }
        let is_synced =
            |(index, node): &(usize, &Node)| ends.get(&node.file()).is_some_and(|end| index <= end);
        let synced: Vec<&Node> = chain.iter().enumerate().filter(is_synced).map(|(_, node)| node).collect();
        assert!(
            synced.len() <= chain.len() && ends.len() <= synced.len(),
            "{} files end {} of {} nodes of the chain",
            ends.len(),
            synced.len(),
            chain.len()
        );
        let mut nameless = BTreeSet::new();
        // Files come first: a node that recovery rebuilds must not take the number of a file.
        for node in synced.iter().filter(|node| node.level() == Level::Inode) {
            self.use_file_number(log, node, &mut nameless)?;
        }
        for node in synced {
            self.apply(log, node)?;
        }
        Ok(nameless.into_iter().collect())
    }

    fn use_file_number(&mut self, log: &mut Log, node: &Node, nameless: &mut BTreeSet<FileId>) -> Result<()> {
        let file = node.file();
        if self.entry(log, file.0)? == [0, 0] {
            self.use_number(log, file.0, file, 0, Level::Inode, node.flags() & OF_FOLDER != 0)?;
            self.files += 1;
            nameless.insert(file);
        }
        Ok(())
    }

    fn read_chain(&mut self, log: &mut Log, pack: &Pack) -> Result<Vec<Node>> {
        let position = pack.heads[FILE_NODES];
        let units = log.segments.units();
        let segment = if position.used < units { position.segment } else { position.following };
        let used = if position.used < units { position.used } else { 0 };
        let mut chain = Vec::new();
        let Some(segment) = segment else { return Ok(chain) };
        let mut lpn = tantalum::Lpn(log.segments.first_lpn(segment).0 + used);
        let most = u64::from(units) * u64::from(log.segments.count());
        while let Some(segment) = log.segments.find(lpn).filter(|_| (chain.len() as u64) < most) {
            // A second recovery reads the same chain, so this one must not write there.
            log.segments.hold(segment);
            let node = match read_node(log, lpn) {
                Ok(node) => node,
                Err(LfsError::Damaged { .. }) => break,
                Err(error) => return Err(error),
            };
            let is_known = (1..self.layout().nodes).contains(&node.file().0);
            if node.version() != pack.version || !is_known {
                break;
            }
            lpn = node.next();
            chain.push(node);
        }
        Ok(chain)
    }

    fn apply(&mut self, log: &mut Log, node: &Node) -> Result<()> {
        let file = node.file();
        if self.entry(log, file.0)? == [0, 0] {
            return Ok(()); // a node without its inode
        }
        if node.level() == Level::Inode {
            let inode = self.node_mut(log, file.0)?;
            inode.page[..INODE_BYTES].copy_from_slice(&node.page[..INODE_BYTES]);
        }
        for index in node.unit_pointers() {
            let (unit, pointer) = (node.unit_of(index), decode_pointer(node.pointer(index)));
            let in_log = match pointer {
                BlockPointer::At(lpn) => log.segments.find(lpn).is_some(),
                _ => true,
            };
            if in_log && self.pointer(log, file, unit)? != pointer {
                self.set_pointer(log, file, unit, pointer)?;
            }
        }
        Ok(())
    }
}
