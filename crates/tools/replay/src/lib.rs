//! Block traces of other systems on a drive: those of fio, blktrace, Windows, and of public collections; others by their columns.
//!
//! [`replay`] applies a load to a drive: a trace, or a synthetic pattern (`load.rs`). It reads a trace twice: once to check
//! that all of it can be parsed and how much of the address space it touches (`survey.rs`), and once to issue its requests to
//! a drive (`host.rs`) in virtual time. Both readings are streams (`trace/`), so a trace may be larger than memory.
//! [`Outcome`] depends only on trace, profile and seed.

mod error;
mod host;
mod job;
mod load;
mod outcome;
mod page;
mod placement;
mod run;
mod settings;
mod survey;
mod tally;
pub mod text;
mod touched_chunks;
mod trace;
mod warnings;

pub use error::ReplayError;
pub use load::{Load, Synthetic};
pub use outcome::{DriveAbout, Outcome, ReplayAbout, Requests, TraceAbout, Unaligned, Wear};
pub use page::write_report;
pub use placement::Scale;
pub use run::{check, replay};
pub use settings::{Pace, Settings};
pub use tally::RequestKind;
pub use trace::{
    Action, BlkparseFormat, ColumnNames, Columns, Format, OffsetUnit, OperationNames, Source, TimeUnit,
    TraceError,
};
