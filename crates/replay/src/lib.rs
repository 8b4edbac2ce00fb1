//! Block traces of other systems on a drive: fio's iologs, blkparse, MSR Cambridge, Alibaba.
//!
//! [`replay`] gives a drive a load: a trace, or a pattern that is made up (`load.rs`). It reads a trace twice: once to see that all of it is understood and how much of the address space it touches
//! (`survey.rs`), once to give its requests to a drive (`host.rs`) in virtual time. Both readings are streams (`trace/`), so
//! a trace may be larger than memory. [`Outcome`] follows from trace, profile and seed alone.

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
mod touched;
mod trace;

pub use error::ReplayError;
pub use load::{Load, Synthetic};
pub use outcome::{DriveAbout, Outcome, ReplayAbout, Requests, TraceAbout, Unaligned, Wear};
pub use page::write_report;
pub use placement::Scale;
pub use run::replay;
pub use settings::{Pace, Settings};
pub use tally::Kind;
pub use trace::{Action, Format, Source, TraceError};
