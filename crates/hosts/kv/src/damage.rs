//! What of a store is lost because its flash cannot be read, by the keys that its users know; and dropping it.

use std::collections::BTreeMap;

use tantalum::Device;

use crate::catalog::Catalog;
use crate::error::Error;
use crate::record::{Namespace, Order};
use crate::snapshot::Snapshot;
use crate::store::Store;
use crate::transaction::Transaction;

/// Keys of a hashed namespace listed at once.
const LISTED: usize = 1000;

impl Store {
    /// Whether a drive holds a store. Opening one on a drive that holds something else would delete its namespaces.
    pub fn is_on(device: &mut Device) -> bool {
        Catalog::is_on(device)
    }

    /// Reads every record. Returns what is lost: [`Error::Damaged`] for each key without its value, [`Error::DamagedIndex`]
    /// for keys that cannot be found at all.
    pub fn find_damage(&self) -> Result<Vec<Error>, Error> {
        let snapshot = self.snapshot()?;
        let mut lost = Vec::new();
        for (_, namespace, order) in snapshot.namespaces() {
            match order {
                Order::Hashed => hashed(&snapshot, namespace, &mut lost)?,
                Order::Ordered => {
                    for entry in snapshot.all(namespace)? {
                        note(entry, &mut lost)?;
                    }
                }
            }
        }
        Ok(lost)
    }

    /// Drops what [`Store::find_damage`] found: keys without values are deleted in one transaction for each namespace, and
    /// nodes that cannot be read are taken out of their index. What keys these had is not known any more, so values that no key
    /// names are deleted too. A value that has been written anew since stays. Snapshots go on to see what they saw, and to report
    /// what is lost of it. A full store has room for this. If it fails for one namespace, others may be done; call it again.
    pub fn drop_damaged(&self, damage: &[Error]) -> Result<(), Error> {
        let mut keys: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
        for error in damage {
            match error {
                Error::Damaged { namespace, key } => keys.entry(namespace).or_default().push(key),
                Error::DamagedIndex { namespace, .. } => drop(keys.entry(namespace).or_default()),
                _ => {}
            }
        }
        for (name, keys) in keys {
            let namespace = self.named(name)?;
            let is_index =
                |error: &Error| matches!(error, Error::DamagedIndex { namespace, .. } if namespace == name);
            if damage.iter().any(is_index) {
                self.mend_index(namespace)?;
            }
            self.transact(|tx| keys.iter().try_for_each(|key| drop_value(tx, namespace, key)))?;
        }
        Ok(())
    }
}

/// Deletes a key, unless its value can be read.
fn drop_value(tx: &mut Transaction, namespace: Namespace, key: &[u8]) -> Result<(), Error> {
    match tx.read_for_update(namespace, key) {
        Err(Error::Damaged { .. }) => tx.delete(namespace, key).map(drop),
        read => read.map(drop),
    }
}

fn hashed(snapshot: &Snapshot, namespace: Namespace, lost: &mut Vec<Error>) -> Result<(), Error> {
    let mut last = None;
    loop {
        // the last key is listed again
        let keys = snapshot.list(namespace, last.as_ref().map(AsRef::as_ref), LISTED)?;
        for key in keys.iter().filter(|key| Some(**key) != last) {
            note(snapshot.read(namespace, key), lost)?;
        }
        if keys.len() < LISTED {
            return Ok(());
        }
        last = keys.last().copied();
    }
}

fn note<T>(read: Result<T, Error>, lost: &mut Vec<Error>) -> Result<(), Error> {
    match read {
        Ok(_) => Ok(()),
        Err(error) if error.is_damage() => {
            lost.push(error);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
