//! The index of F2FS's kind: nodes addressed by number, so that moving a node changes no other node.
//!
//! A *node address table* says where each node is. It is durable with a checkpoint, which writes changed nodes, then the
//! table and the table of segments to their other places, and then one of two packs that names these places. A sync of a
//! file writes its data and then its changed nodes; they are chained, and a mount rolls forward along the chain.
//!
//! Invariants:
//! - **N1** A pack is written when everything that it names is durable, over the older of the two packs.
//! - **N2** A node of a sync is written when the data to which it points are durable.
//! - **N3** What the last pack or the chain after it names is not overwritten before the next pack is durable, except
//!   for contents that their own file writes in place (P2 of `in_place.rs`).

mod chain;
mod checkpoint;
mod filling;
mod heads;
mod index;
mod layout;
mod node;
mod nodes;
mod pack;
mod roll_forward;
mod summary;
mod table;
mod walk;

use std::collections::BTreeSet;

use tantalum_drive::Client;
use tantalum_filesystem::FileId;

use crate::error::{Damage, LfsError, Result};
use crate::index::Opened;
use crate::inode::Inode;
use crate::node_cache::NodeCache;
use crate::segments::{Log, Segments};
use heads::HEADS;
use layout::{Layout, NODE_WORDS, SEGMENT_WORDS};
use node::Node;
use pack::Pack;
use summary::Summaries;
use table::PairedTable;

/// A node address table and its nodes.
#[derive(Debug)]
pub(crate) struct Nat {
    layout: Layout,
    /// Where nodes are.
    places: PairedTable,
    /// The segment table.
    segment_table: PairedTable,
    summaries: Summaries,
    nodes: NodeCache<Node>,
    /// The last durable checkpoint.
    version: u64,
    /// The node number issued last.
    last_node: u32,
    nodes_in_use: u32,
    files: u32,
    /// Files that lost whole nodes since the last checkpoint: the chain cannot record that.
    lost_nodes: BTreeSet<FileId>,
    /// Numbers given up since the last checkpoint: the pack still has their old nodes.
    freed: BTreeSet<u32>,
    /// Nodes that were chained since the last checkpoint.
    chained: u64,
    /// Space that something durable occupies is not refused.
    is_recovering: bool,
}

impl Nat {
    fn new(layout: Layout) -> Nat {
        Nat {
            layout,
            places: PairedTable::new(layout.node_table, layout.node_table_units, NODE_WORDS),
            segment_table: PairedTable::new(layout.segment_table, layout.segment_table_units, SEGMENT_WORDS),
            summaries: Summaries::new(layout.summaries),
            nodes: NodeCache::default(),
            version: 0,
            last_node: 0,
            nodes_in_use: 0,
            files: 0,
            lost_nodes: BTreeSet::new(),
            freed: BTreeSet::new(),
            chained: 0,
            is_recovering: false,
        }
    }

    fn log(client: Client, layout: &Layout) -> Log {
        let segments =
            Segments::new(layout.segments, layout.segment_units, layout.segment_count, layout.capacity);
        Log::new(client, segments, HEADS)
    }

    /// An empty index with a root folder, on a drive that reads as zeros. Nothing is durable before the first checkpoint.
    pub fn format(client: Client, root: &Inode) -> Result<Opened> {
        let units = client.device().limits().capacity_units;
        let layout = Layout::plan(units)?;
        let (mut log, mut index) = (Nat::log(client, &layout), Nat::new(layout));
        let file = crate::index::Index::new_file(&mut index, &mut log, root)?;
        assert_eq!(file, FileId::ROOT, "the root folder is the first file");
        Ok(Opened { log, index: Box::new(index), orphans: Vec::new(), nameless: Vec::new() })
    }

    /// The index according to the last checkpoint and the chain after it. The caller takes a checkpoint before
    /// anything else is written.
    pub fn open(client: Client) -> Result<Opened> {
        let units = client.device().limits().capacity_units;
        let layout = Layout::plan(units)?;
        let (mut log, mut index) = (Nat::log(client, &layout), Nat::new(layout));
        let Some(pack) = Pack::newest(&mut log, &layout)? else {
            let damage = Damage::NotA { expected: "a checkpoint pack, here or in the other place" };
            return Err(LfsError::Damaged { lpn: layout.packs[0], damage });
        };
        index.load_pack(&mut log, &pack)?;
        let nameless = match pack.is_last {
            true => index.continue_heads(&mut log, &pack),
            false => index.roll_forward(&mut log, &pack)?,
        };
        Ok(Opened { log, index: Box::new(index), orphans: pack.orphans, nameless })
    }

    fn continue_heads(&mut self, log: &mut Log, pack: &Pack) -> Vec<FileId> {
        for (head, position) in pack.heads.iter().enumerate() {
            log.continue_head(head, position.segment, position.used, position.following);
        }
        Vec::new()
    }
}
