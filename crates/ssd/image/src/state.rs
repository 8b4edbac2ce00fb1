//! The states of pages, units and blocks, shared by the medium and its image.

use crate::slots::SLOT_LIMIT;

/// What a page reads as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PageState {
    /// Not programmed since its block was erased.
    Erased = 0,
    /// Programmed; data and spare areas can be read.
    Programmed = 1,
    /// Beyond error correction until its block is erased.
    Uncorrectable = 2,
}

impl PageState {
    /// The state that an image stores as this byte.
    pub fn from_byte(byte: u8) -> PageState {
        match byte {
            0 => PageState::Erased,
            1 => PageState::Programmed,
            _ => PageState::Uncorrectable,
        }
    }
}

/// Marks an entry of `slot_of` whose slot belongs to a copy.
pub const MOVED: u32 = SLOT_LIMIT;

/// What is known about a block.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Block {
    /// Erases so far.
    pub erase_count: u32,
    /// The next page to program; beyond the last page if the block is full.
    pub next_page: u32,
    /// Retired.
    pub bad: bool,
    /// An erase was torn: it must be erased before it is programmed.
    pub torn: bool,
    /// An erase failed: every page is uncorrectable.
    pub failed: bool,
}
