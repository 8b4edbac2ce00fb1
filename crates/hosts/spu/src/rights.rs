//! Checks what a handler may do to non-volatile memory, and whether its uncommitted stores are still allowed.
//!
//! Invariants:
//! - Non-volatile memory is accessed only within one stripe of the processor, and only where the originating process has
//!   the right, or in the program's own region. The kernel has all rights; nobody can access another program's region.
//! - Stores are committed only while their process still has the right to them.

use std::ops::Range;
use std::sync::Arc;

use tantalum::{Nanoseconds, Status};

use crate::activation::Activation;
use crate::answer;
use crate::backing::Backing;
use crate::message::ThreadRef;
use crate::names::{ProcessId, ProgramId};
use crate::packet::Miss;
use crate::permission::Rights;
use crate::stage::Stage;
use crate::system::Ssd;

/// Instructions to begin a check.
pub(crate) const CHECK_INSTRUCTIONS: u64 = 20;
/// Instructions to look at one entry of the permission table.
const ENTRY_INSTRUCTIONS: u64 = 12;

impl Ssd {
    /// The call of a thread that has requested something from the system.
    pub(crate) fn call_of(&mut self, thread: ThreadRef) -> &mut Activation {
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        copy.instance.stopped(thread.thread).expect("the thread stopped to ask")
    }

    pub(crate) fn on_stage(
        &mut self,
        thread: ThreadRef,
        work: impl FnOnce(&mut Stage, &mut Backing<'_>, Nanoseconds) -> Result<Nanoseconds, Status>,
    ) -> Result<Nanoseconds, Status> {
        let at_ns = self.now_ns;
        let mut stage = std::mem::take(&mut self.call_of(thread).stage);
        let result = Backing::with(&self.drive, &mut self.memory, |backing| work(&mut stage, backing, at_ns));
        self.call_of(thread).stage = stage;
        result
    }

    /// Whether the call has these rights to a range, as a status, and the instructions to find out. A missing permission is
    /// requested from the driver.
    pub(crate) fn check(&mut self, thread: ThreadRef, range: &Range<u64>, rights: Rights) -> (i32, u64) {
        if !self.stripes.is_local(thread.spu, range) {
            return (answer::NOT_LOCAL, CHECK_INSTRUCTIONS);
        }
        let origin = Arc::clone(&self.call_of(thread).message.origin);
        let (is_allowed, entries) = self.is_allowed(thread, origin.process(), range, rights);
        // counts as a request, so that nobody can flood the driver
        if !is_allowed && origin.spend() {
            let (endpoint, range) = (origin.endpoint, range.clone());
            self.miss(Miss { endpoint, spu: thread.spu, range, rights });
        }
        let status = if is_allowed { answer::OK } else { answer::NO_PERMISSION };
        (status, CHECK_INSTRUCTIONS + entries * ENTRY_INSTRUCTIONS)
    }

    /// Whether a process has these rights through a program, and the number of entries visited.
    fn is_allowed(
        &mut self,
        thread: ThreadRef,
        process: ProcessId,
        range: &Range<u64>,
        rights: Rights,
    ) -> (bool, u64) {
        match self.is_own_region(thread.program, range) {
            Some(is_own) => (is_own, 0),
            None if process.is_kernel() => (true, 0),
            None => self.spus[thread.spu.0 as usize].permissions.check(process, range, rights),
        }
    }

    /// Whether a handler still has the rights to its uncommitted stores. If the driver has revoked any, all of the stores are
    /// discarded: their place may now belong to somebody else (hazard 27).
    pub(crate) fn keep_rights(&mut self, thread: ThreadRef) -> bool {
        let call = self.call_of(thread);
        let (process, revocations) = (call.message.origin.process(), call.revocations);
        let mut stage = std::mem::take(&mut call.stage);
        let keeps = self.stage_keeps_rights(thread, (process, revocations), &mut stage);
        self.call_of(thread).stage = stage;
        keeps
    }

    /// Whether a returned call still has the rights to its stores; discards all of them otherwise. `process` is the origin's,
    /// and `before` the processor's count of revocations when the first store was checked.
    pub(crate) fn stage_keeps_rights(
        &mut self,
        thread: ThreadRef,
        (process, before): (ProcessId, u32),
        stage: &mut Stage,
    ) -> bool {
        let revocations = self.spus[thread.spu.0 as usize].permissions.revocations;
        let keeps = stage.is_empty()
            || before == revocations
            || stage.stored().all(|range| self.is_allowed(thread, process, &range, Rights::WRITE).0);
        if !keeps {
            stage.discard();
        }
        keeps
    }

    /// For a range that overlaps a program's region, whether it lies in this program's own; none for other ranges.
    fn is_own_region(&self, program: ProgramId, range: &Range<u64>) -> Option<bool> {
        let regions = self.programs.iter().filter_map(|(id, program)| Some((*id, program.region.as_ref()?)));
        let mut overlapping =
            regions.filter(|(_, region)| region.start < range.end && range.start < region.end);
        let (owner, region) = overlapping.next()?;
        Some(owner == program && region.start <= range.start && range.end <= region.end)
    }
}
