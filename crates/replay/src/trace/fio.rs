//! fio's iologs (`write_iolog`), versions 2 and 3: `[time] file action [offset length]`.
//!
//! Version 3 begins each line with microseconds since the beginning. Version 2 has no times; its `wait` says how many
//! microseconds after the wait before it (fio's HOWTO, "Trace file format v2").

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
    /// Version 2: all waits so far.
    waited_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Two,
    Three,
}

/// The version in the first line of a log.
fn version_of(line: &str) -> Result<Version, Expected> {
    match line.trim() {
        VERSION_2 => Ok(Version::Two),
        VERSION_3 => Ok(Version::Three),
        _ => Err(HEADER),
    }
}

impl Parser for Fio {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let Some(version) = self.version else {
            self.version = Some(version_of(line)?);
            return Ok(Parsed::Nothing);
        };
        if line.trim() == VERSION_2 || line.trim() == VERSION_3 {
            return Err(
                "the lines of one log: fio appends to an existing log, so write a new one or split it here",
            );
        }
        let mut fields = line.split_ascii_whitespace();
        let at_ns = match version {
            Version::Two => self.waited_ns,
            Version::Three => time(fields.next(), MICROSECOND, TIME)?,
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

    fn has_times(&self) -> bool {
        self.version == Some(Version::Three)
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

    #[test]
    fn other_lines_are_refused() {
        let version_3 =
            ["f write 0 4096", "1 f wait 5", "1 f scribble 0 1", "1 f write -1 1", "1 f write 0 1 2", "1 f"];
        for line in version_3 {
            assert!(all(&format!("{VERSION_3}\n{line}"))[0].is_err(), "{line}");
        }
        for line in ["f write 0", "f read x 1", "f wait", VERSION_2, VERSION_3, "f wait 99999999999999999999"]
        {
            assert!(all(&format!("{VERSION_2}\n{line}"))[0].is_err(), "{line}");
        }
        assert!(Fio::default().parse("fio version 1 iolog").is_err());
    }
}
