//! Whole runs: how far the attempts of a hinted log are complete.

use std::collections::BTreeMap;

/// The state of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attempt {
    /// The slot at which it starts.
    pub start: u32,
    /// The last slot of its part of the whole run, as far as known.
    pub known: Option<u32>,
    /// Pages on flash after that: slot to (first slot of the transaction, whether it ends it).
    pub pages: BTreeMap<u32, (u32, bool)>,
}

/// The attempts of one generation.
pub type Attempts = BTreeMap<u32, Attempt>;

/// Extends the known whole run by the pages that are there.
///
/// Attempts after the first one that does not start where the run ends stay unknown.
pub fn extend_whole_run(attempts: &mut Attempts) {
    let mut last = 0;
    for attempt in attempts.values_mut() {
        match attempt.known {
            Some(known) => last = known,
            None if attempt.start != last + 1 => break,
            None => {}
        }
        let mut slot = last + 1;
        while let Some(&(first, end)) = attempt.pages.get(&slot)
            && first == last + 1
        {
            if end {
                last = slot;
            }
            slot += 1;
        }
        attempt.known = Some(last);
        attempt.pages = attempt.pages.split_off(&(last + 1));
    }
}

/// Whether a slot is in the known whole run.
pub fn in_whole_run(attempts: &Attempts, attempt: u32, slot: u32) -> bool {
    attempts.get(&attempt).and_then(|attempt| attempt.known).is_some_and(|last| slot <= last)
}
