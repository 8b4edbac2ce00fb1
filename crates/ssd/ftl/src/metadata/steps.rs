//! Steps that may not be on flash yet, and the places to which they gave an owner.
//!
//! A copy names all owners of its unit by itself. If one of them comes from a share, a remap or a commit, the copy must
//! not reach flash before the whole step does. So it waits for the records, or for the pages of logs that come home
//! without records. Unfinished steps are kept in two generations: all places of the older one are done together, and
//! those of the newer one later.

use tantalum_nand::{Nanoseconds, Ppn};

use crate::types::HashSet;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// When everything programmed for steps is on flash.
    done_ns: Nanoseconds,
    newer: HashSet<Ppn>,
    older: HashSet<Ppn>,
    /// When the steps that gave `older` their owners are on flash.
    older_done_ns: Nanoseconds,
}

impl Steps {
    /// When everything programmed for steps is on flash.
    pub fn done_ns(&self) -> Nanoseconds {
        self.done_ns
    }

    /// A journal page, or a page with log pages, is on flash at this time.
    pub fn programmed(&mut self, done_ns: Nanoseconds) {
        self.done_ns = self.done_ns.max(done_ns);
    }

    /// Between two steps, so that none has some records on flash and others in DRAM. `recorded` if no record waits.
    pub fn between(&mut self, recorded: bool, now_ns: Nanoseconds) {
        if recorded && self.older_done_ns <= now_ns {
            self.older.clear();
            std::mem::swap(&mut self.older, &mut self.newer);
            debug_assert!(self.older_done_ns <= self.done_ns, "steps of the older generation are done last");
            self.older_done_ns = self.done_ns;
        }
    }

    /// A step gives a place an owner.
    pub fn gave_owner(&mut self, ppn: Ppn) {
        self.newer.insert(ppn);
    }

    /// Whether a place has an owner from a step that may not be on flash at this time.
    pub fn is_under_way(&self, ppn: Ppn, at_ns: Nanoseconds) -> bool {
        self.newer.contains(&ppn) || self.older_done_ns > at_ns && self.older.contains(&ppn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_under_way_until_its_step_is_on_flash() {
        let mut steps = Steps::default();
        steps.gave_owner(Ppn(1));
        steps.between(false, 0);
        assert!(steps.is_under_way(Ppn(1), 1000), "its record waits");
        steps.programmed(100);
        steps.between(true, 0);
        assert!(steps.is_under_way(Ppn(1), 99) && !steps.is_under_way(Ppn(1), 100));
        steps.gave_owner(Ppn(2));
        steps.programmed(200);
        steps.between(true, 50);
        assert!(steps.is_under_way(Ppn(1), 99) && steps.is_under_way(Ppn(2), 150));
        steps.between(true, 100);
        assert!(!steps.is_under_way(Ppn(1), 100) && steps.is_under_way(Ppn(2), 199));
        assert!(!steps.is_under_way(Ppn(2), 200) && !steps.is_under_way(Ppn(3), 0));
    }

    #[test]
    fn all_steps_are_done_when_the_last_one_is() {
        let mut steps = Steps::default();
        steps.programmed(200);
        steps.programmed(100);
        assert_eq!(steps.done_ns(), 200);
    }
}
