//! The files that the kernel knows.
//!
//! Invariant: a file is open in the file system exactly as long as the kernel holds references to its inode number. So a
//! file that loses its last name lives until the kernel forgets it, and its number is not reused before that.

use std::collections::HashMap;

use tantalum_filesystem::FileId;

/// The kernel's references, by file.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles(HashMap<FileId, u64>);

impl KnownFiles {
    /// The kernel learned of the file once more. Returns whether it did not know the file before.
    pub fn add(&mut self, file: FileId) -> bool {
        let references = self.0.entry(file).or_default();
        *references += 1;
        *references == 1
    }

    /// The kernel drops references. Returns whether it no longer knows the file.
    pub fn forget(&mut self, file: FileId, references: u64) -> bool {
        let Some(held) = self.0.get_mut(&file) else { return false };
        *held = held.saturating_sub(references);
        if *held > 0 {
            return false;
        }
        self.0.remove(&file);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_from_the_first_reference_to_the_last() {
        let mut known = KnownFiles::default();
        assert!(known.add(FileId::ROOT));
        assert!(!known.add(FileId::ROOT));
        assert!(!known.forget(FileId::ROOT, 1));
        assert!(known.forget(FileId::ROOT, 1));
        assert!(!known.forget(FileId::ROOT, 1), "nothing is left to forget");
        assert!(known.add(FileId::ROOT));
    }
}
