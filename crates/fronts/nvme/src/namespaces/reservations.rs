//! The reservations of block namespaces: changed one at a time, kept in the drive if they outlive power losses, and obeyed by every command
//! that reaches the drive afterwards, also one that was checked before.

use std::sync::atomic::Ordering;

use tantalum::{Device, NamespaceId};
use tantalum_drive::Queue;
use zerocopy::{FromBytes, IntoBytes};

use super::changes::Change;
use super::kept::Kept;
use super::reservation::{Denied, Reservation, StoredReservation};
use super::table::{HostId, SLOTS, Table};
use super::{ALL_NAMESPACES, Namespaces, TableError, Target, contents_of};
use crate::failure::Failure;

/// The record with all that outlive power losses.
const RESERVATIONS: Kept = Kept { key: b"reserved", magic: *b"TANTRESV", what: "reservations of namespaces" };

/// What a right counts by when a reservation changes: what was checked under another one does not reach the drive. See [`contents_of`].
const RESERVED: u64 = 1;

/// The reservations of a drive by slot of the table.
pub(super) type Reservations = [Reservation; SLOTS];

/// Those that the drive keeps, of namespaces that are still there.
pub(super) fn load(
    device: &mut Device,
    namespace: Option<NamespaceId>,
    table: &Table,
) -> Result<Reservations, TableError> {
    let mut reservations: Reservations = std::array::from_fn(|_| Reservation::default());
    let Some(value) = RESERVATIONS.load(device, namespace)? else { return Ok(reservations) };
    let stored = <[StoredReservation]>::ref_from_bytes(&value).map_err(|_| RESERVATIONS.damaged())?;
    for stored in stored {
        let reservation = Reservation::of(stored).ok_or_else(|| RESERVATIONS.damaged())?;
        let there = table.entries().find(|(_, entry)| entry.identity() == stored.identity.get());
        if let Some((slot, _)) = there {
            reservations[slot] = reservation;
        }
    }
    Ok(reservations)
}

fn encode(reservations: &Reservations, table: &Table) -> Vec<u8> {
    let lasting = table.entries().map(|(slot, entry)| (&reservations[slot], entry.identity()));
    let lasting = lasting.filter(|(reservation, _)| reservation.persists);
    lasting.flat_map(|(reservation, identity)| reservation.stored(identity).as_bytes().to_vec()).collect()
}

impl Namespaces {
    /// The reservation of a command's namespace.
    pub fn reservation(&self, target: &Target) -> Reservation {
        self.lock().reservations[usize::from(target.slot)].clone()
    }

    /// Changes the reservation of a command's namespace. Returns also when what is to outlive power losses is durable.
    ///
    /// # Errors
    /// Those of `change`, which then changes nothing; and if the namespace is not what it was when the command was checked.
    pub fn reserve<T>(
        &self,
        queue: &Queue,
        target: &Target,
        change: impl FnOnce(&mut Reservation) -> Result<T, Failure>,
    ) -> Result<Change<T>, Failure> {
        let mut state = self.lock();
        let slot = usize::from(target.slot);
        let is_as_it_was = contents_of(self.parts[slot].current()) == contents_of(target.right);
        if !is_as_it_was || state.table.entry(slot).is_none_or(|entry| !entry.is_usable()) {
            return Err(Failure::INVALID_NAMESPACE);
        }
        let mut next = state.reservations.clone();
        let result = change(&mut next[slot])?;
        if next[slot] == state.reservations[slot] {
            return Ok(Change { result, done_ns: state.stored_ns });
        }
        let mut done_ns = 0;
        if next[slot].persists || state.reservations[slot].persists {
            let value = encode(&next, &state.table);
            let namespace = state.storage.namespace(queue)?;
            done_ns = RESERVATIONS.store(queue, namespace, &value)?;
            state.stored_ns = state.stored_ns.max(done_ns);
        }
        state.reservations = next;
        self.parts[slot].withdraw_by(&queue.drive().lock(), RESERVED);
        self.version.fetch_add(1, Ordering::Release);
        Ok(Change { result, done_ns })
    }

    /// Refuses a host that changes a namespace, or all, if another host has reserved one of them.
    pub fn check_reserved(&self, host: &HostId, number: u32) -> Result<(), Failure> {
        let state = self.lock();
        let mut concerned =
            state.table.entries().filter(|(_, entry)| number == ALL_NAMESPACES || number == entry.number);
        match concerned.any(|(slot, _)| state.reservations[slot].denied(host).writes) {
            true => Err(Failure::RESERVATION_CONFLICT),
            false => Ok(()),
        }
    }
}

impl super::State {
    /// What a host may not do with a slot.
    pub(super) fn denied(&self, slot: usize, host: &HostId) -> Denied {
        self.reservations.get(slot).map_or_else(Denied::default, |reservation| reservation.denied(host))
    }
}
