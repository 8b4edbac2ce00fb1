//! Checkpoint writes that become shares.
//!
//! SQLite brings a page home by reading it from the log and writing it to the database file. If the page has units of
//! its own in the log, the drive need only map the database's units to them. Such shares are gathered, up to the number
//! that the drive takes in one command.
//!
//! The owner of the queue keeps these invariants: the queue is issued before anything else accesses the database file
//! or the units that it names, and before the log's header changes; a share is durable with the flush that follows it.

use std::collections::{BTreeSet, VecDeque};

use tantalum::{Command, Lpn, ShareRange};
use tantalum_volume::{Volume, VolumeError};

/// One page on its way home: its frame, and its number in the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct GoesHome {
    pub frame: u32,
    pub page_number: u32,
}

/// Waiting shares.
#[derive(Debug, Default)]
pub(crate) struct ShareQueue {
    ranges: Vec<ShareRange>,
    units: u32,
    pages: Vec<GoesHome>,
    page_numbers: BTreeSet<u32>,
    /// The drive refused to share these: they must be written, before anything that was queued later goes home. They stay
    /// until they are, because SQLite was told that they are home.
    refused: VecDeque<GoesHome>,
}

impl ShareQueue {
    /// Whether a page of `units` units must wait until the queue has been issued.
    pub fn must_be_issued_before(&self, page_number: u32, units: u32, limit: u32) -> bool {
        self.units + units > limit || self.page_numbers.contains(&page_number)
    }

    /// Adds a page; its units are given as (in the database, in the log).
    pub fn push(&mut self, page: GoesHome, units: impl Iterator<Item = (Lpn, Lpn)>) {
        self.pages.push(page);
        self.page_numbers.insert(page.page_number);
        for (dst, src) in units {
            self.units += 1;
            match self.ranges.last_mut() {
                Some(last) if last.dst.0 + last.units == dst.0 && last.src.0 + last.units == src.0 => {
                    last.units += 1;
                }
                _ => self.ranges.push(ShareRange { dst, src, units: 1 }),
            }
        }
    }

    /// Issues the queue. What the drive refuses is then in [`ShareQueue::refused`]; it has done nothing of it.
    pub fn issue(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        if self.pages.is_empty() {
            return Ok(());
        }
        let answer = volume.submit(Command::Share { ranges: &self.ranges, deferred: true });
        self.ranges.clear();
        self.units = 0;
        self.page_numbers.clear();
        let pages = self.pages.drain(..);
        match answer {
            Ok(_) => {}
            Err(error) if error.is_end_of_drive() => return Err(error),
            Err(_) => self.refused.extend(pages),
        }
        Ok(())
    }

    /// The first page that must be written.
    pub fn refused(&self) -> Option<GoesHome> {
        self.refused.front().copied()
    }

    /// The first page that had to be written was.
    pub fn refused_is_written(&mut self) {
        self.refused.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_range() {
        let mut queue = ShareQueue::default();
        queue.push(
            GoesHome { frame: 1, page_number: 5 },
            [(Lpn(50), Lpn(100)), (Lpn(51), Lpn(101))].into_iter(),
        );
        queue.push(GoesHome { frame: 2, page_number: 6 }, [(Lpn(52), Lpn(102))].into_iter());
        queue.push(GoesHome { frame: 4, page_number: 7 }, [(Lpn(53), Lpn(104))].into_iter());
        let range = |dst, src, units| ShareRange { dst: Lpn(dst), src: Lpn(src), units };
        assert_eq!(queue.ranges, [range(50, 100, 3), range(53, 104, 1)]);
        assert!(!queue.must_be_issued_before(8, 1, 5));
        assert!(queue.must_be_issued_before(8, 2, 5), "more than the drive takes");
        assert!(queue.must_be_issued_before(8, 1, 4), "one more than the drive takes");
        assert!(queue.must_be_issued_before(7, 1, 5), "the same page again");
    }
}
