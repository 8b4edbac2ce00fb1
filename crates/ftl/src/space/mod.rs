//! Space: what each block is used for, which are open for what, and how much flash each purpose gets.

mod blocks;
mod layout;
mod stream;

pub use blocks::{BlockUse, Blocks};
pub use layout::{CheckpointInterval, FtlConfig, JOURNAL_RESERVE_BLOCKS, Layout, OPEN_LOGS, VictimPolicy};
pub use stream::{Stream, Streams, Target};
