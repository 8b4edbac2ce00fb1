//! An open file on a volume: SQLite's requests, without its C interface.

use tantalum_volume::{Timestamp, Volume};

use crate::batch::Batch;
use crate::fault::Fault;
use crate::ffi;
use crate::host::{DatabaseId, Host, HostRef, Target};
use crate::lock::{HandleId, LockLevel};
use crate::mode::Mode;
use crate::shm::ShmHeld;
use crate::transaction::Transaction;

/// One open file, of one connection.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) host: HostRef,
    pub(crate) id: HandleId,
    pub(crate) target: Target,
    delete_on_close: Option<String>,
    pub(crate) lock: LockLevel,
    /// RESERVED was taken on the way to EXCLUSIVE: SQLite is writing on its own account, and not recovering from a
    /// crash.
    pub(crate) writes_for_itself: bool,
    pub(crate) shm: ShmHeld,
    pub(crate) persist_log: bool,
    pub(crate) transaction: Option<Transaction>,
    pub(crate) batch: Option<Batch>,
    /// A batch was refused, and SQLite continues with a rollback journal that it has not synced.
    pub(crate) journal_is_unsynced: bool,
    /// Whether anything was written, or the size changed.
    has_written: bool,
}

impl Handle {
    /// Opens a file of a host's volume, with SQLite's `SQLITE_OPEN_` flags.
    /// With `now`, the file has that date if it is new.
    pub fn open(host: &HostRef, name: &str, flags: i32, now: Option<Timestamp>) -> Result<Handle, Fault> {
        let (id, target) = host.lock().open(name, flags, now)?;
        let delete_on_close = (flags & ffi::SQLITE_OPEN_DELETEONCLOSE != 0).then(|| name.to_owned());
        Ok(Handle {
            host: host.clone(),
            id,
            target,
            delete_on_close,
            lock: LockLevel::None,
            writes_for_itself: false,
            shm: ShmHeld::default(),
            persist_log: false,
            transaction: None,
            batch: None,
            journal_is_unsynced: false,
            has_written: false,
        })
    }

    /// Reads; fewer bytes than requested at the end of the file.
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<usize, Fault> {
        let mut host = self.host.lock();
        Ok(match self.target {
            Target::Plain(file) => host.volume.read(file, offset, data)?,
            Target::Log(id) => {
                let (volume, database) = host.database(id);
                database.log().read(volume, offset, data)?
            }
            Target::Database(id) => {
                let (volume, database) = host.database(id);
                match &self.transaction {
                    Some(transaction) => transaction.read(volume, offset, data)?,
                    None => database.read(volume, offset, data)?,
                }
            }
        })
    }

    /// Writes.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.has_written = true;
        let mut host = self.host.lock();
        match self.target {
            Target::Plain(file) => host.volume.write(file, offset, data)?,
            Target::Log(id) => {
                host.check_changes()?;
                let (volume, database) = host.database(id);
                database.log().write(volume, offset, data)?;
            }
            Target::Database(id) => {
                begin_transaction(&mut self.transaction, self.lock, &mut host, id)?;
                let (volume, database) = host.database(id);
                if self.journal_is_unsynced && self.batch.is_none() {
                    database.sync_journal(volume)?;
                    self.journal_is_unsynced = false;
                }
                match (&mut self.batch, &mut self.transaction) {
                    (Some(batch), _) => batch.write(volume, offset, data)?,
                    (None, Some(transaction)) => transaction.write(volume, offset, data)?,
                    (None, None) => database.write(volume, offset, data)?,
                }
            }
        }
        Ok(())
    }

    /// Truncates the file, or extends it with zeros.
    pub fn truncate(&mut self, bytes: u64) -> Result<(), Fault> {
        self.has_written = true;
        let mut host = self.host.lock();
        match self.target {
            Target::Plain(file) => host.volume.set_size(file, bytes)?,
            Target::Log(id) => {
                let (volume, database) = host.database(id);
                database.log().truncate(volume, bytes)?;
            }
            Target::Database(id) => {
                begin_transaction(&mut self.transaction, self.lock, &mut host, id)?;
                let (volume, database) = host.database(id);
                match (&mut self.batch, &mut self.transaction) {
                    (Some(batch), _) => batch.set_size(bytes),
                    (None, Some(transaction)) => transaction.set_size(bytes),
                    (None, None) => database.truncate(volume, bytes)?,
                }
            }
        }
        Ok(())
    }

    /// Makes what was written durable. Pages of a drive transaction become durable when it commits.
    pub fn sync(&mut self) -> Result<(), Fault> {
        let mut host = self.host.lock();
        match self.target {
            Target::Plain(file) => host.volume.sync(file)?,
            Target::Log(id) => {
                let (volume, database) = host.database(id);
                database.log().sync(volume)?;
            }
            Target::Database(_) if self.transaction.is_some() => {
                if !self.writes_for_itself {
                    commit(&mut self.transaction, &mut host.volume)?;
                }
            }
            Target::Database(id) => {
                let (volume, database) = host.database(id);
                database.sync(volume)?;
            }
        }
        Ok(())
    }

    /// Bytes of the file, as this connection sees it.
    pub fn size(&mut self) -> Result<u64, Fault> {
        let mut host = self.host.lock();
        Ok(match self.target {
            Target::Plain(file) => host.volume.size(file)?,
            Target::Log(id) => {
                let (volume, database) = host.database(id);
                database.log().size(volume)?
            }
            Target::Database(id) => match (&self.batch, &self.transaction) {
                (Some(batch), _) => batch.size(),
                (None, Some(transaction)) => transaction.size(),
                (None, None) => {
                    let (volume, database) = host.database(id);
                    volume.size(database.file)?
                }
            },
        })
    }

    /// SQLite's transaction is committed, and the drive's with it.
    pub fn commit_transaction(&mut self) -> Result<(), Fault> {
        commit(&mut self.transaction, &mut self.host.lock().volume)
    }

    /// SQLite gives up the right to write: its own transaction, if not committed, was rolled back. What it wrote to
    /// recover from a crash must stay.
    pub(crate) fn end_transaction(&mut self) -> Result<(), Fault> {
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        let volume = &mut self.host.lock().volume;
        if !self.writes_for_itself {
            return match transaction.commit(volume)? {
                true => Ok(()),
                false => Err(Fault::Doomed),
            };
        }
        Ok(transaction.abort(volume)?)
    }

    /// Closes the file. Even if something fails, the handle no longer holds anything. With `now`, a file that was
    /// written to has that date.
    pub fn close(mut self, now: Option<Timestamp>) -> Result<HostRef, (HostRef, Fault)> {
        let ended = self.end_transaction();
        let unlocked = self.unlock(LockLevel::None);
        let mut host = self.host.lock();
        let dated = match now.filter(|_| self.has_written) {
            Some(now) => host.date(self.target, now),
            None => Ok(()),
        };
        let left = match self.target {
            Target::Plain(_) => Ok(()),
            Target::Log(id) => {
                let (volume, database) = host.database(id);
                let closed = database.close_log(volume);
                host.forget_if_closed(id);
                closed.map_err(Fault::from)
            }
            Target::Database(id) => {
                let (_, database) = host.database(id);
                database.shm.unlock_all(&mut self.shm);
                database.shm.unmap(self.id);
                database.handles -= 1;
                host.forget_if_closed(id);
                Ok(())
            }
        };
        host.handles -= 1;
        let deleted = self.delete_on_close.map_or(Ok(()), |name| host.volume.remove(&name));
        drop(host);
        let result = ended.and(unlocked).and(dated).and(left).and(deleted.map_err(Fault::from));
        match result {
            Ok(()) => Ok(self.host),
            Err(fault) => Err((self.host, fault)),
        }
    }
}

/// Opens a drive transaction if one is due: in the mode for it, when SQLite is about to write to a database that has
/// no log.
fn begin_transaction(
    transaction: &mut Option<Transaction>,
    lock: LockLevel,
    host: &mut Host,
    id: DatabaseId,
) -> Result<(), Fault> {
    if transaction.is_none() && host.mode == Mode::XFtl && lock == LockLevel::Exclusive {
        let (volume, database) = host.database(id);
        if !database.has_log() {
            *transaction = Some(Transaction::begin(volume, database.file)?);
        }
    }
    Ok(())
}

/// Commits a transaction, if there is one. If that fails the transaction stays, for SQLite to roll back.
fn commit(transaction: &mut Option<Transaction>, volume: &mut Volume) -> Result<(), Fault> {
    if let Some(open) = transaction {
        if !open.commit(volume)? {
            return Err(Fault::Doomed);
        }
        *transaction = None;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tantalum::{Command, Device, Profile, UNIT_BYTES};

    use super::*;
    use crate::ffi::{SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_DB};

    fn opened(mode: Mode) -> (HostRef, Handle) {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let volume = Volume::format(Device::in_memory(&profile).unwrap(), 2 << 20).unwrap();
        let host = HostRef::new(volume, mode);
        let handle = open(&host);
        (host, handle)
    }

    fn open(host: &HostRef) -> Handle {
        Handle::open(host, "app.db", SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB, None).unwrap()
    }

    /// The first byte of a unit of the database on the drive.
    fn stored(host: &HostRef, unit: u64) -> u8 {
        let volume = &mut host.lock().volume;
        let file = volume.find("app.db").unwrap();
        let Some(lpn) = volume.lpn(file, unit) else { return 0 };
        let mut data = [0xEE; UNIT_BYTES];
        volume.submit(Command::Read { lpn, data: &mut data }).unwrap();
        data[0]
    }

    fn size(host: &HostRef) -> u64 {
        let volume = &mut host.lock().volume;
        let file = volume.find("app.db").unwrap();
        volume.size(file).unwrap()
    }

    /// SQLite rolls a journal back on its way from SHARED to EXCLUSIVE, and removes the journal after a sync.
    #[test]
    fn what_recovery_writes_is_on_the_drive_when_it_is_synced() {
        for mode in Mode::ALL {
            let (host, mut handle) = opened(mode);
            handle.raise_lock(LockLevel::Shared).unwrap();
            handle.raise_lock(LockLevel::Exclusive).unwrap();
            handle.write(0, &[7; 3 * UNIT_BYTES]).unwrap();
            handle.truncate(2 * UNIT_BYTES as u64).unwrap();
            assert_eq!(handle.size().unwrap(), 2 * UNIT_BYTES as u64, "{mode}");
            handle.sync().unwrap();
            assert_eq!((stored(&host, 0), stored(&host, 1)), (7, 7), "{mode}");
            assert_eq!(size(&host), 2 * UNIT_BYTES as u64, "{mode}");
            handle.unlock(LockLevel::None).unwrap();
            assert_eq!(stored(&host, 0), 7, "{mode}");
        }
    }

    /// A journal is not rolled back while its writer is there.
    #[test]
    fn a_writer_is_seen_by_others_that_have_the_database_open() {
        let (host, mut one) = opened(Mode::Rollback);
        let other = open(&host);
        one.raise_lock(LockLevel::Shared).unwrap();
        assert!(!other.is_reserved().unwrap());
        one.raise_lock(LockLevel::Reserved).unwrap();
        assert!(other.is_reserved().unwrap());
    }

    #[test]
    fn a_batch_begins_in_its_mode_with_the_exclusive_lock_only() {
        for (mode, level, begins) in [
            (Mode::Atomic, LockLevel::Exclusive, true),
            (Mode::Atomic, LockLevel::Reserved, false),
            (Mode::Rollback, LockLevel::Exclusive, false),
        ] {
            let (_host, mut handle) = opened(mode);
            handle.raise_lock(LockLevel::Shared).unwrap();
            handle.raise_lock(LockLevel::Reserved).unwrap();
            handle.raise_lock(level).unwrap();
            assert_eq!(handle.begin_batch().is_ok(), begins, "{mode}");
        }
    }
}
