//! A database file that some connection has open, with its log, its locks and its shared memory.

use tantalum::canary::{self, Guard};
use tantalum_volume::{FileId, Volume, VolumeError};

use crate::framed_log::FramedLog;
use crate::lock::Locks;
use crate::log_file::LogFile;
use crate::mode::Mode;
use crate::shm::Shm;

/// A database with open handles.
#[derive(Debug)]
pub(crate) struct Database {
    pub name: String,
    pub file: FileId,
    /// Open handles of the database file.
    pub handles: u32,
    pub locks: Locks,
    pub shm: Shm,
    mode: Mode,
    log: Option<LogFile>,
    log_handles: u32,
}

impl Database {
    /// A database that nobody has open yet.
    pub fn new(name: &str, file: FileId, mode: Mode) -> Database {
        Database {
            name: name.to_owned(),
            file,
            handles: 0,
            locks: Locks::default(),
            shm: Shm::default(),
            mode,
            log: None,
            log_handles: 0,
        }
    }

    /// Whether somebody has the log open; if so, SQLite uses it.
    pub fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// The log.
    ///
    /// # Panics
    ///
    /// If no handle of it is open.
    pub fn log(&mut self) -> &mut LogFile {
        self.log.as_mut().expect("a log with an open handle is there")
    }

    /// Somebody opens the log, which is in volume file `file`.
    pub fn open_log(&mut self, volume: &mut Volume, file: FileId) -> Result<(), VolumeError> {
        if self.log.is_none() {
            self.log = Some(LogFile::open(volume, file, self.file, self.mode)?);
        }
        self.log_handles += 1;
        Ok(())
    }

    /// Somebody closes the log.
    pub fn close_log(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.log_handles -= 1;
        if self.log_handles > 0 {
            return Ok(());
        }
        let mut log = self.log.take().expect("a log with an open handle is there");
        log.close(volume)
    }

    /// Reads from the database file; fewer bytes than requested at its end.
    pub fn read(&mut self, volume: &mut Volume, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        self.issue_shares(volume)?;
        volume.read(self.file, offset, data)
    }

    /// Writes to the database file, or shares what the log already has.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        if self.mode.frames_log()
            && let Some(log) = self.framed_log()
            && log.take_home(volume, offset, data)?
        {
            return Ok(());
        }
        self.issue_shares(volume)?;
        volume.write(self.file, offset, data)
    }

    /// Truncates or extends the database file.
    pub fn truncate(&mut self, volume: &mut Volume, bytes: u64) -> Result<(), VolumeError> {
        self.issue_shares(volume)?;
        if let Some(log) = self.framed_log() {
            log.database_cut(bytes);
        }
        volume.set_size(self.file, bytes)
    }

    /// Makes the database's rollback journal durable, if there is one.
    pub fn sync_journal(&self, volume: &mut Volume) -> Result<(), VolumeError> {
        match volume.find(&format!("{}-journal", self.name)) {
            Some(journal) => volume.sync(journal),
            None => Ok(()),
        }
    }

    /// Makes the database file durable, including what a checkpoint shared. SQLite restarts its log only after this,
    /// when the log's old frames are no longer needed.
    pub fn sync(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.issue_shares(volume)?;
        if self.has_log() && canary::out(Guard::RestartBeforeHomes) {
            return Ok(());
        }
        volume.sync(self.file)
    }

    fn issue_shares(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        match self.framed_log() {
            Some(log) => log.issue_shares(volume),
            None => Ok(()),
        }
    }

    fn framed_log(&mut self) -> Option<&mut FramedLog> {
        self.log.as_mut().and_then(LogFile::framed)
    }
}
