//! One run: a host at work on a drive, and what the drive may hold after a cut.

use std::collections::BTreeMap;
use std::ops::Range;

use tantalum::{
    CacheMode, Command, Counters, Faults, Generation, Lpn, Outcome, Plp, PowerLoss, TxId, UNIT_BYTES,
};

use super::batches::Batches;
use super::case::Case;
use super::drive::{Flash, Handles, LOG, Medium};
use super::history::Stamp;
use super::host::{Host, unit_of};
use super::lists::ListHost;
use super::log_host::LogHost;
use super::oracle::Oracle;
use super::record_host::RecordHost;
use super::stop::Stop;
use super::tally::{Reached, Tally};
use super::trace;
use super::weights::Weights;

/// A host at work.
pub(super) struct Run {
    pub seed: u64,
    pub weights: Weights,
    pub host: Host,
    pub oracle: Oracle,
    pub log: LogHost,
    /// Whether the log that works like SQLite's exists: an unreadable page of it would end it.
    pub has_log: bool,
    pub records: RecordHost,
    pub lists: ListHost,
    /// Whether the drive keeps lists of files.
    pub has_lists: bool,
    /// What joins both.
    pub batches: Batches,
    /// Units that no command uses.
    pub cold: Range<u32>,
    /// Units that are written and trimmed many at a time; empty on most drives.
    pub bulk: Range<u32>,
    /// Open transactions with what they have written.
    pub transactions: Vec<(TxId, BTreeMap<Lpn, Stamp>)>,
    /// Logs that are written to.
    pub logs: Vec<Generation>,
    /// A log from before power was lost.
    pub old_log: Option<Generation>,
    pub next_stamp: Stamp,
    /// Whether the contents of DRAM survive.
    pub protected: bool,
    /// Whether a write is durable when it returns.
    pub durable_writes: bool,
    /// Whether the drive should become full.
    pub full: bool,
    pub flash: Flash,
    pub medium: Medium,
    pub faults: Faults,
    /// Units of the largest write that is all or nothing.
    pub atomic_write_units: usize,
    /// Reclaim unit handles; 0 on a drive that has none.
    pub handles: u32,
    /// Whether they are always kept apart.
    pub isolates: bool,
    /// Pages that became unreadable.
    pub losses: u64,
    /// Whether something has been made durable since the last clean shutdown began: then recovery must not find that
    /// the drive was shut down.
    pub worked: bool,
    /// When power was last lost.
    pub cut_ns: u64,
    pub tally: Tally,
    units_per_page: u64,
    /// The drive's counters when power came on.
    counters: Counters,
}

impl Run {
    /// A new drive, with its cold units filled.
    pub fn new(case: &Case) -> Result<Run, Stop> {
        let drive = &case.drive;
        let protected = drive.plp == Plp::Capacitor;
        let durable_writes = protected || drive.cache == CacheMode::Off;
        let (cold, faults) = (drive.cold(), drive.faults(case.seed));
        let (host, log, records) = begin(case, cold.clone(), durable_writes)?;
        let counters = host.device.smart().counters;
        let has_lists = host.device.limits().files > 0;
        Ok(Run {
            seed: case.seed,
            weights: case.plan.weights.for_drive(has_lists, drive.fdp().is_some()),
            host,
            oracle: Oracle::default(),
            log,
            // a refusal would leave a transaction of it half done, too
            has_log: drive.flash == Flash::Sound && !drive.full,
            records,
            lists: ListHost::default(),
            has_lists,
            batches: Batches::default(),
            cold,
            bulk: drive.bulk(),
            transactions: Vec::new(),
            logs: Vec::new(),
            old_log: None,
            next_stamp: 2,
            protected,
            durable_writes,
            full: drive.full,
            flash: drive.flash,
            medium: drive.medium,
            faults,
            atomic_write_units: drive.atomic_write_units as usize,
            handles: drive.fdp().map_or(0, |fdp| fdp.handles),
            isolates: drive.handles == Handles::Persistently,
            losses: 0,
            worked: true,
            cut_ns: 0,
            tally: Tally::default(),
            units_per_page: u64::from(drive.page_bytes) / UNIT_BYTES as u64,
            counters,
        })
    }

    /// Approximate number of stores to an image per flash operation, in which cuts are counted.
    pub fn stores_per_operation(&self) -> u64 {
        match self.medium {
            Medium::Memory => 1,
            Medium::Image | Medium::FailingHost => 2 + self.units_per_page,
        }
    }

    /// A copy of the run, whose counts begin at 0.
    pub fn fork(&self) -> Run {
        Run {
            weights: self.weights.clone(),
            host: self.host.fork(),
            oracle: self.oracle.clone(),
            log: self.log.clone(),
            records: self.records.clone(),
            lists: self.lists.clone(),
            batches: self.batches.clone(),
            cold: self.cold.clone(),
            bulk: self.bulk.clone(),
            transactions: self.transactions.clone(),
            logs: self.logs.clone(),
            tally: Tally::default(),
            ..*self
        }
    }

    /// Counts what the drive has done since power came on, before power fails.
    pub fn count_work(&mut self) {
        let now = self.host.device.smart().counters;
        self.tally.reached.add(&Reached::of(&now.since(&self.counters), self.units_per_page));
        self.tally.reached.refused += std::mem::take(&mut self.records.refused);
        self.counters = now;
    }

    /// Power has failed, and comes back. If it is lost in recovery ([`Stop::PowerLost`]), call
    /// [`Run::power_on_again`].
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        match self.worked {
            true => self.tally.cuts += 1,
            false => self.tally.shutdown_cuts += 1,
        }
        self.cut_ns = self.host.cut_ns();
        if self.medium == Medium::FailingHost {
            self.compare_after_failure()?;
        }
        self.recover(loss)
    }

    /// Power was lost in recovery, and comes back.
    pub fn power_on_again(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        self.tally.second_cuts += 1;
        self.recover(loss)
    }

    fn recover(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        if self.host.trace {
            trace::cut(self.cut_ns, &self.host.device.in_flight());
        }
        let report = self.host.power_on(loss)?;
        self.host.cut_after(None);
        self.host.cut_at(None);
        if self.medium != Medium::Memory {
            self.host
                .device
                .set_faults(Faults { seed: self.faults.seed ^ self.tally.cuts << 32, ..self.faults })?;
        }
        self.tally.torn_pages_seen += report.torn_pages;
        if self.worked {
            if report.clean {
                let detail = "recovery takes the drive for one that was shut down; it had been written to";
                return Err(Stop::broken("D5", detail));
            }
            self.tally.dirty_recoveries += 1;
        }
        self.worked |= !report.clean;
        self.transactions.clear();
        self.old_log = self.log_begun().or(self.old_log);
        self.counters = self.host.device.smart().counters;
        Ok(())
    }

    /// A log that had begun when power was lost.
    pub fn log_begun(&self) -> Option<Generation> {
        self.logs.iter().copied().find(|log| self.oracle.hints.has_begun(*log, self.cut_ns))
    }
}

/// A new drive with what a run begins with: cold data, a log and records. Its flash is sound until then.
fn begin(case: &Case, cold: Range<u32>, durable_writes: bool) -> Result<(Host, LogHost, RecordHost), Stop> {
    let mut host = Host::new(&case.drive, case.seed)?;
    fill(&mut host, cold)?;
    let log = LogHost::new(&mut host, Lpn(LOG), durable_writes)?;
    let records = RecordHost::new(&mut host, &case.drive)?;
    host.wait()?;
    host.device.set_faults(case.drive.faults(case.seed))?;
    host.trace = case.plan.trace;
    Ok((host, log, records))
}

/// Fills the cold units, and waits until they are on flash.
fn fill(host: &mut Host, cold: Range<u32>) -> Result<(), Stop> {
    for lpn in cold {
        let data = unit_of(cold_stamp(lpn));
        host.submit_and_wait(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None })?;
    }
    host.submit_and_wait(Command::Flush)?;
    Ok(())
}

/// What a cold unit holds.
pub(crate) fn cold_stamp(lpn: u32) -> Stamp {
    (1 << 50) + 2 * u64::from(lpn)
}

/// Fates of operations in flight, each one of three.
pub(crate) fn drawn_fates(count: usize, mut random: impl FnMut() -> u64) -> Vec<Outcome> {
    let fate = |number| match number % 3 {
        0 => Outcome::NotStarted,
        1 => Outcome::Torn,
        _ => Outcome::Completed,
    };
    (0..count).map(|_| fate(random())).collect()
}
