//! How the frames of a hinted log are numbered for the drive: generations, attempts, slots.
//!
//! The drive brings home what it takes for whole transactions; SQLite recovers what has valid checksums. Both must be
//! the same run (hazards 7 and 8 in docs/internals/hazards.md). So:
//!
//! - Frames are sent in order, each once in an attempt. `end` is on a commit frame whose header is final.
//! - A frame of the open transaction that changes after it was sent (overwritten in place, given a new header, or left
//!   behind by a rollback and rewritten) makes the attempt void: the next one starts after the last commit that was
//!   sent, and everything after that is sent again.
//! - If a frame changes whose commit was sent, this life of the log ends. The same holds after reopening, when it is
//!   unknown what the drive has. Everything after the last commit is trimmed, and a new generation starts there.
//!
//! Frames count from 1 in the log, slots from 1 in the generation, in units.

use tantalum::{Generation, Hint, Lpn};

/// What was written to a log, and how much of it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Numbering {
    page_units: u32,
    /// Frames before this generation.
    base: u32,
    /// Commit frames of this generation, in order.
    ends: Vec<u32>,
    /// The last frame whose header was written: the end of the log.
    head: u32,
    /// Frames up to here were sent in their current version, in this attempt or as part of earlier transactions.
    sent: u32,
    attempt: u32,
    /// The first frame of the attempt.
    start: u32,
    /// The attempt is void.
    void: bool,
    /// The generation is void, or none has begun.
    over: bool,
}

impl Numbering {
    /// A log that already has `frames` frames, and no generation yet.
    pub fn new(page_units: u32, frames: u32) -> Numbering {
        Numbering {
            page_units,
            base: frames,
            ends: Vec::new(),
            head: frames,
            sent: frames,
            attempt: 0,
            start: frames + 1,
            void: false,
            over: true,
        }
    }

    /// The header of a frame was written, and the log ends there for now.
    pub fn header_written(&mut self, frame: u32, commits: bool) {
        self.changed(frame);
        self.ends.truncate(self.ends.partition_point(|&end| end < frame));
        self.head = frame;
        if commits {
            self.ends.push(frame);
        }
    }

    /// The page of a frame was written.
    pub fn page_written(&mut self, frame: u32) {
        self.changed(frame);
    }

    /// The log was truncated after a frame.
    pub fn cut(&mut self, frame: u32) {
        if frame < self.head {
            self.changed(frame + 1);
            self.ends.truncate(self.ends.partition_point(|&end| end <= frame));
            self.head = frame;
        }
    }

    /// The frames to send next, in order; `None` if there is nothing new.
    pub fn unsent(&self) -> std::ops::RangeInclusive<u32> {
        self.sent + 1..=self.head
    }

    /// Whether a generation must begin before anything is sent, and after which frame.
    pub fn needs_generation(&self) -> Option<u32> {
        self.over.then_some(self.base)
    }

    /// A generation was begun.
    pub fn generation_begun(&mut self) {
        (self.attempt, self.start) = (0, self.base + 1);
        (self.over, self.void) = (false, false);
    }

    /// [`Numbering::unsent`] are about to be sent, with hints from [`Numbering::hint`].
    pub fn begin_sending(&mut self) {
        if self.void {
            (self.attempt, self.start) = (self.attempt + 1, self.sent + 1);
            self.void = false;
        }
    }

    /// A frame was sent.
    pub fn frame_sent(&mut self, frame: u32) {
        self.sent = frame;
    }

    /// The hint for unit `unit` of a frame's page.
    pub fn hint(&self, generation: Generation, frame: u32, unit: u32, home: Option<Lpn>) -> Hint {
        let slot = |frame: u32, unit: u32| (frame - self.base - 1) * self.page_units + unit + 1;
        let is_end = self.ends.binary_search(&frame).is_ok() && unit + 1 == self.page_units;
        Hint {
            generation,
            attempt: self.attempt,
            start: slot(self.start, 0),
            first: slot(self.last_end(frame - 1) + 1, 0),
            slot: slot(frame, unit),
            end: is_end,
            home,
        }
    }

    /// Whether a frame belongs to a transaction that was sent completely, in this generation or before it.
    pub fn is_committed(&self, frame: u32) -> bool {
        frame <= self.last_end(self.sent)
    }

    /// The last commit frame up to `frame`, or the frame before the generation.
    fn last_end(&self, frame: u32) -> u32 {
        let ends = self.ends.partition_point(|&end| end <= frame);
        ends.checked_sub(1).map_or(self.base, |last| self.ends[last])
    }

    fn changed(&mut self, frame: u32) {
        if frame > self.sent {
            return;
        }
        self.void = true;
        self.sent = self.last_end(self.sent);
        if frame <= self.sent {
            self.over = true;
            let ends = self.ends.partition_point(|&end| end < frame);
            self.base = ends.checked_sub(1).map_or(self.base.min(frame - 1), |last| self.ends[last]);
            self.ends.retain(|&end| end > self.base);
            self.sent = self.base;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends frames, the last of them with a commit mark.
    fn append(log: &mut Numbering, frames: std::ops::RangeInclusive<u32>, commit: bool) {
        let last = *frames.end();
        for frame in frames {
            log.header_written(frame, commit && frame == last);
            log.page_written(frame);
        }
    }

    /// Sends what is unsent; returns (attempt, start, first, slot, end) of each unit.
    fn send(log: &mut Numbering) -> Vec<(u32, u32, u32, u32, bool)> {
        if log.needs_generation().is_some() {
            log.generation_begun();
        }
        log.begin_sending();
        let mut sent = Vec::new();
        for frame in log.unsent() {
            for unit in 0..log.page_units {
                let hint = log.hint(Generation(1), frame, unit, None);
                sent.push((hint.attempt, hint.start, hint.first, hint.slot, hint.end));
            }
            log.frame_sent(frame);
        }
        sent
    }

    #[test]
    fn transactions_follow_one_another() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=2, true);
        append(&mut log, 3..=3, true);
        assert_eq!(send(&mut log), [(0, 1, 1, 1, false), (0, 1, 1, 2, true), (0, 1, 3, 3, true)]);
        assert!(log.is_committed(3));
        assert_eq!(send(&mut log), []);
        append(&mut log, 4..=4, false);
        assert_eq!(send(&mut log), [(0, 1, 4, 4, false)]);
        assert!(!log.is_committed(4));
        append(&mut log, 5..=5, true);
        assert_eq!(send(&mut log), [(0, 1, 4, 5, true)]);
        assert!(log.is_committed(4));
    }

    #[test]
    fn a_page_of_several_units_ends_with_the_last() {
        let mut log = Numbering::new(2, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=2, true);
        let units = [(0, 1, 1, 1, false), (0, 1, 1, 2, true), (0, 1, 3, 3, false), (0, 1, 3, 4, true)];
        assert_eq!(send(&mut log), units);
    }

    #[test]
    fn a_rollback_of_sent_frames_starts_an_attempt() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=4, false);
        assert_eq!(send(&mut log).len(), 4);
        append(&mut log, 2..=3, true);
        assert_eq!(log.needs_generation(), None);
        assert_eq!(send(&mut log), [(1, 2, 2, 2, false), (1, 2, 2, 3, true)]);
    }

    #[test]
    fn a_rollback_of_unsent_frames_costs_nothing() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=4, false);
        append(&mut log, 2..=2, true);
        assert_eq!(send(&mut log), [(0, 1, 1, 1, true), (0, 1, 2, 2, true)]);
    }

    #[test]
    fn a_rollback_to_a_savepoint_sends_the_transaction_again() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=5, false);
        send(&mut log);
        append(&mut log, 4..=4, true);
        let again = [(1, 2, 2, 2, false), (1, 2, 2, 3, false), (1, 2, 2, 4, true)];
        assert_eq!(send(&mut log), again);
    }

    #[test]
    fn overwriting_in_place_sends_the_transaction_again() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=3, false);
        send(&mut log);
        log.page_written(2);
        log.header_written(4, false); // not sealed: its header will be written again
        log.page_written(4);
        assert_eq!(send(&mut log).len(), 4, "sent early, and none of it ends the transaction");
        for frame in 2..=4 {
            log.header_written(frame, frame == 4);
        }
        let hints = send(&mut log);
        assert_eq!(hints.len(), 4);
        assert!(hints.iter().all(|hint| (hint.0, hint.1, hint.2) == (2, 1, 1)));
        assert_eq!(hints.iter().map(|hint| hint.4).collect::<Vec<_>>(), [false, false, false, true]);
    }

    #[test]
    fn a_reopened_log_goes_on_in_a_generation_of_its_own() {
        let mut log = Numbering::new(1, 7);
        assert_eq!(log.needs_generation(), Some(7));
        assert!(log.is_committed(7));
        append(&mut log, 8..=8, true);
        assert_eq!(log.needs_generation(), Some(7));
        assert_eq!(send(&mut log), [(0, 1, 1, 1, true)]);
    }

    #[test]
    fn a_reopened_log_goes_on_where_sqlite_does() {
        let mut log = Numbering::new(1, 7);
        append(&mut log, 4..=4, true);
        assert_eq!(log.needs_generation(), Some(3), "frames 4 to 7 were of no whole transaction");
        assert_eq!(send(&mut log), [(0, 1, 1, 1, true)]);
    }

    #[test]
    fn overwriting_a_sent_commit_ends_the_generation() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=3, true);
        append(&mut log, 4..=4, true);
        send(&mut log);
        append(&mut log, 3..=3, false);
        assert_eq!(log.needs_generation(), Some(1), "behind the last commit that stays");
        assert_eq!(log.unsent(), 2..=3);
        append(&mut log, 4..=4, true);
        assert_eq!(send(&mut log), [(0, 1, 1, 1, false), (0, 1, 1, 2, false), (0, 1, 1, 3, true)]);
    }

    #[test]
    fn a_change_of_the_last_frame_that_was_sent_sends_its_transaction_again() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=2, false);
        send(&mut log);
        log.page_written(2);
        assert_eq!(log.unsent(), 1..=2);
    }

    #[test]
    fn overwriting_a_page_of_a_sent_commit_keeps_the_commits_after_it() {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=3, true);
        append(&mut log, 4..=4, true);
        send(&mut log);
        log.page_written(3);
        assert_eq!(log.needs_generation(), Some(1));
        assert_eq!(send(&mut log), [(0, 1, 1, 1, false), (0, 1, 1, 2, true), (0, 1, 3, 3, true)]);
    }

    /// Frames 1, 3 and 5 are commits, and all were sent.
    fn log_of_five() -> Numbering {
        let mut log = Numbering::new(1, 0);
        append(&mut log, 1..=1, true);
        append(&mut log, 2..=3, true);
        append(&mut log, 4..=5, true);
        send(&mut log);
        log
    }

    #[test]
    fn a_log_that_is_cut_behind_a_commit_keeps_it() {
        let mut log = log_of_five();
        log.cut(5);
        log.cut(9);
        assert_eq!(log, log_of_five(), "nothing is behind frame 5");
        log.cut(3);
        assert!(log.is_committed(3) && !log.is_committed(4));
        assert_eq!(log.needs_generation(), Some(3), "the drive has a commit that is gone");
        assert!(log.unsent().is_empty());
        append(&mut log, 4..=4, true);
        assert_eq!(send(&mut log), [(0, 1, 1, 1, true)]);
    }

    #[test]
    fn a_log_that_is_cut_within_a_transaction_sends_what_is_left_of_it() {
        let mut log = log_of_five();
        append(&mut log, 6..=8, false);
        send(&mut log);
        log.cut(7);
        assert_eq!((log.needs_generation(), log.unsent()), (None, 6..=7));
        append(&mut log, 8..=8, true);
        let hints = send(&mut log);
        assert_eq!(hints, [(1, 6, 6, 6, false), (1, 6, 6, 7, false), (1, 6, 6, 8, true)]);
        log.cut(2);
        assert_eq!((log.needs_generation(), log.unsent()), (Some(1), 2..=2));
    }
}
