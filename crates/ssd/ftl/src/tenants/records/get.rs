//! Finding and reading records.

use tantalum_nand::{NandError, Nanoseconds, UNIT_BYTES};

use super::KeyValueError;
use super::index::Entry;
use super::record::RecordPlace;
use super::record::{Header, bytes_of};
use super::state::Namespace;
use crate::error::{Damage, FtlError};
use crate::ftl::Ftl;
use crate::key::{Key, NamespaceId};
use crate::parts::Parts;

impl Parts {
    fn namespace(&self, namespace: NamespaceId) -> Result<&Namespace, KeyValueError> {
        self.tenants.records.namespaces.get(&namespace).ok_or(KeyValueError::NoSuchNamespace(namespace))
    }

    /// Whether a key waits or is in the index, and when that is known.
    pub(super) fn is_there(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<(bool, Nanoseconds), FtlError> {
        if let Some(waiting) = self.tenants.records.buffer.get(namespace, key) {
            return Ok((!waiting.header.tombstone, at_ns));
        }
        let (found, done_ns) = self.find(namespace, key, at_ns)?;
        Ok((found.is_some(), done_ns))
    }

    fn count_get(&mut self, value: &[u8]) {
        self.counters.records_got += 1;
        self.counters.record_bytes_got += value.len() as u64;
    }

    fn read_segment(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        segment: u16,
        place: RecordPlace,
        value: &mut Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        let mut unit = [0; UNIT_BYTES];
        let read = self.read_place(place.ppn, &mut unit, at_ns)?;
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

    fn list_index(
        &mut self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
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
                let (key, read_ns) = self.key_of(namespace, entry, at_ns)?;
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
        &mut self,
        namespace: NamespaceId,
        entry: &Entry,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Key>, Nanoseconds), FtlError> {
        if let Some(key) = Key::of_hash(entry.hash, entry.key_length) {
            return Ok((Some(key), at_ns));
        }
        let (header, done_ns) = self.read_header(entry.place, at_ns)?;
        Ok((header.filter(|header| header.namespace == namespace).map(|header| header.key), done_ns))
    }

    /// The entry of a key.
    pub(super) fn find(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Entry>, Nanoseconds), FtlError> {
        let (hash, length) = (key.hash(), key.length());
        let index = self.tenants.records.namespaces[&namespace].index.get();
        let candidates = index.with_hash(hash).filter(|entry| entry.key_length == length);
        if key.is_exact() {
            return Ok((candidates.last(), at_ns));
        }
        let candidates: Vec<Entry> = candidates.collect();
        self.choose(candidates, namespace, key, 0, at_ns)
    }

    /// The entry of a later segment of a key's value.
    pub(super) fn find_segment(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        segment: u16,
        at_ns: Nanoseconds,
    ) -> Result<(Entry, Nanoseconds), FtlError> {
        let index = self.tenants.records.namespaces[&namespace].index.get();
        let of_segments = |entry: &Entry| entry.key_length == 0;
        let candidates: Vec<Entry> = index.with_hash(key.segment_hash(segment)).filter(of_segments).collect();
        let (entry, done_ns) = match candidates[..] {
            [entry] => (Some(entry), at_ns),
            _ => self.choose(candidates, namespace, key, segment, at_ns)?,
        };
        let entry = entry.unwrap_or_else(|| {
            panic!("segment {segment} of key {key} of namespace {namespace} has no entry")
        });
        Ok((entry, done_ns))
    }

    /// Among the entries with one hash, the one whose record is this key's. One whose page is lost counts as this key's
    /// if no other does: two long keys with the same 64-bit hash are far less likely than a lost page.
    fn choose(
        &mut self,
        candidates: Vec<Entry>,
        namespace: NamespaceId,
        key: &Key,
        segment: u16,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Entry>, Nanoseconds), FtlError> {
        let (mut lost, mut done_ns) = (None, at_ns);
        for entry in candidates {
            let (header, read_ns) = self.read_header(entry.place, at_ns)?;
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

    /// A record's own description; none if its page is lost. For use in the middle of a step: the checkpoint for the loss is
    /// taken at the end of the command.
    pub(super) fn read_header(
        &mut self,
        place: RecordPlace,
        at_ns: Nanoseconds,
    ) -> Result<(Option<Header>, Nanoseconds), FtlError> {
        let mut unit = [0; UNIT_BYTES];
        match self.nand.read_retrying(place.ppn, &mut unit, at_ns) {
            Ok(done_ns) => Ok((Header::read(bytes_of(&unit, place)).map(|read| read.0), done_ns)),
            Err(NandError::Uncorrectable { .. }) => {
                self.space.note_loss_in(self.geometry.block_of_unit(place.ppn));
                Ok((None, at_ns))
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Ftl {
    /// Whether a key exists, and when that is known.
    pub fn exists(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<(bool, Nanoseconds), KeyValueError> {
        self.namespace(namespace)?;
        let at_ns = self.use_indexes([namespace], at_ns)?;
        Ok(self.is_there(namespace, key, at_ns)?)
    }

    /// Reads a value.
    pub fn get(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        value: &mut Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        value.clear();
        self.namespace(namespace)?;
        let no_such_key = KeyValueError::NoSuchKey { namespace, key: *key };
        let buffer = &self.tenants.records.buffer;
        if let Some(waiting) = buffer.get(namespace, key) {
            if waiting.header.tombstone {
                return Err(no_such_key);
            }
            value.extend_from_slice(buffer.value(waiting));
            self.count_get(value);
            return Ok(at_ns);
        }
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let (found, mut done_ns) = self.find(namespace, key, at_ns)?;
        let head = found.ok_or(no_such_key)?;
        for segment in 0..=head.continuations {
            let entry = match segment {
                0 => head,
                segment => self.find_segment(namespace, key, segment, at_ns)?.0,
            };
            done_ns = done_ns.max(self.read_segment(namespace, key, segment, entry.place, value, at_ns)?);
        }
        self.count_get(value);
        Ok(done_ns)
    }

    /// At most `limit` keys in the order of their hashes, starting at `from`. The order is stable while keys come and
    /// go.
    pub fn list(
        &mut self,
        namespace: NamespaceId,
        from: Option<&Key>,
        keys: &mut Vec<Key>,
        limit: usize,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, KeyValueError> {
        keys.clear();
        self.namespace(namespace)?;
        let at_ns = self.use_indexes([namespace], at_ns)?;
        let waiting: Vec<(Key, bool)> = self
            .tenants
            .records
            .buffer
            .of(namespace)
            .map(|waiting| (waiting.header.key, waiting.header.tombstone))
            .collect();
        // keys that wait to be deleted are not listed, so that many more are examined
        let done_ns = self.list_index(namespace, from, keys, limit.saturating_add(waiting.len()), at_ns)?;
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
