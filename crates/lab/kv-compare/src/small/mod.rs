//! Small ordered records, from loading them to deleting them: what each step costs each store, as time of processors.
//!
//! Each store's turn is a process of its own, so that its memory and its threads are its own. Records are written in
//! transactions that are synced; what is read is read by one reading transaction, or snapshot, for each step. The stores count
//! what they find, and a turn fails if one finds something else than was written.

mod stores;
mod table;
mod turn;

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use tantalum_report::{check_place, save};

use crate::common::Common;
use crate::engines::Failure;
use crate::section::with_section;
use crate::work::check;
use stores::NAMES;
use turn::{Sizes, Turn};

/// The title of the section of a page.
pub const SECTION: &str = "Small records";

/// Options.
#[derive(clap::Args, Clone, Debug)]
pub struct Arguments {
    /// Stores, separated by commas
    #[arg(long, value_delimiter = ',', default_values_t = NAMES.map(str::to_owned))]
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(NAMES))]
    stores: Vec<String>,
    /// Number of records
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    records: u64,
    /// Size of a value in bytes; keys have 16
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    value_bytes: u32,
    /// Records of one transaction
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch: u64,
    /// Cache of each store in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    cache: u64,
    /// Write and delete the records in no order
    #[arg(long)]
    shuffled: bool,
    #[command(flatten)]
    common: Common,
    /// Be the turn of the one store: print its figures
    #[arg(long, hide = true)]
    turn: bool,
}

impl Arguments {
    /// Measures all stores, or is one turn of one of them.
    pub fn run(&self, stop: &AtomicBool) -> Result<(), Failure> {
        if self.turn {
            let turn = Turn::of(&self.stores[0], self.sizes(), &self.common.folder)?;
            println!("{}", serde_json::to_string(&turn)?);
            return Ok(());
        }
        self.common.markdown.iter().try_for_each(|path| check_place(path))?;
        let mut turns: Vec<Vec<Turn>> = self.stores.iter().map(|_| Vec::new()).collect();
        for round in 0..self.common.rounds as usize {
            for place in 0..self.stores.len() {
                check(stop)?;
                // so that no store always follows the same one
                let store = (place + round) % self.stores.len();
                eprintln!("round {} of {}: {}", round + 1, self.common.rounds, self.stores[store]);
                turns[store].push(self.in_process(&self.stores[store], stop)?);
            }
        }
        let columns: Vec<(&str, &[Turn])> =
            self.stores.iter().zip(&turns).map(|(name, turns)| (&name[..], &turns[..])).collect();
        if self.common.json {
            println!("{}", serde_json::to_string_pretty(&columns)?);
        } else {
            print!("{}", table::text(&columns));
        }
        self.common.markdown.iter().try_for_each(|path| {
            let page = std::fs::read_to_string(path).unwrap_or_default();
            let section = table::markdown(&columns, &crate::command(), self.sizes());
            save(&with_section(&page, SECTION, &section), path).map_err(Failure::from)
        })
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            records: self.records,
            value_bytes: self.value_bytes as usize,
            batch: self.batch as usize,
            cache_bytes: self.cache << 20,
            is_shuffled: self.shuffled,
            seed: self.common.seed,
        }
    }

    /// A turn in a process of its own.
    fn in_process(&self, store: &str, stop: &AtomicBool) -> Result<Turn, Failure> {
        let folder = tempfile::tempdir_in(&self.common.folder)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["small", "--turn", "--stores", store, "--folder"]).arg(folder.path());
        let numbers = [
            ("--records", self.records),
            ("--value-bytes", self.value_bytes.into()),
            ("--batch", self.batch),
            ("--cache", self.cache),
            ("--seed", self.common.seed),
        ];
        for (name, number) in numbers {
            command.args([name, &number.to_string()]);
        }
        if self.shuffled {
            command.arg("--shuffled");
        }
        let ended = command.stderr(Stdio::inherit()).output()?;
        check(stop)?;
        if !ended.status.success() {
            return Err(format!("the turn of {store} ended with {}", ended.status).into());
        }
        Ok(serde_json::from_slice(&ended.stdout)?)
    }
}
