//! Linux attaches a served drive: nvme-cli, file systems, power cuts under them.

use std::path::Path;

use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::shell::Shell;
use super::{Context, Done, Outcome};

/// Power cuts for each file system; `TANTALUM_NVME_CUTS` asks for more, or fewer.
const CUTS: u64 = 20;

/// File systems; `TANTALUM_NVME_FILE_SYSTEMS` names fewer.
const FILE_SYSTEMS: &str = "ext4 xfs btrfs f2fs nilfs2";

/// Those whose power is cut.
const CUT_FILE_SYSTEMS: &str = "ext4 xfs btrfs f2fs";

/// A served drive, which ends with its test.
struct Served<'a> {
    context: &'a Context,
    folder: &'a Path,
    parameters: String,
}

impl<'a> Served<'a> {
    fn start(context: &'a Context, folder: &'a Path) -> Result<Served<'a>, Failure> {
        let said = Shell::new(&context.tantalum)
            .args(["serve", "drive.tant", "--create", "--capacity", "512M", "--time", "none"])
            .args(["--key-value", "1", "--listen", "127.0.0.1:0", "--background"])
            .folder(folder)
            .run()?;
        let word = |flag: &str| said.split(flag).nth(1).and_then(|rest| rest.split_whitespace().next());
        let (Some(port), Some(name)) = (word(" -s "), word(" -n ")) else {
            return Err(Failure::Wrong(format!("serve said {said:?}")));
        };
        let parameters = format!("PORT={port}\nNQN={name}\n");
        Ok(Served { context, folder, parameters })
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Result<String, Failure> {
        let shell = Shell::new(&self.context.tantalum).args([command, "drive.tant"]).args(arguments);
        shell.folder(self.folder).run()
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let _ = self.run("stop", &[]);
    }
}

fn named(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let guest = Guest::build(context)?;
    let served = Served::start(context, folder)?;
    let nothing = |_: &str| Ok(());
    let commands = guest.run(folder, "commands", &served.parameters, nothing)?;
    commands.expect(40)?;
    let systems = named("TANTALUM_NVME_FILE_SYSTEMS", FILE_SYSTEMS);
    let parameters = format!("{}FILE_SYSTEMS='{systems}'\n", served.parameters);
    let files = guest.run(folder, "file_systems", &parameters, nothing)?;
    files.expect(systems.split_whitespace().count() * 6)?;
    let cuts = cut(&guest, &served, folder)?;
    served.run("stop", &[])?;
    served.run("check", &[])?;
    Ok(Done::Said(format!(
        "nvme-cli: {} checks; {systems}: {} checks; {cuts} power cuts",
        commands.passed, files.passed
    )))
}

/// Cuts power while the guest writes.
fn cut(guest: &Guest, served: &Served<'_>, folder: &Path) -> Result<u64, Failure> {
    let cuts = named("TANTALUM_NVME_CUTS", &CUTS.to_string()).parse().unwrap_or(CUTS);
    let systems = named("TANTALUM_NVME_FILE_SYSTEMS", CUT_FILE_SYSTEMS).replace("nilfs2", "");
    let parameters = format!("{}FILE_SYSTEMS='{systems}'\nCUTS={cuts}\n", served.parameters);
    let mut seed: u64 = named("SEED", "1").parse().unwrap_or(1);
    let mut done = 0;
    let said = guest.run(folder, "cuts", &parameters, |line| {
        if line == "cut" {
            done += 1;
            // operations from now until power goes
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let operations = (1 + (seed >> 33) % 400).to_string();
            served.run("cut", &["--after-flash-ops", &operations, "--seed", &seed.to_string()])?;
        }
        Ok(())
    })?;
    let expected = systems.split_whitespace().count() as u64 * cuts;
    said.expect(expected as usize * 2)?;
    ensure(done == expected, || format!("{done} cuts, not {expected}"))?;
    Ok(done)
}
