//! Results for people and programs: progress on the terminal, tables of text, plots, and self-contained pages.
//!
//! `crash`, `workloads` and `papers` build on this crate. It knows none of them, and no drive: its inputs are figures,
//! names and units.

mod error;
mod experiment;
mod figures;
mod file;
pub mod html;
mod latency;
mod lifetime;
mod monitor;
pub mod plots;
pub mod table;
mod temporary;
mod text;

pub use error::{Interrupted, InvalidSetting, MissingFeature, ReportError};
pub use experiment::{Outcome, Outcomes, PaperClaim, Quantity, Span, Time};
pub use figures::{Figures, Row};
pub use file::{check_place, save};
pub use html::experiments::{write_experiments, write_figures};
pub use latency::{LatencyMs, LatencyUs, histogram};
pub use lifetime::{DAYS_PER_YEAR, Endurance, Lifetime, WARRANTY_YEARS, terabytes};
pub use monitor::{Bar, Monitor};
pub use plots::grouped_bars::write_plots;
pub use temporary::{NoTemporary, system_error, temporary_file, temporary_folder};
pub use text::{figure_text, of_experiment};
