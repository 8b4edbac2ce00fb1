//! What a check of an image's own records found.

use crate::geometry::{BlockId, PageId};

/// Damage of an image's own records.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImageFinding {
    /// A block's entry is damaged, so the block's contents cannot be distinguished from erased data.
    #[error(
        "the entry of block {block} is damaged: the block's contents cannot be distinguished from erased data"
    )]
    Block {
        /// The block.
        block: BlockId,
    },
    /// A page's record is damaged.
    #[error("the record of page {page} (block {block}) is damaged: its places, owners and data are unknown")]
    Page {
        /// The page.
        page: PageId,
        /// Its block.
        block: BlockId,
    },
    /// The records are intact, or repairable, but some are not the latest ones written.
    #[error("block entries and page records do not add up to their tally: some were replaced by older ones")]
    Replaced,
    /// The tally is damaged.
    #[error("the tally of block entries and page records is damaged")]
    Tally,
    /// A line of non-volatile memory is damaged.
    #[error("line {line} of the non-volatile memory is damaged: its 504 bytes are unknown")]
    NvmLine {
        /// The line, from 0.
        line: u64,
    },
}

impl ImageFinding {
    /// Whether the rest is usable: then the page becomes uncorrectable, or a new tally is made, or the line holds zeros.
    /// A drive cannot recover without a line that it needs, so if it recovered under an overlay, it needs none of the
    /// damaged lines.
    pub fn is_repairable(&self) -> bool {
        matches!(self, ImageFinding::Page { .. } | ImageFinding::Tally | ImageFinding::NvmLine { .. })
    }
}

/// What was checked when an image was opened, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examination {
    /// Block entries checked.
    pub block_entries: u64,
    /// Page records checked: those of blocks that were erased or programmed.
    pub page_records: u64,
    /// Lines of non-volatile memory checked.
    pub nvm_lines: u64,
    /// The findings.
    pub findings: Vec<ImageFinding>,
}

impl Examination {
    /// The pages whose records are damaged.
    pub fn damaged_pages(&self) -> impl Iterator<Item = PageId> {
        self.findings.iter().filter_map(|finding| match finding {
            ImageFinding::Page { page, .. } => Some(*page),
            _ => None,
        })
    }
}
