//! Linux uses the zones of a served drive: what it tells of them, blkzone and nvme-cli, zonefs, btrfs, and f2fs, whose metadata are in
//! the drive's blocks. Power is cut while files are written.

use std::path::Path;

use super::atomic_writes::{SUITE, number};
use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;

/// What the guest does; `TANTALUM_ZONES_SCRIPTS` names fewer.
const SCRIPTS: &str = "zones cuts";

/// The file systems whose power is cut; `TANTALUM_ZONES_FILE_SYSTEMS` names fewer. zonefs is cut by `zones.sh`.
const FILE_SYSTEMS: &str = "btrfs-zoned f2fs-zoned";

/// Power cuts for each file system; `TANTALUM_ZONES_CUTS` asks for more, or fewer.
const CUTS: u64 = 5;

/// A power cut comes after at most so many flash operations.
const MOST_OPERATIONS: u64 = 600;

/// Checks of `zones.sh` besides those of cuts.
const CHECKS: usize = 57;

/// Zones of the profile, and how many of them may be active.
const ZONES: (u32, u32) = (24, 14);

/// The drive, and how often its power was cut.
struct Host<'a> {
    drive: Served<'a>,
    seed: u64,
    cuts: u64,
}

impl Host<'_> {
    fn asked(&mut self, question: &str) -> Result<(), Failure> {
        match question.split_whitespace().collect::<Vec<_>>()[..] {
            ["cut"] => {
                self.cuts += 1;
                let random = (self.seed * 1000 + self.cuts).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                self.drive.cut(1 + (random >> 33) % MOST_OPERATIONS, random)
            }
            // the drive is the only one, and no tap sees what it promises
            ["drive", _] | ["kept", ..] => Ok(()),
            _ => Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
        }
    }
}

/// Boots one guest; `TANTALUM_ZONES_KERNEL` names another suite than that of the newest kernel.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context, Some(&named("TANTALUM_ZONES_KERNEL", SUITE)))?;
    let (scripts, systems) =
        (named("TANTALUM_ZONES_SCRIPTS", SCRIPTS), named("TANTALUM_ZONES_FILE_SYSTEMS", FILE_SYSTEMS));
    let (seed, cuts) = (number("SEED", 1)?, number("TANTALUM_ZONES_CUTS", CUTS)?);
    let drive = Served::create_as(context, folder, "zones.tant", &["--profile", "zns"], &[])?;
    let mut host = Host { drive, seed, cuts: 0 };
    let parameters = parameters(&host.drive, cuts, &systems);
    let results = guest.run(folder, &scripts, &parameters, |question| host.asked(question))?;
    let runs = |script: &str| usize::from(scripts.split_whitespace().any(|name| name == script));
    let (each, named_systems) = (cuts as usize, systems.split_whitespace().count());
    // zonefs: filling, mounting, finding; others: mkfs, and for each cut finding and fsck
    let of_zones = runs("zones") * (CHECKS + 3 * each);
    results.expect(of_zones + runs("cuts") * named_systems * (1 + 2 * each))?;
    let expected = cuts * (runs("zones") + runs("cuts") * named_systems) as u64;
    ensure(host.cuts == expected, || format!("{} cuts, not {expected}", host.cuts))?;
    host.drive.close()?;
    Ok(Done::Said(format!("Linux {}: {} checks, {} cuts", guest.kernel()?, results.passed, host.cuts)))
}

fn parameters(drive: &Served<'_>, cuts: u64, systems: &str) -> String {
    let (port, (zones, most)) = (&drive.port, ZONES);
    let of_cuts = format!("TAP_PORT={port}\nCUT_FILE_SYSTEMS='{systems}'\nREMAPPED_FILE_SYSTEMS=\n");
    format!("PORT={port}\nNQN={}\nZONES={zones}\nMOST={most}\nCUTS={cuts}\n{of_cuts}", drive.name)
}
