//! Linux attaches to served drives: nvme-cli, file systems, fio, a server that is killed, power cuts. One guest for each kernel
//! does it all.

use std::fs;
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::named;
use super::served::Served;
use super::tap::Tap;

/// Power cuts for each file system; `TANTALUM_NVME_CUTS` asks for more, or fewer.
const CUTS: u64 = 2;

/// What the guest does; `TANTALUM_NVME_SCRIPTS` names fewer.
const SCRIPTS: &str = "commands file_systems fio killed cuts namespaces";

/// File systems; `TANTALUM_NVME_FILE_SYSTEMS` names fewer.
const FILE_SYSTEMS: &str = "ext4 xfs btrfs f2fs nilfs2";

/// Those whose power is cut.
const CUT_FILE_SYSTEMS: &str = "ext4 xfs btrfs f2fs";

/// Those whose power is cut on a drive that remaps duplicates: ext4 with `data=journal`.
const REMAPPED_FILE_SYSTEMS: &str = "ext4-journal";

/// Those whose server is killed.
const KILLED_FILE_SYSTEMS: &str = "ext4 btrfs";

/// Options of the drives. The plain one has several namespaces, so that Linux may find them in any order.
const PLAIN: &[&str] = &["--key-value", "3", "--advertise", "10.0.2.2"];
const REMAPPING: &[&str] = &["--remap-duplicates"];
const PROTECTED: &[&str] = &["--remap-duplicates", "--block-size", "512"];

/// Units that `file_systems.sh` removes and trims, less what a file system may write elsewhere meanwhile.
const TRIMMED_UNITS: u64 = 8_000_000 / 4096 * 9 / 10;

/// The three drives, and the guest's requests so far.
struct Host<'a> {
    plain: Served<'a>,
    remapping: Served<'a>,
    /// With capacitors, and blocks of 512 bytes.
    protected: Served<'a>,
    /// Between the guest and the two drives that are cut.
    plain_tap: Tap,
    remapping_tap: Tap,
    /// Whether the drive that is cut is the one that remaps.
    cuts_remapping: bool,
    mapped_units: u64,
    seed: u64,
    cuts: u64,
    kills: u64,
    /// How often a tap found that everything was kept, and what else it found.
    kept: u64,
    lost: Vec<String>,
}

impl Host<'_> {
    fn asked(&mut self, question: &str) -> Result<(), Failure> {
        match question.split_whitespace().collect::<Vec<_>>()[..] {
            ["mapped", _] => self.mapped_units = self.mapped()?,
            ["trimmed", system] => {
                let (before, now) = (self.mapped_units, self.mapped()?);
                ensure(now + TRIMMED_UNITS <= before, || {
                    format!("{system}: {before} units were mapped, and {now} are after the trim")
                })?;
            }
            ["drive", port] => self.cuts_remapping = port == self.remapping_tap.port,
            ["cut"] => self.cut()?,
            ["kept", system, round] => self.check_kept(&format!("{system}-cut {round}")),
            ["kill"] => {
                self.kills += 1;
                self.protected.kill()?;
            }
            _ => return Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
        }
        Ok(())
    }

    fn mapped(&self) -> Result<u64, Failure> {
        let report = self.plain.stat()?;
        let mapped = report["mapped_units"].as_u64();
        mapped.ok_or_else(|| Failure::Wrong(format!("no mapped_units in {report}")))
    }

    fn cut(&mut self) -> Result<(), Failure> {
        self.cuts += 1;
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // operations from now until power fails
        let operations = 1 + (self.seed >> 33) % 400;
        let drive = if self.cuts_remapping { &self.remapping } else { &self.plain };
        drive.cut(operations, self.seed)
    }

    /// Power was lost and is back: what the drive had promised is there, whatever the file system makes of it.
    fn check_kept(&mut self, when: &str) {
        let tap = if self.cuts_remapping { &mut self.remapping_tap } else { &mut self.plain_tap };
        match tap.check() {
            Ok(_) => self.kept += 1,
            Err(failure) => self.lost.push(format!("{when}: {failure}")),
        }
    }

    /// The parameters of the guest's scripts.
    fn parameters(&self, systems: &str, cuts: u64) -> String {
        let Host { plain, remapping, protected, plain_tap, remapping_tap, .. } = self;
        let wanted = |list: &str| {
            let is_wanted = |system: &&str| systems.split_whitespace().any(|wanted| wanted == *system);
            list.split_whitespace().filter(is_wanted).collect::<Vec<_>>().join(" ")
        };
        format!(
            "PORT={}\nNQN={}\nUUID={}\nREMAPPING_PORT={}\nREMAPPING_NQN={}\nPROTECTED_PORT={}\nPROTECTED_NQN={}\n\
             TAP_PORT={}\nREMAPPING_TAP_PORT={}\n\
             FILE_SYSTEMS='{}'\nCUT_FILE_SYSTEMS='{}'\nREMAPPED_FILE_SYSTEMS='{}'\nKILLED_FILE_SYSTEMS='{}'\n\
             CUTS={cuts}\n",
            plain.port,
            plain.name,
            plain.uuid,
            remapping.port,
            remapping.name,
            protected.port,
            protected.name,
            plain_tap.port,
            remapping_tap.port,
            wanted(FILE_SYSTEMS),
            wanted(CUT_FILE_SYSTEMS),
            wanted(REMAPPED_FILE_SYSTEMS),
            wanted(KILLED_FILE_SYSTEMS),
        )
    }
}

/// With the oldest and the newest kernel that Debian's archive has for this release, unless `TANTALUM_NVME_KERNELS` names
/// other suites.
pub fn run(context: &Context, folder: &Path) -> Outcome {
    let release = release()?;
    let mut said = Vec::new();
    for suite in named("TANTALUM_NVME_KERNELS", &format!("{release} {release}-backports")).split_whitespace()
    {
        let folder = folder.join(suite);
        fs::create_dir(&folder)?;
        let guest = Guest::build(context, Some(suite))?;
        let kernel = guest.kernel()?;
        let done = attach(context, &folder, &guest)
            .map_err(|failure| Failure::Wrong(format!("Linux {kernel}: {failure}")))?;
        said.push(format!("Linux {kernel}: {done}"));
    }
    Ok(Done::Said(said.join("\n")))
}

/// The code name of Debian's release.
fn release() -> Result<String, Failure> {
    let told = fs::read_to_string("/etc/os-release")?;
    let name = told.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned)
        .ok_or_else(|| Failure::Wrong("/etc/os-release has no VERSION_CODENAME".to_owned()))
}

/// One guest does it all; returns how much.
fn attach(context: &Context, folder: &Path, guest: &Guest) -> Result<String, Failure> {
    let seed = named("SEED", "1");
    let plain = Served::create(context, folder, "plain.tant", "tlc-nvme", PLAIN)?;
    let remapping = Served::create(context, folder, "remapping.tant", "tlc-nvme", REMAPPING)?;
    let mut host = Host {
        plain_tap: Tap::start(context, &plain.port, &plain.name)?,
        remapping_tap: Tap::start(context, &remapping.port, &remapping.name)?,
        plain,
        remapping,
        protected: Served::create(context, folder, "protected.tant", "tlc-nvme-plp", PROTECTED)?,
        cuts_remapping: false,
        mapped_units: 0,
        seed: seed.parse().map_err(|_| Failure::Wrong(format!("SEED={seed} is not a number")))?,
        cuts: 0,
        kills: 0,
        kept: 0,
        lost: Vec::new(),
    };
    let cuts = named("TANTALUM_NVME_CUTS", &CUTS.to_string());
    let cuts =
        cuts.parse().map_err(|_| Failure::Wrong(format!("TANTALUM_NVME_CUTS={cuts} is not a number")))?;
    let scripts = named("TANTALUM_NVME_SCRIPTS", SCRIPTS);
    let systems = named("TANTALUM_NVME_FILE_SYSTEMS", &format!("{FILE_SYSTEMS} {REMAPPED_FILE_SYSTEMS}"));
    let parameters = host.parameters(&systems, cuts);
    let said = guest.run(folder, &scripts, &parameters, |question| host.asked(question))?;
    ensure(host.lost.is_empty(), || host.lost.join("\n"))?;
    said.expect(1)?;
    check_complete(&host, &scripts, &systems, cuts, said.passed)?;
    [&host.plain, &host.remapping, &host.protected].into_iter().try_for_each(Served::close)?;
    Ok(format!("{} checks, {} power cuts, {} kills", said.passed, host.cuts, host.kills))
}

/// Every script ran to its end: one that ended early would fail no check.
fn check_complete(
    host: &Host<'_>,
    scripts: &str,
    systems: &str,
    cuts: u64,
    passed: usize,
) -> Result<(), Failure> {
    let count = |list: &str| {
        let wanted = systems.split_whitespace().collect::<Vec<_>>();
        list.split_whitespace().filter(|system| wanted.contains(system)).count()
    };
    let runs = |script: &str| scripts.split_whitespace().any(|name| name == script);
    let cut_systems = count(CUT_FILE_SYSTEMS) + count(REMAPPED_FILE_SYSTEMS);
    let expected_cuts = if runs("cuts") { cut_systems as u64 * cuts } else { 0 };
    let expected_kills = if runs("killed") { 2 * count(KILLED_FILE_SYSTEMS) } else { 0 };
    let least = [
        ("commands", 70),
        ("file_systems", 7 * count(FILE_SYSTEMS)),
        ("fio", 5),
        ("killed", 8 * count(KILLED_FILE_SYSTEMS)),
        ("cuts", cut_systems * (1 + 2 * cuts as usize)),
        ("namespaces", 30),
    ];
    let expected: usize = least.into_iter().filter(|(name, _)| runs(name)).map(|(_, checks)| checks).sum();
    ensure(host.cuts == expected_cuts, || format!("{} cuts, not {expected_cuts}", host.cuts))?;
    ensure(host.kept == expected_cuts, || {
        format!("{} checks of what was kept, not {expected_cuts}", host.kept)
    })?;
    ensure(host.kills == expected_kills as u64, || format!("{} kills, not {expected_kills}", host.kills))?;
    ensure(passed >= expected, || format!("only {passed} checks passed, of {expected}"))?;
    if runs("cuts") && count(REMAPPED_FILE_SYSTEMS) > 0 && cuts > 0 {
        let report = host.remapping.stat()?;
        let remapped = report["served"]["units_remapped"].as_u64().unwrap_or(0);
        ensure(remapped > 0, || "no duplicate was remapped: the cuts have tested nothing".to_owned())?;
    }
    Ok(())
}
