//! Indexes that are only on flash: if the drive's DRAM has no room for all, the least recently used are swapped out
//! (KAML, section 3.2.3).
//!
//! Such an index exists only where the last checkpoint has it, so recovery need not know about swapping. Invariants:
//! - An index is dropped from DRAM only while the last checkpoint has all of it. One that has changed since waits for
//!   the next checkpoint, or causes one.
//! - A checkpoint copies the indexes that are only on flash out of its predecessor, which is freed after that.
//! - What a command uses is loaded before the command changes anything, and stays until the next command. The same
//!   holds for what garbage collection loads to move records.
//!
//! An index is swapped as a whole. So the limit is exceeded if a single index takes more, or the indexes that one
//! command uses together with those whose records are moved meanwhile; and if a drive has no room for the checkpoint
//! that swapping would need, or takes none any more.

use tantalum_nand::{NandError, Nanoseconds};

use super::contents::{IndexBytes, NamespaceContents, RecordsKept};
use super::index::Entry;
use super::residence::InCheckpoint;
use super::state::Namespace;
use crate::canary::{self, Guard};
use crate::error::{Damage, FtlError};
use crate::ftl::Ftl;
use crate::key::NamespaceId;
use crate::parts::Parts;

impl Parts {
    /// Loads indexes in the middle of a command, even beyond the limit. Returns when they are there.
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
            index.index = Some(bytes.index(&attributes, 0));
            self.counters.indexes_swapped_in += 1;
        }
        Ok(done_ns)
    }

    /// After recovery, which loads all indexes: swaps out what the last checkpoint has.
    pub(crate) fn fit_recovered_indexes(&mut self) {
        if let Some(limit) = self.config.index_dram_bytes {
            // none is in use
            self.tenants.records.uses += 1;
            self.swap_out_to(limit);
        }
    }

    /// Drops indexes from DRAM that the last checkpoint has and that are not in use, until at most this many bytes are
    /// left. Returns whether they are.
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

    /// A checkpoint's contents about records, and when the indexes that are only on flash have been read.
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
        let loaded = self.metadata.load_checkpoint(&mut self.nand, place.bytes(), at_ns);
        let (bytes, done_ns, units) = match loaded {
            Err(FtlError::Nand(NandError::Uncorrectable { .. })) => {
                return Err(Damage::Index { namespace, step: self.metadata.checkpoint_step() }.into());
            }
            loaded => loaded?,
        };
        let bytes = IndexBytes::from(bytes);
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
        let step = self.metadata.checkpoint_step();
        Err(Damage::Index { namespace, step }.into())
    }

    /// The entries of an index wherever it is, without taking time or counting as an operation of the medium: for
    /// audits. None if it cannot be read.
    pub(super) fn peek_index<'a>(
        &'a self,
        namespace: &'a Namespace,
    ) -> Option<Box<dyn Iterator<Item = Entry> + 'a>> {
        let Some(place) = namespace.index.on_flash() else {
            return Some(Box::new(namespace.index.get().from(0)));
        };
        let bytes = IndexBytes::from(self.metadata.peek_checkpoint(&self.nand, place.bytes()).ok()?);
        let entries: Vec<Entry> = bytes.entries().collect();
        (bytes.checksum() == place.checksum)
            .then(|| Box::new(entries.into_iter()) as Box<dyn Iterator<Item = Entry>>)
    }
}

impl Ftl {
    /// Loads the indexes that a command uses, after making room for them. Returns when they are there. Call it at the
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

    /// Swaps out indexes between commands, if they exceed the DRAM for them.
    pub(crate) fn fit_indexes(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        self.make_index_room(0, at_ns).map(drop)
    }

    /// Swaps out indexes until this many more bytes fit. If too many have changed since the last checkpoint, a
    /// checkpoint is taken. Returns when the room is there.
    fn make_index_room(&mut self, bytes: u64, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let Some(limit) = self.config.index_dram_bytes else { return Ok(at_ns) };
        let limit = limit.saturating_sub(bytes);
        if self.swap_out_to(limit) || self.tenants.records.idle().is_empty() {
            return Ok(at_ns);
        }
        if self.is_read_only() || self.is_stopped {
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
}
