//! Runs on all processors, with one drive per thread.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tantalum_report::{Bar, InvalidSetting, Monitor, save};

use crate::drives::Drives;
use crate::error::SweepError;
use crate::folder::Folder;
use crate::grid::Grid;
use crate::run::Run;
use crate::table::{Line, Table};
use crate::table_parquet;

/// The result of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swept {
    /// Runs of the grid.
    pub runs: usize,
    /// Runs done now.
    pub done: usize,
    /// Runs kept from an earlier sweep.
    pub kept: usize,
    /// Why runs failed, with their values.
    pub failed: Vec<(String, String)>,
    /// Whether it was interrupted before all were done.
    pub interrupted: bool,
    /// The table in each format, with the runs that are complete or failed.
    pub tables: Vec<PathBuf>,
}

/// How many threads are asked for; by default, one for each processor.
pub fn threads(asked: Option<usize>) -> Result<NonZeroUsize, SweepError> {
    match asked {
        Some(asked) => NonZeroUsize::new(asked)
            .ok_or_else(|| InvalidSetting::new("--threads", 0, "it must be at least 1").into()),
        None => Ok(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
    }
}

/// Does all runs of a grid that are not in the folder, on this many threads, and writes the table. A run that fails does not end the others.
pub fn sweep(
    grid: &Grid,
    folder: &Folder,
    threads: NonZeroUsize,
    monitor: &Monitor,
) -> Result<Swept, SweepError> {
    table_parquet::check(&folder.table("parquet"))?;
    let bar = monitor.bar("sweep", grid.runs.len() as u64);
    let mut left = Vec::new();
    for run in &grid.runs {
        match folder.row(run)? {
            Some(_) => bar.advance(1)?,
            None => left.push(run),
        }
    }
    let kept = grid.runs.len() - left.len();
    let failed = run_all(&left, folder, threads.get().min(left.len()), &bar, monitor)?;
    let mut swept = collect(grid, folder, &failed)?;
    swept.interrupted = swept.done + failed.len() < grid.runs.len();
    swept.kept = kept;
    swept.done -= kept;
    Ok(swept)
}

/// Does these runs, and keeps their rows in the folder. Returns those that failed, with the reason.
fn run_all<'a>(
    left: &[&'a Run],
    folder: &Folder,
    threads: usize,
    bar: &Bar,
    monitor: &Monitor,
) -> Result<Vec<(&'a Run, String)>, SweepError> {
    let next = AtomicUsize::new(0);
    let failed: Mutex<Vec<(&Run, String)>> = Mutex::default();
    let fatal: Mutex<Option<SweepError>> = Mutex::default();
    let work = || {
        while let Some(run) = left.get(next.fetch_add(1, Ordering::Relaxed)) {
            match run.run(&monitor.quiet()).and_then(|row| folder.keep(run, &row)) {
                Ok(()) => {}
                Err(SweepError::Interrupted(_)) => return,
                Err(SweepError::Run(error)) => {
                    failed.lock().expect("nothing panics with it").push((run, error.to_string()));
                }
                Err(error) => {
                    // an error such as a full disk: all threads stop
                    next.store(left.len(), Ordering::Relaxed);
                    fatal.lock().expect("nothing panics with it").get_or_insert(error);
                    return;
                }
            }
            if bar.advance(1).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    if let Some(error) = fatal.into_inner().expect("nothing panics with it") {
        return Err(error);
    }
    let mut failed = failed.into_inner().expect("nothing panics with it");
    failed.sort_by_key(|(run, _)| run.number);
    Ok(failed)
}

/// Writes the table of the runs that are in the folder, and of those that failed.
fn collect(grid: &Grid, folder: &Folder, failed: &[(&Run, String)]) -> Result<Swept, SweepError> {
    let mut drives = Drives::default();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for run in &grid.runs {
        if let Some(row) = folder.row(run)? {
            lines.push(Line { run, failed: None, figures: [&drives.of(run)?.figures[..], &row].concat() });
        }
    }
    let done = lines.len();
    for (run, why) in failed {
        lines.push(Line { run, failed: Some(why), figures: drives.of(run)?.figures.clone() });
    }
    let table = Table::of(lines);
    let mut tables = vec![folder.table("csv")];
    save(&table.csv(), &tables[0])?;
    tables.extend(table_parquet::write(&table, folder.table("parquet"))?);
    Ok(Swept {
        runs: grid.runs.len(),
        done,
        kept: 0,
        failed: failed.iter().map(|(run, why)| (run.about(), why.clone())).collect(),
        interrupted: false,
        tables,
    })
}
