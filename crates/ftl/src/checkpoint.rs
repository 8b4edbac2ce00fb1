//! The checkpoint: the L2P as of a step, and what is still conditional then.
//!
//! It holds the chunks of L2P that were ever mapped, the owners whose versions no spare area tells, living hints
//! and how far the open logs are whole, the blocks that were open (recovery reads on in them), and the counters.
//! A checkpoint counts only if all its pages are there. The one before it, and the journal that it covers, are
//! free only after it; by the erase rule they are erased after it finished programming (hazard 10).

use tantalum_nand::{BlockId, Geometry, NandError, Nanoseconds, PageId, Ppn, UNIT_BYTES};

use crate::blocks::BlockUse;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::{Counters, Ftl, Programmed};
use crate::key_value::{
    KeyValueCounters, NamespaceContents, decode_namespaces, encode_namespaces, indexes_in_checkpoint,
    namespaces_are_possible,
};
use crate::layout::CheckpointInterval;
use crate::logs::Living;
use crate::map::{CHUNK_ENTRIES, Claim};
use crate::page_image::PageImage;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::types::{Generation, Hint, Lpn, SEQ_LIMIT, Seq};

/// What the running drive knows of its checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// The step of the last one.
    pub step: Seq,
    /// Its blocks.
    pub blocks: Vec<BlockId>,
    /// Its pages, in the order of its bytes.
    pub pages: Vec<PageId>,
    /// Data pages programmed since, copies included.
    pub pages_since: u64,
    /// Units of host data that had been programmed when it was taken.
    pub host_units: u64,
    /// Erases at which wear is looked at next.
    pub next_wear_check: u64,
    /// Whether one is due because a unit was lost that only a spare area asserted.
    pub wanted: bool,
    /// Operations of the medium when none was due last.
    pub not_due_at: u64,
}

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

const MAGIC: u64 = u64::from_le_bytes(*b"TANTCKP5");

/// Bytes of magic number, length and checksum, in front of everything.
pub(crate) const HEAD_BYTES: usize = 24;

/// Bytes that [`Contents::encode`] makes of a full chunk, of an owner with its version, and of a hint.
const CHUNK_BYTES: usize = 8 + 4 * CHUNK_ENTRIES;
const OWNER_BYTES: usize = 16;
const HINT_BYTES: usize = 48;

/// Stands for a place or a home that is not there.
const NOWHERE: u32 = u32::MAX;

impl Contents {
    /// Bytes with a length and a checksum in front.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        encode_namespaces(&self.namespaces, &mut out);
        let mut put = |values: &[u64]| values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        let counters = &self.counters;
        let programmed = &counters.programmed;
        put(&[self.logical_units.into(), self.clean.into(), self.seq.0, self.last_unmap.0]);
        put(&[programmed.host, programmed.padding, programmed.copyback, programmed.journal]);
        put(&[
            programmed.checkpoint,
            programmed.dump,
            counters.erased,
            counters.shared,
            counters.brought_home,
        ]);
        put(&[counters.remapped, counters.committed, counters.collections, counters.checkpoints]);
        put(&[counters.program_failures, counters.erase_failures, counters.uncorrectable_reads]);
        put(&[counters.exhausted.into()]);
        put(&counters.controller);
        let records = &counters.key_value;
        put(&[programmed.key_value, programmed.key_value_copyback, records.records_put, records.bytes_put]);
        put(&[records.records_deleted, records.records_got, records.bytes_got]);
        put(&[records.indexes_swapped_out, records.indexes_swapped_in]);
        put(&[records.index_units_read, records.index_checkpoints]);
        put(&[self.open_blocks.len() as u64]);
        self.open_blocks.iter().for_each(|block| put(&[block.0.into()]));
        put(&[self.versions.len() as u64]);
        self.versions.iter().for_each(|(lpn, version)| put(&[lpn.0.into(), version.0]));
        put(&[self.runs.len() as u64]);
        self.runs
            .iter()
            .for_each(|(generation, attempt, last)| put(&[generation.0, (*attempt).into(), (*last).into()]));
        put(&[self.hints.len() as u64]);
        for (log_lpn, Living { hint, version }, ppn) in &self.hints {
            let place = ppn.map_or(NOWHERE, |ppn| ppn.0);
            put(&[pair(log_lpn.0, place), version.0, hint.generation.0, pair(hint.attempt, hint.start)]);
            let home = hint.home.map_or(NOWHERE, |home| home.0);
            put(&[pair(hint.first, hint.slot), pair(home, hint.end.into())]);
        }
        put(&[self.last_namespace.into()]);
        put(&[self.chunks.len() as u64]);
        for (number, entries) in &self.chunks {
            out.extend(pair(*number, entries.len() as u32).to_le_bytes());
            let start = out.len();
            out.resize(start + entries.len().next_multiple_of(2) * 4, 0);
            for (to, entry) in out[start..].chunks_exact_mut(4).zip(entries) {
                to.copy_from_slice(&entry.to_le_bytes());
            }
        }
        let bytes = (out.len() - HEAD_BYTES) as u64;
        let checksum = crc32c::crc32c(&out[HEAD_BYTES..]);
        out[..8].copy_from_slice(&MAGIC.to_le_bytes());
        out[8..16].copy_from_slice(&bytes.to_le_bytes());
        out[16..24].copy_from_slice(&u64::from(checksum).to_le_bytes());
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
        let mut header = Reader { rest: bytes };
        if header.next()? != MAGIC {
            return None;
        }
        let length = usize::try_from(header.next()?).ok()?;
        let checksum = header.next()?;
        let body = header.rest.get(..length)?;
        if u64::from(crc32c::crc32c(body)) != checksum {
            return None;
        }
        let mut reader = Reader { rest: body };
        let namespaces = decode_namespaces(&mut reader.rest)?;
        let [logical_units, clean, seq, last_unmap] = reader.array()?;
        let [host, padding, copyback, journal, checkpoint, dump] = reader.array()?;
        let [erased, shared, brought_home, remapped, committed, collections, checkpoints] = reader.array()?;
        let [program_failures, erase_failures, uncorrectable_reads, exhausted] = reader.array()?;
        let controller = reader.array()?;
        let [key_value, key_value_copyback, records_put, bytes_put] = reader.array()?;
        let [records_deleted, records_got, bytes_got] = reader.array()?;
        let [indexes_swapped_out, indexes_swapped_in, index_units_read, index_checkpoints] =
            reader.array()?;
        let programmed =
            Programmed { host, key_value, key_value_copyback, padding, copyback, journal, checkpoint, dump };
        Some(Contents {
            logical_units: logical_units.try_into().ok()?,
            clean: clean != 0,
            seq: Seq(seq),
            last_unmap: Seq(last_unmap),
            counters: Counters {
                programmed,
                erased,
                shared,
                brought_home,
                remapped,
                committed,
                collections,
                checkpoints,
                program_failures,
                erase_failures,
                uncorrectable_reads,
                exhausted: exhausted != 0,
                key_value: KeyValueCounters {
                    records_put,
                    bytes_put,
                    records_deleted,
                    records_got,
                    bytes_got,
                    indexes_swapped_out,
                    indexes_swapped_in,
                    index_units_read,
                    index_checkpoints,
                },
                controller,
            },
            open_blocks: reader.list(|reader| Some(BlockId(reader.next()?.try_into().ok()?)))?,
            versions: reader
                .list(|reader| Some((Lpn(reader.next()?.try_into().ok()?), Seq(reader.next()?))))?,
            runs: reader.list(|reader| {
                let [generation, attempt, last] = reader.array()?;
                Some((Generation(generation), attempt.try_into().ok()?, last.try_into().ok()?))
            })?,
            hints: reader.list(Reader::hint)?,
            last_namespace: reader.next()?.try_into().ok()?,
            namespaces,
            chunks: reader.list(Reader::chunk)?,
        })
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn split(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}

/// Takes a number off the front of the bytes.
pub(crate) fn take_word(bytes: &mut &[u8]) -> Option<u64> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*value))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<u64> {
        take_word(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.next()?;
        }
        Some(values)
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.next()?;
        // an item takes at least eight bytes, so a count beyond that is nonsense
        if count > self.rest.len() as u64 / 8 {
            return None;
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn hint(&mut self) -> Option<(Lpn, Living, Option<Ppn>)> {
        let [places, version, generation, attempts, slots, home] = self.array()?;
        let ((log_lpn, ppn), (attempt, start)) = (split(places), split(attempts));
        let ((first, slot), (home, end)) = (split(slots), split(home));
        let home = (home != NOWHERE).then_some(Lpn(home));
        let hint =
            Hint { generation: Generation(generation), attempt, start, first, slot, end: end != 0, home };
        let ppn = (ppn != NOWHERE).then_some(Ppn(ppn));
        Some((Lpn(log_lpn), Living { hint, version: Seq(version) }, ppn))
    }

    fn chunk(&mut self) -> Option<(u32, Vec<u32>)> {
        let (number, entries) = split(self.next()?);
        if entries as usize > CHUNK_ENTRIES {
            return None;
        }
        let mut chunk = Vec::with_capacity(entries as usize + 1);
        for _ in 0..entries.div_ceil(2) {
            let (low, high) = split(self.next()?);
            chunk.extend([low, high]);
        }
        chunk.truncate(entries as usize);
        Some((number, chunk))
    }
}

impl Ftl {
    /// Whether recovery would have to read too much. Nothing of that changes but by what is done to flash, so the question
    /// is not asked again before.
    pub(crate) fn checkpoint_due(&mut self) -> bool {
        let operations = self.nand.operations();
        if self.checkpoint.not_due_at == operations && !self.checkpoint.wanted {
            return false;
        }
        let is_due = self.needs_checkpoint();
        if !is_due {
            self.checkpoint.not_due_at = operations;
        }
        is_due
    }

    /// The question itself.
    fn needs_checkpoint(&self) -> bool {
        let interval_over = match self.config.checkpoint_interval {
            CheckpointInterval::Pages(pages) => self.checkpoint.pages_since >= pages,
            CheckpointInterval::HostUnitsForEachUnit(ratio) => {
                let programmed = &self.counters.programmed;
                let written = programmed.host + programmed.key_value - self.checkpoint.host_units;
                written >= ratio.saturating_mul(self.checkpoint_units())
            }
        };
        interval_over
            || self.checkpoint.wanted
            || self.journal.blocks.len() as u32 > self.layout.journal_blocks
            || self.blocks.free_unmarked() < self.system_blocks() + 2
                && self.blocks.free() > self.system_blocks() + 2
    }

    /// Units that a checkpoint would take now, to within a page.
    fn checkpoint_units(&self) -> u64 {
        let bytes = self.map.touched_chunks() * CHUNK_BYTES
            + self.map.claims().len() * OWNER_BYTES
            + self.logs.count() * HINT_BYTES;
        let pages = (bytes as u64 + self.key_value.checkpoint_bytes())
            .div_ceil(self.geometry.page_bytes.into())
            .max(1);
        pages * u64::from(self.geometry.units_per_page())
    }

    /// Takes a checkpoint and frees what it makes superfluous.
    pub fn take_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        self.flush_journal(at_ns)?;
        self.counters.checkpoints += 1;
        let (contents, read_ns) = self.contents(clean, at_ns)?;
        let bytes = contents.encode();
        if canary::out(Guard::CheckpointInPlace) {
            for block in std::mem::take(&mut self.checkpoint.blocks) {
                self.nand.erase(block, at_ns)?;
                self.blocks.release(self.geometry.plane_of(block), block);
            }
        }
        let mut blocks = Vec::new();
        let programmed = self.program_checkpoint(&bytes, &mut blocks, at_ns.max(read_ns));
        match programmed {
            Ok((step, pages, done_ns)) => {
                self.retain_only(blocks, step);
                self.checkpoint.pages = pages;
                // their checksums are of all their bytes
                if self.config.index_dram_bytes.is_some() {
                    let indexes = indexes_in_checkpoint(&contents.namespaces, HEAD_BYTES);
                    self.key_value.are_in_checkpoint(&indexes);
                }
                Ok(done_ns)
            }
            Err(error) => {
                for block in blocks {
                    self.blocks.release(self.geometry.plane_of(block), block);
                }
                Err(error)
            }
        }
    }

    /// Opens `blocks` for the bytes and programs them. Returns the step, the pages, and when it is done.
    fn program_checkpoint(
        &mut self,
        bytes: &[u8],
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Seq, Vec<PageId>, Nanoseconds), FtlError> {
        self.open_checkpoint_blocks(bytes.len(), blocks, at_ns)?;
        // Only now: what is recorded when blocks are erased for it is covered by the checkpoint, which otherwise would
        // not be the last word of a clean shutdown.
        let step = self.next_seq();
        if let Some(protected) = &mut self.protected {
            protected.checkpoint(&mut self.nand, step)?;
        }
        self.renew_waiting()?;
        let (pages, done_ns) = self.program_checkpoint_pages(bytes, step, blocks, at_ns)?;
        Ok((step, pages, done_ns))
    }

    /// What a checkpoint says now, and when the indexes that are on flash only have been read for it.
    fn contents(&mut self, clean: bool, at_ns: Nanoseconds) -> Result<(Contents, Nanoseconds), FtlError> {
        let (namespaces, read_ns) = self.namespace_contents(at_ns)?;
        let mut versions = Vec::new();
        for (_, claim) in self.map.claims() {
            if let Claim::Owners(owners) = claim {
                versions.extend(owners.iter().copied());
            }
        }
        versions.sort_unstable();
        self.logs.settle_evidence(&mut self.map);
        let living = self.logs.living().map(|(lpn, living)| (lpn, *living, self.map.lookup(lpn)));
        let waiting = self.logs.waiting().map(|(lpn, waiting)| (lpn, *waiting, None));
        let mut hints: Vec<(Lpn, Living, Option<Ppn>)> = living.chain(waiting).collect();
        hints.sort_unstable_by_key(|(lpn, living, _)| (*lpn, living.version));
        let contents = Contents {
            logical_units: self.config.logical_units,
            clean,
            seq: self.seq,
            last_unmap: self.last_unmap,
            counters: self.counters,
            open_blocks: self.streams.blocks().collect(),
            versions,
            hints,
            runs: self.logs.runs(),
            last_namespace: self.key_value.last_namespace,
            namespaces,
            chunks: self.map.chunks().map(|(number, entries)| (number as u32, entries.collect())).collect(),
        };
        Ok((contents, read_ns))
    }

    /// As many blocks as the bytes fill.
    fn open_checkpoint_blocks(
        &mut self,
        bytes: usize,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let pages = bytes.div_ceil(self.geometry.page_bytes as usize) as u32;
        for _ in 0..pages.div_ceil(self.geometry.pages_per_block) {
            blocks.push(self.take_system_block(BlockUse::Checkpoint, at_ns)?);
        }
        Ok(())
    }

    /// Programs the pages side by side on the blocks. Returns them, and when all are done.
    fn program_checkpoint_pages(
        &mut self,
        bytes: &[u8],
        step: Seq,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<PageId>, Nanoseconds), FtlError> {
        let page_bytes = self.geometry.page_bytes as usize;
        let count = bytes.len().div_ceil(page_bytes) as u32;
        let earliest_ns = at_ns.max(self.nand.programs_done_ns());
        let mut done_ns = earliest_ns;
        let (mut turn, mut pages) = (0, Vec::with_capacity(count as usize));
        for (index, page) in bytes.chunks(page_bytes).enumerate() {
            let mark = BatchMark { id: step, index: index as u32, count };
            let (place, page_ns) =
                self.program_checkpoint_page(page, mark, blocks, &mut turn, earliest_ns)?;
            pages.push(place);
            done_ns = done_ns.max(page_ns);
        }
        Ok((pages, done_ns))
    }

    fn program_checkpoint_page(
        &mut self,
        bytes: &[u8],
        mark: BatchMark,
        blocks: &mut Vec<BlockId>,
        turn: &mut usize,
        earliest_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let mut spare = Spare::new(Kind::Checkpoint, mark.id);
        spare.mark = Mark::Batch(mark);
        let mut unit_aligned = bytes.to_vec();
        unit_aligned.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
        let page = PageImage::stage(&mut self.nand, &unit_aligned, &spare)?;
        loop {
            let Some(place) = self.next_checkpoint_page(blocks, turn) else {
                // program failures used up what was planned
                let opened = self.take_system_block(BlockUse::Checkpoint, earliest_ns);
                if opened.is_err() {
                    self.give_up_page(&page);
                }
                blocks.push(opened?);
                continue;
            };
            match self.nand.program(place, &page.sources[..units], &page.spares[..units], earliest_ns) {
                Ok(done_ns) => {
                    self.counters.programmed.checkpoint += units as u64;
                    return Ok((place, done_ns));
                }
                Err(NandError::ProgramFailed { .. }) => self.program_failed(self.geometry.block_of(place)),
                Err(error) => {
                    let error = error.into();
                    self.release_page(&page, &error);
                    return Err(error);
                }
            }
        }
    }

    fn next_checkpoint_page(&self, blocks: &[BlockId], turn: &mut usize) -> Option<PageId> {
        for _ in 0..blocks.len() {
            let block = blocks[*turn % blocks.len()];
            *turn += 1;
            let index = self.nand.next_page(block);
            if index < self.geometry.pages_per_block && !self.failing.contains(&block) {
                return Some(self.geometry.page(block, index));
            }
        }
        None
    }

    /// The checkpoint at `step` stands: what is older may go.
    pub(crate) fn retain_only(&mut self, blocks: Vec<BlockId>, step: Seq) {
        let old = std::mem::replace(&mut self.checkpoint.blocks, blocks);
        let kept = [self.journal.open, self.journal.next];
        let journal = std::mem::take(&mut self.journal.blocks);
        let (kept, covered): (Vec<BlockId>, Vec<BlockId>) =
            journal.into_iter().partition(|block| kept.contains(&Some(*block)));
        self.journal.blocks = kept;
        for block in old.into_iter().chain(covered) {
            self.blocks.release(self.geometry.plane_of(block), block);
        }
        self.checkpoint.step = step;
        self.checkpoint.pages_since = 0;
        self.checkpoint.wanted = false;
        self.checkpoint.host_units = self.counters.programmed.host + self.counters.programmed.key_value;
        self.release_tombstones();
        self.key_value.budget_chunks = 0;
        self.blocks.clear_all_marks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_value::NamespaceId;

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
            counters: Counters { erased: 3, checkpoints: 4, ..Counters::default() },
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
