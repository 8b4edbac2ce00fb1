//! `put`: records are packed into units, programmed, and only then named by the indexes.

use std::collections::BTreeSet;

use tantalum_nand::{Nanoseconds, PageId, Source};

use super::index::Entry;
use super::key::{Key, NamespaceId, RecordPlace};
use super::plan::{Piece, Plan, continuations, segment_of};
use super::record::{Header, UnitImage, spare, weight};
use super::{KeyValueError, KvRecord, VALUE_BYTES};
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::page_image::PageImage;
use crate::space::Target;
use crate::spare::BatchMark;
use crate::types::Seq;

/// A piece with its first chunk.
type Placed = (Piece, u8);

impl Ftl {
    /// Checks a `put` before anything is changed.
    pub fn check_put(&self, records: &[KvRecord<'_>]) -> Result<(), KeyValueError> {
        let mut seen = BTreeSet::new();
        for &KvRecord { namespace, key, value } in records {
            if !self.key_value.namespaces.contains_key(&namespace) {
                return Err(KeyValueError::NoSuchNamespace(namespace));
            }
            let bytes = value.map_or(0, <[u8]>::len);
            if bytes > VALUE_BYTES {
                return Err(KeyValueError::ValueTooLarge { key, bytes: bytes as u64 });
            }
            if records.len() > 1 && !seen.insert((namespace, key)) {
                return Err(KeyValueError::KeyTwice { namespace, key });
            }
        }
        Ok(())
    }

    /// Puts and deletes records, all or nothing. [`Ftl::check_put`] has passed. Returns when all of them are on flash.
    pub fn put(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let (records, mut done_ns) = self.without_idle_deletes(records, at_ns)?;
        if records.is_empty() {
            return Ok(done_ns);
        }
        let plan = Plan::new(&records);
        if records.iter().any(|record| record.value.is_some()) {
            let chunks = plan.pieces.iter().map(|piece| u64::from(weight(piece.chunks))).sum();
            self.ensure_budget(chunks, plan.pieces.len() as u64)?;
        }
        if self.can_wait(&plan) {
            self.put_waiting(&records, &plan, at_ns)?;
            records.iter().for_each(|record| self.count_put(record));
            return Ok(done_ns);
        }
        self.settle_waiting(&records, at_ns)?;
        let pages = plan.units.div_ceil(self.geometry.units_per_page() as usize);
        self.ensure_space(pages as u32, at_ns)?;
        let version = self.next_seq();
        let (mut placed, mut places) = (Vec::with_capacity(plan.pieces.len()), Vec::with_capacity(pages));
        self.batch_under_way = true;
        let programmed = self.program_records(&records, &plan, version, &mut placed, &mut places, at_ns);
        self.batch_under_way = false;
        if programmed.is_err() {
            self.abandoned.insert(version);
        }
        done_ns = done_ns.max(programmed?);
        if pages > 1 {
            self.batches_done_ns = self.batches_done_ns.max(done_ns);
        }
        self.counters.programmed.key_value += plan.units as u64;
        for record in &records {
            done_ns = done_ns.max(self.forget(record.namespace, &record.key, at_ns)?);
            self.count_put(record);
        }
        for (piece, chunk) in placed {
            let unit = piece.unit as u32;
            let per_page = self.geometry.units_per_page();
            let ppn = self.geometry.unit(places[(unit / per_page) as usize], unit % per_page);
            let record = &records[piece.record];
            let place = RecordPlace { ppn, chunk, chunks: piece.chunks };
            let segment = (piece.segment, continuations(record));
            self.name(record.namespace, &record.key, segment, record.value.is_none(), place);
        }
        Ok(done_ns)
    }

    /// The records but for deletes of keys that are not there, and when that is known.
    fn without_idle_deletes<'a>(
        &mut self,
        records: &[KvRecord<'a>],
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        let (mut needed, mut done_ns) = (Vec::with_capacity(records.len()), at_ns);
        for record in records {
            if record.value.is_none() {
                let (is_there, found_ns) = self.is_there(record.namespace, &record.key, at_ns)?;
                done_ns = done_ns.max(found_ns);
                if !is_there {
                    continue;
                }
            }
            needed.push(*record);
        }
        Ok((needed, done_ns))
    }

    /// Programs the units of a `put`. Nobody owns their records yet.
    fn program_records(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        version: Seq,
        placed: &mut Vec<Placed>,
        places: &mut Vec<PageId>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let per_page = self.geometry.units_per_page() as usize;
        // One page is atomic by itself (M2). With a capacitor it carries the mark as well: a page under way that nobody
        // was told of is not to be dumped.
        let marked = plan.units > per_page || self.has_capacitor();
        let mut units = plan.by_unit().enumerate().peekable();
        let mut image = UnitImage::new();
        let mut done_ns = at_ns;
        while units.peek().is_some() {
            let step = self.next_seq();
            let mut page = PageImage::new();
            page.marked = marked;
            for (index, pieces) in units.by_ref().take(per_page) {
                image.clear();
                fill(&mut image, records, pieces, version, placed);
                let batch = BatchMark { id: version, index: index as u32, count: plan.units as u32 };
                let slot = match self.nand.stage(&image.bytes) {
                    Ok(slot) => slot,
                    Err(error) => {
                        self.give_up_page(&page);
                        return Err(error.into());
                    }
                };
                let spare = spare(step, image.ends, marked.then_some(batch), false);
                page.push(Source::Staged(slot), spare.encode());
            }
            let programmed = self.program(Target::Host, &page, step, at_ns);
            match &programmed {
                Err(FtlError::Nand(error)) => self.release_page(&page, error),
                Err(_) => self.give_up_page(&page),
                Ok(_) => {}
            }
            let (place, page_done_ns) = programmed?;
            places.push(place);
            done_ns = done_ns.max(page_done_ns);
        }
        Ok(done_ns)
    }

    /// Takes from the index what a key has, and its tombstone. Returns when that was found.
    pub(super) fn forget(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if let Some(place) = self.key_value.tombstones.remove(&(namespace, *key)) {
            self.map.remove_record(place.ppn, weight(place.chunks));
        }
        let (found, done_ns) = self.find(namespace, key, at_ns)?;
        let Some(head) = found else { return Ok(done_ns) };
        self.unname(namespace, head);
        for segment in 1..=head.continuations {
            let (entry, _) = self.find_segment(namespace, key, segment, at_ns)?;
            self.unname(namespace, entry);
        }
        self.namespace_mut(namespace).records -= 1;
        Ok(done_ns)
    }

    fn unname(&mut self, namespace: NamespaceId, entry: Entry) {
        self.namespace_mut(namespace).index.remove(entry.hash, entry.place);
        self.map.remove_record(entry.place.ppn, weight(entry.place.chunks));
    }

    /// Lets the index name a record that was programmed, or keeps a tombstone. A segment is given with how many follow
    /// the first.
    pub(super) fn name(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        (segment, continuations): (u16, u16),
        tombstone: bool,
        place: RecordPlace,
    ) {
        if tombstone && canary::out(Guard::TombstoneDropped) {
            return;
        }
        self.map.add_record(place.ppn, weight(place.chunks));
        if tombstone {
            self.key_value.tombstones.insert((namespace, *key), place);
            return;
        }
        let namespace = self.namespace_mut(namespace);
        namespace.records += u64::from(segment == 0);
        namespace.index.insert(Entry::of(key, segment, continuations, place));
    }

    fn count_put(&mut self, record: &KvRecord<'_>) {
        let counters = &mut self.counters.key_value;
        match record.value {
            Some(value) => {
                counters.records_put += 1;
                counters.bytes_put += (record.key.as_bytes().len() + value.len()) as u64;
            }
            None => counters.records_deleted += 1,
        }
    }

    pub(super) fn namespace_mut(&mut self, namespace: NamespaceId) -> &mut super::Namespace {
        self.key_value.namespaces.get_mut(&namespace).expect("the namespace was there when the command began")
    }
}

/// Writes a unit's pieces.
fn fill(
    image: &mut UnitImage,
    records: &[KvRecord<'_>],
    pieces: &[Piece],
    version: Seq,
    placed: &mut Vec<Placed>,
) {
    for piece in pieces {
        let record = &records[piece.record];
        let value = segment_of(record, piece.segment);
        let header = Header {
            namespace: record.namespace,
            key: record.key,
            version,
            segment: piece.segment,
            continuations: continuations(record),
            value_bytes: value.len() as u16,
            tombstone: record.value.is_none(),
        };
        let (chunk, bytes) = image.push(piece.chunks);
        header.write(value, bytes);
        placed.push((*piece, chunk));
    }
}
