//! What `tantalum check` adds for a key-value store: which of its records are lost, by namespace and key, and dropping them.

use std::path::Path;

use tantalum::Device;
use tantalum::check::{Check, CheckFinding, CheckedPart, Remedy};
use tantalum_kv::{Error, Store};

const STORE: &str = "namespaces of the key-value store";

/// Checks the store of a drive, if it holds one, and returns what is lost. What opening the store recovers stays in memory.
/// Returns the drive if it holds something else.
pub fn add_to(check: &mut Check, device: Option<Device>) -> (Vec<Error>, Option<Device>) {
    let Some(mut device) = device else { return (Vec::new(), None) };
    if !Store::is_on(&mut device) {
        return (Vec::new(), Some(device));
    }
    let examined = Store::over(device, Store::options()).and_then(|store| {
        let namespaces = store.namespaces()?.len() as u64;
        Ok((namespaces, store.find_damage()?))
    });
    let finding = |detail: String, remedy| CheckFinding { part: STORE, detail, remedy };
    match examined {
        Ok((checked, lost)) => {
            check.parts.push(CheckedPart { part: STORE, checked });
            check.findings.extend(lost.iter().map(|error| finding(error.to_string(), Remedy::Repair)));
            (lost, None)
        }
        Err(error) => {
            check.findings.push(finding(error.to_string(), Remedy::None));
            (Vec::new(), None)
        }
    }
}

/// Drops what is lost. Returns what was done.
pub fn drop_lost(path: &Path, lost: &[Error]) -> Result<Vec<String>, Error> {
    let store = Store::open(path)?;
    store.drop_damaged(lost)?;
    store.close()?;
    Ok(lost.iter().map(dropped).collect())
}

fn dropped(lost: &Error) -> String {
    match lost {
        Error::Damaged { namespace, key } => {
            format!("dropped key \"{}\" of namespace {namespace:?}, whose value was lost", key.escape_ascii())
        }
        other => format!("took out of that index what cannot be read: {other}"),
    }
}
