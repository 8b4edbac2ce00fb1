//! Repeats recorded operations.

use std::collections::HashMap;

use tantalum_filesystem::{
    Errno, FileId, FileKind, FileSystem, MetadataChange, NewFile, Outcome, SetMode, Timestamp,
};

use crate::operation::{Attribute, FileNumber, FolderName, Made, Operation, ROOT};

/// Executes operations on a file system that was initially empty.
pub struct Performer<F> {
    /// The file system.
    pub file_system: F,
    /// The time of the next operation: recorded times are not repeated.
    pub now: Timestamp,
    files: HashMap<FileNumber, FileId>,
    keeps_open: bool,
}

impl<F: FileSystem> Performer<F> {
    /// Files are open as recorded ([`Performer::open`], [`Performer::close`]).
    pub fn new(file_system: F) -> Performer<F> {
        Performer {
            file_system,
            now: Timestamp::default(),
            files: HashMap::from([(ROOT, FileId::ROOT)]),
            keeps_open: false,
        }
    }

    /// Every file stays open, so that none is removed with its last name.
    pub fn keeping_open(file_system: F) -> Performer<F> {
        Performer { keeps_open: true, ..Performer::new(file_system) }
    }

    /// The file with that number; `ESTALE` if it was never created here.
    pub fn file(&self, file: FileNumber) -> Outcome<FileId> {
        self.files.get(&file).copied().ok_or(Errno::ESTALE)
    }

    /// An existing file corresponds to the recording's file with that number.
    pub fn adopt(&mut self, file: FileNumber, found: FileId) {
        self.files.insert(file, found);
    }

    /// The kernel knew a file.
    pub fn open(&mut self, file: FileNumber) -> Outcome<()> {
        let id = self.file(file)?;
        self.file_system.open(id)
    }

    /// The kernel forgot a file.
    pub fn close(&mut self, file: FileNumber) -> Outcome<()> {
        let id = self.file(file)?;
        self.file_system.close(id)
    }

    /// Executes an operation. Its file must have been created here, or the error is `ESTALE`.
    pub fn perform(&mut self, operation: &Operation) -> Outcome<()> {
        let file_of = |entry: &FolderName| self.file(entry.folder);
        match operation {
            Operation::Create(entry, file, made) => {
                let folder = file_of(entry)?;
                let id = self.create(folder, &entry.name, made)?;
                self.files.insert(*file, id);
                Ok(())
            }
            Operation::Link(entry, file) => {
                let (file, folder) = (self.file(*file)?, file_of(entry)?);
                self.file_system.link(file, folder, &entry.name, self.now)
            }
            Operation::Unlink(entry) => {
                let folder = file_of(entry)?;
                self.file_system.unlink(folder, &entry.name, self.now)
            }
            Operation::RemoveFolder(entry) => {
                let folder = file_of(entry)?;
                self.file_system.remove_folder(folder, &entry.name, self.now)
            }
            Operation::Rename(from, to, mode) => {
                let (folder, new) = (file_of(from)?, file_of(to)?);
                self.file_system.rename_in(folder, &from.name, new, &to.name, *mode, self.now)
            }
            Operation::SyncFolder(folder) => {
                let folder = self.file(*folder)?;
                self.file_system.sync_folder(folder)
            }
            other => self.change(other),
        }
    }

    fn change(&mut self, operation: &Operation) -> Outcome<()> {
        let fs = &mut self.file_system;
        let file_of = |file: &FileNumber| self.files.get(file).copied().ok_or(Errno::ESTALE);
        match operation {
            Operation::Write(file, offset, data) => fs.write(file_of(file)?, *offset, data),
            Operation::Zero { file, offset, bytes, keep_size } => {
                fs.zero_range(file_of(file)?, *offset, *bytes, *keep_size)
            }
            Operation::Allocate { file, offset, bytes, keep_size } => {
                fs.allocate(file_of(file)?, *offset, *bytes, *keep_size)
            }
            Operation::Resize(file, size) => {
                let change = MetadataChange { size: Some(*size), ..MetadataChange::default() };
                fs.change_metadata(file_of(file)?, &change)
            }
            Operation::Change(file, attribute) => {
                let file = file_of(file)?;
                change_attribute(fs, file, attribute)
            }
            Operation::Sync(file) => fs.sync(file_of(file)?),
            Operation::SyncData(file) => fs.sync_data(file_of(file)?),
            _ => unreachable!("names are changed elsewhere"),
        }
    }

    fn create(&mut self, folder: FileId, name: &[u8], made: &Made) -> Outcome<FileId> {
        let Made { kind, permissions, owner, group, ref target } = *made;
        let new = NewFile { kind, permissions, owner, group, device_number: 0, now: self.now };
        let file = match kind {
            FileKind::SymbolicLink => {
                return self.file_system.create_symbolic_link(folder, name, target, &new);
            }
            _ => self.file_system.create_in(folder, name, &new)?,
        };
        if self.keeps_open {
            self.file_system.open(file)?;
        }
        Ok(file)
    }
}

fn change_attribute(fs: &mut impl FileSystem, file: FileId, attribute: &Attribute) -> Outcome<()> {
    let mut change = MetadataChange::default();
    match attribute {
        Attribute::Permissions(permissions) => change.permissions = Some(*permissions),
        Attribute::Owner(owner, group) => (change.owner, change.group) = (*owner, *group),
        Attribute::Extended(name, Some(value)) => {
            return fs.set_extended_attribute(file, name, value, SetMode::Any);
        }
        Attribute::Extended(name, None) => return fs.remove_extended_attribute(file, name),
    }
    fs.change_metadata(file, &change)
}
