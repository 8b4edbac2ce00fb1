//! Open transactions (X-FTL): pages on flash that belong only to their transaction.
//!
//! Their spare areas assert nothing; the commit's journal records do.

use std::collections::BTreeMap;

use tantalum_nand::Ppn;

use crate::types::{Lpn, Seq, TxId};

/// A page of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxPage {
    /// Its place.
    pub ppn: Ppn,
    /// The version in its spare area. It is valid if nothing newer has been written since.
    pub version: Seq,
    /// Where the logical page was when this was written, and how often that block had been erased: if it still is there,
    /// nothing newer was written.
    pub over: Option<(Ppn, u32)>,
}

/// All open transactions.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    open: BTreeMap<TxId, BTreeMap<Lpn, TxPage>>,
    units: u32,
}

impl Transactions {
    /// How many are open.
    pub fn count(&self) -> usize {
        self.open.len()
    }

    /// Units that they hold in total.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Opens one.
    pub fn begin(&mut self, tx: TxId) {
        let open = self.open.insert(tx, BTreeMap::new());
        debug_assert!(open.is_none(), "transaction {tx:?} is open already");
    }

    /// Whether it is open.
    pub fn is_open(&self, tx: TxId) -> bool {
        self.open.contains_key(&tx)
    }

    /// The open ones.
    pub fn open(&self) -> impl Iterator<Item = TxId> {
        self.open.keys().copied()
    }

    /// The logical pages that a transaction has written.
    pub fn lpns(&self, tx: TxId) -> impl Iterator<Item = Lpn> {
        self.open.get(&tx).into_iter().flat_map(|pages| pages.keys().copied())
    }

    /// The place of a transaction's page.
    pub fn page(&self, tx: TxId, lpn: Lpn) -> Option<TxPage> {
        self.open.get(&tx)?.get(&lpn).copied()
    }

    /// Adds a page, and returns the place of the one that it replaces.
    pub fn put(&mut self, tx: TxId, lpn: Lpn, page: TxPage) -> Option<Ppn> {
        let pages = self.open.get_mut(&tx).expect("the transaction is open");
        let old = pages.insert(lpn, page);
        debug_assert!(
            old.is_none_or(|old| old.version < page.version && old.ppn != page.ppn),
            "transaction {tx:?} replaced lpn {lpn}, {old:?}, by {page:?}"
        );
        self.units += u32::from(old.is_none());
        old.map(|old| old.ppn)
    }

    /// Garbage collection moved a page.
    pub fn moved(&mut self, tx: TxId, lpn: Lpn, to: Ppn) {
        let page = self.open.get_mut(&tx).and_then(|pages| pages.get_mut(&lpn));
        page.expect("a claimed place belongs to an open transaction").ppn = to;
    }

    /// Closes one and returns its pages.
    pub fn take(&mut self, tx: TxId) -> Option<BTreeMap<Lpn, TxPage>> {
        let pages = self.open.remove(&tx)?;
        debug_assert!(
            self.units as usize >= pages.len(),
            "transaction {tx:?} holds {} units, of {} in all",
            pages.len(),
            self.units
        );
        self.units -= pages.len() as u32;
        Some(pages)
    }
}
