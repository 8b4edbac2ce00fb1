//! Commits, of either kind.
//!
//! - **Appended**: documents, then the nodes of both trees that change, then a header, in one write and one sync. The
//!   header has the checksum of what precedes it, so it is valid only if all of that is there.
//! - **Shared**: updates are written to the staging area and then shared over the documents that they replace, all in one
//!   step, which is the commit. The index by key remains correct as it is. The tree by change number is updated with the next
//!   header, at the latest when the staging area is full.
//! - **Both**: if a batch also creates, enlarges or deletes documents, these are appended with their nodes and made durable,
//!   and the header is one of the units that are shared into place. So one step commits everything.
//!
//! A document is shared over only if no snapshot sees it: either no snapshot is open, or its place was taken after the last
//! one was opened. Otherwise the update is appended. The staging area is needed until the next header is durable; then it is
//! reused from its start, so that few units of the drive are shared at any time.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tantalum_canaries::guard;

use crate::batch::Batch;
use crate::data_file::{Pointer, seq_key};
use crate::document::{Change, pad, whole_units};
use crate::error::Error;
use crate::header::Header;
use crate::inner::{Inner, Pending, State, Version, Writer};
use crate::storage::{ShareRange, Shared, Storage, StorageFile, UNIT_BYTES};
use crate::tree_write::{Appended, KeyChange, Split};

const UNIT: u64 = UNIT_BYTES as u64;

/// A change and what it replaces.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'a> {
    pub change: Change<'a>,
    pub old: Option<Pointer>,
    /// Whether it is shared over the old place.
    pub shared: bool,
}

/// How a batch will be committed.
struct Plan<'a> {
    changes: Vec<Planned<'a>>,
    /// Units of the staging area that the shared documents take.
    stage_units: u32,
    /// How many snapshots had been opened when this was decided.
    opened: u64,
}

impl Plan<'_> {
    fn appends(&self) -> bool {
        self.changes.iter().any(|planned| !planned.shared)
    }
}

impl<S: Storage> Inner<S> {
    pub fn commit(&self, batch: &Batch) -> Result<u64, Error> {
        self.check_changes()?;
        let mut writer = self.writer.lock();
        if writer.stopped {
            return Err(Error::Stopped);
        }
        let mut may_share = true;
        loop {
            let plan = self.plan(&mut writer, batch, may_share)?;
            let done = match (plan.changes.is_empty(), plan.appends()) {
                (true, _) => true,
                (false, true) => self.append(&mut writer, &plan)?,
                (false, false) => self.share(&mut writer, &plan)?,
            };
            if done {
                self.counters.commits.fetch_add(1, Relaxed);
                return Ok(self.state.read().version.seq);
            }
            // the drive refused, or a snapshot was opened meanwhile
            may_share = false;
        }
    }

    /// Decides how each change is committed.
    fn plan<'a>(&self, writer: &mut Writer, batch: &'a Batch, may_share: bool) -> Result<Plan<'a>, Error> {
        let (version, opened) = {
            let state = self.state.read();
            (Arc::clone(&state.version), state.opened)
        };
        let mut changes = Vec::with_capacity(batch.len());
        for (key, value) in batch.changes() {
            let old = self.pointer(&version, key)?;
            if value.is_none() && old.is_none_or(|old| old.deleted) {
                continue;
            }
            let seq = version.seq + 1 + changes.len() as u64;
            changes.push(Planned { change: Change { seq, key, value }, old, shared: false });
        }
        let mut plan = Plan { changes, stage_units: 0, opened };
        let limit = self.share_units(&version);
        if may_share && limit > 0 {
            // one unit is the header's
            self.choose_shared(&mut plan, limit - 1);
            let is_full = writer.stage_used + plan.stage_units + 1 > version.header.stage_units;
            if plan.stage_units > 0 && is_full {
                self.start_stage_anew(writer)?;
            }
            assert!(
                plan.stage_units < limit,
                "{} units and a header are shared of {limit}",
                plan.stage_units
            );
            let (used, room) = (writer.stage_used + plan.stage_units + 1, version.header.stage_units);
            assert!(
                plan.stage_units == 0 || used <= room,
                "{used} of {room} units of the staging area are used"
            );
        }
        Ok(plan)
    }

    fn choose_shared(&self, plan: &mut Plan<'_>, limit: u32) {
        let state = self.state.read();
        let is_seen = |old: &Pointer| {
            guard!(SharedOverSnapshot, state.snapshots > 0 && !state.unseen.contains(&old.offset))
        };
        for planned in &mut plan.changes {
            let bytes = planned.change.record_bytes() as u64;
            let units = whole_units(bytes) / UNIT;
            let fits = |old: &Pointer| !old.deleted && units <= old.room_bytes(true) / UNIT;
            let may = planned.change.value.is_some()
                && units <= u64::from(limit - plan.stage_units)
                && planned.old.is_some_and(|old| fits(&old) && !is_seen(&old));
            if may {
                planned.shared = true;
                plan.stage_units += units as u32;
            }
        }
    }

    /// Writes a header that includes everything shared so far, so that the staging area can be reused from its start.
    pub(crate) fn start_stage_anew(&self, writer: &mut Writer) -> Result<(), Error> {
        let plan = Plan { changes: Vec::new(), stage_units: 0, opened: 0 };
        guard!(StageReused(writer), self.append(writer, &plan).map(drop))
    }

    /// Commits a batch of updates by sharing. False if that was not possible; then nothing has changed.
    fn share(&self, writer: &mut Writer, plan: &Plan<'_>) -> Result<bool, Error> {
        let version = Arc::clone(&self.state.read().version);
        let (stage, ranges) = stage_of(&version.header, writer, plan, None);
        let file = &version.file.file;
        or_stop(writer, file.write(ranges[0].from, &stage))?;
        let mut state = self.state.write();
        if guard!(SharedOverSnapshot, state.opened != plan.opened) {
            return Ok(false);
        }
        if or_stop(writer, share_all(file, &ranges))? == Shared::Refused {
            return Ok(false);
        }
        assert_is_last(&state, &version);
        let seq = version.seq + plan.changes.len() as u64;
        state.pending.extend(plan.changes.iter().map(pending));
        state.version = Arc::new(Version { file: Arc::clone(&version.file), header: version.header, seq });
        writer.stage_used += plan.stage_units;
        state.assert_invariants();
        self.counters.documents_shared.fetch_add(plan.changes.len() as u64, Relaxed);
        Ok(true)
    }

    /// Commits with a header; updates that can be shared are shared together with it. False if that was not possible.
    fn append(&self, writer: &mut Writer, plan: &Plan<'_>) -> Result<bool, Error> {
        let (version, pending) = {
            let state = self.state.read();
            (Arc::clone(&state.version), state.pending.clone())
        };
        let mut appended = Appended::at(version.header.end());
        let written = self.write_index(&version, &pending, &plan.changes, &mut appended)?;
        let header = written.header;
        let (file, shares) = (&version.file, plan.stage_units > 0);
        let seq = version.seq + plan.changes.len() as u64;
        assert_eq!(header.seq, seq, "the change of the header, and the last of {}", plan.changes.len());
        file.reserve(header.end())?;
        if shares {
            or_stop(writer, file.file.write(appended.start, &appended.buffer))?;
            let (stage, ranges) = stage_of(&version.header, writer, plan, Some(&header));
            or_stop(writer, file.file.write(ranges[0].from, &stage))?;
            or_stop(writer, file.file.sync())?;
            let mut state = self.state.write();
            let is_undecided = guard!(SharedOverSnapshot, state.opened != plan.opened);
            if is_undecided || or_stop(writer, share_all(&file.file, &ranges))? == Shared::Refused {
                drop(state);
                // the next attempt goes to the same place, and these documents must not pass for its own
                appended.buffer.fill(0);
                or_stop(writer, file.file.write(appended.start, &appended.buffer))?;
                or_stop(writer, file.file.sync())?;
                return Ok(false);
            }
            self.publish(writer, &mut state, &version, &written);
        } else {
            appended.buffer.extend_from_slice(&header.encode()[..]);
            assert_eq!(
                appended.end(),
                header.end(),
                "where the commit ends, and where the file was reserved to"
            );
            or_stop(writer, file.file.write(appended.start, &appended.buffer))?;
            or_stop(writer, file.file.sync())?;
            self.publish(writer, &mut self.state.write(), &version, &written);
        }
        self.count(plan, &appended);
        for (offset, node) in appended.nodes {
            self.cache.put((file.id, offset), node);
        }
        Ok(true)
    }

    fn publish(
        &self,
        writer: &mut Writer,
        state: &mut State<S::File>,
        version: &Version<S::File>,
        written: &Written,
    ) {
        assert_is_last(state, version);
        if state.snapshots > 0 {
            state.unseen.extend(&written.places);
        }
        let (file, header) = (Arc::clone(&version.file), written.header);
        state.version = Arc::new(Version { file, header, seq: header.seq });
        state.pending.clear();
        writer.stage_used = 0;
        state.assert_invariants();
    }

    fn count(&self, plan: &Plan<'_>, appended: &Appended) {
        let shared = plan.changes.iter().filter(|planned| planned.shared).count() as u64;
        self.counters.documents_shared.fetch_add(shared, Relaxed);
        self.counters.documents_appended.fetch_add(plan.changes.len() as u64 - shared, Relaxed);
        self.counters.nodes_written.fetch_add(appended.nodes.len() as u64, Relaxed);
        self.counters.headers_written.fetch_add(1, Relaxed);
    }

    /// Appends documents and nodes, and makes the header that follows them.
    pub(crate) fn write_index(
        &self,
        version: &Version<S::File>,
        pending: &[Pending],
        changes: &[Planned<'_>],
        appended: &mut Appended,
    ) -> Result<Written, Error> {
        let shares = version.header.shares;
        let mut by_key: Vec<KeyChange> = Vec::new();
        let mut by_seq: Vec<KeyChange> = Vec::new();
        let mut places = Vec::new();
        let mut header = version.header;
        for planned in changes.iter().filter(|planned| !planned.shared) {
            let change = &planned.change;
            let place = append_document(change, shares, appended);
            by_key.push((change.key.into(), Some(place.encode())));
            by_seq.push((seq_key(change.seq), Some(place.encode_place())));
            by_seq.extend(planned.old.map(|old| (seq_key(old.seq), None)));
            header.live_bytes += place.room_bytes(shares);
            header.live_bytes -= planned.old.map_or(0, |old| old.room_bytes(shares));
            header.documents += u64::from(!place.deleted);
            header.documents -= u64::from(planned.old.is_some_and(|old| !old.deleted));
            places.push(place.offset);
        }
        pad(&mut appended.buffer);
        let nodes_from = appended.end();
        by_seq.extend(shared_since(pending, changes));
        by_key.sort_unstable();
        by_seq.sort_unstable();
        header.by_key = self.by_key(version).change(&by_key, Split::Even, appended)?;
        header.by_seq = self.by_seq(version).change(&by_seq, Split::Full, appended)?;
        let nodes_bytes = appended.nodes.len() as u64 * UNIT;
        assert_eq!(
            appended.end() - nodes_from,
            nodes_bytes,
            "bytes that follow the documents, and those of nodes"
        );
        header.live_nodes = (header.live_nodes + appended.nodes.len() as u64) - appended.replaced_nodes;
        header.seq_before = version.seq;
        header.seq = changes.last().map_or(version.seq, |planned| planned.change.seq);
        // documents may be shared over while this is the last header
        header.covers_from = if shares { nodes_from } else { appended.start };
        header.covers_crc = appended.checksum_from(header.covers_from);
        header.offset = appended.end();
        let before = version.header.end();
        assert!(header.offset >= before, "a header at {} follows what ends at {before}", header.offset);
        Ok(Written { header, places })
    }
}

/// What a commit wrote.
pub(crate) struct Written {
    pub header: Header,
    /// Where the documents are in the file, in bytes.
    pub places: Vec<u64>,
}

fn pending(planned: &Planned<'_>) -> Pending {
    let place = planned.old.expect("what is shared has a place");
    Pending { seq: planned.change.seq, place }
}

/// Entries of the tree by change number for what was shared since the last header: one for each place, because earlier
/// versions there are gone.
fn shared_since(pending_updates: &[Pending], changes: &[Planned<'_>]) -> Vec<KeyChange> {
    let moved = changes.iter().filter(|planned| !planned.shared).filter_map(|planned| planned.old);
    let mut done: rustc_hash::FxHashSet<u64> = moved.map(|old| old.offset).collect();
    let shared = changes.iter().filter(|planned| planned.shared).map(pending);
    let all: Vec<Pending> = pending_updates.iter().copied().chain(shared).collect();
    let latest = all.iter().rev().filter(|update| done.insert(update.place.offset));
    latest.map(|update| (seq_key(update.seq), Some(update.place.encode_place()))).collect()
}

/// Appends a record; in a file that shares, it begins on a unit.
fn append_document(change: &Change<'_>, shares: bool, appended: &mut Appended) -> Pointer {
    if shares {
        pad(&mut appended.buffer);
    }
    let offset = appended.end();
    change.encode(offset, &mut appended.buffer);
    let bytes = change.record_bytes() as u32;
    Pointer { offset, bytes, seq: change.seq, deleted: change.value.is_none() }
}

/// The staged records of the shared updates, followed by the header, and the place of each.
fn stage_of(
    current: &Header,
    writer: &Writer,
    plan: &Plan<'_>,
    header: Option<&Header>,
) -> (Vec<u8>, Vec<ShareRange>) {
    let start = current.stage_offset + u64::from(writer.stage_used) * UNIT;
    let mut stage = Vec::with_capacity((plan.stage_units as usize + 1) * UNIT_BYTES);
    let mut ranges: Vec<ShareRange> = Vec::new();
    let mut add = |stage: &Vec<u8>, from_index: usize, to: u64| {
        let (from, bytes) = (start + from_index as u64, (stage.len() - from_index) as u64);
        match ranges.last_mut().filter(|last| last.to + last.bytes == to) {
            Some(last) => last.bytes += bytes,
            None => ranges.push(ShareRange { from, to, bytes }),
        }
    };
    for planned in plan.changes.iter().filter(|planned| planned.shared) {
        let (from, home) = (stage.len(), pending(planned).place.offset);
        planned.change.encode(home, &mut stage);
        pad(&mut stage);
        add(&stage, from, home);
    }
    if let Some(header) = header {
        let from = stage.len();
        stage.extend_from_slice(&header.encode()[..]);
        add(&stage, from, header.offset);
    }
    let units = plan.stage_units as usize + usize::from(header.is_some());
    assert_eq!(
        stage.len(),
        units * UNIT_BYTES,
        "bytes that are staged, and those of the {units} units reserved"
    );
    let shared: u64 = ranges.iter().map(|range| range.bytes).sum();
    assert_eq!(shared, stage.len() as u64, "bytes that are shared into place, and those that are staged");
    let (end, stage_end) = (start + shared, current.stage_end());
    assert!(end <= stage_end, "what is staged ends at {end}, the staging area at {stage_end}");
    (stage, ranges)
}

/// Commits are serial: what a commit is based on is still the last state when it is published.
fn assert_is_last<F>(state: &State<F>, version: &Version<F>) {
    let last = &*state.version;
    assert!(std::ptr::eq(last, version), "change {} was made while {} was the last", last.seq, version.seq);
}

/// Shares all ranges in one step.
fn share_all<F: StorageFile>(file: &F, ranges: &[ShareRange]) -> std::io::Result<Shared> {
    let bytes: u64 = ranges.iter().map(|range| range.bytes).sum();
    debug_assert!(
        bytes / UNIT <= file.share_units().into(),
        "{bytes} bytes are shared, the drive takes {} units",
        file.share_units()
    );
    guard!(SharedInParts(file, ranges), file.share(ranges))
}

/// A failed request to the file cannot be undone: its contents are unknown.
fn or_stop<T>(writer: &mut Writer, result: std::io::Result<T>) -> Result<T, Error> {
    writer.stopped |= result.is_err();
    Ok(result?)
}
