//! A handle's locks on its database file and on the shared memory of the log's index.

use std::ffi::c_void;
use std::ops::Range;

use crate::fault::Fault;
use crate::handle::Handle;
use crate::host::{DatabaseId, Target};
use crate::lock::LockLevel;

impl Handle {
    /// Raises the lock. RESERVED is for changes; recovery goes from SHARED to EXCLUSIVE.
    pub fn raise_lock(&mut self, wanted: LockLevel) -> Result<(), Fault> {
        let id = self.database_id()?;
        if wanted == LockLevel::Reserved {
            self.host.lock().check_changes()?;
        }
        self.lock = self.host.lock().database(id).1.locks.raise(self.id, self.lock, wanted);
        self.writes_for_itself |= self.lock == LockLevel::Reserved;
        if self.lock >= wanted { Ok(()) } else { Err(Fault::Busy) }
    }

    /// Lowers the lock to SHARED or none. A drive transaction that is still open ends with it.
    pub fn unlock(&mut self, to: LockLevel) -> Result<(), Fault> {
        let Target::Database(id) = self.target else { return Ok(()) };
        let ended = self.end_transaction();
        if to < self.lock {
            self.host.lock().database(id).1.locks.lower(self.id, self.lock, to);
            self.lock = to;
        }
        self.writes_for_itself = false;
        self.batch = None;
        self.journal_is_unsynced = false;
        ended
    }

    /// Whether any connection holds RESERVED or more.
    pub fn is_reserved(&self) -> Result<bool, Fault> {
        let id = self.database_id()?;
        Ok(self.host.lock().database(id).1.locks.is_reserved())
    }

    /// The address of a region of the shared memory; `None` if it does not exist and must not be created.
    pub fn map_shm(
        &mut self,
        region: usize,
        bytes: usize,
        extend: bool,
    ) -> Result<Option<*mut c_void>, Fault> {
        let id = self.database_id()?;
        Ok(self.host.lock().database(id).1.shm.map(self.id, region, bytes, extend))
    }

    /// Leaves the shared memory.
    pub fn unmap_shm(&mut self) -> Result<(), Fault> {
        let id = self.database_id()?;
        let mut host = self.host.lock();
        let shm = &mut host.database(id).1.shm;
        shm.unlock_all(&mut self.shm);
        shm.unmap(self.id);
        Ok(())
    }

    /// Takes locks of the shared memory.
    pub fn lock_shm(&mut self, locks: Range<usize>, exclusive: bool) -> Result<(), Fault> {
        let id = self.database_id()?;
        let taken = self.host.lock().database(id).1.shm.lock(&mut self.shm, locks, exclusive);
        if taken { Ok(()) } else { Err(Fault::Busy) }
    }

    /// Releases locks of the shared memory.
    pub fn unlock_shm(&mut self, locks: Range<usize>) -> Result<(), Fault> {
        let id = self.database_id()?;
        self.host.lock().database(id).1.shm.unlock(&mut self.shm, locks);
        Ok(())
    }

    /// The database, if the handle is open on its file and not on another.
    pub(crate) fn database_id(&self) -> Result<DatabaseId, Fault> {
        match self.target {
            Target::Database(id) => Ok(id),
            Target::Plain(_) | Target::Log(_) => Err(Fault::Unknown),
        }
    }
}
