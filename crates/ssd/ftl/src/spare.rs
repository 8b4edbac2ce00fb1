//! The contents of a unit's spare area: its owners, their versions, and the condition under which they hold.
//!
//! Assertions live in two places, and this is the first (the other is the journal). A spare area asserts that each of
//! its owners, at its version, is at this place, as programmed at `step`. A batch mark makes that conditional on the
//! batch being whole; a hint adds the home to the owners once the hinted run is whole. The record is 128 bytes,
//! little-endian; a test pins its layout. That of an unmarked unit with one owner has only zeros between its ends, 32
//! bytes each.

use tantalum_nand::{UNIT_SPARE_BYTES, UnitSpare};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, TryFromBytes, Unaligned};

use crate::placement::Handle;
use crate::types::{Generation, Hint, Lpn, Metadata, SEQ_LIMIT, Seq};

/// Owners that fit into a spare area; more go into the journal.
pub const SPARE_OWNERS: usize = 4;

const NO_HOME: u32 = u32::MAX;

/// The kind of contents of a unit, as it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, TryFromBytes)]
#[repr(u8)]
pub enum Kind {
    /// Nothing: the rest of a partly filled page, whose spare area is zeros.
    #[allow(dead_code, reason = "it is only ever read")]
    Padding = 0,
    /// A unit of data that asserts its owners.
    Data = 1,
    /// A unit of an open transaction: asserts nothing until a commit record names it.
    Transaction = 2,
    /// Journal records.
    Journal = 3,
    /// Part of a checkpoint; the batch mark says which part of which.
    Checkpoint = 4,
    /// Records of key-value namespaces. The metadata say where each ends, and the records contain the assertions.
    KeyValue = 5,
    /// A page of a zone; the metadata say which.
    Zone = 6,
}

/// A unit's place in an atomic batch, or a page's in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchMark {
    /// The batch.
    pub id: Seq,
    /// This member, from 0.
    pub index: u32,
    /// Number of members.
    pub count: u32,
}

/// A condition or addition to what a unit asserts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// None: the owners hold unconditionally.
    Plain,
    /// Member of a batch.
    Batch(BatchMark),
    /// A page of a hinted log, with the log page's own unit.
    Hint(Hint, Lpn),
}

/// A spare area, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spare {
    /// The kind of contents.
    pub kind: Kind,
    /// When it was programmed.
    pub step: Seq,
    owners: [(Lpn, Seq); SPARE_OWNERS],
    owner_count: u8,
    /// Condition or addition.
    pub mark: Mark,
    /// Metadata from the host.
    pub metadata: Metadata,
    /// The handle with which the host placed it.
    pub handle: Handle,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OwnerRecord {
    lpn: U32,
    version: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SpareRecord {
    step: U64,
    kind: u8,
    owner_count: u8,
    mark: u8,
    end: u8,
    handle: u8,
    reserved: [u8; 3],
    owners: [OwnerRecord; SPARE_OWNERS],
    /// Hint: generation. Batch: id.
    group: U64,
    /// Hint: attempt. Batch: index.
    attempt: U32,
    /// Hint: start. Batch: count.
    start: U32,
    first: U32,
    slot: U32,
    home: U32,
    log_lpn: U32,
    metadata: Metadata,
    reserved_end: U64,
}

const _: () = assert!(size_of::<SpareRecord>() == UNIT_SPARE_BYTES);

impl Spare {
    /// A spare area with no owner.
    pub fn new(kind: Kind, step: Seq) -> Spare {
        Spare {
            kind,
            step,
            owners: [(Lpn(0), Seq(0)); SPARE_OWNERS],
            owner_count: 0,
            mark: Mark::Plain,
            metadata: [0; size_of::<Metadata>()],
            handle: Handle::DEFAULT,
        }
    }

    /// A spare area with one owner.
    pub fn with_owner(kind: Kind, step: Seq, lpn: Lpn, version: Seq) -> Spare {
        let mut spare = Spare::new(kind, step);
        spare.push_owner(lpn, version);
        spare
    }

    /// Adds an owner; returns whether there was room.
    pub fn push_owner(&mut self, lpn: Lpn, version: Seq) -> bool {
        let room = usize::from(self.owner_count) < SPARE_OWNERS;
        if room {
            self.owners[usize::from(self.owner_count)] = (lpn, version);
            self.owner_count += 1;
        }
        room
    }

    /// The owners with their versions.
    pub fn owners(&self) -> &[(Lpn, Seq)] {
        &self.owners[..usize::from(self.owner_count)]
    }

    /// The version under which `lpn` owns the unit, if the spare area names it.
    pub fn version_of(&self, lpn: Lpn) -> Option<Seq> {
        self.owners().iter().find(|owner| owner.0 == lpn).map(|owner| owner.1)
    }

    /// The greatest number from `Seq` that it names.
    pub fn newest_seq(&self) -> Seq {
        let marked = match self.mark {
            Mark::Plain => Seq(0),
            Mark::Batch(batch) => batch.id,
            Mark::Hint(hint, _) => Seq(hint.generation.0),
        };
        self.owners().iter().fold(self.step.max(marked), |newest, (_, version)| newest.max(*version))
    }

    /// Whether a drive of this many units can have written it.
    pub fn is_possible(&self, logical_units: u32) -> bool {
        let marked = match self.mark {
            Mark::Plain | Mark::Batch(_) => true,
            Mark::Hint(hint, log_lpn) => hint.is_possible(logical_units) && log_lpn.0 < logical_units,
        };
        marked && self.owners().iter().all(|(lpn, _)| lpn.0 < logical_units) && self.newest_seq() < SEQ_LIMIT
    }

    /// The 128 bytes.
    pub fn encode(&self) -> UnitSpare {
        let mut record = SpareRecord::read_from_bytes(&[0; UNIT_SPARE_BYTES]).expect("sizes are equal");
        record.step = self.step.0.into();
        record.kind = self.kind as u8;
        record.owner_count = self.owner_count;
        record.handle = self.handle.0;
        for (to, from) in record.owners.iter_mut().zip(self.owners()) {
            *to = OwnerRecord { lpn: from.0.0.into(), version: from.1.0.into() };
        }
        match self.mark {
            Mark::Plain => {}
            Mark::Batch(batch) => {
                record.mark = 1;
                record.group = batch.id.0.into();
                record.attempt = batch.index.into();
                record.start = batch.count.into();
            }
            Mark::Hint(hint, log_lpn) => {
                record.mark = 2;
                record.end = u8::from(hint.end);
                record.group = hint.generation.0.into();
                record.attempt = hint.attempt.into();
                record.start = hint.start.into();
                record.first = hint.first.into();
                record.slot = hint.slot.into();
                record.home = hint.home.map_or(NO_HOME, |home| home.0).into();
                record.log_lpn = log_lpn.0.into();
            }
        }
        record.metadata = self.metadata;
        zerocopy::transmute!(record)
    }

    /// Reads the 128 bytes; none if they are not a spare area of this version.
    pub fn decode(bytes: &UnitSpare) -> Option<Spare> {
        let record: SpareRecord = zerocopy::transmute!(*bytes);
        let kind = Kind::try_read_from_bytes(&[record.kind]).ok()?;
        let mut spare = Spare::new(kind, Seq(record.step.get()));
        for owner in record.owners.get(..usize::from(record.owner_count))? {
            spare.push_owner(Lpn(owner.lpn.get()), Seq(owner.version.get()));
        }
        spare.mark = match record.mark {
            0 => Mark::Plain,
            1 => Mark::Batch(BatchMark {
                id: Seq(record.group.get()),
                index: record.attempt.get(),
                count: record.start.get(),
            }),
            2 => Mark::Hint(record.hint(), Lpn(record.log_lpn.get())),
            _ => return None,
        };
        spare.metadata = record.metadata;
        spare.handle = Handle(record.handle);
        Some(spare)
    }
}

impl SpareRecord {
    fn hint(&self) -> Hint {
        let home = self.home.get();
        Hint {
            generation: Generation(self.group.get()),
            attempt: self.attempt.get(),
            start: self.start.get(),
            first: self.first.get(),
            slot: self.slot.get(),
            end: self.end != 0,
            home: (home != NO_HOME).then_some(Lpn(home)),
        }
    }
}

/// Where the handle is. Drives without handles, and versions before there were any, store 0 there.
const HANDLE_AT: usize = 12;

/// The spare area of an unmarked unit with one owner, which most writes store.
#[inline]
pub fn plain(lpn: Lpn, version: Seq, step: Seq, metadata: &Metadata, handle: Handle) -> UnitSpare {
    let mut bytes = [0; UNIT_SPARE_BYTES];
    bytes[..8].copy_from_slice(&step.0.to_le_bytes());
    bytes[8..11].copy_from_slice(&[1, 1, 0]);
    bytes[HANDLE_AT] = handle.0;
    bytes[16..20].copy_from_slice(&lpn.0.to_le_bytes());
    bytes[20..28].copy_from_slice(&version.0.to_le_bytes());
    bytes[96..96 + size_of::<Metadata>()].copy_from_slice(metadata);
    bytes
}

/// Whether a spare area, of which the beginning is given, is that of an unmarked unit with one owner, so that a copyback changes
/// only its step.
#[inline]
pub fn is_plain(beginning: &[u8]) -> bool {
    // kind, owner count and mark, in one comparison
    beginning[8..11] == [1, 1, 0]
}

/// The beginning of a spare area with this step: a copyback of a plain unit changes nothing else.
#[inline]
pub fn head(step: Seq) -> [u8; 8] {
    step.0.to_le_bytes()
}

/// The handle of a unit of which the beginning of the spare area is given; none for padding.
#[inline]
pub fn handle(beginning: &[u8]) -> Option<Handle> {
    (beginning[8] != Kind::Padding as u8).then_some(Handle(beginning[HANDLE_AT]))
}

/// The metadata of a unit.
#[inline]
pub fn metadata(bytes: &UnitSpare) -> Metadata {
    let mut metadata = Metadata::default();
    metadata.copy_from_slice(&bytes[96..96 + size_of::<Metadata>()]);
    metadata
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{SPARE_END_BYTES, spare_ends};

    use super::*;

    fn sample_hint(home: Option<Lpn>) -> Hint {
        Hint { generation: Generation(1 << 40), attempt: 3, start: 7, first: 9, slot: 11, end: true, home }
    }

    #[test]
    fn every_field_round_trips() {
        let marks = [
            Mark::Plain,
            Mark::Batch(BatchMark { id: Seq(u64::MAX - 1), index: 4, count: 5 }),
            Mark::Hint(sample_hint(Some(Lpn(12))), Lpn(99)),
            Mark::Hint(sample_hint(None), Lpn(98)),
        ];
        use Kind::{Checkpoint, Data, Journal, KeyValue, Padding, Transaction, Zone};
        for kind in [Padding, Data, Transaction, Journal, Checkpoint, KeyValue, Zone] {
            for mark in marks {
                for owners in 0..=SPARE_OWNERS {
                    let mut spare = Spare::new(kind, Seq(0x1122_3344_5566_7788));
                    for owner in 0..owners {
                        assert!(spare.push_owner(Lpn(owner as u32 + 1), Seq(1 << (40 + owner))));
                    }
                    spare.mark = mark;
                    spare.metadata = std::array::from_fn(|i| i as u8 + 1);
                    spare.handle = Handle(owners as u8 + 120);
                    let bytes = spare.encode();
                    assert_eq!(Spare::decode(&bytes), Some(spare));
                    assert_eq!(metadata(&bytes), spare.metadata);
                    assert_eq!(handle(&bytes), (kind != Kind::Padding).then_some(spare.handle));
                    assert_eq!(
                        is_plain(&spare_ends(&bytes)),
                        kind == Kind::Data && owners == 1 && mark == Mark::Plain
                    );
                }
            }
        }
    }

    #[test]
    fn the_short_way_of_a_plain_unit_is_the_same_bytes() {
        let mut spare = Spare::with_owner(Kind::Data, Seq(7), Lpn(5), Seq(6));
        spare.metadata = std::array::from_fn(|i| i as u8);
        spare.handle = Handle(3);
        let bytes = plain(Lpn(5), Seq(6), Seq(7), &spare.metadata, spare.handle);
        assert_eq!(bytes[12..16], [3, 0, 0, 0], "byte 12 is the handle");
        assert_eq!(bytes, spare.encode());
        let between_ends = &bytes[SPARE_END_BYTES..UNIT_SPARE_BYTES - SPARE_END_BYTES];
        assert_eq!(between_ends, [0; UNIT_SPARE_BYTES - 2 * SPARE_END_BYTES]);
    }

    #[test]
    fn a_fifth_owner_is_refused() {
        let mut spare = Spare::new(Kind::Data, Seq(1));
        for owner in 0..SPARE_OWNERS {
            assert!(spare.push_owner(Lpn(owner as u32), Seq(1)));
        }
        assert!(!spare.push_owner(Lpn(9), Seq(1)));
    }

    #[test]
    fn a_new_step_changes_nothing_else() {
        let with_step =
            |step| Spare { handle: Handle(9), ..Spare::with_owner(Kind::Data, Seq(step), Lpn(5), Seq(1)) };
        let mut bytes = with_step(1).encode();
        bytes[..8].copy_from_slice(&head(Seq(77)));
        assert_eq!(Spare::decode(&bytes), Some(with_step(77)));
    }

    #[test]
    fn nonsense_is_not_decoded() {
        assert_eq!(Spare::decode(&[0xff; UNIT_SPARE_BYTES]), None);
    }
}
