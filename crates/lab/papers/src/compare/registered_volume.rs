//! A volume under a name known to SQLite.

use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::Connection;
use tantalum_sqlite::{Mode, Registration, SharedVolume};
use tantalum_volume::Volume;

use super::confinement::{Refusal, confine};
use crate::error::ExperimentError;

/// The database's file on the volume.
pub(crate) const DATABASE: &str = "test.db";

/// A volume that SQLite uses, under its own name.
pub(crate) struct RegisteredVolume {
    registration: Registration,
    pub drive: SharedVolume,
}

impl RegisteredVolume {
    /// Registers the volume with SQLite.
    pub fn new(volume: Volume, mode: Mode, seed: u64) -> Result<RegisteredVolume, ExperimentError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("tantalum-lab-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let drive = SharedVolume::new(volume, mode, Some(seed));
        let registration = drive.register(&name)?;
        Ok(RegisteredVolume { registration, drive })
    }

    /// Opens the database in the drive's mode. The connection is confined to the drive.
    pub fn open(&self) -> Result<Connection, ExperimentError> {
        self.open_confined().map(|(connection, _)| connection)
    }

    /// Opens the database in the drive's mode, confined to the drive; the [`Refusal`] says why a statement was refused.
    pub fn open_confined(&self) -> Result<(Connection, Refusal), ExperimentError> {
        let opening = || ExperimentError::sqlite("opening the database");
        let mut connection = self.drive.open(DATABASE).map_err(opening())?;
        let refusal = confine(&mut connection).map_err(opening())?;
        Ok((connection, refusal))
    }

    /// The volume, once no connection is open.
    pub fn into_volume(self) -> Result<Volume, ExperimentError> {
        drop(self.registration);
        Ok(self.drive.into_volume().map_err(|(_, error)| error)?)
    }
}
