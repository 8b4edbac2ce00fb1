//! One run: a host at work on a drive, and what the drive may hold after a cut.

use std::collections::BTreeMap;
use std::ops::Range;

use tantalum::{CacheMode, Command, Device, Lpn, Outcome, Plp, PowerLoss, Smart, TxId, UNIT_BYTES};

use super::case::Case;
use super::drive::LOG;
use super::host::{Host, Stamp, unit_of};
use super::log_host::LogHost;
use super::oracle::Oracle;
use super::record_host::RecordHost;
use super::stop::Stop;
use super::tally::{Reached, Tally};
use super::weights::Weights;

/// A host at work.
pub(super) struct Run {
    pub seed: u64,
    pub weights: Weights,
    pub host: Host,
    pub oracle: Oracle,
    pub log: LogHost,
    pub records: RecordHost,
    /// Units that nothing works on.
    pub cold: Range<u32>,
    pub transaction: Option<(TxId, BTreeMap<Lpn, Stamp>)>,
    pub next_stamp: Stamp,
    /// Whether what is in DRAM survives.
    pub protected: bool,
    /// Whether a write is durable when it returns.
    pub durable_writes: bool,
    /// Whether something has been made durable since the last clean shutdown began: then recovery must not find that
    /// the drive was shut down.
    pub worked: bool,
    pub tally: Tally,
    units_per_page: u64,
    smart: Smart,
}

impl Run {
    /// A new drive, with its cold units filled.
    pub fn new(case: &Case) -> Result<Run, Stop> {
        let made = Device::in_memory(&case.drive.profile(case.seed));
        let device = made.map_err(|error| Stop::broken("refused", error.to_string()))?;
        device.audit();
        let protected = case.drive.plp == Plp::Capacitor;
        let mut host = Host::new(device, case.drive.queues);
        let cold = case.drive.cold();
        for lpn in cold.clone() {
            let data = unit_of(cold_stamp(lpn));
            host.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false })?;
        }
        host.submit(Command::Flush)?;
        let durable_writes = protected || case.drive.cache == CacheMode::Off;
        let log = LogHost::new(&mut host, Lpn(LOG), durable_writes)?;
        let records = RecordHost::new(&mut host, case.drive.own_logs)?;
        // nothing that the run does has been flushed yet
        host.flushed = false;
        let smart = host.device.smart();
        Ok(Run {
            seed: case.seed,
            weights: case.plan.weights.clone(),
            host,
            oracle: Oracle::default(),
            log,
            records,
            cold,
            transaction: None,
            next_stamp: 1,
            protected,
            durable_writes,
            worked: true,
            tally: Tally::default(),
            units_per_page: u64::from(case.drive.page_bytes) / UNIT_BYTES as u64,
            smart,
        })
    }

    /// A second run in the same state, with nothing counted.
    pub fn fork(&self) -> Run {
        Run {
            seed: self.seed,
            weights: self.weights.clone(),
            host: self.host.fork(),
            oracle: self.oracle.clone(),
            log: self.log.clone(),
            records: self.records.clone(),
            cold: self.cold.clone(),
            transaction: self.transaction.clone(),
            next_stamp: self.next_stamp,
            protected: self.protected,
            durable_writes: self.durable_writes,
            worked: self.worked,
            tally: Tally::default(),
            units_per_page: self.units_per_page,
            smart: self.smart,
        }
    }

    /// Counts what the drive has done since power came on, before it goes.
    pub fn count_work(&mut self) {
        let now = self.host.device.smart();
        self.tally.reached.add(&Reached::between(&self.smart, &now, self.units_per_page));
        self.smart = now;
    }

    /// Power has gone, and comes on again. If it is lost in recovery ([`Stop::PowerLost`]), call
    /// [`Run::power_on_again`].
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        match self.worked {
            true => self.tally.cuts += 1,
            false => self.tally.shutdown_cuts += 1,
        }
        self.recover(loss)
    }

    /// Power went in recovery, and comes on again.
    pub fn power_on_again(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        self.tally.second_cuts += 1;
        self.recover(loss)
    }

    fn recover(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        let report = self.host.power_on(loss)?;
        self.host.cut_after(None);
        self.host.cut_at(None);
        self.tally.torn_pages_seen += report.torn_pages;
        if self.worked {
            if report.clean {
                let detail = "recovery takes the drive for one that was shut down; it had been written to";
                return Err(Stop::broken("D5", detail));
            }
            self.tally.dirty_recoveries += 1;
        }
        self.worked |= !report.clean;
        self.transaction = None;
        self.smart = self.host.device.smart();
        Ok(())
    }
}

/// What a cold unit holds.
pub(super) fn cold_stamp(lpn: u32) -> Stamp {
    (1 << 50) + u64::from(lpn)
}

/// Fates for operations under way: each one of three.
pub(super) fn drawn_fates(count: usize, mut random: impl FnMut() -> u64) -> Vec<Outcome> {
    let fate = |number| match number % 3 {
        0 => Outcome::NotStarted,
        1 => Outcome::Torn,
        _ => Outcome::Completed,
    };
    (0..count).map(|_| fate(random())).collect()
}
