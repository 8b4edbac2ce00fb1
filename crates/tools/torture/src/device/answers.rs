//! What the random host's commands should change, and what their answers mean for the oracle.

use std::collections::BTreeMap;

use tantalum::{Completion, Lpn, Status};

use super::drive::Flash;
use super::history::{Order, Stamp};
use super::run::Run;
use super::stop::Stop;

/// New values of units.
pub(crate) type New = BTreeMap<Lpn, Stamp>;

impl Run {
    pub fn stamp(&mut self) -> Stamp {
        self.next_stamp += 2;
        self.next_stamp
    }

    /// New values for these units.
    pub fn stamped(&mut self, lpns: impl IntoIterator<Item = Lpn>) -> New {
        lpns.into_iter().map(|lpn| (lpn, self.stamp())).collect()
    }

    /// Handles a command's answer. A refused command must have changed nothing, and a plain write of several units none or
    /// the first ones.
    pub fn answered(
        &mut self,
        order: Order,
        new: &New,
        answer: Result<Completion, Status>,
        durable: bool,
    ) -> Result<Option<Completion>, Stop> {
        match answer {
            Ok(completion) => {
                self.oracle.acknowledge(order, completion.done_ns, durable);
                Ok(Some(completion))
            }
            Err(Status::PowerLost) => Err(Stop::PowerLost),
            Err(status) => {
                match self.oracle.may_be_in_part(order, new) {
                    true => {
                        let (now_ns, host) = (self.host.now_ns, &mut self.host);
                        self.oracle.refuse_in_part(order, new, now_ns, |lpn| host.read(lpn))?;
                    }
                    false => self.oracle.refuse(order),
                }
                // commands that free flash are never short of it
                let frees = new.values().all(|stamp| *stamp == 0);
                self.may_refuse(&status, frees)?;
                new.keys().try_for_each(|lpn| self.check_running(*lpn))?;
                Ok(None)
            }
        }
    }

    /// Whether the drive may refuse a command in this way.
    pub fn may_refuse(&mut self, status: &Status, frees: bool) -> Result<(), Stop> {
        let fails = self.flash != Flash::Sound;
        let may = match status {
            Status::PowerLost => return Err(Stop::PowerLost),
            Status::OverLimit { .. } => true,
            Status::CapacityExceeded => self.full && !frees || fails,
            Status::ReadOnly => fails,
            _ => false,
        };
        self.tally.reached.refused += 1;
        if may { Ok(()) } else { Err(Stop::refused(status)) }
    }
}
