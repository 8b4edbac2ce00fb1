//! What a checkpoint holds, and its bytes.
//!
//! A head, the namespaces with their indexes, [`Facts`], and five lists, each behind the number of its entries. All numbers
//! are little-endian.

use tantalum_nand::{BlockId, Geometry, Ppn};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::counters::{Counters, StoredCounters};
use crate::map::CHUNK_ENTRIES;
use crate::map::Living;
use crate::tenants::records::{
    NamespaceContents, decode_namespaces, encode_namespaces, namespaces_are_possible,
};
use crate::types::{Generation, Hint, Lpn, SEQ_LIMIT, Seq};

/// A checkpoint's contents.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Contents {
    /// Logical capacity, to recognise another drive's.
    pub logical_units: u32,
    /// Whether the drive was shut down after it.
    pub clean: bool,
    /// The counter.
    pub seq: Seq,
    /// The newest version at which anything was unmapped.
    pub last_unmap: Seq,
    /// The counters.
    pub counters: Counters,
    /// Whether the drive came to the end of its life because its last free blocks failed.
    pub exhausted: bool,
    /// Blocks that data streams had open.
    pub open_blocks: Vec<BlockId>,
    /// Owners with versions that spare areas do not tell.
    pub versions: Vec<(Lpn, Seq)>,
    /// Hints that live or wait: the log page, the hint and the version, and the place of one that is on flash.
    pub hints: Vec<(Lpn, Living, Option<Ppn>)>,
    /// Whole runs of the open logs, as far as something may rest on them: generation, attempt, last slot.
    pub runs: Vec<(Generation, u32, u32)>,
    /// The number of the newest key-value namespace there ever was.
    pub last_namespace: u32,
    /// Key-value namespaces with their indexes.
    pub namespaces: Vec<NamespaceContents>,
    /// L2P in chunks: the chunk's number, and its entries (0, or the place plus 1).
    pub chunks: Vec<(u32, Vec<u32>)>,
}

const MAGIC: [u8; 8] = *b"TANTCKP6";

/// Bytes in front of everything.
pub(crate) const HEAD_BYTES: usize = size_of::<Head>();

/// Bytes that [`Contents::encode`] makes of a full chunk, of an owner with its version, and of a hint.
pub(super) const CHUNK_BYTES: usize = size_of::<StoredChunk>() + size_of::<U32>() * CHUNK_ENTRIES;
pub(super) const OWNER_BYTES: usize = size_of::<StoredVersion>();
pub(super) const HINT_BYTES: usize = size_of::<StoredHint>();

/// Stands for a place or a home that is not there.
const NOWHERE: u32 = u32::MAX;

/// What tells a checkpoint from other bytes.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    /// Bytes that follow.
    bytes: U64,
    /// CRC-32C of these.
    checksum: U64,
}

/// What there is one of.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Facts {
    logical_units: U64,
    clean: U64,
    seq: U64,
    last_unmap: U64,
    exhausted: U64,
    counters: StoredCounters,
    last_namespace: U64,
}

/// An owner with a version that no spare area tells.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredVersion {
    lpn: U64,
    version: U64,
}

/// Where a whole run ends.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredRun {
    generation: U64,
    attempt: U64,
    last: U64,
}

/// A hint that lives or waits.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredHint {
    log_lpn: U32,
    /// [`NOWHERE`] for one that waits.
    place: U32,
    version: U64,
    generation: U64,
    attempt: U32,
    start: U32,
    first: U32,
    slot: U32,
    /// [`NOWHERE`] for none.
    home: U32,
    end: U32,
}

/// In front of a chunk's entries, which are filled up to an even number.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredChunk {
    number: U32,
    entries: U32,
}

impl Contents {
    /// Bytes with a length and a checksum in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        encode_namespaces(&self.namespaces, &mut out);
        out.extend(Facts::of(self).as_bytes());
        put_list(&mut out, &self.open_blocks, |block| wide(block.0));
        put_list(&mut out, &self.versions, |(lpn, version)| StoredVersion {
            lpn: wide(lpn.0),
            version: version.0.into(),
        });
        put_list(&mut out, &self.runs, |(generation, attempt, last)| StoredRun {
            generation: generation.0.into(),
            attempt: wide(*attempt),
            last: wide(*last),
        });
        put_list(&mut out, &self.hints, StoredHint::of);
        out.extend(U64::new(self.chunks.len() as u64).as_bytes());
        for (number, entries) in &self.chunks {
            let (number, count) = ((*number).into(), (entries.len() as u32).into());
            out.extend(StoredChunk { number, entries: count }.as_bytes());
            let start = out.len();
            out.resize(start + entries.len().next_multiple_of(2) * size_of::<U32>(), 0);
            for (to, entry) in out[start..].chunks_exact_mut(size_of::<U32>()).zip(entries) {
                to.copy_from_slice(&entry.to_le_bytes());
            }
        }
        let (head, body) = out.split_at_mut(HEAD_BYTES);
        let checksum = u64::from(crc32c::crc32c(body)).into();
        head.copy_from_slice(Head { magic: MAGIC, bytes: (body.len() as u64).into(), checksum }.as_bytes());
        out
    }

    /// Whether a drive of so many logical pages and this shape can have written it.
    pub fn is_possible(&self, logical_units: u32, geometry: &Geometry) -> bool {
        let places = geometry.units();
        let lpn = |lpn: &Lpn| lpn.0 < logical_units;
        let chunk = |(number, entries): &(u32, Vec<u32>)| {
            let end = u64::from(*number) * CHUNK_ENTRIES as u64 + entries.len() as u64;
            end <= logical_units.into() && entries.iter().all(|entry| *entry <= places)
        };
        let hint = |(log_lpn, living, ppn): &(Lpn, Living, Option<Ppn>)| {
            lpn(log_lpn)
                && living.hint.is_possible(logical_units)
                && living.version < SEQ_LIMIT
                && ppn.is_none_or(|ppn| ppn.0 < places)
        };
        self.seq < SEQ_LIMIT
            && namespaces_are_possible(&self.namespaces, self.last_namespace, logical_units, geometry)
            && self.versions.iter().all(|(owner, version)| lpn(owner) && *version < SEQ_LIMIT)
            && self.runs.iter().all(|(_, _, last)| *last < u32::MAX)
            && self.hints.iter().all(hint)
            && self.chunks.iter().all(chunk)
            && self.chunks.windows(2).all(|two| two[0].0 < two[1].0)
    }

    /// Reads the bytes; none if they are damaged or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Contents> {
        let (head, rest) = Head::ref_from_prefix(bytes).ok()?;
        let body = rest.get(..usize::try_from(head.bytes.get()).ok()?)?;
        if head.magic != MAGIC || u64::from(crc32c::crc32c(body)) != head.checksum.get() {
            return None;
        }
        let mut rest = body;
        let namespaces = decode_namespaces(&mut rest)?;
        let facts: &Facts = take(&mut rest)?;
        Some(Contents {
            logical_units: narrow(facts.logical_units)?,
            clean: facts.clean != 0,
            seq: Seq(facts.seq.get()),
            last_unmap: Seq(facts.last_unmap.get()),
            counters: Counters::of_stored(&facts.counters),
            exhausted: facts.exhausted != 0,
            open_blocks: take_list(&mut rest, |block: &U64| narrow(*block).map(BlockId))?,
            versions: take_list(&mut rest, |stored: &StoredVersion| {
                Some((Lpn(narrow(stored.lpn)?), Seq(stored.version.get())))
            })?,
            runs: take_list(&mut rest, |stored: &StoredRun| {
                Some((Generation(stored.generation.get()), narrow(stored.attempt)?, narrow(stored.last)?))
            })?,
            hints: take_list(&mut rest, |stored: &StoredHint| Some(stored.get()))?,
            last_namespace: narrow(facts.last_namespace)?,
            namespaces,
            chunks: take_chunks(&mut rest)?,
        })
    }
}

impl Facts {
    fn of(contents: &Contents) -> Facts {
        Facts {
            logical_units: wide(contents.logical_units),
            clean: u64::from(contents.clean).into(),
            seq: contents.seq.0.into(),
            last_unmap: contents.last_unmap.0.into(),
            exhausted: u64::from(contents.exhausted).into(),
            counters: contents.counters.stored(),
            last_namespace: wide(contents.last_namespace),
        }
    }
}

impl StoredHint {
    fn of((log_lpn, Living { hint, version }, ppn): &(Lpn, Living, Option<Ppn>)) -> StoredHint {
        StoredHint {
            log_lpn: log_lpn.0.into(),
            place: ppn.map_or(NOWHERE, |ppn| ppn.0).into(),
            version: version.0.into(),
            generation: hint.generation.0.into(),
            attempt: hint.attempt.into(),
            start: hint.start.into(),
            first: hint.first.into(),
            slot: hint.slot.into(),
            home: hint.home.map_or(NOWHERE, |home| home.0).into(),
            end: u32::from(hint.end).into(),
        }
    }

    fn get(&self) -> (Lpn, Living, Option<Ppn>) {
        let there = |number: U32| Some(number.get()).filter(|number| *number != NOWHERE);
        let hint = Hint {
            generation: Generation(self.generation.get()),
            attempt: self.attempt.get(),
            start: self.start.get(),
            first: self.first.get(),
            slot: self.slot.get(),
            end: self.end != 0,
            home: there(self.home).map(Lpn),
        };
        let living = Living { hint, version: Seq(self.version.get()) };
        (Lpn(self.log_lpn.get()), living, there(self.place).map(Ppn))
    }
}

fn put_list<T, S: IntoBytes + Immutable>(out: &mut Vec<u8>, items: &[T], stored: impl Fn(&T) -> S) {
    out.extend(U64::new(items.len() as u64).as_bytes());
    items.iter().for_each(|item| out.extend(stored(item).as_bytes()));
}

/// Takes something off the front of the bytes.
fn take<'a, S: FromBytes + Immutable + KnownLayout + Unaligned>(bytes: &mut &'a [u8]) -> Option<&'a S> {
    let (stored, rest) = S::ref_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(stored)
}

fn take_list<T, S: FromBytes + Immutable + KnownLayout + Unaligned + 'static>(
    bytes: &mut &[u8],
    read: impl Fn(&S) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(take_word(bytes)?).ok()?;
    let (items, rest) = <[S]>::ref_from_prefix_with_elems(bytes, count).ok()?;
    *bytes = rest;
    items.iter().map(read).collect()
}

fn take_chunks(bytes: &mut &[u8]) -> Option<Vec<(u32, Vec<u32>)>> {
    let count = take_word(bytes)?;
    // a chunk takes at least its head, so a count beyond that is nonsense
    if count > (bytes.len() / size_of::<StoredChunk>()) as u64 {
        return None;
    }
    let mut chunks = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let head: &StoredChunk = take(bytes)?;
        let entries = head.entries.get() as usize;
        if entries > CHUNK_ENTRIES {
            return None;
        }
        let (stored, rest) = <[U32]>::ref_from_prefix_with_elems(bytes, entries.next_multiple_of(2)).ok()?;
        *bytes = rest;
        chunks.push((head.number.get(), stored[..entries].iter().map(|entry| entry.get()).collect()));
    }
    Some(chunks)
}

/// Takes a number off the front of the bytes.
pub(crate) fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(|word: &U64| word.get())
}

fn wide(number: u32) -> U64 {
    u64::from(number).into()
}

fn narrow(number: U64) -> Option<u32> {
    number.get().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::NamespaceId;

    fn sample() -> Contents {
        let hint = Hint {
            generation: Generation(9),
            attempt: 1,
            start: 2,
            first: 3,
            slot: 4,
            end: true,
            home: Some(Lpn(77)),
        };
        let homeless = Hint { home: None, end: false, ..hint };
        Contents {
            logical_units: 5000,
            clean: true,
            seq: Seq(1 << 50),
            last_unmap: Seq(12),
            counters: Counters { blocks_erased: 3, checkpoints: 4, ..Counters::default() },
            exhausted: true,
            open_blocks: vec![BlockId(1), BlockId(5)],
            versions: vec![(Lpn(3), Seq(4)), (Lpn(9), Seq(10))],
            hints: vec![
                (Lpn(4), Living { hint, version: Seq(8) }, Some(Ppn(6))),
                (Lpn(5), Living { hint: homeless, version: Seq(9) }, None),
            ],
            runs: vec![(Generation(9), 0, 2), (Generation(9), 1, 4)],
            last_namespace: 3,
            namespaces: vec![
                NamespaceContents::sample(NamespaceId(1), 0),
                NamespaceContents::sample(NamespaceId(3), 200),
            ],
            chunks: vec![(0, (0..1024).collect()), (4, vec![1, 0, 3])],
        }
    }

    #[test]
    fn contents_round_trip() {
        let contents = sample();
        let mut bytes = contents.encode();
        assert_eq!(Contents::decode(&bytes).as_ref(), Some(&contents));
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        assert_eq!(Contents::decode(&bytes), Some(contents), "pages are padded with zeros");
    }

    #[test]
    fn damage_is_noticed() {
        let bytes = sample().encode();
        for length in [0, 8, 23, 24, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(Contents::decode(&bytes[..length]), None, "cut to {length} bytes");
        }
        for at in (0..bytes.len()).step_by(97) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Contents::decode(&damaged), None, "bit flipped in byte {at}");
        }
    }
}
