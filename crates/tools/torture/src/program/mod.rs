//! The torture test of a program that works on a drive, usually on a volume there: power is cut at flash operations, the
//! drive recovers, the volume is mounted, the program opens what it left there, and this is checked against what it promised.
//!
//! What all programs have in common is here: when power is lost ([`Cuts`]), the lives of one run ([`run`]), recovery with second
//! cuts ([`recovery`]), seeds and the smallest command line that shows a finding ([`torture`]), and the drive ([`drive`]). A
//! [`Program`] defines what a program does, and what may be there after a cut.

mod cuts;
pub(crate) mod drive;
mod drive_in_use;
mod host_faults;
mod life;
mod recovery;
mod run;
mod run_end;
mod test_bed;
mod torture;
mod under_test;

pub use cuts::Cuts;
pub(crate) use drive_in_use::{DriveInUse, VolumeInUse, goes_on};
pub(crate) use life::{Life, live_steps};
pub(crate) use run_end::{Broken, RunEnd, Stop};
pub(crate) use torture::{Plan, torture};
pub(crate) use under_test::Program;
