//! Folders and names. A folder is a file whose units are blocks of entries; in memory it also has an index by name.

mod block;
mod folder;
mod orphans;
mod tree;

pub(crate) use block::{entries_of, is_whole};
pub(crate) use folder::Folder;
