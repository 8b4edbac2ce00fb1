//! Reading and changing a file's metadata.
//!
//! Times alone are not worth writing an inode at each data sync: they become durable with [`Volume::sync`], or with the
//! next inode written for another reason.

use tantalum_filesystem::{FileId, FileKind, Metadata, MetadataChange, Timestamp};

use crate::error::VolumeError;
use crate::inode::Inode;
use crate::volume::Volume;

impl Volume {
    /// The metadata of a file.
    pub fn metadata(&self, file: FileId) -> Result<Metadata, VolumeError> {
        let file = self.file(file)?;
        let inode = &file.inode;
        let kept = inode.kept_units(inode.size);
        let ahead: u64 = inode.extents.between(kept, u32::MAX).map(|extent| u64::from(extent.units)).sum();
        let size = match inode.kind {
            FileKind::SymbolicLink => inode.properties.target.len() as u64,
            _ => inode.size,
        };
        Ok(Metadata {
            kind: inode.kind,
            permissions: inode.permissions,
            owner: inode.owner,
            group: inode.group,
            links: file.names(),
            size,
            units: inode.extents.units() - ahead,
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
            created: inode.created,
            device_number: inode.device_number,
        })
    }

    /// Applies `change` to a file's metadata. Durable with [`Volume::sync`].
    pub fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.file(file)?;
        if let Some(size) = change.size {
            self.set_size(file, size)?;
        }
        let entry = self.file_mut(file)?;
        let inode = &mut entry.inode;
        let rights = |inode: &Inode| (inode.permissions, inode.owner, inode.group);
        let before = rights(inode);
        inode.permissions = change.permissions.map_or(inode.permissions, |bits| bits & 0o7777);
        inode.owner = change.owner.unwrap_or(inode.owner);
        inode.group = change.group.unwrap_or(inode.group);
        inode.accessed = change.accessed.unwrap_or(inode.accessed);
        inode.modified = change.modified.unwrap_or(inode.modified);
        inode.changed = change.changed.unwrap_or(inode.changed);
        entry.dirty |= rights(&entry.inode) != before;
        entry.times_dirty = true;
        Ok(())
    }

    /// The file's contents or a folder's entries have changed.
    pub(crate) fn modified(&mut self, file: FileId, now: Timestamp) {
        self.set_times(file, Some(now), now);
    }

    /// The file's metadata have changed, or its names.
    pub(crate) fn changed(&mut self, file: FileId, now: Timestamp) {
        self.set_times(file, None, now);
    }

    fn set_times(&mut self, file: FileId, modified: Option<Timestamp>, changed: Timestamp) {
        // A file that lost its last name may be gone.
        let Some(file) = self.files.get_mut(&file) else { return };
        let inode = &mut file.inode;
        let before = (inode.modified, inode.changed);
        inode.modified = modified.unwrap_or(inode.modified);
        inode.changed = changed;
        file.times_dirty |= before != (inode.modified, inode.changed);
    }
}
