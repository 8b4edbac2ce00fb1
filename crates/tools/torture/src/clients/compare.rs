//! Checks of everything that is promised, after a cut and while the drive runs.

use std::collections::BTreeMap;

use tantalum::{Command, Lpn, UNIT_BYTES};

use super::run::Run;
use super::setup::CELLS;
use crate::device::history::{Candidate, Stamp};
use crate::device::lists::{ListHost, Lists};
use crate::device::oracle::Findings;
use crate::device::run::cold_stamp;
use crate::device::stop::Stop;

impl Run {
    /// After a cut: every unit and record has an allowed value, every step was done completely or not at all, and the maps
    /// are sound. From then on what was found is certain.
    pub fn compare(&mut self) -> Result<(), Stop> {
        self.tick += 1;
        self.host.drive().lock().audit();
        self.compare_lists()?;
        let candidates = self.oracle.candidates(self.setup.units(), self.tick);
        let mut found = BTreeMap::new();
        for (lpn, candidates) in &candidates {
            found.insert(*lpn, self.compare_unit(*lpn, candidates)?);
        }
        let findings = Findings::new(&candidates, &found);
        self.tally.promises_checked += self.oracle.step_count();
        if let Some(torn) = self.oracle.torn_steps(&findings).into_iter().next() {
            return Err(Stop::broken("D3", torn));
        }
        self.compare_cold("D1")?;
        let (found_records, orders) = self.compare_records()?;
        self.tally.promises_checked += self.batches.count();
        if let Some(torn) = self.batches.torn(&findings, &orders) {
            return Err(Stop::broken("D3", torn));
        }
        self.compare_cells()?;
        self.batches.clear();
        self.oracle.settle(&found);
        self.records.settle(&found_records);
        self.compare_all_records("D1")
    }

    fn compare_unit(&mut self, lpn: Lpn, candidates: &[Candidate]) -> Result<Stamp, Stop> {
        let found = self.host.read(lpn)?;
        self.tally.promises_checked += 1;
        if !candidates.iter().any(|candidate| candidate.stamp == found) {
            let allowed: Vec<Stamp> = candidates.iter().map(|candidate| candidate.stamp).collect();
            // a durably trimmed unit that comes back violates D4
            let promise = if allowed == [0] { "D4" } else { "D1" };
            return Err(Stop::broken(promise, format!("unit {lpn} reads {found}, allowed {allowed:?}")));
        }
        Ok(found)
    }

    /// Without a cut: everything is what was written last, in the order of submission.
    pub fn compare_running(&mut self) -> Result<(), Stop> {
        self.check_units(self.setup.units())?;
        self.compare_cold("running drive")?;
        self.compare_all_records("running drive")?;
        self.check_lists()
    }

    /// Units hold what was written to them last.
    pub fn check_units(&mut self, lpns: impl Iterator<Item = Lpn>) -> Result<(), Stop> {
        for lpn in lpns {
            let (found, expected) = (self.host.read(lpn)?, self.oracle.now(lpn));
            self.tally.promises_checked += 1;
            if found != expected {
                let detail = format!("unit {lpn} reads {found}, it holds {expected}");
                return Err(Stop::broken("running drive", detail));
            }
        }
        Ok(())
    }

    fn compare_cold(&mut self, promise: &'static str) -> Result<(), Stop> {
        for lpn in self.cold.clone() {
            let found = self.host.read(Lpn(lpn))?;
            self.tally.promises_checked += 1;
            if found != cold_stamp(lpn) {
                let detail = format!("cold unit {lpn} reads {found}, it holds {}", cold_stamp(lpn));
                return Err(Stop::broken(promise, detail));
            }
        }
        Ok(())
    }

    /// Transactions of the program Atomic-Writes are all or nothing.
    fn compare_cells(&mut self) -> Result<(), Stop> {
        if self.host.programs.is_none() {
            return Ok(());
        }
        let mut units = vec![0; CELLS.len() * UNIT_BYTES];
        for (lpn, unit) in CELLS.zip(units.chunks_mut(UNIT_BYTES)) {
            self.host.ask(Command::Read { lpn: Lpn(lpn), data: unit })?;
        }
        if let Some(programs) = &mut self.host.programs {
            self.tally.promises_checked += programs.compare(&units)?;
        }
        Ok(())
    }

    // -- lists of files -----------------------------------------------------------------------------------------

    fn read_lists(&self) -> Result<Lists, Stop> {
        let (mut files, mut lists) = (Vec::new(), Lists::new());
        self.host.ask(Command::ListFiles { files: &mut files })?;
        for file in files {
            let mut entries = Vec::new();
            self.host.ask(Command::ReadFileList { file, entries: &mut entries })?;
            lists.insert(file, entries);
        }
        Ok(lists)
    }

    /// Without a cut: the lists are what was appended.
    fn check_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let (found, expected) = (self.read_lists()?, self.lists.now());
        self.tally.promises_checked += 1;
        if found != expected {
            let detail = format!("the lists are {found:?}, and should be {expected:?}");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    /// After a cut: the lists are as after all completed commands and perhaps some more; these must have their data.
    fn compare_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let found = self.read_lists()?;
        self.tally.promises_checked += 1;
        let Some(survived) = self.lists.survived(&found, self.tick) else {
            let detail = format!("the lists are {found:?} after {:?}", self.lists);
            return Err(Stop::broken("D3", detail));
        };
        survived.into_iter().for_each(|order| self.oracle.acknowledge(order, self.tick, true));
        self.lists = ListHost::found(found);
        Ok(())
    }
}
