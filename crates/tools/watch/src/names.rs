//! Finds the names of files by inode number in the mounted folder.
//!
//! The drive's process does not supply names. A search reads folders, not files, and only as much at a time as does not
//! disturb; files that it does not reach stay without a name.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Entries that one search examines.
const MOST_ENTRIES: usize = 20_000;

/// How long a search's results are kept. Files are renamed, and new ones take the numbers of old ones.
const FRESH: Duration = Duration::from_secs(10);

/// Names by inode number.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<u64, String>,
    searched: Option<Instant>,
}

impl Names {
    /// The names of these files in a mounted folder, as far as they are found.
    pub fn of(&mut self, folder: &Path, inodes: &[u64]) -> Vec<Option<String>> {
        let is_fresh = self.searched.is_some_and(|searched| searched.elapsed() < FRESH);
        if !is_fresh && !inodes.is_empty() {
            self.known = search(folder, inodes);
            self.searched = Some(Instant::now());
        }
        self.known(inodes)
    }

    /// Their names, as far as they were found before.
    pub fn known(&self, inodes: &[u64]) -> Vec<Option<String>> {
        inodes.iter().map(|inode| self.known.get(inode).cloned()).collect()
    }
}

/// Breadth first: what people name is near the top.
fn search(folder: &Path, inodes: &[u64]) -> HashMap<u64, String> {
    let wanted: HashSet<u64> = inodes.iter().copied().collect();
    let mut found = HashMap::new();
    let mut folders = VecDeque::from([PathBuf::new()]);
    let mut entries = 0;
    while let Some(inner) = folders.pop_front() {
        let Ok(read) = fs::read_dir(folder.join(&inner)) else { continue };
        for entry in read.map_while(Result::ok) {
            entries += 1;
            if found.len() == wanted.len() || entries > MOST_ENTRIES {
                return found;
            }
            let path = inner.join(entry.file_name());
            if wanted.contains(&entry.ino()) {
                found.insert(entry.ino(), path.to_string_lossy().into_owned());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push_back(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn files_are_found_by_number_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        let numbers = ["top", "a/b/deep"].map(|name| {
            let path = folder.path().join(name);
            fs::write(&path, b"x").unwrap();
            fs::metadata(path).unwrap().ino()
        });
        let mut names = Names::default();
        let found = names.of(folder.path(), &[numbers[1], u64::MAX, numbers[0]]);
        assert_eq!(found, [Some("a/b/deep".to_owned()), None, Some("top".to_owned())]);
    }

    #[test]
    fn a_search_is_remembered_and_a_folder_that_cannot_be_read_has_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let mut names = Names::default();
        assert_eq!(names.of(&folder.path().join("nothing"), &[5]), [None]);
        assert!(names.searched.is_some());
        let searched = names.searched;
        names.of(folder.path(), &[5]);
        assert_eq!(names.searched, searched);
    }
}
