//! Log heads, by what they append: units with similar lifetimes are put together.

/// Number of heads.
pub(super) const HEADS: usize = 6;

pub(super) const FOLDER_DATA: usize = 0;
pub(super) const FILE_DATA: usize = 1;
/// What the cleaner moves has lived long.
pub(super) const COLD_DATA: usize = 2;
pub(super) const FOLDER_NODES: usize = 3;
/// The head whose nodes are chained.
pub(super) const FILE_NODES: usize = 4;
pub(super) const COLD_NODES: usize = 5;

const _: () = assert!(COLD_NODES + 1 == HEADS, "a pack has the position of each head");
