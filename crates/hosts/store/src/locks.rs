//! Locks on records: exclusive, granted in the order of the requests, held to the end of a transaction.
//!
//! Transactions lock tables in one order, and one record of each, so there are no deadlocks.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use crate::world::Host;

/// A record: its table and number.
pub(crate) type RecordId = (u8, u64);

/// For each record the transaction that holds it, first in line, and those that wait for it.
#[derive(Default)]
pub(crate) struct Locks {
    lines: RefCell<HashMap<RecordId, VecDeque<u64>>>,
}

impl Locks {
    /// Waits until a transaction has locked a record.
    pub async fn acquire(&self, host: &Host, record: RecordId, transaction: u64) {
        self.lines.borrow_mut().entry(record).or_default().push_back(transaction);
        let is_first = || self.lines.borrow()[&record].front() == Some(&transaction);
        host.until(|| is_first().then_some(())).await;
    }

    /// A transaction releases a record, and the next in line gets it.
    pub fn release(&self, record: RecordId, transaction: u64) {
        let mut lines = self.lines.borrow_mut();
        let line = lines.get_mut(&record).expect("a lock that is held has a line");
        let holder = line.pop_front();
        assert_eq!(holder, Some(transaction), "who gives {record:?} back holds it");
        if line.is_empty() {
            lines.remove(&record);
        }
    }
}
