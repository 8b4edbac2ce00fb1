//! What each block is used for, how much of it is in use and how worn it is, for observers outside the drive.
//!
//! The caller provides the buffer and asks for as many blocks as it is willing to wait for. Nothing is allocated or
//! searched: a block costs three look-ups.

use crate::space::BlockUse;

/// A block as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// What it is used for.
    pub block_use: BlockUse,
    /// Its units that are in use.
    pub valid_units: u32,
    /// How often it was erased.
    pub erases: u32,
}

impl Default for BlockState {
    /// A free block that was never erased.
    fn default() -> BlockState {
        BlockState { block_use: BlockUse::Free, valid_units: 0, erases: 0 }
    }
}
