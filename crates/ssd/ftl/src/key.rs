//! The vocabulary of key-value namespaces: keys, namespaces, attributes.

use std::fmt;

use tantalum_nand::Geometry;

use crate::map::UNIT_WEIGHT;

/// Maximum length of a key in bytes (NVMe's Key Value Command Set allows the same).
pub const KEY_BYTES: usize = 16;

/// Keys up to this length are identified by hash and length alone, because the hash is one to one.
const EXACT_BYTES: usize = 8;

/// A key-value namespace. Numbers are never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct NamespaceId(pub u32);

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key of 1 to 16 bytes, in the order of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Padded with zeros; if two keys differ only in length, the shorter one comes first.
    bytes: [u8; KEY_BYTES],
    length: u8,
}

/// A key with no bytes, or with more than 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key has {bytes} bytes; a key must have 1 to 16")]
pub struct KeyError {
    /// Bytes of the key.
    pub bytes: usize,
}

impl Key {
    /// The least key in the order of bytes.
    pub const LEAST: Key = Key { bytes: [0; KEY_BYTES], length: 1 };

    /// A key of these bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Result<Key, KeyError> {
        if bytes.is_empty() || bytes.len() > KEY_BYTES {
            return Err(KeyError { bytes: bytes.len() });
        }
        let mut key = Key { bytes: [0; KEY_BYTES], length: bytes.len() as u8 };
        key.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(key)
    }

    /// Its bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Its position among the keys that a namespace lists: by hash.
    #[inline]
    pub fn listing_order(&self) -> (u64, Key) {
        (self.hash(), *self)
    }

    /// The bytes, padded with zeros.
    pub(crate) fn padded(&self) -> [u8; KEY_BYTES] {
        self.bytes
    }

    /// How many bytes.
    pub(crate) fn length(&self) -> u8 {
        self.length
    }

    /// Whether hash and length identify it completely.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        usize::from(self.length) <= EXACT_BYTES
    }

    /// Its hash, by which an index is ordered.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let (low, high) = self.halves();
        if self.is_exact() { mix(low) } else { mix(mix(low ^ u64::from(self.length)) ^ high) }
    }

    /// The hash under which a later segment of its value is stored.
    pub(crate) fn segment_hash(&self, segment: u16) -> u64 {
        match segment {
            0 => self.hash(),
            segment => mix(self.hash().wrapping_add(u64::from(segment).wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        }
    }

    /// The key of this length with this hash, if these identify it.
    pub(crate) fn of_hash(hash: u64, length: u8) -> Option<Key> {
        if !(1..=EXACT_BYTES).contains(&usize::from(length)) {
            return None;
        }
        let bytes = unmix(hash).to_le_bytes();
        Key::new(&bytes[..usize::from(length)]).ok()
    }

    #[inline]
    fn halves(&self) -> (u64, u64) {
        let (words, _) = self.bytes.as_chunks();
        (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(\"{}\")", self.as_bytes().escape_ascii())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

const FIRST: u64 = 0xff51_afd7_ed55_8ccd;
const SECOND: u64 = 0xc4ce_b9fe_1a85_ec53;

/// Maps numbers one to one to scattered numbers: shifts and odd factors can be undone.
#[inline]
fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(FIRST);
    let value = (value ^ value >> 33).wrapping_mul(SECOND);
    value ^ value >> 33
}

fn unmix(value: u64) -> u64 {
    let value = (value ^ value >> 33).wrapping_mul(inverse(SECOND));
    let value = (value ^ value >> 33).wrapping_mul(inverse(FIRST));
    value ^ value >> 33
}

/// The multiplicative inverse of an odd factor: each round doubles the number of correct bits.
const fn inverse(factor: u64) -> u64 {
    let mut inverse = factor;
    let mut round = 0;
    while round < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// The attributes of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceAttributes {
    /// Number of the namespace's own logs for its records, each on one die: 1 to the number of dies. 0 means the log
    /// over all planes that all namespaces without their own share.
    pub logs: u32,
    /// Records for which the index is sized; it can grow beyond.
    pub expected_records: u64,
    /// How full the index may be before it grows, in percent: 10 to 95.
    pub load_factor_percent: u8,
    /// Whether it is the drive's own: its hosts neither see nor reach it.
    pub is_private: bool,
}

/// The bit beside a load factor on flash that says that a namespace is the drive's own. A drive that knows no such namespaces finds an
/// impossible load factor, and refuses the image.
const PRIVATE: u8 = 1 << 7;

impl NamespaceAttributes {
    /// The load factor and the mark of a private namespace, as both are stored.
    pub(crate) fn stored_load_factor(&self) -> u8 {
        self.load_factor_percent | if self.is_private { PRIVATE } else { 0 }
    }

    /// The attributes with a load factor as it is stored.
    pub(crate) fn of_stored(logs: u32, expected_records: u64, load_factor: u8) -> NamespaceAttributes {
        NamespaceAttributes {
            logs,
            expected_records,
            load_factor_percent: load_factor & !PRIVATE,
            is_private: load_factor & PRIVATE != 0,
        }
    }

    /// Whether a drive of this many units can have such a namespace.
    pub(crate) fn is_possible(&self, logical_units: u32, geometry: &Geometry) -> bool {
        LOAD_FACTORS.contains(&self.load_factor_percent)
            && self.logs <= geometry.dies()
            && self.expected_records <= records_limit(logical_units)
    }
}

/// Load factors allowed for an index, in percent.
pub(crate) const LOAD_FACTORS: std::ops::RangeInclusive<u8> = 10..=95;

/// Records that a drive of this many units can hold, one chunk each.
pub(crate) fn records_limit(logical_units: u32) -> u64 {
    u64::from(logical_units) * u64::from(UNIT_WEIGHT)
}

impl Default for NamespaceAttributes {
    fn default() -> NamespaceAttributes {
        NamespaceAttributes { logs: 0, expected_records: 0, load_factor_percent: 75, is_private: false }
    }
}

#[cfg(test)]
impl Key {
    /// Another key with the hash of this one, which has 16 bytes.
    pub(crate) fn colliding(&self, other: u64) -> Key {
        let (low, high) = self.halves();
        let (other, length) = (low.wrapping_add(other), u64::from(self.length));
        let other_high = mix(low ^ length) ^ high ^ mix(other ^ length);
        Key::new(&[other.to_le_bytes(), other_high.to_le_bytes()].concat()).expect("it has 16 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_by_their_bytes() {
        let mut texts: Vec<&[u8]> =
            vec![b"a", b"a\0", b"ab", b"b", b"\0", b"0123456789abcdef", b"012345678", b"01234567"];
        let mut keys: Vec<Key> = texts.iter().map(|text| Key::new(text).unwrap()).collect();
        texts.sort();
        keys.sort();
        assert_eq!(keys.iter().map(Key::as_bytes).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn keys_without_bytes_and_with_seventeen_are_refused() {
        assert_eq!(Key::new(b""), Err(KeyError { bytes: 0 }));
        assert_eq!(Key::new(&[1; 17]), Err(KeyError { bytes: 17 }));
    }

    #[test]
    fn the_hash_of_a_short_key_tells_the_key() {
        for text in [&b"a"[..], b"\0", b"ab\0", b"12345678", b"\xff\xff\xff\xff\xff\xff\xff\xff"] {
            let key = Key::new(text).unwrap();
            assert_eq!(Key::of_hash(key.hash(), key.length()), Some(key));
        }
        let long = Key::new(b"123456789").unwrap();
        assert_eq!(Key::of_hash(long.hash(), long.length()), None);
    }
}
