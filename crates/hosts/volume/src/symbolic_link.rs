//! Symbolic links.

use tantalum_filesystem::{FileId, FileKind, NewFile};

use crate::error::VolumeError;
use crate::volume::Volume;

/// Maximum length of a symbolic link's target: that of a path, without its end.
const MOST_TARGET_BYTES: usize = 4095;

impl Volume {
    /// Creates a symbolic link to `target`, which is any path. It is never seen without its target. If it fails, there is
    /// none.
    pub fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<FileId, VolumeError> {
        let bytes = target.len();
        if !(1..=MOST_TARGET_BYTES).contains(&bytes) || target.contains(&0) {
            return Err(VolumeError::BadTarget { bytes, most: MOST_TARGET_BYTES });
        }
        let link = self.make_file(folder, name, FileKind::SymbolicLink, target, new)?;
        if self.file(link)?.inode.has_properties_outside()
            && let Err(error) = self.commit(&[link], false)
        {
            // Names alone would store it without the continuation that has its target. The drive does not know it, so
            // it goes without a trace, and nothing can fail.
            self.remove_name(folder, name, new.now);
            return Err(error);
        }
        Ok(link)
    }

    /// The target of a symbolic link.
    pub fn read_symbolic_link(&self, file: FileId) -> Result<Vec<u8>, VolumeError> {
        let inode = &self.file(file)?.inode;
        match inode.kind {
            FileKind::SymbolicLink => Ok(inode.properties.target.to_vec()),
            _ => Err(VolumeError::NotASymbolicLink(file)),
        }
    }
}
