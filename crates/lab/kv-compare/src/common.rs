//! Options of every comparison.

use std::path::PathBuf;

/// Options that all comparisons have.
#[derive(clap::Args, Clone, Debug)]
pub struct Common {
    /// Number of rounds; in each the stores take turns, each with a new store
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// Where to create the stores; they are removed afterwards
    #[arg(long, default_value = ".")]
    pub folder: PathBuf,
    /// Seed of all randomness
    #[arg(long, default_value_t = 17)]
    pub seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write the tables as Markdown; sections of the page that another comparison wrote stay
    #[arg(long, value_name = "FILE.md")]
    pub markdown: Option<PathBuf>,
}
