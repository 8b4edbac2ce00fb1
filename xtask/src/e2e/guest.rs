//! A guest with Debian's own kernel, emulated in software: it needs neither root nor `/dev/kvm`. The host's loopback address
//! is 10.0.2.2 there. What it has to say it prints on its serial line.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::Context;
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// The guest's kernel and its root.
pub struct Guest {
    folder: PathBuf,
    scripts: PathBuf,
}

/// What a script said of its checks.
#[derive(Default)]
pub struct Said {
    /// How many passed.
    pub passed: usize,
    /// Those that did not, with what was printed behind them.
    pub failed: Vec<String>,
    has_ended: bool,
}

impl Guest {
    /// Makes the root, and fetches the kernel if it is not there from last time.
    pub fn build(context: &Context) -> Result<Guest, Failure> {
        let scripts = context.root.join("xtask/guest");
        let folder = context.target.join("guest");
        Shell::new("sh").args([scripts.join("build.sh").as_os_str(), folder.as_os_str()]).run()?;
        Ok(Guest { folder, scripts })
    }

    /// Boots, runs a script with these parameters, and gives what it said. `on_line` is given each line meant for the host.
    pub fn run(
        &self,
        folder: &Path,
        script: &str,
        parameters: &str,
        mut on_line: impl FnMut(&str) -> Result<(), Failure>,
    ) -> Result<Said, Failure> {
        let image = self.image(folder, script, parameters)?;
        let mut running = Running(self.boot(&image)?);
        let serial = running.0.stdout.take().expect("a pipe was asked for");
        let (mut said, mut log) = (Said::default(), String::new());
        for line in BufReader::new(serial).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).trim_end().to_owned();
            log.push_str(&line);
            log.push('\n');
            said.hear(&line);
            if let Some(text) = line.strip_prefix("GUEST ") {
                on_line(text)?;
            }
        }
        let kept = self.folder.join(format!("{script}.log"));
        fs::write(&kept, log)?;
        ensure(said.has_ended, || {
            format!("the guest stopped before its script did; see {}", kept.display())
        })?;
        Ok(said)
    }

    /// The root as the kernel wants it, with the script.
    fn image(&self, folder: &Path, script: &str, parameters: &str) -> Result<PathBuf, Failure> {
        let root = self.folder.join("root");
        fs::copy(self.scripts.join(format!("{script}.sh")), root.join("test.sh"))?;
        fs::write(root.join("parameters"), parameters)?;
        let image = folder.join("initrd");
        let pack = "cd \"$0\" && find . | cpio -o -H newc --quiet > \"$1\"";
        Shell::new("sh").args(["-c".as_ref(), pack.as_ref(), root.as_os_str(), image.as_os_str()]).run()?;
        Ok(image)
    }

    fn boot(&self, image: &Path) -> Result<Child, Failure> {
        let child = Command::new("timeout")
            .args(["7200", "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nographic"])
            .args(["-no-reboot", "-netdev", "user,id=n0", "-device", "virtio-net-pci,netdev=n0"])
            .arg("-kernel")
            .arg(self.folder.join("vmlinuz"))
            .arg("-initrd")
            .arg(image)
            .args(["-append", "console=ttyS0 quiet panic=-1 no_timer_check nvme_core.multipath=N"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(child)
    }
}

/// A guest that ends with whoever runs it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Said {
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

    /// So many checks at least, and none failed.
    pub fn expect(&self, at_least: usize) -> Result<(), Failure> {
        ensure(self.failed.is_empty(), || self.failed.join("\n"))?;
        ensure(self.passed >= at_least, || format!("only {} checks passed, of {at_least}", self.passed))
    }
}
