//! The drives: those of the torture of a drive, with zones beside their units.

use std::fmt;

use tantalum::{CacheMode, FlashScheduling, Plp, Profile, ZonesProfile};

use crate::device::{DriveChoice, DriveKind, Flash, Handles, Medium};
use crate::error::CrashError;

/// The selected drives: every kind of each property that is not selected, or the seed's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneDrives {
    /// The protection; `None` for each.
    pub plp: Option<Plp>,
    /// The cache; `None` for each that goes with the protection.
    pub cache: Option<CacheMode>,
    /// Bytes of a page; `None` for the seed's choice, as for the others.
    pub page_bytes: Option<u32>,
    /// Whether the host submits a command before the previous one is done.
    pub queues: Option<bool>,
    /// How the flash fails.
    pub flash: Option<Flash>,
    /// How the flash's operations follow each other.
    pub scheduling: Option<FlashScheduling>,
}

impl ZoneDrives {
    fn choice(&self, seed: u64) -> DriveChoice {
        // one seed in five is on flash that fails
        let flash = match seed % 10 {
            4 => Flash::Wears,
            9 => Flash::Loses,
            _ => Flash::Sound,
        };
        DriveChoice {
            plp: self.plp,
            cache: self.cache,
            page_bytes: self.page_bytes,
            own_logs: Some(false),
            swaps: Some(false),
            queues: Some(self.queues.unwrap_or(seed % 3 == 1)),
            full: Some(false),
            flash: Some(self.flash.unwrap_or(flash)),
            medium: Some(Medium::Memory),
            scheduling: self.scheduling,
            atomic_write_units: Some(1),
            handles: Some(Handles::None),
        }
    }

    /// Fails if no such drive can exist.
    pub fn validate(&self) -> Result<(), CrashError> {
        self.choice(0).validate()
    }

    /// The drives of a seed.
    pub(super) fn drives(&self, seed: u64) -> Vec<ZoneDrive> {
        let mut kinds = self.choice(seed).drives(seed);
        if self.plp.is_none() && self.cache != Some(CacheMode::Durable) {
            kinds.extend(ZoneDrives { plp: Some(Plp::Nvm), ..*self }.choice(seed).drives(seed));
        }
        kinds.into_iter().map(ZoneDrive).collect()
    }
}

/// A drive with zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ZoneDrive(pub DriveKind);

impl ZoneDrive {
    /// The profile. Seeds differ in the number of zones, their width and their limits.
    pub fn profile(&self, seed: u64) -> Profile {
        let count = 3 + (seed / 2 % 4) as u32;
        let max_active = count - (seed % 2) as u32;
        let zones = ZonesProfile {
            count,
            planes: 1 + (seed % 2) as u32,
            max_open: 1 + seed as u32 % max_active,
            max_active,
        };
        Profile { zones: Some(zones), ..self.0.profile(seed) }
    }

    /// Whether a write is durable when it is done.
    pub fn writes_are_durable(&self) -> bool {
        self.0.cache != CacheMode::Volatile || self.0.plp == Plp::Capacitor
    }
}

/// Its options on the command line.
impl fmt::Display for ZoneDrive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.0;
        write!(f, "--plp {} --cache {}", kind.plp_name(), kind.cache_name())?;
        write!(
            f,
            " --page-bytes {} --host {}",
            kind.page_bytes,
            if kind.queues { "queues" } else { "waits" }
        )?;
        write!(f, " --flash {} --scheduling {}", kind.flash_name(), kind.scheduling_name())
    }
}
