//! What a drive has promised: for each block and record, the versions that it may hold, and which of them belong together.
//!
//! A version is what one command made of a block or a record. It is durable when a flush that was sent after its
//! acknowledgement is acknowledged itself, or at once for commands that promise it. What power loss may leave is in
//! `versions.rs`. Of a command that is all or nothing, the blocks and records together must not show that it took place and
//! that it did not. A command whose connection broke may have taken place until the drive closed the connection.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use super::changes::Change;
use super::spot::{Moment, Spot, Sum};
use super::versions::{Content, Evidence, Versions};

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The command was carried out.
    Done,
    /// It was refused. If it is all or nothing, it has changed nothing.
    Refused,
    /// It failed, or its connection broke: it may have been done, in part or as a whole.
    Lost,
}

/// Something forbidden.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// A block or record holds an obsolete version.
    Older(Spot),
    /// A block or record holds something that was never written, or long ago.
    Other(Spot),
    /// A command that is all or nothing has changed the first, and not the second.
    Torn(Spot, Spot),
    /// While the drive had power, a command read what the last one before it had not left there.
    Misread(Spot),
}

/// A command that changes something.
#[derive(Debug)]
struct Changing {
    spots: Vec<Spot>,
    later: Vec<Spot>,
    is_step: bool,
    is_durable: bool,
}

/// A write in an open transaction.
#[derive(Clone, Debug)]
struct Write {
    sent: Moment,
    spot: Spot,
    content: Content,
    is_done: bool,
}

/// The promises of a drive.
#[derive(Debug, Default)]
pub struct Promises {
    last_moment: Moment,
    spots: FxHashMap<Spot, Versions>,
    /// Those that a flush may make a difference for.
    open: FxHashSet<Spot>,
    /// Commands in progress, by the moments at which they were sent.
    in_progress: BTreeSet<Moment>,
    changing: FxHashMap<Moment, Changing>,
    transactions: FxHashMap<u64, Vec<Write>>,
    counts: Counts,
    /// Found while the drive had power.
    misread: Vec<Broken>,
}

/// What was counted since the tap began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Flushes that were acknowledged.
    pub flushes: u64,
    /// Commands whose changes cannot be judged.
    pub unjudged: u64,
    /// Blocks and records that were read and judged.
    pub read: u64,
    /// Commands that are all or nothing and were acknowledged.
    pub steps: u64,
    /// Commands that changed something when their connection broke.
    pub broken_off: u64,
}

/// What a block or a record is before the tap has seen a change of it.
const NEVER_SEEN: Content = Content::Unknown;

impl Promises {
    /// The next moment.
    pub fn now(&mut self) -> Moment {
        self.last_moment += 1;
        self.last_moment
    }

    /// A command is sent. The moment names it until it has ended.
    pub fn send(&mut self) -> Moment {
        let sent = self.now();
        self.in_progress.insert(sent);
        sent
    }

    /// All data of a command have been sent, which changes this if it takes place.
    pub fn change(&mut self, sent: Moment, change: Change) {
        let Change { spots, is_step, is_durable, later } = change;
        assert!(
            self.in_progress.contains(&sent),
            "command {sent} changes {} spots, but is not in progress",
            spots.len()
        );
        let mut make = |(spot, content): &(Spot, Content), is_step| {
            let versions = self.spots.entry(*spot).or_insert_with(|| Versions::only(NEVER_SEEN));
            versions.begin(sent, content.clone(), is_step);
            self.open.insert(*spot);
            *spot
        };
        let spots = spots.iter().map(|changed| make(changed, is_step)).collect();
        let later = later.iter().map(|changed| make(changed, false)).collect();
        let other = self.changing.insert(sent, Changing { spots, later, is_step, is_durable });
        assert!(other.is_none(), "command {sent} makes two changes, the first of {other:?}");
    }

    /// A command has ended.
    pub fn end(&mut self, sent: Moment, outcome: Outcome) {
        let now = self.now();
        let was_sent = self.in_progress.remove(&sent);
        assert!(was_sent, "command {sent} ends as {outcome:?}, but is not in progress");
        let Some(changing) = self.changing.remove(&sent) else { return };
        let Changing { spots, later, is_step, is_durable } = changing;
        self.counts.steps += u64::from(is_step && outcome == Outcome::Done);
        self.counts.broken_off += u64::from(outcome == Outcome::Lost);
        let since = self.in_progress.first().copied().unwrap_or(now);
        let found = self.contents(sent, &spots, is_step);
        for spot in &spots {
            let Some(versions) = self.spots.get_mut(spot) else { continue };
            if outcome == Outcome::Refused && is_step {
                versions.remove(sent);
                continue;
            }
            versions.end(sent, now, outcome == Outcome::Done, is_durable, &found);
            versions.forget(since);
        }
        for spot in &later {
            if let Some(versions) = self.spots.get_mut(spot) {
                versions.end_unknown(sent, now);
            }
        }
    }

    /// What a command that ends now has found where it copies from.
    fn contents(&self, sent: Moment, spots: &[Spot], is_step: bool) -> FxHashMap<Spot, Content> {
        let mut contents = FxHashMap::default();
        for spot in spots {
            for from in self.spots.get(spot).into_iter().flat_map(|versions| versions.sources(sent)) {
                // a step reads everything before it changes anything
                contents.entry(from).or_insert_with(|| self.content_since(from, sent, is_step));
            }
        }
        contents
    }

    fn content_since(&self, spot: Spot, sent: Moment, is_step: bool) -> Content {
        let Some(versions) = self.spots.get(&spot) else { return NEVER_SEEN };
        let mut sums = Vec::new();
        for content in versions.found_since(sent, is_step.then_some(sent)) {
            match content {
                Content::Is(sum) => sums.push(*sum),
                Content::OneOf(more) => sums.extend(more),
                Content::Like(_) | Content::Unknown => return Content::Unknown,
            }
        }
        sums.sort_unstable();
        sums.dedup();
        if let [sum] = sums[..] { Content::Is(sum) } else { Content::OneOf(sums) }
    }

    /// A command that was sent at that moment has read this; it ends now, and the drive has had power since.
    pub fn seen(&mut self, sent: Moment, spot: Spot, found: Sum) {
        self.counts.read += 1;
        let Some(versions) = self.spots.get(&spot) else { return };
        if !versions.found_since(sent, None).any(|content| content.may_be(found)) {
            self.misread.push(Broken::Misread(spot));
        }
    }

    /// A command was sent whose changes cannot be judged.
    pub fn cannot_judge(&mut self) {
        self.counts.unjudged += 1;
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes what was misread while the drive had power.
    pub fn take_misread(&mut self) -> Vec<Broken> {
        std::mem::take(&mut self.misread)
    }

    /// A flush that was sent at that moment was acknowledged.
    pub fn flushed(&mut self, sent: Moment) {
        assert!(sent <= self.last_moment, "a flush of moment {sent} is done at {}", self.last_moment);
        self.counts.flushes += 1;
        let since = self.in_progress.first().copied().unwrap_or(self.last_moment);
        let spots = &mut self.spots;
        self.open.retain(|spot| {
            let Some(versions) = spots.get_mut(spot) else { return false };
            let is_open = versions.flush(sent);
            versions.forget(since);
            is_open
        });
    }

    // -- transactions -------------------------------------------------------------------------------------------

    /// All data of a write in a transaction have been sent.
    pub fn write_in(&mut self, transaction: u64, sent: Moment, spots: Vec<(Spot, Content)>) {
        let writes = self.transactions.entry(transaction).or_default();
        writes.extend(spots.into_iter().map(|(spot, content)| Write { sent, spot, content, is_done: false }));
    }

    /// A write in a transaction has ended.
    pub fn wrote_in(&mut self, transaction: u64, sent: Moment, outcome: Outcome) {
        let Some(writes) = self.transactions.get_mut(&transaction) else { return };
        match outcome {
            Outcome::Refused => writes.retain(|write| write.sent != sent),
            Outcome::Lost => {}
            Outcome::Done => {
                let its = writes.iter_mut().filter(|write| write.sent == sent);
                its.for_each(|write| write.is_done = true);
            }
        }
    }

    /// What the commit of a transaction changes. Of a write that has not been acknowledged nobody knows whether it is part
    /// of it.
    pub fn commit(&self, transaction: u64) -> Change {
        let mut changes: FxHashMap<Spot, Content> = FxHashMap::default();
        for write in self.transactions.get(&transaction).into_iter().flatten() {
            let content = if write.is_done { write.content.clone() } else { Content::Unknown };
            changes.insert(write.spot, content);
        }
        let (spots, later) = (changes.into_iter().collect(), Vec::new());
        Change { spots, is_step: true, is_durable: true, later }
    }

    /// A transaction was committed or aborted.
    pub fn close(&mut self, transaction: u64) {
        self.transactions.remove(&transaction);
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// The changed blocks and records, in order.
    pub fn changed(&self) -> Vec<Spot> {
        let mut spots: Vec<Spot> = self.spots.keys().copied().collect();
        spots.sort_unstable();
        spots
    }

    /// Power has failed and come back, no command is in progress, and all changed blocks and records hold this, which is now
    /// durable. Returns what is forbidden.
    pub fn judge(&mut self, found: &[(Spot, Sum)]) -> Vec<Broken> {
        assert!(
            self.in_progress.is_empty() && self.changing.is_empty(),
            "a drive is judged while commands are in progress: {:?}, {:?}",
            self.in_progress,
            self.changing
        );
        let mut broken = Vec::new();
        let mut steps: FxHashMap<Moment, (Option<Spot>, Option<Spot>)> = FxHashMap::default();
        for &(spot, sum) in found {
            let Some(versions) = self.spots.get(&spot) else { continue };
            match (versions.may_be(sum), versions.was(sum)) {
                (true, _) => {}
                (false, true) => broken.push(Broken::Older(spot)),
                (false, false) => broken.push(Broken::Other(spot)),
            }
            for (sent, evidence) in versions.evidence(sum) {
                let (happened, missing) = steps.entry(sent).or_default();
                match evidence {
                    Evidence::Happened => *happened = Some(spot),
                    Evidence::Missing => *missing = Some(spot),
                }
            }
        }
        let torn =
            steps.values().filter_map(|(happened, missing)| Some(Broken::Torn((*happened)?, (*missing)?)));
        broken.extend(torn);
        for &(spot, sum) in found {
            self.spots.insert(spot, Versions::only(Content::Is(sum)));
        }
        self.open.clear();
        self.changing.clear();
        self.in_progress.clear();
        self.transactions.clear();
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Spot = Spot::Block(7);
    const OTHER: Spot = Spot::Block(9);

    fn sent(promises: &mut Promises, spots: &[(Spot, Content)], is_step: bool, is_durable: bool) -> Moment {
        let sent = promises.send();
        promises.change(sent, Change { spots: spots.to_vec(), is_step, is_durable, later: Vec::new() });
        sent
    }

    fn write(promises: &mut Promises, sum: Sum) -> Moment {
        sent(promises, &[(BLOCK, Content::Is(sum))], false, false)
    }

    /// A Write that the drive has done.
    fn written(promises: &mut Promises, sum: Sum) {
        let sent = write(promises, sum);
        promises.end(sent, Outcome::Done);
    }

    /// A Write with FUA that the drive has done.
    fn forced(promises: &mut Promises, spot: Spot, sum: Sum) {
        let sent = sent(promises, &[(spot, Content::Is(sum))], false, true);
        promises.end(sent, Outcome::Done);
    }

    /// A step that changes both blocks.
    fn step(promises: &mut Promises, sum: Sum) -> Moment {
        sent(promises, &[(BLOCK, Content::Is(sum)), (OTHER, Content::Is(sum))], true, true)
    }

    fn flush(promises: &mut Promises) {
        let sent = promises.now();
        promises.flushed(sent);
    }

    fn judge(promises: &mut Promises, found: Sum) -> Vec<Broken> {
        promises.judge(&[(BLOCK, found)])
    }

    #[test]
    fn what_was_flushed_is_there_and_what_was_not_may_be() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            written(&mut promises, 1);
            flush(&mut promises);
            written(&mut promises, 2);
            assert_eq!(judge(&mut promises, found), []);
            // it stays
            assert_eq!(judge(&mut promises, found), []);
            assert_eq!(judge(&mut promises, 3 - found), [Broken::Other(BLOCK)]);
        }
    }

    #[test]
    fn an_older_version_must_not_come_back() {
        let mut promises = Promises::default();
        written(&mut promises, 1);
        written(&mut promises, 2);
        flush(&mut promises);
        assert_eq!(judge(&mut promises, 1), [Broken::Older(BLOCK)]);
        forced(&mut promises, BLOCK, 3);
        assert_eq!(judge(&mut promises, 1), [Broken::Older(BLOCK)]);
    }

    #[test]
    fn a_flush_counts_for_what_was_acknowledged_before_it_was_sent() {
        let mut promises = Promises::default();
        forced(&mut promises, BLOCK, 1);
        let sent = write(&mut promises, 2);
        let flush = promises.now();
        promises.end(sent, Outcome::Done);
        promises.flushed(flush);
        assert_eq!(judge(&mut promises, 1), []);
    }

    #[test]
    fn of_two_writes_at_once_either_may_be_last() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            let (first, second) = (write(&mut promises, 1), write(&mut promises, 2));
            promises.end(second, Outcome::Done);
            promises.end(first, Outcome::Done);
            flush(&mut promises);
            promises.seen(first, BLOCK, found);
            assert_eq!(promises.misread, []);
            assert_eq!(judge(&mut promises, found), []);
        }
    }

    #[test]
    fn a_write_that_was_broken_off_may_be_there_or_not() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            forced(&mut promises, BLOCK, 1);
            let broken = write(&mut promises, 2);
            promises.end(broken, Outcome::Lost);
            flush(&mut promises);
            assert_eq!(judge(&mut promises, found), []);
        }
    }

    /// When the drive has closed a connection, none of its commands takes place any more.
    #[test]
    fn a_write_that_was_broken_off_does_not_take_place_later() {
        let mut promises = Promises::default();
        let broken = write(&mut promises, 1);
        promises.end(broken, Outcome::Lost);
        forced(&mut promises, BLOCK, 2);
        assert_eq!(judge(&mut promises, 1), [Broken::Older(BLOCK)]);
    }

    #[test]
    fn a_step_is_there_as_a_whole_or_not_at_all() {
        for (found, outcome) in [(1, Outcome::Lost), (2, Outcome::Lost), (2, Outcome::Done)] {
            let mut promises = Promises::default();
            forced(&mut promises, BLOCK, 1);
            forced(&mut promises, OTHER, 1);
            let sent = step(&mut promises, 2);
            promises.end(sent, outcome);
            assert_eq!(promises.judge(&[(BLOCK, found), (OTHER, found)]), []);
        }
        let mut promises = Promises::default();
        forced(&mut promises, BLOCK, 1);
        forced(&mut promises, OTHER, 1);
        let sent = step(&mut promises, 2);
        promises.end(sent, Outcome::Lost);
        assert_eq!(promises.judge(&[(BLOCK, 2), (OTHER, 1)]), [Broken::Torn(BLOCK, OTHER)]);
    }

    /// Another host has overwritten one of its blocks since: what is there says nothing about the step.
    #[test]
    fn a_step_is_not_torn_where_something_newer_may_have_followed() {
        let mut promises = Promises::default();
        forced(&mut promises, BLOCK, 1);
        forced(&mut promises, OTHER, 1);
        let sent = step(&mut promises, 2);
        let newer = write(&mut promises, 3);
        promises.end(sent, Outcome::Done);
        promises.end(newer, Outcome::Lost);
        assert_eq!(promises.judge(&[(BLOCK, 3), (OTHER, 2)]), []);
    }

    #[test]
    fn a_step_that_was_refused_has_changed_nothing() {
        let mut promises = Promises::default();
        forced(&mut promises, BLOCK, 1);
        let sent = step(&mut promises, 2);
        promises.end(sent, Outcome::Refused);
        assert_eq!(judge(&mut promises, 2), [Broken::Other(BLOCK)]);
    }

    #[test]
    fn a_share_carries_what_its_source_held_at_some_time_of_it() {
        for (found, expected) in
            [(1, vec![Broken::Other(OTHER)]), (2, vec![]), (3, vec![]), (4, vec![Broken::Other(OTHER)])]
        {
            let mut promises = Promises::default();
            written(&mut promises, 1);
            written(&mut promises, 2);
            let share = sent(&mut promises, &[(OTHER, Content::Like(BLOCK))], true, true);
            written(&mut promises, 3);
            promises.end(share, Outcome::Done);
            written(&mut promises, 4);
            assert_eq!(promises.judge(&[(OTHER, found)]), expected, "{found}");
        }
    }

    #[test]
    fn a_read_finds_what_the_last_command_has_left() {
        for (found, expected) in [(1, vec![Broken::Misread(BLOCK)]), (2, vec![]), (3, vec![])] {
            let mut promises = Promises::default();
            written(&mut promises, 1);
            written(&mut promises, 2);
            let read = promises.send();
            written(&mut promises, 3);
            flush(&mut promises);
            promises.seen(read, BLOCK, found);
            assert_eq!(promises.misread, expected, "{found}");
        }
    }

    #[test]
    fn a_transaction_changes_what_it_wrote_last_when_it_is_committed() {
        let mut promises = Promises::default();
        forced(&mut promises, BLOCK, 1);
        for sum in [2, 3] {
            let sent = promises.send();
            promises.write_in(5, sent, vec![(BLOCK, Content::Is(sum))]);
            promises.wrote_in(5, sent, Outcome::Done);
            promises.end(sent, Outcome::Done);
        }
        let commit = promises.send();
        let change = promises.commit(5);
        promises.change(commit, change);
        promises.end(commit, Outcome::Done);
        assert_eq!(judge(&mut promises, 1), [Broken::Older(BLOCK)]);
        assert_eq!(judge(&mut promises, 2), [Broken::Other(BLOCK)]);
    }
}
