//! Extended attributes of files: small named values that mean nothing to the volume. They become durable with the next
//! [`Volume::sync`] of the file.

use tantalum_filesystem::{FileId, NAME_BYTES, SetMode};

use crate::error::VolumeError;
use crate::name::display;
use crate::properties::{MOST_PROPERTY_BYTES, Properties};
use crate::volume::Volume;

impl Volume {
    /// The value of a file's extended attribute.
    pub fn extended_attribute(&self, file: FileId, name: &[u8]) -> Result<Vec<u8>, VolumeError> {
        let value = self.file(file)?.inode.properties.extended.get(name);
        value.map(|value| value.to_vec()).ok_or_else(|| not_found(file, name))
    }

    /// The names of all extended attributes of a file, in order.
    pub fn extended_attributes(&self, file: FileId) -> Result<Vec<Vec<u8>>, VolumeError> {
        Ok(self.file(file)?.inode.properties.extended.keys().map(|name| name.to_vec()).collect())
    }

    /// Sets an extended attribute. Those of one file take at most 64 KiB, including their names.
    pub fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        if !(1..=NAME_BYTES).contains(&name.len()) || name.contains(&0) {
            return Err(VolumeError::BadName { bytes: name.len(), most: NAME_BYTES });
        }
        let properties = &self.file(file)?.inode.properties;
        match (properties.extended.contains_key(name), mode) {
            (true, SetMode::Create) => {
                return Err(VolumeError::AttributeExists { file, name: display(name) });
            }
            (false, SetMode::Replace) => return Err(not_found(file, name)),
            _ => {}
        }
        let mut changed = properties.clone();
        changed.extended.insert(name.into(), value.into());
        let bytes = changed.encoded_bytes();
        if bytes > MOST_PROPERTY_BYTES {
            return Err(VolumeError::AttributesTooLarge { bytes, most: MOST_PROPERTY_BYTES });
        }
        self.set_properties(file, changed)
    }

    /// Removes an extended attribute.
    pub fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        let mut changed = self.file(file)?.inode.properties.clone();
        changed.extended.remove(name).ok_or_else(|| not_found(file, name))?;
        self.set_properties(file, changed)
    }

    fn set_properties(&mut self, file: FileId, properties: Properties) -> Result<(), VolumeError> {
        let file = self.file_mut(file)?;
        file.dirty |= file.inode.properties != properties;
        file.inode.properties = properties;
        Ok(())
    }
}

fn not_found(file: FileId, name: &[u8]) -> VolumeError {
    VolumeError::AttributeNotFound { file, name: display(name) }
}
