//! Power cuts in a test: the program and the check are functions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantalum::Profile;
use tantalum_report::Monitor;

use crate::acks::Shared;
use crate::campaign::{Outcome, check};
use crate::check::{Check, CheckFunction};
use crate::error::RunError;
use crate::operation::Recording;
use crate::program::record_with;
use crate::sector::Sector;
use crate::settings::{Losses, Settings};
use crate::summary;

/// Takes a program's acknowledgements.
#[derive(Clone)]
pub struct Acks(Shared);

impl Acks {
    /// Acknowledges something: from now on the check may rely on it.
    pub fn ack(&self, what: &str) {
        self.0.lock().ack(what);
    }
}

/// A test of what survives power loss.
///
/// ```
/// use std::fs;
/// use tantalum_crash_run::CrashTest;
///
/// let outcome = CrashTest::new()
///     .run(
///         |folder, acks| {
///             fs::write(folder.join("new"), "text").unwrap();
///             fs::rename(folder.join("new"), folder.join("file")).unwrap();
///             acks.ack("there");
///         },
///         |folder, acks| {
///             if !acks.is_empty() {
///                 assert_eq!(fs::read_to_string(folder.join("file")).unwrap(), "text");
///             }
///         },
///     )
///     .unwrap();
/// let missing: Vec<_> = outcome.findings.iter().flat_map(|finding| &finding.saved_by).collect();
/// assert!(missing.contains(&&"fsync new after write to new".to_owned()), "{missing:?}");
/// ```
#[derive(Clone, Debug)]
pub struct CrashTest {
    losses: Losses,
    cuts: Option<u64>,
    minutes: Option<f64>,
    seed: u64,
    capacity_bytes: u64,
    save: Option<PathBuf>,
}

impl Default for CrashTest {
    fn default() -> CrashTest {
        CrashTest::new()
    }
}

impl CrashTest {
    /// A test that loses the worst that POSIX allows, at every operation.
    pub fn new() -> CrashTest {
        CrashTest {
            losses: Losses::Posix(Sector::default()),
            cuts: None,
            minutes: None,
            seed: 0,
            capacity_bytes: 1 << 30,
            save: None,
        }
    }

    /// Loses the worst that POSIX allows, on a disk with these sectors.
    pub fn sector(mut self, sector: Sector) -> CrashTest {
        self.losses = Losses::Posix(sector);
        self
    }

    /// Loses what this drive loses, with a volume on it.
    pub fn drive(mut self, profile: Profile) -> CrashTest {
        self.losses = Losses::Drive(Box::new(profile));
        self
    }

    /// Makes at most this many cuts, spread evenly.
    pub fn cuts(mut self, cuts: u64) -> CrashTest {
        self.cuts = Some(cuts);
        self
    }

    /// Tries nothing more after this many minutes, which is above 0.
    pub fn minutes(mut self, minutes: impl Into<f64>) -> CrashTest {
        self.minutes = Some(minutes.into());
        self
    }

    /// Saves each finding in this folder, which must be new or empty.
    pub fn save(mut self, folder: impl Into<PathBuf>) -> CrashTest {
        self.save = Some(folder.into());
        self
    }

    /// The seed of all random choices.
    pub fn seed(mut self, seed: u64) -> CrashTest {
        self.seed = seed;
        self
    }

    /// Capacity of the folder's drive.
    pub fn capacity_bytes(mut self, bytes: u64) -> CrashTest {
        self.capacity_bytes = bytes;
        self
    }

    /// Runs `program` once in a new folder, and `check_files` on each outcome, with what had been acknowledged by then.
    /// `check_files` panics if something is wrong.
    pub fn run(
        &self,
        program: impl FnOnce(&Path, &Acks),
        check_files: impl Fn(&Path, &[String]) + Send + Sync + 'static,
    ) -> Result<Outcome, RunError> {
        let recording = self.record(program)?;
        let function = move |folder: &Path, acks: &[String]| {
            check_files(folder, acks);
            Ok(())
        };
        self.check(&recording, Arc::new(function), &Monitor::silent())
    }

    /// The first half of [`CrashTest::run`]: runs `program` once in a new folder.
    pub fn record(&self, program: impl FnOnce(&Path, &Acks)) -> Result<Recording, RunError> {
        self.settings(Check::Command(String::new())).check()?;
        record_with(self.capacity_bytes, |_, folder, recording| {
            program(folder, &Acks(Arc::clone(recording)));
            Ok(())
        })
    }

    /// The second half: calls `function` on each outcome.
    pub fn check(
        &self,
        recording: &Recording,
        function: Arc<CheckFunction>,
        monitor: &Monitor,
    ) -> Result<Outcome, RunError> {
        check(recording, &self.settings(Check::Function(function)), monitor)
    }

    fn settings(&self, check: Check) -> Settings {
        let mut losses = self.losses.clone();
        if let Losses::Drive(profile) = &mut losses {
            profile.capacity_bytes = self.capacity_bytes;
        }
        Settings {
            losses,
            check,
            check_seconds: 60,
            cuts: self.cuts,
            minutes: self.minutes,
            seed: self.seed,
            save: self.save.clone(),
        }
    }

    /// Runs the test as [`CrashTest::run`] does.
    ///
    /// # Panics
    /// With the findings if the check fails for any outcome, and if the test cannot run.
    pub fn survives(
        &self,
        program: impl FnOnce(&Path, &Acks),
        check_files: impl Fn(&Path, &[String]) + Send + Sync + 'static,
    ) {
        let outcome = self.run(program, check_files).unwrap_or_else(|error| panic!("{error}"));
        assert!(outcome.failed == 0, "it does not survive power loss\n{}", summary::of(&outcome));
    }
}
