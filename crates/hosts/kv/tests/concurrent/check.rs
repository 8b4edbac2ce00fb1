//! Checks that what was seen matches what was done: applies the transactions one after the other, in the order in which they
//! held all their locks, to a map in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;
/// What a transaction changed; `None` for what it deleted.
pub type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;
pub type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Something that a transaction saw or did.
#[derive(Clone, Debug)]
pub enum Event {
    Read(Vec<u8>, Option<Vec<u8>>),
    Wrote(Vec<u8>, Option<Vec<u8>>),
    /// Forwards or backwards; all of a range, or as much as was requested.
    Scanned {
        bounds: Bounds,
        backwards: bool,
        found: Vec<(Vec<u8>, Vec<u8>)>,
        is_all: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// When its commit had returned.
    Committed(u64),
    /// It aborted, or was refused: it changes nothing.
    Aborted,
    /// Power failed during its commit.
    Unknown,
}

/// A transaction, with when it held all its locks.
#[derive(Clone, Debug)]
pub struct Done {
    pub at: u64,
    pub events: Vec<Event>,
    pub outcome: Outcome,
}

impl Done {
    pub fn writes(&self) -> Writes {
        let writes = self.events.iter().filter_map(|event| match event {
            Event::Wrote(key, value) => Some((key.clone(), value.clone())),
            _ => None,
        });
        writes.collect()
    }
}

/// What a snapshot saw, with when it was opened: between these times.
#[derive(Clone, Debug)]
pub struct Seen {
    pub from: u64,
    pub to: u64,
    pub map: Map,
}

/// Checks a life that began with `before`. Returns what is certainly there after it, and what may be.
pub fn check(before: &Map, history: &mut [Done]) -> Result<(Map, Vec<Writes>), String> {
    history.sort_by_key(|done| done.at);
    let (mut map, mut unknown) = (before.clone(), Vec::new());
    for done in history.iter() {
        let mut after = map.clone();
        for event in &done.events {
            replay(&mut after, event).map_err(|wrong| format!("transaction {}: {wrong}", done.at))?;
        }
        match done.outcome {
            Outcome::Committed(_) => map = after,
            Outcome::Aborted => {}
            Outcome::Unknown => unknown.push(done.writes()),
        }
    }
    Ok((map, unknown))
}

fn replay(map: &mut Map, event: &Event) -> Result<(), String> {
    match event {
        Event::Wrote(key, Some(value)) => drop(map.insert(key.clone(), value.clone())),
        Event::Wrote(key, None) => drop(map.remove(key)),
        Event::Read(key, found) if map.get(key) == found.as_ref() => {}
        Event::Read(key, found) => {
            let [found, is] = [found.as_ref(), map.get(key)].map(|value| value.map(|value| number(value)));
            return Err(format!("read {found:?} at {}, there is {is:?}", shown(key)));
        }
        Event::Scanned { bounds, backwards, found, is_all } => {
            let expected = range(map, bounds, *backwards);
            let expected =
                if *is_all { &expected[..] } else { expected.get(..found.len()).unwrap_or(&expected) };
            if expected != found {
                let keys = |all: &[(Vec<u8>, Vec<u8>)]| -> Vec<String> {
                    all.iter().map(|(key, value)| format!("{}={}", shown(key), number(value))).collect()
                };
                return Err(format!("scanned {:?}, there are {:?}", keys(found), keys(expected)));
            }
        }
    }
    Ok(())
}

fn range(map: &Map, bounds: &Bounds, backwards: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    if is_empty(bounds) {
        return Vec::new();
    }
    let all = map.range(bounds.clone()).map(|(key, value)| (key.clone(), value.clone()));
    if backwards { all.rev().collect() } else { all.collect() }
}

pub fn is_empty(bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => {
            from >= to
        }
        _ => false,
    }
}

/// Whether a store has what is certainly there, plus some of what may be: each all or nothing.
pub fn is_possible(found: &Map, certain: &Map, unknown: &[Writes]) -> bool {
    (0..1_u32 << unknown.len()).any(|some| {
        let mut map = certain.clone();
        let there = unknown.iter().enumerate().filter(|(number, _)| some >> number & 1 == 1);
        for (key, value) in there.flat_map(|(_, writes)| writes) {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
        map == *found
    })
}

/// Every value begins with when its transaction wrote it.
pub fn number(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

/// Whether a snapshot saw all of each commit or nothing, all that had returned, and nothing that began later. What a
/// missing key implies about commits is ignored: it may have been deleted before or after.
pub fn check_snapshot(seen: &Seen, history: &[Done]) -> Result<(), String> {
    // who wrote what it saw: values are written once
    let writers: BTreeMap<(&[u8], u64), u64> = history
        .iter()
        .flat_map(|done| done.events.iter().map(move |event| (done.at, event)))
        .filter_map(|(at, event)| match event {
            Event::Wrote(key, Some(value)) => Some(((&key[..], number(value)), at)),
            _ => None,
        })
        .collect();
    let position = |key: &[u8]| {
        let value = seen.map.get(key)?;
        // not of this life: there before all
        Some(writers.get(&(key, number(value))).copied().unwrap_or(0))
    };
    for done in history {
        let positions: Vec<u64> = done.writes().keys().filter_map(|key| position(key)).collect();
        let (newer, older) =
            (positions.iter().any(|at| *at >= done.at), positions.iter().any(|at| *at < done.at));
        let at = done.at;
        match done.outcome {
            Outcome::Committed(_) if newer && older => return Err(format!("half of {at}")),
            Outcome::Committed(returned) if older && returned < seen.from => {
                return Err(format!("{at} had returned, and is not seen"));
            }
            Outcome::Committed(_) if newer && at > seen.to && positions.contains(&at) => {
                return Err(format!("{at} began later, and is seen"));
            }
            Outcome::Aborted if positions.contains(&at) => {
                return Err(format!("{at} did not commit, and is seen"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn shown(key: &[u8]) -> String {
    format!("{}.. ({})", key[..key.len().min(8)].escape_ascii(), key.len())
}
