//! Steps as an ordinary user. If root runs the tests, those steps that do not need root run as `nobody`, each in a process
//! of its own with its own mounts, so that none is left. Its `/dev/fuse` is open to all, as udev makes it.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use nix::unistd::geteuid;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// Who runs the steps.
pub enum RunBy {
    /// An ordinary user, who leaves out what needs root.
    User,
    /// Root what needs root, and `nobody` the rest.
    RootAndNobody,
    /// Root everything, and why.
    Root(String),
}

impl RunBy {
    /// By the rights of this process.
    pub fn this_process(context: &Context) -> RunBy {
        if !geteuid().is_root() {
            return RunBy::User;
        }
        let tries = as_nobody(Path::new("/")).args([&context.tantalum]).args(["--version"]).run();
        match tries {
            Ok(_) => RunBy::RootAndNobody,
            Err(failure) => RunBy::Root(failure.to_string()),
        }
    }
}

impl fmt::Display for RunBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunBy::User => f.write_str("as this user, without the steps that need root"),
            RunBy::RootAndNobody => f.write_str("as nobody; steps that need root as root"),
            RunBy::Root(why) => write!(f, "all as root, because nobody cannot run the program: {why}"),
        }
    }
}

/// Exit codes of a step alone.
const FAILED: u8 = 1;
const LEFT_OUT: u8 = 3;

/// A command that runs what its arguments name, as `nobody`.
fn as_nobody(home: &Path) -> Shell {
    let mounts = "mount -t tmpfs none /mnt && mknod /mnt/fuse c 10 229 && chmod 666 /mnt/fuse && \
                  { mount --bind /mnt/fuse /dev/fuse || [ ! -e /dev/fuse ]; } && umount --lazy /mnt && exec \"$@\"";
    Shell::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", mounts, "sh"])
        .args(["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"])
        .variable("HOME", home)
}

/// Runs a step as `nobody`.
pub fn run(step: &str, folder: &Path) -> Outcome {
    Shell::new("chown").args(["nobody:nogroup"]).args([folder]).run()?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    let xtask = std::env::current_exe()?;
    let output = as_nobody(folder).args([&xtask]).args(["e2e-step", step]).args([folder]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    let code = output.status.code();
    if code == Some(LEFT_OUT.into()) {
        return Ok(Done::LeftOut(said));
    }
    ensure(code == Some(0), || format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(if said.is_empty() { Done::Passed } else { Done::Said(said) })
}

/// Prints how a step ended, for [`run`].
pub fn tell(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Done::Passed) => ExitCode::SUCCESS,
        Ok(Done::Said(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Done::LeftOut(why)) => {
            println!("{why}");
            ExitCode::from(LEFT_OUT)
        }
        Err(failure) => {
            println!("{}", Failure::to_string(&failure));
            ExitCode::from(FAILED)
        }
    }
}
