//! Which parts of a trace's address space are read or written.
//!
//! The space of a trace is mostly empty, so it is kept as a bitmap of chunks of [`CHUNK_BYTES`], with pages only where
//! something is touched. Once everything is recorded, each chunk has a rank: the number of touched chunks before it.

use std::collections::HashMap;

/// The unit of what is touched or not. Requests that are sequential within a chunk are so on the drive as well.
pub(crate) const CHUNK_BYTES: u64 = 1 << 20;

/// Chunks of one page of the bitmap.
const PAGE_CHUNKS: u64 = 4096;
const WORDS: usize = (PAGE_CHUNKS / 64) as usize;

/// A volume's page.
type PageId = (u32, u64);

/// Collects what is touched.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    pages: HashMap<PageId, Box<[u64; WORDS]>>,
}

impl Touches {
    /// These bytes of a volume are read or written.
    pub(crate) fn note(&mut self, volume: u32, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        for chunk in offset / CHUNK_BYTES..=(offset + bytes - 1) / CHUNK_BYTES {
            let page =
                self.pages.entry((volume, chunk / PAGE_CHUNKS)).or_insert_with(|| Box::new([0; WORDS]));
            let bit = chunk % PAGE_CHUNKS;
            page[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    /// The number of touched chunks.
    pub(crate) fn chunks(&self) -> u64 {
        let bits = |page: &[u64; WORDS]| page.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        self.pages.values().map(|page| bits(page)).sum()
    }

    /// With ranks, by volume and place.
    pub(crate) fn ranked(self) -> Touched {
        let mut pages: Vec<(PageId, Box<[u64; WORDS]>)> = self.pages.into_iter().collect();
        pages.sort_unstable_by_key(|(id, _)| *id);
        let mut before = Vec::with_capacity(pages.len());
        let mut rank = 0;
        for (_, page) in &pages {
            before.push(rank);
            rank += page.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        }
        Touched { pages, before }
    }
}

/// The touched chunks, with ranks.
#[derive(Debug)]
pub(crate) struct Touched {
    pages: Vec<(PageId, Box<[u64; WORDS]>)>,
    /// Touched chunks before each page.
    before: Vec<u64>,
}

impl Touched {
    /// The number of touched chunks before this one; `None` if it is not touched.
    pub(crate) fn rank(&self, volume: u32, chunk: u64) -> Option<u64> {
        let index = self.pages.binary_search_by_key(&(volume, chunk / PAGE_CHUNKS), |(id, _)| *id).ok()?;
        let (page, bit) = (&self.pages[index].1, chunk % PAGE_CHUNKS);
        let (word, mask) = ((bit / 64) as usize, 1u64 << (bit % 64));
        if page[word] & mask == 0 {
            return None;
        }
        let whole: u64 = page[..word].iter().map(|word| u64::from(word.count_ones())).sum();
        Some(self.before[index] + whole + u64::from((page[word] & (mask - 1)).count_ones()))
    }

    /// The first touched chunk of a volume in this range.
    pub(crate) fn next(&self, volume: u32, from: u64, to: u64) -> Option<u64> {
        let first = self.pages.partition_point(|(id, _)| *id < (volume, from / PAGE_CHUNKS));
        for ((of, number), page) in &self.pages[first..] {
            if *of != volume || number * PAGE_CHUNKS >= to {
                return None;
            }
            let start = from.saturating_sub(number * PAGE_CHUNKS);
            let found = (start..PAGE_CHUNKS).find(|bit| page[(bit / 64) as usize] >> (bit % 64) & 1 == 1);
            if let Some(bit) = found {
                return Some(number * PAGE_CHUNKS + bit).filter(|chunk| *chunk < to);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_rank_of_those_before_them() {
        let mut touches = Touches::default();
        touches.note(1, 0, 1);
        touches.note(0, 5 * CHUNK_BYTES - 1, 2);
        touches.note(0, u64::MAX - 1, 1);
        touches.note(0, 63 * CHUNK_BYTES, 2 * CHUNK_BYTES);
        touches.note(0, 9 * CHUNK_BYTES, 0);
        assert_eq!(touches.chunks(), 6);
        let touched = touches.ranked();
        let ranks: Vec<_> = [4, 5, 63, 64, u64::MAX / CHUNK_BYTES].map(|chunk| touched.rank(0, chunk)).into();
        assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!((touched.rank(1, 0), touched.rank(0, 9), touched.rank(2, 0)), (Some(5), None, None));
    }

    #[test]
    fn the_next_touched_chunk_is_found_across_what_is_empty() {
        let mut touches = Touches::default();
        for chunk in [3, 4, 9_000_000] {
            touches.note(7, chunk * CHUNK_BYTES, 1);
        }
        let touched = touches.ranked();
        let next = |from, to| touched.next(7, from, to);
        assert_eq!((next(0, 100), next(4, 100), next(5, 100)), (Some(3), Some(4), None));
        assert_eq!((next(5, 9_000_000), next(5, u64::MAX)), (None, Some(9_000_000)));
        assert_eq!((touched.next(6, 0, u64::MAX), touched.next(8, 0, u64::MAX)), (None, None));
    }
}
