//! Describes operations in words, with the paths that their files had.

use std::collections::HashMap;

use tantalum_filesystem::{FileKind, RenameMode};

use crate::operation::{Attribute, FileNumber, FolderName, Operation, ROOT, Recording};

/// The last path of each file.
pub(crate) struct Paths(HashMap<FileNumber, String>);

impl Paths {
    /// The paths after this many operations.
    pub fn after(recording: &Recording, operations: usize) -> Paths {
        let mut paths = Paths(HashMap::from([(ROOT, String::new())]));
        let mut names: HashMap<FolderName, FileNumber> = HashMap::new();
        for operation in &recording.operations[..operations] {
            match operation {
                Operation::Create(entry, file, _) | Operation::Link(entry, file) => {
                    names.insert(entry.clone(), *file);
                    paths.0.insert(*file, paths.entry(entry));
                }
                Operation::Rename(from, to, mode) => {
                    let moved = names.remove(from);
                    let other = names.remove(to);
                    if let Some(file) = moved {
                        names.insert(to.clone(), file);
                        paths.0.insert(file, paths.entry(to));
                    }
                    if let (RenameMode::Exchange, Some(file)) = (mode, other) {
                        names.insert(from.clone(), file);
                        paths.0.insert(file, paths.entry(from));
                    }
                }
                _ => {}
            }
        }
        paths
    }

    fn entry(&self, entry: &FolderName) -> String {
        let name = String::from_utf8_lossy(&entry.name);
        match self.0.get(&entry.folder).map_or("", String::as_str) {
            "" => name.into_owned(),
            folder => format!("{folder}/{name}"),
        }
    }

    fn file(&self, file: FileNumber) -> String {
        match self.0.get(&file).map(String::as_str) {
            Some("") => "the folder".to_owned(),
            Some(path) => path.to_owned(),
            None => "a file without a name".to_owned(),
        }
    }

    /// An operation in words.
    pub fn operation(&self, operation: &Operation) -> String {
        match operation {
            Operation::Create(entry, _, made) => match made.kind {
                FileKind::Folder => format!("mkdir {}", self.entry(entry)),
                FileKind::SymbolicLink => format!("symlink {}", self.entry(entry)),
                _ => format!("create {}", self.entry(entry)),
            },
            Operation::Link(entry, file) => format!("link {} as {}", self.file(*file), self.entry(entry)),
            Operation::Unlink(entry) => format!("unlink {}", self.entry(entry)),
            Operation::RemoveFolder(entry) => format!("rmdir {}", self.entry(entry)),
            Operation::Rename(from, to, _) => format!("rename {} to {}", self.entry(from), self.entry(to)),
            Operation::Write(file, offset, data) => {
                format!("write {} bytes at {offset} of {}", data.len(), self.file(*file))
            }
            Operation::Zero { file, offset, bytes, .. } => {
                format!("zero {bytes} bytes at {offset} of {}", self.file(*file))
            }
            Operation::Allocate { file, offset, bytes, .. } => {
                format!("fallocate {bytes} bytes at {offset} of {}", self.file(*file))
            }
            Operation::Resize(file, size) => format!("truncate {} to {size} bytes", self.file(*file)),
            Operation::Change(file, attribute) => match attribute {
                Attribute::Permissions(bits) => format!("chmod {bits:o} {}", self.file(*file)),
                Attribute::Owner(..) => format!("chown {}", self.file(*file)),
                Attribute::Extended(name, _) => {
                    format!("setxattr {} of {}", String::from_utf8_lossy(name), self.file(*file))
                }
            },
            Operation::Sync(file) => format!("fsync {}", self.file(*file)),
            Operation::SyncData(file) => format!("fdatasync {}", self.file(*file)),
            Operation::SyncFolder(folder) => match *folder {
                ROOT => "fsync of the folder".to_owned(),
                folder => format!("fsync of the folder {}", self.file(folder)),
            },
        }
    }
}
