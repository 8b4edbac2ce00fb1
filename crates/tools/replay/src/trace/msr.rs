//! The CSV of Microsoft Research Cambridge's traces (SNIA IOTTA, trace set 388):
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Times are Windows file times, of 100 ns. A volume is a host's disk.

use super::fields::{letter, number, request, skips_titles, time};
use super::{Expected, Parsed, Parser};

/// The title line that some copies have.
pub(super) const TITLES: &str = "timestamp,hostname,disknumber,type,offset,size,responsetime";

/// Fields in a line.
pub(super) const FIELDS: usize = 7;

const FILE_TIME: u64 = 100;

const LINE: Expected = "seven fields: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Msr {
    begun: bool,
}

impl Parser for Msr {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if skips_titles(&mut self.begun, line, TITLES) {
            return Ok(Parsed::Nothing);
        }
        // host and disk stand side by side: `src1,0` names the volume
        let (timestamp, rest) = line.split_once(',').ok_or(LINE)?;
        let comma = rest.find(',').ok_or(LINE)?;
        let end = comma + 1 + rest[comma + 1..].find(',').ok_or(LINE)?;
        number(Some(&rest[comma + 1..end]), "a disk's number in the third field")?;
        let mut fields = rest[end + 1..].split(',');
        let operation = letter(fields.next(), "Read or Write in the fourth field")?;
        let offset = number(fields.next(), "an offset in bytes in the fifth field")?;
        let bytes = number(fields.next(), "a size in bytes in the sixth field")?;
        number(fields.next(), "a response time in the seventh field")?;
        if fields.next().is_some() {
            return Err(LINE);
        }
        let at_ns = time(Some(timestamp), FILE_TIME, "a Windows file time in the first field")?;
        request(&rest[..end], at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Operation;
    use crate::trace::fields::WRITE;

    #[test]
    fn a_line_is_a_request_of_a_hosts_disk() {
        let mut msr = Msr::default();
        assert_eq!(
            msr.parse("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"),
            Ok(Parsed::Nothing)
        );
        let parsed = msr.parse("128166372003061629,web,2,Write,7014609920,24576,41286");
        assert_eq!(parsed, request("web,2", 12_816_637_200_306_162_900, WRITE, 7_014_609_920, 24_576));
        let parsed = msr.parse("128166372003061630,web,2,Read,0,512,1").unwrap();
        assert!(matches!(parsed, Parsed::Request { operation: Operation::Read, bytes: 512, .. }));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "1,web",
            "1,web,0",
            "1,web,0,Write,0",
            "1,web,0,Trim,0,512,1",
            "1,web,x,Write,0,512,1",
            "1,web,0,Write,-1,512,1",
            "1,web,0,Write,0,512,1,9",
            "1,web,0,Write,0,512,",
            "999999999999999999,web,0,Write,0,512,1",
            "x,web,0,Write,0,512,1",
        ] {
            assert!(Msr { begun: true }.parse(line).is_err(), "{line}");
        }
    }
}
