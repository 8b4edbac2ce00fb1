//! Everything that the promises say.

use tantalum::Lpn;

use super::drive::DIRECT;
use super::run::{Run, cold_stamp};
use super::stop::Stop;

impl Run {
    /// After a cut: every unit is what it may be, every step was done in full or not at all, the maps are sound.
    pub fn compare(&mut self) -> Result<(), Stop> {
        self.host.device.audit();
        for lpn in DIRECT.map(Lpn) {
            let (found, may) = (self.host.read(lpn)?, self.oracle.may(lpn));
            self.tally.promises_checked += 1;
            if !may.contains(&found) {
                // a unit that was trimmed for good and is there again is D4's matter
                let promise = if may.len() == 1 && may.contains(&0) { "D4" } else { "D1" };
                return Err(Stop::broken(promise, format!("unit {lpn} reads {found}, allowed {may:?}")));
            }
            self.oracle.found(lpn, found);
        }
        for step in self.oracle.steps() {
            let taken = step.iter().filter(|(lpn, stamp)| self.oracle.now(**lpn) == **stamp).count();
            self.tally.promises_checked += 1;
            if taken != 0 && taken != step.len() {
                return Err(Stop::broken("D3", format!("{taken} of the step {step:?} was done")));
            }
        }
        self.compare_cold("D1")?;
        self.oracle.flushed();
        self.tally.promises_checked += 2;
        self.records.compare(&mut self.host)?;
        self.log.recover(&mut self.host)
    }

    /// Without a cut: every unit is what was written last.
    pub fn compare_running(&mut self) -> Result<(), Stop> {
        self.host.device.audit();
        for lpn in DIRECT.map(Lpn) {
            self.check_running(lpn)?;
        }
        self.compare_cold("running drive")?;
        self.tally.promises_checked += 2;
        self.records.check_running(&mut self.host)?;
        self.log.check_running(&mut self.host)
    }

    /// One unit is what was written to it last.
    pub fn check_running(&mut self, lpn: Lpn) -> Result<(), Stop> {
        let (found, expected) = (self.host.read(lpn)?, self.oracle.now(lpn));
        self.tally.promises_checked += 1;
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
            if found != cold_stamp(lpn) {
                let detail = format!("cold unit {lpn} reads {found}, it holds {}", cold_stamp(lpn));
                return Err(Stop::broken(promise, detail));
            }
        }
        Ok(())
    }
}
