//! Gives space of the image back to the host: erases blocks although nobody opens them, and collects garbage although there is
//! room.
//!
//! What nobody needs any more takes space of the host's disk until its block is erased, and a drive erases a block only when it
//! opens it. So a host that wants the space has to ask, between commands, for a step at a time. The erases follow the erase
//! rule like any others; a free block that is erased is opened later without an erase, so that only the copies of what is still
//! needed are additional work.

use tantalum_nand::Nanoseconds;

use super::Ftl;
use super::allocate::Allocator;
use super::parts::Parts;
use crate::error::FtlError;

/// Of a victim so many percent must be garbage: moving the rest costs more than its space is worth.
const WORTH_PERCENT: u32 = 10;

/// How much is done at once, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    /// Blocks that are emptied, and blocks that are erased.
    pub blocks: u32,
    /// Holes that are made in the image.
    pub holes: u32,
}

/// What is left to give back.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GivenBack {
    /// There is more to do at once.
    pub has_more: bool,
    /// There is more once two more syncs have ended.
    pub waits: bool,
}

/// Space of the image that may stay although nobody needs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slack {
    /// Garbage, in percent of what is in use.
    pub garbage_percent: u32,
    /// Units of garbage in addition.
    pub units: u32,
}

impl Slack {
    /// Units of garbage that may stay beside this many units in use.
    fn garbage(&self, in_use: u64) -> u64 {
        in_use * u64::from(self.garbage_percent) / 100 + u64::from(self.units)
    }
}

impl Ftl {
    /// Gives a portion of the space beyond the slack back to the host. Nothing if the image's host takes no space back. Returns when
    /// that is done, and what is left.
    ///
    /// # Errors
    /// [`FtlError::CapacityExceeded`] if the journal has no room for what an erase has to record. Nothing has changed for the
    /// host in any case.
    pub fn give_space_back(
        &mut self,
        slack: Slack,
        Portion { blocks, holes }: Portion,
        at_ns: Nanoseconds,
    ) -> Result<(Nanoseconds, GivenBack), FtlError> {
        if !self.nand.gives_space_back() || self.is_read_only() || self.is_stopped {
            return Ok((at_ns, GivenBack::default()));
        }
        let erases = self.counters.blocks_erased;
        // what is free already is not collected for
        self.erase_stale(blocks, at_ns)?;
        if !self.space.has_stale() && self.has_much_garbage(slack) {
            self.collect_emptiest(blocks, slack, at_ns)?;
            self.erase_stale(blocks, at_ns)?;
        }
        let is_tidy = !self.space.has_stale() && !self.has_much_garbage(slack);
        let done_ns = if self.counters.blocks_erased > erases { self.nand.idle_ns() } else { at_ns };
        // those that are used again first need no space anew
        let kept = slack.garbage(self.map.all_valid()) / 4;
        let has_more_holes = self.nand.give_space_back(kept as u32, holes)?;
        let waits = u64::from(self.nand.idle_slots() + self.nand.slots_that_wait()) > kept;
        Ok((at_ns.max(done_ns), GivenBack { has_more: !is_tidy || has_more_holes, waits }))
    }

    /// Empties at most this many of the blocks with the fewest units in use, whatever policy chooses victims otherwise: the more of a
    /// victim is in use, the less space goes back.
    fn collect_emptiest(&mut self, blocks: u32, slack: Slack, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut collection = self.begin_collection(at_ns);
        for _ in 0..blocks {
            if !self.has_much_garbage(slack) {
                break;
            }
            let Some(victim) = self.map.fewest_valid() else { break };
            self.collect_into(&mut collection, victim, at_ns)?;
        }
        self.finish_collection(collection, at_ns)
    }

    /// Whether a block should be emptied: nothing in it is in use, or there is more garbage than may stay, and room for copies. Once a
    /// block has failed, there never is: what failed blocks hold takes space whatever is moved, and each program may cost another.
    fn has_much_garbage(&mut self, slack: Slack) -> bool {
        if self.space.has_failed() {
            return false;
        }
        let units_per_block = self.geometry.units_per_block();
        let Some(victim) = self.map.fewest_valid() else { return false };
        match self.map.valid(victim) {
            0 => true,
            valid if valid > units_per_block - units_per_block * WORTH_PERCENT / 100 => false,
            _ => {
                self.spare_blocks() > self.space.collection_reserve() + 1
                    && self.has_more_garbage(slack.garbage(self.map.all_valid()))
            }
        }
    }

    /// Whether more units are on flash that nobody needs. Those in blocks that are being erased do not count.
    fn has_more_garbage(&self, than: u64) -> bool {
        let needed = self.map.all_valid() + self.log.units_on_flash(&self.nand);
        let garbage = u64::from(self.nand.slots_in_use()).saturating_sub(needed);
        garbage > than && garbage - than > u64::from(self.nand.slots_being_erased())
    }
}

impl Allocator {
    /// Erases free blocks that hold old pages, at most this many.
    pub(super) fn erase_stale(&mut self, most: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        for _ in 0..most {
            let Some(block) = self.space.take_stale() else { break };
            let erased = self.erase(block, at_ns);
            if erased.is_err() {
                self.release_block(block);
            }
            if erased? {
                let Parts { space, nand, .. } = &mut self.parts;
                space.release_erased(block, nand);
            }
        }
        Ok(())
    }
}
