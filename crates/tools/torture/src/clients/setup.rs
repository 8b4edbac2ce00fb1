//! A drive, and the clients that use it.

use std::fmt;
use std::ops::Range;

use tantalum::{CacheMode, Faults, FlashScheduling, Lpn, Plp, Profile, SpuProfile};
use tantalum_report::InvalidSetting;

use crate::device::drive::{DIRECT, DriveKind};
use crate::device::{DriveChoice, Flash, Handles, Medium};
use crate::error::CrashError;

/// How many times as often operations of flash that wears fail as for one client, which issues more between two cuts.
const WEAR: u32 = 4;

/// Processors of a drive with programs.
const PROCESSORS: u32 = 2;

/// Units of the logs of Atomic-Writes on such a drive, from unit 0 on.
pub(super) const PROGRAM_LOG_UNITS: u32 = 576;
/// Units with the cells that its transactions write.
pub(super) const CELLS: Range<u32> = PROGRAM_LOG_UNITS..PROGRAM_LOG_UNITS + 16;

/// A drive and how its clients use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    pub(super) kind: DriveKind,
    /// How many clients there are.
    pub clients: u32,
    /// Whether writes that repeat a recent one become shares.
    pub remaps: bool,
    /// Whether answers wait until they are due. Otherwise each is given at once, and nothing is in flight.
    pub paced: bool,
    /// Whether programs in the drive are clients too.
    pub programs: bool,
    /// Whether real threads use the drive, in an order that nobody draws. They only read, write, share and trim units.
    pub free: bool,
}

impl Setup {
    /// The drive's profile.
    pub(super) fn profile(&self, seed: u64) -> Profile {
        let profile = self.kind.profile(seed);
        match self.programs {
            true => Profile { spu: SpuProfile { count: PROCESSORS, ..profile.spu }, ..profile },
            false => profile,
        }
    }

    /// Units that no client uses, with values that never change: garbage collection moves them along.
    pub(super) fn cold(&self) -> Range<u32> {
        let start = if self.programs { CELLS.end } else { 0 };
        start..self.kind.cold().end
    }

    /// Whether the contents of DRAM survive.
    pub(super) fn is_protected(&self) -> bool {
        self.kind.plp == Plp::Capacitor
    }

    /// Whether programs and erases of the flash fail.
    pub(super) fn wears(&self) -> bool {
        self.kind.flash != Flash::Sound
    }

    /// How they fail: so often that a drive is worn out within a few dozen cuts.
    pub(super) fn faults(&self, seed: u64) -> Faults {
        let faults = self.kind.faults(seed);
        Faults {
            program_failure_ppm: WEAR * faults.program_failure_ppm,
            erase_failure_ppm: WEAR * faults.erase_failure_ppm,
            ..faults
        }
    }

    /// Whether the clients ask for more space than there is.
    pub(super) fn is_full(&self) -> bool {
        self.kind.full
    }

    /// Units that are written and trimmed many at a time; empty unless the drive becomes full.
    pub(super) fn bulk(&self) -> Range<u32> {
        self.kind.bulk()
    }

    /// The units that clients work on.
    pub(super) fn units(&self) -> impl Iterator<Item = Lpn> + use<> {
        self.bulk().chain(DIRECT).map(Lpn)
    }

    /// Whether a write is durable when it is done.
    pub(super) fn has_durable_writes(&self) -> bool {
        self.is_protected() || self.kind.cache == CacheMode::Off
    }

    /// The kind of drive, as one row of a table.
    pub(super) fn row(&self) -> (&'static str, &'static str) {
        (self.kind.plp_name(), self.kind.cache_name())
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.kind;
        write!(f, "--plp {} --cache {}", kind.plp_name(), kind.cache_name())?;
        write!(f, " --page-bytes {}", kind.page_bytes)?;
        write!(f, " --record-logs {}", if kind.own_logs { "own" } else { "shared" })?;
        write!(f, " --indexes {}", if kind.swaps { "swapped" } else { "resident" })?;
        write!(f, " --scheduling {} --clients {}", kind.scheduling_name(), self.clients)?;
        write!(f, " --duplicates {}", if self.remaps { "shared" } else { "written" })?;
        write!(f, " --pacing {}", if self.paced { "virtual" } else { "none" })?;
        write!(f, " --programs {}", if self.programs { "on" } else { "off" })?;
        write!(f, " --room {} --flash {}", kind.room_name(), kind.flash_name())?;
        write!(f, " --medium {}", if kind.medium == Medium::Image { "image" } else { "memory" })?;
        f.write_str(if self.free { " --order free" } else { "" })
    }
}

/// The selected setups: every kind of drive that is not selected, and the seed's choice of everything else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetupChoice {
    /// The protection; `None` for every kind.
    pub plp: Option<Plp>,
    /// The cache; `None` for every kind that goes with the protection.
    pub cache: Option<CacheMode>,
    /// Bytes of a page; `None` for the seed's choice, as in all that follow.
    pub page_bytes: Option<u32>,
    /// Whether key-value namespaces have their own logs.
    pub own_logs: Option<bool>,
    /// Whether DRAM has room only for some of their indexes.
    pub swaps: Option<bool>,
    /// How the flash's operations follow each other.
    pub scheduling: Option<FlashScheduling>,
    /// Where the drive is.
    pub medium: Option<Medium>,
    /// How many clients there are, 2 to 6.
    pub clients: Option<u32>,
    /// Whether repeated writes are shared.
    pub remaps: Option<bool>,
    /// Whether answers wait until they are due.
    pub paced: Option<bool>,
    /// Whether programs in the drive are clients too.
    pub programs: Option<bool>,
    /// Whether the clients ask for more space than there is.
    pub full: Option<bool>,
    /// Whether programs and erases fail.
    pub flash: Option<Flash>,
    /// Whether real threads use the drive, in an order that nobody draws.
    pub free: bool,
}

/// The numbers of clients.
const CLIENTS: Range<u32> = 2..7;

impl SetupChoice {
    /// Fails if no such setup can exist.
    pub fn validate(&self) -> Result<(), CrashError> {
        self.kinds(self.plp).validate()?;
        if let Some(clients) = self.clients.filter(|clients| !CLIENTS.contains(clients)) {
            return Err(InvalidSetting::new("--clients", clients, "use a number from 2 to 6").into());
        }
        if self.paced == Some(false) && self.programs == Some(true) {
            let expected = "programs need --pacing virtual: they run while commands are in flight";
            return Err(InvalidSetting::new("--programs", "on", expected).into());
        }
        if self.flash == Some(Flash::Loses) {
            let expected = "several clients have flash that is sound, or wears";
            return Err(InvalidSetting::new("--flash", "loses", expected).into());
        }
        let refuses = self.full == Some(true) || self.flash == Some(Flash::Wears);
        if refuses && self.programs == Some(true) {
            let expected =
                "programs need --room ample and --flash sound: they end when the drive refuses a write";
            return Err(InvalidSetting::new("--programs", "on", expected).into());
        }
        if refuses && self.free {
            let expected = "it needs --room ample and --flash sound";
            return Err(InvalidSetting::new("--order", "free", expected).into());
        }
        Ok(())
    }

    /// The choice of drives that these setups run on.
    fn kinds(&self, plp: Option<Plp>) -> DriveChoice {
        let refuses_nothing = self.free || self.programs == Some(true);
        DriveChoice {
            plp,
            cache: self.cache,
            page_bytes: self.page_bytes,
            own_logs: self.own_logs,
            swaps: self.swaps,
            queues: Some(true),
            full: self.full.or(refuses_nothing.then_some(false)),
            flash: self.flash.or(refuses_nothing.then_some(Flash::Sound)),
            medium: self.medium,
            scheduling: self.scheduling,
            atomic_write_units: Some(1),
            handles: Some(Handles::None),
        }
    }

    /// The setups of a seed.
    pub(super) fn setups(&self, seed: u64) -> Vec<Setup> {
        let mut kinds = self.kinds(self.plp).drives(seed);
        if self.plp.is_none() && self.cache != Some(CacheMode::Durable) {
            kinds.extend(self.kinds(Some(Plp::Nvm)).drives(seed));
        }
        kinds.into_iter().map(|kind| self.setup(kind, seed)).collect()
    }

    fn setup(&self, kind: DriveKind, seed: u64) -> Setup {
        // no two of these depend on each other or on what the seed chooses for the drive
        let paced = self.paced.unwrap_or(self.programs == Some(true) || seed % 8 != 5);
        let flash = match (self.flash, seed % 7) {
            (None, 2) if self.programs != Some(true) && !self.free => Flash::Wears,
            _ => kind.flash,
        };
        let refuses = kind.full || flash == Flash::Wears;
        let programs = self.programs.unwrap_or(paced && !refuses && seed / 3 % 3 == 1);
        let medium = match self.medium {
            None if seed / 2 % 4 == 3 => Medium::Image,
            _ => kind.medium,
        };
        Setup {
            kind: DriveKind { medium, flash, ..kind },
            clients: self.clients.unwrap_or(CLIENTS.start + (seed % 5) as u32),
            remaps: self.remaps.unwrap_or(seed % 2 == 1),
            paced,
            programs,
            free: self.free,
        }
    }
}
