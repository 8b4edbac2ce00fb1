//! The index of NILFS2's kind: B-trees; each checkpoint leaves the old ones unchanged.
//!
//! The log is one sequence of *partial segments*: units, and a summary with their description and checksum. A checkpoint
//! appends the nodes that changed, the leaves of the table that changed, and a *super root*, from which everything is
//! reached. An anchor at a fixed place says where a super root is; a mount reads on from there until a partial segment
//! is not whole. A sync of a file appends its data and its inode, without nodes; a mount applies them. A sync that
//! leaves the index to the drive's lists appends only data ([`lists`]).
//!
//! Files and nodes point to virtual numbers, which the table translates to places (NILFS2's DAT). So rewriting or
//! moving a unit changes the table and no tree, and a snapshot is just a root that is kept.
//!
//! Invariants:
//! - **T1** The super root that an anchor names is durable when the anchor is written, over the older of the two.
//! - **T2** A segment that the log needs from the anchored super root on is not written before the next anchor is durable.
//! - **T3** A partial segment counts only if its checksum and those of all before it are right.
//! - **T4** A unit that a snapshot sees is neither changed nor given up.
//! - **T5** The drive lists a unit only when the summaries before it are durable.

mod audit;
mod btree;
mod checkpoint;
mod content;
mod files;
mod index;
mod layout;
mod lists;
mod node;
mod nodes;
mod partial_segment;
mod recovery;
mod residents;
mod snapshots;
mod summary;
mod super_root;
mod sync;
mod table;
mod translation;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use tantalum_drive::Client;
use tantalum_filesystem::FileId;

use crate::error::Result;
use crate::index::{Index, Opened};
use crate::inode::Inode;
use crate::node_cache::NodeCache;
use crate::segments::{Log, Segments};
use files::FILES;
use layout::{Layout, SEGMENTS};
use lists::Behind;
use node::Node;
use partial_segment::PartialSegment;
use super_root::Frozen;
use table::Table;
#[cfg(feature = "canaries")]
pub(crate) use translation::Number;
#[cfg(not(feature = "canaries"))]
use translation::Number;

/// The only log head.
const HEAD: usize = 0;

/// What a sync must know about the time since the last checkpoint.
#[derive(Debug, Default)]
struct CheckpointDelta {
    /// Files that gave up units: what a sync appends cannot record that.
    untold: BTreeSet<FileId>,
    /// Units that got space but no contents.
    reserved: BTreeSet<(FileId, u32)>,
    /// Files whose contents were appended since their last sync.
    appended: BTreeSet<FileId>,
    /// Files whose inode was set since their last sync.
    inodes: BTreeSet<FileId>,
}

/// Trees of files, the table, and the end of the log.
#[derive(Debug)]
pub(crate) struct Tree {
    layout: Layout,
    table: Table,
    nodes: NodeCache<Node>,
    partial: PartialSegment,
    /// The last durable checkpoint.
    number: u64,
    /// The root of the tree of files.
    files_root: Number,
    /// Roots of files' trees, as the tree of files has them.
    roots: FxHashMap<FileId, Number>,
    /// Grows with each snapshot: the number of the next one.
    epoch: u32,
    snapshots: Vec<Frozen>,
    /// The snapshot that is mounted instead of the present.
    mounted_snapshot: Option<u32>,
    last_file: u32,
    files: u32,
    /// The virtual number issued last.
    last_number: u32,
    /// Numbers given up since the last checkpoint.
    quarantined: u64,
    node_count: u32,
    /// Nodes that a snapshot shares with the present.
    shared_nodes: u32,
    /// Units that a snapshot shares with the present, with space for their new contents.
    promised: BTreeSet<(FileId, u32)>,
    since: CheckpointDelta,
    /// Numbers used by what is being recovered.
    claimed: BTreeSet<u32>,
    /// Space that something durable occupies is not refused.
    is_recovering: bool,
    /// Numbers of adjacent units: memory that is used again.
    numbers: Vec<Number>,
    /// For lists that a mount follows.
    behind: Behind,
}

impl Tree {
    fn new(layout: Layout) -> Tree {
        Tree {
            layout,
            table: Table::new(layout.leaves, layout.branches),
            nodes: NodeCache::default(),
            partial: PartialSegment::default(),
            number: 0,
            files_root: Number(0),
            roots: FxHashMap::default(),
            epoch: 1,
            snapshots: Vec::new(),
            mounted_snapshot: None,
            last_file: 0,
            files: 0,
            last_number: 0,
            quarantined: 0,
            node_count: 0,
            shared_nodes: 0,
            promised: BTreeSet::new(),
            since: CheckpointDelta::default(),
            claimed: BTreeSet::new(),
            is_recovering: false,
            numbers: Vec::new(),
            behind: Behind::default(),
        }
    }

    fn log(client: Client, layout: &Layout) -> Log {
        let segments = Segments::new(SEGMENTS, layout.segment_units, layout.segment_count, layout.capacity);
        Log::new(client, segments.with_payload(layout.payload), 1)
    }

    /// An empty index with a root folder, on a drive that reads as zeros. Nothing is durable before the first checkpoint.
    pub fn format(client: Client, root: &Inode) -> Result<Opened> {
        let layout = Layout::plan(client.device().limits().capacity_units)?;
        let (mut log, mut tree) = (Tree::log(client, &layout), Tree::new(layout));
        tree.files_root = tree.new_node(&mut log, FILES, 0, true)?;
        let file = tree.new_file(&mut log, root)?;
        assert_eq!(file, FileId::ROOT, "the root folder is the first file");
        Ok(Opened { log, index: Box::new(tree), orphans: Vec::new(), nameless: Vec::new() })
    }
}
