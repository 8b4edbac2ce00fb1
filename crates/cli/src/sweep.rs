//! `tantalum lab sweep`.

use std::path::PathBuf;

use clap::Args;
use tantalum_report::Interrupted;
use tantalum_report::table::grouped;
use tantalum_sweep::{Folder, Grid, Swept, sweep};

use crate::failure::Failure;
use crate::{interrupt, output};

/// `tantalum lab sweep`.
#[derive(Args, Debug)]
pub struct SweepOptions {
    /// The grid
    #[arg(value_name = "GRID.toml")]
    pub grid: PathBuf,

    /// The folder for runs and the table [default: the grid's name without .toml, with .sweep]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Runs at a time, each on a thread with a drive in memory [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

/// Does what is left of the grid, and writes the table.
pub fn run(options: &SweepOptions) -> Result<(), Failure> {
    let grid = Grid::load(&options.grid)?;
    let folder = options.output.clone().unwrap_or_else(|| options.grid.with_extension("sweep"));
    let folder = Folder::open(&folder)?;
    let swept = sweep(&grid, &folder, options.threads, &interrupt::monitor())?;
    output::print(&of(&swept))?;
    match (swept.interrupted, swept.failed.len()) {
        (true, _) => Err(Interrupted.into()),
        (false, 0) => Ok(()),
        (false, failed) => Err(Failure::RunsFailed { failed, runs: swept.runs }),
    }
}

fn of(swept: &Swept) -> String {
    let number = |number: usize| grouped(number as u64);
    let mut text = format!(
        "{} runs: {} done now, {} kept from before, {} failed\n",
        number(swept.runs),
        number(swept.done),
        number(swept.kept),
        number(swept.failed.len())
    );
    if swept.interrupted {
        text.push_str("interrupted: the same command goes on with the rest\n");
    }
    for table in &swept.tables {
        text.push_str(&format!("{}\n", table.display()));
    }
    text
}
