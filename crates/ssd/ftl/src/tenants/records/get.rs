//! Finding and reading records.

use tantalum_nand::{Nanoseconds, UNIT_BYTES};

use super::index::Entry;
use super::record::RecordPlace;
use super::record::{Header, bytes_of};
use super::{KeyValueError, Records};
use crate::error::{Damage, FtlError};
use crate::key::{Key, NamespaceId};
use crate::reads::Reads;

impl Records {
    /// Whether a key waits or is in the index, and when that is known.
    pub fn is_there(
        &self,
        namespace: NamespaceId,
        key: &Key,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(bool, Nanoseconds), FtlError> {
        if let Some(waiting) = self.buffer.get(namespace, key) {
            return Ok((!waiting.header.tombstone, at_ns));
        }
        let (found, done_ns) = self.find(namespace, key, reads, at_ns)?;
        Ok((found.is_some(), done_ns))
    }

    fn list_index(
        &self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        let index = self.namespace(namespace)?.index.get();
        let first = from.map_or(0, Key::hash);
        let heads = index.from(first).filter(|entry| entry.key_length > 0);
        let mut entries: Vec<Entry> = Vec::with_capacity(limit.min(index.len() as usize));
        let mut beyond_first = 0;
        for entry in heads {
            // keys with the same hash must be sorted, so all of them are needed
            if beyond_first > limit && entries.last().is_some_and(|last| last.hash != entry.hash) {
                break;
            }
            beyond_first += usize::from(entry.hash > first);
            entries.push(entry);
        }
        let mut done_ns = at_ns;
        for same_hash in entries.chunk_by(|a, b| a.hash == b.hash) {
            let mut found = Vec::with_capacity(1);
            for entry in same_hash {
                let (key, read_ns) = self.key_of(namespace, entry, reads, at_ns)?;
                done_ns = done_ns.max(read_ns);
                found.extend(key);
            }
            found.sort_unstable();
            keys.extend(found.into_iter().filter(|key| is_from(key, from)));
            if keys.len() >= limit {
                break;
            }
        }
        keys.truncate(limit);
        Ok(done_ns)
    }

    /// The key of an entry; none if its page is lost and nothing else has the key.
    fn key_of(
        &self,
        namespace: NamespaceId,
        entry: &Entry,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Key>, Nanoseconds), FtlError> {
        if let Some(key) = Key::of_hash(entry.hash, entry.key_length) {
            return Ok((Some(key), at_ns));
        }
        let (header, done_ns) = read_header(entry.place, reads, at_ns)?;
        Ok((header.filter(|header| header.namespace == namespace).map(|header| header.key), done_ns))
    }

    /// The entry of a key.
    pub(super) fn find(
        &self,
        namespace: NamespaceId,
        key: &Key,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Entry>, Nanoseconds), FtlError> {
        let (hash, length) = (key.hash(), key.length());
        let index = self.namespaces[&namespace].index.get();
        let candidates = index.with_hash(hash).filter(|entry| entry.key_length == length);
        if key.is_exact() {
            return Ok((candidates.last(), at_ns));
        }
        let candidates: Vec<Entry> = candidates.collect();
        self.choose(candidates, (namespace, key, 0), reads, at_ns)
    }

    /// The entry of a later segment of a key's value.
    pub(super) fn find_segment(
        &self,
        namespace: NamespaceId,
        key: &Key,
        segment: u16,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(Entry, Nanoseconds), FtlError> {
        let index = self.namespaces[&namespace].index.get();
        let of_segments = |entry: &Entry| entry.key_length == 0;
        let candidates: Vec<Entry> = index.with_hash(key.segment_hash(segment)).filter(of_segments).collect();
        let (entry, done_ns) = match candidates[..] {
            [entry] => (Some(entry), at_ns),
            _ => self.choose(candidates, (namespace, key, segment), reads, at_ns)?,
        };
        let entry = entry.unwrap_or_else(|| {
            panic!("segment {segment} of key {key} of namespace {namespace} has no entry")
        });
        Ok((entry, done_ns))
    }

    /// Among the entries with one hash, the one whose record is this key's. One whose page is lost counts as this key's
    /// if no other does: two long keys with the same 64-bit hash are far less likely than a lost page.
    fn choose(
        &self,
        candidates: Vec<Entry>,
        (namespace, key, segment): (NamespaceId, &Key, u16),
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Entry>, Nanoseconds), FtlError> {
        let (mut lost, mut done_ns) = (None, at_ns);
        for entry in candidates {
            let (header, read_ns) = read_header(entry.place, reads, at_ns)?;
            done_ns = done_ns.max(read_ns);
            match header {
                Some(found) if (found.namespace, found.key, found.segment) == (namespace, *key, segment) => {
                    return Ok((Some(entry), done_ns));
                }
                Some(_) => {}
                None => lost = Some(entry),
            }
        }
        Ok((lost, done_ns))
    }

    /// The value of a key that waits, if one does; `None` in it if the key waits to be deleted.
    pub fn waiting_value(&self, namespace: NamespaceId, key: &Key) -> Option<Option<&[u8]>> {
        let waiting = self.buffer.get(namespace, key)?;
        Some((!waiting.header.tombstone).then(|| self.buffer.value(waiting)))
    }

    /// Reads the value of a key from flash.
    pub fn read(
        &self,
        namespace: NamespaceId,
        key: &Key,
        value: &mut Vec<u8>,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        let (found, mut done_ns) = self.find(namespace, key, reads, at_ns)?;
        let head = found.ok_or(KeyValueError::NoSuchKey { namespace, key: *key })?;
        for segment in 0..=head.continuations {
            let entry = match segment {
                0 => head,
                segment => self.find_segment(namespace, key, segment, reads, at_ns)?.0,
            };
            let read_ns = read_segment(namespace, key, segment, entry.place, value, reads, at_ns)?;
            done_ns = done_ns.max(read_ns);
        }
        Ok(done_ns)
    }

    /// At most `limit` keys in the order of their hashes, starting at `from`, including those that wait. The order is stable while
    /// keys come and go.
    pub fn list(
        &self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        let waiting: Vec<(Key, bool)> =
            self.buffer.of(namespace).map(|waiting| (waiting.header.key, waiting.header.tombstone)).collect();
        // keys that wait to be deleted are not listed, so that many more are examined
        let limit_on_flash = limit.saturating_add(waiting.len());
        let done_ns = self.list_index(namespace, from, keys, limit_on_flash, reads, at_ns)?;
        if !waiting.is_empty() {
            keys.retain(|key| waiting.iter().all(|(waiting, _)| waiting != key));
            let put = waiting.into_iter().filter(|(_, deleted)| !deleted).map(|(key, _)| key);
            keys.extend(put.filter(|key| is_from(key, from)));
            keys.sort_unstable_by_key(Key::listing_order);
        }
        keys.truncate(limit);
        Ok(done_ns)
    }
}

/// Whether a key is listed, starting from another one.
fn is_from(key: &Key, from: Option<&Key>) -> bool {
    from.is_none_or(|from| (key.hash(), key) >= (from.hash(), from))
}

fn read_segment(
    namespace: NamespaceId,
    key: &Key,
    segment: u16,
    place: RecordPlace,
    value: &mut Vec<u8>,
    reads: &mut Reads<'_>,
    at_ns: Nanoseconds,
) -> Result<Nanoseconds, KeyValueError> {
    let mut unit = [0; UNIT_BYTES];
    let read = reads.read(place.ppn, &mut unit, at_ns)?;
    let done_ns = read.ok_or(KeyValueError::Unreadable { namespace, key: *key })?;
    match Header::read(bytes_of(&unit, place)) {
        Some((header, bytes))
            if (header.namespace, header.key, header.segment) == (namespace, *key, segment) =>
        {
            value.extend_from_slice(bytes);
            Ok(done_ns)
        }
        _ => {
            let RecordPlace { ppn, chunk, .. } = place;
            Err(FtlError::from(Damage::Record { namespace, key: *key, ppn, chunk }).into())
        }
    }
}

/// A record's own description; none if its page is lost.
fn read_header(
    place: RecordPlace,
    reads: &mut Reads<'_>,
    at_ns: Nanoseconds,
) -> Result<(Option<Header>, Nanoseconds), FtlError> {
    let mut unit = [0; UNIT_BYTES];
    match reads.read_retrying(place.ppn, &mut unit, at_ns)? {
        Some(done_ns) => Ok((Header::read(bytes_of(&unit, place)).map(|read| read.0), done_ns)),
        None => Ok((None, at_ns)),
    }
}
