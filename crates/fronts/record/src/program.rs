//! A program with a folder to work in.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A program that an interruption has not ended after this time is asked to end.
const UNTIL_ASKED: Duration = Duration::from_secs(2);

/// The first pause between two looks at a running program, and the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// A program and its arguments in a folder: it is the working directory and `$TANTALUM_DIR`, and `{}` in an argument stands
/// for it. The program must not be empty.
pub fn program_in(words: &[OsString], folder: &Path) -> Command {
    let (program, arguments) = words.split_first().expect("there is a program");
    let mut command = Command::new(found_from_here(program));
    command.args(arguments.iter().map(|argument| with_folder(argument, folder)));
    command.current_dir(folder).env("TANTALUM_DIR", folder);
    command
}

/// A program given as a relative path still means the same file when run in another folder.
pub fn found_from_here(program: &OsStr) -> PathBuf {
    let path = Path::new(program);
    match path.components().count() > 1 || path.is_absolute() {
        true => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    }
}

/// Waits until a program ends. Ctrl-C reaches it as well if it shares the terminal; otherwise, and if it does not obey, it gets
/// SIGTERM a while after the interruption, and SIGKILL when that `is_over`, which gets the time since the interruption.
pub fn wait(
    mut child: Child,
    is_interrupted: impl Fn() -> bool,
    is_over: impl Fn(Duration) -> bool,
) -> io::Result<ExitStatus> {
    let mut interrupted: Option<Instant> = None;
    let mut is_asked = false;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if is_interrupted() {
            let since = interrupted.get_or_insert_with(Instant::now).elapsed();
            if is_over(since) {
                let _ = child.kill();
            } else if since > UNTIL_ASKED && !std::mem::replace(&mut is_asked, true) {
                let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            }
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// An argument in which `{}` is the folder.
fn with_folder(argument: &OsStr, folder: &Path) -> OsString {
    let (mut text, mut rest) = (Vec::new(), argument.as_bytes());
    while let Some(at) = rest.windows(2).position(|two| two == b"{}") {
        text.extend_from_slice(&rest[..at]);
        text.extend_from_slice(folder.as_os_str().as_bytes());
        rest = &rest[at + 2..];
    }
    text.extend_from_slice(rest);
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_stands_for_braces_whatever_bytes_both_have() {
        let of = |argument: &[u8], folder: &[u8]| {
            with_folder(OsStr::from_bytes(argument), Path::new(OsStr::from_bytes(folder))).into_vec()
        };
        assert_eq!(of(b"{}/a:{}", b"/f"), b"/f/a:/f");
        assert_eq!(of(b"--to={}/\xfe", b"/\xff{}"), b"--to=/\xff{}/\xfe");
        assert_eq!(of(b"{a}{", b"/f"), b"{a}{");
    }
}
