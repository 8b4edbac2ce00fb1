//! A guest with Debian's own kernel, emulated in software: it needs neither root nor `/dev/kvm`. The host's loopback address
//! is 10.0.2.2 there. It reports on its serial line.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::unistd::geteuid;

use super::context::Context;
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// What the guest gets of this machine.
const PROGRAMS: &str = "nvme fio mkfs.ext4 e2fsck mkfs.xfs xfs_repair mkfs.btrfs btrfs mkfs.f2fs fsck.f2fs mkfs.nilfs2 sync fstrim blkzone lsblk";
/// C programs in the guest: a client of the drive's own commands, synced writers, atomic writes, write streams, and files of zonefs.
const CLIENTS: [(&str, &str); 5] = [
    ("batch", "crates/fronts/nvme/clients/examples/batch.c"),
    ("writers", "xtask/guest/writers.c"),
    ("atomic", "xtask/guest/atomic.c"),
    ("streams", "xtask/guest/streams.c"),
    ("zoned", "xtask/guest/zoned.c"),
];
const MODULES: &str =
    "nvme-tcp virtio_net virtio_pci ext4 xfs btrfs f2fs nilfs2 zonefs crc32c_generic crc32_generic";

/// How long a guest may run.
const MOST_SECONDS: &str = "14400";

/// The guest's kernel and its root.
pub struct Guest {
    folder: PathBuf,
    /// How it is built and booted.
    base: PathBuf,
    /// What it runs.
    scripts: PathBuf,
}

/// The results of the scripts' checks.
#[derive(Default)]
pub struct CheckResults {
    /// How many passed.
    pub passed: usize,
    /// Those that did not, with what was printed after them.
    pub failed: Vec<String>,
    has_ended: bool,
}

/// Makes the folder in which guests are built, for whoever runs the steps: `nobody`, if root runs the tests.
pub fn prepare(context: &Context) -> Result<(), Failure> {
    let folder = context.target.join("guest");
    fs::create_dir_all(&folder)?;
    if geteuid().is_root() {
        Shell::new("chown").args(["--recursive", "nobody:nogroup"]).args([&folder]).run()?;
    }
    Ok(())
}

impl Guest {
    /// Builds the root, and fetches the kernel unless it is still there from the last time: that of a suite of Debian's archive,
    /// or the one that apt knows.
    pub fn build(context: &Context, suite: Option<&str>) -> Result<Guest, Failure> {
        let base = context.root.join("crates/lab/papers/guest");
        let folder = context.target.join("guest");
        fs::create_dir_all(&folder)?;
        let mut programs = PROGRAMS.to_owned();
        for (name, source) in CLIENTS {
            let (client, headers) = (folder.join(name), context.root.join("crates/fronts/nvme/clients"));
            programs = format!("{programs} {}", client.display());
            let source = [context.root.join(source), "-o".into(), client, "-I".into(), headers];
            let options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-static", "-pthread"];
            Shell::new("cc").args(options).args(source).run()?;
        }
        let build = [base.join("build.sh").as_os_str(), folder.as_os_str()].map(ToOwned::to_owned);
        Shell::new("sh").args(build).args([&programs, MODULES]).args(suite).run()?;
        Ok(Guest { folder, base, scripts: context.root.join("xtask/guest") })
    }

    /// Adds MariaDB and PostgreSQL, each with a new database.
    pub fn add_databases(&self) -> Result<(), Failure> {
        Shell::new("sh").args([self.scripts.join("databases.sh"), self.folder.join("root")]).run().map(drop)
    }

    /// The version of its kernel.
    pub fn kernel(&self) -> Result<String, Failure> {
        Ok(fs::read_to_string(self.folder.join("version"))?.trim_end().to_owned())
    }

    /// Where one of the programs in C is on this machine.
    pub fn client(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Boots, and runs scripts one after the other with these parameters. Each line for the host is passed to
    /// `on_line`; the guest waits until it has returned.
    pub fn run(
        &self,
        folder: &Path,
        scripts: &str,
        parameters: &str,
        mut on_line: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<CheckResults, Failure> {
        let mut running = Running(self.boot(folder, scripts, parameters)?);
        let serial = running.0.stdout.take().expect("a pipe was asked for");
        let mut answers = running.0.stdin.take().expect("a pipe was asked for");
        let kept = self.folder.join("guest.log");
        let (mut said, mut log) = (CheckResults::default(), fs::File::create(&kept)?);
        for line in BufReader::new(serial).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
            writeln!(log, "{line}")?;
            said.hear(&line);
            if let Some(text) = line.strip_prefix("GUEST ").filter(|text| *text != "ended") {
                on_line(text)?;
                answers.write_all(b"\n")?;
            }
        }
        ensure(said.has_ended, || {
            format!("the guest stopped before its scripts did; see {}", kept.display())
        })?;
        Ok(said)
    }

    fn boot(&self, folder: &Path, scripts: &str, parameters: &str) -> Result<Child, Failure> {
        let root = self.folder.join("root");
        for script in scripts.split_whitespace() {
            let name = format!("{script}.sh");
            fs::copy(self.scripts.join(&name), root.join("scripts").join(&name))?;
        }
        fs::write(root.join("parameters"), format!("SCRIPTS='{scripts}'\n{parameters}"))?;
        let child = Command::new("sh")
            .arg(self.base.join("boot.sh"))
            .arg(&self.folder)
            .arg(folder.join("initrd"))
            .arg(MOST_SECONDS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(child)
    }
}

/// A guest that ends when its owner does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl CheckResults {
    fn hear(&mut self, line: &str) {
        if line.starts_with("PASS ") {
            self.passed += 1;
        } else if line.starts_with("FAIL ") {
            self.failed.push(line.to_owned());
        } else if line == "GUEST ended" {
            self.has_ended = true;
        } else if let Some(last) = self.failed.last_mut().filter(|last| last.len() < 1000) {
            last.push('\n');
            last.push_str(line);
        }
    }

    /// At least this many checks passed, and none failed.
    pub fn expect(&self, at_least: usize) -> Result<(), Failure> {
        ensure(self.failed.is_empty(), || self.failed.join("\n"))?;
        ensure(self.passed >= at_least, || format!("only {} checks passed, of {at_least}", self.passed))
    }
}
