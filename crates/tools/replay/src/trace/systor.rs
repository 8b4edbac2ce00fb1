//! The CSV of SYSTOR '17 (SNIA IOTTA, "Understanding storage traffic characteristics on enterprise virtual desktop
//! infrastructure"): `Timestamp,Response,IOType,LUN,Offset,Size`.
//!
//! Times are seconds since 1970, of which only microseconds count; offsets and sizes are bytes. An `IOType` that is blank
//! means that no response was seen, and says neither read nor write. A volume is a LUN.

use super::fields::{decimal, letter, number, request, skips_titles};
use super::{Expected, Parsed, Parser};

/// The titles in the first line.
pub(super) const TITLES: &str = "Timestamp,Response,IOType,LUN,Offset,Size";

/// Fields in a line.
pub(super) const FIELDS: usize = 6;

const SECOND: u64 = 1_000_000_000;

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Systor {
    begun: bool,
}

impl Parser for Systor {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if skips_titles(&mut self.begun, line, TITLES) {
            return Ok(Parsed::Nothing);
        }
        let mut fields = line.split(',');
        let at_ns = decimal(fields.next(), SECOND, "a time in seconds in the first field")?;
        let _response = fields.next();
        let io_type = fields.next().ok_or("R, W or nothing in the third field")?.trim();
        let volume = fields.next().unwrap_or_default().trim();
        number(Some(volume), "the number of a LUN in the fourth field")?;
        let offset = number(fields.next(), "an offset in bytes in the fifth field")?;
        let bytes = number(fields.next(), "a size in bytes in the sixth field")?;
        if fields.next().is_some() {
            return Err("six fields: Timestamp,Response,IOType,LUN,Offset,Size");
        }
        if io_type.is_empty() {
            return Ok(Parsed::LeftOut);
        }
        let operation = letter(Some(io_type), "R, W or nothing in the third field")?;
        request(volume, at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Operation;
    use crate::trace::fields::WRITE;

    #[test]
    fn a_line_is_a_request_of_a_lun() {
        let mut systor = Systor::default();
        assert_eq!(systor.parse(TITLES), Ok(Parsed::Nothing));
        let parsed = systor.parse("1456135200.013118000,0.000806000,R,4,899056122368,131072");
        let at_ns = 1_456_135_200_013_118_000;
        assert_eq!(parsed, request("4", at_ns, Operation::Read, 899_056_122_368, 131_072));
        let parsed = systor.parse("1456135200.013118000,,w,0,4096,512");
        assert_eq!(parsed, request("0", at_ns, WRITE, 4096, 512));
    }

    #[test]
    fn a_request_without_a_type_is_counted_and_left_out() {
        let line = "1456135202.013118000,0.001,,0,4096,4096";
        assert_eq!(Systor { begun: true }.parse(line), Ok(Parsed::LeftOut));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "1.0,0.1,R,0,10",
            "1.0,0.1,X,0,10,4096",
            "1.0,0.1,R,x,10,4096",
            "1.0,0.1,,0,x,4096",
            "x,0.1,R,0,10,4096",
            "1.0,0.1,R,0,10,4096,7",
        ] {
            assert!(Systor { begun: true }.parse(line).is_err(), "{line}");
        }
    }
}
