//! The erase rule, in one place.
//!
//! A block may be erased only when everything that its spare areas alone assert, including membership in batches and
//! whole runs, is durably asserted elsewhere or superseded by something durable, and when the operations that made it
//! so have finished programming. A block becomes free when no place in it has an owner; it is erased when it is opened:
//!
//! 1. memberships that only its spare areas prove are journaled (hazard 4), unless the journal has them since the last
//!    checkpoint (`metadata/memberships.rs` says what has to be there for recovery, hazard 34),
//! 2. the journal is flushed, so that what made its pages invalid is durable (hazard 2),
//! 3. the erase starts when all programs that made the block free are done, including copies out of it (hazard 3), and the
//!    whole journal and the last checkpoint, which may have taken over what it proved.
//!
//! It waits for nothing else, because a host's write may wait for the erase; and no flush waits for a page of the journal
//! that has only memberships.
//!
//! Recovery erases by the same rule before its own checkpoint stands: it records what it found to be whole, and first
//! opens blocks that the last checkpoint covers, of which enough are kept free.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Nand, NandError, Nanoseconds, UnitSpare};

use super::allocate::Allocator;
use super::parts::Parts;
use crate::batches::Batches;
use crate::error::FtlError;
use crate::metadata::{MetadataLog, Record};
use crate::reservation::{Purpose, Reservation};
use crate::space::BlockUse;
use crate::spare::{Mark, Spare};
use crate::tenants::units::Units;
use crate::types::{Generation, Seq};

impl Allocator {
    /// Erases a block by the rule. False if the erase failed and the block is retired.
    pub(super) fn erase(&mut self, block: BlockId, at_ns: Nanoseconds) -> Result<bool, FtlError> {
        debug_assert_eq!(self.map.valid(block), 0, "block {block} is erased with places in use");
        debug_assert!(
            !self.map.is_candidate(block),
            "block {block} is erased while garbage collection may choose it"
        );
        let is_for_journal = self.space.block_use(block) == BlockUse::Journal;
        if self.space.is_marked(block) {
            self.journal_memberships(block, is_for_journal, at_ns)?;
        }
        let journaled_ns = guard!(EraseBeforeJournal, {
            let stored_ns = self.journal_for_erase(is_for_journal, at_ns)?;
            debug_assert!(self.log.nothing_waits(), "block {block} is erased while records wait");
            stored_ns.max(self.log.checkpoint_done_ns())
        });
        self.space.clear_marks(block);
        let done_ns =
            guard!(EraseBeforeCopies, self.nand.released_ns(self.space.released_ns(block)).max(journaled_ns));
        match self.nand.erase(block, at_ns.max(done_ns)) {
            Ok(_) => {
                self.counters.blocks_erased += 1;
                Ok(true)
            }
            Err(NandError::EraseFailed { .. }) => {
                self.counters.erase_failures += 1;
                self.space.erase_failed(block);
                self.retire(block)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Records what only this block's spare areas prove. A block for the journal has its records go to the one that is open.
    fn journal_memberships(
        &mut self,
        block: BlockId,
        is_for_journal: bool,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let Parts { log, batches, units, nand, scratch, .. } = &mut self.parts;
        let records = memberships_of(block, (log, batches), units, nand, &mut scratch.spares)?;
        if records.is_empty() {
            return Ok(());
        }
        if !is_for_journal {
            self.open_journal_blocks(records.len(), at_ns)?;
        }
        let mut room = Reservation::new(Purpose::Memberships, 0, records.len(), 0);
        records.into_iter().try_for_each(|record| self.append_journal(&mut room, &[record], at_ns))
    }

    /// Programs the waiting records. Returns when the whole journal is on flash: an earlier erase may have recorded what this
    /// one relies on, in a page that is still in flight.
    fn journal_for_erase(
        &mut self,
        is_for_journal: bool,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        guard!(RecordInFlight(&mut self.log));
        match is_for_journal {
            // no block for the journal is opened for the sake of another
            true => self.flush_records(at_ns)?,
            false => self.flush_journal(at_ns)?,
        };
        Ok(self.log.stored_ns())
    }
}

/// The batches and runs that pages of this block belong to, if neither a checkpoint nor the journal has them.
/// Reading their spare areas takes no time: firmware keeps a number in DRAM for each page that it marked, or found
/// marked in recovery, until the next checkpoint.
fn memberships_of(
    block: BlockId,
    (log, batches): (&MetadataLog, &Batches),
    units: &mut Units,
    nand: &Nand,
    scratch: &mut Vec<UnitSpare>,
) -> Result<Vec<Record>, FtlError> {
    let mut whole: BTreeSet<Seq> = BTreeSet::new();
    let mut slots: BTreeMap<Generation, BTreeSet<(u32, u32)>> = BTreeMap::new();
    let decoded = nand.block_spares(block, scratch)?.filter_map(|(_, spare)| Spare::decode(spare));
    let recorded = log.memberships();
    for spare in decoded.filter(|spare| spare.step > log.checkpoint_step()) {
        match spare.mark {
            Mark::Plain => {}
            Mark::Batch(batch) if batches.is_abandoned(batch.id) => {}
            Mark::Batch(batch) if recorded.has_batch(batch.id) => {}
            Mark::Batch(batch) => guard!(BatchMemberErased, {
                whole.insert(batch.id);
            }),
            Mark::Hint(hint, _) => {
                let (attempt, slot) = (hint.attempt().0, hint.slot);
                if guard!(RunMemberErased, !recorded.has_slot(hint.generation, attempt, slot)) {
                    slots.entry(hint.generation).or_default().insert((attempt, slot));
                }
            }
        }
    }
    let mut records: Vec<Record> = whole.into_iter().map(|id| Record::BatchWhole { id }).collect();
    for (generation, slots) in slots {
        run_of(generation, &slots, log, units, &mut records);
    }
    Ok(records)
}

/// How far a log is whole, if one of these slots (attempt, slot) is in its whole run.
fn run_of(
    generation: Generation,
    slots: &BTreeSet<(u32, u32)>,
    log: &MetadataLog,
    units: &mut Units,
    records: &mut Vec<Record>,
) {
    let run = units.whole_run(generation);
    let is_in_run =
        |&(attempt, slot): &(u32, u32)| run.iter().any(|&(number, last)| number == attempt && slot <= last);
    if !slots.iter().any(is_in_run) {
        return;
    }
    let recorded = log.memberships();
    let new = run.iter().filter(|(attempt, last)| !recorded.has_slot(generation, *attempt, *last));
    records.extend(new.map(|&(attempt, last)| Record::LogWhole { generation, attempt, last }));
}
