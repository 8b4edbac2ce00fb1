//! Space: the use of each block, the open blocks of each stream, and how much flash each purpose gets.

mod blocks;
mod layout;
mod part;
mod stream;

pub use blocks::BlockUse;
pub use layout::{
    CheckpointInterval, FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout, OPEN_LOGS, VictimPolicy, map_bytes,
};
pub use part::{Space, bad_blocks};
pub use stream::{Stream, Target};
