//! What the torture test requires of a program.

use tantalum::{Device, Profile};

use super::drive_in_use::DriveInUse;
use super::life::Life;
use super::run_end::{Broken, RunEnd};
use super::test_bed::TestBed;
use crate::error::CrashError;

/// A program under test, in one of its settings.
pub(crate) trait Program: Copy {
    /// What it works on: a volume, or a drive.
    type TestBed: TestBed;
    /// The volume or drive in the program's hands.
    type DriveInUse: DriveInUse;
    /// What the program has open, with its contents.
    type Opened;
    /// The states allowed after a cut.
    type Expected;

    /// The maximum number of flash operations until a random cut, once one is due.
    const CUT_OPERATIONS: u64;
    /// The maximum number of flash operations before a second cut.
    const SECOND_CUT_OPERATIONS: u64;
    /// Promises that one comparison after a cut checks.
    const PROMISES: u64;
    /// The host's page cache.
    const CACHE_BYTES: u64;

    /// Whether what the program promised survives the loss of the machine, if its image can.
    const IS_SYNCED: bool = false;

    /// The drive for a seed.
    fn profile(seed: u64) -> Profile;

    /// Prepares a new drive for the first life.
    fn prepare_on(device: Device, seed: u64) -> Result<Self::TestBed, CrashError>;

    /// A drive in memory, prepared for the first life.
    fn prepare(seed: u64) -> Result<Self::TestBed, CrashError> {
        Self::prepare_on(Device::in_memory(&Self::profile(seed))?, seed)
    }

    /// Takes it. Everything random follows from the seed.
    fn take(&self, test_bed: Self::TestBed, seed: u64) -> Self::DriveInUse;

    /// Gives it back after a cut.
    fn give_back(place: Self::DriveInUse) -> Result<Self::TestBed, Broken>;

    /// Opens the program's files for the first life.
    fn open_first(&self, place: &Self::DriveInUse) -> Result<Self::Opened, RunEnd>;

    /// Opens and reads the program's files after a cut.
    fn open_again(&self, place: &Self::DriveInUse) -> Result<Self::Opened, Broken>;

    /// Works until power is lost or the life is over, and closes everything. Returns the states that may be there, and the
    /// number of promises checked.
    fn live(
        &self,
        place: &Self::DriveInUse,
        opened: Self::Opened,
        life: &Life,
    ) -> (Result<Self::Expected, Broken>, u64);

    /// Checks what was found after a cut.
    fn check(expected: &Self::Expected, found: &Self::Opened) -> Result<(), Broken>;

    /// Its setting, for display.
    fn name(&self) -> String;

    /// The beginning of the command line that reproduces a finding: the command and its setting.
    fn command(&self) -> String;

    /// The option that limits the work of a life.
    const LENGTH_OPTION: &str;
}
