//! Recovery of ARIES: analysis finds the active transactions and the changes that may be missing, redo repeats history, undo
//! rolls back what was not committed. What undo does is logged and durable before any page is written, so power may fail again
//! at any point.

use std::collections::{BTreeMap, HashMap};

use tantalum_spu::{BlockClient, IoError, Ssd};

use crate::checkpoint::{MASTER_BYTES, lowest, master, of_master};
use crate::error::StoreError;
use crate::log::{BLOCK_BYTES, most_at_once};
use crate::record::{Body, Lsn, NONE, Record};
use crate::tables::{LOG_AT, MASTER_AT, PAGE_BYTES, PageOffset, read_i64};

/// A place in the log, for each transaction or page.
type LsnOf = BTreeMap<u64, Lsn>;

/// What recovery found and did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Recovered {
    pub records: u64,
    pub redone: u64,
    pub undone: u64,
    /// Transactions rolled back.
    pub losers: u64,
}

/// Where and how the log continues.
pub(crate) struct Tail {
    pub low: Lsn,
    pub end: Lsn,
    /// The beginning of its last block.
    pub begun: Vec<u8>,
    pub next_transaction: u64,
}

/// The drive as recovery reads and writes it, and the pages that it has read.
pub(crate) struct Recovery<'a> {
    ssd: &'a mut Ssd,
    client: BlockClient,
    ring_bytes: u64,
    ring: Vec<u8>,
    pages: HashMap<u64, Vec<u8>>,
    done: Recovered,
}

/// Writes the first checkpoint of an empty log.
pub(crate) fn begin_log(ssd: &mut Ssd, client: BlockClient, ring_bytes: u64) -> Result<(), StoreError> {
    let checkpoint = Record {
        transaction: 0,
        previous: NONE,
        body: Body::Checkpoint { active: Vec::new(), changed: Vec::new() },
    };
    let mut recovery = Recovery {
        ssd,
        client,
        ring_bytes,
        ring: Vec::new(),
        pages: HashMap::new(),
        done: Recovered::default(),
    };
    recovery.ring = vec![0; ring_bytes as usize];
    let end = recovery.put(crate::log::FIRST, &checkpoint);
    recovery.write_log(crate::log::FIRST, end)?;
    Ok(client.write(ssd, MASTER_AT, &master(crate::log::FIRST))?)
}

impl Recovery<'_> {
    pub fn run(ssd: &mut Ssd, client: BlockClient, ring_bytes: u64) -> Result<(Tail, Recovered), StoreError> {
        let mut bytes = vec![0; MASTER_BYTES];
        client.read(ssd, MASTER_AT, &mut bytes)?;
        let checkpoint = of_master(&bytes).ok_or(StoreError::NoCheckpoint)?;
        let mut ring = vec![0; ring_bytes as usize];
        client.read(ssd, LOG_AT, &mut ring)?;
        let done = Recovered::default();
        let mut recovery = Recovery { ssd, client, ring_bytes, ring, pages: HashMap::new(), done };
        let (active, changed, end) = recovery.analyse(checkpoint)?;
        recovery.clear_after(end)?;
        let next_transaction = recovery.redo(&changed, end)?;
        let undone = recovery.undo(&active, end)?;
        recovery.write_log(end, undone)?;
        recovery.write_pages(undone)?;
        let tail = recovery.finish(undone, next_transaction)?;
        Ok((tail, recovery.done))
    }

    // -- the log ------------------------------------------------------------------------------------------------

    /// Bytes of the ring from a position on.
    fn bytes(&self, lsn: Lsn, length: u64) -> Vec<u8> {
        let at = (lsn % self.ring_bytes) as usize;
        let length = length as usize;
        let first = length.min(self.ring.len() - at);
        [&self.ring[at..at + first], &self.ring[..length - first]].concat()
    }

    fn record(&self, lsn: Lsn) -> Option<(Record, Lsn)> {
        let length = self.bytes(lsn, 4);
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        if u64::from(length) > self.ring_bytes {
            return None;
        }
        let (record, length) = Record::decode(&self.bytes(lsn, length.into()), lsn)?;
        Some((record, lsn + length))
    }

    fn put(&mut self, lsn: Lsn, record: &Record) -> Lsn {
        let bytes = record.encode(lsn);
        for (at, byte) in (lsn..).zip(&bytes) {
            self.ring[(at % self.ring_bytes) as usize] = *byte;
        }
        lsn + bytes.len() as u64
    }

    /// Writes what was appended between two positions, in whole blocks. Zeros follow the end.
    fn write_log(&mut self, from: Lsn, to: Lsn) -> Result<(), StoreError> {
        for at in to..to.next_multiple_of(BLOCK_BYTES) {
            self.ring[(at % self.ring_bytes) as usize] = 0;
        }
        let first = from - from % BLOCK_BYTES;
        for lsn in (first..to).step_by(BLOCK_BYTES as usize) {
            let at = lsn % self.ring_bytes;
            let block = &self.ring[at as usize..][..BLOCK_BYTES as usize];
            self.client.write(self.ssd, LOG_AT + at, block)?;
        }
        Ok(())
    }

    /// Clears what an interrupted write of the log may have left after a gap. Otherwise the log might one day end where such
    /// a record begins, and the record would be taken for a part of the log.
    fn clear_after(&mut self, end: Lsn) -> Result<(), StoreError> {
        let from = end.next_multiple_of(BLOCK_BYTES);
        for lsn in (from..end + most_at_once(self.ring_bytes)).step_by(BLOCK_BYTES as usize) {
            let at = lsn % self.ring_bytes;
            let block = &mut self.ring[at as usize..][..BLOCK_BYTES as usize];
            if block.iter().any(|byte| *byte != 0) {
                block.fill(0);
                self.client.write(self.ssd, LOG_AT + at, &[0; BLOCK_BYTES as usize])?;
            }
        }
        Ok(())
    }

    // -- the three passes ---------------------------------------------------------------------------------------

    /// The transactions that were active at the end, with their last records; the pages that may lack changes, with the first of
    /// these; and the end.
    fn analyse(&mut self, checkpoint: Lsn) -> Result<(LsnOf, LsnOf, Lsn), StoreError> {
        let (first, mut lsn) = self.record(checkpoint).ok_or(StoreError::NoCheckpoint)?;
        let Body::Checkpoint { active, changed } = first.body else { return Err(StoreError::NoCheckpoint) };
        let mut active: LsnOf =
            active.into_iter().map(|(transaction, _, last)| (transaction, last)).collect();
        let mut changed: LsnOf = changed.into_iter().collect();
        while let Some((record, next)) = self.record(lsn) {
            self.done.records += 1;
            match record.body {
                Body::Update { place, .. } | Body::Undone { place, .. } => {
                    active.insert(record.transaction, lsn);
                    changed.entry(place.page).or_insert(lsn);
                }
                Body::Commit | Body::End => {
                    active.remove(&record.transaction);
                }
                Body::Checkpoint { .. } => {}
            }
            lsn = next;
        }
        Ok((active, changed, lsn))
    }

    /// Repeats history, starting with the oldest change that a page may lack. Returns a number that no transaction had.
    fn redo(&mut self, changed: &LsnOf, end: Lsn) -> Result<u64, StoreError> {
        let mut lsn = changed.values().copied().min().unwrap_or(end);
        let mut next_transaction = 1;
        while lsn < end {
            let (record, next) = self.record(lsn).ok_or(StoreError::BrokenLog { lsn })?;
            next_transaction = next_transaction.max(record.transaction + 1);
            if let Body::Update { place, after, .. } | Body::Undone { place, after, .. } = record.body
                && changed.get(&place.page).is_some_and(|since| *since <= lsn)
                && self.lsn_of(place)? < lsn
            {
                self.apply(place, &after, lsn)?;
                self.done.redone += 1;
            }
            lsn = next;
        }
        Ok(next_transaction)
    }

    /// Rolls back what was not committed, the last change first. Returns the end of the log, which is not written yet.
    fn undo(&mut self, losers: &LsnOf, mut end: Lsn) -> Result<Lsn, StoreError> {
        self.done.losers = losers.len() as u64;
        let mut last: LsnOf = losers.clone();
        let mut todo: BTreeMap<Lsn, u64> = losers.iter().map(|(&loser, &lsn)| (lsn, loser)).collect();
        while let Some((lsn, loser)) = todo.pop_last() {
            let (record, _) = self.record(lsn).ok_or(StoreError::BrokenLog { lsn })?;
            let next = match record.body {
                Body::Update { place, before, .. } => {
                    let next = record.previous;
                    let body = Body::Undone { place, after: before.clone(), next };
                    let undone = end;
                    end = self.put(end, &Record { transaction: loser, previous: last[&loser], body });
                    last.insert(loser, undone);
                    self.apply(place, &before, undone)?;
                    self.done.undone += 1;
                    next
                }
                Body::Undone { next, .. } => next,
                Body::Commit | Body::End | Body::Checkpoint { .. } => NONE,
            };
            if next == NONE {
                end = self.put(end, &Record { transaction: loser, previous: last[&loser], body: Body::End });
            } else {
                todo.insert(next, loser);
            }
        }
        Ok(end)
    }

    /// A checkpoint of a store without active transactions.
    fn finish(&mut self, end: Lsn, next_transaction: u64) -> Result<Tail, StoreError> {
        let body = Body::Checkpoint { active: Vec::new(), changed: Vec::new() };
        let low = lowest(end, &[], &[]);
        let after = self.put(end, &Record { transaction: 0, previous: NONE, body });
        self.write_log(end, after)?;
        self.client.write(self.ssd, MASTER_AT, &master(end))?;
        let begun = self.bytes(after - after % BLOCK_BYTES, after % BLOCK_BYTES);
        Ok(Tail { low, end: after, begun, next_transaction })
    }

    // -- pages --------------------------------------------------------------------------------------------------

    fn page(&mut self, page: u64) -> Result<&mut Vec<u8>, IoError> {
        if !self.pages.contains_key(&page) {
            let mut bytes = vec![0; PAGE_BYTES];
            self.client.read(self.ssd, page * PAGE_BYTES as u64, &mut bytes)?;
            self.pages.insert(page, bytes);
        }
        Ok(self.pages.get_mut(&page).expect("the page was just read"))
    }

    fn lsn_of(&mut self, place: PageOffset) -> Result<Lsn, IoError> {
        Ok(read_i64(self.page(place.page)?, 0) as Lsn)
    }

    fn apply(&mut self, place: PageOffset, bytes: &[u8], lsn: Lsn) -> Result<(), IoError> {
        let page = self.page(place.page)?;
        page[place.offset..][..bytes.len()].copy_from_slice(bytes);
        page[..8].copy_from_slice(&lsn.to_le_bytes());
        Ok(())
    }

    /// Writes pages whose changes are all in the log before `durable`.
    fn write_pages(&mut self, durable: Lsn) -> Result<(), StoreError> {
        let mut pages: Vec<(u64, Vec<u8>)> = std::mem::take(&mut self.pages).into_iter().collect();
        pages.sort_unstable_by_key(|(page, _)| *page);
        for (page, bytes) in pages {
            let lsn = read_i64(&bytes, 0) as Lsn;
            assert!(lsn < durable, "page {page} goes before its log: {lsn} of {durable}");
            self.client.write(self.ssd, page * PAGE_BYTES as u64, &bytes)?;
        }
        Ok(())
    }
}
