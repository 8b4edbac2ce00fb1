//! A file's data besides contents and metadata: extended attributes, and a symbolic link's target.
//!
//! On the drive they are consecutive entries: the name's length (1 byte), the value's (4 bytes, little-endian), the
//! name, the value. The target has an empty name.

use std::collections::BTreeMap;

use crate::error::Damage;

/// Bytes that the properties of one file may take on the drive.
pub(crate) const MOST_PROPERTY_BYTES: usize = 64 * 1024;

const ENTRY_BYTES: usize = 5;

/// The properties of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Properties {
    /// The target of a symbolic link; empty for other files.
    pub target: Box<[u8]>,
    /// Extended attributes by name.
    pub extended: BTreeMap<Box<[u8]>, Box<[u8]>>,
}

impl Properties {
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
