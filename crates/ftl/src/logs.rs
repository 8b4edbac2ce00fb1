//! Hinted logs: which pages of a log are whole, and which hints still live.
//!
//! A transaction is whole when its slots, first to end, are all on flash from one attempt. The *whole run* of a
//! log is the unbroken sequence of whole transactions, attempt after attempt. A page in the whole run asserts its
//! home too, at its own version; so bringing it home needs no record.
//!
//! A hint *lives* until its log page is overwritten or its home takes the page or something newer. If its page is
//! not known to be in the whole run by then, the hint stays as evidence that the slot is there, without a claim to
//! the home: the transactions behind it need it. A page whose home has something newer by the time it is programmed
//! never claims it. Only hints that live or are evidence are copied along by garbage collection and kept in
//! checkpoints, and evidence without its home.
//!
//! A checkpoint keeps of every open log how far it is whole, also if none of its hints lives: the transactions that
//! follow continue a run whose pages recovery does not read any more.

use std::collections::{BTreeMap, BTreeSet};

use crate::canary::{self, Guard};
use crate::map::Map;
use crate::types::{Generation, HashMap, Hint, Lpn, Seq};

/// What is known of one attempt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attempt {
    /// The slot at which it starts.
    pub start: u32,
    /// The last slot of its part of the whole run, as far as it is established.
    pub known: Option<u32>,
    /// Pages on flash behind that: slot to (first slot of the transaction, whether it ends it).
    pub pages: BTreeMap<u32, (u32, bool)>,
}

/// The attempts of one generation.
pub type Attempts = BTreeMap<u32, Attempt>;

/// Extends what is known of the whole run by the pages that are there.
///
/// Attempts behind the first that does not start where the run ends stay unknown.
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

/// Whether a slot lies in the whole run, as far as it is known.
pub fn in_whole_run(attempts: &Attempts, attempt: u32, slot: u32) -> bool {
    attempts.get(&attempt).and_then(|attempt| attempt.known).is_some_and(|last| slot <= last)
}

/// A hint that lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Living {
    /// The hint. It names a home only while the home may still take the page by it.
    pub hint: Hint,
    /// The version of the log page.
    pub version: Seq,
}

#[derive(Clone, Debug, Default)]
struct Log {
    attempts: Attempts,
    attempt: u32,
    next_slot: u32,
    /// The turn of the last page, or of the beginning.
    used: u64,
}

impl Log {
    /// Whether pages may follow: not in one that recovery found.
    fn is_open(&self) -> bool {
        self.next_slot < u32::MAX
    }
}

/// Why a hinted page is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HintError {
    /// The generation was not begun since power came on, or was forgotten because too many others were.
    #[error("log generation {0} is not open")]
    UnknownGeneration(Generation),
    /// The slot does not follow.
    #[error(
        "attempt {attempt} slot {slot} (start {start}, first {first}) does not follow attempt {last_attempt}, whose next slot is {next_slot}"
    )]
    OutOfOrder {
        /// The attempt that came.
        attempt: u32,
        /// Its slot.
        slot: u32,
        /// Where it says its attempt starts.
        start: u32,
        /// Where it says its transaction starts.
        first: u32,
        /// The attempt before.
        last_attempt: u32,
        /// What would follow in it.
        next_slot: u32,
    },
}

/// Open logs that there may be. Each takes a few bytes of every checkpoint.
pub const OPEN_LOGS: usize = 256;

/// All hinted logs since power came on.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    living: HashMap<u32, Living>,
    of_home: HashMap<u32, Vec<Lpn>>,
    logs: BTreeMap<Generation, Log>,
    turns: u64,
}

impl Logs {
    /// Whether one more log can be opened only after another was forgotten.
    pub fn is_full(&self) -> bool {
        self.logs.len() >= OPEN_LOGS
    }

    /// Forgets the log that was used longest ago of those without living hints. Call this right after a checkpoint,
    /// while no page of a log waits in a cache: then nothing rests on what is forgotten. False if there is none.
    pub fn forget_idle(&mut self) -> bool {
        let used = self.living_generations();
        let idle = self.logs.iter().filter(|(generation, _)| !used.contains(generation));
        let Some(idle) = idle.min_by_key(|(_, log)| log.used).map(|(generation, _)| *generation) else {
            return false;
        };
        self.logs.remove(&idle);
        true
    }

    /// Opens a generation.
    pub fn begin(&mut self, generation: Generation) {
        self.turns += 1;
        self.logs.insert(generation, Log { next_slot: 1, used: self.turns, ..Log::default() });
    }

    /// What recovery found of a log's attempts. Nothing more is accepted for it.
    pub fn found(&mut self, generation: Generation, attempts: Attempts) {
        self.logs.insert(generation, Log { attempts, attempt: u32::MAX, next_slot: u32::MAX, used: 0 });
    }

    /// Living hints.
    pub fn living(&self) -> impl Iterator<Item = (Lpn, &Living)> {
        self.living.iter().map(|(&lpn, living)| (Lpn(lpn), living))
    }

    fn living_generations(&self) -> BTreeSet<Generation> {
        self.living.values().map(|living| living.hint.generation).collect()
    }

    /// How many hints live.
    pub fn living_count(&self) -> usize {
        self.living.len()
    }

    /// The log pages whose hints claim a home.
    pub fn claims(&self, home: Lpn) -> &[Lpn] {
        self.of_home.get(&home.0).map_or(&[], Vec::as_slice)
    }

    /// The living hint of a log page.
    pub fn hint(&self, log_lpn: Lpn) -> Option<&Living> {
        self.living.get(&log_lpn.0)
    }

    /// Checks that a page follows the one before it, and notes it.
    pub fn accept(&mut self, hint: &Hint) -> Result<(), HintError> {
        let log = self.logs.get_mut(&hint.generation).ok_or(HintError::UnknownGeneration(hint.generation))?;
        let next = hint.attempt == log.attempt && hint.slot == log.next_slot;
        let fresh = hint.attempt > log.attempt && hint.slot == hint.start && hint.start <= log.next_slot;
        // that the home exists was checked with the command
        if !hint.is_possible(u32::MAX) || !(next || fresh) {
            return Err(HintError::OutOfOrder {
                attempt: hint.attempt,
                slot: hint.slot,
                start: hint.start,
                first: hint.first,
                last_attempt: log.attempt,
                next_slot: log.next_slot,
            });
        }
        log.attempt = hint.attempt;
        log.next_slot = hint.slot + 1;
        self.turns += 1;
        log.used = self.turns;
        Ok(())
    }

    /// A hinted page was programmed: its hint lives. It names no home if that has something newer.
    pub fn programmed(&mut self, map: &mut Map, log_lpn: Lpn, hint: Hint, version: Seq) {
        if let Some(log) = self.logs.get_mut(&hint.generation) {
            let (number, start) = hint.attempt();
            let attempt = log.attempts.entry(number).or_default();
            attempt.start = start;
            attempt.pages.insert(hint.slot, (hint.first, hint.end));
        }
        self.living.insert(log_lpn.0, Living { hint, version });
        map.set_hinted(log_lpn, true);
        if let Some(home) = hint.home {
            self.of_home.entry(home.0).or_default().push(log_lpn);
            map.set_hinted(home, true);
        }
    }

    /// `lpn` took `version`: older hints for the home it is lose their claim, and the hint of the log page it was
    /// dies. The home of the latter, if it had a claim, is returned with the hint's version: nothing newer is
    /// recorded for it.
    pub fn superseded(&mut self, map: &mut Map, lpn: Lpn, version: Seq) -> Option<(Lpn, Seq)> {
        self.home_taken(map, lpn, version);
        let living = self.living.get(&lpn.0).copied().filter(|living| living.version < version)?;
        let unsettled = self.end_claim(map, lpn).map(|home| (home, living.version));
        self.living.remove(&lpn.0);
        self.update_flag(map, lpn);
        unsettled
    }

    /// `home` took `version`: older hints lose their claim to it.
    pub fn home_taken(&mut self, map: &mut Map, home: Lpn, version: Seq) {
        for log_lpn in self.of_home.get(&home.0).cloned().unwrap_or_default() {
            let living = self.living[&log_lpn.0];
            if living.version <= version {
                self.end_claim(map, log_lpn);
                self.extend(living.hint.generation);
                if self.is_whole(&living.hint) {
                    self.living.remove(&log_lpn.0);
                    self.update_flag(map, log_lpn);
                }
            }
        }
    }

    /// Ends a hint's claim to its home, which is returned if there was one.
    fn end_claim(&mut self, map: &mut Map, log_lpn: Lpn) -> Option<Lpn> {
        let living = self.living.get_mut(&log_lpn.0)?;
        let home = living.hint.home.take()?;
        let logs = self.of_home.get_mut(&home.0).expect("a hint with a claim is listed under its home");
        logs.retain(|other| *other != log_lpn);
        if logs.is_empty() {
            self.of_home.remove(&home.0);
        }
        self.update_flag(map, home);
        Some(home)
    }

    /// Forgets evidence that is no longer needed, because the whole run has come that far.
    pub fn settle_evidence(&mut self, map: &mut Map) {
        self.living_generations().into_iter().for_each(|generation| self.extend(generation));
        let settled: Vec<u32> = self
            .living
            .iter()
            .filter(|(_, living)| living.hint.home.is_none() && self.is_whole(&living.hint))
            .map(|(lpn, _)| *lpn)
            .collect();
        for lpn in settled {
            self.living.remove(&lpn);
            self.update_flag(map, Lpn(lpn));
        }
    }

    fn update_flag(&self, map: &mut Map, lpn: Lpn) {
        map.set_hinted(lpn, self.living.contains_key(&lpn.0) || self.of_home.contains_key(&lpn.0));
    }

    /// Whether a page lies in its log's whole run. Call [`Logs::extend`] first.
    pub fn is_whole(&self, hint: &Hint) -> bool {
        let log = self.logs.get(&hint.generation);
        log.is_some_and(|log| in_whole_run(&log.attempts, hint.attempt().0, hint.slot))
    }

    /// Extends what is known of a log's whole run.
    pub fn extend(&mut self, generation: Generation) {
        if let Some(log) = self.logs.get_mut(&generation) {
            extend_whole_run(&mut log.attempts);
        }
    }

    /// The whole run of a log: each attempt with its last slot.
    pub fn whole_run(&mut self, generation: Generation) -> Vec<(u32, u32)> {
        self.extend(generation);
        let log = self.logs.get(&generation);
        log.into_iter()
            .flat_map(|log| &log.attempts)
            .filter_map(|(&number, attempt)| Some((number, attempt.known?)))
            .collect()
    }

    /// What a checkpoint keeps of the whole runs: generation, attempt, last slot. Of each open log that is the end of
    /// the run, where the next transaction goes on, and the attempts of hints that live.
    pub fn runs(&mut self) -> Vec<(Generation, u32, u32)> {
        let living: BTreeSet<(Generation, u32)> =
            self.living.values().map(|living| (living.hint.generation, living.hint.attempt().0)).collect();
        let mut runs = Vec::new();
        for (&generation, log) in self.logs.iter_mut().filter(|(_, log)| log.is_open()) {
            extend_whole_run(&mut log.attempts);
            let known = |(&number, attempt): (&u32, &Attempt)| Some((generation, number, attempt.known?));
            let run = log.attempts.iter().filter_map(known);
            let end = run.clone().next_back().filter(|_| !canary::out(Guard::RunsOfSettledLogs));
            runs.extend(run.filter(|&(_, number, _)| {
                living.contains(&(generation, number)) || end.is_some_and(|end| end.1 == number)
            }));
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(start: u32, pages: &[(u32, u32, bool)]) -> Attempt {
        Attempt {
            start,
            known: None,
            pages: pages.iter().map(|&(slot, first, end)| (slot, (first, end))).collect(),
        }
    }

    fn known(attempts: &Attempts) -> Vec<Option<u32>> {
        attempts.values().map(|attempt| attempt.known).collect()
    }

    #[test]
    fn run_ends_before_a_gap() {
        let mut attempts = Attempts::from([(0, attempt(1, &[(1, 1, false), (2, 1, true), (4, 3, true)]))]);
        extend_whole_run(&mut attempts);
        assert_eq!(known(&attempts), [Some(2)]);
        attempts.get_mut(&0).unwrap().pages.insert(3, (3, false));
        extend_whole_run(&mut attempts);
        assert_eq!(known(&attempts), [Some(4)]);
    }

    #[test]
    fn rolled_back_pages_are_no_part_of_the_next_attempt() {
        // attempt 0 spilled slots 3 and 4 and rolled back; attempt 1 commits slot 3 alone
        let first = attempt(1, &[(1, 1, true), (2, 2, true), (3, 3, false), (4, 3, false)]);
        let mut attempts = Attempts::from([(0, first), (1, attempt(3, &[(3, 3, true)]))]);
        extend_whole_run(&mut attempts);
        assert_eq!(known(&attempts), [Some(2), Some(3)]);
        assert!(!in_whole_run(&attempts, 0, 3));
        assert!(in_whole_run(&attempts, 1, 3));
    }

    #[test]
    fn an_attempt_behind_a_gap_stays_unknown() {
        let mut attempts =
            Attempts::from([(0, attempt(1, &[(1, 1, true)])), (1, attempt(4, &[(4, 4, true)]))]);
        extend_whole_run(&mut attempts);
        assert_eq!(known(&attempts), [Some(1), None]);
    }

    #[test]
    fn slots_must_follow() {
        let hint = |attempt, start, first, slot| Hint {
            generation: Generation(5),
            attempt,
            start,
            first,
            slot,
            end: false,
            home: None,
        };
        let mut logs = Logs::default();
        assert_eq!(logs.accept(&hint(0, 1, 1, 1)), Err(HintError::UnknownGeneration(Generation(5))));
        logs.begin(Generation(5));
        assert!(logs.accept(&hint(0, 1, 1, 2)).is_err(), "the first slot is 1");
        logs.accept(&hint(0, 1, 1, 1)).unwrap();
        logs.accept(&hint(0, 1, 1, 2)).unwrap();
        assert!(logs.accept(&hint(0, 1, 1, 2)).is_err(), "a slot comes once in an attempt");
        assert!(logs.accept(&hint(1, 4, 4, 4)).is_err(), "an attempt leaves no gap");
        logs.accept(&hint(1, 2, 2, 2)).unwrap();
        assert!(logs.accept(&hint(0, 1, 1, 3)).is_err(), "an earlier attempt is over");
        logs.accept(&hint(1, 2, 2, 3)).unwrap();
    }
}
