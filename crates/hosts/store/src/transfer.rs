//! One transfer, under ARIES and under MARS.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use tantalum_spu::atomic_writes::{AtomicWrites, SLOTS};

use crate::error::StoreError;
use crate::host;
use crate::locks::Locks;
use crate::log::Log;
use crate::pool::Pool;
use crate::record::{Body, Lsn, NONE, Record};
use crate::tables::{HISTORY_BYTES, Layout, PageOffset, Transfer, read_i64};
use crate::world::{Host, Path};

/// What transfers share under ARIES.
pub(crate) struct Aries {
    pub host: Host,
    pub log: Rc<Log>,
    pub pool: Rc<Pool>,
    pub locks: Locks,
    pub layout: Layout,
    /// Active transactions: first and last record.
    active: RefCell<BTreeMap<u64, (Lsn, Lsn)>>,
    next: Cell<u64>,
    pub checkpoints: Cell<u64>,
}

/// What transfers share under MARS.
pub(crate) struct Mars {
    pub host: Host,
    pub pool: Rc<Pool>,
    pub locks: Locks,
    pub layout: Layout,
    pub atomic: AtomicWrites,
}

/// A transfer of a client.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    pub path: Path,
    pub client: usize,
    /// Its number among the client's, and the line of history that it writes.
    pub number: u64,
    pub line: PageOffset,
    pub transfer: Transfer,
    /// Whether it is rolled back at its end.
    pub is_rolled_back: bool,
}

impl Work {
    /// The places that it changes, with the bytes that it changes there.
    fn places(&self, layout: &Layout) -> [(PageOffset, usize); 4] {
        let [account, teller, branch] = self.transfer.records().map(|record| (layout.balance(record), 8));
        [account, teller, branch, (self.line, HISTORY_BYTES)]
    }

    /// The contents of one of them afterwards.
    fn after(&self, before: &[u8]) -> Vec<u8> {
        match before.len() {
            8 => (read_i64(before, 0) + self.transfer.delta).to_le_bytes().to_vec(),
            _ => self.transfer.line(self.number).to_vec(),
        }
    }
}

/// Locks the next record of a transfer; the line of history is the client's own.
async fn lock(host: &Host, locks: &Locks, work: &Work, step: usize, transaction: u64) {
    if let Some(&record) = work.transfer.records().get(step) {
        locks.acquire(host, record, transaction).await;
    }
    host.work(host::RECORD_NS).await;
}

impl Aries {
    pub fn new(host: Host, log: Rc<Log>, pool: Rc<Pool>, layout: Layout, next: u64) -> Aries {
        Aries {
            host,
            log,
            pool,
            locks: Locks::default(),
            layout,
            active: RefCell::default(),
            next: Cell::new(next),
            checkpoints: Cell::new(0),
        }
    }

    /// Active transactions, with their first and last records.
    pub fn active(&self) -> Vec<(u64, Lsn, Lsn)> {
        self.active.borrow().iter().map(|(&transaction, &(first, last))| (transaction, first, last)).collect()
    }

    fn append(&self, transaction: u64, body: Body) -> Lsn {
        let mut active = self.active.borrow_mut();
        let previous = active.get(&transaction).map_or(NONE, |(_, last)| *last);
        let lsn = self.log.append(&Record { transaction, previous, body });
        active.entry(transaction).or_insert((lsn, lsn)).1 = lsn;
        lsn
    }

    /// Makes a transfer. It is durable when this ends.
    pub async fn transfer(&self, work: Work) -> Result<(), StoreError> {
        self.host.work(host::TRANSACTION_NS).await;
        self.log.wait_for_room().await;
        let transaction = self.next.get();
        self.next.set(transaction + 1);
        let mut undo = Vec::new();
        for (step, (place, length)) in work.places(&self.layout).into_iter().enumerate() {
            lock(&self.host, &self.locks, &work, step, transaction).await;
            self.host.work(host::LOG_RECORD_NS).await;
            self.pool.fetch(work.path, place.page).await?;
            let before = self.pool.bytes(place, length);
            let after = work.after(&before);
            let undone = before.clone();
            let lsn = self.append(transaction, Body::Update { place, before, after: after.clone() });
            self.pool.change(place, &after, lsn);
            undo.push((lsn, place, undone));
        }
        if work.is_rolled_back {
            self.roll_back(transaction, work.path, undo).await?;
        } else {
            self.append(transaction, Body::Commit);
            self.active.borrow_mut().remove(&transaction);
            self.log.force().await;
        }
        work.transfer.records().into_iter().for_each(|record| self.locks.release(record, transaction));
        Ok(())
    }

    async fn roll_back(
        &self,
        transaction: u64,
        path: Path,
        mut undo: Vec<(Lsn, PageOffset, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        while let Some((_, place, before)) = undo.pop() {
            self.host.work(host::LOG_RECORD_NS).await;
            self.pool.fetch(path, place.page).await?;
            let next = undo.last().map_or(NONE, |(lsn, ..)| *lsn);
            let lsn = self.append(transaction, Body::Undone { place, after: before.clone(), next });
            self.pool.change(place, &before, lsn);
        }
        self.append(transaction, Body::End);
        self.active.borrow_mut().remove(&transaction);
        Ok(())
    }
}

impl Mars {
    /// Makes a transfer. It is durable when this ends.
    pub async fn transfer(&self, work: Work) -> Result<(), StoreError> {
        self.host.work(host::TRANSACTION_NS).await;
        // the clock numbers transactions: in one slot the numbers only grow, even across power cuts
        let number = self.host.now_ns() / SLOTS * SLOTS + SLOTS + work.client as u64;
        let (mut writes, mut undo) = (Vec::new(), Vec::new());
        for (step, (place, length)) in work.places(&self.layout).into_iter().enumerate() {
            lock(&self.host, &self.locks, &work, step, number).await;
            self.pool.fetch(work.path, place.page).await?;
            self.pool.pin(place.page);
            let before = self.pool.bytes(place, length);
            let after = work.after(&before);
            self.pool.change_pinned(place, &after);
            undo.push((place, before));
            writes.push((place.address(), after));
        }
        let is_committed =
            !work.is_rolled_back && self.host.commit(work.path, self.atomic, number, &writes).await?;
        for (place, before) in undo.into_iter().rev() {
            if !is_committed {
                self.pool.change_pinned(place, &before);
            }
            self.pool.unpin(place.page);
        }
        work.transfer.records().into_iter().for_each(|record| self.locks.release(record, number));
        if !is_committed && !work.is_rolled_back {
            return Err(StoreError::Refused { request: number, status: 1 });
        }
        Ok(())
    }
}
