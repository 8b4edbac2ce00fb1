//! Power comes back: the drive recovers, the volume is mounted, SQLite opens the database, and its contents are checked
//! against what is allowed. Now and then power goes once more on the way.

use rusqlite::Connection;
use tantalum::{Device, PowerLoss};
use tantalum_sqlite::Synchronous;
use tantalum_sqlite::{Drive, Mode};
use tantalum_volume::Volume;

use super::contents::Contents;
use super::history::{Broken, History};
use super::session;
use super::volume::CACHE_BYTES;
use crate::CrashOutcome;

/// One recovery in this many loses power again while the drive recovers, and as many while SQLite does.
const SECOND_CUT_ONE_IN: u64 = 3;

/// Flash operations after which a second cut comes, at most.
const SECOND_CUT_OPERATIONS: u64 = 8;

/// Times that power may fail in one recovery before something else must be wrong.
const ATTEMPTS: u32 = 4;

/// What is the same for all cuts of one run.
pub(super) struct Recovery<'a> {
    pub mode: Mode,
    pub synchronous: Synchronous,
    /// Decides the outcome of operations in flight, and when power goes again.
    pub loss: &'a mut PowerLoss,
    pub outcome: &'a mut CrashOutcome,
}

/// A database with correct contents.
pub(super) struct Recovered {
    pub connection: Connection,
    pub contents: Contents,
    pub drive: Drive,
}

impl Recovery<'_> {
    /// Recovers from a cut, and checks.
    pub fn recover(&mut self, drive: Drive, seed: u64, history: &History) -> Result<Recovered, Broken> {
        let mut drive = self.power_on(drive, seed, true)?;
        if self.loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
            let operations = 1 + self.loss.random() % SECOND_CUT_OPERATIONS;
            drive.volume().device().cut_after(Some(operations));
            let opened = open_and_read(&drive, self.synchronous);
            let lost_power = !drive.volume().device().has_power();
            drive.volume().device().cut_after(None);
            match opened {
                Ok((connection, contents)) if !lost_power => {
                    return self.checked(drive, connection, contents, history);
                }
                Err(broken) if !lost_power => return Err(broken),
                // Connections are closed here: after a cut, that does nothing to the drive.
                _ => {}
            }
            self.outcome.second_cuts += 1;
            drive = self.power_on(drive, seed, false)?;
        }
        let (connection, contents) = open_and_read(&drive, self.synchronous)?;
        self.checked(drive, connection, contents, history)
    }

    fn checked(
        &mut self,
        drive: Drive,
        connection: Connection,
        contents: Contents,
        history: &History,
    ) -> Result<Recovered, Broken> {
        // The integrity check, and the contents.
        self.outcome.promises_checked += 2;
        history.check(&contents)?;
        Ok(Recovered { connection, contents, drive })
    }

    /// Turns power on and mounts the volume. The first recovery after a cut may be cut again, which is counted.
    fn power_on(&mut self, drive: Drive, seed: u64, first: bool) -> Result<Drive, Broken> {
        if drive.has_panicked() {
            return Err(Broken::new(
                "nothing panics",
                "a request to the VFS did; standard error has its message",
            ));
        }
        let volume =
            drive.into_volume().map_err(|(_, error)| Broken::new("files close", error.to_string()))?;
        let mut device = volume.into_client_without_sync().into_device().unwrap();
        if first && self.loss.random().is_multiple_of(SECOND_CUT_ONE_IN) {
            device.cut_after(Some(1 + self.loss.random() % SECOND_CUT_OPERATIONS));
        }
        self.recover_drive(&mut device, first)?;
        let volume = Volume::mount(device, CACHE_BYTES)
            .map_err(|error| Broken::new("the volume mounts", error.to_string()))?;
        Ok(Drive::new(volume, self.mode, Some(seed)))
    }

    fn recover_drive(&mut self, device: &mut Device, counted: bool) -> Result<(), Broken> {
        let mut reason = String::new();
        for _ in 0..ATTEMPTS {
            match device.power_on(self.loss) {
                Ok(report) if device.has_power() => {
                    device.cut_after(None);
                    self.outcome.torn_pages_seen += report.torn_pages;
                    self.outcome.dirty_recoveries += u64::from(counted && !report.clean);
                    return Ok(());
                }
                Ok(_) => reason = "power went at the end of recovery".to_owned(),
                Err(error) => reason = error.to_string(),
            }
            self.outcome.second_cuts += 1;
        }
        Err(Broken::new("the drive recovers", reason))
    }
}

/// Opens the database, lets SQLite recover and check it, and reads it.
fn open_and_read(drive: &Drive, synchronous: Synchronous) -> Result<(Connection, Contents), Broken> {
    let said = |doing: &str, error: rusqlite::Error| {
        let below = drive.last_error().unwrap_or_else(|| "nothing".to_owned());
        Broken::new("the database opens", format!("{doing}: {error}; below SQLite: {below}"))
    };
    let connection = session::open(drive, synchronous).map_err(|error| said("opening", error))?;
    let check: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| said("checking", error))?;
    if check != "ok" {
        return Err(Broken::new("the database is intact", check));
    }
    let contents = Contents::read(&connection).map_err(|error| said("reading", error))?;
    Ok((connection, contents))
}
