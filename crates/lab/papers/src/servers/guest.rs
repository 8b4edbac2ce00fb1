//! A virtual machine with Debian's own kernel, which attaches served drives. QEMU emulates its processor, so it needs
//! neither root nor `/dev/kvm`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::ServerError;
use super::program::run;

/// What creating a guest takes: a program, and the Debian package that has it.
const PROGRAMS: [(&str, &str); 8] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("nvme", "nvme-cli"),
    ("mkfs.ext4", "e2fsprogs"),
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
];

/// The guest's resources.
const GUEST_PROGRAMS: &str = "nvme mkfs.ext4 e2fsck";
const GUEST_MODULES: &str = "nvme-tcp virtio_net virtio_pci ext4 crc32c_generic";

/// The shell scripts that create, boot and run it.
const SCRIPTS: [(&str, &str); 4] = [
    ("build.sh", include_str!("../../guest/build.sh")),
    ("boot.sh", include_str!("../../guest/boot.sh")),
    ("init.sh", include_str!("../../guest/init.sh")),
    ("library.sh", include_str!("../../guest/library.sh")),
];

/// How long a guest may run.
const MOST_SECONDS: &str = "7200";

/// How often a wait for the guest checks whether it is still wanted.
const INTERVAL: Duration = Duration::from_millis(200);

/// A running guest. Dropped, it is killed.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

/// A message from a guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestMessage {
    /// It waits for an answer.
    Asks(String),
    /// One of its checks failed.
    Failed(String),
    /// Its script is done.
    Ended,
}

impl Guest {
    /// Fails if a required program is missing.
    pub fn require() -> Result<(), ServerError> {
        let missing = PROGRAMS.into_iter().find(|(program, _)| !is_installed(program));
        match missing {
            Some((program, package)) => Err(ServerError::Missing { program, package }),
            None => Ok(()),
        }
    }

    /// Creates a guest in `folder`, with its kernel from Debian's packages, and boots it. It runs `script` with the
    /// variables of `parameters`.
    pub fn boot(folder: &Path, script: &str, parameters: &str) -> Result<Guest, ServerError> {
        Guest::require()?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(ServerError::file(&path))
        };
        for (name, text) in SCRIPTS {
            write(name, text)?;
        }
        let mut build = Command::new("sh");
        build.arg(folder.join("build.sh")).arg(folder).args([GUEST_PROGRAMS, GUEST_MODULES]);
        run("making the guest", &mut build)?;
        write("root/scripts/script.sh", script)?;
        write("root/parameters", &format!("SCRIPTS=script\n{parameters}"))?;
        let mut boot = Command::new("sh");
        boot.arg(folder.join("boot.sh")).arg(folder).arg(folder.join("initrd")).arg(MOST_SECONDS);
        boot.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let failed = |error| ServerError::Run { program: "qemu-system-x86_64".to_owned(), error };
        let mut child = boot.spawn().map_err(failed)?;
        let (stdin, serial) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(serial)) = (stdin, serial) else { unreachable!("pipes were asked for") };
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(serial).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    return;
                }
            }
        });
        Ok(Guest { child, stdin, lines })
    }

    /// Waits for a message, as long as `is_wanted` returns true.
    pub fn listen<E: From<ServerError>>(
        &mut self,
        mut is_wanted: impl FnMut() -> Result<(), E>,
    ) -> Result<GuestMessage, E> {
        loop {
            is_wanted()?;
            match self.lines.recv_timeout(INTERVAL) {
                Ok(line) => {
                    if let Some(message) = GuestMessage::of(&line) {
                        return Ok(message);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(self.stopped().into()),
            }
        }
    }

    /// Lets it continue after it asked.
    pub fn answer(&mut self) -> Result<(), ServerError> {
        let written = self.stdin.write_all(b"\n").and_then(|()| self.stdin.flush());
        written.map_err(|_| self.stopped())
    }

    fn stopped(&mut self) -> ServerError {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let message = "the guest stopped before its script was done".to_owned();
        ServerError::Failed { program: "qemu-system-x86_64".to_owned(), status, message }
    }
}

impl GuestMessage {
    /// Most of its output is not for the host.
    fn of(line: &str) -> Option<GuestMessage> {
        match line.strip_prefix("GUEST ") {
            Some("ended") => Some(GuestMessage::Ended),
            Some(question) => Some(GuestMessage::Asks(question.to_owned())),
            None => line.strip_prefix("FAIL ").map(|what| GuestMessage::Failed(what.to_owned())),
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a program is in the path, or in folders that only root's path has.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_says_little_to_the_host() {
        assert_eq!(GuestMessage::of("[    0.5] Booting"), None);
        assert_eq!(GuestMessage::of("PASS mkfs"), None);
        assert_eq!(GuestMessage::of("GUEST end files"), Some(GuestMessage::Asks("end files".to_owned())));
        assert_eq!(
            GuestMessage::of("FAIL files: ended with 1"),
            Some(GuestMessage::Failed("files: ended with 1".to_owned()))
        );
        assert_eq!(GuestMessage::of("GUEST ended"), Some(GuestMessage::Ended));
    }
}
