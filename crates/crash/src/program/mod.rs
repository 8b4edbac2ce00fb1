//! The torture of a program that works on a volume: power is cut at flash operations, the drive recovers, the volume is mounted,
//! the program opens what it left there, and that is checked against what it promised.
//!
//! What all programs have in common is here: when power goes ([`Cuts`]), the lives of one run ([`run`]), recovery with second
//! cuts ([`recovery`]), seeds and the smallest command line that shows a finding ([`torture`]), and the drive ([`drive`]). What a
//! program does, and what may be there after a cut, is a [`Program`].

mod broken;
mod cuts;
pub(crate) mod drive;
mod recovery;
mod run;
mod torture;

use std::ops::Deref;

use tantalum_report::Monitor;
use tantalum_volume::Volume;

pub(crate) use broken::{Broken, RunEnd, Stop};
pub use cuts::Cuts;
pub(crate) use run::{Life, live_steps};
pub(crate) use torture::{Plan, torture};

use crate::error::CrashError;

/// A program under test, in one of its settings.
pub(crate) trait Program: Copy {
    /// The volume in the program's hands.
    type Place: Place;
    /// What the program has open, with its contents.
    type Opened;
    /// What may be there after a cut.
    type Expected;

    /// The most flash operations until a random cut, once one has been decided on.
    const CUT_OPERATIONS: u64;
    /// Flash operations after which a second cut comes, at most.
    const SECOND_CUT_OPERATIONS: u64;
    /// Promises that one comparison after a cut checks.
    const PROMISES: u64;
    /// The host's page cache.
    const CACHE_BYTES: u64;

    /// A volume with what is there before the first life.
    fn prepare(seed: u64) -> Result<Volume, CrashError>;

    /// Takes a volume. Everything random follows from the seed.
    fn take(&self, volume: Volume, seed: u64) -> Self::Place;

    /// Gives it back after a cut.
    fn give_back(place: Self::Place) -> Result<Volume, Broken>;

    /// Opens what is there for the first life.
    fn open_first(&self, place: &Self::Place) -> Result<Self::Opened, RunEnd>;

    /// Opens and reads what is there after a cut.
    fn open_again(&self, place: &Self::Place) -> Result<Self::Opened, Broken>;

    /// Works until power goes or the life is over, and closes what is open. Returns what may be there, beside how many promises
    /// were checked.
    fn live(
        &self,
        place: &Self::Place,
        opened: Self::Opened,
        life: &Life,
    ) -> (Result<Self::Expected, Broken>, u64);

    /// Checks what was found after a cut.
    fn check(expected: &Self::Expected, found: &Self::Opened) -> Result<(), Broken>;

    /// Its setting, for people.
    fn name(&self) -> String;

    /// The beginning of the command line that shows a finding again: the command and its setting.
    fn command(&self) -> String;

    /// The option that limits the work of a life.
    const LENGTH_OPTION: &str;
}

/// The volume that a program works on.
pub(crate) trait Place {
    /// The volume, while nobody else uses it.
    fn volume(&self) -> impl Deref<Target = Volume>;

    /// Flash operations so far.
    fn flash_operations(&self) -> u64 {
        self.volume().device().flash_operations()
    }

    /// Whether there is power.
    fn has_power(&self) -> bool {
        self.volume().device().has_power()
    }

    /// Cuts power after that many flash operations; or no longer.
    fn cut_after(&self, operations: Option<u64>) {
        self.volume().device().cut_after(operations);
    }
}

/// One number from three, so that the seeds of a run's parts do not overlap.
fn mix(seed: u64, number: u64, part: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let joined = seed.wrapping_mul(FACTOR) ^ number.wrapping_add(part << 56);
    // `mix` adds the factor, which these seeds were chosen without
    tantalum::mix(joined.wrapping_sub(FACTOR))
}

/// A run of one seed in one setting.
#[derive(Clone, Copy)]
struct Run<'a, P> {
    program: P,
    seed: u64,
    /// Work of a life: before a random cut at most, or in all.
    length: u64,
    monitor: &'a Monitor,
}
