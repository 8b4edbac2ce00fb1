//! Changes of the table: each is durable when it is done, and all or nothing under power cuts.
//!
//! | change | stored first | then | stored at last |
//! |---|---|---|---|
//! | create, attach, detach | the new table | | |
//! | delete | the entry is marked | rights are withdrawn, transactions end, units are deallocated and flushed | the entry is gone |
//! | format | the entry is marked with its new format | the same | the entry has its new format |
//!
//! Without the mark, a cut would leave a namespace with a part of its data. Without the flush, units that already belong to another
//! namespace could have their old data again.

use std::ops::{Deref, DerefMut};

use parking_lot::MutexGuard;
use tantalum::{Lpn, Nanoseconds, TxId};
use tantalum_drive::{Queue, Request};

use super::table::{Entry, NewNamespace, Pending, Table};
use super::{BLOCK_NAMESPACE, CONTENTS, Namespaces, Reservation, State, number_of};
use crate::failure::Failure;

/// Units deallocated at a time: other clients have the drive in between.
const TOGETHER_UNITS: u32 = 1 << 16;

/// What a change has led to, and when it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change<T> {
    /// What it has led to.
    pub result: T,
    /// When the drive is done with it.
    pub done_ns: Nanoseconds,
}

/// The table and what belongs to it, for the only one who changes it.
pub(super) struct Changing<'a> {
    state: MutexGuard<'a, State>,
    _only: MutexGuard<'a, ()>,
}

impl Deref for Changing<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Namespaces {
    /// Completes what a power cut, or a failure, has left to do. What fails is tried again before the next change. Returns whether a
    /// Sanitize has ended.
    pub fn resume(&self, queue: &Queue) -> bool {
        let _ = self.finish(queue, &mut self.change());
        self.run_sanitize(queue)
    }

    /// Creates a namespace that is attached nowhere. Returns its number.
    pub fn create(&self, queue: &Queue, new: &NewNamespace) -> Result<Change<u32>, Failure> {
        let mut state = self.ready(queue)?;
        // what is refused uses up no number
        state.table.clone().add(new, u32::MAX)?;
        let number = self.free_number(queue, &mut state)?;
        let mut next = state.table.clone();
        let slot = next.add(new, number)?;
        let done_ns = self.replace(queue, &mut state, next)?;
        state.error_recovery[slot] = 0;
        state.reservations[slot] = Reservation::default();
        Ok(Change { result: number, done_ns })
    }

    /// Changes where a namespace is attached. `change` refuses or changes the entry of a slot; `then` is called when that is stored.
    /// Nobody else changes anything meanwhile.
    pub fn attach(
        &self,
        queue: &Queue,
        number: u32,
        change: impl FnOnce(usize, &mut Entry) -> Result<(), Failure>,
        then: impl FnOnce(usize),
    ) -> Result<Change<()>, Failure> {
        let mut state = self.ready(queue)?;
        let (slot, _) = state.table.find(number).ok_or(Failure::INVALID_NAMESPACE)?;
        let mut next = state.table.clone();
        next.entry_mut(slot).map_or(Ok(()), |entry| change(slot, entry))?;
        let done_ns = match next == state.table {
            true => state.stored_ns,
            false => self.replace(queue, &mut state, next)?,
        };
        then(slot);
        self.outdate_views();
        if state.table.entry(slot).is_some_and(|entry| !entry.is_shared) {
            // of who had it for himself, a command may still be under way
            self.withdraw(queue, &[slot])?;
        }
        Ok(Change { result: (), done_ns })
    }

    /// Deletes or formats namespaces, as `pending` says for each, unless `check` refuses the table as it is then. `then` is called with
    /// their slots and numbers once commands cannot use them any more. If the rest fails, it is done later.
    pub fn clear(
        &self,
        queue: &Queue,
        check: impl FnOnce(&Table) -> Result<(), Failure>,
        pending: impl Fn(&Entry) -> Pending,
        then: impl FnOnce(&[(usize, u32)]),
    ) -> Result<Change<()>, Failure> {
        let mut state = self.ready(queue)?;
        check(&state.table)?;
        let mut next = state.table.clone();
        next.for_each(|entry| entry.pending = pending(entry));
        if next.entries().any(|(_, entry)| entry.erases()) {
            queue.drive().lock().check_purge()?;
        }
        let marked = next.entries().filter(|(_, entry)| !entry.is_usable());
        let cleared: Vec<(usize, u32)> = marked.map(|(slot, entry)| (slot, entry.number)).collect();
        let stored_ns = self.replace(queue, &mut state, next)?;
        let withdrawn = self.withdraw(queue, &cleared.iter().map(|(slot, _)| *slot).collect::<Vec<_>>());
        then(&cleared);
        self.outdate_views();
        withdrawn?;
        let done_ns = self.finish(queue, &mut state)?;
        Ok(Change { result: (), done_ns: done_ns.max(stored_ns) })
    }

    /// What is done for a table that nobody changes meanwhile.
    pub fn with_table<T>(&self, look: impl FnOnce(&Table) -> T) -> T {
        look(&self.lock().table)
    }

    /// The table, for whoever changes it.
    pub(super) fn change(&self) -> Changing<'_> {
        let only = self.changing.lock();
        Changing { state: self.lock(), _only: only }
    }

    /// The same when nothing is left to do.
    pub(super) fn ready(&self, queue: &Queue) -> Result<Changing<'_>, Failure> {
        let mut state = self.change();
        state.table.sanitize.check()?;
        self.finish(queue, &mut state)?;
        Ok(state)
    }

    pub(super) fn replace(
        &self,
        queue: &Queue,
        state: &mut State,
        next: Table,
    ) -> Result<Nanoseconds, Failure> {
        assert!(next.is_sound(), "the next table divides the drive wrongly: {next:?}");
        // what has happened to reclaim units is of the namespaces, and by the choice of events, of its time
        state.take_placement_events(&mut queue.drive().lock());
        let done_ns = state.storage.store(queue, &next)?;
        state.table = next;
        state.stored_ns = state.stored_ns.max(done_ns);
        self.outdate_views();
        Ok(done_ns)
    }

    /// Controllers build their views anew.
    pub fn outdate_views(&self) {
        self.version.fetch_add(1, std::sync::atomic::Ordering::Release);
    }

    /// No command that was checked before reaches these parts any more, and no transaction writes to them when it ends.
    pub(super) fn withdraw(&self, queue: &Queue, slots: &[usize]) -> Result<(), Failure> {
        let device = queue.drive().lock();
        slots.iter().for_each(|&slot| self.parts[slot].withdraw_by(&device, CONTENTS));
        drop(device);
        let mut ended = Vec::new();
        self.transactions.lock().retain(|&transaction, (of, _)| {
            let stays = slots.iter().all(|slot| *slot != usize::from(*of));
            if !stays {
                ended.push(transaction);
            }
            stays
        });
        for transaction in ended {
            let when = queue.answers().when(0);
            // it may have ended by itself
            match queue.drive().perform(Request::Abort { tx: TxId(transaction) }, when) {
                Ok(_) | Err(tantalum::Status::UnknownTransaction(_)) => {}
                Err(status) => return Err(status.into()),
            }
        }
        Ok(())
    }

    /// Does what is left to do with each namespace. Returns when it is durable. Others can see the table meanwhile.
    fn finish(&self, queue: &Queue, state: &mut Changing<'_>) -> Result<Nanoseconds, Failure> {
        let left: Vec<Entry> = state
            .table
            .entries()
            .map(|(_, entry)| entry.clone())
            .filter(|entry| !entry.is_usable())
            .collect();
        if left.is_empty() {
            return Ok(0);
        }
        let purged = MutexGuard::unlocked(&mut state.state, || self.empty(queue, &left))?;
        if purged == Err(Failure::POWER_LOSS) {
            return Err(Failure::POWER_LOSS);
        }
        // what could not be erased is told, and the namespace is usable all the same: another attempt may never succeed
        let mut next = state.table.clone();
        for (slot, entry) in state.table.entries() {
            next.set(slot, ended(entry.clone()));
        }
        let done_ns = self.replace(queue, state, next)?;
        purged.map(|()| done_ns)
    }

    /// Deallocates the units of these namespaces, and erases what was there if that is asked for: whether that could be done.
    fn empty(&self, queue: &Queue, left: &[Entry]) -> Result<Result<(), Failure>, Failure> {
        for entry in left {
            deallocate(queue, entry.first, entry.units)?;
        }
        queue.drive().perform(Request::Flush, queue.answers().when(0))?;
        for entry in left {
            let when = queue.answers().when(0);
            self.uncorrectable.clear(&mut queue.drive().lock(), when, entry.sectors())?;
        }
        Ok(if left.iter().any(Entry::erases) { purge(queue) } else { Ok(()) })
    }

    /// A number that no namespace has, and none of the drive's key-value namespaces will ever have.
    fn free_number(&self, queue: &Queue, state: &mut State) -> Result<u32, Failure> {
        state.storage.namespace(queue)?;
        let find = |state: &State| {
            let last = queue.drive().lock().last_namespace();
            let is_taken = |number: u32| state.table.entries().any(|(_, entry)| entry.number == number);
            let highest = number_of(tantalum::NamespaceId(last));
            let mut free = (BLOCK_NAMESPACE..=highest).filter(|number| !self.is_of_drive(*number));
            free.find(|number| !is_taken(*number))
        };
        if let Some(number) = find(state) {
            return Ok(number);
        }
        state.storage.use_number(queue)?;
        let number = find(state).ok_or(Failure::NO_NAMESPACE_ID)?;
        assert!(number <= self.highest(), "namespace {number} is above the highest, {}", self.highest());
        Ok(number)
    }
}

/// The entry when nothing is left to do with it.
fn ended(entry: Entry) -> Option<Entry> {
    match entry.pending {
        Pending::Nothing => Some(entry),
        Pending::Delete => None,
        Pending::Format { format, .. } => Some(Entry { format, pending: Pending::Nothing, ..entry }),
    }
}

/// Erases everything on flash that is not in use.
pub(super) fn purge(queue: &Queue) -> Result<(), Failure> {
    let mut device = queue.drive().lock();
    let at_ns = device.time_ns().max(device.issued_ns());
    match device.purge(at_ns)? {
        0 => Ok(()),
        // blocks that are out of use cannot be erased, and have old data
        _ => Err(Failure::MEDIA_ERASE),
    }
}

/// Deallocates so many units from `first` on.
pub(super) fn deallocate(queue: &Queue, mut first: u32, units: u32) -> Result<(), Failure> {
    let end = first + units;
    while first < end {
        let units = TOGETHER_UNITS.min(end - first);
        let when = queue.answers().when(0);
        queue.drive().perform(Request::Trim { lpn: Lpn(first), units }, when)?;
        first += units;
    }
    Ok(())
}
