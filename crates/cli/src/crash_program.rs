//! What `tantalum crash sqlite`, `crash couch` and `crash kv` have in common.

use clap::Args;
use tantalum_report::Monitor;
use tantalum_torture::{CrashError, CrashOutcome, Cuts, Seeds, summary};

use crate::failure::Failure;
use crate::offer::OfferOptions;
use crate::seeds::SeedOptions;
use crate::{interrupt, output};

/// The length of the workload that is cut at every flash operation, unless an option sets another.
const SHORT: u64 = 12;

/// Options of the torture tests of programs.
#[derive(Args, Debug)]
pub struct ProgramOptions {
    #[command(flatten)]
    pub seeds: SeedOptions,

    /// N: this many power cuts in the life of what is tested; all: one at every flash operation of a short workload; @N: only
    /// at operation N of that workload
    #[arg(long, value_name = "N", default_value = "40")]
    pub cuts: Cuts,

    /// Let the host fail instead of the power, as often as --cuts says: calls on the image's file, with I/O errors or because
    /// the disk is full
    #[arg(long)]
    pub host_faults: bool,

    #[command(flatten)]
    pub offer: OfferOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

impl ProgramOptions {
    /// The seeds that were chosen, or the first one.
    pub fn seeds(&self) -> Seeds {
        self.seeds.chosen(1)
    }

    /// The work before a cut, or in the short workload; `between` before cuts at random, unless an option sets another.
    pub fn length(&self, chosen: Option<u64>, between: u64) -> u64 {
        let usual = match self.cuts {
            Cuts::Random(_) => between,
            Cuts::All | Cuts::At(_) => SHORT,
        };
        chosen.unwrap_or(usual)
    }

    /// Runs the torture test and prints the results. Then a broken promise is a failure.
    pub fn run(
        &self,
        torture: impl FnOnce(&Monitor) -> Result<CrashOutcome, CrashError>,
    ) -> Result<(), Failure> {
        let _offer = self.offer.offer()?;
        let outcome = torture(&interrupt::monitor())?;
        output::report(&outcome, self.json, summary::of)?;
        Failure::of_outcome(&outcome, &self.seeds)
    }
}
