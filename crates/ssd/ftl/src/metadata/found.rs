//! What recovery finds of the metadata log.

use std::collections::BTreeSet;
use std::sync::Arc;

use tantalum_nand::{Array, BlockId, PageId};

use super::record::Record;
use crate::types::Seq;

/// A whole checkpoint.
pub(crate) struct FoundCheckpoint {
    pub step: Seq,
    pub bytes: Arc<Array<u8>>,
    /// Its pages, in the order of its bytes; empty if it is in memory.
    pub pages: Vec<PageId>,
    /// Its number, if it is in memory.
    pub number: u64,
}

/// The journal since a checkpoint.
pub(crate) struct FoundJournal {
    pub records: Vec<Record>,
    /// The blocks that hold them.
    pub blocks: BTreeSet<BlockId>,
}
