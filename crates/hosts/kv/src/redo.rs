//! Commits of more records or bytes than one `put` of the drive takes.
//!
//! Their [steps](crate::step) are logged first, as records of the first namespace that nobody else reads. A marker commits them.
//! Then the steps are put in place one after the other, each together with the deletion of the records that it was logged in,
//! and the last with the deletion of the marker. When a store is opened and finds a marker, it does the rest; a log without
//! a marker is deleted. The marker is put only once there is room for everything that follows.

use std::cell::RefCell;
use std::collections::BTreeSet;

use tantalum::{Command, Device, Footprint, Key, NamespaceId, Nanoseconds, Status};
use tantalum_canaries::guard;

use crate::error::Error;
use crate::failure::{Cause, Failure};
use crate::plan::Plan;
use crate::positions::Cursor;
use crate::record::{Name, Value};
use crate::record_store::{Flash, Listing, RecordStore, Records, Source, kv_records};
use crate::step::Step;
use crate::tree::Layout;

/// A step is logged in records of at most this size.
const PIECE_BYTES: usize = 1 << 20;

/// Deletes in one `put`.
pub(crate) const DELETED_AT_ONCE: usize = 1000;

const MARKER: &[u8] = b"redo";

/// A record that is put so that others get programmed, with more bytes than a unit of the drive.
const FILLER: &[u8] = b"redo filler";
const FILLER_BYTES: usize = 5000;

const FORMAT: u8 = 4;

/// That of versions without short leaves, which merged leaves without values at another length when keys were deleted.
const EARLIER_FORMAT: u8 = 3;

/// What a step is logged in begins with the number of bytes that follow.
const LENGTH_BYTES: usize = 4;

/// Deletes of a namespace are logged by their positions if they are at least one in this many of its records: to find the
/// positions, all keys are read.
const DENSE: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Redo {
    namespace: NamespaceId,
}

fn key(bytes: &[u8]) -> Key {
    Key::new(bytes).expect("it has at most 16 bytes")
}

/// Where a piece of a step is logged.
fn piece_key(step: u32, piece: u32) -> Key {
    key(&[MARKER, &step.to_be_bytes()[..], &piece.to_be_bytes()[..]].concat())
}

/// Whether a key of the first namespace is a piece's, the marker's or the filler's.
fn is_piece(key: &Key) -> bool {
    key.as_bytes().starts_with(MARKER)
}

/// What a step is logged in.
fn pieces_of(logged: &[u8]) -> u32 {
    logged.len().div_ceil(PIECE_BYTES) as u32
}

/// The number of bytes that follow (4 bytes, little-endian), and what is logged of a step.
fn logged(step: &Step) -> Vec<u8> {
    let bytes = step.encode();
    debug_assert!(
        Step::decode(&bytes).is_some_and(|read| read.form == step.form),
        "a step would be read otherwise than it is logged: {:?}",
        step.form
    );
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

impl Redo {
    /// The first namespace of a store.
    pub fn new(namespace: NamespaceId) -> Redo {
        Redo { namespace }
    }

    /// Puts all of a commit or nothing. `after` must be free when it is in place.
    pub fn put(&self, drive: &RecordStore, mut plan: Plan, after: Footprint) -> Result<Nanoseconds, Failure> {
        self.check_namespaces(drive, &plan)?;
        let log = self.log_of(drive, &mut plan, after)?;
        assert!(!log.is_empty(), "a commit without a step is logged");
        assert_eq!(log.len(), plan.steps.len(), "steps that are logged, and those of a commit");
        let marker = [&[FORMAT][..], &(log.len() as u32).to_le_bytes()].concat();
        let marker = vec![((self.namespace, key(MARKER)), Some(marker.into()))];
        guard!(MarkerBeforeGroups(drive, &marker)?);
        let written = self.write(drive, &log, &plan, after).and_then(|()| drive.put_unseen(&marker));
        if let Err(failure) = written {
            match failure.stops() {
                // the marker may be there
                Some(cause) => drive.doubt(plan.records().map(|(name, _)| *name), cause),
                None => self.delete_pieces(drive, &log),
            }
            return Err(failure);
        }
        // it is committed
        let parts = self.parts(plan, &log);
        drive.put_parts(&parts, None).map_err(|(done, failure)| {
            let all = parts.len();
            let reason = format!("{done} of {all} parts of a commit are in place, and then: {failure}");
            let is_host = failure.stops().is_some_and(|cause| cause.is_host);
            Failure::Stops(Cause { reason, is_host, only_read: false })
        })
    }

    fn check_namespaces(&self, drive: &RecordStore, plan: &Plan) -> Result<(), Failure> {
        let namespaces: BTreeSet<NamespaceId> =
            plan.records().map(|((namespace, _), _)| *namespace).collect();
        let present = drive.device().lock().namespaces();
        let is_there = |namespace| present.iter().any(|info| info.namespace == namespace);
        match namespaces.into_iter().find(|namespace| !is_there(*namespace)) {
            Some(namespace) => Err(Failure::Drive(Status::NoSuchNamespace { namespace })),
            None => Ok(()),
        }
    }

    /// What is logged of each step: by positions what deletes much of a namespace, and everything if there is little room.
    fn log_of(
        &self,
        drive: &RecordStore,
        plan: &mut Plan,
        after: Footprint,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let present = drive.device().lock().namespaces();
        let is_dense = |namespace, deletes: usize| {
            let info = present.iter().find(|info| info.namespace == namespace);
            deletes as u64 * DENSE >= info.map_or(0, |info| info.records)
        };
        match plan.shorten(&Flash(drive), is_dense) {
            // keys elsewhere in the namespace are lost
            Err(failure) if failure.is_damage() => {}
            shortened => shortened?,
        }
        let log: Vec<Vec<u8>> = plan.steps.iter().map(logged).collect();
        if self.has_room(drive, plan, footprint_of_log(&log), after)? {
            return Ok(log);
        }
        plan.shorten(&Flash(drive), |_, _| true)?;
        let log: Vec<Vec<u8>> = plan.steps.iter().map(logged).collect();
        let has_room = self.has_room(drive, plan, footprint_of_log(&log), after)?;
        match guard!(RoomNotAsked, has_room) {
            true => Ok(log),
            false => Err(Failure::Drive(Status::CapacityExceeded)),
        }
    }

    /// Writes the log, and ensures that there is room for the steps in addition.
    fn write(
        &self,
        drive: &RecordStore,
        log: &[Vec<u8>],
        plan: &Plan,
        after: Footprint,
    ) -> Result<(), Failure> {
        for (step, bytes) in (0..).zip(log) {
            for (piece, bytes) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
                drive.put_unseen(&vec![((self.namespace, piece_key(step, piece)), Some(bytes.into()))])?;
            }
        }
        let has_room = self.has_room(drive, plan, Footprint::default(), after)?;
        match guard!(RoomNotAsked, has_room) {
            true => Ok(()),
            false => Err(Failure::Drive(Status::CapacityExceeded)),
        }
    }

    /// Whether there is room for steps beside this, and for `after` when they are in place.
    fn has_room(
        &self,
        drive: &RecordStore,
        plan: &Plan,
        beside: Footprint,
        after: Footprint,
    ) -> Result<bool, Failure> {
        let fits = || plan.fits(&drive.device().lock(), beside, after);
        if fits() {
            return Ok(true);
        }
        self.settle(drive)?;
        Ok(fits())
    }

    /// Lets the drive program the records that wait for a full page: until then what they replace takes room. It does so
    /// when one of them is replaced by a record that does not wait.
    pub fn settle(&self, drive: &RecordStore) -> Result<(), Failure> {
        let filler = |bytes: Option<usize>| bytes.map(|bytes| vec![0; bytes].into());
        [Some(1), Some(FILLER_BYTES), None]
            .into_iter()
            .try_for_each(|bytes| drive.put_unseen(&vec![((self.namespace, key(FILLER)), filler(bytes))]))
    }

    /// Deletes what a failed commit has written. What cannot be deleted now is deleted when the store is opened.
    fn delete_pieces(&self, drive: &RecordStore, log: &[Vec<u8>]) {
        for (step, bytes) in (0..).zip(log) {
            let _ = drive.put_unseen(&self.deletes(step, pieces_of(bytes), false));
        }
        let _ = self.settle(drive);
    }

    /// What is put, step by step.
    fn parts(&self, plan: Plan, log: &[Vec<u8>]) -> Vec<Records> {
        let last = log.len() as u32 - 1;
        let deletes = |names: &[Name]| names.iter().map(|name| (*name, None)).collect();
        let mut parts: Vec<Records> = plan.values().chunks(DELETED_AT_ONCE).map(deletes).collect();
        for ((step, bytes), number) in plan.steps.into_iter().zip(log).zip(0..) {
            let mut records = step.records;
            records.extend(self.deletes(number, pieces_of(bytes), number == last));
            parts.push(records);
        }
        let is_logged = |(namespace, key): &Name| *namespace == self.namespace && is_piece(key);
        let is_marker =
            |(name, value): &(Name, _)| *name == (self.namespace, key(MARKER)) && Option::is_none(value);
        debug_assert!(
            parts.iter().position(|records| records.iter().any(is_marker)) == Some(parts.len() - 1),
            "the marker of a commit goes before the last of its {} parts, or stays",
            parts.len()
        );
        guard!(StepsRepeated(&mut parts, is_logged));
        parts
    }

    /// Deletes of a step's pieces, and of the marker.
    fn deletes(&self, step: u32, pieces: u32, with_marker: bool) -> Records {
        let marker = with_marker.then(|| key(MARKER));
        let keys = (0..pieces).map(|piece| piece_key(step, piece)).chain(marker);
        keys.map(|key| ((self.namespace, key), None)).collect()
    }

    /// Finishes a commit that is committed but not in place, or deletes the parts of one that is not committed.
    pub fn recover(&self, device: &mut Device) -> Result<(), Error> {
        if let Some(marker) = get(device, self.namespace, key(MARKER))? {
            let (layout, steps) = match &marker[..] {
                [EARLIER_FORMAT, steps @ ..] => (Layout::SmallHere, steps),
                [FORMAT, steps @ ..] => (Layout::NOW, steps),
                [found, ..] => return Err(Error::RedoFormat { found: *found, expected: FORMAT }),
                [] => return Err(damaged(0)),
            };
            let steps = steps.try_into().map(u32::from_le_bytes).map_err(|_| damaged(0))?;
            self.recover_steps(device, steps, layout)?;
        }
        let mut keys = Vec::new();
        let (namespace, limit) = (self.namespace, usize::MAX);
        submit(device, Command::KvList { namespace, from: None, keys: &mut keys, limit })?;
        for key in keys.into_iter().filter(is_piece) {
            put(device, &vec![((namespace, key), None)])?;
        }
        Ok(())
    }

    /// Puts in place the steps that are not: those whose pieces are there.
    fn recover_steps(&self, device: &mut Device, steps: u32, layout: Layout) -> Result<(), Error> {
        let mut cursor = Cursor::default();
        for number in 0..steps {
            let Some((step, _)) = self.logged_step(device, number)? else { continue };
            let values = step.values(&OnDevice(RefCell::new(device)), &mut cursor).map_err(error_of)?;
            for names in values.chunks(DELETED_AT_ONCE) {
                put(device, &names.iter().map(|name| (*name, None)).collect())?;
            }
        }
        let mut cursor = Cursor::default();
        for number in 0..steps {
            let (mut records, mut pieces) = (Records::new(), 0);
            if let Some((mut step, found)) = self.logged_step(device, number)? {
                step.complete(&OnDevice(RefCell::new(device)), &mut cursor, layout).map_err(error_of)?;
                (records, pieces) = (step.records, found);
            }
            records.extend(self.deletes(number, pieces, number + 1 == steps));
            if !records.is_empty() {
                put(device, &records)?;
            }
        }
        Ok(())
    }

    /// A step as it was logged, and in how many pieces; none if it is in place.
    fn logged_step(&self, device: &mut Device, number: u32) -> Result<Option<(Step, u32)>, Error> {
        let mut bytes = Vec::new();
        let mut pieces = 0;
        while !is_whole(&bytes) {
            match get(device, self.namespace, piece_key(number, pieces))? {
                Some(piece) => bytes.extend_from_slice(&piece),
                None if pieces == 0 => return Ok(None),
                None => return Err(damaged(number)),
            }
            pieces += 1;
        }
        let step = Step::decode(&bytes[LENGTH_BYTES..]).ok_or_else(|| damaged(number))?;
        Ok(Some((step, pieces)))
    }
}

fn error_of(failure: Failure) -> Error {
    failure.in_store(|NamespaceId(number)| format!("number {number}"))
}

/// What a log takes.
fn footprint_of_log(log: &[Vec<u8>]) -> Footprint {
    log.iter().flat_map(|bytes| bytes.chunks(PIECE_BYTES)).map(|piece| Footprint::of(piece.len())).sum()
}

fn damaged(step: u32) -> Error {
    Error::Redo { reason: format!("what was logged of its step {step} is damaged") }
}

/// A drive that nobody else uses yet.
struct OnDevice<'a>(RefCell<&'a mut Device>);

impl Source for OnDevice<'_> {
    fn record(&self, (namespace, key): Name) -> Result<Option<Value>, Failure> {
        Ok(get(&mut self.0.borrow_mut(), namespace, key)?.map(Value::from))
    }
}

impl Listing for OnDevice<'_> {
    fn list(&self, namespace: NamespaceId, from: Option<&Key>, limit: usize) -> Result<Vec<Key>, Failure> {
        let mut keys = Vec::new();
        submit(
            &mut self.0.borrow_mut(),
            Command::KvList { namespace, from: from.copied(), keys: &mut keys, limit },
        )?;
        Ok(keys)
    }
}

fn submit(device: &mut Device, command: Command<'_>) -> Result<(), Status> {
    let at_ns = device.time_ns();
    device.submit(command, at_ns).map(drop)
}

fn put(device: &mut Device, records: &Records) -> Result<(), Error> {
    Ok(submit(device, Command::KvPut { records: &kv_records(records) })?)
}

fn get(device: &mut Device, namespace: NamespaceId, key: Key) -> Result<Option<Vec<u8>>, Status> {
    let mut value = Vec::new();
    match submit(device, Command::KvGet { namespace, key, value: &mut value }) {
        Ok(()) => Ok(Some(value)),
        Err(Status::NoSuchKey { .. }) => Ok(None),
        Err(status) => Err(status),
    }
}

/// Whether these bytes are all that was logged of a step. A piece of a failed commit may follow them.
fn is_whole(bytes: &[u8]) -> bool {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH_BYTES>() else { return false };
    rest.len() >= u32::from_le_bytes(*length) as usize
}

#[cfg(test)]
#[path = "redo_tests.rs"]
mod tests;
