//! Atomic batches: what of them is not settled yet.

use std::collections::BTreeSet;

use tantalum_nand::Nanoseconds;

use crate::types::Seq;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches {
    /// When the last one of several pages is on flash: before that its members are not copied without their mark. One of a
    /// single page has none, and no copy of it starts before it can be read.
    done_ns: Nanoseconds,
    /// Whether members of one are on flash and not yet mapped: garbage collection would take them for garbage.
    under_way: bool,
    /// Those that were abandoned half way: they must never count as whole.
    abandoned: BTreeSet<Seq>,
}

impl Batches {
    /// When all of several pages are on flash.
    pub fn done_ns(&self) -> Nanoseconds {
        self.done_ns
    }

    /// One of several pages will be on flash then.
    pub fn programmed(&mut self, done_ns: Nanoseconds) {
        self.done_ns = self.done_ns.max(done_ns);
    }

    /// The pages of one are programmed from now on, or no longer.
    pub fn set_under_way(&mut self, under_way: bool) {
        debug_assert_ne!(self.under_way, under_way, "a batch within a batch");
        self.under_way = under_way;
    }

    /// Whether members of one are on flash and not yet mapped.
    pub fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// One was given up half way.
    pub fn abandon(&mut self, id: Seq) {
        self.abandoned.insert(id);
    }

    /// Recovery found these not to be whole. Their members may be erased before its checkpoint stands.
    pub fn found(&mut self, dropped: BTreeSet<Seq>) {
        self.abandoned = dropped;
    }

    /// A checkpoint stands that has none of their members.
    pub fn forget_abandoned(&mut self) {
        self.abandoned.clear();
    }

    /// Whether one must never count as whole.
    pub fn is_abandoned(&self, id: Seq) -> bool {
        self.abandoned.contains(&id)
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
