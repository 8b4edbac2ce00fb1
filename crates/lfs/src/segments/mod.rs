//! What both kinds of index share of the drive: segments, log heads, and the accounting of space.

mod list_writer;
mod log;
mod table;

pub(crate) use log::Log;
pub(crate) use table::{Segments, State};
