//! A checkpoint pack: what a mount starts from. There are two, and each checkpoint overwrites the older one.
//!
//! Layout, little-endian: checksum of everything after it, length in bytes (4 each), magic (8), version, clock,
//! promised units (8 each), last node number, nodes in use, files, whether nothing follows it (4 each), for each head
//! its segment, units used and following segment (4 each), then the places of both tables in bits, each after its
//! length in bytes (4), and the orphans after their number (4).

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;
use tantalum_image::checksum_of;

use super::heads::HEADS;
use super::layout::{FIXED_PACK_BYTES, HEADS_AT, Layout};
use crate::bytes::{get32, get64, put32, seal};
use crate::error::Result;
use crate::segments::Log;

const MAGIC: [u8; 8] = *b"TANTPACK";

const NONE: u32 = u32::MAX;

/// Where a head was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HeadPosition {
    pub segment: Option<u32>,
    pub used: u32,
    pub following: Option<u32>,
}

impl HeadPosition {
    fn decode(bytes: &[u8]) -> HeadPosition {
        let segment = |at| Some(get32(bytes, at)).filter(|word| *word != NONE);
        HeadPosition { segment: segment(0), used: get32(bytes, 4), following: segment(8) }
    }

    fn fits(&self, layout: &Layout) -> bool {
        let mut segments = self.segment.into_iter().chain(self.following);
        segments.all(|segment| segment < layout.segment_count) && self.used <= layout.segment_units
    }
}

/// The contents of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pack {
    /// Grows by one with each checkpoint.
    pub version: u64,
    pub clock: u64,
    pub reserved: u64,
    pub last_node: u32,
    pub nodes_in_use: u32,
    pub files: u32,
    /// Nothing was written after it: heads continue where they were.
    pub is_last: bool,
    pub heads: [HeadPosition; HEADS],
    pub segment_places: Vec<u8>,
    pub node_places: Vec<u8>,
    pub orphans: Vec<FileId>,
}

impl Pack {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&MAGIC);
        for word in [self.version, self.clock, self.reserved] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let mut words = vec![self.last_node, self.nodes_in_use, self.files, u32::from(self.is_last)];
        for head in &self.heads {
            words.extend([head.segment.unwrap_or(NONE), head.used, head.following.unwrap_or(NONE)]);
        }
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        for places in [&self.segment_places, &self.node_places] {
            bytes.extend_from_slice(&(places.len() as u32).to_le_bytes());
            bytes.extend_from_slice(places);
        }
        bytes.extend_from_slice(&(self.orphans.len() as u32).to_le_bytes());
        self.orphans.iter().for_each(|file| bytes.extend_from_slice(&file.0.to_le_bytes()));
        let length = bytes.len() as u32;
        let places = self.segment_places.len() + self.node_places.len();
        assert_eq!(
            bytes.len(),
            FIXED_PACK_BYTES + places + 4 * self.orphans.len(),
            "a pack with {places} bytes of places and {} orphans has another length than its layout says",
            self.orphans.len()
        );
        put32(&mut bytes, 4, length);
        seal(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
        bytes
    }

    /// The pack in `bytes`; `None` if there is no whole pack.
    pub fn decode(bytes: &[u8], layout: &Layout) -> Option<Pack> {
        let length = get32(bytes, 4) as usize;
        if length < FIXED_PACK_BYTES || length > bytes.len() || bytes[8..16] != MAGIC {
            return None;
        }
        if get32(bytes, 0) != checksum_of(&bytes[4..length]) {
            return None;
        }
        let bytes = &bytes[..length];
        let heads = std::array::from_fn(|head| HeadPosition::decode(&bytes[HEADS_AT + 12 * head..]));
        let mut at = HEADS_AT + 12 * HEADS;
        let mut take = |units: u32| {
            let length = bytes.get(at..at + 4).map(|_| get32(bytes, at) as usize)?;
            let places = bytes.get(at + 4..at + 4 + length)?.to_vec();
            at += 4 + length;
            (length == (units as usize).div_ceil(8)).then_some(places)
        };
        let segment_places = take(layout.segment_table_units)?;
        let node_places = take(layout.node_table_units)?;
        let (orphans, _) = bytes.get(at + 4..)?.as_chunks::<4>();
        heads.iter().all(|head| head.fits(layout)).then_some(())?;
        Some(Pack {
            version: get64(bytes, 16),
            clock: get64(bytes, 24),
            reserved: get64(bytes, 32),
            last_node: get32(bytes, 40),
            nodes_in_use: get32(bytes, 44),
            files: get32(bytes, 48),
            is_last: get32(bytes, 52) == 1,
            heads,
            segment_places,
            node_places,
            orphans: orphans.iter().map(|word| FileId(u32::from_le_bytes(*word))).collect(),
        })
    }

    /// The newer complete pack; `None` if neither is complete.
    pub fn newest(log: &mut Log, layout: &Layout) -> Result<Option<Pack>> {
        let mut newest: Option<Pack> = None;
        for lpn in layout.packs {
            let mut bytes = vec![0; layout.pack_units as usize * UNIT_BYTES];
            log.read(lpn, &mut bytes)?;
            let pack = Pack::decode(&bytes, layout);
            newest = newest.into_iter().chain(pack).max_by_key(|pack| pack.version);
        }
        Ok(newest)
    }

    /// Where a pack of that version is written.
    pub fn place(version: u64, layout: &Layout) -> Lpn {
        layout.packs[(version % 2) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_reads_back_whole_or_not_at_all() {
        let layout = Layout::plan(4096).unwrap();
        let places = |units: u32| vec![0xa5; (units as usize).div_ceil(8)];
        let pack = Pack {
            version: 7,
            clock: 1 << 40,
            reserved: 3,
            last_node: 77,
            nodes_in_use: 5,
            files: 4,
            is_last: true,
            heads: [HeadPosition { segment: Some(3), used: 2, following: None }; HEADS],
            segment_places: places(layout.segment_table_units),
            node_places: places(layout.node_table_units),
            orphans: vec![FileId(9), FileId(12)],
        };
        let mut bytes = pack.encode();
        assert_eq!((bytes.len(), &bytes[8..16], bytes[16]), (UNIT_BYTES, &MAGIC[..], 7));
        assert_eq!(Pack::decode(&bytes, &layout), Some(pack));
        bytes[60] ^= 1;
        assert_eq!(Pack::decode(&bytes, &layout), None);
        assert_eq!(Pack::decode(&[0; UNIT_BYTES], &layout), None);
    }
}
