//! The tree of files: its keys are file numbers, which stand for the roots of the files' trees.

use tantalum_filesystem::FileId;

use super::Tree;
use super::node::RESERVED;
use super::translation::Number;
use crate::error::{Damage, LfsError, Result};
use crate::segments::Log;

/// The file whose tree is the tree of files.
pub(super) const FILES: FileId = FileId(0);

/// Roots of files that are remembered.
const MOST_ROOTS: usize = 16 << 10;

impl Tree {
    /// The root of a file's tree, if there is such a file.
    pub(super) fn root_of(&mut self, log: &mut Log, file: FileId) -> Result<Option<Number>> {
        if file == FILES {
            return Ok(None);
        }
        if let Some(root) = self.roots.get(&file) {
            return Ok(Some(*root));
        }
        let root = self.find(log, self.files_root, file.0)?.map(Number);
        if let Some(root) = root {
            self.remember_root(file, root);
        }
        Ok(root)
    }

    pub(super) fn remember_root(&mut self, file: FileId, root: Number) {
        if self.roots.len() >= MOST_ROOTS {
            self.roots.clear();
        }
        self.roots.insert(file, root);
    }

    /// The root of the tree of files, mutable.
    pub(super) fn own_files_root(&mut self, log: &mut Log) -> Result<Number> {
        self.files_root = self.own(log, self.files_root)?;
        Ok(self.files_root)
    }

    /// The root of the tree of an existing file, mutable.
    pub(super) fn own_root(&mut self, log: &mut Log, file: FileId) -> Result<Number> {
        let Some(root) = self.root_of(log, file)? else { return Err(self.no_file(file)) };
        debug_assert!(
            !matches!(self.find(log, self.files_root, file.0), Ok(found) if found != Some(root.0)),
            "the tree of files has another root of file {file} than {root:?}"
        );
        let own = self.own(log, root)?;
        if own != root {
            let files = self.own_files_root(log)?;
            self.put(log, files, file.0, own.0, 0)?;
            self.remember_root(file, own);
        }
        Ok(own)
    }

    /// A file without contents, with a number that is not in use.
    pub(super) fn add_file(&mut self, log: &mut Log, file: FileId) -> Result<()> {
        let files = self.own_files_root(log)?;
        let root = self.new_node(log, file, 0, true)?;
        if let Err(error) = self.put(log, files, file.0, root.0, 0) {
            self.free_node(log, root)?;
            return Err(error);
        }
        debug_assert!(
            !self.roots.contains_key(&file),
            "file {file} is added, but has root {:?}",
            self.roots[&file]
        );
        self.remember_root(file, root);
        (self.last_file, self.files) = (file.0, self.files + 1);
        Ok(())
    }

    fn no_file(&self, file: FileId) -> LfsError {
        let damage = Damage::NoUnit { number: file.0 };
        LfsError::Damaged { lpn: tantalum::Lpn(self.table.branches()[0]), damage }
    }

    /// What a unit of a file stands for in its tree.
    pub(super) fn value_of(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<Option<u32>> {
        match self.root_of(log, file)? {
            Some(root) => self.find(log, root, unit),
            None => Ok(None),
        }
    }

    /// The virtual number of a unit of a file that has contents.
    pub(super) fn number_of(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<Option<Number>> {
        Ok(self.value_of(log, file, unit)?.filter(|value| *value != RESERVED).map(Number))
    }
}
