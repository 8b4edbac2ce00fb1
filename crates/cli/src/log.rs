//! The log of a mount in the background, next to its image: `IMAGE.log`. Nobody reads the output of such a process.
//!
//! The log has lines for events that a later reader needs to know: when a volume was mounted, that its drive stopped,
//! and how the mount ended. Its disk space is reserved when it is opened, because it may have to report a full disk.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{FallocateFlags, fallocate};

/// A log larger than this starts over.
const LARGEST_BYTES: u64 = 64 << 10;

/// Disk space for the lines of one mount.
const RESERVED_BYTES: i64 = 8 << 10;

const DAY_SECONDS: u64 = 24 * 60 * 60;

/// The log of an image.
pub fn log_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".log");
    PathBuf::from(name)
}

/// The log of an image, if there is one.
pub fn existing_log(image: &Path) -> Option<PathBuf> {
    Some(log_path(image)).filter(|log| log.is_file())
}

/// A log to which lines are appended.
#[derive(Debug)]
pub struct Log {
    file: File,
}

impl Log {
    /// Opens the log of an image, or creates it.
    pub fn open(image: &Path) -> io::Result<Log> {
        let file = File::options().create(true).append(true).open(log_path(image))?;
        let mut bytes = file.metadata()?.len();
        if bytes > LARGEST_BYTES {
            file.set_len(0)?;
            bytes = 0;
        }
        // If the file system cannot reserve space, or the disk is already full, the log depends on the space available
        // later.
        let _ = fallocate(&file, FallocateFlags::FALLOC_FL_KEEP_SIZE, bytes as i64, RESERVED_BYTES);
        Ok(Log { file })
    }

    /// Adds a line, with the time. A failure cannot be reported to anyone.
    pub fn add(&mut self, line: &str) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = format!("{} [{}] {line}\n", utc(since.as_secs()), std::process::id());
        let _ = self.file.write_all(line.as_bytes());
    }
}

/// Seconds since 1970 as a date and time.
pub fn utc(seconds: u64) -> String {
    let (mut day, mut year) = (seconds / DAY_SECONDS, 1970);
    while day >= year_days(year) {
        day -= year_days(year);
        year += 1;
    }
    let mut month = 1;
    while day >= month_days(year, month) {
        day -= month_days(year, month);
        month += 1;
    }
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", day + 1)
}

fn year_days(year: u64) -> u64 {
    (1..=12).map(|month| month_days(year, month)).sum()
}

fn month_days(year: u64, month: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(utc(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(utc(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn lines_are_added_until_the_log_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        let content = || std::fs::read_to_string(folder.path().join("drive.tant.log")).unwrap();
        Log::open(&image).unwrap().add("one");
        Log::open(&image).unwrap().add("two");
        let lines: Vec<String> = content().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].ends_with("] one") && lines[1].ends_with("] two"), "{lines:?}");
        std::fs::write(log_path(&image), vec![b'\n'; LARGEST_BYTES as usize + 1]).unwrap();
        Log::open(&image).unwrap().add("three");
        assert_eq!(content().lines().count(), 1);
    }
}
