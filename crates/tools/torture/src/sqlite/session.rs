//! The host while power is on: connections, and the steps that they do.

use rand::{Rng, RngExt, SeedableRng};
use rusqlite::{Connection, ErrorCode};
use tantalum::UNIT_BYTES;
use tantalum_sqlite::Synchronous;
use tantalum_sqlite::{Mode, SharedVolume};

use super::contents::{self, Contents, Random};
use super::history::History;
use super::step::{READERS, Step, Transaction, WRITERS};
use crate::program::drive::OTHER_DATA;
use crate::program::{Broken, Stop, goes_on};

/// The database.
pub(super) const DATABASE: &str = "app.db";

/// Units of [`OTHER_DATA`], of the volume's 4096.
pub(super) const OTHER_UNITS: u64 = 2200;

/// SQLite's page cache, in pages: small enough that transactions spill.
const SMALL_CACHE_PAGES: u32 = 5;

/// Large enough that no transaction spills: only then does SQLite write atomic batches.
const LARGE_CACHE_PAGES: u32 = 500;

/// Frames in the log at which SQLite checkpoints automatically.
const AUTOCHECKPOINT_FRAMES: u32 = 40;

/// Units of other data that one step overwrites.
const OTHER_UNITS_WRITTEN: usize = 12;

/// Steps after which a reader closes its snapshot, as the log grows while it is open.
const SNAPSHOT_STEPS: u64 = 15;

/// A connection that reads, and what it sees while its snapshot is open.
struct Reader {
    connection: Connection,
    snapshot: Option<Contents>,
    /// The step in which the snapshot was opened.
    since: u64,
}

/// The host.
pub(super) struct Session<'a> {
    drive: &'a SharedVolume,
    mode: Mode,
    synchronous: Synchronous,
    /// The first spills and the others do not. While the journal mode is switched, only the first is open.
    writers: Vec<Connection>,
    readers: Vec<Reader>,
    steps: u64,
    pub history: &'a mut History,
    /// Snapshots and other comparisons made.
    pub checked: u64,
    /// Transactions acknowledged.
    pub transactions: u64,
}

/// Opens the database. `full` is SQLite's EXTRA, which differs from FULL only in that it makes the removal of a
/// rollback journal durable too.
pub(super) fn open(drive: &SharedVolume, synchronous: Synchronous) -> rusqlite::Result<Connection> {
    let connection = drive.open(DATABASE)?;
    let synchronous = match synchronous {
        Synchronous::Normal => "normal",
        Synchronous::Full => "extra",
    };
    connection.busy_timeout(std::time::Duration::ZERO)?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    set_cache(&connection, SMALL_CACHE_PAGES)?;
    connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_FRAMES)?;
    Ok(connection)
}

fn set_cache(connection: &Connection, pages: u32) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", pages)?;
    connection.pragma_update(None, "cache_spill", pages)
}

impl<'a> Session<'a> {
    /// Continues with a connection that has checked the database.
    pub fn new(
        drive: &'a SharedVolume,
        synchronous: Synchronous,
        first: Connection,
        history: &'a mut History,
    ) -> Session<'a> {
        let mode = drive.mode();
        let (writers, readers) = (vec![first], Vec::new());
        Session { drive, mode, synchronous, writers, readers, steps: 0, history, checked: 0, transactions: 0 }
    }

    /// Does a step.
    pub fn step(&mut self, step: &Step) -> Result<(), Stop> {
        self.open_missing()?;
        self.steps += 1;
        self.close_old_snapshots()?;
        match step {
            Step::Transaction(transaction) => self.transaction(transaction),
            Step::RollBack { writer, seed } => {
                let connection = &self.writers[*writer];
                let rolled_back = connection
                    .execute_batch("BEGIN")
                    .and_then(|()| contents::discard(connection, *seed))
                    .and_then(|()| connection.execute_batch("ROLLBACK"));
                self.unless_full(*writer, "a rollback", rolled_back).map(drop)
            }
            Step::Checkpoint { writer, kind } => self.checkpoint(*writer, kind),
            Step::Maintain { writer, sql } => {
                let maintained = self.writers[*writer].execute_batch(sql);
                self.unless_full(*writer, sql, maintained).map(drop)
            }
            Step::Read { reader } => self.read(*reader),
            Step::Watch => self.watch(),
            Step::SwitchJournal(transactions) => self.switch_journal(transactions),
            Step::WriteOtherData { seed } => self.write_other_data(*seed),
        }
    }

    /// The cause of an error: the power, or a broken promise.
    fn stop(&self, doing: &str, error: impl std::fmt::Display) -> Stop {
        if !goes_on(&self.drive.volume().device()) {
            return Stop::PowerLost;
        }
        let below = self.drive.last_error().unwrap_or_else(|| "nothing".to_owned());
        Stop::Broken(Broken::error("SQLite works", format!("{doing}: {error}; below SQLite: {below}")))
    }

    /// Opens the connections that are not open.
    fn open_missing(&mut self) -> Result<(), Stop> {
        while self.writers.len() < WRITERS {
            let writer = self.open()?;
            set_cache(&writer, LARGE_CACHE_PAGES).map_err(|error| self.stop("setting the cache", error))?;
            self.writers.push(writer);
        }
        while self.readers.len() < READERS {
            let connection = self.open()?;
            self.readers.push(Reader { connection, snapshot: None, since: 0 });
        }
        Ok(())
    }

    fn open(&self) -> Result<Connection, Stop> {
        open(self.drive, self.synchronous).map_err(|error| self.stop("opening a connection", error))
    }

    fn transaction(&mut self, transaction: &Transaction) -> Result<(), Stop> {
        let Transaction { writer, changes, discarded, watched } = transaction;
        let next = self.history.current().after(changes);
        let number = next.number;
        self.history.begun(next);
        let begun = contents::begin(&self.writers[*writer], number, changes, *discarded);
        if *watched && begun.is_ok() && self.has_log() {
            self.watch()?;
        }
        let committed = begun.and_then(|()| self.writers[*writer].execute_batch("COMMIT"));
        if self.unless_full(*writer, "a transaction", committed)? {
            self.history.acknowledged();
            self.transactions += 1;
        } else {
            self.history.refused();
        }
        Ok(())
    }

    /// Whether it succeeded. A transaction larger than the drive's limit is refused as on a full disk.
    fn unless_full(&self, writer: usize, doing: &str, result: rusqlite::Result<()>) -> Result<bool, Stop> {
        let Err(error) = result else { return Ok(true) };
        if self.mode != Mode::XFtl || error.sqlite_error_code() != Some(ErrorCode::DiskFull) {
            return Err(self.stop(doing, error));
        }
        let connection = &self.writers[writer];
        if !connection.is_autocommit() {
            connection.execute_batch("ROLLBACK").map_err(|error| self.stop("a rollback", error))?;
        }
        Ok(false)
    }

    fn has_log(&self) -> bool {
        self.mode.journal_mode() == "wal"
    }

    fn checkpoint(&mut self, writer: usize, kind: &str) -> Result<(), Stop> {
        let sql = format!("PRAGMA wal_checkpoint({kind})");
        let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let (busy, frames, home): (i64, i64, i64) =
            self.writers[writer].query_row(&sql, [], columns).map_err(|error| self.stop(&sql, error))?;
        if busy == 0 && frames >= 0 && frames == home {
            self.history.all_is_durable();
        }
        Ok(())
    }

    /// A reader opens its snapshot, or reads it once more and closes it. Without a log a reader would block the
    /// writers, so it closes its snapshot at once.
    fn read(&mut self, reader: usize) -> Result<(), Stop> {
        if self.readers[reader].snapshot.is_none() {
            self.reader_says(reader, "BEGIN")?;
            self.readers[reader].snapshot = Some(self.history.current().clone());
            self.readers[reader].since = self.steps;
            self.look(reader)?;
            if self.has_log() {
                return Ok(());
            }
        } else {
            self.look(reader)?;
        }
        self.readers[reader].snapshot = None;
        self.reader_says(reader, "COMMIT")
    }

    fn close_old_snapshots(&mut self) -> Result<(), Stop> {
        for reader in 0..self.readers.len() {
            let Reader { snapshot, since, .. } = &self.readers[reader];
            if snapshot.is_some() && self.steps - since > SNAPSHOT_STEPS {
                self.read(reader)?;
            }
        }
        Ok(())
    }

    fn reader_says(&self, reader: usize, sql: &str) -> Result<(), Stop> {
        let said = self.readers[reader].connection.execute_batch(sql);
        said.map_err(|error| self.stop("a reader", error))
    }

    fn watch(&mut self) -> Result<(), Stop> {
        (0..self.readers.len()).try_for_each(|reader| self.look(reader))
    }

    /// Compares what a reader sees with what it saw first.
    fn look(&mut self, reader: usize) -> Result<(), Stop> {
        let Reader { connection, snapshot: Some(snapshot), .. } = &self.readers[reader] else {
            return Ok(());
        };
        let seen = Contents::read(connection).map_err(|error| self.stop("a reader", error))?;
        self.checked += 1;
        match snapshot.difference(&seen) {
            None => Ok(()),
            Some(difference) => Err(Stop::Broken(Broken::new("a reader keeps its snapshot", difference))),
        }
    }

    fn switch_journal(&mut self, transactions: &[Transaction]) -> Result<(), Stop> {
        self.readers.clear();
        self.writers.truncate(1);
        // After the log is gone, SQLite (3.40 and 3.54, on ordinary files as well) takes this connection's page cache
        // for current, although another connection may have committed: it compares change counters, which commits to a
        // log that leave page 1 unchanged do not increase. Reading while the log is there refreshes the cache.
        self.refresh()?;
        self.set_journal_mode("delete")?;
        for transaction in transactions {
            self.transaction(&Transaction { writer: 0, ..transaction.clone() })?;
        }
        self.set_journal_mode("wal")?;
        // SQLite leaves a read transaction open after that PRAGMA, which the next statement ends. Otherwise a
        // checkpoint is refused with SQLITE_LOCKED, on ordinary files as well.
        self.refresh()
    }

    /// The only connection reads everything.
    fn refresh(&mut self) -> Result<(), Stop> {
        let read = Contents::read(&self.writers[0]).map_err(|error| self.stop("reading", error))?;
        self.checked += 1;
        match self.history.current().difference(&read) {
            None => Ok(()),
            Some(difference) => Err(Stop::Broken(Broken::new("SQLite works", difference))),
        }
    }

    fn set_journal_mode(&mut self, wanted: &str) -> Result<(), Stop> {
        let sql = format!("PRAGMA journal_mode={wanted}");
        let is: String =
            self.writers[0].query_row(&sql, [], |row| row.get(0)).map_err(|error| self.stop(&sql, error))?;
        if is == wanted {
            return Ok(());
        }
        Err(self.stop(&sql, format!("it is {is}")))
    }

    fn write_other_data(&mut self, seed: u64) -> Result<(), Stop> {
        let mut random = Random::seed_from_u64(seed);
        let mut unit = [0; UNIT_BYTES];
        for _ in 0..OTHER_UNITS_WRITTEN {
            random.fill_bytes(&mut unit);
            let offset = random.random_range(0..OTHER_UNITS) * UNIT_BYTES as u64;
            let written = {
                let mut volume = self.drive.volume();
                let file = volume.find(OTHER_DATA).expect("it was made durable before the first cut");
                volume.write(file, offset, &unit)
            };
            written.map_err(|error| self.stop("writing other data", error))?;
        }
        Ok(())
    }
}
