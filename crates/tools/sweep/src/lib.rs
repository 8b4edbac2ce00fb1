//! Sweeps: a grid of profiles, parameters, loads and seeds; every combination runs once, and the results are one tidy
//! table.
//!
//! - A [`Grid`] is read from TOML and checked as a whole before anything runs ([`Grid::load`]).
//! - A [`Run`] is self-contained, so it can be done on another machine. Its figures depend only on it, so it does not
//!   matter when or where a run is done.
//! - A complete run is a file in the output folder, put there atomically ([`Folder`]). Whatever ends a sweep loses only
//!   the runs in progress. The file's name depends on everything that determines the run's figures, so a changed grid,
//!   profile, trace or program does not find the runs of another.

mod check;
mod drives;
mod error;
mod folder;
mod grid;
mod reading;
mod run;
mod sweep;
mod table;
#[cfg(feature = "parquet")]
mod table_parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod table_parquet;
mod taken;

pub use error::SweepError;
pub use folder::{Folder, kept_text};
pub use grid::Grid;
pub use reading::Reading;
pub use run::{Load, Row, Run, Value};
pub use sweep::{Swept, sweep, threads};
pub use table_parquet::require_parquet;
