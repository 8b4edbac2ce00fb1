//! A file's data besides contents and metadata: extended attributes, and a symbolic link's target.
//!
//! On the drive they are consecutive entries: the name's length (1 byte), the value's (4 bytes, little-endian), the
//! name, the value. The target has an empty name.

use std::collections::BTreeMap;

use tantalum_filesystem::{FileId, NAME_BYTES, SetMode};

use crate::error::{Damage, VolumeError};
use crate::name::display;

/// Bytes that the properties of one file may take on the drive.
pub(crate) const MOST_PROPERTY_BYTES: usize = 64 * 1024;

const ENTRY_BYTES: usize = 5;

/// The properties of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Properties {
    /// The target of a symbolic link; empty for other files.
    target: Box<[u8]>,
    /// Extended attributes by name.
    extended: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl Properties {
    /// Those of a new symbolic link, or of another file if the target is empty.
    pub fn of_link(target: &[u8]) -> Properties {
        Properties { target: target.into(), extended: BTreeMap::new() }
    }

    /// The target of a symbolic link; empty for other files.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// These without extended attributes.
    pub fn without_extended(&self) -> Properties {
        Properties::of_link(&self.target)
    }

    /// The value of an extended attribute of `file`, whose properties these are.
    pub fn value(&self, file: FileId, name: &[u8]) -> Result<&[u8], VolumeError> {
        self.extended.get(name).map(|value| &value[..]).ok_or_else(|| not_found(file, name))
    }

    /// The names of all extended attributes, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.extended.keys().map(|name| &name[..])
    }

    /// These with an extended attribute of `file` set, unless they would be too large.
    pub fn with(
        &self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<Properties, VolumeError> {
        match (self.extended.contains_key(name), mode) {
            (true, SetMode::Create) => {
                return Err(VolumeError::AttributeExists { file, name: display(name) });
            }
            (false, SetMode::Replace) => return Err(not_found(file, name)),
            _ => {}
        }
        let mut changed = self.clone();
        changed.extended.insert(name.into(), value.into());
        let bytes = changed.encoded_bytes();
        if bytes > MOST_PROPERTY_BYTES {
            return Err(VolumeError::AttributesTooLarge { bytes, most: MOST_PROPERTY_BYTES });
        }
        Ok(changed)
    }

    /// These without an extended attribute of `file`.
    pub fn without(&self, file: FileId, name: &[u8]) -> Result<Properties, VolumeError> {
        let mut changed = self.clone();
        changed.extended.remove(name).ok_or_else(|| not_found(file, name))?;
        Ok(changed)
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let target = Some((&[][..], &self.target[..])).filter(|(_, target)| !target.is_empty());
        target.into_iter().chain(self.extended.iter().map(|(name, value)| (&name[..], &value[..])))
    }

    /// Bytes that they take on the drive.
    pub fn encoded_bytes(&self) -> usize {
        self.entries().map(|(name, value)| ENTRY_BYTES + name.len() + value.len()).sum()
    }

    /// The properties as they are stored on the drive.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_bytes());
        for (name, value) in self.entries() {
            bytes.push(name.len() as u8);
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(value);
        }
        assert_eq!(bytes.len(), self.encoded_bytes(), "bytes of the properties, and those reserved for them");
        bytes
    }

    /// Reads what [`Properties::encode`] wrote.
    pub fn decode(mut bytes: &[u8]) -> Result<Properties, Damage> {
        let mut properties = Properties::default();
        while !bytes.is_empty() {
            let (name, value, rest) = split_entry(bytes).ok_or(Damage::Properties)?;
            if name.is_empty() {
                properties.target = value.into();
            } else {
                properties.extended.insert(name.into(), value.into());
            }
            bytes = rest;
        }
        Ok(properties)
    }
}

/// Refuses an invalid name of an extended attribute.
pub(crate) fn check_attribute_name(name: &[u8]) -> Result<(), VolumeError> {
    if !(1..=NAME_BYTES).contains(&name.len()) || name.contains(&0) {
        return Err(VolumeError::BadName { bytes: name.len(), most: NAME_BYTES });
    }
    Ok(())
}

fn not_found(file: FileId, name: &[u8]) -> VolumeError {
    VolumeError::AttributeNotFound { file, name: display(name) }
}

/// The first entry's name and value, and what follows it.
fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&name_bytes, rest) = bytes.split_first()?;
    let (value_bytes, rest) = rest.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_bytes) as usize)?;
    Some((name, value, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_read_back_and_broken_ones_are_damage() {
        let mut properties = Properties { target: b"../there"[..].into(), ..Properties::default() };
        properties.extended.insert(b"user.empty"[..].into(), b""[..].into());
        properties.extended.insert(b"user.long"[..].into(), vec![7; 3000].into());
        let bytes = properties.encode();
        assert_eq!(bytes.len(), properties.encoded_bytes());
        assert_eq!(Properties::decode(&bytes), Ok(properties));
        for end in 1..bytes.len() {
            let entries_end = [13, 28].contains(&end);
            assert_eq!(Properties::decode(&bytes[..end]).is_ok(), entries_end, "cut at {end}");
        }
    }

    #[test]
    fn the_layout_is_pinned() {
        let mut properties = Properties::default();
        properties.extended.insert(b"user.a"[..].into(), b"xy"[..].into());
        assert_eq!(properties.encode(), b"\x06\x02\0\0\0user.axy");
    }
}
