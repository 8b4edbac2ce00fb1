//! What transactions read and wrote, and whether this is equivalent to a serial execution.
//!
//! Each write first reads what it replaces, and each value is written once, so the versions of a record are a chain,
//! which gives an order. A history is serializable if this order has no cycle (Adya's direct serialization graph): the
//! writer of a value comes before those that read or replace it, and a reader of a value comes before the one that
//! replaces it.

use std::collections::{BTreeMap, BTreeSet};

/// A value: its writer. 0 stands for a missing record.
pub type Version = u64;

/// The work of one transaction.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its number, which it writes as the value.
    pub version: Version,
    /// What it found, by record.
    pub reads: BTreeMap<u8, Version>,
    /// The records that it wrote; it has read them.
    pub writes: BTreeSet<u8>,
    /// Whether its commit succeeded, or is unknown.
    pub acknowledged: bool,
}

/// Checks histories, and the store's contents after them. Returns what is wrong.
pub fn check(history: &[Done], last: &BTreeMap<u8, Version>) -> Result<(), String> {
    let by_version: BTreeMap<Version, &Done> = history.iter().map(|done| (done.version, done)).collect();
    let there = committed(history, last, &by_version)?;
    let mut next: BTreeMap<(u8, Version), Version> = BTreeMap::new();
    for done in &there {
        for record in &done.writes {
            let replaced = done.reads[record];
            if let Some(other) = next.insert((*record, replaced), done.version) {
                return Err(format!(
                    "{other} and {} both replaced {replaced} in record {record}",
                    done.version
                ));
            }
        }
    }
    let records: BTreeSet<u8> = there.iter().flat_map(|done| &done.writes).copied().collect();
    for record in records {
        let mut version = 0;
        while let Some(&following) = next.get(&(record, version)) {
            version = following;
        }
        let found = last.get(&record).copied().unwrap_or(0);
        if found != version {
            return Err(format!("record {record} is {found} in the end; {version} was written last"));
        }
    }
    let mut after: BTreeMap<Version, BTreeSet<Version>> = BTreeMap::new();
    for done in &there {
        for (record, read) in &done.reads {
            after.entry(*read).or_default().insert(done.version);
            if let Some(following) =
                next.get(&(*record, *read)).filter(|following| **following != done.version)
            {
                after.entry(done.version).or_default().insert(*following);
            }
        }
    }
    for versions in after.values_mut() {
        versions.remove(&0);
    }
    no_circle(&after)
}

/// The transactions that took effect: those acknowledged, and others whose values somebody saw.
fn committed<'a>(
    history: &'a [Done],
    last: &BTreeMap<u8, Version>,
    by_version: &BTreeMap<Version, &'a Done>,
) -> Result<Vec<&'a Done>, String> {
    let mut there: BTreeSet<Version> =
        history.iter().filter(|done| done.acknowledged).map(|done| done.version).collect();
    let mut seen: Vec<Version> = last.values().copied().collect();
    seen.extend(there.iter().flat_map(|version| by_version[version].reads.values().copied()));
    while let Some(version) = seen.pop() {
        if version == 0 {
            continue;
        }
        let done = by_version.get(&version).ok_or(format!("{version} was read, and nobody committed it"))?;
        if there.insert(version) {
            seen.extend(done.reads.values().copied());
        }
    }
    Ok(there.iter().map(|version| by_version[version]).collect())
}

fn no_circle(after: &BTreeMap<Version, BTreeSet<Version>>) -> Result<(), String> {
    let mut befores: BTreeMap<Version, usize> = BTreeMap::new();
    for (version, following) in after {
        befores.entry(*version).or_default();
        following.iter().for_each(|version| *befores.entry(*version).or_default() += 1);
    }
    let mut first: Vec<Version> =
        befores.iter().filter(|(_, count)| **count == 0).map(|(version, _)| *version).collect();
    while let Some(version) = first.pop() {
        befores.remove(&version);
        for following in after.get(&version).into_iter().flatten() {
            let count = befores.get_mut(following).expect("it comes after one that was there");
            *count -= 1;
            if *count == 0 {
                first.push(*following);
            }
        }
    }
    if befores.is_empty() { Ok(()) } else { Err(format!("in or behind a circle: {:?}", befores.keys())) }
}
