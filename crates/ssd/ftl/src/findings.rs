//! What an audit examined and found.

use tantalum_nand::{BlockId, Ppn};

use crate::key::NamespaceId;
use crate::space::BlockUse;
use crate::types::Lpn;

/// An inconsistency.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Finding {
    /// P2L names an owner that is elsewhere.
    #[error("place {ppn} belongs to unit {lpn}, which is at {found:?}")]
    OwnerElsewhere {
        /// The place.
        ppn: Ppn,
        /// Its owner according to P2L.
        lpn: Lpn,
        /// The owner's place according to L2P.
        found: Option<Ppn>,
    },
    /// L2P points at a place that P2L assigns to others.
    #[error("unit {lpn} is mapped to place {ppn}, which does not belong to it")]
    NotOwned {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// A stored count is wrong.
    #[error("{what}: the stored count is {kept}, but there are {counted}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The stored count.
        kept: u64,
        /// The actual count.
        counted: u64,
    },
    /// A block's count of places in use is wrong.
    #[error("block {block}: its count says that {kept} places are in use, but {counted} are")]
    ValidCount {
        /// The block.
        block: BlockId,
        /// The stored count.
        kept: u32,
        /// The actual count.
        counted: u32,
    },
    /// A block's use disagrees with a list.
    #[error("block {block} is used as {block_use:?}, {against}")]
    BlockUse {
        /// The block.
        block: BlockId,
        /// Its use.
        block_use: BlockUse,
        /// The contradiction.
        against: &'static str,
    },
    /// A unit's hints are inconsistent.
    #[error("unit {lpn}: {wrong}")]
    Hint {
        /// The unit.
        lpn: Lpn,
        /// What is wrong.
        wrong: &'static str,
    },
    /// The weight of the records at a place is not what indexes and tombstones say.
    #[error(
        "place {ppn}: its records weigh {kept} chunks according to P2L, but {counted} according to indexes and tombstones"
    )]
    RecordsWeight {
        /// The place.
        ppn: Ppn,
        /// The stored weight.
        kept: u32,
        /// The weight according to the indexes.
        counted: u32,
    },
    /// A unit of records cannot be read.
    #[error("records of key-value namespace {namespace} at place {ppn} cannot be read")]
    RecordsUnreadable {
        /// The place.
        ppn: Ppn,
        /// The namespace of one of them.
        namespace: NamespaceId,
    },
    /// An index that is on flash only cannot be read.
    #[error("the index of key-value namespace {namespace} is on flash only and cannot be read")]
    IndexUnreadable {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// An index names a place with another record or none.
    #[error(
        "key-value namespace {namespace} names a record at place {ppn}, chunk {chunk}, which does not exist"
    )]
    NotTheRecord {
        /// The place.
        ppn: Ppn,
        /// Its first chunk.
        chunk: u8,
        /// The namespace.
        namespace: NamespaceId,
    },
    /// A mapped unit's page is erased.
    #[error("unit {lpn} is at place {ppn}, which is erased")]
    Erased {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// A mapped unit cannot be read.
    #[error("unit {lpn} at place {ppn} cannot be read: its page is uncorrectable, or its data are damaged")]
    Unreadable {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// The spare area of a mapped unit contradicts the map.
    #[error("unit {lpn} is at place {ppn}, whose spare area {says}")]
    Spare {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
        /// What the spare area says.
        says: &'static str,
    },
}

/// What was checked and found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Places with an owner.
    pub places: u64,
    /// Owners of places that have several, or whose version no spare area records.
    pub claims: u64,
    /// Blocks.
    pub blocks: u64,
    /// Living hints.
    pub hints: u64,
    /// Records of key-value namespaces.
    pub records: u64,
    /// Mapped units whose spare areas and data were read.
    pub units: u64,
    /// What is wrong with the maps.
    pub map_findings: Vec<Finding>,
    /// What is wrong with the mapped units.
    pub unit_findings: Vec<Finding>,
}

impl Audit {
    pub(crate) fn count(&mut self, what: &'static str, kept: u64, counted: u64) {
        if kept != counted {
            self.map_findings.push(Finding::Count { what, kept, counted });
        }
    }

    /// All findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.map_findings.iter().chain(&self.unit_findings)
    }
}
