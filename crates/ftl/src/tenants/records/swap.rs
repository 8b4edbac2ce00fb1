//! Indexes that are on flash only: where the drive's DRAM has no room for all, those used longest ago are swapped out
//! (KAML, section 3.2.3).
//!
//! An index that is on flash only is where the last checkpoint has it, and nowhere else: so swapping adds nothing that
//! recovery would have to know. Invariants:
//! - An index is given up in DRAM only while the last checkpoint has all of it. One that was changed since waits for the
//!   next checkpoint, or is the reason for one.
//! - A checkpoint copies the indexes that are on flash only out of the one before it, which is freed after that.
//! - What a command uses is loaded before it changes anything, and stays until the next command. So does what garbage
//!   collection loads to move records.
//!
//! An index is swapped as a whole. So the limit is exceeded where one index alone, or those that one command uses and whose
//! records are moved meanwhile, take more; and where a drive has no room for the checkpoint that it would take.

use tantalum_nand::{Geometry, NandError, Nanoseconds, PageId, Ppn, UNIT_BYTES};

use super::contents::{InCheckpoint, IndexBytes, NamespaceContents, RecordsKept};
use super::index::{Entry, Index};
use super::{KeyValue, Namespace};
use crate::canary::{self, Guard};
use crate::error::{Damage, FtlError};
use crate::ftl::Ftl;
use crate::key::NamespaceId;

/// An index in DRAM, on flash, or both.
#[derive(Clone, Debug)]
pub(crate) struct Residence {
    /// None while it is on flash only.
    index: Option<Index>,
    /// Where the last checkpoint has the same; none if it has been changed since.
    in_checkpoint: Option<InCheckpoint>,
    /// Bytes of DRAM that it took when it was swapped out.
    swapped_bytes: u64,
    /// Which use of an index its last one was.
    used: u64,
}

impl Residence {
    pub fn new(index: Index) -> Residence {
        Residence { index: Some(index), in_checkpoint: None, swapped_bytes: 0, used: 0 }
    }

    /// The index, which is in DRAM.
    #[inline]
    pub fn get(&self) -> &Index {
        self.index.as_ref().expect("an index is loaded before it is used")
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self) -> &mut Index {
        if !canary::out(Guard::ChangedIndexSwappedOut) {
            self.in_checkpoint = None;
        }
        self.index.as_mut().expect("an index is loaded before it is changed")
    }

    /// Whether it is on flash only.
    pub fn is_swapped_out(&self) -> bool {
        self.index.is_none()
    }

    /// Entries, in DRAM or not.
    pub fn entries(&self) -> u64 {
        match (&self.index, self.in_checkpoint) {
            (Some(index), _) => index.len(),
            (None, place) => place.map_or(0, |place| place.entries),
        }
    }

    /// Bytes of DRAM that it takes.
    pub fn dram_bytes(&self) -> u64 {
        self.index.as_ref().map_or(0, |index| index.dram_bytes() as u64)
    }

    /// Where it is while it is on flash only.
    pub(super) fn on_flash(&self) -> Option<InCheckpoint> {
        if self.is_swapped_out() { self.in_checkpoint } else { None }
    }

    /// Gives it up in DRAM, if the last checkpoint has it.
    fn swap_out(&mut self) {
        if self.in_checkpoint.is_some() {
            self.swapped_bytes = self.dram_bytes();
            self.index = None;
        }
    }
}

impl KeyValue {
    /// The last checkpoint has the indexes, here.
    pub fn are_in_checkpoint(&mut self, indexes: &[(NamespaceId, InCheckpoint)]) {
        for (id, place) in indexes {
            if let Some(namespace) = self.namespaces.get_mut(id) {
                namespace.index.in_checkpoint = Some(*place);
            }
        }
    }

    /// A command of its own uses an index.
    pub fn note_use(&mut self, namespace: NamespaceId) {
        self.uses += 1;
        if let Some(namespace) = self.namespaces.get_mut(&namespace) {
            namespace.index.used = self.uses;
        }
    }

    /// Bytes of DRAM that all indexes take.
    fn index_bytes(&self) -> u64 {
        self.namespaces.values().map(|namespace| namespace.index.dram_bytes()).sum()
    }

    /// The namespaces whose indexes are in DRAM and not in use, those used longest ago first.
    fn idle(&self) -> Vec<NamespaceId> {
        let is_idle =
            |namespace: &Namespace| !namespace.index.is_swapped_out() && namespace.index.used < self.uses;
        let idle = self.namespaces.iter().filter(|(_, namespace)| is_idle(namespace));
        let mut idle: Vec<_> = idle.map(|(id, namespace)| (namespace.index.used, *id)).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }
}

impl Ftl {
    /// Loads the indexes that a command uses, and makes room for them before. Returns when they are there. For the
    /// beginning of a command: a checkpoint may be taken.
    pub(super) fn use_indexes(
        &mut self,
        namespaces: impl IntoIterator<Item = NamespaceId> + Clone,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if self.config.index_dram_bytes.is_none() {
            return Ok(at_ns);
        }
        let key_value = &mut self.tenants.records;
        key_value.uses += 1;
        let mut needed = 0;
        for id in namespaces.clone() {
            let Some(namespace) = key_value.namespaces.get_mut(&id) else { continue };
            if namespace.index.is_swapped_out() && namespace.index.used < key_value.uses {
                needed += namespace.index.swapped_bytes;
            }
            namespace.index.used = key_value.uses;
        }
        let room_ns = self.make_index_room(needed, at_ns)?;
        self.load_indexes(namespaces, room_ns)
    }

    /// Loads indexes in the middle of a command, also beyond the limit. Returns when they are there.
    pub(super) fn load_indexes(
        &mut self,
        namespaces: impl IntoIterator<Item = NamespaceId>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = at_ns;
        if self.config.index_dram_bytes.is_none() {
            return Ok(done_ns);
        }
        for id in namespaces {
            let Some(namespace) = self.tenants.records.namespaces.get(&id) else { continue };
            let Some(place) = namespace.index.on_flash() else { continue };
            let attributes = namespace.attributes;
            let (bytes, read_ns) = self.read_index(id, place, at_ns)?;
            done_ns = done_ns.max(read_ns);
            let index = &mut self.namespace_mut(id).index;
            index.index = Some(bytes.index(&attributes));
            self.counters.indexes_swapped_in += 1;
        }
        Ok(done_ns)
    }

    /// Swaps indexes out between commands, if they take more DRAM than there is for them.
    pub(super) fn fit_indexes(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.make_index_room(0, at_ns).map(drop)
    }

    /// After recovery, which loads all: swaps out what the last checkpoint has.
    pub(crate) fn fit_recovered_indexes(&mut self) {
        if let Some(limit) = self.config.index_dram_bytes {
            // none is in use
            self.tenants.records.uses += 1;
            self.swap_out_to(limit);
        }
    }

    /// Swaps indexes out until so many bytes more fit. Where too many were changed since the last checkpoint, one is
    /// taken. Returns when the room is there.
    fn make_index_room(&mut self, bytes: u64, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(limit) = self.config.index_dram_bytes else { return Ok(at_ns) };
        let limit = limit.saturating_sub(bytes);
        if self.swap_out_to(limit) || self.tenants.records.idle().is_empty() || self.is_read_only() {
            return Ok(at_ns);
        }
        self.counters.index_checkpoints += 1;
        match self.take_checkpoint(at_ns, false) {
            Ok(done_ns) => {
                self.swap_out_to(limit);
                Ok(done_ns)
            }
            // they stay where they are
            Err(FtlError::CapacityExceeded) => Ok(at_ns),
            Err(error) => Err(error),
        }
    }

    /// Gives up indexes in DRAM that the last checkpoint has and that are not in use, until no more than so many bytes are
    /// left. Whether they are.
    fn swap_out_to(&mut self, limit: u64) -> bool {
        let mut left = self.tenants.records.index_bytes();
        if left <= limit {
            return true;
        }
        for id in self.tenants.records.idle() {
            let index = &mut self.namespace_mut(id).index;
            index.swap_out();
            if index.is_swapped_out() {
                left -= index.swapped_bytes;
                self.counters.indexes_swapped_out += 1;
            }
            if left <= limit {
                return true;
            }
        }
        false
    }

    /// What a checkpoint is to have of records, and when the indexes that are on flash only have been read.
    pub(super) fn records_kept(
        &mut self,
        at_ns: Nanoseconds,
    ) -> Result<(RecordsKept, Nanoseconds), FtlError> {
        let ids: Vec<NamespaceId> = self.tenants.records.namespaces.keys().copied().collect();
        let (mut contents, mut done_ns) = (Vec::with_capacity(ids.len()), at_ns);
        for id in ids {
            let namespace = &self.tenants.records.namespaces[&id];
            let attributes = namespace.attributes;
            let entries = match namespace.index.on_flash() {
                None => IndexBytes::of_index(namespace.index.get()),
                Some(_) if canary::out(Guard::SwappedIndexNotCopied) => IndexBytes::default(),
                Some(place) => {
                    let (entries, read_ns) = self.read_index(id, place, at_ns)?;
                    done_ns = done_ns.max(read_ns);
                    entries
                }
            };
            contents.push(NamespaceContents { namespace: id, attributes, entries });
        }
        let last_namespace = self.tenants.records.last_namespace;
        Ok((RecordsKept { last_namespace, namespaces: contents }, done_ns))
    }

    /// Reads an index from the last checkpoint.
    fn read_index(
        &mut self,
        namespace: NamespaceId,
        place: InCheckpoint,
        at_ns: Nanoseconds,
    ) -> Result<(IndexBytes, Nanoseconds), FtlError> {
        let (mut done_ns, mut units) = (at_ns, 0);
        let nand = &mut self.nand;
        let bytes = bytes_at(place, &self.geometry, self.metadata.checkpoint_pages(), |ppn, unit| {
            units += 1;
            done_ns = done_ns.max(nand.read_retrying(ppn, unit, at_ns)?);
            Ok(())
        });
        let bytes = match bytes {
            Err(FtlError::Nand(NandError::Uncorrectable { .. })) => {
                return Err(Damage::Index { namespace, step: self.metadata.checkpoint.step }.into());
            }
            bytes => bytes?,
        };
        self.counters.index_units_read += units;
        self.check_index(namespace, place, &bytes)?;
        Ok((bytes, done_ns))
    }

    fn check_index(
        &self,
        namespace: NamespaceId,
        place: InCheckpoint,
        bytes: &IndexBytes,
    ) -> Result<(), FtlError> {
        if bytes.checksum() == place.checksum {
            return Ok(());
        }
        let step = self.metadata.checkpoint.step;
        Err(Damage::Index { namespace, step }.into())
    }

    /// The entries of an index wherever it is, at no time and as no operation of the medium: for audits. None if it cannot
    /// be read.
    pub(super) fn peek_index<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Option<Box<dyn Iterator<Item = Entry> + 'a>> {
        let Some(place) = namespace.index.on_flash() else {
            return Some(Box::new(namespace.index.get().from(0)));
        };
        let read = |ppn, unit: &mut [u8]| Ok(self.nand.peek(ppn, unit)?);
        let bytes = bytes_at(place, &self.geometry, self.metadata.checkpoint_pages(), read).ok()?;
        let entries: Vec<Entry> = bytes.entries().collect();
        (bytes.checksum() == place.checksum)
            .then(|| Box::new(entries.into_iter()) as Box<dyn Iterator<Item = Entry>>)
    }
}

/// The bytes of an index out of the units of a checkpoint that have any of them.
fn bytes_at(
    place: InCheckpoint,
    geometry: &Geometry,
    pages: &[PageId],
    mut read: impl FnMut(Ppn, &mut [u8]) -> Result<(), FtlError>,
) -> Result<IndexBytes, FtlError> {
    let bytes = place.bytes();
    let mut entries = Vec::with_capacity((bytes.end - bytes.start) as usize);
    let mut unit = [0; UNIT_BYTES];
    let units_per_page = u64::from(geometry.units_per_page());
    let mut next = bytes.start;
    while next < bytes.end {
        let (number, start) = (next / UNIT_BYTES as u64, (next % UNIT_BYTES as u64) as usize);
        let page = pages[(number / units_per_page) as usize];
        read(geometry.unit(page, (number % units_per_page) as u32), &mut unit)?;
        let count = (bytes.end - next).min((UNIT_BYTES - start) as u64) as usize;
        entries.extend(&unit[start..start + count]);
        next += count as u64;
    }
    Ok(IndexBytes(entries))
}
