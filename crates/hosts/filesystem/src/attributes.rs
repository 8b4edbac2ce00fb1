//! A file's attributes: everything besides its names and contents.

use crate::{Errno, FileId, Metadata, MetadataChange, Outcome, SetMode};

/// Metadata, and extended attributes if the file system has them. Changes are durable with
/// [`Content::sync`](crate::Content::sync) of the file.
pub trait Attributes {
    /// The metadata of a file; `ESTALE` if no file has that number.
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata>;

    /// Applies `change`. A file that grows reads as zeros there, and one that shrinks gives up its units.
    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()>;

    /// The value of an extended attribute; `ENODATA` if the file has none of that name.
    fn extended_attribute(&mut self, _file: FileId, _name: &[u8]) -> Outcome<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The names of all extended attributes of a file.
    fn extended_attributes(&mut self, _file: FileId) -> Outcome<Vec<Vec<u8>>> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets an extended attribute. `EEXIST` or `ENODATA` if `mode` forbids that it exists, or does not exist.
    fn set_extended_attribute(
        &mut self,
        _file: FileId,
        _name: &[u8],
        _value: &[u8],
        _mode: SetMode,
    ) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Removes an extended attribute; `ENODATA` if the file has none of that name.
    fn remove_extended_attribute(&mut self, _file: FileId, _name: &[u8]) -> Outcome<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
