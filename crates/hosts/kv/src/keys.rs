//! Keys, and what is not accepted as a key.

use std::ops::{Bound, RangeBounds};

use tantalum::Key;

use crate::error::Error;
use crate::ordered_key::OrderedKey;
use crate::record::{Bytes, ORDERED_KEY_BYTES, Order};

/// The maximum length of a key of a hashed namespace.
pub(crate) const HASHED_KEY_BYTES: usize = 16;

/// A key of a hashed namespace.
pub(crate) fn hashed_key(bytes: &[u8]) -> Result<Key, Error> {
    let (order, limit) = (Order::Hashed, HASHED_KEY_BYTES);
    Key::new(bytes).map_err(|error| Error::Key { bytes: error.bytes, order, limit })
}

/// A key of an ordered namespace.
pub(crate) fn ordered_key(bytes: &[u8]) -> Result<OrderedKey, Error> {
    check_ordered_key(bytes)?;
    Ok(bytes.into())
}

/// Fails if these are no key of an ordered namespace.
pub(crate) fn check_ordered_key(bytes: &[u8]) -> Result<(), Error> {
    match bytes.len() {
        1..=ORDERED_KEY_BYTES => Ok(()),
        bytes => Err(Error::Key { bytes, order: Order::Ordered, limit: ORDERED_KEY_BYTES }),
    }
}

/// Keys from one bound to another.
pub(crate) type KeyRange = (Bound<Bytes>, Bound<Bytes>);

/// A range that owns its keys.
pub(crate) fn range_of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    let owned = |bound: Bound<&K>| bound.map(|key| Bytes::from(key.as_ref()));
    (owned(range.start_bound()), owned(range.end_bound()))
}

/// The range of all keys that begin with these bytes.
pub fn prefix_range(prefix: &[u8]) -> (Bound<Bytes>, Bound<Bytes>) {
    let mut end = prefix.to_vec();
    while end.last() == Some(&u8::MAX) {
        end.pop();
    }
    let end = match end.last_mut() {
        Some(last) => {
            *last += 1;
            Bound::Excluded(end.into())
        }
        None => Bound::Unbounded,
    };
    (Bound::Included(prefix.into()), end)
}

/// The same range with borrowed keys.
pub(crate) fn borrowed(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (range.0.as_ref().map(|key| &key[..]), range.1.as_ref().map(|key| &key[..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_range_of_all_keys_that_begin_with_it() {
        let range = |prefix: &[u8]| {
            let (from, to) = prefix_range(prefix);
            (from.map(|key| key.to_vec()), to.map(|key| key.to_vec()))
        };
        let included = |key: &[u8]| Bound::Included(key.to_vec());
        assert_eq!(range(b"ab"), (included(b"ab"), Bound::Excluded(b"ac".to_vec())));
        assert_eq!(range(b"a\xff\xff"), (included(b"a\xff\xff"), Bound::Excluded(b"b".to_vec())));
        assert_eq!(range(b"\xff"), (included(b"\xff"), Bound::Unbounded));
        assert_eq!(range(b""), (included(b""), Bound::Unbounded));
    }
}
