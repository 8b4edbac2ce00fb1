//! A checkpoint's contents about units: the chunks of L2P that were ever mapped, the owners whose versions no spare
//! area records, living hints, and how far the open logs are whole.
//!
//! A head and four lists, each preceded by its length. All numbers are little-endian.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use tantalum_nand::{Array, Nand, Ppn};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::FtlError;
use crate::map::{CHUNK_ENTRIES, Living};
use crate::metadata::{CheckpointBytes, narrow, put_list, take, take_list, take_word, wide};
use crate::tenants::CheckpointReader;
use crate::types::{Generation, Hint, Lpn, SEQ_LIMIT, Seq};

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct UnitsKept {
    /// The newest version at which anything was unmapped.
    pub last_unmap: Seq,
    /// Owners with versions that spare areas do not record.
    pub versions: Vec<(Lpn, Seq)>,
    /// Whole runs of the open logs, as far as anything may depend on them: generation, attempt, last slot.
    pub runs: Vec<(Generation, u32, u32)>,
    /// Hints that live or wait: log page, hint, version, and the place of one that is on flash.
    pub hints: Vec<(Lpn, Living, Option<Ppn>)>,
    /// L2P in chunks.
    pub chunks: KeptChunks,
}

/// Chunks of L2P, in the order of their numbers. They are most of a checkpoint, so they stay in its bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptChunks {
    /// The bytes of the checkpoint.
    checkpoint: Arc<Array<u8>>,
    /// Each chunk's number, and where its entries are among the bytes: 0, or the place plus 1.
    found: Vec<(u32, Range<usize>)>,
}

impl PartialEq for KeptChunks {
    fn eq(&self, other: &KeptChunks) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for KeptChunks {}

impl KeptChunks {
    /// The given chunks.
    #[cfg(test)]
    pub fn of(chunks: &[(u32, Vec<u32>)]) -> KeptChunks {
        let (mut bytes, mut found) = (Vec::new(), Vec::new());
        for (number, entries) in chunks {
            let start = bytes.len();
            bytes.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
            found.push((*number, start..bytes.len()));
        }
        KeptChunks { checkpoint: Arc::new(bytes.into()), found }
    }

    /// The places in all chunks.
    pub(super) fn places(&self) -> KeptPlaces<'_, impl Iterator<Item = (u32, &[U32])>> {
        KeptPlaces { chunks: self.iter().peekable(), from: 0 }
    }

    /// Each chunk's number, and its entries.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &[U32])> + '_ {
        let entries = |range: &Range<usize>| {
            <[U32]>::ref_from_bytes(&self.checkpoint[range.clone()]).expect("whole entries were found")
        };
        self.found.iter().map(move |(number, range)| (*number, entries(range)))
    }
}

/// The places of a checkpoint, in the order of logical pages.
pub(super) struct KeptPlaces<'a, I: Iterator<Item = (u32, &'a [U32])>> {
    /// The chunks from the one with `from` on.
    chunks: Peekable<I>,
    /// Logical pages before this one are done.
    from: u32,
}

impl<'a, I: Iterator<Item = (u32, &'a [U32])>> KeptPlaces<'a, I> {
    /// Adds the mapped pages below `end` that are not done. Then all up to and including `end` are.
    pub fn extend_before(&mut self, end: u32, places: &mut Vec<(Lpn, Ppn)>) {
        let from = std::mem::replace(&mut self.from, end.saturating_add(1));
        while let Some((number, entries)) = self.chunks.peek() {
            let first = number * CHUNK_ENTRIES as u32;
            let index = |lpn: u32| (lpn.saturating_sub(first) as usize).min(entries.len());
            let start = index(from);
            let parts = entries[start..index(end).max(start)].chunks(PART_ENTRIES);
            for (lpn, part) in (first + start as u32..).step_by(PART_ENTRIES).zip(parts) {
                if largest(part) > 0 {
                    let mapped = (lpn..).zip(part).filter(|(_, entry)| entry.get() != 0);
                    places.extend(mapped.map(|(lpn, entry)| (Lpn(lpn), Ppn(entry.get() - 1))));
                }
            }
            if end <= first + entries.len() as u32 {
                return;
            }
            self.chunks.next();
        }
    }
}

/// Entries that are looked at together: in the chunks of a large drive that is not full most are unmapped.
const PART_ENTRIES: usize = 64;

/// Bytes of a full chunk, of an owner with its version, and of a hint.
pub(super) const CHUNK_BYTES: usize = size_of::<StoredChunk>() + size_of::<U32>() * CHUNK_ENTRIES;
pub(crate) const OWNER_BYTES: usize = size_of::<StoredVersion>();
pub(super) const HINT_BYTES: usize = size_of::<StoredHint>();

/// Stands for no place or no home.
const NOWHERE: u32 = u32::MAX;

/// An owner with a version that no spare area records.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredVersion {
    lpn: U64,
    version: U64,
}

/// The end of a whole run.
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

/// Precedes a chunk's entries, which are padded to an even number.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredChunk {
    number: U32,
    entries: U32,
}

impl UnitsKept {
    /// Appends everything except the chunks, which [`put_chunks`] appends.
    pub fn encode_lists(&self, out: &mut CheckpointBytes) {
        out.extend(U64::new(self.last_unmap.0).as_bytes());
        put_list(out, &self.versions, |(lpn, version)| StoredVersion {
            lpn: wide(lpn.0),
            version: version.0.into(),
        });
        put_list(out, &self.runs, |(generation, attempt, last)| StoredRun {
            generation: generation.0.into(),
            attempt: wide(*attempt),
            last: wide(*last),
        });
        put_list(out, &self.hints, StoredHint::of);
    }

    /// Reads it off the front of the bytes; none if no drive can have written it.
    pub fn decode(kept: &mut CheckpointReader<'_>) -> Option<UnitsKept> {
        let end = kept.first_byte as usize + kept.bytes.len();
        let bytes = &mut kept.bytes;
        let units = UnitsKept {
            last_unmap: Seq(take_word(bytes)?),
            versions: take_list(bytes, |stored: &StoredVersion| {
                Some((Lpn(narrow(stored.lpn)?), Seq(stored.version.get())))
            })?,
            runs: take_list(bytes, |stored: &StoredRun| {
                Some((Generation(stored.generation.get()), narrow(stored.attempt)?, narrow(stored.last)?))
            })?,
            hints: take_list(bytes, |stored: &StoredHint| Some(stored.get()))?,
            chunks: KeptChunks { found: take_chunks(bytes, end)?, checkpoint: kept.checkpoint.clone() },
        };
        units.is_possible(kept.config.logical_units, kept.geometry.units()).then_some(units)
    }

    /// Whether a drive with this many logical pages and places can have had it.
    pub fn is_possible(&self, logical_units: u32, places: u32) -> bool {
        let lpn = |lpn: &Lpn| lpn.0 < logical_units;
        let chunk = |(number, entries): (u32, &[U32])| {
            let end = u64::from(number) * CHUNK_ENTRIES as u64 + entries.len() as u64;
            end <= logical_units.into()
        };
        let hint = |(log_lpn, living, ppn): &(Lpn, Living, Option<Ppn>)| {
            lpn(log_lpn)
                && living.hint.is_possible(logical_units)
                && living.version < SEQ_LIMIT
                && ppn.is_none_or(|ppn| ppn.0 < places)
        };
        self.versions.iter().all(|(owner, version)| lpn(owner) && *version < SEQ_LIMIT)
            && self.runs.iter().all(|(_, _, last)| *last < u32::MAX)
            && self.hints.iter().all(hint)
            && self.chunks.iter().all(chunk)
            && self.chunks.found.windows(2).all(|two| two[0].0 < two[1].0)
            && self.chunks.iter().all(|(_, entries)| largest(entries) <= places)
    }
}

/// The largest entry; 0 if there is none.
fn largest(entries: &[U32]) -> u32 {
    entries.iter().fold(0, |largest, entry| largest.max(entry.get()))
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

/// Appends this many chunks of L2P: each chunk's number, and its entries.
pub(super) fn put_chunks<E: ExactSizeIterator<Item = u32>>(
    out: &mut CheckpointBytes,
    count: usize,
    chunks: impl Iterator<Item = (usize, E)>,
    nand: &mut Nand,
) -> Result<(), FtlError> {
    out.extend(U64::new(count as u64).as_bytes());
    for (number, entries) in chunks {
        let (number, count) = ((number as u32).into(), (entries.len() as u32).into());
        out.extend(StoredChunk { number, entries: count }.as_bytes());
        let stored = out.grow(entries.len().next_multiple_of(2) * size_of::<U32>());
        for (to, entry) in stored.chunks_exact_mut(size_of::<U32>()).zip(entries) {
            to.copy_from_slice(&entry.to_le_bytes());
        }
        out.move_on(nand)?;
    }
    Ok(())
}

/// Takes the chunks' numbers off the front of the bytes, and where their entries are in the checkpoint, in which these bytes
/// end at `end`.
fn take_chunks(bytes: &mut &[u8], end: usize) -> Option<Vec<(u32, Range<usize>)>> {
    let count = take_word(bytes)?;
    // a chunk takes at least its head, so a larger count is invalid
    if count > (bytes.len() / size_of::<StoredChunk>()) as u64 {
        return None;
    }
    let mut found = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let head: &StoredChunk = take(bytes)?;
        let entries = head.entries.get() as usize;
        if entries > CHUNK_ENTRIES {
            return None;
        }
        let start = end - bytes.len();
        *bytes = bytes.get(entries.next_multiple_of(2) * size_of::<U32>()..)?;
        found.push((head.number.get(), start..start + entries * size_of::<U32>()));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tantalum_nand::SplitMix64;

    use super::*;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    #[test]
    fn what_is_kept_round_trips() {
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
        let units = UnitsKept {
            last_unmap: Seq(12),
            versions: vec![(Lpn(3), Seq(4)), (Lpn(9), Seq(10))],
            runs: vec![(Generation(9), 0, 2), (Generation(9), 1, 4)],
            hints: vec![
                (Lpn(4), Living { hint, version: Seq(8) }, Some(Ppn(6))),
                (Lpn(5), Living { hint: homeless, version: Seq(9) }, None),
            ],
            chunks: KeptChunks::of(&[(0, vec![1, 0, 3])]),
        };
        let mut bytes = CheckpointBytes::new(true);
        units.encode_lists(&mut bytes);
        let chunks = units.chunks.iter();
        let chunks =
            chunks.map(|(number, entries)| (number as usize, entries.iter().map(|entry| entry.get())));
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        put_chunks(&mut bytes, 1, chunks, &mut nand).unwrap();
        let mut bytes = bytes.into_body();
        bytes.extend([7; 5]);
        // what is decoded need not begin where the checkpoint does
        let checkpoint = Arc::new([&[9; 3], &bytes[..]].concat().into());
        let kept = |bytes| CheckpointReader {
            bytes,
            first_byte: 3,
            checkpoint: &checkpoint,
            config: &CONFIG,
            geometry: &GEOMETRY,
        };
        let mut whole = kept(&bytes);
        assert_eq!(UnitsKept::decode(&mut whole), Some(units));
        assert_eq!(whole.bytes, [7; 5], "what follows is another's");
        for length in 0..bytes.len() - 5 {
            assert_eq!(UnitsKept::decode(&mut kept(&bytes[..length])), None, "cut to {length} bytes");
        }
    }

    #[test]
    fn chunks_come_back_one_by_one() {
        let chunks = [(0, vec![1, 0, 3]), (2, vec![]), (7, vec![0, 5])];
        let kept = KeptChunks::of(&chunks);
        let numbers = |entries: &[U32]| entries.iter().map(|entry| entry.get()).collect::<Vec<u32>>();
        assert!(kept.iter().map(|(number, entries)| (number, numbers(entries))).eq(chunks));
    }

    /// Several chunks, of which some are missing and the last one is short; the drives of the torture have one.
    #[test]
    fn between_assertions_stands_what_the_chunks_have() {
        let entries = CHUNK_ENTRIES as u32;
        for seed in 0..200 {
            let mut random = SplitMix64(seed);
            let mut chunks = Vec::new();
            for number in (0..5).filter(|_| random.below(3) > 0).collect::<Vec<u32>>() {
                let length = if number == 4 { random.below(entries.into()) } else { entries.into() };
                let entry = |_| (random.below(2) * random.below(1000)) as u32;
                chunks.push((number, (0..length).map(entry).collect::<Vec<u32>>()));
            }
            let near = |random: &mut SplitMix64| random.below(6) as u32 * entries + random.below(3) as u32;
            let mut asserted: BTreeSet<u32> = (0..random.below(8)).map(|_| near(&mut random)).collect();
            asserted.extend((0..random.below(40)).map(|_| random.below(6 * u64::from(entries)) as u32));
            let lpns =
                |(number, of): &(u32, Vec<u32>)| (number * entries..).zip(of.clone()).collect::<Vec<_>>();
            let mapped =
                chunks.iter().flat_map(lpns).filter(|(lpn, entry)| *entry != 0 && !asserted.contains(lpn));
            let expected: Vec<(Lpn, Ppn)> = mapped.map(|(lpn, entry)| (Lpn(lpn), Ppn(entry - 1))).collect();
            let (kept, mut places) = (KeptChunks::of(&chunks), Vec::new());
            let mut kept = kept.places();
            asserted.iter().for_each(|lpn| kept.extend_before(*lpn, &mut places));
            kept.extend_before(u32::MAX, &mut places);
            assert_eq!(places, expected, "seed {seed}");
        }
    }
}
