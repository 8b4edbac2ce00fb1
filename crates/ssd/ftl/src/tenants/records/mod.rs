//! Key-value namespaces: a second kind of map over the same log (KAML, chapter 3).
//!
//! A record asserts: key k of namespace n, at version v, is here; or, as a tombstone, nowhere. The greatest version
//! wins; among copies of one version, the latest step, as for logical pages. Invariants:
//! - An index has one entry for each segment of each existing value, and each entry names a record on flash.
//! - A tombstone stays on flash until a checkpoint covers it, because an older record of its key may be there until
//!   then. It is in use meanwhile, like a value.
//! - Versions are drawn when records are programmed, so a version greater than a checkpoint's step is new to the
//!   checkpoint. Copies keep their version.
//! - The units of a `put` that takes more than a page are members of an atomic batch (`spare`): they assert only if all
//!   of them are there.

mod assertions;
mod audit;
mod buffer;
mod collect;
mod contents;
mod dies;
mod fold;
mod get;
mod index;
mod namespace;
mod plan;
mod put;
mod record;
mod residence;
mod swap;
#[cfg(test)]
mod swap_tests;
mod waiting;
mod weights;

use std::collections::BTreeMap;

use tantalum_nand::{Geometry, Nand, Nanoseconds};

pub(crate) use self::collect::{PackedRecords, Packing};
use self::contents::put_indexes;
pub(crate) use self::fold::{RecordsFold, RecordsFound};
use self::index::Index;
pub use self::namespace::NAMESPACES;
pub(crate) use self::plan::Plan;
pub use self::put::Footprint;
pub(crate) use self::put::{ProgrammedUnits, RoomNs};
use self::record::RecordPlace;
pub use self::record::VALUE_BYTES;
pub(crate) use self::record::filled_bytes;
use self::residence::{InCheckpoint, Residence};
use self::waiting::Buffer;
use crate::counters::Counters;
use crate::error::FtlError;
use crate::key::{Key, NamespaceAttributes, NamespaceId};
use crate::map::Map;
use crate::metadata::{CheckpointBytes, MetadataLog, UnderWay};
use crate::space::{FtlConfig, Space};
use crate::spare::{Mark, Spare};
use crate::types::{HashMap, Seq};
use crate::zones::ZONED_NAMESPACE;
#[cfg(test)]
pub(crate) use record::{CHUNK_BYTES, UnitImage, spare as record_spare};
#[cfg(feature = "canaries")]
pub(crate) use record::{HEADER_BYTES, Header};

/// One record of a `put`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvRecord<'a> {
    /// The namespace.
    pub namespace: NamespaceId,
    /// The key.
    pub key: Key,
    /// The value; `None` deletes the key, if it exists.
    pub value: Option<&'a [u8]>,
}

/// A namespace's attributes and contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamespaceInfo {
    /// Its number.
    pub namespace: NamespaceId,
    /// Its attributes.
    pub attributes: NamespaceAttributes,
    /// Number of keys.
    pub records: u64,
    /// Bytes of the drive's DRAM that its index takes; 0 while it is only on flash.
    pub index_bytes: u64,
    /// Whether its index is only on flash.
    pub swapped_out: bool,
}

/// Why a key-value command failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyValueError {
    /// No such namespace.
    #[error("no key-value namespace {0}")]
    NoSuchNamespace(NamespaceId),
    /// No such key.
    #[error("namespace {namespace} has no key {key}")]
    NoSuchKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// A value longer than the limit.
    #[error("the value of key {key} has {bytes} bytes; the limit is {limit}", limit = VALUE_BYTES)]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// Bytes of the value.
        bytes: u64,
    },
    /// A key occurs twice in one `put`.
    #[error("key {key} of namespace {namespace} occurs twice in one put")]
    KeyTwice {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// Invalid attributes.
    #[error("{what} is {asked}; it must be {expected}")]
    Attribute {
        /// The attribute.
        what: &'static str,
        /// The value given.
        asked: u64,
        /// What would be valid.
        expected: String,
    },
    /// More than the drive's limit.
    #[error("{what}: {asked} requested, but the drive's limit is {limit}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// What was requested.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// A record's flash page is uncorrectable.
    #[error("key {key} of namespace {namespace} cannot be read: its flash page is uncorrectable")]
    Unreadable {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// The FTL failed.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

impl From<tantalum_nand::NandError> for KeyValueError {
    fn from(error: tantalum_nand::NandError) -> KeyValueError {
        KeyValueError::Ftl(error.into())
    }
}

/// A namespace in the running drive.
#[derive(Clone, Debug)]
struct Namespace {
    attributes: NamespaceAttributes,
    index: Residence,
    /// Number of keys; the index also has entries for later segments.
    records: u64,
}

impl Namespace {
    fn new(attributes: NamespaceAttributes) -> Namespace {
        Namespace::with(attributes, Index::new(&attributes), 0)
    }

    fn with(attributes: NamespaceAttributes, index: Index, records: u64) -> Namespace {
        Namespace { attributes, index: Residence::new(index), records }
    }
}

/// What the drive keeps of records: namespaces with their indexes, tombstones, and what waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    namespaces: BTreeMap<NamespaceId, Namespace>,
    /// The number of the newest namespace that ever existed.
    last_namespace: u32,
    /// Tombstones that no checkpoint covers yet.
    tombstones: HashMap<(NamespaceId, Key), RecordPlace>,
    /// Records that wait for a full page.
    buffer: Buffer,
    /// When everything put is durable; some of it may have to be on flash first.
    durable_ns: Nanoseconds,
    /// Commands that have used indexes so far.
    uses: u64,
    /// Batches of `put`s of several units that are acknowledged because protected DRAM has room for them. The dump
    /// saves these batches, and no others.
    acknowledged: UnderWay<Seq>,
    /// The positions of the indexes in the checkpoint being programmed.
    kept_soon: Vec<(NamespaceId, InCheckpoint)>,
    /// DRAM for the indexes, in bytes; `None` if there is room for all.
    index_limit: Option<u64>,
}

/// The number of a drive's first namespace: not [`ZONED_NAMESPACE`] on a drive with zones.
pub(super) fn first_number(config: &FtlConfig) -> u32 {
    if config.zones.is_some() { ZONED_NAMESPACE.0 + 1 } else { 1 }
}

impl Records {
    /// No namespaces.
    pub fn new(config: &FtlConfig) -> Records {
        let last_namespace = first_number(config) - 1;
        Records { index_limit: config.index_dram_bytes, last_namespace, ..Records::default() }
    }

    /// Whether there are no namespaces.
    pub fn has_no_namespaces(&self) -> bool {
        self.namespaces.is_empty()
    }

    fn namespace(&self, namespace: NamespaceId) -> Result<&Namespace, KeyValueError> {
        self.namespaces.get(&namespace).ok_or(KeyValueError::NoSuchNamespace(namespace))
    }

    fn namespace_mut(&mut self, namespace: NamespaceId) -> &mut Namespace {
        self.namespaces.get_mut(&namespace).expect("the namespace was there when the command began")
    }

    // -- checkpoint, dump, capacity -----------------------------------------------------------------------------

    /// Whether a unit lost on its way to flash was acknowledged as durable and exists nowhere else. `put`s of several units are
    /// acknowledged before they are on flash, if protected DRAM has room for them. What garbage collection was moving is still
    /// at its old place.
    pub fn is_saved(&self, spare: &Spare) -> bool {
        let acknowledged = match spare.mark {
            Mark::Batch(batch) => self.acknowledged.iter().any(|id| *id == batch.id),
            Mark::Plain | Mark::Hint(..) => true,
        };
        acknowledged && !record::is_copied(spare)
    }

    /// A batch is acknowledged, and will be on flash at `done_ns`.
    pub fn acknowledge(
        &mut self,
        id: Seq,
        pages: &[(u32, Nanoseconds)],
        done_ns: Nanoseconds,
        now_ns: Nanoseconds,
    ) {
        self.acknowledged.issued(now_ns, done_ns, id);
        self.buffer.programmed.extend(pages);
    }

    /// Appends the contents of a checkpoint. Returns when everything that had to be read for it has been read.
    pub fn write_checkpoint(
        &mut self,
        log: &MetadataLog,
        nand: &mut Nand,
        counters: &mut Counters,
        bytes: &mut CheckpointBytes,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if self.index_limit.is_none() {
            let indexes = self
                .namespaces
                .iter()
                .map(|(id, namespace)| (*id, &namespace.attributes, namespace.index.get()));
            put_indexes(bytes, self.last_namespace, indexes, nand)?;
            return Ok(at_ns);
        }
        let (kept, done_ns) = self.kept(log, nand, counters, at_ns)?;
        // their checksums cover all their bytes
        self.kept_soon = kept.indexes(bytes.len() as u64);
        kept.encode(bytes, nand)?;
        Ok(done_ns)
    }

    /// The number of these bytes, with this many more entries.
    pub fn kept_bytes(&self, more_entries: u64) -> u64 {
        let entries: u64 = self.namespaces.values().map(|namespace| namespace.index.entries()).sum();
        residence::checkpoint_bytes(self.namespaces.len() as u64, entries + more_entries)
    }

    /// The checkpoint stands: it covers the tombstones, and has the indexes.
    pub fn after_checkpoint(&mut self, map: &mut Map) {
        for (_, place) in self.tombstones.drain() {
            map.remove_packed(place.ppn, record::weight(place.chunks));
        }
        let indexes = std::mem::take(&mut self.kept_soon);
        self.are_in_checkpoint(&indexes);
    }

    /// The last checkpoint has the indexes at these positions.
    fn are_in_checkpoint(&mut self, indexes: &[(NamespaceId, InCheckpoint)]) {
        for (id, place) in indexes {
            if let Some(namespace) = self.namespaces.get_mut(id) {
                namespace.index.in_checkpoint = Some(*place);
            }
        }
    }

    /// Units of the drive's capacity that they take.
    pub fn reserved_units(&self, map: &Map) -> u64 {
        map.packed_units() + self.buffer.unit_count() as u64
    }

    /// Plans the logs of all namespaces. There are others than before, or fewer blocks.
    pub fn plan_logs(&self, space: &mut Space) {
        space.plan_logs(self.namespaces.iter().map(|(id, namespace)| (*id, namespace.attributes.logs)));
    }
}

/// Units of protected DRAM in which records for namespaces' own logs may wait: the cache must be smaller by this number.
pub(crate) fn waiting_log_units(space: &Space, config: &FtlConfig, geometry: &Geometry) -> u32 {
    if config.has_plp() { space.namespaces_with_logs() * geometry.units_per_page() } else { 0 }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{BlockId, Nand, Outcome, PlaneId};

    use super::*;
    use crate::control::Ftl;
    use crate::key::{Key, NamespaceAttributes};
    use crate::space::{FtlConfig, Target};
    use crate::spare::BatchMark;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    /// With a capacitor.
    const PROTECTED: FtlConfig = FtlConfig { dump_units: 16, protected_units: 8, ..CONFIG };

    fn ftl() -> (Ftl, NamespaceId) {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), PROTECTED).unwrap();
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        (ftl, namespace)
    }

    fn put(ftl: &mut Ftl, namespace: NamespaceId, number: u32, value: Option<&[u8]>) {
        let key = Key::new(&number.to_le_bytes()).unwrap();
        ftl.put(&[KvRecord { namespace, key, value }], 0, 0, &mut |_| None).unwrap();
    }

    /// Everything is on flash when power fails; what waits is dumped.
    fn cut(mut ftl: Ftl) -> Ftl {
        let now_ns = ftl.nand().idle_ns().max(ftl.nand().programs_done_ns());
        ftl.nand_mut().power_fail(now_ns);
        let undone = ftl.nand_mut().resolve(&mut |_| Outcome::Completed, &mut || 0).unwrap();
        ftl.dump(undone, std::iter::empty(), now_ns).unwrap();
        let mut nand = ftl.into_nand();
        nand.lose_dram();
        let at_ns = nand.idle_ns().max(nand.programs_done_ns());
        Ftl::recover(nand, PROTECTED, at_ns).map_err(|(_, error)| error).unwrap().0
    }

    /// Only an acknowledged `put`; not a copy, whose records are still at their old place.
    #[test]
    fn a_dump_saves_what_was_acknowledged_and_is_nowhere_else() {
        let (mut ftl, _) = ftl();
        ftl.records_mut().acknowledged.issued(0, 100, Seq(7));
        let is_saved = |batch: Option<u64>, copied| {
            let batch = batch.map(|id| BatchMark { id: Seq(id), index: 0, count: 1 });
            let ends = UnitImage::new().ends;
            ftl.records().is_saved(&record::spare(Seq(9), ends, batch, copied))
        };
        assert_eq!([is_saved(None, false), is_saved(Some(7), false)], [true; 2]);
        assert_eq!([is_saved(Some(8), false), is_saved(None, true), is_saved(Some(7), true)], [false; 3]);
    }

    /// A record waits in protected DRAM while a checkpoint is taken without it.
    #[test]
    fn a_record_that_waits_while_a_checkpoint_is_taken_is_dumped_as_newer() {
        for checkpoint in [false, true] {
            let (mut ftl, namespace) = ftl();
            put(&mut ftl, namespace, 1, Some(b"old"));
            ftl.program_waiting(0).unwrap();
            put(&mut ftl, namespace, 1, Some(b"new"));
            put(&mut ftl, namespace, 2, Some(b"two"));
            assert_eq!(ftl.records().buffer.unit_count(), 1);
            if checkpoint {
                ftl.take_checkpoint(0, false).unwrap();
            }
            let mut ftl = cut(ftl);
            for (number, expected) in [(1_u32, b"new"), (2, b"two")] {
                let (key, mut value) = (Key::new(&number.to_le_bytes()).unwrap(), Vec::new());
                ftl.get(namespace, &key, &mut value, 0).unwrap();
                assert_eq!(value, expected);
            }
        }
    }

    /// What is on flash, as it is packed when it is moved, and what waits.
    #[test]
    fn records_reserve_the_units_that_they_take() {
        let (mut ftl, namespace) = ftl();
        assert_eq!(ftl.records().reserved_units(ftl.map()), 0);
        put(&mut ftl, namespace, 1, Some(&[1; 4000]));
        assert_eq!(ftl.records().reserved_units(ftl.map()), 1, "it waits");
        ftl.program_waiting(0).unwrap();
        assert_eq!(ftl.records().reserved_units(ftl.map()), 1);
        for number in 2..5 {
            put(&mut ftl, namespace, number, Some(&[1; 4000]));
            ftl.program_waiting(0).unwrap();
        }
        put(&mut ftl, namespace, 5, Some(&[1; 4000]));
        assert_eq!(ftl.records().reserved_units(ftl.map()), 4 + 1);
    }

    /// A tombstone is needed until there is a checkpoint without its key.
    #[test]
    fn tombstones_take_no_room_once_a_checkpoint_stands() {
        let (mut ftl, namespace) = ftl();
        put(&mut ftl, namespace, 1, Some(&[1; 4000]));
        ftl.program_waiting(0).unwrap();
        put(&mut ftl, namespace, 1, None);
        ftl.program_waiting(0).unwrap();
        assert_eq!((ftl.records().tombstones.len(), ftl.map().packed_units()), (1, 1));
        ftl.take_checkpoint(0, false).unwrap();
        assert_eq!((ftl.records().tombstones.len(), ftl.map().packed_units()), (0, 0));
    }

    /// Records of three chunks fill a unit and weigh more, so that the first of them give back nothing.
    #[test]
    fn what_deletes_give_back_is_known_before() {
        for bytes in [10, 100, 4000, 9000] {
            let (mut ftl, namespace) = ftl();
            let mut count = 0;
            while ftl.has_room(Footprint::of(bytes) * 8, 0) {
                (0..8).for_each(|number| put(&mut ftl, namespace, count + number, Some(&vec![1; bytes])));
                ftl.program_waiting(0).unwrap();
                count += 8;
            }
            // what they leave behind counts until there is a checkpoint
            (0..3).for_each(|number| put(&mut ftl, namespace, number, None));
            ftl.program_waiting(0).unwrap();
            let key = |number: u32| (namespace, Key::new(&number.to_le_bytes()).unwrap());
            let groups: Vec<Vec<_>> =
                (0..5).map(|group| (3..count).skip(group).step_by(5).map(key).collect()).collect();
            let free = ftl.free_without(0, 0, groups.iter().map(|group| &group[..]));
            for (group, free) in [vec![]].iter().chain(&groups).zip(free) {
                for (namespace, key) in group {
                    let delete = KvRecord { namespace: *namespace, key: *key, value: None };
                    ftl.put(&[delete], 0, 0, &mut |_| None).unwrap();
                }
                ftl.program_waiting(0).unwrap();
                ftl.take_checkpoint(0, false).unwrap();
                let freed = ftl.free_units(0, 0) as i64 * 64;
                // the index of small records gives back blocks of the next checkpoint, which are not counted
                assert!(freed == free || bytes < 4000 && freed > free, "{bytes} bytes: {freed}, not {free}");
            }
            assert_eq!(ftl.free_units(0, 0), 128);
        }
    }

    /// Each namespace has one block in reserve besides the open ones. Fewer blocks are left than were planned with.
    #[test]
    fn logs_share_the_blocks_for_them_and_become_narrower_when_blocks_go_bad() {
        let (mut ftl, _) = ftl();
        ftl.space_mut().layout_mut().log_blocks = 6;
        let logs = NamespaceAttributes { logs: 2, ..NamespaceAttributes::default() };
        let namespaces = [0, 1].map(|_| ftl.create_namespace(logs, 0).unwrap());
        let widths = |ftl: &Ftl| {
            namespaces.map(|namespace| {
                let mut stream = ftl.space().stream(Target::Logs(namespace)).clone();
                let planes = (0..2).take_while(|plane| {
                    let wants = stream.wants_block();
                    stream.add(PlaneId(*plane), BlockId(*plane));
                    wants
                });
                planes.count()
            })
        };
        assert_eq!(widths(&ftl), [2, 2]);
        for (blocks, expected) in [(5, [2, 1]), (4, [2, 1]), (3, [2, 1]), (2, [1, 1])] {
            ftl.space_mut().layout_mut().log_blocks = blocks;
            ftl.plan_logs();
            assert_eq!(widths(&ftl), expected, "{blocks} blocks");
        }
    }
}
