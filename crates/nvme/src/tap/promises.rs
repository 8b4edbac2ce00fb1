//! What a drive has promised: for each logical block, the versions that it may hold after a power loss.
//!
//! A version is what one command made of a block. It is durable when a flush that was sent after its acknowledgement is
//! acknowledged itself, or at once with FUA. A version is obsolete when a durable one was sent after its acknowledgement.
//! Obsolete versions must not come back; all others may be there.

use std::hash::{DefaultHasher, Hasher};

use rustc_hash::{FxHashMap, FxHashSet};

/// A digest of a block's bytes.
pub type Sum = u64;

/// The checksum of a block's bytes.
pub fn sum_of(block: &[u8]) -> Sum {
    let mut hasher = DefaultHasher::new();
    hasher.write(block);
    hasher.finish()
}

/// A moment: a tap sees events one after the other.
pub type Moment = u64;

/// What a command wrote to a block.
#[derive(Clone, Copy, Debug)]
struct Version {
    /// Its bytes; `None` if they are not known.
    sum: Option<Sum>,
    sent: Moment,
    acknowledged: Option<Moment>,
    is_durable: bool,
}

/// A block.
#[derive(Clone, Debug, Default)]
struct Block {
    versions: Vec<Version>,
    /// The last obsolete version.
    over: Option<Sum>,
}

/// How a command that changed blocks ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It is done and on flash.
    Durable,
    /// It failed: it may have been done, in part or as a whole.
    Failed,
}

/// A block with forbidden contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The block.
    pub block: u64,
    /// Whether it holds an obsolete version, as far as that is still known; otherwise it holds something that was never
    /// written, or written long ago.
    pub is_older: bool,
}

/// The promises of a drive.
#[derive(Debug, Default)]
pub struct Promises {
    last_moment: Moment,
    blocks: FxHashMap<u64, Block>,
    /// Blocks with versions that are not durable.
    open: FxHashSet<u64>,
    /// Flushes that were acknowledged.
    pub flushes: u64,
    /// Commands whose changes cannot be judged.
    pub unjudged: u64,
}

impl Block {
    fn forget_what_is_over(&mut self) {
        let last =
            self.versions.iter().filter(|version| version.is_durable).map(|version| version.sent).max();
        let Some(last) = last else { return };
        let over = &mut self.over;
        self.versions.retain(|version| {
            let stays = version.acknowledged.is_none_or(|acknowledged| acknowledged >= last);
            if !stays {
                *over = version.sum;
            }
            stays
        });
    }
}

impl Promises {
    /// The next moment.
    pub fn now(&mut self) -> Moment {
        self.last_moment += 1;
        self.last_moment
    }

    /// A command has been sent that gives the blocks starting at `first` these contents; the moment names it.
    pub fn change(&mut self, sent: Moment, first: u64, sums: impl IntoIterator<Item = Sum>) {
        for (block, sum) in (first..).zip(sums) {
            let unknown = Version { sum: None, sent: 0, acknowledged: Some(0), is_durable: true };
            let known = self.blocks.entry(block);
            let known = known.or_insert_with(|| Block { versions: vec![unknown], over: None });
            known.versions.push(Version { sum: Some(sum), sent, acknowledged: None, is_durable: false });
            self.open.insert(block);
        }
    }

    /// The command that was sent at that moment has ended.
    pub fn changed(&mut self, sent: Moment, first: u64, count: u64, outcome: Outcome) {
        let now = self.now();
        for block in first..first + count {
            let Some(known) = self.blocks.get_mut(&block) else { continue };
            let version = known.versions.iter_mut().find(|version| version.sent == sent);
            if let Some(version) = version.filter(|_| outcome != Outcome::Failed) {
                version.acknowledged = Some(now);
                version.is_durable = outcome == Outcome::Durable;
            }
            known.forget_what_is_over();
        }
    }

    /// A flush that was sent at that moment was acknowledged.
    pub fn flushed(&mut self, sent: Moment) {
        self.flushes += 1;
        let blocks = &mut self.blocks;
        self.open.retain(|block| {
            let Some(known) = blocks.get_mut(block) else { return false };
            for version in &mut known.versions {
                version.is_durable |= version.acknowledged.is_some_and(|acknowledged| acknowledged < sent);
            }
            known.forget_what_is_over();
            known.versions.iter().any(|version| !version.is_durable)
        });
    }

    /// The changed blocks, in order.
    pub fn blocks(&self) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.blocks.keys().copied().collect();
        blocks.sort_unstable();
        blocks
    }

    /// Power has failed and come back, and a block holds this. Its current contents are now durable.
    pub fn judge(&mut self, block: u64, found: Sum) -> Result<(), Broken> {
        let Some(known) = self.blocks.get_mut(&block) else { return Ok(()) };
        let may_be = known.versions.iter().any(|version| version.sum.is_none_or(|sum| sum == found));
        let is_older = known.over == Some(found);
        let stays = Version { sum: Some(found), sent: 0, acknowledged: Some(0), is_durable: true };
        *known = Block { versions: vec![stays], over: None };
        self.open.remove(&block);
        if may_be { Ok(()) } else { Err(Broken { block, is_older }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 7;
    const BEFORE: Broken = Broken { block: BLOCK, is_older: true };

    fn write(promises: &mut Promises, sum: Sum) -> Moment {
        let sent = promises.now();
        promises.change(sent, BLOCK, [sum]);
        sent
    }

    fn acknowledged(promises: &mut Promises, sum: Sum, outcome: Outcome) {
        let sent = write(promises, sum);
        promises.changed(sent, BLOCK, 1, outcome);
    }

    fn flush(promises: &mut Promises) {
        let sent = promises.now();
        promises.flushed(sent);
    }

    #[test]
    fn what_was_flushed_is_there_and_what_was_not_may_be() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            acknowledged(&mut promises, 1, Outcome::Done);
            flush(&mut promises);
            acknowledged(&mut promises, 2, Outcome::Done);
            assert_eq!(promises.judge(BLOCK, found), Ok(()));
            // it stays
            assert_eq!(promises.judge(BLOCK, found), Ok(()));
            assert_eq!(promises.judge(BLOCK, 3 - found), Err(Broken { block: BLOCK, is_older: false }));
        }
    }

    #[test]
    fn an_older_version_must_not_come_back() {
        let mut promises = Promises::default();
        acknowledged(&mut promises, 1, Outcome::Done);
        acknowledged(&mut promises, 2, Outcome::Done);
        flush(&mut promises);
        assert_eq!(promises.judge(BLOCK, 1), Err(BEFORE));
        acknowledged(&mut promises, 3, Outcome::Durable);
        assert_eq!(promises.judge(BLOCK, 1), Err(BEFORE));
    }

    #[test]
    fn a_flush_counts_for_what_was_acknowledged_before_it_was_sent() {
        let mut promises = Promises::default();
        acknowledged(&mut promises, 1, Outcome::Durable);
        let sent = write(&mut promises, 2);
        let flush = promises.now();
        promises.changed(sent, BLOCK, 1, Outcome::Done);
        promises.flushed(flush);
        assert_eq!(promises.judge(BLOCK, 1), Ok(()));
    }

    #[test]
    fn of_two_writes_at_once_either_may_be_last() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            let (first, second) = (write(&mut promises, 1), write(&mut promises, 2));
            promises.changed(second, BLOCK, 1, Outcome::Done);
            promises.changed(first, BLOCK, 1, Outcome::Done);
            flush(&mut promises);
            assert_eq!(promises.judge(BLOCK, found), Ok(()));
        }
    }

    #[test]
    fn a_write_that_failed_may_be_there_or_not() {
        for found in [1, 2] {
            let mut promises = Promises::default();
            acknowledged(&mut promises, 1, Outcome::Durable);
            acknowledged(&mut promises, 2, Outcome::Failed);
            flush(&mut promises);
            assert_eq!(promises.judge(BLOCK, found), Ok(()));
        }
    }
}
