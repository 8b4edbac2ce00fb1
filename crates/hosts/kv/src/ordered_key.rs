//! The key of a record of an ordered namespace. A short one lies in its place, so that comparing keys follows no pointer and making
//! one allocates nothing.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Keys of at most this many bytes lie in their places.
const SHORT_BYTES: usize = 30;

#[derive(Clone)]
pub(crate) struct OrderedKey(Bytes);

#[derive(Clone)]
enum Bytes {
    Short { length: u8, bytes: [u8; SHORT_BYTES] },
    Long(Arc<[u8]>),
}

impl From<&[u8]> for OrderedKey {
    fn from(key: &[u8]) -> OrderedKey {
        let mut bytes = [0; SHORT_BYTES];
        OrderedKey(match bytes.get_mut(..key.len()) {
            Some(short) => {
                short.copy_from_slice(key);
                Bytes::Short { length: key.len() as u8, bytes }
            }
            None => Bytes::Long(key.into()),
        })
    }
}

impl Deref for OrderedKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short { length, bytes } => &bytes[..usize::from(*length)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

/// As its bytes are ordered.
impl Borrow<[u8]> for OrderedKey {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        **self == **other
    }
}

impl Eq for OrderedKey {}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderedKey {
    #[inline]
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        match (&self.0, &other.0) {
            (Bytes::Short { length, bytes }, Bytes::Short { length: other_length, bytes: other }) => {
                // zeros follow the bytes: if these are equal, the shorter key comes first
                let (one, two) = (words(bytes), words(other));
                one.cmp(&two).then(length.cmp(other_length))
            }
            _ => (**self).cmp(&**other),
        }
    }
}

/// The bytes of a short key as numbers in the same order. The last two have some bytes in common.
#[inline]
fn words(bytes: &[u8; SHORT_BYTES]) -> [u64; 4] {
    let word = |from: usize| u64::from_be_bytes(bytes[from..from + 8].try_into().expect("they are eight"));
    [word(0), word(8), word(16), word(SHORT_BYTES - 8)]
}

impl fmt::Debug for OrderedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn short_and_long_keys_are_ordered_as_their_bytes_are() {
        let mut all: Vec<Vec<u8>> = (1..64)
            .flat_map(|bytes| {
                // the same but for the byte in which they differ, and for zeros behind
                let mut differs = vec![7; 40];
                differs[bytes % 40] = 8;
                [
                    vec![7; bytes],
                    vec![bytes as u8; 40],
                    differs.clone(),
                    differs[..29].to_vec(),
                    vec![0; bytes],
                ]
            })
            .collect();
        all.sort();
        all.dedup();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
        all.shuffle(&mut random);
        let mut keys: Vec<OrderedKey> = all.iter().map(|key| OrderedKey::from(&key[..])).collect();
        all.sort();
        keys.sort();
        assert_eq!(keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>(), all);
        assert_eq!(size_of::<OrderedKey>(), 32);
    }
}
