//! What would make a run fail at once, found before any run begins: a drive that cannot exist, and a load that cannot begin.

use std::collections::{BTreeMap, HashSet};

use tantalum::{Device, DeviceError, FormatError};
use tantalum_replay::ReplayError;
use tantalum_workloads::capacity::sufficient_flash;

use crate::error::SweepError;
use crate::run::Run;

/// Checks runs. Many have the same drive or load, so each is checked once.
pub(crate) struct Checks<'a> {
    origin: &'a str,
    drives: HashSet<String>,
    loads: HashSet<String>,
}

impl Checks<'_> {
    /// Checks of a grid's runs; `origin` names it in errors.
    pub(crate) fn new(origin: &str) -> Checks<'_> {
        Checks { origin, drives: HashSet::new(), loads: HashSet::new() }
    }

    /// Fails if the run would. Of a trace only the beginning is read.
    pub(crate) fn check(&mut self, run: &Run) -> Result<(), SweepError> {
        if self.drives.insert(run.profile.clone()) {
            self.check_drive(run)?;
        }
        // the drive matters to a load by its capacity
        let capacity_bytes = run.profile()?.capacity_bytes;
        let load = Run { axes: BTreeMap::new(), profile: capacity_bytes.to_string(), ..run.clone() };
        if self.loads.insert(load.id()) {
            tantalum_replay::check(&run.settings()?).map_err(|error| self.of_load(run, error))?;
        }
        Ok(())
    }

    fn check_drive(&self, run: &Run) -> Result<(), SweepError> {
        let profile = run.profile()?;
        Device::check_profile(&profile).map_err(|error| {
            let enough = match &error {
                DeviceError::Ftl(FormatError::Layout(layout)) => sufficient_flash(&profile, layout),
                _ => None,
            };
            let enough = enough.map(|bytes| format!(", or use capacity = \"{}M\" or more", bytes >> 20));
            self.impossible(run, format!("{error}{}", enough.unwrap_or_default()))
        })
    }

    fn of_load(&self, run: &Run, error: ReplayError) -> SweepError {
        let ReplayError::Setting(setting) = error else { return self.impossible(run, error.to_string()) };
        // a grid's settings are named as the options are
        let named = |option: &str| option.trim_start_matches("--").replace('-', "_");
        SweepError::Value {
            origin: self.origin.to_owned(),
            key: named(setting.option),
            value: setting.value,
            expected: setting.expected.replace("--queue-depth", "queue_depth"),
        }
    }

    fn impossible(&self, run: &Run, reason: String) -> SweepError {
        SweepError::Impossible { origin: self.origin.to_owned(), values: run.values(), reason }
    }
}
