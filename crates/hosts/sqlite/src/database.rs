//! A database file that some connection has open, with its log, its locks and its shared memory.

use tantalum_canaries::guard;
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
    /// A database that nobody has opened yet.
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
    /// Whether no handle of it is open.
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
        guard!(RestartBeforeHomes(volume, self.file, self.has_log()), volume.sync(self.file))
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

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile, UNIT_BYTES};

    use super::*;
    use crate::frame::{FRAME_HEADER_BYTES, LOG_HEADER_BYTES};

    /// A database of two pages; its log has another version of the second one, which a checkpoint brings home.
    fn with_checkpoint() -> (Volume, Database) {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 2 << 20).unwrap();
        let (file, log) = (volume.create("app.db").unwrap(), volume.create("app.db-wal").unwrap());
        let mut database = Database::new("app.db", file, Mode::Share);
        assert!(!database.has_log());
        database.open_log(&mut volume, log).unwrap();
        assert!(database.has_log());
        volume.write(file, 0, &[1; 2 * UNIT_BYTES]).unwrap();
        let mut header = [1; LOG_HEADER_BYTES];
        header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
        header[8..12].copy_from_slice(&(UNIT_BYTES as u32).to_be_bytes());
        database.log().write(&mut volume, 0, &header).unwrap();
        let mut frame = vec![5; FRAME_HEADER_BYTES + UNIT_BYTES];
        frame[..4].copy_from_slice(&2_u32.to_be_bytes());
        frame[4..8].copy_from_slice(&2_u32.to_be_bytes());
        frame[8..16].copy_from_slice(&[1; 8]);
        database.log().write(&mut volume, LOG_HEADER_BYTES as u64, &frame).unwrap();
        database.log().sync(&mut volume).unwrap();
        let mut read = vec![0; LOG_HEADER_BYTES + frame.len()];
        database.log().read(&mut volume, 0, &mut read).unwrap();
        database.write(&mut volume, UNIT_BYTES as u64, &[5; UNIT_BYTES]).unwrap();
        assert_eq!(shared(&volume), 0, "shares are gathered");
        (volume, database)
    }

    fn shared(volume: &Volume) -> u64 {
        volume.device().smart().counters.units_shared
    }

    /// SQLite restarts the log after that.
    #[test]
    fn a_sync_brings_home_what_was_to_be_shared_and_what_was_written() {
        let (mut volume, mut database) = with_checkpoint();
        database.sync(&mut volume).unwrap();
        assert_eq!(shared(&volume), 1);
        for unit in 0..2 {
            let lpn = volume.lpn(database.file, unit).expect("the page has its place");
            assert!(volume.device().is_mapped(lpn), "unit {unit}");
        }
        database.close_log(&mut volume).unwrap();
        assert!(!database.has_log());
    }

    #[test]
    fn a_database_is_cut_after_what_was_to_be_shared_is_home() {
        let (mut volume, mut database) = with_checkpoint();
        database.truncate(&mut volume, UNIT_BYTES as u64).unwrap();
        assert_eq!((shared(&volume), volume.size(database.file).unwrap()), (1, UNIT_BYTES as u64));
    }
}
