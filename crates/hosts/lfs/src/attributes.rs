//! Metadata and extended attributes.

use tantalum_filesystem::{
    Attributes, Errno, FileId, FileKind, Metadata, MetadataChange, NAME_BYTES, Outcome, SetMode,
};

use crate::error::{Result, refuse};
use crate::fs::LogFs;
use crate::inode::{ATTRIBUTE_BYTES, Inode};

impl LogFs {
    pub(crate) fn metadata_of(&mut self, file: FileId) -> Result<Metadata> {
        Ok(self.file(file)?.inode.metadata)
    }

    pub(crate) fn change_metadata_of(&mut self, file: FileId, change: &MetadataChange) -> Result<()> {
        self.check_writable()?;
        if let Some(size) = change.size {
            self.set_size(file, size)?;
        }
        let m = &mut self.file(file)?.inode.metadata;
        let before = *m;
        m.permissions = change.permissions.map_or(m.permissions, |bits| bits & 0o7777);
        m.owner = change.owner.unwrap_or(m.owner);
        m.group = change.group.unwrap_or(m.group);
        let has_changed =
            (m.permissions, m.owner, m.group) != (before.permissions, before.owner, before.group);
        m.accessed = change.accessed.unwrap_or(m.accessed);
        m.modified = change.modified.unwrap_or(m.modified);
        m.changed = change.changed.unwrap_or(m.changed);
        let is_folder_touched =
            before.kind == FileKind::Folder && (change.accessed, change.modified) != (None, None);
        // Otherwise a folder's times follow its names, and recovery sets them again.
        if has_changed || is_folder_touched {
            self.since.changed.insert(file);
        }
        self.since.times.insert(file);
        Ok(())
    }

    pub(crate) fn attribute(&mut self, file: FileId, name: &[u8]) -> Result<Vec<u8>> {
        let inode = &self.file(file)?.inode;
        let found = inode.attributes.iter().find(|(other, _)| &other[..] == name);
        found.map_or_else(|| refuse(Errno::ENODATA), |(_, value)| Ok(value.to_vec()))
    }

    pub(crate) fn attribute_names(&mut self, file: FileId) -> Result<Vec<Vec<u8>>> {
        Ok(self.file(file)?.inode.attributes.iter().map(|(name, _)| name.to_vec()).collect())
    }

    pub(crate) fn set_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<()> {
        self.settle()?;
        if name.is_empty() || name.len() > NAME_BYTES {
            return refuse(Errno::ERANGE);
        }
        let mut attributes = self.file(file)?.inode.attributes.clone();
        let position = attributes.iter().position(|(other, _)| &other[..] == name);
        match (position, mode) {
            (Some(_), SetMode::Create) => return refuse(Errno::EEXIST),
            (None, SetMode::Replace) => return refuse(Errno::ENODATA),
            (Some(position), _) => attributes[position].1 = value.into(),
            (None, _) => attributes.push((name.into(), value.into())),
        }
        if Inode::attribute_bytes(&attributes) > ATTRIBUTE_BYTES {
            return refuse(Errno::ENOSPC);
        }
        self.change_inode(file)?.attributes = attributes;
        Ok(())
    }

    pub(crate) fn remove_attribute(&mut self, file: FileId, name: &[u8]) -> Result<()> {
        self.settle()?;
        let attributes = &self.file(file)?.inode.attributes;
        let Some(position) = attributes.iter().position(|(other, _)| &other[..] == name) else {
            return refuse(Errno::ENODATA);
        };
        self.change_inode(file)?.attributes.remove(position);
        Ok(())
    }
}

impl Attributes for LogFs {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        Ok(self.metadata_of(file)?)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        Ok(self.change(|fs| fs.change_metadata_of(file, change))?)
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        Ok(self.attribute(file, name)?)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        Ok(self.attribute_names(file)?)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        Ok(self.change(|fs| fs.set_attribute(file, name, value, mode))?)
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        Ok(self.change(|fs| fs.remove_attribute(file, name))?)
    }
}
