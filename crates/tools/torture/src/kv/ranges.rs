//! Random ranges of the ordered namespace, compared with the expected contents.

use std::ops::Bound;
use std::sync::Arc;

use rand::RngExt;
use tantalum_kv::{Bytes, Error, Namespace, Range, Transaction, Value};

use super::contents::{Digest, Map, Random, shown};
use super::keys::{KEYS, key};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Compares a range that is read from both ends with the expected one. Returns what is wrong.
pub(super) fn compare(
    tx: &mut Transaction,
    namespace: Namespace,
    expected: &Map,
    random: &mut Random,
) -> Result<Option<String>, Error> {
    let bounds = (bound(random), bound(random));
    let expected: Vec<(Arc<[u8]>, Digest)> = match is_empty(&bounds) {
        true => Vec::new(),
        false => expected
            .range::<[u8], _>((bounds.0.as_ref().map(|key| &key[..]), bounds.1.as_ref().map(|key| &key[..])))
            .map(|(key, digest)| (key.clone(), *digest))
            .collect(),
    };
    let found = from_both_ends(tx.range(namespace, bounds.clone())?, random)?;
    let is_right = found.len() == expected.len()
        && found.iter().zip(&expected).all(|((key, value), (expected, digest))| {
            key[..] == expected[..] && Digest::of(value) == *digest
        });
    Ok((!is_right).then(|| {
        let [from, to] = [&bounds.0, &bounds.1].map(|bound| match bound {
            Bound::Included(key) => format!("{} included", shown(key)),
            Bound::Excluded(key) => format!("{} excluded", shown(key)),
            Bound::Unbounded => "the end".to_owned(),
        });
        format!(
            "from {from} to {to} there are {} records, or others than the {} expected",
            found.len(),
            expected.len()
        )
    }))
}

fn from_both_ends(mut range: Range<'_>, random: &mut Random) -> Result<Vec<(Bytes, Value)>, Error> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    // forwards, backwards, or both
    let backwards = [0, 4, 2][random.random_range(0..3)];
    loop {
        let is_back = random.random_range(0..4) < backwards;
        let entry = if is_back { range.next_back() } else { range.next() };
        let Some(entry) = entry.transpose()? else { break };
        if is_back { &mut back } else { &mut front }.push(entry);
    }
    front.extend(back.into_iter().rev());
    Ok(front)
}

fn bound(random: &mut Random) -> Bound<Vec<u8>> {
    match random.random_range(0..4) {
        0 => Bound::Unbounded,
        1 => Bound::Excluded(key(random.random_range(0..KEYS))),
        2 => Bound::Included(key(random.random_range(0..KEYS))),
        // between keys
        _ => Bound::Included([&key(random.random_range(0..KEYS / 2))[..], b"\0"].concat()),
    }
}

fn is_empty(bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}
