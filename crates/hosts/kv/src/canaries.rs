//! The guards of the store, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]). A store works in several threads, so its tests take them out everywhere.

use parking_lot::RwLockWriteGuard;
use tantalum::{Footprint, Nanoseconds};

use crate::failure::Failure;
use crate::plan::Plan;
use crate::record::{Name, Value};
use crate::record_store::{RecordStore, Records};
use crate::redo::DELETED_AT_ONCE;
use crate::tree::is_node;
use crate::versions::Versions;

tantalum_canaries::guards! {
    /// A scan does not lock the range that it has read: others insert into it.
    fn RangeNotLocked() {}

    /// A range is locked although others have locked keys in it.
    fn RangeOverPoints() {}

    /// A scan uses what it found before it had the lock.
    fn NotReadAgain() -> bool { false }

    /// The marker of a large transaction is written before its log.
    fn MarkerBeforeGroups(drive: &RecordStore, marker: &Records) -> Result<(), Failure> { drive.put_unseen(marker) }

    /// A large transaction is put step by step, without a log.
    fn LargeInParts(drive: &RecordStore, plan: &Plan) -> Result<Nanoseconds, Failure> {
        let parts: Vec<Records> = plan.steps.iter().map(|step| step.records.clone()).collect();
        drive.put_parts(&parts, None).map_err(|(_, failure)| failure)
    }

    /// Others read between the parts of a large transaction.
    fn PartsSeen(unread: &mut Option<RwLockWriteGuard<'_, Versions>>) {
        unread.take();
        std::thread::yield_now();
    }

    /// The description of a large value is put before the commit, in a separate step.
    fn DescriptionApart(drive: &RecordStore, description: (Name, Option<Value>)) -> Result<(), Failure> {
        drive.put_unseen(&vec![description])
    }

    /// Parts that belong to no value are not deleted when the store is opened.
    fn PartsLeft() -> bool { false }

    /// The parts of a large value that is gone are deleted although a snapshot sees it.
    fn PartsGone() -> bool { false }

    /// The nodes of a tree are put after the values, in a separate step.
    fn NodesApart(drive: &RecordStore, records: &Records) -> Result<Nanoseconds, Failure> {
        let is_node = |record: &(Name, Option<Value>)| is_node(record.0);
        let (nodes, others): (Records, Records) = records.iter().cloned().partition(is_node);
        drive.put(&others, None)?;
        drive.put(&nodes, None)
    }

    /// The record of the numbers issued is not written.
    fn NumbersTwice() -> bool { false }

    /// What a put replaces is not kept for snapshots.
    fn VersionsForgotten() -> bool { false }

    /// A snapshot is read although what it saw is no longer kept.
    fn LostSnapshotRead() -> bool { false }

    /// What a step of a large transaction is logged in is not deleted with it, but when all are in place.
    fn StepsRepeated(parts: &mut Vec<Records>, is_logged: impl Fn(&Name) -> bool) {
        let Some((_, steps)) = parts.split_last_mut() else { return };
        let mut late = Records::new();
        for step in steps {
            late.extend(step.extract_if(.., |(name, _)| is_logged(name)));
        }
        parts.extend(late.chunks(DELETED_AT_ONCE).map(<[_]>::to_vec));
    }

    /// A step is computed from the nodes that the drive has, not from those that the steps before have left.
    fn PlannedOnOldNodes() {}

    /// A large transaction counts although its steps may not have room.
    fn RoomNotAsked() -> bool { true }

    /// Puts take the room that is reserved for deletes.
    fn ReserveTaken() -> Footprint { Footprint::default() }

    /// Keys that are deleted by their positions are not compared with those that were meant.
    fn OtherKeysDeleted() -> bool { false }
}
