//! The last checkpoint, as the running drive knows it: whether the next one is due depends on it.

use tantalum_nand::Nanoseconds;

use crate::types::Seq;

/// The running drive's knowledge of its last checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastCheckpoint {
    /// Its step.
    pub step: Seq,
    /// When it is on flash.
    pub done_ns: Nanoseconds,
    /// Data pages programmed since, including copies.
    pub pages_since: u64,
    /// Units of host data that had been programmed when it was taken.
    pub host_units: u64,
    /// Count of medium operations when the last check found none due.
    pub not_due_at: u64,
    /// As it was when there was no room for the next one: there is none before it changes.
    pub no_room: Option<SpaceState>,
}

/// What decides whether there is room for a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SpaceState {
    /// Operations of the medium so far.
    pub operations: u64,
    pub free_blocks: u32,
    /// Those that the checkpoint takes.
    pub units: u64,
}

impl LastCheckpoint {
    /// A newer one stands, and will be on flash at `done_ns`.
    pub fn replace(&mut self, step: Seq, done_ns: Nanoseconds, host_units: u64) {
        let last = self.step;
        debug_assert!(step >= last, "a checkpoint of step {step} would replace that of step {last}");
        *self = LastCheckpoint { step, done_ns, pages_since: 0, host_units, ..*self };
    }
}
