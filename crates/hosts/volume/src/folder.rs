//! The contents of a folder: an index in memory, built from the names in inodes and links.
//!
//! Entries have cookies: growing numbers that are never reused, so that a program reading a folder continues where it
//! was, whatever is added or removed meanwhile. Each entry has one cookie, and none is after the last one given.

use std::collections::BTreeMap;

use tantalum_filesystem::FileId;

use crate::name::Name;

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameTarget {
    pub cookie: u64,
    pub file: FileId,
    /// The slot of the link that has the name; none if it is in the file's inode.
    pub link: Option<u32>,
    pub is_folder: bool,
}

/// The entries of one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    by_name: BTreeMap<Name, NameTarget>,
    by_cookie: BTreeMap<u64, Name>,
    last_cookie: u64,
    /// Entries that are folders.
    subfolders: u32,
}

impl Folder {
    pub fn get(&self, name: &[u8]) -> Option<NameTarget> {
        self.by_name.get(name).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Entries that are folders.
    pub fn subfolders(&self) -> u32 {
        self.subfolders
    }

    /// Adds an entry; returns false, and adds nothing, if the name is taken.
    #[must_use]
    pub fn insert(&mut self, name: Name, file: FileId, link: Option<u32>, is_folder: bool) -> bool {
        if self.by_name.contains_key(&name) {
            return false;
        }
        self.last_cookie += 1;
        self.subfolders += u32::from(is_folder);
        let entry = NameTarget { cookie: self.last_cookie, file, link, is_folder };
        self.by_cookie.insert(entry.cookie, name.clone());
        self.by_name.insert(name, entry);
        self.assert_invariants();
        true
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<NameTarget> {
        let entry = self.by_name.remove(name)?;
        self.subfolders -= u32::from(entry.is_folder);
        let by_cookie = self.by_cookie.remove(&entry.cookie);
        assert_eq!(by_cookie.as_deref(), Some(name), "the name of cookie {}", entry.cookie);
        self.assert_invariants();
        Some(entry)
    }

    /// Checks the invariants at the head of this file, in builds with debug assertions.
    fn assert_invariants(&self) {
        let (names, cookies) = (self.by_name.len(), self.by_cookie.len());
        debug_assert_eq!(names, cookies, "names and cookies of a folder");
        let last = self.by_cookie.last_key_value().map(|(cookie, _)| *cookie);
        debug_assert!(last <= Some(self.last_cookie), "cookie {last:?} is after {}", self.last_cookie);
    }

    /// From now on the name is in the file's inode.
    pub fn set_inode_name(&mut self, name: &[u8]) {
        self.by_name.get_mut(name).expect("the name is in the folder").link = None;
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.by_name.keys()
    }

    /// The entries after cookie `after`, in the order of their cookies.
    pub fn after(&self, after: u64) -> impl Iterator<Item = (&Name, NameTarget)> {
        self.by_cookie.range(after.saturating_add(1)..).map(|(_, name)| (name, self.by_name[name]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_goes_on_behind_a_cookie_whatever_comes_and_goes() {
        let mut folder = Folder::default();
        for (number, name) in [b"c", b"a", b"b"].into_iter().enumerate() {
            assert!(folder.insert(name[..].into(), FileId(number as u32), None, false));
        }
        assert!(!folder.insert(b"a"[..].into(), FileId(9), None, false));
        let (_, first) = folder.after(0).next().unwrap();
        folder.remove(b"c").unwrap();
        folder.remove(b"a").unwrap();
        assert!(folder.insert(b"a"[..].into(), FileId(9), None, false));
        let rest: Vec<_> =
            folder.after(first.cookie).map(|(name, entry)| (&name[..], entry.file.0)).collect();
        assert_eq!(rest, [(&b"b"[..], 2), (&b"a"[..], 9)]);
    }
}
