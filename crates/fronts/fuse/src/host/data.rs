//! Requests for the contents of files.

use fuser::{Errno, INodeNo, OpenFlags};
use nix::libc;
use tantalum::{Fetches, Fills, UNIT_BYTES};
use tantalum_filesystem::{FileId, MetadataChange, is_whole_units};

use super::{Host, Outcome};
use crate::convert::{file_of, now};

/// An answer counts bytes in 32 bits; programs ask again for the rest.
const MOST_COPIED: u64 = 1 << 31;

impl Host {
    /// Reads into `data`, and returns how many bytes there were.
    pub fn read(&mut self, inode: INodeNo, offset: u64, data: &mut [u8]) -> Outcome<usize> {
        Ok(self.file_system.read(file_of(inode)?, offset, data, None)?)
    }

    /// As [`Host::read`]; bytes from the drive are left to be fetched into `data` afterwards, if any can be fetched.
    pub fn read_later(
        &mut self,
        inode: INodeNo,
        offset: u64,
        data: &mut [u8],
    ) -> Outcome<(usize, Option<Fetches>)> {
        let can_wait = is_whole_units(offset, data.len());
        let mut fetches = can_wait.then(|| self.file_system.client().device().fetches()).flatten();
        let bytes = self.file_system.read(file_of(inode)?, offset, data, fetches.as_mut())?;
        Ok((bytes, fetches))
    }

    /// The drive's buffers for an upcoming write, if it goes to the drive at once and they can be filled now.
    pub fn fills(&mut self, offset: u64, bytes: usize, flags: OpenFlags) -> Option<Fills> {
        if self.atomic_writes || !is_direct(offset, bytes, flags) {
            return None;
        }
        // if there are none, the write reports why
        self.file_system.client().device().fills(bytes / UNIT_BYTES).ok().flatten()
    }

    /// Writes `data`; `fills` already hold the same bytes.
    pub fn write(
        &mut self,
        inode: INodeNo,
        offset: u64,
        data: &[u8],
        flags: OpenFlags,
        ends_privileges: bool,
        fills: Option<&mut Fills>,
    ) -> Outcome<u32> {
        let file = file_of(inode)?;
        if ends_privileges {
            self.end_privileges(file)?;
        }
        if self.atomic_writes && is_whole_units(offset, data.len()) {
            self.file_system.write_whole(file, offset, data)?;
        } else if is_direct(offset, data.len(), flags) {
            self.file_system.write_direct(file, offset, data, fills)?;
        } else {
            self.file_system.write(file, offset, data)?;
        }
        if let Some(watched) = &mut self.watched {
            watched.wrote(file, data.len() as u64);
        }
        self.note_write(file)?;
        if flags.0 & libc::O_SYNC == libc::O_SYNC {
            self.file_system.sync(file)?;
        } else if self.sync_writes || flags.0 & libc::O_DSYNC != 0 {
            self.file_system.sync_data(file)?;
        }
        Ok(data.len() as u32)
    }

    pub fn note_write(&mut self, file: FileId) -> Outcome<()> {
        let now = Some(now());
        let change = MetadataChange { modified: now, changed: now, ..MetadataChange::default() };
        Ok(self.file_system.change_metadata(file, &change)?)
    }

    pub fn sync(&mut self, inode: INodeNo, data_only: bool) -> Outcome<()> {
        let file = file_of(inode)?;
        if data_only {
            self.file_system.sync_data(file)?
        } else {
            self.file_system.sync(file)?
        }
        if let Some(watched) = &mut self.watched {
            watched.synced(file);
        }
        Ok(())
    }

    pub fn allocate(&mut self, inode: INodeNo, offset: u64, bytes: u64, mode: i32) -> Outcome<()> {
        let file = file_of(inode)?;
        let keep_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => self.file_system.allocate(file, offset, bytes, keep_size)?,
            libc::FALLOC_FL_PUNCH_HOLE if keep_size => self.file_system.punch_hole(file, offset, bytes)?,
            libc::FALLOC_FL_ZERO_RANGE => self.file_system.zero_range(file, offset, bytes, keep_size)?,
            _ => return Err(Errno::EOPNOTSUPP.into()),
        }
        self.note_write(file)
    }

    pub fn seek(&mut self, inode: INodeNo, from: i64, whence: i32) -> Outcome<i64> {
        if self.write_back {
            // what looks like a hole may be in the kernel's cache; the kernel takes the whole file for data from now on
            return Err(Errno::ENOSYS.into());
        }
        let file = file_of(inode)?;
        let from = u64::try_from(from).map_err(|_| Errno::ENXIO)?;
        let found = match whence {
            libc::SEEK_DATA => self.file_system.seek_data(file, from)?,
            libc::SEEK_HOLE => self.file_system.seek_hole(file, from)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        Ok(found.ok_or(Errno::ENXIO)? as i64)
    }

    pub fn copy(
        &mut self,
        (from, from_offset): (INodeNo, u64),
        (to, to_offset): (INodeNo, u64),
        bytes: u64,
    ) -> Outcome<u32> {
        let (from, to) = (file_of(from)?, file_of(to)?);
        let bytes = bytes.min(MOST_COPIED);
        let copied = self.file_system.copy_range(from, from_offset, to, to_offset, bytes)?;
        if let Some(watched) = &mut self.watched {
            watched.wrote(to, copied);
        }
        self.note_write(to)?;
        Ok(copied as u32)
    }
}

/// Whether a write bypasses the file system's page cache.
fn is_direct(offset: u64, bytes: usize, flags: OpenFlags) -> bool {
    flags.0 & libc::O_DIRECT != 0 && is_whole_units(offset, bytes)
}
