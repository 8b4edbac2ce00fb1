//! One experiment, and its parameters.

use std::path::{Path, PathBuf};

use tantalum::{Effective, Profile};
use tantalum_report::table::bytes;
use tantalum_report::{MissingFeature, Monitor, Outcome};

use crate::error::ExperimentError;
use crate::feature::Feature;

/// How experiments are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Size, as a fraction of the full set-up; each experiment has its own default.
    pub scale: Option<f64>,
    /// How many times slower the drive is in real time; each experiment has its own default.
    pub slower: Option<u32>,
    /// Seed of all randomness.
    pub seed: u64,
    /// The `tantalum` command, which mounts drives for servers.
    pub program: PathBuf,
}

/// One experiment.
#[derive(Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// What it needs besides this program.
    pub needs: &'static str,
    /// What it needs of this build, if that is optional.
    pub feature: Option<Feature>,
    /// The default scale; 1 is the full set-up.
    pub scale: f64,
    /// Processors of the paper's machine, where this machine's count too.
    pub(super) processors: Option<u32>,
    pub(super) run: fn(&Run<'_>) -> Result<Outcome, ExperimentError>,
}

impl Experiment {
    /// An error if this build is without what it needs.
    pub fn require(&self) -> Result<(), MissingFeature> {
        self.feature.map_or(Ok(()), Feature::require)
    }
}

/// The parameters of one experiment.
pub(super) struct Run<'a> {
    pub scale: f64,
    /// The factor by which the drive is slower, so that the machine's processors weigh less. Times are divided by it.
    pub slower: u32,
    pub seed: u64,
    pub program: &'a Path,
    pub monitor: &'a Monitor,
}

impl Run<'_> {
    /// A scaled number of the full set-up, at least `least`.
    pub fn scaled(&self, full: u64, least: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(least)
    }
}

/// A drive of less capacity. Its blocks may be smaller then ([`Profile::geometry`]); their erase time is reduced in
/// proportion, so that erases take the same share of the planes' time as on the full drive.
pub(super) fn smaller(mut profile: Profile, capacity_bytes: u64) -> Result<Profile, ExperimentError> {
    profile.capacity_bytes = capacity_bytes;
    profile.validate()?;
    let pages_per_block = profile.geometry().expect("a valid profile has a geometry").pages_per_block;
    profile.flash.erase_ns =
        profile.flash.erase_ns * u64::from(pages_per_block) / u64::from(profile.flash.pages_per_block);
    profile.flash.pages_per_block = pages_per_block;
    Ok(profile)
}

/// A description of the drive for a set-up.
pub(super) fn drive_of(profile: &Profile) -> String {
    format!("drive {}, {}, {}", profile.name, bytes(profile.capacity_bytes), Effective::of(profile))
}

/// Processors of this machine.
pub(super) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |number| number.get() as u32)
}
