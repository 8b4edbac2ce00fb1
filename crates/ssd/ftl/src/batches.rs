//! Atomic batches: those that are not settled yet, and the marks that members carry in their spare areas.

use std::collections::BTreeSet;

use tantalum_nand::Nanoseconds;

use crate::spare::BatchMark;
use crate::types::Seq;

/// The batches that are not settled yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    /// When the last batch of several pages is on flash: until then its members must not be copied, since copies have no
    /// mark. A batch of a single page has no marks, and no copy of it starts before it can be read.
    done_ns: Nanoseconds,
    /// Batches that were abandoned halfway: they must never count as whole.
    abandoned: BTreeSet<Seq>,
}

impl Batches {
    /// When all batches of several pages are on flash.
    pub fn done_ns(&self) -> Nanoseconds {
        self.done_ns
    }

    /// A batch of several pages will be on flash at this time.
    pub fn programmed(&mut self, done_ns: Nanoseconds) {
        self.done_ns = self.done_ns.max(done_ns);
    }

    /// A batch was abandoned halfway.
    pub fn abandon(&mut self, id: Seq) {
        self.abandoned.insert(id);
    }

    /// Recovery found these batches incomplete. Their members may be erased before its checkpoint stands.
    pub fn found(&mut self, dropped: BTreeSet<Seq>) {
        debug_assert!(
            self.abandoned.is_empty(),
            "batches {:?} were abandoned before recovery",
            self.abandoned
        );
        self.abandoned = dropped;
    }

    /// A checkpoint without any of their members stands.
    pub fn forget_abandoned(&mut self) {
        self.abandoned.clear();
    }

    /// Whether a batch must never count as whole.
    pub fn is_abandoned(&self, id: Seq) -> bool {
        self.abandoned.contains(&id)
    }
}

/// The marks of a batch's members of one kind.
#[derive(Clone, Copy)]
pub(crate) struct Marks {
    pub id: Seq,
    /// The number of the first member of that kind.
    pub first: u32,
    /// Members of the batch.
    pub count: u32,
    /// Whether members carry marks at all.
    pub are_needed: bool,
}

impl Marks {
    /// The mark of one of them.
    pub fn of(&self, index: usize) -> Option<BatchMark> {
        let Marks { id, first, count, are_needed } = *self;
        are_needed.then_some(BatchMark { id, index: first + index as u32, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Until recovery's checkpoint stands, members of what it dropped may be erased, and must not be recorded as whole.
    #[test]
    fn what_recovery_dropped_is_abandoned_until_a_checkpoint_stands() {
        let mut batches = Batches::default();
        batches.found(BTreeSet::from([Seq(5), Seq(9)]));
        assert_eq!([4, 5, 9].map(|id| batches.is_abandoned(Seq(id))), [false, true, true]);
        batches.forget_abandoned();
        assert!(!batches.is_abandoned(Seq(5)) && !batches.is_abandoned(Seq(9)));
    }
}
