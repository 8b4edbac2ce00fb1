//! `tantalum lab`.

use std::env;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use tantalum_papers::Feature;
use tantalum_papers::experiments::{self, Experiment, Settings};
use tantalum_report::table::{Align, Table};
use tantalum_report::{Outcomes, check_place, of_experiment, write_experiments};

use crate::failure::Failure;
use crate::offer::OfferOptions;
use crate::sweep::{self, SweepOptions};
use crate::{interrupt, output};

/// What to do.
#[derive(Subcommand, Debug)]
pub enum LabAction {
    /// List the experiments
    List,
    /// Run experiments one after another
    Run(RunOptions),
    /// Run a grid of drives, loads and seeds on all processors, into one table
    ///
    /// In GRID.toml, [run] holds the settings of all runs, and each combination of [axes] and seeds is a run. Completed runs
    /// are kept in the output folder, so the same command resumes after an interruption. The table is CSV, and Apache Parquet in
    /// builds with the feature parquet.
    Sweep(SweepOptions),
}

/// `tantalum lab run`.
#[derive(Args, Debug)]
pub struct RunOptions {
    /// Names of experiments, as `tantalum lab list` prints them
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,

    /// Scale, as a fraction of the full set-up [default: each experiment's]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub scale: Option<f64>,

    /// For experiments in real time: make the drive N times slower, so that this machine's processors matter less, and
    /// divide times by N [default: the paper's number of processors over this machine's]
    #[arg(long, value_name = "N")]
    pub slower: Option<u32>,

    /// Seed of all randomness
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Write a report with plots as one HTML page
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// Lists or runs.
pub fn run(action: &LabAction) -> Result<(), Failure> {
    match action {
        LabAction::List => list(),
        LabAction::Run(options) => run_all(options),
        LabAction::Sweep(options) => sweep::run(options),
    }
}

fn list() -> Result<(), Failure> {
    let mut table = Table::new(&[
        ("name", Align::Left),
        ("needs", Align::Left),
        ("scale", Align::Right),
        ("what it shows", Align::Left),
    ]);
    for experiment in experiments::ALL {
        table.push(vec![
            experiment.name.to_owned(),
            needs(experiment),
            experiment.scale.to_string(),
            experiment.about.to_owned(),
        ]);
    }
    output::print(&table.render())?;
    for missing in Feature::ALL.iter().filter_map(|feature| feature.require().err()) {
        output::print(&format!("\n{missing}\n"))?;
    }
    Ok(())
}

/// What is needed besides this program, and of this program what this build is without.
fn needs(experiment: &Experiment) -> String {
    let missing = experiment.require().err().map(|missing| format!("--features {}", missing.feature));
    let needs = Some(experiment.needs.to_owned()).filter(|needs| !needs.is_empty());
    needs.into_iter().chain(missing).collect::<Vec<_>>().join(", ")
}

fn run_all(options: &RunOptions) -> Result<(), Failure> {
    let chosen = options.names.iter().map(|name| experiments::find(name)).collect::<Result<Vec<_>, _>>()?;
    for experiment in &chosen {
        experiment.require()?;
    }
    if let Some(path) = &options.report {
        check_place(path)?;
    }
    let program = env::current_exe().map_err(|error| Failure::OwnProgram { error })?;
    let settings = Settings { scale: options.scale, slower: options.slower, seed: options.seed, program };
    let _offer = options.offer.offer()?;
    let monitor = interrupt::monitor();
    let mut outcomes = Outcomes { command: "lab run", experiments: Vec::new() };
    for experiment in chosen {
        let outcome = experiments::run(experiment, &settings, &monitor)?;
        if !options.json {
            let gap = if outcomes.experiments.is_empty() { "" } else { "\n" };
            output::print(&format!("{gap}{}", of_experiment(&outcome)))?;
        }
        outcomes.experiments.push(outcome);
    }
    if let Some(path) = &options.report {
        write_experiments(&outcomes.experiments, path)?;
    }
    if options.json { output::print_json(&outcomes) } else { Ok(()) }
}
