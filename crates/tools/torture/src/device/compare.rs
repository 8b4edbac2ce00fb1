//! Checks of everything that is promised.

use std::collections::BTreeMap;

use tantalum::{Command, Device, Lpn, Status, UNIT_BYTES};

use super::drive::DIRECT;
use super::history::{Candidate, LOST, Stamp};
use super::host::stamp_of;
use super::oracle::Findings;
use super::run::{Run, cold_stamp};
use super::stop::Stop;

impl Run {
    /// The units that commands work on.
    fn units(&self) -> impl Iterator<Item = Lpn> + use<> {
        self.bulk.clone().chain(DIRECT).map(Lpn)
    }

    /// After a cut: every unit has an allowed value, every step was done completely or not at all, and the maps are
    /// sound.
    pub fn compare(&mut self) -> Result<(), Stop> {
        self.host.audit();
        self.compare_lists()?;
        let candidates = self.oracle.candidates(self.units(), self.cut_ns);
        let mut found = BTreeMap::new();
        for (lpn, candidates) in &candidates {
            found.insert(*lpn, self.compare_unit(*lpn, candidates)?);
        }
        let findings = Findings::new(&candidates, &found);
        self.tally.reached.writes_in_part += self.oracle.done_in_part(&findings);
        let torn = self.oracle.torn_steps(&findings);
        self.tally.promises_checked += self.oracle.step_count();
        if let Some(torn) = torn.into_iter().next() {
            return Err(Stop::broken("D3", torn));
        }
        self.compare_cold("D1")?;
        // reading may write, because indexes are swapped, so power may fail here: nothing is settled before the last read
        let (found_records, orders) = self.records.compare(&mut self.host, self.cut_ns)?;
        self.tally.promises_checked += self.batches.count();
        if let Some(torn) = self.batches.torn(&findings, &orders) {
            return Err(Stop::broken("D3", torn));
        }
        self.batches.clear();
        self.oracle.settle(&found);
        self.logs.clear();
        self.records.settle(&mut self.host, &found_records)?;
        if self.has_log {
            self.log.recover(&mut self.host, self.cut_ns)?;
        }
        Ok(())
    }

    fn compare_unit(&mut self, lpn: Lpn, candidates: &[Candidate]) -> Result<Stamp, Stop> {
        let found = self.host.read(lpn)?;
        self.tally.promises_checked += 1;
        let lost =
            found == LOST && self.losses > 0 && candidates.iter().any(|candidate| candidate.stamp != 0);
        if !lost && !candidates.iter().any(|candidate| candidate.stamp == found) {
            let allowed: Vec<Stamp> = candidates.iter().map(|candidate| candidate.stamp).collect();
            // a durably trimmed unit that comes back violates D4
            let promise = if allowed == [0] { "D4" } else { "D1" };
            return Err(Stop::broken(promise, format!("unit {lpn} reads {found}, allowed {allowed:?}")));
        }
        Ok(found)
    }

    /// After the host failed: the drive still reads what it acknowledged, or says why it cannot. When its process has ended,
    /// the image is opened while the host's disk is full, and has what it must have after a cut.
    pub fn compare_after_failure(&mut self) -> Result<(), Stop> {
        for lpn in self.units() {
            let Some(unit) = self.host.read_after_failure(lpn) else { continue };
            let (found, allowed) = (stamp_of(&unit, &format!("unit {lpn}"))?, self.oracle.after_failure(lpn));
            self.tally.promises_checked += 1;
            if !allowed.contains(&found) {
                let detail = format!("after the host failed, unit {lpn} reads {found}, allowed {allowed:?}");
                return Err(Stop::broken("running drive", detail));
            }
        }
        let expected = self.oracle.candidates(self.units(), self.cut_ns);
        self.tally.promises_checked += expected.len() as u64;
        let may_lose = self.losses > 0;
        self.host.look_without_room(|opened| {
            let mut device = opened.map_err(|error| {
                Stop::broken(
                    "D1",
                    format!("a drive whose host has no room cannot be opened to be read: {error}"),
                )
            })?;
            expected
                .iter()
                .try_for_each(|(lpn, allowed)| compare_without_room(&mut device, *lpn, allowed, may_lose))
        })
    }

    /// Without a cut: every unit holds what was written last.
    pub fn compare_running(&mut self) -> Result<(), Stop> {
        self.host.audit();
        for lpn in self.units() {
            self.check_running(lpn)?;
        }
        self.compare_cold("running drive")?;
        self.tally.promises_checked += 2;
        self.records.check_running(&mut self.host)?;
        self.check_lists()?;
        self.check_log()
    }

    /// Checks that the log's host reads what it wrote.
    pub fn check_log(&mut self) -> Result<(), Stop> {
        if self.has_log { self.log.check_running(&mut self.host) } else { Ok(()) }
    }

    /// One unit holds what was written to it last.
    pub fn check_running(&mut self, lpn: Lpn) -> Result<(), Stop> {
        let (found, expected) = (self.host.read(lpn)?, self.oracle.now(lpn));
        self.tally.promises_checked += 1;
        if found == LOST && expected != LOST && expected != 0 && self.losses > 0 {
            self.oracle.lose(lpn);
            return Ok(());
        }
        if found != expected {
            let detail = format!("unit {lpn} reads {found}, it holds {expected}");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    fn compare_cold(&mut self, promise: &'static str) -> Result<(), Stop> {
        for lpn in self.cold.clone() {
            let found = self.host.read(Lpn(lpn))?;
            self.tally.promises_checked += 1;
            let lost = found == LOST && self.losses > 0;
            if found != cold_stamp(lpn) && !lost {
                let detail = format!("cold unit {lpn} reads {found}, it holds {}", cold_stamp(lpn));
                return Err(Stop::broken(promise, detail));
            }
        }
        Ok(())
    }
}

/// A unit of a drive whose host has no room has an allowed value.
fn compare_without_room(
    device: &mut Device,
    lpn: Lpn,
    candidates: &[Candidate],
    may_lose: bool,
) -> Result<(), Stop> {
    let mut unit = [0; UNIT_BYTES];
    match device.submit(Command::Read { lpn, data: &mut unit }, device.time_ns()) {
        Ok(_) => {}
        Err(Status::Unreadable { .. }) if may_lose => return Ok(()),
        Err(status) => return Err(Stop::broken("D1", format!("without room, unit {lpn} fails: {status}"))),
    }
    let found = stamp_of(&unit, &format!("unit {lpn}"))?;
    if candidates.iter().any(|candidate| candidate.stamp == found) {
        return Ok(());
    }
    let allowed: Vec<Stamp> = candidates.iter().map(|candidate| candidate.stamp).collect();
    Err(Stop::broken("D1", format!("without room, unit {lpn} reads {found}, allowed {allowed:?}")))
}
