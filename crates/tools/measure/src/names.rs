//! The names of files, as a recording changes them.

use std::collections::HashMap;

use tantalum_filesystem::RenameMode;
use tantalum_record::operation::{FileNumber, FolderName, Operation, ROOT};

/// Names and files, at one point of a recording.
#[derive(Debug, Default)]
pub(crate) struct Names {
    files: HashMap<FolderName, FileNumber>,
    /// A name of each file, or the last one that it had.
    entry_of: HashMap<FileNumber, FolderName>,
    /// The number of names of each file.
    links: HashMap<FileNumber, u32>,
}

impl Names {
    /// Applies an operation. Returns the file that lost its last name because it was removed, if any.
    pub fn follow(&mut self, operation: &Operation) -> Option<FileNumber> {
        match operation {
            Operation::Create(entry, file, _) | Operation::Link(entry, file) => self.give(entry, *file),
            Operation::Unlink(entry) | Operation::RemoveFolder(entry) => {
                let file = self.files.remove(entry)?;
                return self.lose(file, entry).then_some(file);
            }
            Operation::Rename(from, to, mode) => self.rename(from, to, *mode),
            _ => {}
        }
        None
    }

    fn give(&mut self, entry: &FolderName, file: FileNumber) {
        self.files.insert(entry.clone(), file);
        self.entry_of.insert(file, entry.clone());
        *self.links.entry(file).or_default() += 1;
    }

    /// Whether that was its last name.
    fn lose(&mut self, file: FileNumber, entry: &FolderName) -> bool {
        let links = self.links.entry(file).or_default();
        *links = links.saturating_sub(1);
        if *links == 0 {
            return true;
        }
        let is_known_by_it = self.entry_of.get(&file) == Some(entry);
        let another = || self.files.iter().find(|(_, other)| **other == file).map(|(entry, _)| entry.clone());
        if let Some(other) = is_known_by_it.then(another).flatten() {
            self.entry_of.insert(file, other);
        }
        false
    }

    fn rename(&mut self, from: &FolderName, to: &FolderName, mode: RenameMode) {
        let (Some(file), replaced) = (self.files.remove(from), self.files.remove(to)) else { return };
        self.files.insert(to.clone(), file);
        self.entry_of.insert(file, to.clone());
        match (replaced, mode) {
            (Some(other), RenameMode::Exchange) => {
                self.files.insert(from.clone(), other);
                self.entry_of.insert(other, from.clone());
            }
            (Some(other), _) => drop(self.lose(other, to)),
            (None, _) => {}
        }
    }

    /// The path of a file below the root, or the last one that it had.
    pub fn path(&self, file: FileNumber) -> String {
        let mut parts = Vec::new();
        let mut at = file;
        while at != ROOT {
            let Some(entry) = self.entry_of.get(&at) else { return "(without a name)".to_owned() };
            parts.push(String::from_utf8_lossy(&entry.name).into_owned());
            at = entry.folder;
        }
        parts.reverse();
        parts.join("/")
    }
}

#[cfg(test)]
mod tests {
    use tantalum_filesystem::FileKind;
    use tantalum_record::operation::Made;

    use super::*;

    fn entry(folder: FileNumber, name: &str) -> FolderName {
        FolderName { folder, name: name.as_bytes().to_vec() }
    }

    fn create(names: &mut Names, folder: FileNumber, name: &str, file: FileNumber, kind: FileKind) {
        let made = Made { kind, permissions: 0o644, owner: 0, group: 0, target: Vec::new() };
        assert_eq!(names.follow(&Operation::Create(entry(folder, name), file, made)), None);
    }

    #[test]
    fn a_file_keeps_the_path_of_its_last_name() {
        let mut names = Names::default();
        create(&mut names, ROOT, "dir", 1, FileKind::Folder);
        create(&mut names, 1, "new", 2, FileKind::File);
        create(&mut names, 1, "old", 3, FileKind::File);
        names.follow(&Operation::Rename(entry(1, "new"), entry(1, "old"), RenameMode::Replace));
        assert_eq!((names.path(2), names.path(3)), ("dir/old".to_owned(), "dir/old".to_owned()));
        names.follow(&Operation::Rename(entry(ROOT, "dir"), entry(ROOT, "d"), RenameMode::NoReplace));
        assert_eq!(names.follow(&Operation::Unlink(entry(1, "old"))), Some(2));
        assert_eq!(names.path(2), "d/old");
        assert_eq!(names.path(9), "(without a name)");
    }

    #[test]
    fn a_file_with_two_names_is_removed_with_the_second() {
        let mut names = Names::default();
        create(&mut names, ROOT, "a", 1, FileKind::File);
        names.follow(&Operation::Link(entry(ROOT, "b"), 1));
        assert_eq!(names.follow(&Operation::Unlink(entry(ROOT, "b"))), None);
        assert_eq!(names.path(1), "a");
        assert_eq!(names.follow(&Operation::Unlink(entry(ROOT, "a"))), Some(1));
    }

    #[test]
    fn exchanged_names_are_exchanged() {
        let mut names = Names::default();
        create(&mut names, ROOT, "a", 1, FileKind::File);
        create(&mut names, ROOT, "b", 2, FileKind::File);
        names.follow(&Operation::Rename(entry(ROOT, "a"), entry(ROOT, "b"), RenameMode::Exchange));
        assert_eq!((names.path(1), names.path(2)), ("b".to_owned(), "a".to_owned()));
    }
}
