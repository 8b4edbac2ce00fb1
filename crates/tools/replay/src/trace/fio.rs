//! fio's iologs (`write_iolog`), versions 2 and 3: `[time] file action [offset length]`.
//!
//! Version 3 begins each line with microseconds since the beginning. Version 2 has no times. What follows its `file wait N` is not
//! issued before N milliseconds since the beginning: so fio does it since version 1.35 (`read_iolog_get` of iolog.c), and
//! fio 3.33 was seen to do it. Its HOWTO says microseconds after the wait before, so the report tells how waits were taken.
//!
//! fio appends to a log that exists, so a file may hold several, each with its own first line and with times from 0. They are
//! replayed one after the other.

use super::fields::{WRITE, flush, number, request, time};
use super::{Expected, Operation, Parsed, Parser};

/// The first line of each version.
pub(super) const VERSION_2: &str = "fio version 2 iolog";
pub(super) const VERSION_3: &str = "fio version 3 iolog";

const MICROSECOND: u64 = 1000;
const MILLISECOND: u64 = 1_000_000;

const ACTIONS: Expected = "one of fio's actions: read, write, trim, sync, datasync, sync_file_range, syncfs, add, open, close, or wait in version 2";
const LENGTH: Expected = "a file, an action, an offset and a length in bytes";
const LENGTH_WITH_TIME: Expected =
    "a time in microseconds, a file, an action, an offset and a length in bytes";
const WAIT: Expected =
    "FILE wait MILLISECONDS: a file, as in every line, then the milliseconds since the beginning";
const NO_BLANKS: Expected = "a file whose name has no blanks: fio's log does not show where such a name ends";
const ONE_JOB: Expected = "a line of one job, but two jobs wrote into this file at once: give each job a log of its own (write_iolog)";
const TIME: Expected = "a time in microseconds before the file and the action";
const HEADER: Expected = "\"fio version 2 iolog\" or \"fio version 3 iolog\" as the first line";

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Fio {
    version: Option<Version>,
    logs: u64,
    /// When this log begins, and its latest time, which in version 2 is that of a wait.
    begin_ns: u64,
    last_ns: u64,
    has_waits: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Two,
    Three,
}

const ACTION_NAMES: [&str; 11] = [
    "read",
    "write",
    "trim",
    "sync",
    "datasync",
    "sync_file_range",
    "syncfs",
    "add",
    "open",
    "close",
    "wait",
];

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

    /// A time of this log, given in units of this many nanoseconds.
    fn at_ns(&mut self, field: Option<&str>, unit_ns: u64, expected: Expected) -> Result<u64, Expected> {
        let at_ns = time(field, unit_ns, expected)?.checked_add(self.begin_ns).ok_or(expected)?;
        self.last_ns = self.last_ns.max(at_ns);
        Ok(at_ns)
    }
}

/// The better reason for a wrong line of a version's log, if there is one.
fn reason(line: &str, version: Version, otherwise: Expected) -> Expected {
    // the second job's first line ends up anywhere among the first job's: fio's manual warns of that
    if line.contains("fio version ") {
        return ONE_JOB;
    }
    let place = if version == Version::Three { 2 } else { 1 };
    let is_later = line.split_ascii_whitespace().skip(place + 1).any(|field| ACTION_NAMES.contains(&field));
    if is_later { NO_BLANKS } else { otherwise }
}

impl Parser for Fio {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if let Some(version) = version_of(line) {
            return self.begin(version);
        }
        let version = self.version.ok_or(HEADER)?;
        self.entry(line, version).map_err(|expected| reason(line, version, expected))
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
        let logs = (self.logs > 1).then(|| {
            format!(
                "the trace holds {} logs of fio, which are replayed one after the other; jobs that ran at once need a log each",
                self.logs
            )
        });
        let waits = self.has_waits.then(|| {
            "its waits are milliseconds since its beginning, as fio takes them, and not what fio's manual says".to_owned()
        });
        let notes: Vec<String> = logs.into_iter().chain(waits).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

impl Fio {
    /// What a line after the first one says.
    fn entry<'a>(&mut self, line: &'a str, version: Version) -> Result<Parsed<'a>, Expected> {
        let mut fields = line.split_ascii_whitespace();
        let (at_ns, length_expected) = match version {
            Version::Two => (self.last_ns, LENGTH),
            Version::Three => (self.at_ns(fields.next(), MICROSECOND, TIME)?, LENGTH_WITH_TIME),
        };
        let file = fields.next().ok_or(length_expected)?;
        let no_action = if file == "wait" && version == Version::Two { WAIT } else { ACTIONS };
        let action = fields.next().ok_or(no_action)?;
        let (offset, length) = (fields.next(), fields.next());
        if fields.next().is_some() {
            return Err("no more than an offset and a length after the action");
        }
        let of_data = |operation| {
            let (offset, length) = (number(offset, length_expected)?, number(length, length_expected)?);
            request(file, at_ns, operation, offset, length)
        };
        match action {
            "read" => of_data(Operation::Read),
            "write" => of_data(WRITE),
            "trim" => of_data(Operation::Trim),
            "sync" | "datasync" | "sync_file_range" | "syncfs" => Ok(flush(file, at_ns)),
            "add" | "open" | "close" => Ok(Parsed::Nothing),
            "wait" if version == Version::Two => {
                self.has_waits = true;
                self.at_ns(offset, MILLISECOND, WAIT)?;
                Ok(Parsed::Nothing)
            }
            _ => Err(no_action),
        }
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
    fn version_2_waits_until_milliseconds_since_the_beginning() {
        // fio 3.33 took 3 s longer with waits of 1500 and 3000 than without, and with 3000 and 1500
        for waits in [[1500, 3000], [3000, 1500]] {
            let text = format!(
                "{VERSION_2}\nf read 0 4096\nf wait {} 0\nf wait {} 0\nf trim 4096 4096\n",
                waits[0], waits[1]
            );
            let parsed = all(&text);
            assert_eq!(parsed[0], request("f", 0, Operation::Read, 0, 4096));
            assert_eq!(parsed[3], request("f", 3_000_000_000, Operation::Trim, 4096, 4096));
        }
        let mut fio = Fio::default();
        // a second log in the same file has a beginning of its own
        for line in [VERSION_2, "f wait 20 0", "f read 0 512", VERSION_2, "f wait 5 0"] {
            fio.parse(line).unwrap();
        }
        assert_eq!(fio.parse("f read 0 512"), request("f", 25_000_000, Operation::Read, 0, 512));
        let note = fio.note().unwrap();
        assert!(note.contains("2 logs of fio") && note.contains("waits are milliseconds"), "{note}");
    }

    /// `fio --rw=randrw --fsync=3 --fdatasync=5` of version 3.33 wrote lines like these, and `syncfs` came with 3.42.
    #[test]
    fn each_kind_of_sync_is_a_flush() {
        let parsed = all(
            "fio version 3 iolog\n30 /a add\n194 /a open\n301 /a sync 368640 0\n1020 /a datasync 892928 0\n1021 /a syncfs 0 0\n1373 /a close\n",
        );
        let flushes = [flush("/a", 301_000), flush("/a", 1_020_000), flush("/a", 1_021_000)];
        assert_eq!(parsed[2..5], flushes.map(Ok));
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

    /// Two jobs of fio with one `write_iolog`: the second one's first line stood within a line of the first one.
    #[test]
    fn lines_of_two_jobs_and_names_with_blanks_are_told() {
        let of = |line: &str| all(&format!("{VERSION_3}\n{line}"))[0].unwrap_err();
        assert_eq!(of("215884fio version 3 iolog"), ONE_JOB);
        for line in ["1 my file write 0 4096", "1 a read b write 0 4096", "1 read it add"] {
            assert_eq!(of(line), NO_BLANKS, "{line}");
        }
        assert_eq!((of("1 f write 0"), of("1")), (LENGTH_WITH_TIME, LENGTH_WITH_TIME));
        assert_eq!(of("1 write write 0"), LENGTH_WITH_TIME);
        assert_eq!(all(&format!("{VERSION_2}\nmy file write 0 512"))[0], Err(NO_BLANKS));
        assert_eq!(all(&format!("{VERSION_2}\nf write 0"))[0], Err(LENGTH));
    }

    #[test]
    fn a_wait_without_its_file_is_told_the_form_of_the_line() {
        for line in ["wait 10", "wait", "wait 10 0", "f wait", "f wait x"] {
            assert_eq!(all(&format!("{VERSION_2}\n{line}"))[0], Err(WAIT), "{line}");
        }
        assert_eq!(all(&format!("{VERSION_3}\n1 wait 10"))[0], Err(ACTIONS), "version 3 has no waits");
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
