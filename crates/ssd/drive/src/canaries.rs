//! The guards of a drive's clients, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]).

use tantalum::Nanoseconds;

use crate::guard::DeviceGuard;

/// How much too early an answer is given.
const EARLY_NS: Nanoseconds = 300_000;

tantalum_canaries::guards! {
    /// An answer is given before it is due.
    fn AnsweredEarly(due_ns: Nanoseconds) -> Nanoseconds { due_ns.saturating_sub(EARLY_NS) }

    /// An answer that was not due when power went is given.
    fn AnsweredWithoutPower() -> bool { false }

    /// Where answers are given at once, a command is issued before those of the other clients are done.
    fn AtOnceBeforeOthers(drive: &DeviceGuard<'_>) -> Nanoseconds { drive.issued_ns() }

    /// A write is shared with a unit that held the same bytes once.
    fn DuplicateUnchecked() -> bool { true }
}
