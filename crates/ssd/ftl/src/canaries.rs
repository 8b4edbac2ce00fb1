//! The guards of the FTL, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]).

use tantalum_nand::{Nand, NandError, Nanoseconds, Ppn, Source};

use crate::batches::Marks;
use crate::control::{Ftl, MovingPage};
use crate::error::FtlError;
use crate::file_lists::{Words, store};
use crate::metadata::{MetadataLog, Record};
use crate::placement::Handle;
use crate::tenants::records::{HEADER_BYTES, Header};
use crate::types::{Generation, Lpn, Seq};

tantalum_canaries::guards! {
    /// A block is erased while the record that freed it is still in DRAM.
    #[hazard(2)]
    fn EraseBeforeJournal() -> Nanoseconds { 0 }

    /// A block is erased while copies of its units are still being programmed.
    #[hazard(3)]
    fn EraseBeforeCopies() -> Nanoseconds { 0 }

    /// Membership in a batch is not recorded before a member is erased.
    #[hazard(4)]
    fn BatchMemberErased() {}

    /// Membership in a whole run is not recorded before a page of it is erased.
    #[hazard(4)]
    fn RunMemberErased() -> bool { false }

    /// A run that has grown since it was recorded counts as recorded.
    #[hazard(34)]
    fn RunGrownSinceRecord() -> bool { true }

    /// A block is erased while the page that records what it proves is in flight, because an earlier erase wrote it.
    #[hazard(34)]
    fn RecordInFlight(log: &mut MetadataLog) { log.forget_what_is_in_flight() }

    /// A flush does not wait for a host's record whose page an erase has sent to flash.
    fn RecordNotAwaited() -> bool { true }

    /// A moved unit keeps only the owners that fit in its spare area.
    #[hazard(5)]
    fn ExtraOwnersForgotten() -> bool { false }

    /// Copies of all handles go where those of the first go, although handles are kept apart.
    #[hazard(37)]
    fn CopiesLeaveHandle() -> Handle { Handle::DEFAULT }

    /// The copy of a unit with marks or several owners says nothing of its handle.
    #[hazard(37)]
    fn CopyForgetsHandle() -> Handle { Handle::DEFAULT }

    /// After a cut, copies of one handle go on in a block of another.
    #[hazard(37)]
    fn PartialTakesAnyHandle() -> bool { true }

    /// The dump puts units of all handles on one page.
    #[hazard(37)]
    fn DumpMixesHandles() -> bool { false }

    /// A block with marked units, or pages of transactions, counts as one without: their copies keep the marks.
    fn MarkedUnitTakenForPlain() {}

    /// A copyback takes a new version.
    #[hazard(6)]
    fn CopybackTakesNewVersion(
        moving: &mut MovingPage,
        unit: (Ppn, Lpn),
        version: Seq,
        nand: &Nand,
    ) -> Result<(), FtlError> {
        moving.take_renewed(unit, version, nand)
    }

    /// A journal record takes the step of its flush.
    #[hazard(6)]
    fn RecordTakesFlushStep(flushed: Seq, log: &mut MetadataLog) { log.set_steps(flushed) }

    /// Pages of an abandoned attempt count for the next transaction in their slots.
    #[hazard(8)]
    fn AttemptsMixed() -> (u32, u32) { (0, 1) }

    /// A checkpoint overwrites its predecessor.
    #[hazard(10)]
    fn CheckpointInPlace(ftl: &mut Ftl, at_ns: Nanoseconds) -> Result<(), FtlError> {
        ftl.erase_last_checkpoint(at_ns)
    }

    /// After a cut, a reset counts only if a checkpoint has it.
    #[hazard(38)]
    fn ResetForgotten(kept: Seq) -> Seq { kept }

    /// After a cut, the write pointer of a zone is behind the last page that is there, although one before it is missing.
    #[hazard(38)]
    fn HoleInZone(rows: &[u32]) -> u32 {
        let planes = rows.len() as u32;
        let ends = (0..planes).zip(rows).filter(|(_, rows)| **rows > 0);
        ends.map(|(column, rows)| (rows - 1) * planes + column + 1).max().unwrap_or(0)
    }

    /// A page of a zone counts as durable although one before it is in flight: a cut may leave a hole there.
    #[hazard(38)]
    fn HoleBeforeZonePage() -> Nanoseconds { 0 }

    /// The tail of a page takes the place of an older one on flash while the page that the older one became part of is in flight.
    #[hazard(38)]
    fn TailReplacedEarly() -> Nanoseconds { 0 }

    /// A zone's units count as durable while units of the tail before them are in flight.
    #[hazard(38)]
    fn TailNotAwaited() {}

    /// What is written to a zone after a reset is durable before the reset.
    #[hazard(38)]
    fn WrittenBeforeReset() {}

    /// A zone is written before another one durably gave up the active resource that it takes.
    #[hazard(38)]
    fn TooManyActiveAfterCut(at_ns: Nanoseconds) -> Nanoseconds { at_ns }

    /// The pages of a zone's new block take the bytes of those in the old one, which a cut may leave as the one that counts.
    #[hazard(38)]
    fn ZoneCopyTakesSource(copies: &[Source]) -> Vec<Source> { copies.to_vec() }

    /// After a cut, the units of any page count as the tail of a zone.
    #[hazard(38)]
    fn TailOfOtherPage() -> bool { true }

    /// The copy of a lost page of a zone reads as zeros.
    fn LostZonePageReadsZeros() -> bool { false }

    /// Blocks that zones may still take count as free.
    #[hazard(11)]
    fn ZoneBlocksForgotten() -> u32 { 0 }

    /// Recovery erases before its own checkpoint stands.
    #[hazard(10)]
    fn RecoveryErases() {}

    /// After a cut, a transaction or a log gets the number of one that was open before.
    fn NumbersDrawnTwice() -> bool { false }

    /// Of the units that were to enter protected DRAM in one step, those count that had when the process was killed.
    #[hazard(36)]
    fn EntersInParts() -> bool { true }

    /// The dump omits what was being programmed when power failed.
    #[hazard(10)]
    fn ProgramsNotDumped() -> bool { false }

    /// The blocks that journal and checkpoints need count as free.
    #[hazard(11)]
    fn SystemBlocksForgotten() -> bool { true }

    /// A copyback names an owner whose record is still in DRAM, and so makes part of a step durable.
    fn CopyBeforeJournal() -> bool { false }

    /// The same while the page of the record, or a page of a log, is on its way to flash.
    fn CopyBeforeStepIsDone() -> Nanoseconds { 0 }

    /// A step begins without journal blocks for its records: it may find none in its middle.
    fn JournalBlockMissing() -> Result<(), FtlError> { Ok(()) }

    /// A log page is dropped and no record ends its claim: it may claim its home after a cut.
    fn ClaimNotEnded() -> Option<Record> { None }

    /// A page of an unfinished transaction is dropped, but counts as there when the transaction ends.
    fn GivenUpPageCounts() -> bool { true }

    /// A checkpoint keeps nothing of a log whose hints are all settled: what is brought home afterwards is lost.
    fn RunsOfSettledLogs() -> Option<(Generation, u32, u32)> { None }

    /// A page older than a checkpoint claims its home, although the home already had something newer.
    fn ClaimOlderThanCheckpoint() -> bool { true }

    /// A page is shared with its home, and a newer page that also claims the home wins after a cut.
    fn OlderPageComesHome() -> bool { true }

    /// A unit is shared with one that is already at the same place, and a page that claims it wins after a cut.
    fn SharedInPlaceStaysClaimed() -> bool { false }

    /// A transaction's page keeps its version, although a newer page claims its unit.
    fn CommitBelowClaim() -> bool { false }

    /// A trim is folded over the chunks of L2P that a checkpoint or a spare area names, but not over those in which only the
    /// journal has mapped something.
    fn TrimsOfUntouchedChunks() {}

    /// A unit of a `put` counts although other units of that `put` are missing.
    fn PutMembersCountAlone() -> bool { true }

    /// The units and the records of one batch are two batches.
    fn BatchKindsApart(batch: Marks, units: u32, other: Seq) -> (Marks, Marks) {
        (Marks { count: units, ..batch }, Marks { id: other, count: batch.count - units, ..batch })
    }

    /// A batch is acknowledged while it is in flight, like a `put` for which protected DRAM has room.
    fn BatchDoneInFlight(at_ns: Nanoseconds) -> Nanoseconds { at_ns }

    /// A record waits in protected DRAM while a batch puts its key.
    fn WaitingUnderBatch() -> Result<(), FtlError> { Ok(()) }

    /// Deleting a missing key completes before the deletion that removed it is durable.
    #[hazard(16)]
    fn IdleDeleteDoesNotWait() -> Nanoseconds { 0 }

    /// A trim of units that a step has unmapped completes before that step is durable.
    #[hazard(16)]
    fn IdleTrimDoesNotWait() -> bool { false }

    /// A tombstone is dropped although no checkpoint covers it.
    #[hazard(4)]
    fn TombstoneDropped() {}

    /// A record that waits while a checkpoint is taken keeps its version, and passes for a copy of what the checkpoint has.
    #[hazard(6)]
    fn WaitingKeepsVersion() {}

    /// Garbage collection gives a copied record a new version.
    #[hazard(6)]
    fn RecordTakesNewVersion(header: Header, copy: &mut [u8]) {
        let value = copy[HEADER_BYTES..][..usize::from(header.value_bytes)].to_vec();
        Header { version: Seq(header.version.0 + 1), ..header }.write(&value, copy);
    }

    /// An index is swapped out although it has changed since the last checkpoint, from which it will be loaded.
    fn ChangedIndexSwappedOut() {}

    /// A checkpoint omits the indexes that are on flash only.
    fn SwappedIndexNotCopied<T: Default>() -> T { T::default() }

    /// An entry of the log in non-volatile memory is stored while pages that it names are still being programmed.
    #[hazard(24)]
    fn NvmBeforePrograms() -> Nanoseconds { 0 }

    /// An entry of that log counts although only some of its words are there.
    #[hazard(24)]
    fn NvmEntryInParts() -> bool { false }

    /// The word that switches to a checkpoint is stored together with the checkpoint.
    #[hazard(24)]
    fn NvmSwitchedEarly(
        nand: &mut Nand,
        switch: (u64, &[u8]),
        checkpoint: [(u64, &[u8]); 2],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        nand.nvm_store(&[switch, checkpoint[0], checkpoint[1]], at_ns)
    }

    /// A checkpoint is stored in memory while pages that its L2P names are still being programmed.
    #[hazard(25)]
    fn NvmCheckpointBeforePrograms() -> Nanoseconds { 0 }

    /// A checkpoint in memory overwrites the one that counts.
    #[hazard(10)]
    fn NvmCheckpointInPlace() -> u64 { 0 }

    /// A unit is in a file's list before its data are on flash.
    #[hazard(24)]
    fn ListBeforeData() -> Nanoseconds { 0 }

    /// A file's list names the first of some units together with the words that link them to each other.
    #[hazard(24)]
    fn ListLinkedEarly(
        nand: &mut Nand,
        own: Words,
        linking: Words,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        store(nand, &own.into_iter().chain(linking).collect(), at_ns)
    }

    /// Clearing all lists clears one after the other.
    #[hazard(17)]
    fn ListsClearedInParts(
        nand: &mut Nand,
        files: impl Iterator<Item = u64>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        store(nand, &files.map(|at| (at, 0)).collect(), at_ns)
    }
}
