//! Hinted logs: which pages of a log are whole, and which of them claim their homes.
//!
//! A transaction is whole when its slots, first to end, are all on flash from one attempt. The *whole run* of a log is
//! the unbroken sequence of whole transactions, attempt after attempt. A page in the whole run also asserts its home,
//! at its own version; so bringing it home needs no record.
//!
//! A page *claims* its home from the moment the drive has it, in the cache or on flash, until
//! - the home takes a version that is not older: the greater version wins, so nothing need be recorded; or
//! - the page's own unit changes: then a journal record ends the claim, because the page may be read again after a cut.
//!
//! A checkpoint has every claim that stands, including those of pages that wait in the cache. Afterwards, a claim as
//! old as the checkpoint counts only if it is among these: the checkpoint stores no versions, so the claim could not
//! lose to what the home has.
//!
//! A hint *lives* as long as its page is in its unit and the hint may be needed: either it claims a home, or its page
//! is not yet known to be in the whole run and later transactions may need it there. Garbage collection copies only
//! living hints.
//!
//! For every open log, even one without living hints, a checkpoint records how far it is whole: the transactions that
//! follow continue a run whose pages recovery no longer reads.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_canaries::guard;

use super::l2p::Map;
use super::runs::{Attempt, Attempts, extend_whole_run, in_whole_run};
use crate::types::{Generation, HashMap, Hint, Lpn, Seq};

/// Maximum number of open logs. Each takes a few bytes of every checkpoint.
pub const OPEN_LOGS: usize = 256;

/// A hint that lives, or that waits with its page in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Living {
    /// The hint. It names a home only while it claims it.
    pub hint: Hint,
    /// The version of the log page.
    pub version: Seq,
}

/// A claim that ended although its home has nothing newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndedClaim {
    /// The home.
    pub home: Lpn,
    /// The version of the log page.
    pub version: Seq,
}

#[derive(Clone, Debug, Default)]
struct Log {
    attempts: Attempts,
    attempt: u32,
    /// The slot at which the attempt starts.
    start: u32,
    next_slot: u32,
    /// The last slot of the last transaction that has ended.
    ended: u32,
    /// The turn of the last page, or of the beginning.
    used: u64,
}

impl Log {
    /// Whether pages may follow; false for an attempt that recovery found.
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
        "attempt {attempt} slot {slot} (start {start}, first {first}) does not follow: expected slot {next_slot} of attempt {last_attempt}, or the first slot of another attempt, in a transaction that begins at slot {begins}"
    )]
    OutOfOrder {
        /// The page's attempt.
        attempt: u32,
        /// Its slot.
        slot: u32,
        /// The start of its attempt, as it states.
        start: u32,
        /// The start of its transaction, as it states.
        first: u32,
        /// The previous attempt.
        last_attempt: u32,
        /// The next slot in it.
        next_slot: u32,
        /// The start of the current transaction: after the last one that ended.
        begins: u32,
    },
}

/// All hinted logs since power came on.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    /// By the unit of the page.
    living: HashMap<u32, Living>,
    /// Pages that wait in the cache, by their units.
    waiting: HashMap<u32, Living>,
    /// The pages that claim each home.
    of_home: HashMap<u32, Vec<Claimant>>,
    logs: BTreeMap<Generation, Log>,
    turns: u64,
}

/// A page that claims a home: its unit and its version, because another one may wait for the same unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claimant {
    log_lpn: Lpn,
    version: Seq,
}

impl Logs {
    /// Whether another log can be opened only after one is forgotten.
    pub fn is_full(&self) -> bool {
        self.logs.len() >= OPEN_LOGS
    }

    /// Forgets the least recently used log without living hints. Call this right after a checkpoint, while no log page
    /// waits in a cache: then nothing depends on what is forgotten. False if there is none.
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
        debug_assert!(!self.logs.contains_key(&generation), "log generation {generation} is open already");
        self.turns += 1;
        self.logs.insert(generation, Log { start: 1, next_slot: 1, used: self.turns, ..Log::default() });
    }

    /// Attempts of a log that recovery found. No more pages are accepted for it.
    pub fn found(&mut self, generation: Generation, attempts: Attempts) {
        self.logs
            .insert(generation, Log { attempts, attempt: u32::MAX, next_slot: u32::MAX, ..Log::default() });
    }

    /// Living hints.
    pub fn living(&self) -> impl Iterator<Item = (Lpn, &Living)> {
        self.living.iter().map(|(&lpn, living)| (Lpn(lpn), living))
    }

    /// Hints whose pages wait in the cache.
    pub fn waiting(&self) -> impl Iterator<Item = (Lpn, &Living)> {
        self.waiting.iter().map(|(&lpn, waiting)| (Lpn(lpn), waiting))
    }

    fn living_generations(&self) -> BTreeSet<Generation> {
        self.living.values().map(|living| living.hint.generation).collect()
    }

    /// Number of hints that live or wait.
    pub fn count(&self) -> usize {
        self.living.len() + self.waiting.len()
    }

    /// Whether a page claims a home.
    pub fn is_claimed(&self, home: Lpn) -> bool {
        self.of_home.contains_key(&home.0)
    }

    /// Homes that pages claim.
    pub fn claimed_homes(&self) -> impl Iterator<Item = Lpn> + '_ {
        self.of_home.keys().map(|home| Lpn(*home))
    }

    /// The greatest version at which a page claims a home.
    pub fn newest_claim(&self, home: Lpn) -> Option<Seq> {
        self.of_home.get(&home.0)?.iter().map(|claimant| claimant.version).max()
    }

    /// Whether a page of this unit and version claims a home.
    pub fn claims(&self, home: Lpn, log_lpn: Lpn, version: Seq) -> bool {
        self.of_home.get(&home.0).is_some_and(|claimants| claimants.contains(&Claimant { log_lpn, version }))
    }

    /// The living hint of a log page.
    pub fn hint(&self, log_lpn: Lpn) -> Option<&Living> {
        self.living.get(&log_lpn.0)
    }

    /// Checks that a page follows the previous one.
    pub fn check(&self, hint: &Hint) -> Result<(), HintError> {
        let log = self.logs.get(&hint.generation).ok_or(HintError::UnknownGeneration(hint.generation))?;
        let begins = log.ended + 1;
        let next = (hint.attempt, hint.start, hint.slot) == (log.attempt, log.start, log.next_slot);
        let fresh = hint.attempt > log.attempt && (hint.start, hint.slot) == (begins, begins);
        // the command's checks cover whether the home exists
        if !hint.is_possible(u32::MAX) || !(next || fresh) || hint.first != begins {
            return Err(HintError::OutOfOrder {
                attempt: hint.attempt,
                slot: hint.slot,
                start: hint.start,
                first: hint.first,
                last_attempt: log.attempt,
                next_slot: log.next_slot,
                begins,
            });
        }
        Ok(())
    }

    /// The drive has a page that passed [`Logs::check`].
    pub fn accept(&mut self, hint: &Hint) {
        debug_assert_eq!(self.check(hint), Ok(()), "a page was accepted that does not follow");
        let log = self.logs.get_mut(&hint.generation).expect("the page was checked");
        (log.attempt, log.start, log.next_slot) = (hint.attempt, hint.start, hint.slot + 1);
        if hint.end {
            log.ended = hint.slot;
        }
        self.turns += 1;
        log.used = self.turns;
    }

    /// A log page waits in the cache: it claims its home from now on.
    pub fn unit_cached(&mut self, map: &mut Map, log_lpn: Lpn, hint: Hint, version: Seq) {
        self.unit_dropped(map, log_lpn);
        self.waiting.insert(log_lpn.0, Living { hint, version });
        self.begin_claim(map, log_lpn, &hint, version);
    }

    /// A page that waited for a unit is dropped before it was on flash.
    pub fn unit_dropped(&mut self, map: &mut Map, log_lpn: Lpn) {
        if let Some(Living { hint: Hint { home: Some(home), .. }, version }) = self.waiting.remove(&log_lpn.0)
        {
            self.remove_claimant(map, home, Claimant { log_lpn, version });
        }
    }

    /// A hinted page was programmed, and its hint lives. It claims its home if it did so while it waited, or did not
    /// wait.
    pub fn programmed(&mut self, map: &mut Map, log_lpn: Lpn, hint: Hint, version: Seq) {
        if let Some(log) = self.logs.get_mut(&hint.generation) {
            let (number, start) = hint.attempt();
            let attempt = log.attempts.entry(number).or_default();
            attempt.start = start;
            attempt.pages.insert(hint.slot, (hint.first, hint.end));
        }
        let living = match self.waiting.get(&log_lpn.0) {
            Some(waiting) if waiting.version == version => {
                self.waiting.remove(&log_lpn.0).expect("it was just there")
            }
            _ => {
                self.begin_claim(map, log_lpn, &hint, version);
                Living { hint, version }
            }
        };
        let replaced = self.living.insert(log_lpn.0, living);
        debug_assert!(replaced.is_none(), "lpn {log_lpn} has a living hint, {replaced:?}, before {living:?}");
        map.set_hinted(log_lpn, true);
    }

    fn begin_claim(&mut self, map: &mut Map, log_lpn: Lpn, hint: &Hint, version: Seq) {
        if let Some(home) = hint.home {
            debug_assert!(
                !self.claims(home, log_lpn, version),
                "lpn {log_lpn} at version {version} claims home {home} already"
            );
            self.of_home.entry(home.0).or_default().push(Claimant { log_lpn, version });
            map.set_hinted(home, true);
        }
    }

    fn remove_claimant(&mut self, map: &mut Map, home: Lpn, claimant: Claimant) {
        let claimants = self.of_home.get_mut(&home.0).expect("a claim is listed under its home");
        claimants.retain(|other| *other != claimant);
        if claimants.is_empty() {
            self.of_home.remove(&home.0);
        }
        self.update_flag(map, home);
    }

    /// `lpn` took `version`: claims to it as a home end unless they are newer, and so does the hint of its previous
    /// page. Returns that page's claim, because nothing newer is recorded for its home.
    pub fn superseded(&mut self, map: &mut Map, lpn: Lpn, version: Seq) -> Option<EndedClaim> {
        self.home_taken(map, lpn, version);
        let living = self.living.get(&lpn.0).copied().filter(|living| living.version < version)?;
        self.forget_unless_whole(&living.hint);
        let ended = self.end_claim(map, Claimant { log_lpn: lpn, version: living.version });
        self.living.remove(&lpn.0);
        self.update_flag(map, lpn);
        ended
    }

    /// The page of an unfinished transaction is dropped. It may be erased before the transaction ends, and then nothing
    /// shows that it was there.
    fn forget_unless_whole(&mut self, hint: &Hint) {
        self.extend(hint.generation);
        if guard!(GivenUpPageCounts, self.is_whole(hint)) {
            return;
        }
        let (number, _) = hint.attempt();
        if let Some(attempt) =
            self.logs.get_mut(&hint.generation).and_then(|log| log.attempts.get_mut(&number))
        {
            attempt.pages.remove(&hint.slot);
        }
    }

    /// `home` took `version`: claims to it end unless they are newer.
    fn home_taken(&mut self, map: &mut Map, home: Lpn, version: Seq) {
        for claimant in self.of_home.get(&home.0).cloned().unwrap_or_default() {
            if claimant.version <= version {
                self.end_claim(map, claimant);
            }
        }
    }

    /// Ends a page's claim to its home, if it has one. A living hint that is no longer needed is removed with it.
    fn end_claim(&mut self, map: &mut Map, claimant: Claimant) -> Option<EndedClaim> {
        let Claimant { log_lpn, version } = claimant;
        let pages = [&mut self.living, &mut self.waiting].into_iter();
        let page =
            pages.filter_map(|pages| pages.get_mut(&log_lpn.0)).find(|page| page.version == version)?;
        let (home, hint) = (page.hint.home.take()?, page.hint);
        self.remove_claimant(map, home, claimant);
        self.extend(hint.generation);
        if self.living.get(&log_lpn.0).is_some_and(|living| living.version == version) && self.is_whole(&hint)
        {
            self.living.remove(&log_lpn.0);
            self.update_flag(map, log_lpn);
        }
        Some(EndedClaim { home, version })
    }

    /// Removes hints without a home that are no longer needed, because the whole run now includes their pages.
    pub fn forget_needless(&mut self, map: &mut Map) {
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

    /// Whether a page is in its log's whole run. Call [`Logs::extend`] first.
    pub fn is_whole(&self, hint: &Hint) -> bool {
        let log = self.logs.get(&hint.generation);
        log.is_some_and(|log| in_whole_run(&log.attempts, hint.attempt().0, hint.slot))
    }

    /// Extends the known whole run of a log.
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

    /// What a checkpoint stores of the whole runs: generation, attempt, last slot. For each open log that is the end of
    /// the run, where the next transaction continues, and the attempts of living hints.
    pub fn runs(&mut self) -> Vec<(Generation, u32, u32)> {
        let living: BTreeSet<(Generation, u32)> =
            self.living.values().map(|living| (living.hint.generation, living.hint.attempt().0)).collect();
        let mut runs = Vec::new();
        for (&generation, log) in self.logs.iter_mut().filter(|(_, log)| log.is_open()) {
            extend_whole_run(&mut log.attempts);
            let known = |(&number, attempt): (&u32, &Attempt)| Some((generation, number, attempt.known?));
            let run = log.attempts.iter().filter_map(known);
            let end = guard!(RunsOfSettledLogs, run.clone().next_back());
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
    use crate::test_support::GEOMETRY;

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
            end: slot == 2,
            home: None,
        };
        let mut logs = Logs::default();
        assert_eq!(logs.check(&hint(0, 1, 1, 1)), Err(HintError::UnknownGeneration(Generation(5))));
        logs.begin(Generation(5));
        let accept = |logs: &mut Logs, hint| {
            logs.check(&hint).unwrap();
            logs.accept(&hint);
        };
        assert!(logs.check(&hint(0, 1, 1, 2)).is_err(), "the first slot is 1");
        accept(&mut logs, hint(0, 1, 1, 1));
        accept(&mut logs, hint(0, 1, 1, 2));
        assert!(logs.check(&hint(0, 1, 1, 2)).is_err(), "a slot comes once in an attempt");
        assert!(logs.check(&hint(0, 1, 1, 3)).is_err(), "the first transaction has ended");
        assert!(logs.check(&hint(0, 3, 3, 3)).is_err(), "an attempt starts at one slot");
        accept(&mut logs, hint(0, 1, 3, 3));
        assert!(logs.check(&hint(1, 4, 4, 4)).is_err(), "an attempt leaves no gap");
        assert!(logs.check(&hint(1, 2, 2, 2)).is_err(), "an attempt leaves what has ended");
        accept(&mut logs, hint(1, 3, 3, 3));
        assert!(logs.check(&hint(0, 1, 3, 4)).is_err(), "an earlier attempt is over");
        accept(&mut logs, hint(1, 3, 3, 4));
    }

    const LOG: Generation = Generation(5);

    fn page(slot: u32, end: bool, home: Option<u32>) -> Hint {
        Hint { generation: LOG, attempt: 0, start: 1, first: 1, slot, end, home: home.map(Lpn) }
    }

    fn opened() -> (Logs, Map) {
        let mut logs = Logs::default();
        logs.begin(LOG);
        (logs, Map::new(&GEOMETRY, 128))
    }

    /// A claim that outlived its page would keep occupying room for its home, and eventually no page could claim
    /// anything.
    #[test]
    fn nothing_is_left_of_a_page_that_no_longer_waits() {
        let (mut logs, mut map) = opened();
        logs.unit_cached(&mut map, Lpn(50), page(1, true, Some(10)), Seq(7));
        logs.programmed(&mut map, Lpn(60), page(2, true, Some(11)), Seq(8));
        assert_eq!((logs.count(), logs.newest_claim(Lpn(10))), (2, Some(Seq(7))));
        assert!(logs.claims(Lpn(10), Lpn(50), Seq(7)) && !logs.claims(Lpn(10), Lpn(50), Seq(8)));
        assert!(map.is_hinted(Lpn(10)));
        logs.unit_dropped(&mut map, Lpn(50));
        assert_eq!((logs.count(), logs.newest_claim(Lpn(10))), (1, None));
        assert!(!logs.is_claimed(Lpn(10)) && !map.is_hinted(Lpn(10)));
    }

    #[test]
    fn nothing_is_left_of_a_whole_page_whose_home_was_written() {
        let (mut logs, mut map) = opened();
        logs.programmed(&mut map, Lpn(50), page(1, true, Some(10)), Seq(7));
        assert_eq!(logs.whole_run(LOG), [(0, 1)]);
        assert_eq!(logs.superseded(&mut map, Lpn(10), Seq(8)), None);
        assert!(!logs.is_claimed(Lpn(10)) && !map.is_hinted(Lpn(10)) && !map.is_hinted(Lpn(50)));
        assert_eq!(logs.count(), 0);
    }

    #[test]
    fn pages_without_homes_are_forgotten_when_the_run_has_them() {
        let (mut logs, mut map) = opened();
        logs.programmed(&mut map, Lpn(50), page(1, false, None), Seq(7));
        logs.forget_needless(&mut map);
        assert_eq!((logs.count(), logs.whole_run(LOG)), (1, vec![(0, 0)]), "the transaction may not end");
        logs.programmed(&mut map, Lpn(51), page(2, true, None), Seq(8));
        logs.forget_needless(&mut map);
        assert_eq!((logs.count(), logs.whole_run(LOG)), (0, vec![(0, 2)]));
        assert!(!map.is_hinted(Lpn(50)) && !map.is_hinted(Lpn(51)));
    }

    /// What recovery found to be whole is recorded before a block that proves it is erased; the log itself is over.
    #[test]
    fn the_whole_run_that_recovery_found_is_known_and_takes_no_page() {
        let mut logs = Logs::default();
        let found = Attempt { known: Some(4), ..attempt(1, &[(5, 5, true)]) };
        logs.found(LOG, Attempts::from([(0, found)]));
        assert_eq!(logs.whole_run(LOG), [(0, 5)]);
        assert!(logs.check(&page(6, true, None)).is_err());
    }
}
