//! The chain: nodes of files that were synced since the last checkpoint, each of which says where the next one is. A mount
//! rolls forward along it ([`super::roll_forward`]).

use tantalum_canaries::guard;
use tantalum_filesystem::FileId;

use super::Nat;
use super::heads::FILE_NODES;
use super::node::Level;
use crate::error::Result;
use crate::index::Synced;
use crate::segments::Log;

/// Segments of chained nodes that a mount may have to read.
const MOST_SEGMENTS: u64 = 16;

impl Nat {
    /// Writes the changed nodes of files that the chain needs, in the order of the files; for each file the inode
    /// first, so that recovery has it before what it leads to.
    pub(super) fn chain(&mut self, log: &mut Log, files: &[FileId]) -> Result<Synced> {
        if files.iter().any(|file| self.lost_nodes.contains(file) || self.freed.contains(&file.0)) {
            return Ok(Synced::NeedsCheckpoint);
        }
        let mut chained = Vec::new();
        for file in files {
            let first = chained.len();
            for number in self.changed_of(*file) {
                match self.node(log, number)?.level() {
                    Level::Inode => chained.insert(first, (number, false)),
                    Level::Direct => chained.push((number, false)),
                    // Recovery rebuilds them from the direct nodes.
                    Level::Indirect | Level::DoubleIndirect => {}
                }
            }
            if let Some((_, is_synced)) = chained[first..].last_mut() {
                *is_synced = true;
            }
        }
        guard!(
            NodeBeforeData(log, files, !chained.is_empty())?,
            files.iter().try_for_each(|file| log.flush_contents(*file))?
        );
        if chained.is_empty() {
            return Ok(Synced::Yes);
        }
        self.chained += chained.len() as u64;
        for (number, is_synced) in chained {
            self.append_node(log, number, is_synced)?;
        }
        debug_assert!(
            files.iter().all(|file| self.changed_of(*file).iter().all(|number| self.is_rebuilt(*number))),
            "the chain has all of files {files:?}, but some of their nodes still differ"
        );
        log.write_buffer_durably(FILE_NODES)?;
        Ok(Synced::Yes)
    }

    /// Whether recovery rebuilds a node in memory from others.
    fn is_rebuilt(&mut self, number: u32) -> bool {
        matches!(self.nodes.get(number).level(), Level::Indirect | Level::DoubleIndirect)
    }

    /// Whether a mount would have to read more than it should.
    pub(super) fn is_chain_long(&self, log: &Log) -> bool {
        self.chained > MOST_SEGMENTS * u64::from(log.segments.units())
    }
}
