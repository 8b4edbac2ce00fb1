//! Runs the same work on each store, on this machine's disk, and prints the measurements. No latency is emulated.

mod common;
mod engines;
mod measure;
mod meter;
mod outcome;
mod section;
mod small;
mod work;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand, ValueEnum};
use common::Common;
use engines::{CacheSize, Failure, NAMES, usual};
use measure::{Plan, cases};
use outcome::Row;
use tantalum_report::{check_place, save, write_figures, write_plots};
use work::{Interrupted, USUAL_WORKLOADS, Workload};

/// The exit code of a command that was interrupted: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// Compares embedded key-value stores.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Stores, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = usual().map(str::to_owned))]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    stores: Vec<String>,
    /// Workloads: a, b, c, d, e, f (YCSB); t: a transaction changes four records of 100 bytes; u: a commit updates as many
    /// records as --batch says
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = USUAL_WORKLOADS)]
    workloads: Vec<Workload>,
    /// Number of YCSB records; t has enough records for the same number of bytes
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(8..=100_000_000))]
    records: u64,
    /// Size of a YCSB value in bytes
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    value_bytes: u32,
    /// For u: numbers of records updated by one commit, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1], value_parser = clap::value_parser!(u64).range(1..=10_000))]
    batch: Vec<u64>,
    /// Each store's own memory: all data fit, or a quarter of them
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = CacheSize::value_variants().to_vec())]
    cache: Vec<CacheSize>,
    /// Numbers of threads, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2], value_parser = clap::value_parser!(u64).range(1..=1024))]
    threads: Vec<u64>,
    /// Seconds for each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Measure only synced (true) or only unsynced (false) commits
    #[arg(long)]
    synced: Option<bool>,
    #[command(flatten)]
    common: Common,
    /// Write a report with plots as one HTML page
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the plots of operations per second as one SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Other comparisons.
#[derive(Subcommand)]
enum Command {
    /// What small ordered records cost from loading them to deleting them, as processor time; and space, memory and opening
    Small(small::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Small(small)) = &arguments.command {
        return match small.run(&stopped_by_interrupts()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failed(&failure),
        };
    }
    if !(arguments.seconds > 0.0 && arguments.seconds <= 3600.0) {
        eprintln!("--seconds {}: it must be above 0 and at most 3600", arguments.seconds);
        return ExitCode::from(2);
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    eprintln!("{failure}");
    if failure.is::<Interrupted>() { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = [&arguments.report, &arguments.common.markdown, &arguments.plot];
    files.into_iter().flatten().try_for_each(|path| check_place(path))?;
    let rows = plan(arguments).measure(&stopped_by_interrupts())?;
    if arguments.common.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", outcome::text(&rows));
    }
    write_files(arguments, &rows)
}

fn plan(a: &Arguments) -> Plan {
    let synced = a.synced.map_or(vec![true, false], |synced| vec![synced]);
    Plan {
        stores: a.stores.clone(),
        cases: cases(&synced, &a.cache, &a.workloads, &a.batch, &a.threads),
        rounds: a.common.rounds,
        seconds: a.seconds,
        records: a.records,
        value_bytes: a.value_bytes as usize,
        folder: a.common.folder.clone(),
        seed: a.common.seed,
    }
}

/// The first Ctrl-C stops the work, which removes its stores; the second one does not wait.
fn stopped_by_interrupts() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let on_interrupt = move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    };
    // without a handler, Ctrl-C ends the process and leaves its stores
    let _ = ctrlc::set_handler(on_interrupt);
    stop
}

fn write_files(arguments: &Arguments, rows: &[Row]) -> Result<(), Failure> {
    let rates = outcome::rates(rows);
    if let Some(path) = &arguments.report {
        let lead = [
            command(),
            "The same work on each store, on this machine's disk; compare only within one run.".to_owned(),
            "a to f: YCSB. t: a transaction changes four records of 100 bytes. u16: a commit updates 16 records."
                .to_owned(),
            "Cache fits: a store's own memory holds all data. Quarter: a quarter of them.".to_owned(),
        ];
        let mut figures = rates.clone();
        figures.extend(outcome::figures(rows, "99th percentile: ", "us", |row| Some(row.p99_us)));
        let (sent, programmed) = (|row: &Row| row.written_per_byte, |row: &Row| row.programmed_per_byte);
        figures.extend(outcome::figures(rows, "sent to the disk: ", "bytes for each written", sent));
        figures.extend(outcome::figures(
            rows,
            "programmed into flash: ",
            "bytes for each written",
            programmed,
        ));
        write_figures("Embedded key-value stores", &lead, &figures, path)?;
    }
    if let Some(path) = &arguments.plot {
        write_plots(&rates, arguments.threads.len(), path)?;
    }
    if let Some(path) = &arguments.common.markdown {
        let plot = arguments.plot.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let page = outcome::markdown(rows, &command(), plot.as_deref());
        let earlier = std::fs::read_to_string(path).unwrap_or_default();
        save(&section::keep_section(&page, &earlier, small::SECTION), path)?;
    }
    Ok(())
}

/// The command line of this run.
pub(crate) fn command() -> String {
    let feature = if cfg!(feature = "rocksdb") { " --features rocksdb" } else { "" };
    let arguments: String = std::env::args().skip(1).map(|argument| format!(" {argument}")).collect();
    format!("cargo run --release -p tantalum-kv-compare{feature} --{arguments}")
}
