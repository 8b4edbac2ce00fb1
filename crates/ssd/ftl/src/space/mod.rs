//! Space: the use of each block, the open blocks of each stream, and how much flash each purpose gets.

mod blocks;
mod free;
mod layout;
mod part;
mod stream;
mod victim_policy;

pub use blocks::{BlockUse, Marked};
pub use free::FreeBlock;
pub use layout::{CheckpointInterval, FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout, OPEN_LOGS, map_bytes};
pub use part::{Space, bad_blocks};
pub use stream::{Stream, Target};
pub use victim_policy::VictimPolicy;
