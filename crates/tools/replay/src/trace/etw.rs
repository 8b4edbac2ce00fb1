//! The text of Windows' event tracing, as `xperf -i trace.etl -o trace.csv -a dumper` prints it, and as in SNIA IOTTA's trace sets
//! of Microsoft's servers: a header that names the columns of each event, and a line for each event.
//!
//! `DiskRead`, `DiskWrite` and `DiskFlush` are logged when the request is done: it was issued `ElapsedTime` before its
//! `TimeStamp`, both in microseconds since the trace began. `ByteOffset` and `IOSize` are bytes in hexadecimal. A volume is a
//! `DiskNum`. Columns differ between versions of Windows, so the header is needed.
//!
//! Checked against the headers and lines that others quote of SNIA's sets 149 and 158 and of Windows 10, and against tools for
//! them: LAKE's `preprocessMSTrace` divides `TimeStamp` by 1000 for milliseconds, oppat takes `IOSize` over `ElapsedTime` as
//! MB/s, and both take offsets and sizes as bytes. Other events have any text in them, such as command lines.

use super::fields::{WRITE, flush, hexadecimal, number, request, time};
use super::{Expected, Operation, Parsed, Parser};

const BEGIN: &str = "BeginHeader";
const END: &str = "EndHeader";

/// The events of requests, and what they do.
const EVENTS: [(&str, Operation); 3] =
    [("DiskRead", Operation::Read), ("DiskWrite", WRITE), ("DiskFlush", Operation::Flush)];

const MICROSECOND: u64 = 1000;

/// The line after the header.
const SYSTEM: &str = "OS Version:";

/// Whether a line is the beginning of such a trace.
pub(super) fn begins(line: &str) -> bool {
    line == BEGIN || event(line).is_some()
}

/// The number of the event that a line is about.
fn event(line: &str) -> Option<usize> {
    let name = line.split(',').next().unwrap_or_default().trim();
    line.contains(',').then(|| EVENTS.iter().position(|(known, _)| *known == name)).flatten()
}

/// Where the fields of an event stand.
#[derive(Clone, Copy, Debug)]
struct Columns {
    time: usize,
    elapsed: Option<usize>,
    offset: Option<usize>,
    bytes: Option<usize>,
    disk: Option<usize>,
}

impl Columns {
    fn of(header: &str) -> Result<Columns, Expected> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let find = |name: &str| names.iter().position(|known| known.eq_ignore_ascii_case(name));
        Ok(Columns {
            time: find("TimeStamp").ok_or("a column TimeStamp in the header of an event")?,
            elapsed: find("ElapsedTime"),
            offset: find("ByteOffset"),
            bytes: find("IOSize"),
            disk: find("DiskNum"),
        })
    }
}

/// The number after a title in the line about the system; 0 if that version of Windows does not say it.
fn lost(line: &str, title: &str, expected: Expected) -> Result<u64, Expected> {
    let mut parts = line.split(',').filter_map(|part| part.split_at_checked(part.find(':')? + 1));
    match parts.find(|(name, _)| name.trim().eq_ignore_ascii_case(title)) {
        Some((_, count)) => number(Some(count), expected),
        None => Ok(0),
    }
}

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Etw {
    in_header: bool,
    /// Events and buffers of events that Windows lost, as the trace says.
    lost: [u64; 2],
    columns: [Option<Columns>; EVENTS.len()],
}

impl Etw {
    fn header<'a>(&mut self, line: &str) -> Result<Parsed<'a>, Expected> {
        if line == END {
            self.in_header = false;
        } else if let Some(event) = event(line) {
            self.columns[event] = Some(Columns::of(line)?);
        }
        Ok(Parsed::Nothing)
    }

    fn event<'a>(&self, event: usize, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let columns = self.columns[event].ok_or(
            "the header first, from BeginHeader to EndHeader, which names the columns of this event",
        )?;
        let field =
            |column: Option<usize>| column.and_then(|column| line.split(',').nth(column)).map(str::trim);
        let done_ns =
            time(field(Some(columns.time)), MICROSECOND, "a time in microseconds in the column TimeStamp")?;
        let took_ns = match columns.elapsed {
            None => 0,
            elapsed => time(field(elapsed), MICROSECOND, "microseconds in the column ElapsedTime")?,
        };
        let at_ns = done_ns.saturating_sub(took_ns);
        let volume = field(columns.disk).unwrap_or_default();
        let operation = EVENTS[event].1;
        if operation == Operation::Flush {
            return Ok(flush(volume, at_ns));
        }
        let offset = hexadecimal(field(columns.offset), "bytes as 0x... in the column ByteOffset")?;
        let bytes = hexadecimal(field(columns.bytes), "bytes as 0x... in the column IOSize")?;
        request(volume, at_ns, operation, offset, bytes)
    }
}

impl Parser for Etw {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if line == BEGIN {
            self.in_header = true;
            return Ok(Parsed::Nothing);
        }
        if self.in_header {
            return self.header(line);
        }
        if let Some(event) = event(line) {
            return self.event(event, line);
        }
        if line.starts_with(SYSTEM) {
            self.lost[0] = self.lost[0].saturating_add(lost(
                line,
                "events lost:",
                "a number of lost events after Events Lost:",
            )?);
            self.lost[1] = self.lost[1].saturating_add(lost(
                line,
                "buffers lost:",
                "a number of lost buffers after Buffers lost:",
            )?);
            return Ok(Parsed::Nothing);
        }
        let name = line.split(',').next().unwrap_or_default().trim();
        let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -_/:.".contains(&byte));
        match is_name && line.contains(',') {
            // other events of Windows: none of them is a request of a disk
            true => Ok(Parsed::Nothing),
            false => Err("an event: its name and a comma before its fields"),
        }
    }

    fn note(&self) -> Option<String> {
        let [events, buffers] = self.lost;
        (events + buffers > 0)
            .then(|| format!("Windows lost {events} events and {buffers} buffers of the trace, as it says"))
    }

    fn end(&self) -> Result<(), Expected> {
        match self.in_header {
            true => Err("EndHeader after the header"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "BeginHeader
              DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName
             DiskWrite,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,         FileObject, FileName
          DiskReadInit,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr
             DiskFlush,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,                           ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri
EndHeader";

    fn etw() -> Etw {
        let mut etw = Etw::default();
        for line in HEADER.lines() {
            assert_eq!(etw.parse(line.trim()), Ok(Parsed::Nothing));
        }
        etw
    }

    #[test]
    fn a_request_begins_its_elapsed_time_before_its_event() {
        let mut etw = etw();
        let read = "DiskRead,       8612,        xperf.exe (3984),      11844, 0xffffe288b23f1b20, 0x018f0b8000, 0x00001000,         283,        1, 0x060043,         283,       3, Original, 0xffffe288272d0d20, \"C:\\a, b\"";
        assert_eq!(etw.parse(read), request("1", 8_329_000, Operation::Read, 0x1_8f0b_8000, 4096));
        let write = read.replace("DiskRead", "DiskWrite");
        assert_eq!(etw.parse(&write), request("1", 8_329_000, WRITE, 0x1_8f0b_8000, 4096));
        let done = "DiskFlush,       9000,        System (4),      12, 0xffffe288b23f1b20,         100,        1, 0x0, 90, 3";
        assert_eq!(etw.parse(done), Ok(flush("1", 8_900_000)));
        let before = read.replace(" 8612", " 12");
        assert_eq!(etw.parse(&before), request("1", 0, Operation::Read, 0x1_8f0b_8000, 4096));
    }

    /// Later versions of Windows have a column for the processor.
    #[test]
    fn the_header_names_the_columns() {
        let mut etw = Etw::default();
        let header = "DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID, CPU,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum";
        for line in [BEGIN, header, END] {
            etw.parse(line).unwrap();
        }
        let read = "DiskRead,       8612,        xperf.exe (3984),      11844,   1, 0xffffe288b23f1b20, 0x018f0b8000, 0x00001000,         283,        0";
        assert_eq!(etw.parse(read), request("0", 8_329_000, Operation::Read, 0x1_8f0b_8000, 4096));
    }

    #[test]
    fn other_events_are_no_requests() {
        let mut etw = etw();
        for line in [
            "OS Version: 6.0.6001, Trace Size: 10368KB, Events Lost: 0",
            "DiskReadInit,       8329,        xperf.exe (3984),      11844, 0xffffe288b23f1b20",
            "CSwitch,         17, System (4), 8",
        ] {
            assert_eq!(etw.parse(line), Ok(Parsed::Nothing), "{line}");
        }
        assert_eq!(etw.note(), None);
        etw.parse("OS Version: 6.0.6001, Trace Size: 10368KB, Events Lost: 17").unwrap();
        assert!(etw.note().unwrap().contains("lost 17 events and 0 buffers"));
        assert!(etw.parse("OS Version: 6.0.6001, Events Lost: many").is_err());
    }

    /// What stands between the header and the first events on Windows 10, and a process with a long command line.
    #[test]
    fn the_lines_of_a_whole_system_are_no_requests() {
        let mut etw = etw();
        let command = "--extern aho_corasick=C:\\Users\\A~1\\deps, Events Lost: 5, ".repeat(600);
        for line in [
            "OS Version: 10.0.18363, Trace Size: 204800KB, Events Lost: 2, Buffers lost: 3, Trace Start: 132252108210000000, Trace Length: 12 sec, PointerSize: 8, Trace Name: a.etl",
            "FirstReliableEventTimeStamp,      104000",
            "FirstReliableCSwitchEventTimeStamp,      104010",
            &format!(
                "P-Start,     104743,        rustc.exe (10612),        480,          1, 0x0000938192a10300, 0x00000000, S-1-12-1, \"C:\\rustc.exe\" {command}<none>"
            ),
            "T-Start,     106028,        rustc.exe (10612),      15340, 0xfffffe8891310000,        rustc.exe!0x00007ff73b6112f4,  \"Unknown\"",
            "UnknownEvent/Classic,     106030,     Unknown (  -1),         -1,   4, {3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c},   39",
            "DiskReadInit,     106040,        rustc.exe (10612),      15340, 0xffffe288b23f1b20",
        ] {
            assert_eq!(etw.parse(line), Ok(Parsed::Nothing), "{line}");
        }
        assert!(etw.note().unwrap().contains("lost 2 events and 3 buffers"), "{:?}", etw.note());
        let read = "DiskRead,     106323,        rustc.exe (10612),      15340, 0xffffe288b23f1b20, 0x018f0b8000, 0x00001000,         283,        0, 0x060043,         281,       3, Original, 0xffffe288272d0d20, \"C:\\$Mft\"";
        assert_eq!(etw.parse(read), request("0", 106_040_000, Operation::Read, 0x1_8f0b_8000, 4096));
    }

    #[test]
    fn other_lines_are_refused() {
        let read = "DiskRead, 8612, a (1), 1, 0xf, 0x10, 0x20, 283, 1";
        assert!(etw().parse(read).is_ok());
        for (good, bad) in
            [("8612", "x"), ("0x10", "10"), ("0x20", "0xz"), ("283", ""), (", 0x10, 0x20, 283, 1", "")]
        {
            assert!(etw().parse(&read.replace(good, bad)).is_err(), "{bad} for {good}");
        }
        for line in ["", "17, System", "hello"] {
            assert!(etw().parse(line).is_err(), "{line}");
        }
        assert!(Etw::default().parse(read).unwrap_err().contains("header first"));
        let mut open = Etw::default();
        open.parse(BEGIN).unwrap();
        assert!(open.end().is_err() && open.parse("DiskRead, ThreadID").is_err());
    }
}
