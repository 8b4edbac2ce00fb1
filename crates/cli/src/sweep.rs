//! `tantalum lab sweep`.

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use tantalum_report::Interrupted;
use tantalum_report::table::{count, grouped};
use tantalum_sweep::{Folder, Grid, Run, SweepError, Swept, kept_text, require_parquet, sweep, threads};

use crate::failure::Failure;
use crate::{interrupt, output};

/// `tantalum lab sweep`.
#[derive(Args, Debug)]
pub struct SweepOptions {
    /// The grid
    #[arg(value_name = "GRID.toml", required_unless_present = "one")]
    pub grid: Option<PathBuf>,

    /// The folder for runs and the table [default: the grid's name without .toml, with .sweep]
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Runs at a time, each on a thread with a drive in memory [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// Only print each run as a line of JSON, for schedulers
    #[arg(long, conflicts_with_all = ["output", "threads", "one"])]
    pub list: bool,

    /// Do one run, given on standard input as --list prints it, and print what the output folder keeps as runs/ID.json
    #[arg(long, conflicts_with_all = ["grid", "output", "threads"])]
    pub one: bool,
}

/// A run with the name of its file.
#[derive(Serialize)]
struct Listed<'a> {
    id: String,
    run: &'a Run,
}

/// The part of a [`Listed`] that is read back.
#[derive(Deserialize)]
struct Given {
    run: Run,
}

/// Does the remaining runs of the grid, and writes the table.
pub fn run(options: &SweepOptions) -> Result<(), Failure> {
    let Some(path) = &options.grid else { return one() };
    let grid = Grid::load(path)?;
    if options.list {
        return grid.runs.iter().try_for_each(|run| output::print_json_line(&Listed { id: run.id(), run }));
    }
    let threads = threads(options.threads)?;
    let folder = options.output.clone().unwrap_or_else(|| path.with_extension("sweep"));
    let folder = Folder::open(&folder)?;
    if let Some(line) = grid.rounding()? {
        output::complain(&format!("note: {line}"));
    }
    if let Err(missing) = require_parquet() {
        output::complain(&format!("note: the table is CSV only: {missing}"));
    }
    let swept = sweep(&grid, &folder, threads, &interrupt::monitor())?;
    output::print(&of(&swept))?;
    match (swept.interrupted, swept.failed.first()) {
        (true, _) => Err(Interrupted.into()),
        (false, None) => Ok(()),
        (false, Some((run, why))) => Err(Failure::RunsFailed {
            failed: swept.failed.len(),
            runs: swept.runs,
            first: format!("{run}: {why}"),
        }),
    }
}

/// Does the run on standard input.
fn one() -> Result<(), Failure> {
    let given: Given = serde_json::from_reader(io::stdin().lock()).map_err(|error| SweepError::Grid {
        origin: "standard input".to_owned(),
        reason: format!("it is not a run as --list prints it: {error}"),
    })?;
    let row = given.run.run(&interrupt::monitor().quiet())?;
    output::print(&kept_text(&given.run, &row))
}

fn of(swept: &Swept) -> String {
    let number = |number: usize| grouped(number as u64);
    let mut text = format!(
        "{}: {} done now, {} kept from before, {} failed\n",
        count(swept.runs as u64, "run"),
        number(swept.done),
        number(swept.kept),
        number(swept.failed.len())
    );
    if swept.interrupted {
        text.push_str("interrupted: run the same command again to do the rest\n");
    }
    for table in &swept.tables {
        text.push_str(&format!("{}\n", table.display()));
    }
    text
}
