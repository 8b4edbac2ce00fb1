//! fio's iologs (`write_iolog`), versions 2 and 3: `[time] file action [offset length]`.
//!
//! Version 3 begins each line with microseconds since the beginning. Version 2 has no times; its `wait` says how many
//! microseconds after the wait before it (fio's HOWTO, "Trace file format v2").
//!
//! fio appends to a log that exists, so a file may hold several, each with its own first line and with times from 0. They are
//! replayed one after the other.

use super::fields::{WRITE, flush, number, request, time};
use super::{Expected, Operation, Parsed, Parser};

/// The first line of each version.
pub(super) const VERSION_2: &str = "fio version 2 iolog";
pub(super) const VERSION_3: &str = "fio version 3 iolog";

const MICROSECOND: u64 = 1000;

const ACTIONS: Expected = "one of fio's actions: read, write, trim, sync, datasync, sync_file_range, add, open, close, or wait in version 2";
const LENGTH: Expected = "a file, an action, an offset and a length in bytes";
const TIME: Expected = "a time in microseconds before the file and the action";
const HEADER: Expected = "\"fio version 2 iolog\" or \"fio version 3 iolog\" as the first line";

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Fio {
    version: Option<Version>,
    logs: u64,
    /// Version 3: when this log begins, and its latest time.
    begin_ns: u64,
    last_ns: u64,
    /// Version 2: all waits so far.
    waited_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Two,
    Three,
}

const ACTION_NAMES: [&str; 10] =
    ["read", "write", "trim", "sync", "datasync", "sync_file_range", "add", "open", "close", "wait"];

/// The version in the first line of a log; none if it is another line.
fn version_of(line: &str) -> Option<Version> {
    match line {
        VERSION_2 => Some(Version::Two),
        VERSION_3 => Some(Version::Three),
        _ => None,
    }
}

impl Fio {
    /// Begins a log.
    fn begin(&mut self, version: Version) -> Result<Parsed<'static>, Expected> {
        if self.version.is_some_and(|known| known != version) {
            return Err("a log of the same version as the first one in this file");
        }
        self.version = Some(version);
        self.logs += 1;
        self.begin_ns = self.last_ns;
        Ok(Parsed::Nothing)
    }
}

impl Parser for Fio {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if let Some(version) = version_of(line) {
            return self.begin(version);
        }
        let version = self.version.ok_or(HEADER)?;
        let mut fields = line.split_ascii_whitespace();
        let at_ns = match version {
            Version::Two => self.waited_ns,
            Version::Three => {
                let at_ns = time(fields.next(), MICROSECOND, TIME)?.checked_add(self.begin_ns).ok_or(TIME)?;
                self.last_ns = self.last_ns.max(at_ns);
                at_ns
            }
        };
        let file = fields.next().ok_or(LENGTH)?;
        let action = fields.next().ok_or(ACTIONS)?;
        let (offset, length) = (fields.next(), fields.next());
        if fields.next().is_some() {
            return Err("no more than an offset and a length after the action");
        }
        let of_data =
            |operation| request(file, at_ns, operation, number(offset, LENGTH)?, number(length, LENGTH)?);
        match action {
            "read" => of_data(Operation::Read),
            "write" => of_data(WRITE),
            "trim" => of_data(Operation::Trim),
            "sync" | "datasync" | "sync_file_range" => Ok(flush(file, at_ns)),
            "add" | "open" | "close" => Ok(Parsed::Nothing),
            "wait" if version == Version::Two => {
                let waited_ns = time(offset, MICROSECOND, "a number of microseconds after wait")?;
                self.waited_ns =
                    self.waited_ns.checked_add(waited_ns).ok_or("waits of less than 584 years")?;
                Ok(Parsed::Nothing)
            }
            _ => Err(ACTIONS),
        }
    }

    /// A file of a log of version 2 may be called `#1`.
    fn is_comment(&self, line: &str) -> bool {
        let action = line.split_ascii_whitespace().nth(1);
        line.starts_with('#') && !action.is_some_and(|action| ACTION_NAMES.contains(&action))
    }

    fn has_times(&self) -> bool {
        self.version == Some(Version::Three)
    }

    fn note(&self) -> Option<String> {
        (self.logs > 1).then(|| {
            format!(
                "the trace holds {} logs of fio, which are replayed one after the other; jobs that ran at once need a log each",
                self.logs
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Result<Parsed<'_>, Expected>> {
        let mut fio = Fio::default();
        text.lines().map(|line| fio.parse(line)).skip(1).collect()
    }

    #[test]
    fn version_3_has_times_in_microseconds() {
        let parsed = all(
            "fio version 3 iolog\n7 /a add\n9 /a open\n10 /a write 8192 512\n12 /a datasync 0 0\n15 /a close\n",
        );
        assert_eq!(parsed[0], Ok(Parsed::Nothing));
        assert_eq!(parsed[2], request("/a", 10_000, WRITE, 8192, 512));
        assert_eq!(parsed[3], Ok(flush("/a", 12_000)));
        assert_eq!(parsed[4], Ok(Parsed::Nothing));
    }

    #[test]
    fn version_2_waits_after_the_wait_before() {
        let parsed = all("fio version 2 iolog\nf read 0 4096\nf wait 250\nf wait 50 0\nf trim 4096 4096\n");
        assert_eq!(parsed[0], request("f", 0, Operation::Read, 0, 4096));
        assert_eq!(parsed[3], request("f", 300_000, Operation::Trim, 4096, 4096));
    }

    /// Two runs of fio 3.33 with the same `--write_iolog`.
    #[test]
    fn logs_in_one_file_follow_each_other() {
        let mut fio = Fio::default();
        let first = format!("{VERSION_3}\n33 d1 add\n165 d1 write 61440 4096\n212 d1 close");
        for line in first.lines() {
            fio.parse(line).unwrap();
        }
        assert_eq!(fio.note(), None);
        assert_eq!(fio.parse(VERSION_3), Ok(Parsed::Nothing));
        let parsed = fio.parse("277 d2 read 61440 4096");
        assert_eq!(parsed, request("d2", 489_000, Operation::Read, 61_440, 4096));
        assert!(fio.note().unwrap().contains("2 logs of fio"));
        assert!(fio.parse(VERSION_2).is_err());
    }

    #[test]
    fn a_file_called_like_a_comment_is_none() {
        let mut fio = Fio::default();
        fio.parse(VERSION_2).unwrap();
        assert!(fio.is_comment("# written by hand") && fio.is_comment("#") && fio.is_comment("#write 0 512"));
        assert!(!fio.is_comment("#1 write 0 512") && !fio.is_comment("f write 0 512"));
    }

    #[test]
    fn other_lines_are_refused() {
        let version_3 =
            ["f write 0 4096", "1 f wait 5", "1 f scribble 0 1", "1 f write -1 1", "1 f write 0 1 2", "1 f"];
        for line in version_3 {
            assert!(all(&format!("{VERSION_3}\n{line}"))[0].is_err(), "{line}");
        }
        for line in ["f write 0", "f read x 1", "f wait", VERSION_3, "f wait 99999999999999999999"] {
            assert!(all(&format!("{VERSION_2}\n{line}"))[0].is_err(), "{line}");
        }
        assert!(Fio::default().parse("fio version 1 iolog").is_err());
    }
}
