//! The write-ahead log of a database: a plain file, or one laid out in units.
//!
//! The attributes of a log's volume file say what the log *is*, so every mode can read every log. The mode decides what
//! it *becomes*, each time SQLite restarts it.

use tantalum_volume::{ATTRIBUTE_BYTES, FileId, Volume, VolumeError};

use crate::frame::{LOG_HEADER_BYTES, Layout, LogHeader};
use crate::framed_log::FramedLog;
use crate::mode::Mode;

/// A log that some connection has open.
#[derive(Debug)]
pub(crate) struct LogFile {
    file: FileId,
    database: FileId,
    mode: Mode,
    framed: Option<FramedLog>,
}

impl LogFile {
    /// The log in a volume file.
    pub fn open(
        volume: &mut Volume,
        file: FileId,
        database: FileId,
        mode: Mode,
    ) -> Result<LogFile, VolumeError> {
        let framed = match Layout::from_attributes(&volume.attributes(file)?) {
            Some(layout) => Some(FramedLog::open(volume, file, database, layout, mode.hints_log())?),
            None => None,
        };
        Ok(LogFile { file, database, mode, framed })
    }

    /// The volume file that it is in.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The log, if it is laid out in units.
    pub fn framed(&mut self) -> Option<&mut FramedLog> {
        self.framed.as_mut()
    }

    /// Reads; fewer bytes than requested at the end.
    pub fn read(&mut self, volume: &mut Volume, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        match &mut self.framed {
            Some(log) => log.read(volume, offset, data),
            None => volume.read(self.file, offset, data),
        }
    }

    /// Writes.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        if offset == 0 && data.len() == LOG_HEADER_BYTES {
            return self.restart(volume, data);
        }
        match &mut self.framed {
            Some(log) => log.write(volume, offset, data),
            None => volume.write(self.file, offset, data),
        }
    }

    /// Truncates the log.
    pub fn truncate(&mut self, volume: &mut Volume, bytes: u64) -> Result<(), VolumeError> {
        match &mut self.framed {
            Some(log) => log.truncate(volume, bytes),
            None => volume.set_size(self.file, bytes),
        }
    }

    /// Makes the log durable.
    pub fn sync(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        match &mut self.framed {
            Some(log) => log.sync(volume),
            None => volume.sync(self.file),
        }
    }

    /// Bytes of the log.
    pub fn size(&self, volume: &Volume) -> Result<u64, VolumeError> {
        match &self.framed {
            Some(log) => Ok(log.size()),
            None => volume.size(self.file),
        }
    }

    /// The last connection leaves: pages in memory go to the drive, as a system's page cache would keep them.
    pub fn close(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        if let Some(log) = &mut self.framed {
            log.issue_shares(volume)?;
            log.send(volume)?;
        }
        Ok(())
    }

    /// A header is written: the log restarts, in the mode's layout.
    fn restart(&mut self, volume: &mut Volume, data: &[u8]) -> Result<(), VolumeError> {
        let header = LogHeader::parse(data);
        let wanted =
            header.filter(|_| self.mode.frames_log()).and_then(|header| Layout::new(header.page_bytes()));
        if self.framed.as_ref().map(|log| log.layout) != wanted {
            self.empty(volume)?;
            self.framed = wanted
                .map(|layout| FramedLog::create(self.file, self.database, layout, self.mode.hints_log()));
        }
        match (&mut self.framed, header) {
            (Some(log), Some(header)) => log.restart(volume, header),
            _ => volume.write(self.file, 0, data),
        }
    }

    /// Makes the log durably empty and plain. Its contents are no longer needed: all are durably in the database.
    fn empty(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        if let Some(log) = &mut self.framed {
            log.issue_shares(volume)?;
        }
        volume.set_size(self.file, 0)?;
        volume.set_attributes(self.file, &[0; ATTRIBUTE_BYTES])?;
        volume.sync(self.file)
    }
}

#[cfg(test)]
#[path = "log_file_tests.rs"]
mod tests;
