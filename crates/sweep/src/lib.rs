//! Sweeps: a grid of profiles, parameters, loads and seeds; every combination is run once, and all are one tidy table.
//!
//! - A [`Grid`] is read from TOML and checked as a whole before anything runs ([`Grid::load`]).
//! - A [`Run`] has everything that it needs in itself, so it can be done on another machine. Its figures follow from it
//!   alone, so it does not matter which run is done when or where.
//! - A run that is complete is a file of its own in the output folder, put there in one step ([`Folder`]). Whatever ends a
//!   sweep loses the runs that are under way, and no other. The file's name follows from everything that the run's figures
//!   follow from, so a changed grid, profile, trace or program does not find the runs of another.

mod error;
mod folder;
mod grid;
mod run;
mod sweep;
mod table;
mod table_parquet;

pub use error::SweepError;
pub use folder::{Folder, kept_text};
pub use grid::Grid;
pub use run::{Load, Row, Run, Value};
pub use sweep::{Swept, collect, sweep};
