//! All files of a volume by number, and those that have no name.
//!
//! Invariant: a file that has lost its last name, an orphan, is open. It goes with its last close, or with a crash.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_filesystem::{FileId, NewFile, Timestamp};

use crate::error::VolumeError;
use crate::extents::LpnRange;
use crate::file::File;
use crate::space::Space;

/// The files.
#[derive(Clone)]
pub(crate) struct Files {
    files: BTreeMap<FileId, File>,
    /// How often each open file is open.
    opens: BTreeMap<FileId, u32>,
    /// Files that have no name and are open.
    orphans: BTreeSet<FileId>,
    /// The number of the file that was created last.
    last: u32,
}

impl Default for Files {
    fn default() -> Files {
        Files {
            files: BTreeMap::new(),
            opens: BTreeMap::new(),
            orphans: BTreeSet::new(),
            last: FileId::ROOT.0,
        }
    }
}

impl Files {
    pub fn get(&self, id: FileId) -> Result<&File, VolumeError> {
        self.files.get(&id).ok_or(VolumeError::NoSuchFile(id))
    }

    pub fn get_mut(&mut self, id: FileId) -> Result<&mut File, VolumeError> {
        self.files.get_mut(&id).ok_or(VolumeError::NoSuchFile(id))
    }

    /// A file that exists.
    pub fn existing(&mut self, id: FileId) -> &mut File {
        self.files.get_mut(&id).unwrap_or_else(|| panic!("file {} has a name and is gone", id.0))
    }

    /// A file with contents that programs read and write.
    pub fn contents(&self, id: FileId) -> Result<&File, VolumeError> {
        self.get(id)?.check_contents()
    }

    pub fn contains(&self, id: FileId) -> bool {
        self.files.contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (FileId, &File)> {
        self.files.iter().map(|(&id, file)| (id, file))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (FileId, &mut File)> {
        self.files.iter_mut().map(|(&id, file)| (id, file))
    }

    /// The files that this is true of.
    pub fn which(&self, is_one: impl Fn(&File) -> bool) -> Vec<FileId> {
        self.iter().filter(|(_, file)| is_one(file)).map(|(id, _)| id).collect()
    }

    /// Creates a file.
    pub fn create(&mut self, target: &[u8], new: &NewFile) -> FileId {
        let id = self.next_number();
        let known = self.files.insert(id, File::new(id, target, new));
        assert!(known.is_none(), "file {} is created and exists", id.0);
        id
    }

    fn next_number(&mut self) -> FileId {
        loop {
            self.last = self.last.wrapping_add(1).max(FileId::ROOT.0);
            if !self.files.contains_key(&FileId(self.last)) {
                return FileId(self.last);
            }
        }
    }

    /// Adds a file that was read from the drive, or written to it.
    pub fn add(&mut self, id: FileId, file: File) {
        self.last = self.last.max(id.0);
        let known = self.files.insert(id, file);
        assert!(known.is_none(), "two files have number {}", id.0);
    }

    /// The file's contents or a folder's entries have changed.
    pub fn modified(&mut self, id: FileId, now: Timestamp) {
        // A file that lost its last name may be gone.
        if let Some(file) = self.files.get_mut(&id) {
            file.modified(now);
        }
    }

    /// The file's metadata have changed, or its names.
    pub fn changed(&mut self, id: FileId, now: Timestamp) {
        if let Some(file) = self.files.get_mut(&id) {
            file.changed(now);
        }
    }

    // -- files without a name -------------------------------------------------------------------------------------------

    /// A program opens a file.
    pub fn open(&mut self, id: FileId) -> Result<(), VolumeError> {
        self.get(id)?;
        *self.opens.entry(id).or_default() += 1;
        Ok(())
    }

    /// A program closes a file. Returns whether the file goes with that.
    pub fn close(&mut self, id: FileId) -> Result<bool, VolumeError> {
        self.get(id)?;
        let opens = self.opens.get_mut(&id).ok_or(VolumeError::NotOpen(id))?;
        *opens -= 1;
        if *opens > 0 {
            return Ok(false);
        }
        self.opens.remove(&id);
        Ok(self.orphans.contains(&id))
    }

    /// A file has lost its last name. Returns whether it goes with that: otherwise it goes with its last close.
    pub fn orphan(&mut self, id: FileId) -> bool {
        assert!(self.files.contains_key(&id), "file {} loses its last name and is gone", id.0);
        assert!(self.orphans.insert(id), "file {} has lost its last name twice", id.0);
        !self.opens.contains_key(&id)
    }

    pub fn is_orphan(&self, id: FileId) -> bool {
        self.orphans.contains(&id)
    }

    pub fn first_orphan(&self) -> Option<FileId> {
        self.orphans.first().copied()
    }

    /// Removes a file without a name, and returns the unit after its last one and what it gave up that was touched.
    pub fn forget(&mut self, id: FileId, space: &mut Space) -> (u32, Vec<LpnRange>) {
        assert!(self.orphans.remove(&id), "file {} goes and still has a name", id.0);
        let mut file = self.files.remove(&id).expect("an orphan is a file");
        self.opens.remove(&id);
        let end = file.ahead().end;
        file.give_up(0..u32::MAX, space);
        (end, file.take_freed())
    }

    /// The drive knows that it has no orphans: what they gave up is named by nothing durable.
    pub fn free_what_orphans_gave_up(&mut self, space: &mut Space) {
        for orphan in &self.orphans {
            let file = self.files.get_mut(orphan).expect("an orphan is a file");
            space.give_up(file.take_freed());
        }
    }

    /// Checks the invariant at the head of this file.
    pub fn assert_invariants(&self) {
        for orphan in &self.orphans {
            assert!(self.files.contains_key(orphan), "file {} has no name and is gone", orphan.0);
            assert!(self.opens.contains_key(orphan), "file {} has no name and is not open", orphan.0);
        }
        for (id, opens) in &self.opens {
            assert!(self.files.contains_key(id), "file {} is open and gone", id.0);
            assert!(*opens > 0, "file {} is open 0 times", id.0);
        }
        for (&id, file) in &self.files {
            file.assert_invariants(id);
        }
    }
}
