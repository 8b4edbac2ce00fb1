//! The fold over records: each index is the maximum of all assertions, over that of the checkpoint.
//!
//! A record newer than the checkpoint is recognised by its version, and a copy of one that the checkpoint has by its
//! key. So an entry of the checkpoint gives way to the first record of its key with a greater step. Later segments of a
//! value count only together with the first one of their version.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::{NandError, PageState, Ppn, UNIT_BYTES};

use super::assertions::{Assertion, Assertions, Best};
use super::contents::{NamespaceContents, RecordsKept};
use super::index::{Entry, Index};
use super::record::{Header, RecordPlace, TENANT, bytes_of, ends, records};
use super::residence::InCheckpoint;
use super::weights::Weights;
use super::{Namespace, Records, waiting_log_units};
use crate::error::{Damage, FtlError};
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::map::{Map, Owner};
use crate::metadata::Record;
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::space::{FtlConfig, Space};
use crate::spare::{BatchMark, Mark, Spare};
use crate::tenants::{CheckpointReader, DataPlaces};
use crate::types::{SEQ_LIMIT, Seq};

/// A record that asserts only if its batch is whole.
struct Member {
    batch: BatchMark,
    assertion: Assertion,
}

/// Assertions about records, gathered over a checkpoint.
pub(crate) struct RecordsFold {
    step: Seq,
    base: Vec<NamespaceContents>,
    last_namespace: u32,
    made: BTreeMap<NamespaceId, NamespaceAttributes>,
    deleted: BTreeSet<NamespaceId>,
    assertions: Assertions,
    members: Vec<Member>,
    /// Number of assertions.
    count: u64,
    /// The positions of the indexes in the checkpoint, if they are swapped.
    indexes: Vec<(NamespaceId, InCheckpoint)>,
}

/// The result of the fold.
pub(crate) struct RecordsFound {
    records: Records,
    /// The weight of what each place has.
    weights: Weights,
    /// The positions of the indexes in the checkpoint, if they are swapped.
    indexes: Vec<(NamespaceId, InCheckpoint)>,
}

impl RecordsFold {
    /// A fold over the contents of the checkpoint at `step`, which are at the front of `kept`. None if they are not valid.
    pub fn over(kept: &mut CheckpointReader<'_>, step: Seq) -> Option<RecordsFold> {
        let records = RecordsKept::decode(kept)?;
        let indexes = match kept.config.index_dram_bytes {
            Some(_) => records.indexes(kept.first_byte),
            None => Vec::new(),
        };
        Some(RecordsFold::new(step, records, indexes))
    }

    /// A fold over the contents of the checkpoint at `step`.
    fn new(step: Seq, kept: RecordsKept, indexes: Vec<(NamespaceId, InCheckpoint)>) -> RecordsFold {
        RecordsFold {
            step,
            base: kept.namespaces,
            last_namespace: kept.last_namespace,
            indexes,
            made: BTreeMap::new(),
            deleted: BTreeSet::new(),
            assertions: Assertions::default(),
            members: Vec::new(),
            count: 0,
        }
    }

    /// A record in a unit of this step.
    fn record(&mut self, place: RecordPlace, header: Header, step: Seq, batch: Option<BatchMark>) {
        let Header { namespace, key, segment, version, continuations, tombstone, .. } = header;
        let best = Best { version, step, place, continuations, tombstone };
        let assertion = Assertion::new(namespace, key, segment, best);
        match batch {
            Some(batch) => self.members.push(Member { batch, assertion }),
            None => self.assert(assertion),
        }
    }

    fn assert(&mut self, assertion: Assertion) {
        self.count += 1;
        self.assertions.add(assertion);
    }

    /// A namespace was created or deleted.
    fn journaled(&mut self, record: &Record) {
        match *record {
            Record::NamespaceMade { namespace, attributes, step } if step > self.step => {
                self.made.insert(namespace, attributes);
                self.last_namespace = self.last_namespace.max(namespace.0);
            }
            Record::NamespaceDeleted { namespace, step } if step > self.step => {
                self.deleted.insert(namespace);
            }
            _ => {}
        }
    }

    /// A unit of records, programmed since the checkpoint.
    pub fn unit(&mut self, reader: &mut Reader, ppn: Ppn, spare: &Spare) -> Result<(), FtlError> {
        let batch = if let Mark::Batch(batch) = spare.mark { Some(batch) } else { None };
        for (place, header) in read_records(reader, ppn, spare)? {
            reader.newest = reader.newest.max(header.version);
            self.record(place, header, spare.step, batch);
        }
        Ok(())
    }

    /// The journal since the checkpoint, after all units.
    pub fn journal(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.journaled(record));
    }

    /// The batches whose members were seen, with the members found.
    pub fn batches(&self) -> impl Iterator<Item = BatchMark> {
        self.members.iter().map(|member| member.batch)
    }

    /// The members of whole batches assert, the others do not.
    pub fn assert_batches(&mut self, whole: &BTreeSet<Seq>) {
        for Member { batch, assertion } in std::mem::take(&mut self.members) {
            if whole.contains(&batch.id) {
                self.assert(assertion);
            }
        }
    }

    /// Whether nothing was asserted since the checkpoint.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.members.is_empty()
    }

    /// Decides what is conditional, and takes the maximum.
    pub fn finish(
        mut self,
        reader: &mut Reader,
        report: &mut RecoveryReport,
    ) -> Result<RecordsFound, FtlError> {
        report.assertions += self.count;
        let newest = self.assertions.into_newest();
        let mut weights = Weights::new(reader.nand.geometry().units());
        self.made.retain(|id, _| !self.deleted.contains(id));
        self.base.retain(|contents| !self.deleted.contains(&contents.namespace));
        let namespaces = begun(self.made, self.base, newest.len() as u64, &mut weights);
        let mut over = Over { step: self.step, namespaces, weights: weights.checked()?, reader };
        let mut found = Records { last_namespace: self.last_namespace, ..Records::default() };
        // obsolete entries are removed first: until then, every entry names what the checkpoint had there
        let mut copies = Vec::new();
        for of_key in newest.by_value() {
            copies.extend(over.without_copied(of_key)?);
        }
        newest.by_value().try_for_each(|of_key| over.without_replaced(of_key))?;
        over.make_room(&copies, newest.by_value());
        copies.into_iter().for_each(|copy| over.insert(copy));
        for of_key in newest.by_value() {
            if let Some(tombstone) = over.insert_new(of_key) {
                let namespace = of_key[0].namespace;
                over.weights.add(namespace, tombstone);
                found.tombstones.insert((namespace, of_key[0].key), tombstone);
            }
        }
        found.namespaces = over.namespaces;
        let weights = over.weights.checked()?;
        debug_assert!(
            weights.iter().eq(Weights::of(places(&found), over.reader.nand.geometry().units()).iter()),
            "places do not weigh what their records do"
        );
        Ok(RecordsFound { records: found, weights, indexes: self.indexes })
    }
}

/// The namespaces before anything is folded over them: those that the journal made, and the checkpoint's, which have room for
/// this many new records if so many are expected. What their records weigh is counted on the way.
fn begun(
    made: BTreeMap<NamespaceId, NamespaceAttributes>,
    base: Vec<NamespaceContents>,
    new: u64,
    weights: &mut Weights,
) -> BTreeMap<NamespaceId, Namespace> {
    let made = made.into_iter().map(|(id, attributes)| (id, Namespace::new(attributes)));
    let mut namespaces: BTreeMap<NamespaceId, Namespace> = made.collect();
    for NamespaceContents { namespace, attributes, entries } in base {
        let mut records = 0;
        let each = entries.entries().inspect(|entry| {
            records += u64::from(entry.key_length > 0);
            weights.add(namespace, entry.place);
        });
        let index = Index::of(&attributes, entries.len(), each, new);
        namespaces.insert(namespace, Namespace::with(attributes, index, records));
    }
    namespaces
}

/// The checkpoint's indexes while assertions are folded over them.
struct Over<'a> {
    step: Seq,
    namespaces: BTreeMap<NamespaceId, Namespace>,
    weights: Weights,
    reader: &'a mut Reader,
}

impl Over<'_> {
    /// The first segment of a key, if it and its namespace are there and it is newer than the checkpoint.
    fn new_head(&self, segments: &[Assertion]) -> Option<Best> {
        let head = segments.first()?;
        let is_new = head.segment == 0 && head.best.version > self.step;
        (is_new && self.namespaces.contains_key(&head.namespace)).then_some(head.best)
    }

    /// Removes the checkpoint's entries for those segments of a key that were copied since. Returns the copies.
    fn without_copied<'b>(&mut self, segments: &'b [Assertion]) -> Result<Vec<&'b Assertion>, FtlError> {
        let Assertion { namespace, key, .. } = segments[0];
        let mut copies = Vec::new();
        if self.new_head(segments).is_some() || !self.namespaces.contains_key(&namespace) {
            return Ok(copies);
        }
        // A new segment belongs to a value whose first segment is missing: the value was replaced, and its replacement is
        // asserted elsewhere.
        let step = self.step;
        for copy in segments.iter().filter(|of| of.best.version <= step) {
            if let Some(old) = self.find(namespace, &key, copy.segment, Some(copy.best.continuations))? {
                self.remove(namespace, old);
                copies.push(copy);
            }
        }
        Ok(copies)
    }

    /// Removes the checkpoint's entries for a key that has something newer.
    fn without_replaced(&mut self, segments: &[Assertion]) -> Result<(), FtlError> {
        let Assertion { namespace, key, .. } = segments[0];
        if self.new_head(segments).is_none() {
            return Ok(());
        }
        let Some(head) = self.find(namespace, &key, 0, None)? else { return Ok(()) };
        self.remove(namespace, head);
        for segment in 1..=head.continuations {
            if let Some(entry) = self.find(namespace, &key, segment, Some(head.continuations))? {
                self.remove(namespace, entry);
            }
        }
        self.namespaces.get_mut(&namespace).expect("it is there").records -= 1;
        Ok(())
    }

    /// The segments of a key of which entries are added: those that are newer than the checkpoint, if its value is.
    fn added<'b>(&self, segments: &'b [Assertion]) -> impl Iterator<Item = &'b Assertion> + use<'b> {
        let head = self.new_head(segments).filter(|head| !head.tombstone);
        segments.iter().filter(move |of| head.is_some_and(|head| of.best.version == head.version))
    }

    /// Makes room for all entries that are added: they come in the order of their hashes.
    fn make_room<'b>(&mut self, copies: &[&Assertion], by_value: impl Iterator<Item = &'b [Assertion]>) {
        let mut added: BTreeMap<NamespaceId, u64> = BTreeMap::new();
        let new = by_value
            .filter_map(|of_key| Some((of_key.first()?.namespace, self.added(of_key).count() as u64)));
        let copied = copies.iter().map(|copy| (copy.namespace, 1));
        new.chain(copied).for_each(|(namespace, count)| *added.entry(namespace).or_default() += count);
        for (namespace, count) in added.into_iter().filter(|(_, count)| *count > 0) {
            self.namespaces.get_mut(&namespace).expect("it is there").index.get_mut().reserve(count);
        }
    }

    /// Adds the entries for a key that are newer than the checkpoint, if any. Returns the place of a tombstone.
    fn insert_new(&mut self, segments: &[Assertion]) -> Option<RecordPlace> {
        let head = self.new_head(segments)?;
        if head.tombstone {
            return Some(head.place);
        }
        self.added(segments).for_each(|of| self.insert(of));
        self.namespaces.get_mut(&segments[0].namespace).expect("it is there").records += 1;
        None
    }

    fn insert(&mut self, of: &Assertion) {
        let namespace = self.namespaces.get_mut(&of.namespace).expect("it is there");
        let entry = Entry::of(&of.key, of.segment, of.best.continuations, of.best.place);
        namespace.index.get_mut().insert(entry);
        self.weights.add(of.namespace, entry.place);
    }

    fn remove(&mut self, namespace: NamespaceId, entry: Entry) {
        let namespace = self.namespaces.get_mut(&namespace).expect("it is there");
        namespace.index.get_mut().remove(entry.hash, entry.place);
        self.weights.remove(entry.place);
    }

    /// The checkpoint's entry of a segment, of a value with this many continuations if that is known. Several keys may
    /// have the same hash, and the record that would show whose entry this is may be gone. A record that is gone was
    /// copied or replaced, so entries whose records are gone may be mistaken for each other if their values have the
    /// same number of segments.
    fn find(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        segment: u16,
        continuations: Option<u16>,
    ) -> Result<Option<Entry>, FtlError> {
        let length = if segment == 0 { key.length() } else { 0 };
        let hash = key.segment_hash(segment);
        let index = self.namespaces[&namespace].index.get();
        let candidates: Vec<Entry> =
            index.with_hash(hash).filter(|entry| entry.key_length == length).collect();
        if segment == 0 && key.is_exact() {
            return Ok(candidates.last().copied());
        }
        let mut untold = None;
        for entry in candidates {
            match read_header(self.reader, entry.place, self.step)? {
                Some(found) if found.namespace == namespace && found.hash() == hash => {
                    if (found.key, found.segment) == (*key, segment) {
                        return Ok(Some(entry));
                    }
                }
                _ => {
                    let fits = continuations.is_none_or(|continuations| continuations == entry.continuations);
                    if fits || untold.is_none() {
                        untold = Some(entry);
                    }
                }
            }
        }
        Ok(untold)
    }
}

fn read_records(
    reader: &mut Reader,
    ppn: Ppn,
    spare: &Spare,
) -> Result<Vec<(RecordPlace, Header)>, FtlError> {
    let damaged = || FtlError::from(Damage::Records { ppn });
    let mut unit = [0; UNIT_BYTES];
    match reader.read_unit(ppn, &mut unit) {
        Err(NandError::Uncorrectable { .. }) => return Err(damaged()),
        read => read?,
    }
    let found = records(&unit, ends(spare), ppn).ok_or_else(damaged)?;
    if found.iter().any(|(_, header)| header.version >= SEQ_LIMIT) {
        return Err(damaged());
    }
    Ok(found)
}

/// The header of a record that the checkpoint at `step` named; none if it cannot be read, or if its page was programmed
/// again since.
fn read_header(reader: &mut Reader, place: RecordPlace, step: Seq) -> Result<Option<Header>, FtlError> {
    if reader.nand.page_state(reader.nand.geometry().page_of(place.ppn)) != PageState::Programmed {
        return Ok(None);
    }
    let mut unit = [0; UNIT_BYTES];
    match reader.read_unit(place.ppn, &mut unit) {
        Err(NandError::Uncorrectable { .. }) => return Ok(None),
        read => read?,
    }
    if Spare::decode(&reader.nand.spare(place.ppn)?).is_none_or(|spare| spare.step > step) {
        return Ok(None);
    }
    Ok(Header::read(bytes_of(&unit, place)).map(|read| read.0))
}

impl RecordsFound {
    /// A namespace with a record at this place.
    fn namespace_at(&self, ppn: Ppn) -> NamespaceId {
        let mut places = places(&self.records);
        places.find(|(_, place)| place.ppn == ppn).expect("a place with a weight has a record").0
    }

    /// Everything must be at a place that holds data.
    pub fn check(&self, data: &DataPlaces<'_>) -> Result<(), FtlError> {
        match self.weights.iter().find(|(ppn, _)| !data.has(*ppn)) {
            None => Ok(()),
            Some((ppn, _)) => Err(Damage::RecordPlace { namespace: self.namespace_at(ppn), ppn }.into()),
        }
    }

    /// Makes it the running drive's state, after that of units. `clean` if nothing followed the checkpoint.
    pub fn restore(
        self,
        map: &mut Map,
        space: &mut Space,
        config: &FtlConfig,
        clean: bool,
    ) -> Result<Records, FtlError> {
        if let Some((ppn, _)) = self.weights.iter().find(|(ppn, _)| map.owner(*ppn) != Owner::None) {
            return Err(Damage::TwoOwners { namespace: self.namespace_at(ppn), ppn }.into());
        }
        self.weights.iter().for_each(|(ppn, weight)| map.add_packed(TENANT, ppn, weight));
        let mut records = Records { index_limit: config.index_dram_bytes, ..self.records };
        if clean {
            records.are_in_checkpoint(&self.indexes);
        }
        records.plan_logs(space);
        let units = waiting_log_units(space, config, space.geometry());
        let limit = config.protected_units / 2;
        if units > limit { Err(Damage::NamespaceLogs { units, limit }.into()) } else { Ok(records) }
    }
}

/// The namespaces and places of all records.
fn places(records: &Records) -> impl Iterator<Item = (NamespaceId, RecordPlace)> + '_ {
    let indexed = records
        .namespaces
        .iter()
        .flat_map(|(id, namespace)| namespace.index.get().from(0).map(|entry| (*id, entry.place)));
    indexed.chain(records.tombstones.iter().map(|((id, _), place)| (*id, *place)))
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Geometry, Nand};

    use super::*;
    use crate::control::FormatError;
    use crate::control::Ftl;
    use crate::key::NamespaceAttributes;
    use crate::space::FtlConfig;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    /// An image whose profile protects less than it did.
    #[test]
    fn namespaces_with_more_logs_than_a_drive_protects_are_damage() {
        let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, dump_units: 256, protected_units: 64, ..CONFIG };
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        for _ in 0..2 {
            ftl.create_namespace(NamespaceAttributes { logs: 1, ..Default::default() }, 0).unwrap();
        }
        ftl.take_checkpoint(0, true).unwrap();
        let less = FtlConfig { protected_units: 4, ..config };
        let (nand, error) = Ftl::recover(ftl.into_nand(), less, 0).map(|_| ()).unwrap_err();
        let FormatError::Ftl(FtlError::Damaged(Damage::NamespaceLogs { units: 4, limit: 2 })) = error else {
            panic!("{error}");
        };
        Ftl::recover(*nand, config, 0).map(|_| ()).map_err(|(_, error)| error).unwrap();
    }

    #[test]
    fn a_record_at_a_place_without_data_is_damage() {
        let reader = Reader::new(Nand::in_memory(GEOMETRY, TIMING).unwrap(), 128, 0);
        let data = DataPlaces { reader: &reader, no_data: Vec::new() };
        let found = |ppns: &[u32]| -> Result<RecordsFound, FtlError> {
            let mut records = Records::default();
            for ppn in ppns {
                let place = RecordPlace { ppn: Ppn(*ppn), chunk: 0, chunks: 1 };
                records.tombstones.insert((NamespaceId(1), Key::new(&[*ppn as u8]).unwrap()), place);
            }
            let weights = Weights::of(places(&records), GEOMETRY.units()).checked()?;
            Ok(RecordsFound { records, weights, indexes: Vec::new() })
        };
        found(&[]).unwrap().check(&data).unwrap();
        let checked = found(&[7]).unwrap().check(&data);
        assert!(matches!(checked, Err(FtlError::Damaged(Damage::RecordPlace { ppn: Ppn(7), .. }))));
        let beyond = found(&[7, GEOMETRY.units()]).map(drop);
        assert!(matches!(beyond, Err(FtlError::Damaged(Damage::RecordPlace { .. }))));
    }
}
