//! What an audit looked at and found.

use tantalum_nand::{BlockId, Ppn};

use crate::key::NamespaceId;
use crate::space::BlockUse;
use crate::types::Lpn;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Finding {
    /// P2L names an owner that is elsewhere.
    #[error("place {ppn} belongs to unit {lpn}, which is at {found:?}")]
    OwnerElsewhere {
        /// The place.
        ppn: Ppn,
        /// Its owner by P2L.
        lpn: Lpn,
        /// Where L2P says the owner is.
        found: Option<Ppn>,
    },
    /// L2P points at a place that P2L gives to others.
    #[error("unit {lpn} is at place {ppn}, which is not its own")]
    NotOwned {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// A number that is kept is not what there is.
    #[error("{what}: {kept} by the count that is kept, {counted} are there")]
    Count {
        /// What is counted.
        what: &'static str,
        /// As kept.
        kept: u64,
        /// As there.
        counted: u64,
    },
    /// A block's count of places in use is wrong.
    #[error("block {block}: {kept} places in use by its count, {counted} are")]
    ValidCount {
        /// The block.
        block: BlockId,
        /// As kept.
        kept: u32,
        /// As there.
        counted: u32,
    },
    /// A block's use does not agree with a list.
    #[error("block {block} is used as {block_use:?}, {against}")]
    BlockUse {
        /// The block.
        block: BlockId,
        /// Its use.
        block_use: BlockUse,
        /// What speaks against it.
        against: &'static str,
    },
    /// A unit's hints are not in order.
    #[error("unit {lpn}: {wrong}")]
    Hint {
        /// The unit.
        lpn: Lpn,
        /// What is wrong.
        wrong: &'static str,
    },
    /// An atomic batch is half done.
    #[error("an atomic batch is under way, and no command is")]
    BatchUnderWay,
    /// What the records at a place weigh is not what indexes and tombstones say.
    #[error("place {ppn}: its records weigh {kept} chunks by P2L, {counted} by the indexes and tombstones")]
    RecordsWeight {
        /// The place.
        ppn: Ppn,
        /// As kept.
        kept: u32,
        /// As the indexes say.
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
    /// An index names a place where another record is, or none.
    #[error("key-value namespace {namespace} has a record at place {ppn}, chunk {chunk}, that is not there")]
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
    /// The spare area of a mapped unit says something else.
    #[error("unit {lpn} is at place {ppn}, whose spare area {says}")]
    Spare {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
        /// What it says.
        says: &'static str,
    },
}

/// What was looked at, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Places that belong to somebody.
    pub places: u64,
    /// Owners of places that have several, or whose version no spare area tells.
    pub claims: u64,
    /// Blocks.
    pub blocks: u64,
    /// Hints that live.
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
