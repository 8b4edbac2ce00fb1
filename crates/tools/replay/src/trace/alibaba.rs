//! The CSV of Alibaba's block traces (github.com/alibaba/block-traces): `device_id,opcode,offset,length,timestamp`.
//!
//! Offsets and lengths are bytes, times microseconds since 1970. A volume is a virtual disk.

use super::fields::{letter, number, request, skips_titles, time};
use super::{Expected, Parsed, Parser};

/// The header line that some copies have.
pub(super) const TITLES: &str = "device_id,opcode,offset,length,timestamp";

/// Fields in a line.
pub(super) const FIELDS: usize = 5;

const MICROSECOND: u64 = 1000;

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Alibaba {
    begun: bool,
}

impl Parser for Alibaba {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if skips_titles(&mut self.begun, line, TITLES) {
            return Ok(Parsed::Nothing);
        }
        let mut fields = line.split(',');
        let volume = fields.next().unwrap_or_default();
        number(Some(volume), "a disk's number in the first field")?;
        let operation = letter(fields.next(), "R or W in the second field")?;
        let offset = number(fields.next(), "an offset in bytes in the third field")?;
        let bytes = number(fields.next(), "a length in bytes in the fourth field")?;
        let at_ns = time(fields.next(), MICROSECOND, "a time in microseconds in the fifth field")?;
        if fields.next().is_some() {
            return Err("five fields: device_id,opcode,offset,length,timestamp");
        }
        request(volume, at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::fields::WRITE;

    #[test]
    fn a_line_is_a_request_of_a_disk() {
        let mut alibaba = Alibaba::default();
        assert_eq!(alibaba.parse(TITLES), Ok(Parsed::Nothing));
        let parsed = alibaba.parse("419,W,8792731648,16384,1577808144360767");
        assert_eq!(parsed, request("419", 1_577_808_144_360_767_000, WRITE, 8_792_731_648, 16_384));
        assert_eq!(alibaba.parse("419,w,0,1,2"), request("419", 2000, WRITE, 0, 1));
        assert!(alibaba.parse(TITLES).is_err(), "titles are on the first line only");
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "1,W,0,4096",
            "1,D,0,4096,5",
            "x,W,0,4096,5",
            "1,W,0,4096,5,6",
            "1,W,0,4096,99999999999999999999",
        ] {
            assert!(Alibaba { begun: true }.parse(line).is_err(), "{line}");
        }
    }
}
