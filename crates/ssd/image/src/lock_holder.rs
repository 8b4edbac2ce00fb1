//! Who has locked a file, as the kernel lists it, for messages.

use std::fmt;
use std::fs::File;

/// Who has locked a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockHolder {
    /// This process: it has opened the file before.
    ThisProcess,
    /// Another process, with its number.
    Process(u32),
    /// Any process; the host does not say which.
    Unknown,
}

impl LockHolder {
    /// Who has locked this file; the first, if there are several.
    #[cfg(target_os = "linux")]
    pub fn of(file: &File) -> LockHolder {
        use std::os::unix::fs::MetadataExt;

        let (Ok(metadata), Ok(locks)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else {
            return LockHolder::Unknown;
        };
        let device = metadata.dev();
        let place = format!("{:02x}:{:02x}:{}", libc::major(device), libc::minor(device), metadata.ino());
        match holder_in(&locks, &place) {
            Some(number) if number == std::process::id() => LockHolder::ThisProcess,
            Some(number) => LockHolder::Process(number),
            None => LockHolder::Unknown,
        }
    }

    /// Who has locked this file: the host does not say.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_: &File) -> LockHolder {
        LockHolder::Unknown
    }
}

/// The process that has locked the file at a place (major:minor:inode), in the kernel's list of locks (proc_locks(5)). One of
/// another process namespace has no number.
#[cfg(target_os = "linux")]
fn holder_in(locks: &str, place: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // others are not locks of whole open files, or wait for one
        (fields.next()? == "FLOCK").then_some(())?;
        let number = fields.nth(2)?;
        (fields.next()? == place).then_some(())?;
        number.parse().ok().filter(|number| *number > 0)
    })
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockHolder::ThisProcess => f.write_str("this process, which opened it before"),
            LockHolder::Process(number) => write!(f, "process {number}"),
            LockHolder::Unknown => f.write_str("another process, or was opened by this one before"),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_lock_is_found_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 fe:00:7 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 fe:00:7 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 14 fe:00:7 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 00:1b:9 0 EOF\n";
        let holder = |place| holder_in(locks, place);
        assert_eq!((holder("fe:00:7"), holder("fe:00:77")), (Some(14), Some(12)));
        assert_eq!((holder("00:1b:9"), holder("fe:00:8")), (None, None));
    }

    #[test]
    fn this_process_is_told_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let file = File::create(&path).unwrap();
        assert_eq!(LockHolder::of(&file), LockHolder::Unknown);
        file.lock().unwrap();
        assert_eq!(LockHolder::of(&File::open(&path).unwrap()), LockHolder::ThisProcess);
        file.unlock().unwrap();
        let mut other = std::process::Command::new("flock")
            .arg(&path)
            .args(["-c", "echo locked; read line"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut said)
            .unwrap();
        assert_eq!(LockHolder::of(&file), LockHolder::Process(other.id()));
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
