//! The drive's open transactions, and what each has written.
//!
//! Invariant: a unit that a transaction has written is listed until the transaction ends, so that its page in the cache
//! and its place in the file outlive it. A transaction whose commit failed after it had sent inodes is never committed: the
//! drive keeps these as pages of the transaction, and a later commit would bring them back over newer ones.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::TxId;
use tantalum_filesystem::FileId;

use crate::error::VolumeError;

/// The open transactions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transactions(BTreeMap<TxId, Transaction>);

#[derive(Clone, Debug, Default)]
struct Transaction {
    units: BTreeSet<(FileId, u32)>,
    /// A commit sent inodes, and failed.
    has_inodes: bool,
}

impl Transactions {
    pub fn begin(&mut self, tx: TxId) {
        let known = self.0.insert(tx, Transaction::default());
        assert!(known.is_none(), "{tx:?} was opened while it was open, with {known:?}");
    }

    /// Fails if the transaction is not open.
    pub fn check(&self, tx: TxId) -> Result<(), VolumeError> {
        self.open(tx).map(drop)
    }

    /// The transaction has written this unit of a file.
    pub fn note(&mut self, tx: TxId, file: FileId, unit: u32) {
        self.0.get_mut(&tx).expect("it is open").units.insert((file, unit));
    }

    /// Whether the transaction has written this unit of a file.
    pub fn has_written(&self, tx: TxId, file: FileId, unit: u32) -> Result<bool, VolumeError> {
        Ok(self.open(tx)?.units.contains(&(file, unit)))
    }

    /// The unit after the last one of the file that the transaction has written.
    pub fn written_end(&self, tx: TxId, file: FileId) -> Result<u64, VolumeError> {
        Ok(self.open(tx)?.units_of(file).next_back().map_or(0, |unit| u64::from(unit) + 1))
    }

    /// The files in which a transaction that can be committed has written.
    pub fn files_to_commit(&self, tx: TxId) -> Result<BTreeSet<FileId>, VolumeError> {
        let transaction = self.open(tx)?;
        if transaction.has_inodes {
            return Err(VolumeError::CommitFailed { tx });
        }
        Ok(transaction.units.iter().map(|&(file, _)| file).collect())
    }

    /// A commit is about to send inodes.
    pub fn note_inodes(&mut self, tx: TxId) {
        self.0.get_mut(&tx).expect("it is open").has_inodes = true;
    }

    /// The transaction has ended, and had written these units.
    pub fn end(&mut self, tx: TxId) -> impl Iterator<Item = (FileId, u32)> + use<> {
        self.0.remove(&tx).expect("it is open").units.into_iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn first(&self) -> Option<TxId> {
        self.0.first_key_value().map(|(&tx, _)| tx)
    }

    /// Whether any transaction has written this unit of a file.
    pub fn any_has_written(&self, file: FileId, unit: u32) -> bool {
        self.0.values().any(|open| open.units.contains(&(file, unit)))
    }

    /// Fails if an open transaction other than `own` has written to the file.
    pub fn check_none(&self, file: FileId, own: Option<TxId>) -> Result<(), VolumeError> {
        let others = self.0.iter().filter(|&(&tx, _)| Some(tx) != own);
        for (&tx, transaction) in others {
            if transaction.units_of(file).next().is_some() {
                return Err(VolumeError::InTransaction { file, tx });
            }
        }
        Ok(())
    }

    /// All that they have written, as (transaction, file, unit).
    pub fn units(&self) -> impl Iterator<Item = (TxId, FileId, u32)> {
        self.0.iter().flat_map(|(&tx, open)| open.units.iter().map(move |&(file, unit)| (tx, file, unit)))
    }

    fn open(&self, tx: TxId) -> Result<&Transaction, VolumeError> {
        self.0.get(&tx).ok_or(VolumeError::UnknownTransaction(tx))
    }
}

impl Transaction {
    /// Its units of one file, in order.
    fn units_of(&self, file: FileId) -> impl DoubleEndedIterator<Item = u32> {
        self.units.range((file, 0)..=(file, u32::MAX)).map(|&(_, unit)| unit)
    }
}
