//! Which memberships the journal has recorded since the last checkpoint, so that no erase records one again.
//!
//! A spare area may prove that a batch or a part of a hinted log was whole. Until the next checkpoint covers that, the
//! erase rule keeps, for recovery:
//!
//! - all members of a whole batch are on flash, or the journal has its `BatchWhole`;
//! - each slot of a log's whole run has a page on flash, or the journal has a `LogWhole` of its attempt up to that slot
//!   or a later one. A run grows, so a record says nothing about the slots behind its last one.
//!
//! A record counts once its page is issued, because every erase starts when all pages issued before it are on flash,
//! those of earlier erases included ([`MetadataLog::stored_ns`]). It does not count while its page is taken and waits for
//! a block, which may have to be erased first. A checkpoint covers everything recorded before it, and recovery no longer
//! reads those records, so nothing counts here any more when it stands; nor after a power cut, because this is in DRAM
//! only (hazard 34).
//!
//! [`MetadataLog::stored_ns`]: super::MetadataLog::stored_ns

use tantalum_canaries::guard;

use super::record::Record;
use crate::types::{Generation, HashMap, HashSet, Seq};

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memberships {
    batches: HashSet<Seq>,
    /// By log and attempt: the last slot.
    runs: HashMap<(Generation, u32), u32>,
}

impl Memberships {
    /// Whether a batch is recorded as whole.
    pub fn has_batch(&self, id: Seq) -> bool {
        self.batches.contains(&id)
    }

    /// Whether an attempt is recorded as whole up to this slot or a later one.
    pub fn has_slot(&self, generation: Generation, attempt: u32, slot: u32) -> bool {
        let last = self.runs.get(&(generation, attempt));
        last.is_some_and(|last| guard!(RunGrownSinceRecord, slot <= *last))
    }

    /// A record was issued with its page.
    pub fn issued(&mut self, record: &Record) {
        match *record {
            Record::BatchWhole { id } => drop(self.batches.insert(id)),
            Record::LogWhole { generation, attempt, last } => {
                let recorded = self.runs.entry((generation, attempt)).or_insert(last);
                *recorded = last.max(*recorded);
            }
            _ => {}
        }
    }

    /// A checkpoint stands.
    pub fn clear(&mut self) {
        *self = Memberships::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(last: u32) -> Record {
        Record::LogWhole { generation: Generation(5), attempt: 1, last }
    }

    #[test]
    fn a_run_is_recorded_up_to_the_last_slot_of_its_attempt() {
        let mut memberships = Memberships::default();
        [run(4), run(7), run(6)].iter().for_each(|record| memberships.issued(record));
        let has = |generation, attempt, slot| memberships.has_slot(Generation(generation), attempt, slot);
        assert_eq!([1, 4, 7, 8].map(|slot| has(5, 1, slot)), [true, true, true, false]);
        assert!(!has(5, 0, 1) && !has(6, 1, 1), "another attempt, another log");
    }

    #[test]
    fn a_checkpoint_leaves_nothing_recorded() {
        let mut memberships = Memberships::default();
        memberships.issued(&run(4));
        memberships.issued(&Record::BatchWhole { id: Seq(9) });
        assert!(memberships.has_batch(Seq(9)) && !memberships.has_batch(Seq(8)));
        memberships.clear();
        assert!(!memberships.has_batch(Seq(9)) && !memberships.has_slot(Generation(5), 1, 1));
    }
}
