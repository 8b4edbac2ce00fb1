//! SQLite as a program under test.

use std::ops::Deref;

use rusqlite::Connection;
use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_sqlite::{Mode, SharedVolume, Synchronous};
use tantalum_volume::Volume;

use super::contents::{self, Contents};
use super::history::History;
use super::session::{self, DATABASE, OTHER_UNITS, Session};
use super::step::Steps;
use crate::error::CrashError;
use crate::program::drive::{profile, volume};
use crate::program::{Broken, Life, Program, RunEnd, VolumeInUse, live_steps};

/// A database, in one mode and with one `PRAGMA synchronous`.
#[derive(Clone, Copy)]
pub(super) struct Database {
    pub mode: Mode,
    pub synchronous: Synchronous,
}

impl VolumeInUse for SharedVolume {
    fn volume(&self) -> impl Deref<Target = Volume> {
        SharedVolume::volume(self)
    }
}

impl Program for Database {
    type TestBed = Volume;
    type DriveInUse = SharedVolume;
    type Opened = (Connection, Contents);
    type Expected = History;

    const CUT_OPERATIONS: u64 = 30;
    const SECOND_CUT_OPERATIONS: u64 = 8;
    /// The integrity check, and the contents.
    const PROMISES: u64 = 2;
    /// 128 pages, so that dirty ones are written back before their sync.
    const CACHE_BYTES: u64 = 128 * UNIT_BYTES as u64;
    const LENGTH_OPTION: &str = "--transactions";

    fn profile(seed: u64) -> Profile {
        profile("crash-sqlite", 16384, seed)
    }

    fn prepare_on(device: Device, seed: u64) -> Result<Volume, CrashError> {
        let volume = volume(device, Database::CACHE_BYTES, OTHER_UNITS, seed)?;
        let drive = SharedVolume::new(volume, Mode::Rollback, Some(seed));
        let connection = drive.open(DATABASE).map_err(CrashError::sqlite("opening a new database"))?;
        make_tables(&connection, seed).map_err(CrashError::sqlite("making the tables"))?;
        drop(connection);
        drive.into_volume().map_err(|(_, error)| error.into())
    }

    fn take(&self, volume: Volume, seed: u64) -> SharedVolume {
        SharedVolume::new(volume, self.mode, Some(seed))
    }

    fn give_back(drive: SharedVolume) -> Result<Volume, Broken> {
        if drive.has_panicked() {
            return Err(Broken::new(
                "nothing panics",
                "a request to the VFS did; standard error has its message",
            ));
        }
        drive.into_volume().map_err(|(_, error)| Broken::new("files close", error.to_string()))
    }

    /// The database in its mode, with its contents before the first transaction.
    fn open_first(&self, drive: &SharedVolume) -> Result<Self::Opened, RunEnd> {
        let failed = CrashError::sqlite("opening the new database");
        let connection = session::open(drive, self.synchronous).map_err(failed)?;
        Ok((connection, Contents::default()))
    }

    /// Lets SQLite recover the database and check it, and reads it.
    fn open_again(&self, drive: &SharedVolume) -> Result<Self::Opened, Broken> {
        let said = |doing: &str, error: rusqlite::Error| {
            let below = drive.last_error().unwrap_or_else(|| "nothing".to_owned());
            Broken::new("the database opens", format!("{doing}: {error}; below SQLite: {below}"))
        };
        let connection = session::open(drive, self.synchronous).map_err(|error| said("opening", error))?;
        let check: String = connection
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .map_err(|error| said("checking", error))?;
        if check != "ok" {
            return Err(Broken::new("the database is intact", check));
        }
        let contents = Contents::read(&connection).map_err(|error| said("reading", error))?;
        Ok((connection, contents))
    }

    fn live(
        &self,
        drive: &SharedVolume,
        (connection, contents): Self::Opened,
        life: &Life,
    ) -> (Result<History, Broken>, u64) {
        let mut history = History::new(self.mode, self.synchronous, contents);
        let mut session = Session::new(drive, self.synchronous, connection, &mut history);
        let mut steps = Steps::new(life.seed, self.mode);
        let lived = live_steps(life, drive, || session.step(&steps.next()).map(|()| session.transactions));
        let checked = session.checked;
        drop(session);
        (lived.map(|()| history), checked)
    }

    fn check(history: &History, (_, found): &Self::Opened) -> Result<(), Broken> {
        history.check(found)
    }

    fn name(&self) -> String {
        format!("{}, {}", self.mode, self.synchronous.name())
    }

    fn command(&self) -> String {
        format!("sqlite --mode {} --synchronous {}", self.mode, self.synchronous.name())
    }
}

/// The database's page size: mostly one unit, sometimes two, sometimes less than one.
fn page_bytes(seed: u64) -> u32 {
    [4096, 8192, 4096, 4096, 1024, 4096][(seed % 6) as usize]
}

fn make_tables(connection: &Connection, seed: u64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", page_bytes(seed))?;
    if !seed.is_multiple_of(2) {
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
    // EXTRA, because the rest of the test starts from these tables.
    connection.pragma_update(None, "synchronous", "extra")?;
    contents::create(connection)
}
