//! Keys that are hard on trees: of 1 to 1,024 bytes, prefixes of each other, and the least and greatest possible ones.

/// The number of keys from which a random one is drawn.
pub(super) const KEYS: u32 = 360;

/// The number of keys that a large transaction puts or deletes.
pub(super) const BULK: u32 = 1100;

/// The maximum length of a key.
const MOST_BYTES: usize = 1024;

/// The key of a number below [`KEYS`].
pub(super) fn key(number: u32) -> Vec<u8> {
    let count = number as usize / 6;
    match number % 6 {
        0 => count.to_string().into_bytes(),
        // each is the prefix of the next
        1 => vec![0xff; 1 + count * 17],
        2 => vec![0; 1 + count * 17],
        // they differ in their last bytes
        3 => [&vec![b'x'; MOST_BYTES - 4][..], &(count as u32).to_be_bytes()].concat(),
        4 => [&vec![b'x'; 300][..], &count.to_be_bytes(), &vec![b'y'; count * 11]].concat(),
        // they differ in their first byte
        _ => [&[count as u8 + 1][..], &vec![7; count * 7]].concat(),
    }
}

/// The key of a large transaction's record.
pub(super) fn bulk_key(number: u32) -> Vec<u8> {
    format!("bulk/{number:05}").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_differ_and_have_any_allowed_length() {
        let keys: BTreeSet<Vec<u8>> = (0..KEYS).map(key).chain((0..BULK).map(bulk_key)).collect();
        assert_eq!(keys.len() as u32, KEYS + BULK);
        let lengths: BTreeSet<usize> = keys.iter().map(Vec::len).collect();
        assert_eq!((lengths.first(), lengths.last()), (Some(&1), Some(&MOST_BYTES)));
    }
}
