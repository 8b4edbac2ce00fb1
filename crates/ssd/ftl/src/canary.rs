//! Canaries: guards against data loss that a test can remove, to prove that the torture test notices.
//!
//! With the feature `canaries`, `take_out` removes one guard on this thread. Without it `out` is `false` at compile
//! time and the guards are simply there. A build without debug assertions refuses the feature, so no release can
//! contain it.

#[cfg(all(feature = "canaries", not(debug_assertions)))]
compile_error!("`canaries` is for tests: build with debug assertions, as `--profile canary` does");

/// A guard, named for what happens without it. The numbers are those of docs/internals/hazards.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Guard {
    /// 1: a unit's old copy is dropped when the new one enters the volatile cache.
    OldCopyGivenUpEarly,
    /// 2: a block is erased while the record that freed it is still in DRAM.
    EraseBeforeJournal,
    /// 3: a block is erased while copies of its units are still being programmed.
    EraseBeforeCopies,
    /// 4: membership in a batch is not recorded before a member is erased.
    BatchMemberErased,
    /// 4: membership in a whole run is not recorded before a page of it is erased.
    RunMemberErased,
    /// 34: a run that has grown since it was recorded counts as recorded.
    RunGrownSinceRecord,
    /// 34: a block is erased while the page that records what it proves is in flight, because an earlier erase wrote it.
    RecordInFlight,
    /// A flush does not wait for a host's record whose page an erase has sent to flash.
    RecordNotAwaited,
    /// 5: a moved unit keeps only the owners that fit in its spare area.
    ExtraOwnersForgotten,
    /// 6: a copyback takes a new version.
    CopybackTakesNewVersion,
    /// 6: a journal record takes the step of its flush.
    RecordTakesFlushStep,
    /// 7: homes are written before the log that records them is durable.
    HomesBeforeLog,
    /// 8: pages of an abandoned attempt count for the next transaction in their slots.
    AttemptsMixed,
    /// 9: log pages are reused before the log's new header is durable.
    FramesBeforeHeader,
    /// 10: a checkpoint overwrites its predecessor.
    CheckpointInPlace,
    /// 10: recovery erases before its own checkpoint stands.
    RecoveryErases,
    /// After a cut, a transaction or a log gets the number of one that was open before.
    NumbersDrawnTwice,
    /// 10: the dump omits what was being programmed when power failed.
    ProgramsNotDumped,
    /// 11: the blocks that journal and checkpoints need count as free.
    SystemBlocksForgotten,
    /// 12: the cache accepts more than the capacitor can dump.
    DumpUnbounded,
    /// 12: power fails while queued commands still wait for room, and all of them are dumped.
    PowerBeforeRoom,
    /// 7, in the SQLite VFS: the log restarts before what a checkpoint brought home is durable.
    RestartBeforeHomes,
    /// 8, in the SQLite VFS: what follows a reopened log stays there when the log continues.
    StaleTailKept,
    /// In the volume: a file gets units although its inode may become durable before the trim that emptied them.
    TrimUnflushed,
    /// In the volume: an inode becomes durable before the data that it shows.
    InodeBeforeData,
    /// The volume is marked closed before its last trims are durable.
    ClosedBeforeTrims,
    /// A copyback names an owner whose record is still in DRAM, and so makes part of a step durable.
    CopyBeforeJournal,
    /// The same while the page of the record, or a page of a log, is on its way to flash.
    CopyBeforeStepIsDone,
    /// A step begins without journal blocks for its records: it may find none in its middle.
    JournalBlockMissing,
    /// A log page is dropped and no record ends its claim: it may claim its home after a cut.
    ClaimNotEnded,
    /// Something durable replaces a log page, but the end of its claim is not durable.
    ClaimOutlivesPage,
    /// A page of an unfinished transaction is dropped, but counts as there when the transaction ends.
    GivenUpPageCounts,
    /// A checkpoint keeps nothing of a log whose hints are all settled: what is brought home afterwards is lost.
    RunsOfSettledLogs,
    /// A page older than a checkpoint claims its home, although the home already had something newer.
    ClaimOlderThanCheckpoint,
    /// A log page is shared while pages before it still wait in the cache.
    PagesBeforeWait,
    /// A page is shared with its home, and a newer page that also claims the home wins after a cut.
    OlderPageComesHome,
    /// A unit is shared with one that is already at the same place, and a page that claims it wins after a cut.
    SharedInPlaceStaysClaimed,
    /// A transaction's page keeps its version, although a newer page claims its unit.
    CommitBelowClaim,
    /// A trim is folded over the chunks of L2P that a checkpoint or a spare area names, but not over those in which
    /// only the journal has mapped something.
    TrimsOfUntouchedChunks,
    /// A unit of a `put` counts although other units of that `put` are missing.
    PutMembersCountAlone,
    /// The units and the records of one batch are two batches.
    BatchKindsApart,
    /// A batch is acknowledged while it is in flight, like a `put` for which protected DRAM has room.
    BatchDoneInFlight,
    /// A record waits in protected DRAM while a batch puts its key.
    WaitingUnderBatch,
    /// Deleting a missing key completes before the deletion that removed it is durable.
    IdleDeleteDoesNotWait,
    /// A trim of units that a step has unmapped completes before that step is durable.
    IdleTrimDoesNotWait,
    /// 4: a tombstone is dropped although no checkpoint covers it.
    TombstoneDropped,
    /// 6: a record that waits while a checkpoint is taken keeps its version, and passes for a copy of what the
    /// checkpoint has.
    WaitingKeepsVersion,
    /// 6: garbage collection gives a copied record a new version.
    RecordTakesNewVersion,
    /// An index is swapped out although it has changed since the last checkpoint, from which it will be loaded.
    ChangedIndexSwappedOut,
    /// A checkpoint omits the indexes that are on flash only.
    SwappedIndexNotCopied,
    /// What a step replaces is in protected DRAM, and the dump brings it back over the step.
    ReplacedNotSettled,
    /// 24: an entry of the log in non-volatile memory is stored while pages that it names are still being programmed.
    NvmBeforePrograms,
    /// 24: an entry of that log counts although only some of its words are there.
    NvmEntryInParts,
    /// 24: the word that switches to a checkpoint is stored together with the checkpoint.
    NvmSwitchedEarly,
    /// 25: a checkpoint is stored in memory while pages that its L2P names are still being programmed.
    NvmCheckpointBeforePrograms,
    /// 24: a unit is in a file's list before its data are on flash.
    ListBeforeData,
    /// 24: a file's list names the first of some units together with the words that link them to each other.
    ListLinkedEarly,
    /// 17: clearing all lists clears one after the other.
    ListsClearedInParts,
    /// 10: a checkpoint in memory overwrites the one that counts.
    NvmCheckpointInPlace,
    /// 23, in the document store: a header is accepted although part of what its commit appended is missing.
    HeaderAlone,
    /// 23, in the document store: the updates of a batch are shared one by one.
    SharedInParts,
    /// 23, in the document store: the staging area starts over before a header records what was shared from it.
    StageReused,
    /// 23, in the document store: a document is shared over while a snapshot sees it.
    SharedOverSnapshot,
    /// 23, in the document store: a compacted file takes over the name before it is durable.
    CompactedNotSynced,
    /// 23, in the document store: commits go to the compacted file before its name is durable.
    SwitchNotDurable,
    /// In a log-structured file system: a checkpoint names tables and nodes that are not durable.
    PackBeforeTables,
    /// In a log-structured file system: a checkpoint overwrites its predecessor.
    PackInPlace,
    /// 18, in a log-structured file system: a node of a sync is written before the data to which it points are durable.
    NodeBeforeData,
    /// In a log-structured file system: an anchor names a super root that is not durable.
    AnchorBeforeSuperRoot,
    /// In a log-structured file system: a partial segment counts although some of its units are missing.
    PartialUnchecked,
    /// In a log-structured file system: a summary counts units that the drive moved and that are not durable there.
    SummaryBeforeMoves,
    /// In a log-structured file system: units that a snapshot sees are released when the present no longer needs them.
    SnapshotHolds,
    /// 18, in a log-structured file system: the cleaner moves units that were rewritten elsewhere since it chose them.
    StaleMove,
    /// 17, in a log-structured file system: lists are cleared before the checkpoint that makes them void is durable.
    ListsClearedEarly,
    /// 17, in a log-structured file system: recovery follows lists that a checkpoint has made void.
    VoidListsFollowed,
    /// 17, in a log-structured file system: a list stands although the index made its file durable since.
    ListBehindNodes,
    /// 17, in a log-structured file system: the drive lists a unit behind a summary that is not durable.
    ListBeforeSummary,
    /// 18, in a log-structured file system: recovery gives a listed unit another number than the summary that names it.
    NamedNumber,
    /// In a log-structured file system: a sync returns before what it wrote in place is durable.
    OverwriteNotFlushed,
    /// In a log-structured file system: a unit is written in place while an older one waits in a buffer to be appended there.
    OverwriteBeforeAppend,
    /// In a log-structured file system: a hole is filled although the last checkpoint names what lay there.
    HoleStillNamed,
    /// In a log-structured file system: a mount fills holes before its own checkpoint is durable.
    HolesInRecovery,
    /// For several clients of a drive: an answer is given before it is due.
    AnsweredEarly,
    /// For several clients of a drive: an answer that was not due when power went is given.
    AnsweredWithoutPower,
    /// For several clients of a drive whose answers are given at once: a command is issued before those of the others are
    /// done.
    AtOnceBeforeOthers,
    /// For several clients of a drive: a write is shared with a unit that held the same bytes once.
    DuplicateUnchecked,
}

#[cfg(feature = "canaries")]
thread_local! {
    static OUT: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// Removes one guard on this thread, or restores all.
#[cfg(feature = "canaries")]
pub fn take_out(guard: Option<Guard>) {
    OUT.set(guard);
}

/// Whether the guard is removed.
#[cfg(feature = "canaries")]
#[inline]
pub fn out(guard: Guard) -> bool {
    OUT.get() == Some(guard)
}

/// Whether the guard is removed: never, in this build.
#[cfg(not(feature = "canaries"))]
#[inline]
pub const fn out(_guard: Guard) -> bool {
    false
}
