//! One connection of a workload, with its clock and its latencies.

use hdrhistogram::Histogram;
use rusqlite::Connection;
use tantalum::{Command, Nanoseconds, Smart, Usage};
use tantalum_report::Bar;
use tantalum_report::histogram;
use tantalum_sqlite::{SharedVolume, Synchronous};

use super::spread::{Parts, Sample, Uncertainty};
use crate::error::ExperimentError;

/// The volume's page cache in an experiment: the part of the host's memory for files. Less than the default database,
/// so that reads reach the drive as well.
pub(crate) const PAGE_CACHE_BYTES: u64 = 64 << 20;

/// The host time assumed for one statement: parsing, searching the tree, locks. A constant, so that figures do not
/// depend on the machine; 20 us is what SQLite needs for a small update on a current core.
pub const HOST_NS_PER_STATEMENT: Nanoseconds = 20_000;

/// SQLite's page cache for each connection, in KiB: SQLite's own default.
pub(crate) const SQLITE_CACHE_KIB: u32 = 2000;

/// Frames in the log at which SQLite checkpoints: SQLite's own default.
pub(crate) const AUTOCHECKPOINT_PAGES: u32 = 1000;

/// The drive's counters and clock at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Mark {
    pub smart: Smart,
    pub usage: Usage,
    pub now_ns: Nanoseconds,
}

impl Mark {
    fn sample(&self) -> Sample {
        (self.now_ns, self.smart.counters.flash_units.total())
    }
}

/// A connection for a workload. Counts transactions and their latencies in virtual time.
pub struct Session<'a> {
    drive: &'a SharedVolume,
    connection: &'a Connection,
    bar: Bar,
    pub(crate) latencies: Histogram<u64>,
    /// When the open transaction began.
    began_ns: Option<Nanoseconds>,
    /// Where the measured part begins and ends.
    parts: Option<Parts>,
}

impl<'a> Session<'a> {
    /// Sets what is the same for all modes.
    pub(crate) fn new(
        drive: &'a SharedVolume,
        connection: &'a Connection,
        synchronous: Synchronous,
        bar: Bar,
    ) -> rusqlite::Result<Session<'a>> {
        connection.pragma_update(None, "synchronous", synchronous.name())?;
        connection.pragma_update(None, "cache_size", -i64::from(SQLITE_CACHE_KIB))?;
        // Without a log there is nothing to checkpoint, and SQLite ignores it.
        connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
        Ok(Session { drive, connection, bar, latencies: histogram(), began_ns: None, parts: None })
    }

    /// The connection, for preparing statements and asking about them.
    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// Runs one statement. If no transaction is open after it, one has ended.
    pub(crate) fn statement<T>(
        &mut self,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let now_ns = self.drive.volume().now_ns();
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let result = run(self.connection)?;
        let now_ns = {
            let mut volume = self.drive.volume();
            volume.advance_ns(HOST_NS_PER_STATEMENT);
            volume.now_ns()
        };
        if self.connection.is_autocommit() {
            self.latencies.saturating_record(now_ns - began_ns);
            self.began_ns = None;
        }
        Ok(result)
    }

    /// Some transactions were done. Fails if the experiment should stop.
    pub(crate) fn advance(&mut self, transactions: u64) -> Result<(), ExperimentError> {
        let drive = self.drive;
        if let Some(parts) = &mut self.parts {
            parts.advance(transactions, || {
                let volume = drive.volume();
                let flash_units = volume.device().smart().counters.flash_units.total();
                (volume.now_ns(), flash_units)
            });
        }
        Ok(self.bar.advance(transactions)?)
    }

    /// From here on transactions are measured.
    pub(crate) fn begin_measuring(&mut self, from: &Mark) {
        self.latencies.reset();
        self.parts = Some(Parts::new(from.sample()));
    }

    /// How far the figures up to this mark may be from those of a longer run.
    pub(crate) fn uncertainty(&self, end: &Mark) -> Uncertainty {
        let parts = self.parts.as_ref().expect("transactions were measured");
        parts.uncertainty(end.sample())
    }

    /// Brings everything home and to flash, so that no mode leaves work for later, and reads the counters.
    pub(crate) fn settle(&mut self) -> Result<Mark, ExperimentError> {
        let checkpoint = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], checkpoint)
            .map_err(ExperimentError::sqlite("checkpointing"))?;
        let mut volume = self.drive.volume();
        volume.submit(Command::Flush)?;
        let smart = volume.device().smart();
        let usage = volume.device().usage();
        Ok(Mark { smart, usage, now_ns: volume.now_ns() })
    }
}
