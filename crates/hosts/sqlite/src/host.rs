//! What all connections of one volume share.
//!
//! One mutex protects it. Every request of SQLite takes it once and releases it before it returns.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tantalum::Status;
use tantalum_volume::{FileId, MetadataChange, NewFile, Timestamp, Volume, VolumeError};

use crate::database::Database;
use crate::fault::Fault;
use crate::ffi;
use crate::lock::HandleId;
use crate::mode::Mode;

/// Identifies one open database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct DatabaseId(u64);

/// The kind of file that a handle is open on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// A file without special meaning, such as a rollback journal.
    Plain(FileId),
    /// A database file.
    Database(DatabaseId),
    /// The write-ahead log of a database.
    Log(DatabaseId),
}

/// A volume and what is open on it.
#[derive(Debug)]
pub(crate) struct Host {
    pub volume: Volume,
    pub mode: Mode,
    /// Open handles.
    pub handles: usize,
    /// Why the volume can only be read, if it can. SQLite's own recovery, from a journal or a log, then stays in memory.
    pub only_read: Option<Status>,
    databases: BTreeMap<DatabaseId, Database>,
    next_id: u64,
}

/// A host, as connections share it.
#[derive(Clone, Debug)]
pub(crate) struct HostRef(Arc<Mutex<Host>>);

impl HostRef {
    pub fn new(volume: Volume, mode: Mode) -> HostRef {
        let host = Host { volume, mode, handles: 0, only_read: None, databases: BTreeMap::new(), next_id: 1 };
        HostRef(Arc::new(Mutex::new(host)))
    }

    /// Takes the mutex. If another thread panicked while holding it, that thread returned an I/O error; the usual
    /// checks judge the state that it left.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, Host> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread has panicked while holding the mutex.
    pub fn has_panicked(&self) -> bool {
        self.0.is_poisoned()
    }

    /// Whether both are the same host.
    pub fn is(&self, other: &HostRef) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The volume, if this is the last reference and no handle is open.
    pub fn into_volume(self) -> Result<Volume, HostRef> {
        let mutex = Arc::try_unwrap(self.0).map_err(HostRef)?;
        Ok(mutex.into_inner().unwrap_or_else(PoisonError::into_inner).volume)
    }
}

impl Host {
    /// Refuses a change that is no recovery, if the volume can only be read.
    pub fn check_changes(&self) -> Result<(), Fault> {
        match &self.only_read {
            Some(why) => Err(VolumeError::Device(why.clone()).into()),
            None => Ok(()),
        }
    }

    /// The volume and an open database.
    pub fn database(&mut self, id: DatabaseId) -> (&mut Volume, &mut Database) {
        let database = self.databases.get_mut(&id).expect("a database with an open handle is there");
        (&mut self.volume, database)
    }

    /// Forgets a database that nobody has open any more.
    pub fn forget_if_closed(&mut self, id: DatabaseId) {
        let (_, database) = self.database(id);
        if database.handles == 0 && !database.has_log() {
            self.databases.remove(&id);
        }
    }

    /// Opens a file of the volume for one more handle, with SQLite's `SQLITE_OPEN_` flags.
    pub fn open(
        &mut self,
        name: &str,
        flags: i32,
        now: Option<Timestamp>,
    ) -> Result<(HandleId, Target), Fault> {
        let file = self.find_or_create(name, flags, now)?;
        let target = self.target(name, file, flags)?;
        self.handles += 1;
        Ok((HandleId(self.next_id()), target))
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Gives an open file the date of its last change.
    pub fn date(&mut self, target: Target, now: Timestamp) -> Result<(), Fault> {
        let file = match target {
            Target::Plain(file) => file,
            Target::Database(id) => self.database(id).1.file,
            Target::Log(id) => self.database(id).1.log().file(),
        };
        let change = MetadataChange { modified: Some(now), changed: Some(now), ..MetadataChange::default() };
        // A file that lost its name meanwhile needs no date.
        match self.volume.metadata(file).is_ok() {
            true => Ok(self.volume.change_metadata(file, &change)?),
            false => Ok(()),
        }
    }

    fn find_or_create(&mut self, name: &str, flags: i32, now: Option<Timestamp>) -> Result<FileId, Fault> {
        match self.volume.find(name) {
            Some(_) if flags & ffi::SQLITE_OPEN_EXCLUSIVE != 0 => Err(Fault::Exists(name.to_owned())),
            Some(file) => Ok(file),
            None if flags & ffi::SQLITE_OPEN_CREATE == 0 => Err(Fault::NoSuchFile(name.to_owned())),
            None if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 && self.only_read.is_some() => {
                Err(self.check_changes().expect_err("it can only be read"))
            }
            None => match now {
                None => Ok(self.volume.create(name)?),
                Some(now) => {
                    let new = NewFile { permissions: 0o644, now, ..NewFile::default() };
                    Ok(self.volume.create_in(FileId::ROOT, name.as_bytes(), &new)?)
                }
            },
        }
    }

    fn target(&mut self, name: &str, file: FileId, flags: i32) -> Result<Target, Fault> {
        if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            let id = self.open_database(name, file);
            self.database(id).1.handles += 1;
            return Ok(Target::Database(id));
        }
        if flags & ffi::SQLITE_OPEN_WAL != 0 {
            let of = name.strip_suffix("-wal").and_then(|database| self.find_database(database));
            let id = of.ok_or_else(|| Fault::LogAlone(name.to_owned()))?;
            let (volume, database) = self.database(id);
            database.open_log(volume, file)?;
            return Ok(Target::Log(id));
        }
        Ok(Target::Plain(file))
    }

    fn find_database(&self, name: &str) -> Option<DatabaseId> {
        self.databases.iter().find(|(_, database)| database.name == name).map(|(&id, _)| id)
    }

    fn open_database(&mut self, name: &str, file: FileId) -> DatabaseId {
        if let Some(id) = self.find_database(name)
            && self.databases[&id].file == file
        {
            return id;
        }
        let id = DatabaseId(self.next_id());
        self.databases.insert(id, Database::new(name, file, self.mode));
        id
    }
}
