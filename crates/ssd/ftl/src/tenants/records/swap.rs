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

use tantalum_canaries::guard;
use tantalum_nand::{Nand, NandError, Nanoseconds};

use super::contents::{IndexBytes, NamespaceContents, RecordsKept};
use super::index::Entry;
use super::residence::InCheckpoint;
use super::{Namespace, Records};
use crate::counters::Counters;
use crate::error::{Damage, FtlError};
use crate::key::NamespaceId;
use crate::metadata::MetadataLog;

impl Records {
    /// Whether indexes may have to be swapped out.
    #[inline]
    pub fn are_swapped(&self) -> bool {
        self.index_limit.is_some()
    }

    /// A command begins that uses these indexes. Returns the bytes of DRAM that those take that must be loaded for it.
    pub fn begin_use(&mut self, namespaces: impl IntoIterator<Item = NamespaceId>) -> u64 {
        self.uses += 1;
        let mut needed = 0;
        for id in namespaces {
            let Some(namespace) = self.namespaces.get_mut(&id) else { continue };
            if namespace.index.is_swapped_out() && namespace.index.used < self.uses {
                needed += namespace.index.swapped_bytes;
            }
            namespace.index.used = self.uses;
        }
        needed
    }

    /// Loads indexes in the middle of a command, even beyond the limit. Returns when they are there.
    pub fn load_indexes(
        &mut self,
        namespaces: impl IntoIterator<Item = NamespaceId>,
        log: &MetadataLog,
        nand: &mut Nand,
        counters: &mut Counters,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = at_ns;
        if self.index_limit.is_none() {
            return Ok(done_ns);
        }
        for id in namespaces {
            let Some(namespace) = self.namespaces.get_mut(&id) else { continue };
            let Some(place) = namespace.index.on_flash() else { continue };
            let (bytes, read_ns) = read_index(id, place, log, nand, counters, at_ns)?;
            done_ns = done_ns.max(read_ns);
            namespace.index.index = Some(bytes.index(&namespace.attributes, 0));
            counters.indexes_swapped_in += 1;
        }
        Ok(done_ns)
    }

    /// After recovery, which loads all indexes: swaps out what the last checkpoint has.
    pub fn fit_recovered(&mut self, counters: &mut Counters) {
        if self.index_limit.is_some() {
            // none is in use
            self.uses += 1;
            self.swap_out(0, counters);
        }
    }

    /// Drops indexes from DRAM that the last checkpoint has and that are not in use, until there is room for this many more bytes.
    /// Returns whether there is, or nothing more could be dropped after another checkpoint either.
    pub fn swap_out(&mut self, bytes: u64, counters: &mut Counters) -> bool {
        let Some(limit) = self.index_limit else { return true };
        self.swap_out_to(limit.saturating_sub(bytes), counters) || self.idle().is_empty()
    }

    /// The same until at most this many bytes are left. Returns whether they are.
    fn swap_out_to(&mut self, limit: u64, counters: &mut Counters) -> bool {
        let mut left: u64 = self.namespaces.values().map(|namespace| namespace.index.dram_bytes()).sum();
        if left <= limit {
            return true;
        }
        for id in self.idle() {
            let index = &mut self.namespace_mut(id).index;
            index.swap_out();
            if index.is_swapped_out() {
                left -= index.swapped_bytes;
                counters.indexes_swapped_out += 1;
            }
            if left <= limit {
                return true;
            }
        }
        false
    }

    /// The namespaces whose indexes are in DRAM and not in use, least recently used first.
    fn idle(&self) -> Vec<NamespaceId> {
        let is_idle =
            |namespace: &Namespace| !namespace.index.is_swapped_out() && namespace.index.used < self.uses;
        let idle = self.namespaces.iter().filter(|(_, namespace)| is_idle(namespace));
        let mut idle: Vec<_> = idle.map(|(id, namespace)| (namespace.index.used, *id)).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }

    /// A checkpoint's contents about records, and when the indexes that are only on flash have been read.
    pub(super) fn kept(
        &self,
        log: &MetadataLog,
        nand: &mut Nand,
        counters: &mut Counters,
        at_ns: Nanoseconds,
    ) -> Result<(RecordsKept, Nanoseconds), FtlError> {
        let (mut contents, mut done_ns) = (Vec::with_capacity(self.namespaces.len()), at_ns);
        for (id, namespace) in &self.namespaces {
            let entries = match namespace.index.on_flash() {
                None => IndexBytes::of_index(namespace.index.get()),
                Some(place) => {
                    let (entries, read_ns) =
                        guard!(SwappedIndexNotCopied, read_index(*id, place, log, nand, counters, at_ns)?);
                    done_ns = done_ns.max(read_ns);
                    entries
                }
            };
            contents.push(NamespaceContents { namespace: *id, attributes: namespace.attributes, entries });
        }
        Ok((RecordsKept { last_namespace: self.last_namespace, namespaces: contents }, done_ns))
    }
}

/// Reads an index from the last checkpoint.
fn read_index(
    namespace: NamespaceId,
    place: InCheckpoint,
    log: &MetadataLog,
    nand: &mut Nand,
    counters: &mut Counters,
    at_ns: Nanoseconds,
) -> Result<(IndexBytes, Nanoseconds), FtlError> {
    let damaged = || FtlError::from(Damage::Index { namespace, step: log.checkpoint_step() });
    let (bytes, done_ns, units) = match log.load_checkpoint(nand, place.bytes(), at_ns) {
        Err(FtlError::Nand(NandError::Uncorrectable { .. })) => return Err(damaged()),
        loaded => loaded?,
    };
    let bytes = IndexBytes::from(bytes);
    counters.index_units_read += units;
    if bytes.checksum() == place.checksum { Ok((bytes, done_ns)) } else { Err(damaged()) }
}

/// The entries of an index wherever it is, without taking time or counting as an operation of the medium: for
/// audits. None if it cannot be read.
pub(super) fn peek_index<'a>(
    namespace: &'a Namespace,
    log: &MetadataLog,
    nand: &Nand,
) -> Option<Box<dyn Iterator<Item = Entry> + 'a>> {
    let Some(place) = namespace.index.on_flash() else {
        return Some(Box::new(namespace.index.get().from(0)));
    };
    let bytes = IndexBytes::from(log.peek_checkpoint(nand, place.bytes()).ok()?);
    let entries: Vec<Entry> = bytes.entries().collect();
    (bytes.checksum() == place.checksum)
        .then(|| Box::new(entries.into_iter()) as Box<dyn Iterator<Item = Entry>>)
}
