//! The guards of the controller, named for what happens without them, and what is then done instead. Compiled for tests only
//! ([`tantalum_canaries`]).

pub use tantalum_ftl::canaries as ftl;
use tantalum_ftl::{Ftl, Lpn};
use tantalum_nand::Nanoseconds;

tantalum_canaries::guards! {
    /// A unit's old copy is dropped when the new one enters the volatile cache.
    #[hazard(1)]
    fn OldCopyGivenUpEarly(ftl: &mut Ftl, lpn: Lpn) { ftl.give_up(lpn) }

    /// The cache accepts more than the capacitor can dump.
    #[hazard(12)]
    fn DumpUnbounded() -> u64 { u64::MAX }

    /// Power fails while queued commands still wait for room, and all of them are dumped.
    #[hazard(12)]
    fn PowerBeforeRoom() {}

    /// Something durable replaces a log page, but the end of its claim is not durable.
    #[hazard(14)]
    fn ClaimOutlivesPage() -> bool { false }

    /// A log page is shared while pages before it still wait in the cache.
    fn PagesBeforeWait() -> bool { false }

    /// A write of the size that is all or nothing is taken in, or goes to flash, like a larger one.
    #[hazard(36)]
    fn AtomicWriteSplit() -> bool { false }

    /// The units of such a write leave the cache one by one.
    #[hazard(36)]
    fn GroupSplit() -> bool { false }

    /// A command takes the place of a part of such a write, while the other part waits in the cache.
    #[hazard(36)]
    fn PartOfGroupReplaced() -> bool { false }

    /// A page has units of several reclaim unit handles.
    #[hazard(37)]
    fn HandlesMixed() -> bool { true }

    /// A reset is acknowledged before its record is on flash.
    #[hazard(38)]
    fn ResetNotAwaited(at_ns: Nanoseconds) -> Nanoseconds { at_ns }

    /// The capacitor no longer saves the tail of a zone, although the page that has it is still in flight.
    #[hazard(38)]
    fn TailForgottenEarly() {}

    /// What a step replaces is in protected DRAM, and the dump brings it back over the step.
    fn ReplacedNotSettled() -> bool { false }
}
