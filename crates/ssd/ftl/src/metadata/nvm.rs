//! The metadata log in non-volatile memory (NVM) instead of on flash pages: `plp = "nvm"` of a profile.
//!
//! The rules are those of the log on flash; only the places differ, and no flash is programmed.
//!
//! - **An entry** has the records that are durable together, under a checksum. A store whose words arrived in part leaves
//!   an entry whose checksum is wrong: the log ends there.
//! - **No entry before what it names.** A store of records begins when every program issued before it is done (hazard 24
//!   of docs/internals/hazards.md). Stores follow each other, so an entry never exists without those before it.
//! - **A checkpoint** is stored in the place that the last one does not occupy, once every program is done (hazard 25),
//!   because its L2P may name pages that were in flight. The switch, one word, is stored when the checkpoint is complete.
//!   Then the log starts over; an entry says which checkpoint it follows, so the remains of the old log do not count.

use std::sync::Arc;

use tantalum_canaries::guard;
use tantalum_nand::{Nand, Nanoseconds, WORD_BYTES, checksum_of, checksum_with};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, IntoBytes};

use super::flash::Attempt;
use super::found::{FoundCheckpoint, FoundJournal};
use super::nvm_plan::{CHECKPOINT_HEAD_BYTES, CheckpointHead, ENTRY_HEAD_BYTES, EntryHead, NvmPlan, words};
use super::record::{RECORD_BYTES, Record, decode_records, encode_record, records_per_page};
use crate::error::{Damage, FtlError};
use crate::reader::Reader;
use crate::types::Seq;

/// Where the switch is.
const SWITCH_AT: u64 = 0;

/// Position of the log and the checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct NvmLog {
    plan: NvmPlan,
    /// The number of the checkpoint that counts; 0 on a drive that is being formatted.
    number: u64,
    /// Bytes of the log in use.
    used: u64,
    /// How many.
    entries: u64,
    scratch: Vec<u8>,
}

/// Where recovery found the end of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundNvm {
    pub number: u64,
    pub used: u64,
    pub entries: u64,
}

impl NvmLog {
    pub fn new(plan: NvmPlan) -> NvmLog {
        NvmLog { plan, number: 0, used: 0, entries: 0, scratch: Vec::new() }
    }

    /// What recovery found.
    pub fn found(&mut self, found: FoundNvm) {
        (self.number, self.used, self.entries) = (found.number, found.used, found.entries);
    }

    /// Whether half of the log is full, so that a checkpoint is due.
    pub fn is_half_full(&self) -> bool {
        self.used > self.plan.log_bytes / 2
    }

    /// Whether this many records fit, however they are divided into entries, in addition to a page of waiting records.
    pub fn has_room(&self, records: usize) -> bool {
        let per_entry = records_per_page(self.plan.units_per_page);
        let entries = records.div_ceil(per_entry) as u64 + 2;
        let bytes = (records + per_entry) as u64 * RECORD_BYTES as u64;
        self.used + bytes + entries * (ENTRY_HEAD_BYTES + WORD_BYTES) <= self.plan.log_bytes
    }

    /// Bytes of the largest checkpoint that fits in a place.
    pub fn checkpoint_limit(&self) -> u64 {
        self.plan.place_bytes - CHECKPOINT_HEAD_BYTES
    }

    /// Stores records as an entry, after every program issued before it.
    pub fn append<'a>(
        &mut self,
        nand: &mut Nand,
        records: impl ExactSizeIterator<Item = &'a Record>,
        [at_ns, ready_ns]: [Nanoseconds; 2],
    ) -> Result<Attempt, FtlError> {
        let mut head = EntryHead {
            checksum: 0.into(),
            records: (records.len() as u32).into(),
            checkpoint: self.number.into(),
            index: self.entries.into(),
        };
        self.scratch.clear();
        self.scratch.extend_from_slice(head.as_bytes());
        records.for_each(|record| encode_record(record, &mut self.scratch));
        head.checksum = checksum_of(&self.scratch[size_of::<U32>()..]).into();
        self.scratch[..ENTRY_HEAD_BYTES as usize].copy_from_slice(head.as_bytes());
        self.scratch.resize(words(self.scratch.len() as u64) as usize, 0);
        let bytes = self.scratch.len() as u64;
        if self.used + bytes > self.plan.log_bytes {
            return Ok(Attempt::NoBlock);
        }
        let programs_ns = guard!(NvmBeforePrograms, ready_ns.max(nand.host_programs_done_ns()));
        debug_assert_eq!(self.used % WORD_BYTES, 0, "the log ends at byte {}, within a word", self.used);
        let place = self.plan.log_at() + self.used;
        let done_ns = nand.nvm_store(&[(place, &self.scratch)], at_ns.max(programs_ns))?;
        self.used += bytes;
        self.entries += 1;
        Ok(Attempt::Issued(done_ns))
    }

    /// Stores a checkpoint, and switches to it. The log is empty then.
    pub fn store_checkpoint(
        &mut self,
        nand: &mut Nand,
        bytes: &[u8],
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let (length, limit) = (bytes.len() as u64, self.checkpoint_limit());
        assert!(length <= limit, "a checkpoint of {length} bytes does not fit in a place for {limit}");
        let number = self.number + 1;
        let place = place_of(&self.plan, number);
        let mut head = CheckpointHead {
            checksum: 0.into(),
            reserved: 0.into(),
            number: number.into(),
            step: step.0.into(),
            bytes: (bytes.len() as u64).into(),
        };
        head.checksum = checksum_of(&head.as_bytes()[size_of::<U32>()..]).into();
        let mut padded = bytes.to_vec();
        padded.resize(words(bytes.len() as u64) as usize, 0);
        let parts = [(place, head.as_bytes()), (place + CHECKPOINT_HEAD_BYTES, &padded[..])];
        let switch = number.to_le_bytes();
        let start_ns = at_ns.max(guard!(NvmCheckpointBeforePrograms, nand.programs_done_ns()));
        let done_ns = guard!(NvmSwitchedEarly(nand, (SWITCH_AT, &switch), parts, start_ns)?, {
            let stored_ns = nand.nvm_store(&parts, start_ns)?;
            nand.nvm_store(&[(SWITCH_AT, &switch)], stored_ns)?
        });
        (self.number, self.used, self.entries) = (number, 0, 0);
        Ok(done_ns)
    }

    /// Loads a part of the checkpoint that counts.
    pub fn load_checkpoint(
        &self,
        nand: &Nand,
        range: std::ops::Range<u64>,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<u8>, Nanoseconds), FtlError> {
        let at = place_of(&self.plan, self.number) + CHECKPOINT_HEAD_BYTES;
        debug_assert!(range.end <= self.checkpoint_limit(), "{range:?} of a checkpoint is beyond its place");
        let (first, end) = (range.start / WORD_BYTES * WORD_BYTES, words(range.end));
        let mut bytes = vec![0; (end - first) as usize];
        let done_ns = nand.nvm_load(at + first, &mut bytes, at_ns)?;
        bytes.truncate((range.end - first) as usize);
        bytes.drain(..(range.start - first) as usize);
        Ok((bytes, done_ns))
    }
}

/// Where the checkpoint of this number is.
fn place_of(plan: &NvmPlan, number: u64) -> u64 {
    plan.place_at(guard!(NvmCheckpointInPlace, number))
}

/// Finds the checkpoint that counts.
pub(crate) fn find_checkpoint(reader: &mut Reader, plan: &NvmPlan) -> Result<FoundCheckpoint, FtlError> {
    let mut switch = [0; WORD_BYTES as usize];
    load(reader, SWITCH_AT, &mut switch)?;
    let number = u64::from_le_bytes(switch);
    if number == 0 {
        return Err(Damage::NoCheckpoint.into());
    }
    let damaged = || FtlError::from(Damage::NvmCheckpoint { number });
    let place = place_of(plan, number);
    let mut head = [0; CHECKPOINT_HEAD_BYTES as usize];
    load(reader, place, &mut head)?;
    let checksum = checksum_of(&head[size_of::<U32>()..]);
    let head = CheckpointHead::read_from_bytes(&head).expect("the length is that of a head");
    let fits = head.bytes.get() <= plan.place_bytes - CHECKPOINT_HEAD_BYTES;
    if head.checksum.get() != checksum || head.number.get() != number || !fits {
        return Err(damaged());
    }
    let mut bytes = vec![0; words(head.bytes.get()) as usize];
    load(reader, place + CHECKPOINT_HEAD_BYTES, &mut bytes)?;
    bytes.truncate(head.bytes.get() as usize);
    Ok(FoundCheckpoint {
        step: Seq(head.step.get()),
        bytes: Arc::new(bytes.into()),
        pages: Vec::new(),
        number,
    })
}

/// Reads the records after it.
pub(crate) fn find_journal(
    reader: &mut Reader,
    plan: &NvmPlan,
    number: u64,
) -> Result<(FoundJournal, FoundNvm), FtlError> {
    let mut found = FoundNvm { number, used: 0, entries: 0 };
    let mut records = Vec::new();
    while let Some((entry, bytes)) = read_entry(reader, plan, &found)? {
        let (units, geometry) = (reader.logical_units, reader.nand.geometry());
        if !entry.iter().all(|record| record.is_possible(units, geometry)) {
            return Err(Damage::NvmEntry { index: found.entries }.into());
        }
        records.extend(entry);
        found.used += bytes;
        found.entries += 1;
    }
    for record in &records {
        reader.newest = reader.newest.max(record.newest_seq());
    }
    Ok((FoundJournal { records, blocks: Default::default() }, found))
}

/// The entry after those already found, and its length; `None` if there is no whole entry.
fn read_entry(
    reader: &mut Reader,
    plan: &NvmPlan,
    found: &FoundNvm,
) -> Result<Option<(Vec<Record>, u64)>, FtlError> {
    let left = plan.log_bytes - found.used;
    if left < ENTRY_HEAD_BYTES {
        return Ok(None);
    }
    let at = plan.log_at() + found.used;
    let mut bytes = [0; ENTRY_HEAD_BYTES as usize];
    load(reader, at, &mut bytes)?;
    let head = EntryHead::read_from_bytes(&bytes).expect("the length is that of a head");
    let count = head.records.get() as usize;
    let length = words(ENTRY_HEAD_BYTES + count as u64 * RECORD_BYTES as u64);
    let comes_next = head.checkpoint.get() == found.number && head.index.get() == found.entries;
    if !comes_next || count > records_per_page(plan.units_per_page) || length > left {
        return Ok(None);
    }
    let mut rest = vec![0; (length - ENTRY_HEAD_BYTES) as usize];
    load(reader, at + ENTRY_HEAD_BYTES, &mut rest)?;
    rest.truncate(count * RECORD_BYTES);
    let checksum = checksum_with(checksum_of(&bytes[size_of::<U32>()..]), &rest);
    if guard!(NvmEntryInParts, head.checksum.get() != checksum) {
        return Ok(None);
    }
    let records = decode_records(&rest).ok_or(Damage::NvmEntry { index: found.entries })?;
    Ok(Some((records, length)))
}

fn load(reader: &mut Reader, at: u64, bytes: &mut [u8]) -> Result<(), FtlError> {
    let done_ns = reader.nand.nvm_load(at, bytes, reader.at_ns)?;
    reader.done_ns = reader.done_ns.max(done_ns);
    reader.counts.nvm_bytes_read += bytes.len() as u64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tantalum_nand::NvmShape;

    use super::*;
    use crate::test_support::{GEOMETRY, TIMING};

    /// A log of six entries with two records each, to the last byte, and places for checkpoints of up to 480 bytes.
    const PLAN: NvmPlan = NvmPlan { log_bytes: 6 * 80, place_bytes: 512, units_per_page: 2 };

    fn nand(plan: &NvmPlan) -> Nand {
        let bytes = plan.place_at(1) + plan.place_bytes;
        let shape = NvmShape { bytes, latency_ns: 100, bytes_per_second: 1_000_000_000 };
        Nand::in_memory(GEOMETRY, TIMING).unwrap().with_nvm(shape).unwrap()
    }

    fn reader(nand: Nand) -> Reader {
        Reader::new(nand, 128, 0)
    }

    fn records(count: u64) -> Vec<Record> {
        (1..=count).map(|group| Record::GroupWhole { group: Seq(group) }).collect()
    }

    fn append(log: &mut NvmLog, nand: &mut Nand, count: u64) -> Attempt {
        log.append(nand, records(count).iter(), [0, 0]).unwrap()
    }

    /// Records and entries that recovery finds after this checkpoint, and how long the log is.
    fn found(nand: Nand, plan: &NvmPlan, number: u64) -> (usize, u64, u64) {
        let (journal, end) = find_journal(&mut reader(nand), plan, number).unwrap();
        (journal.records.len(), end.entries, end.used)
    }

    /// Parts of an index that is swapped out are loaded from it, at any position.
    #[test]
    fn a_checkpoint_as_large_as_its_place_is_found_and_loaded_in_parts() {
        let (mut nand, mut log) = (nand(&PLAN), NvmLog::new(PLAN));
        for number in 1..=3 {
            let stored: Vec<u8> = (0..481 - number).map(|at| (at * 7 + number) as u8).collect();
            log.store_checkpoint(&mut nand, &stored, Seq(100 + number), 0).unwrap();
            let mut reader = reader(nand);
            let checkpoint = find_checkpoint(&mut reader, &PLAN).unwrap();
            assert_eq!((checkpoint.number, checkpoint.step), (number, Seq(100 + number)));
            assert!(checkpoint.bytes[..] == stored[..]);
            nand = reader.nand;
            let length = stored.len() as u64;
            for (first, end) in [(0, length), (0, 1), (1, 9), (8, 16), (13, 77), (length - 3, length), (5, 5)]
            {
                let (part, done_ns) = log.load_checkpoint(&nand, first..end, 1000).unwrap();
                assert_eq!(part, stored[first as usize..end as usize], "{first} to {end}");
                assert!(done_ns > 1000);
            }
        }
    }

    /// A head that is damaged, that of another checkpoint, and one that is longer than a place.
    #[test]
    fn the_head_of_a_checkpoint_is_right_in_every_respect_or_refused() {
        for (number, bytes, flip, is_right) in
            [(1, 480, 0, true), (1, 480, 1, false), (3, 480, 0, false), (1, 481, 0, false)]
        {
            let (mut nand, mut log) = (nand(&PLAN), NvmLog::new(PLAN));
            log.store_checkpoint(&mut nand, &[1; 480], Seq(7), 0).unwrap();
            let mut head = CheckpointHead {
                checksum: 0.into(),
                reserved: 0.into(),
                number: number.into(),
                step: 7.into(),
                bytes: bytes.into(),
            };
            head.checksum = (checksum_of(&head.as_bytes()[size_of::<U32>()..]) ^ flip).into();
            nand.nvm_store(&[(PLAN.place_at(1), head.as_bytes())], 0).unwrap();
            let read = find_checkpoint(&mut reader(nand), &PLAN);
            assert_eq!(read.is_ok(), is_right, "number {number}, {bytes} bytes");
        }
    }

    #[test]
    fn a_log_that_is_full_to_its_last_byte_is_read_to_its_end() {
        let (mut nand, mut log) = (nand(&PLAN), NvmLog::new(PLAN));
        for _ in 0..6 {
            assert!(matches!(append(&mut log, &mut nand, 2), Attempt::Issued(_)));
        }
        assert_eq!(append(&mut log, &mut nand, 1), Attempt::NoBlock);
        assert_eq!(found(nand, &PLAN, 0), (12, 6, 480));
    }

    /// Bytes behind the log are not an entry, even if they look like the next one.
    #[test]
    fn a_log_ends_where_it_is_planned_to() {
        let longer = NvmPlan { log_bytes: 7 * 80, ..PLAN };
        let (mut nand, mut log) = (nand(&longer), NvmLog::new(longer));
        for _ in 0..7 {
            append(&mut log, &mut nand, 2);
        }
        let again = nand.try_clone().unwrap();
        assert_eq!(found(nand, &longer, 0), (14, 7, 560));
        assert_eq!(found(again, &PLAN, 0), (12, 6, 480));
    }

    /// As many records as fit on a page of two units, and one more, which no drive of this shape stores together.
    #[test]
    fn an_entry_has_as_many_records_as_wait_for_a_page() {
        let plan = NvmPlan { log_bytes: 20_000, ..PLAN };
        for (count, read) in [(292, 292), (293, 0)] {
            let (mut nand, mut log) = (nand(&plan), NvmLog::new(plan));
            append(&mut log, &mut nand, count);
            assert_eq!(found(nand, &plan, 0).0, read);
        }
    }

    /// A drive that continues where recovery found the end of the log: its next entries follow the existing ones.
    #[test]
    fn what_is_appended_after_recovery_is_found_with_what_was_there() {
        let (mut nand, mut log) = (nand(&PLAN), NvmLog::new(PLAN));
        append(&mut log, &mut nand, 2);
        append(&mut log, &mut nand, 2);
        log.store_checkpoint(&mut nand, &[1; 100], Seq(7), 0).unwrap();
        append(&mut log, &mut nand, 1);
        let mut reader = reader(nand);
        let (_, end) = find_journal(&mut reader, &PLAN, 1).unwrap();
        assert_eq!((end.number, end.entries, end.used), (1, 1, 56), "the second entry is of the log before");
        let (mut nand, mut log) = (reader.nand, NvmLog::new(PLAN));
        log.found(end);
        append(&mut log, &mut nand, 2);
        assert_eq!(found(nand, &PLAN, 1), (3, 2, 136));
    }

    fn log(used: u64) -> NvmLog {
        let plan = NvmPlan { log_bytes: 20_000, place_bytes: 500, units_per_page: 2 };
        NvmLog { used, ..NvmLog::new(plan) }
    }

    /// A page of two units has 292 records of 28 bytes; an entry's head and its last word take 32.
    #[test]
    fn records_have_room_beside_a_page_of_them_that_waits() {
        let least = (292 + 292) * 28 + 3 * 32;
        assert!(log(20_000 - least).has_room(292) && !log(20_001 - least).has_room(292));
        let least = (293 + 292) * 28 + 4 * 32;
        assert!(log(20_000 - least).has_room(293) && !log(20_001 - least).has_room(293));
    }

    #[test]
    fn a_checkpoint_is_due_once_more_than_half_is_used() {
        assert!(!log(10_000).is_half_full() && log(10_001).is_half_full());
        assert_eq!(log(0).checkpoint_limit(), 500 - 32);
    }
}
