//! The bytes of a checkpoint: a head, [`Facts`], the blocks that were open, the counters of the handles if the drive has placement,
//! the zones if it has some, and each tenant's contents, in the order of the list of tenants. All numbers are little-endian.

use tantalum_nand::{BlockId, checksum_of};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checkpoint_bytes::{CheckpointBytes, HEAD_BYTES, Head, MAGIC};
use crate::counters::{Counters, StoredCounters};
use crate::placement::HandleCounters;
use crate::types::Seq;
use crate::zones::{KeptZone, ZonesConfig, decode_zones};

/// The checkpoint's facts about the drive as a whole.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Facts {
    /// Logical capacity, to detect another drive's checkpoint.
    pub logical_units: u32,
    /// Whether the drive was shut down after it.
    pub clean: bool,
    /// The counter.
    pub seq: Seq,
    /// Whether the drive reached the end of its life because its last free blocks failed.
    pub exhausted: bool,
    /// The counters.
    pub counters: Counters,
    /// Blocks that data streams had open, or may continue in.
    pub open_blocks: Vec<BlockId>,
    /// What was counted for each handle; none without placement.
    pub handles: Vec<HandleCounters>,
    /// What is kept of each zone; none on a drive without zones.
    pub zones: Vec<KeptZone>,
}

/// [`Facts`], without the list.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredFacts {
    logical_units: U64,
    clean: U64,
    seq: U64,
    exhausted: U64,
    counters: StoredCounters,
}

impl Facts {
    /// Appends them, which are the first of a checkpoint.
    pub fn encode(&self, out: &mut CheckpointBytes) {
        let stored = StoredFacts {
            logical_units: wide(self.logical_units),
            clean: u64::from(self.clean).into(),
            seq: self.seq.0.into(),
            exhausted: u64::from(self.exhausted).into(),
            counters: self.counters.stored(),
        };
        out.extend(stored.as_bytes());
        put_list(out, &self.open_blocks, |block| wide(block.0));
        self.handles.iter().for_each(|handle| out.extend(handle.stored().as_bytes()));
        self.zones.iter().for_each(|zone| zone.encode(out));
    }

    /// Reads the bytes of a checkpoint of a drive with this many handles, 0 without placement, and with these zones. Returns the facts, and the position of the tenants' contents. None if they are
    /// damaged or of another version.
    pub fn decode(bytes: &[u8], handles: u32, zones: Option<ZonesConfig>) -> Option<(Facts, &[u8], u64)> {
        let (head, rest) = Head::ref_from_prefix(bytes).ok()?;
        let body = rest.get(..usize::try_from(head.bytes.get()).ok()?)?;
        if head.magic != MAGIC || u64::from(checksum_of(body)) != head.checksum.get() {
            return None;
        }
        let mut rest = body;
        let stored: &StoredFacts = take(&mut rest)?;
        let facts = Facts {
            logical_units: narrow(stored.logical_units)?,
            clean: stored.clean.get() != 0,
            seq: Seq(stored.seq.get()),
            exhausted: stored.exhausted.get() != 0,
            counters: Counters::of_stored(&stored.counters),
            open_blocks: take_list(&mut rest, |block: &U64| narrow(*block).map(BlockId))?,
            handles: (0..handles)
                .map(|_| take(&mut rest).map(HandleCounters::of_stored))
                .collect::<Option<_>>()?,
            zones: decode_zones(&mut rest, zones)?,
        };
        Some((facts, rest, (HEAD_BYTES + body.len() - rest.len()) as u64))
    }
}

/// Appends a list after its length.
pub(crate) fn put_list<T, S: IntoBytes + Immutable>(
    out: &mut CheckpointBytes,
    items: &[T],
    stored: impl Fn(&T) -> S,
) {
    out.extend(U64::new(items.len() as u64).as_bytes());
    items.iter().for_each(|item| out.extend(stored(item).as_bytes()));
}

/// Takes a value off the front of the bytes.
pub(crate) fn take<'a, S: FromBytes + Immutable + KnownLayout + Unaligned>(
    bytes: &mut &'a [u8],
) -> Option<&'a S> {
    let (stored, rest) = S::ref_from_prefix(bytes).ok()?;
    *bytes = rest;
    Some(stored)
}

/// Takes a list off the front of the bytes.
pub(crate) fn take_list<T, S: FromBytes + Immutable + KnownLayout + Unaligned + 'static>(
    bytes: &mut &[u8],
    read: impl Fn(&S) -> Option<T>,
) -> Option<Vec<T>> {
    let count = usize::try_from(take_word(bytes)?).ok()?;
    let (items, rest) = <[S]>::ref_from_prefix_with_elems(bytes, count).ok()?;
    *bytes = rest;
    items.iter().map(read).collect()
}

/// Takes a number off the front of the bytes.
pub(crate) fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(|word: &U64| word.get())
}

/// A number as lists store it.
pub(crate) fn wide(number: u32) -> U64 {
    u64::from(number).into()
}

/// The inverse.
pub(crate) fn narrow(number: U64) -> Option<u32> {
    number.get().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLES: u32 = 2;

    const ZONES: Option<ZonesConfig> = Some(ZonesConfig { count: 2, planes: 3, max_open: 1, max_active: 1 });

    fn sample() -> (Facts, Vec<u8>) {
        let facts = Facts {
            logical_units: 5000,
            clean: true,
            seq: Seq(1 << 50),
            counters: Counters { blocks_erased: 3, checkpoints: 4, ..Counters::default() },
            exhausted: true,
            open_blocks: vec![BlockId(1), BlockId(5)],
            handles: vec![HandleCounters { flash_copies: 7, ..HandleCounters::default() }; HANDLES as usize],
            zones: vec![
                KeptZone { columns: vec![None; 3], ..KeptZone::default() },
                KeptZone {
                    generation: Seq(1 << 33),
                    pages: 7,
                    tail: 1,
                    finished: true,
                    columns: vec![Some(BlockId(9)), None, Some(BlockId(0))],
                },
            ],
        };
        let mut bytes = CheckpointBytes::new(true);
        facts.encode(&mut bytes);
        bytes.extend(b"what tenants keep");
        (facts, bytes.into_bytes())
    }

    #[test]
    fn facts_round_trip() {
        let (facts, mut bytes) = sample();
        let first_byte = (bytes.len() - 17) as u64;
        assert_eq!(
            Facts::decode(&bytes, HANDLES, ZONES),
            Some((facts.clone(), &b"what tenants keep"[..], first_byte))
        );
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        let (found, rest, _) = Facts::decode(&bytes, HANDLES, ZONES).expect("pages are padded with zeros");
        assert_eq!((found, rest), (facts, &b"what tenants keep"[..]));
    }

    #[test]
    fn damage_is_noticed() {
        let (_, bytes) = sample();
        for length in [0, 8, 23, 24, bytes.len() / 2, bytes.len() - 1] {
            assert_eq!(Facts::decode(&bytes[..length], HANDLES, ZONES), None, "cut to {length} bytes");
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Facts::decode(&damaged, HANDLES, ZONES), None, "bit flipped in byte {at}");
        }
    }
}
