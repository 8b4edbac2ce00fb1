//! What a refusal means: the drive is full or worn out, or a limit was reached, and nothing was changed.
//!
//! Commands that are issued together are answered one after the other, so what a unit holds is looked at when all answers that
//! have arrived are taken. Only a plain write of several units may have been done in part.

use tantalum::Status;

use super::pending::{Pending, Spot, What};
use super::run::Run;
use crate::device::answers::New;
use crate::device::history::Order;
use crate::device::records::Thing;
use crate::device::stop::Stop;

impl What {
    /// Whether it needs no flash in the end: what frees flash, reads, or ends something is never short of it.
    pub fn frees(&self) -> bool {
        match self {
            What::Units { new, .. } => new.values().all(|stamp| *stamp == 0),
            What::Put { records, .. } => records.values().all(|stamp| *stamp == 0),
            What::Page { .. }
            | What::Append { .. }
            | What::Batch { .. }
            | What::TxWrite { .. }
            | What::Commit { .. }
            | What::Begin
            | What::BeginLog
            | What::Create { .. } => false,
            _ => true,
        }
    }
}

impl Run {
    /// The drive refused a command, which has changed nothing.
    pub fn refused(&mut self, number: u64, pending: Pending, status: &Status) -> Result<(), Stop> {
        self.tally.reached.refused += 1;
        self.doubted.extend(pending.what.changes());
        let (is_limit, frees) = (matches!(status, Status::OverLimit { .. }), pending.what.frees());
        match pending.what {
            What::Units { order, new, .. } => {
                self.refused_units(number, order, new);
                self.may_refuse(is_limit, frees, status)
            }
            What::Page { order, generation, before, .. } => {
                self.oracle.refuse(order);
                *self.oracle.hints.log(generation) = *before;
                self.may_refuse(is_limit, frees, status)
            }
            What::Append { order, new } => {
                self.refused_units(number, order, new);
                self.lists.refuse(order);
                self.may_refuse(is_limit, frees, status)
            }
            What::ClearLists { order } => {
                self.lists.refuse(order);
                self.may_refuse(is_limit, frees, status)
            }
            What::Batch { order, put, .. } => {
                self.oracle.refuse(order);
                self.batches.refuse(order);
                self.records.refuse(put);
                self.may_refuse(is_limit, frees, status)
            }
            What::Put { put, .. } => {
                self.records.refuse(put);
                self.may_refuse(is_limit, frees, status)
            }
            What::Delete { put, exists, .. } => {
                self.records.refuse(put);
                self.may_refuse(!exists && matches!(status, Status::NoSuchKey { .. }), frees, status)
            }
            What::DeleteNamespace { put, slot, made } => {
                self.records.refuse(put);
                self.spaces.keep(slot, made);
                self.may_refuse(is_limit, frees, status)
            }
            What::Get { expected, .. } => {
                self.may_refuse(expected == 0 && matches!(status, Status::NoSuchKey { .. }), frees, status)
            }
            What::TxWrite { tx, lpn, before } => {
                self.clients[pending.client].unwrite(tx, lpn, before);
                self.may_refuse(is_limit, frees, status)
            }
            What::Commit { order, new, tx } => {
                self.oracle.refuse(order);
                self.clients[pending.client].transactions.push((tx, new));
                self.may_refuse(is_limit, frees, status)
            }
            // DRAM that a capacitor protects is scarce on some of these drives
            What::Create { slot, .. } => {
                self.spaces.not_created(slot);
                self.may_refuse(is_limit, frees, status)
            }
            What::Begin => self.may_refuse(is_limit, frees, status),
            What::Refused => Ok(()),
            _ => self.may_refuse(false, frees, status),
        }
    }

    fn refused_units(&mut self, number: u64, order: Order, new: New) {
        let in_part = self.oracle.may_be_in_part(order, &new);
        self.unread(number, (order, &new), in_part);
        match in_part {
            true => self.parts.push((order, new)),
            false => self.oracle.refuse(order),
        }
    }

    /// A write is refused: reads that were issued together with it, after it, return what was there before.
    fn unread(&mut self, number: u64, (order, new): (Order, &New), in_part: bool) {
        for (_, pending) in self.pending.range_mut(number..) {
            let What::Read { expected } = &mut pending.what else { continue };
            for (lpn, expected) in expected {
                let Some(at) = expected.iter().position(|stamp| new.get(lpn) == Some(stamp)) else {
                    continue;
                };
                if !in_part {
                    expected.remove(at);
                }
                expected.extend(self.oracle.before(*lpn, order));
            }
        }
    }

    /// Looks which units the refused commands have changed that may have been done in part, the newest command first.
    fn settle_parts(&mut self) -> Result<(), Stop> {
        for (order, new) in std::mem::take(&mut self.parts).into_iter().rev() {
            let host = &mut self.host;
            self.oracle.refuse_in_part(order, &new, self.tick, |lpn| host.read(lpn))?;
        }
        Ok(())
    }

    /// What was refused has changed nothing. Seen when all answers were taken: several commands that were issued together
    /// may have been refused.
    pub fn check_doubted(&mut self) -> Result<(), Stop> {
        let doubted = std::mem::take(&mut self.doubted);
        if !self.host.has_power() {
            // comparing allows both
            self.parts.clear();
            return Ok(());
        }
        self.settle_parts()?;
        for spot in doubted {
            match spot {
                Spot::Unit(lpn) => self.check_units([lpn].into_iter())?,
                Spot::Record(Thing::Record(place)) => self.check_record(place, "running drive")?,
                Spot::Record(Thing::Namespace(_)) => {}
            }
        }
        Ok(())
    }

    /// Whether the drive may refuse a command in this way: in any case, or as one that frees flash or does not.
    pub fn may_refuse(&mut self, may: bool, frees: bool, status: &Status) -> Result<(), Stop> {
        let (has_no_room, wears) = (matches!(status, Status::CapacityExceeded), self.setup.wears());
        // a drive that is worn out takes no more changes, and one that wears may have no room for a while
        let is_worn = wears && (has_no_room || matches!(status, Status::ReadOnly));
        let is_full = !wears && has_no_room && self.setup.is_full() && !frees;
        self.coverage.refused_by_worn_drives += u64::from(is_worn);
        self.coverage.refused_by_full_drives += u64::from(is_full);
        if may || is_worn || is_full { Ok(()) } else { Err(Stop::refused(status)) }
    }
}
