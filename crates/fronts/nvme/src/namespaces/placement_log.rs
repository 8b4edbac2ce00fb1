//! Events of flexible data placement: the log of what happened to reclaim units (Base 2.1, section 5.1.12.1.31), of each handle as far as
//! hosts have asked for it.
//!
//! The drive remembers what happened to it, and the log takes that over before anything else is added to it, before somebody reads it,
//! and before the table changes. So each event is recorded, or not, by the choice of its time, and is of the namespace of its time. It is
//! in memory: a power loss ends it.

use std::collections::VecDeque;

use tantalum::{Device, Handle, Isolation, Nanoseconds, PlacementEventKind};
use tantalum_drive::{DeviceGuard, Drive, Queue, When};

use super::changes::Change;
use super::table::Table;
use super::view::Target;
use super::{Namespaces, State};
use crate::failure::Failure;
use crate::wire::placement::event;

/// Events of the host, and of the controller, that a log page has room for.
const MOST: usize = 63;

/// Types of events that may be recorded, in ascending order, as hosts are told. The place of each here is its bit in what is stored for a
/// handle.
const KINDS: [u8; 5] = [
    event::NOT_FULLY_WRITTEN,
    event::RESET,
    event::INVALID_IDENTIFIER,
    event::MOVED,
    event::IMPLICITLY_MODIFIED,
];

/// The bit of a type of events; `None` if a drive whose handles are isolated like this has none.
fn bit_of(kind: u8, isolation: Isolation) -> Option<u8> {
    // what stays apart when it is moved is not told
    let is_told = kind != event::MOVED || isolation == Isolation::Initially;
    let at = KINDS.iter().position(|other| *other == kind).filter(|_| is_told)?;
    Some(1 << at)
}

/// The types of events of a drive whose handles are isolated like this.
pub fn event_kinds(isolation: Isolation) -> impl Iterator<Item = u8> {
    KINDS.into_iter().filter(move |kind| bit_of(*kind, isolation).is_some())
}

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorded {
    /// When, in the drive's time.
    pub at_ns: Nanoseconds,
    /// Its type.
    pub kind: u8,
    /// The reclaim unit handle; none if it concerns all.
    pub handle: Option<Handle>,
    /// The namespace and the placement identifier, if they are known.
    pub cause: Option<(u32, u16)>,
    /// Logical blocks that were moved; 0 if they are of no namespace any more.
    pub blocks: u64,
}

/// The log.
#[derive(Clone, Debug, Default)]
pub(super) struct PlacementLog {
    of_hosts: VecDeque<Recorded>,
    of_controller: VecDeque<Recorded>,
}

impl PlacementLog {
    /// Adds an event if it is asked for.
    fn add(&mut self, table: &Table, isolation: Isolation, recorded: Recorded) {
        let asked = recorded.handle.map_or(table.handles.any_events(), |handle| table.handles.events(handle));
        if bit_of(recorded.kind, isolation).is_none_or(|bit| asked & bit == 0) {
            return;
        }
        let is_host = recorded.kind < event::OF_CONTROLLER;
        let events = if is_host { &mut self.of_hosts } else { &mut self.of_controller };
        if events.len() == MOST {
            events.pop_front();
        }
        events.push_back(recorded);
    }

    /// Takes over what the drive remembers. What the host did itself has this cause.
    fn take(&mut self, table: &Table, device: &mut Device, cause: Option<(u32, u16)>) {
        let Some(fdp) = device.profile().fdp else { return };
        // records have the first handle, and so have vendor commands of any namespace
        let is_alone = table.entries().count() == 1 && device.namespaces().is_empty();
        for told in device.take_placement_events() {
            let blocks = |units| units * table.blocks_per_unit(told.handle);
            let (kind, blocks) = match told.kind {
                PlacementEventKind::Filled => (event::IMPLICITLY_MODIFIED, 0),
                PlacementEventKind::NotFullyWritten { .. } => (event::NOT_FULLY_WRITTEN, 0),
                PlacementEventKind::Moved { units } => (event::MOVED, blocks(units)),
                PlacementEventKind::PowerOn => (event::RESET, 0),
            };
            let is_of_all = kind == event::RESET;
            let handle = (!is_of_all).then_some(told.handle);
            let is_caused = kind == event::NOT_FULLY_WRITTEN && cause.is_some();
            let only = handle.filter(|handle| is_alone || *handle != Handle::DEFAULT);
            let only = only.and_then(|handle| table.only_with(handle));
            let cause = if is_caused { cause } else { only };
            self.add(table, fdp.isolation, Recorded { at_ns: told.at_ns, kind, handle, cause, blocks });
        }
    }
}

impl State {
    pub(super) fn take_placement_events(&mut self, device: &mut Device) {
        self.placement.take(&self.table, device, None);
    }
}

impl Namespaces {
    /// The reclaim unit handles of a command's namespace, by placement handle.
    pub fn handles_of(&self, target: &Target) -> Result<Vec<Handle>, Failure> {
        let state = self.lock();
        let entry = state.table.entry(target.slot.into()).ok_or(Failure::INVALID_NAMESPACE)?;
        Ok(entry.handles.list().to_vec())
    }

    /// The events of hosts, or those of the controller, oldest first, and the drive's time.
    pub fn placement_events(&self, drive: &Drive, are_of_hosts: bool) -> (Vec<Recorded>, Nanoseconds) {
        let mut state = self.lock();
        let mut device = drive.lock();
        state.take_placement_events(&mut device);
        let events = if are_of_hosts { &state.placement.of_hosts } else { &state.placement.of_controller };
        (events.iter().copied().collect(), device.time_ns())
    }

    /// A write named a placement identifier that its namespace does not have, and was placed with this handle.
    pub fn tell_unknown_identifier(&self, drive: &Drive, target: &Target, identifier: u16, handle: Handle) {
        let mut state = self.lock();
        let Some(number) = state.table.entry(target.slot.into()).map(|entry| entry.number) else { return };
        let mut device = drive.lock();
        let Some(fdp) = device.profile().fdp else { return };
        if !self.fence(target).holds(&device) {
            // the write will be refused, and another namespace may be in its place
            return;
        }
        state.take_placement_events(&mut device);
        let (at_ns, kind, cause) = (device.time_ns(), event::INVALID_IDENTIFIER, Some((number, identifier)));
        let recorded = Recorded { at_ns, kind, handle: Some(handle), cause, blocks: 0 };
        let State { table, placement, .. } = &mut *state;
        placement.add(table, fdp.isolation, recorded);
    }

    /// Handles of a namespace begin their next reclaim units, by placement identifier, on the drive that `lock` locks. Returns when that
    /// is done. If one identifier is invalid, nothing has changed.
    pub fn begin_reclaim_units<'a>(
        &self,
        target: &Target,
        identifiers: &[u16],
        when: When,
        lock: impl FnOnce() -> Result<DeviceGuard<'a>, Failure>,
    ) -> Result<Nanoseconds, Failure> {
        let mut state = self.lock();
        // first, as another namespace may be in its place
        let mut device = lock()?;
        let entry = state.table.entry(target.slot.into()).ok_or(Failure::INVALID_NAMESPACE)?;
        let handle = |identifier: &u16| entry.handles.list().get(usize::from(*identifier)).copied();
        let handles = identifiers.iter().map(handle).collect::<Option<Vec<Handle>>>();
        let (handles, number) = (handles.ok_or(Failure::INVALID_FIELD)?, entry.number);
        state.take_placement_events(&mut device);
        let (mut done_ns, State { table, placement, .. }) = (0, &mut *state);
        for (handle, identifier) in handles.into_iter().zip(identifiers) {
            let begun = device.begin_reclaim_unit(handle, when)?;
            placement.take(table, &mut device, Some((number, *identifier)));
            done_ns = done_ns.max(begun.done_ns);
        }
        Ok(done_ns)
    }

    /// The types of events of the drive, each with whether it is recorded for a placement handle of a namespace.
    ///
    /// # Errors
    /// [`Failure::INVALID_FIELD`] if the namespace does not have the handle, [`Failure::INVALID_NAMESPACE`] if there is no such one.
    pub fn recorded_events(
        &self,
        number: u32,
        placement_handle: u16,
        isolation: Isolation,
    ) -> Result<Vec<(u8, bool)>, Failure> {
        self.with_table(|table| {
            let events = table.handles.events(handle_of(table, number, placement_handle)?);
            let is_recorded = |kind| bit_of(kind, isolation).is_some_and(|bit| events & bit != 0);
            Ok(event_kinds(isolation).map(|kind| (kind, is_recorded(kind))).collect())
        })
    }

    /// Sets whether events of these types are recorded for the reclaim unit handle of a placement handle of a namespace, whoever else
    /// has it.
    ///
    /// # Errors
    /// As above, and [`Failure::INVALID_FIELD`] if there is no such type.
    pub fn set_recorded_events(
        &self,
        queue: &Queue,
        (number, placement_handle): (u32, u16),
        kinds: &[u8],
        are_recorded: bool,
    ) -> Result<Change<()>, Failure> {
        let mut state = self.ready(queue)?;
        let handle = handle_of(&state.table, number, placement_handle)?;
        let fdp = queue.drive().lock().profile().fdp;
        let isolation = fdp.ok_or(Failure::INVALID_FIELD)?.isolation;
        let mut events = state.table.handles.events(handle);
        for kind in kinds {
            let bit = bit_of(*kind, isolation).ok_or(Failure::INVALID_FIELD)?;
            events = if are_recorded { events | bit } else { events & !bit };
        }
        let mut next = state.table.clone();
        next.handles.set_events(handle, events);
        let done_ns = match next == state.table {
            true => state.stored_ns,
            false => self.replace(queue, &mut state, next)?,
        };
        Ok(Change { result: (), done_ns })
    }
}

fn handle_of(table: &Table, number: u32, placement_handle: u16) -> Result<Handle, Failure> {
    let (_, entry) = table.find(number).ok_or(Failure::INVALID_NAMESPACE)?;
    entry.handles.list().get(usize::from(placement_handle)).copied().ok_or(Failure::INVALID_FIELD)
}

#[cfg(test)]
mod tests {
    use tantalum::{FdpProfile, Profile};
    use tantalum_drive::{Answers, Pacing};

    use super::*;
    use crate::blocks::BlockSpace;
    use crate::namespaces::{Entry, NewNamespace, Pending, View};

    #[test]
    fn the_oldest_events_make_room_for_new_ones_of_their_kind_and_others_are_not_recorded() {
        let (mut log, mut table) = (PlacementLog::default(), Table::undivided(1000, 0).with_handles(2));
        table.handles.set_events(Handle(1), 1 | 1 << 4);
        let mut add = |at_ns, kind, handle| {
            let handle = Some(Handle(handle));
            log.add(
                &table,
                Isolation::Persistently,
                Recorded { at_ns, kind, handle, cause: None, blocks: 0 },
            );
        };
        (0..100).for_each(|at_ns| add(at_ns, event::IMPLICITLY_MODIFIED, 1));
        add(1000, event::NOT_FULLY_WRITTEN, 1);
        add(1001, event::NOT_FULLY_WRITTEN, 0);
        add(1002, event::INVALID_IDENTIFIER, 1);
        add(1003, event::MOVED, 1);
        assert_eq!((log.of_controller.len(), log.of_controller[0].at_ns), (MOST, 100 - MOST as u64));
        assert_eq!(log.of_hosts.iter().map(|recorded| recorded.at_ns).collect::<Vec<_>>(), [1000]);
    }

    /// A namespace with the handles 2 and 1 of four.
    fn divided() -> (Namespaces, Queue) {
        let fdp = Some(FdpProfile { handles: 4, isolation: Isolation::Persistently });
        let profile = Profile { capacity_bytes: 1 << 30, fdp, ..Profile::load("tlc-nvme").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let namespaces = Namespaces::load(&drive, 4096).unwrap();
        let queue = Queue::new(drive, Answers::new(Pacing::None, 0).unwrap());
        let is_first = |entry: &Entry| if entry.number == 1 { Pending::Delete } else { entry.pending };
        namespaces.clear(&queue, |_| Ok(()), is_first, |_| {}).unwrap();
        assert_eq!(create(&namespaces, &queue, &[2, 1]), 1);
        (namespaces, queue)
    }

    fn create(namespaces: &Namespaces, queue: &Queue, handles: &[u16]) -> u32 {
        let handles = Some(handles.to_vec());
        let new = NewNamespace { blocks: 100, format: 0, is_shared: true, handles };
        namespaces.create(queue, &new).unwrap().result
    }

    #[test]
    fn a_choice_that_is_so_already_is_done_when_it_is_durable() {
        let (namespaces, queue) = divided();
        let set = |kinds: &[u8]| namespaces.set_recorded_events(&queue, (1, 0), kinds, true).unwrap().done_ns;
        let stored_ns = set(&[0, 3]);
        assert!(stored_ns > 0);
        assert_eq!(set(&[3]), stored_ns, "it may not be on flash yet");
    }

    /// Its host was told of an invalid field of a command for another namespace.
    #[test]
    fn a_namespace_that_another_one_has_replaced_keeps_its_commands_out() {
        let (namespaces, queue) = divided();
        let target = View::undivided(BlockSpace::new(4096, 100), Vec::new()).blocks(1).copied().unwrap();
        let begin = |target: &Target, identifier| {
            let lock = || {
                let device = queue.drive().lock();
                let holds = namespaces.fence(target).holds(&device);
                if holds { Ok(device) } else { Err(Failure::KEPT_OUT) }
            };
            namespaces.begin_reclaim_units(target, &[identifier], queue.answers().when(0), lock)
        };
        let now = Target { right: namespaces.parts[0].current(), ..target };
        assert!(begin(&now, 1).is_ok());
        assert_eq!(begin(&now, 2), Err(Failure::INVALID_FIELD));
        let delete = |_: &Entry| Pending::Delete;
        namespaces.clear(&queue, |_| Ok(()), delete, |_| {}).unwrap();
        assert_eq!(begin(&now, 1), Err(Failure::KEPT_OUT), "it is gone");
        create(&namespaces, &queue, &[3]);
        assert_eq!(begin(&now, 1), Err(Failure::KEPT_OUT), "the other one has no such identifier");
        assert_eq!(namespaces.refusal(&now), Failure::FORMAT_IN_PROGRESS);
    }

    #[test]
    fn only_handles_that_are_isolated_at_first_tell_what_was_moved() {
        let kinds = |isolation| event_kinds(isolation).collect::<Vec<_>>();
        assert_eq!(kinds(Isolation::Persistently), [0, 2, 3, 0x81]);
        assert_eq!(kinds(Isolation::Initially), [0, 2, 3, 0x80, 0x81]);
    }
}
