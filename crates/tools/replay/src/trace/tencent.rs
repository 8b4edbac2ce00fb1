//! The CSV of Tencent's cloud block storage (SNIA IOTTA, trace set 27917): `Timestamp,Offset,Size,IOType,VolumeID`.
//!
//! Offsets and sizes are sectors of 512 bytes, as the README of the distribution says; times are whole seconds since 1970, so
//! many requests have the same. `IOType` is 0 for a read and 1 for a write.

use super::fields::{WRITE, number, request, sectors, skips_titles, time};
use super::{Expected, Operation, Parsed, Parser};

/// The titles that some copies have.
pub(super) const TITLES: &str = "Timestamp,Offset,Size,IOType,VolumeID";

/// Fields in a line.
pub(super) const FIELDS: usize = 5;

const SECOND: u64 = 1_000_000_000;

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Tencent {
    begun: bool,
}

impl Parser for Tencent {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if skips_titles(&mut self.begun, line, TITLES) {
            return Ok(Parsed::Nothing);
        }
        let mut fields = line.split(',');
        let at_ns = time(fields.next(), SECOND, "a time in whole seconds in the first field")?;
        let offset = sectors(fields.next(), "an offset in sectors in the second field")?;
        let bytes = sectors(fields.next(), "a size in sectors in the third field")?;
        let operation = match fields.next().map(str::trim) {
            Some("0") => Operation::Read,
            Some("1") => WRITE,
            _ => return Err("0 (read) or 1 (write) in the fourth field"),
        };
        let volume = fields.next().unwrap_or_default().trim();
        number(Some(volume), "the number of a volume in the fifth field")?;
        if fields.next().is_some() {
            return Err("five fields: Timestamp,Offset,Size,IOType,VolumeID");
        }
        request(volume, at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_of_a_volume_in_sectors() {
        let mut tencent = Tencent::default();
        assert_eq!(tencent.parse(TITLES), Ok(Parsed::Nothing));
        let parsed = tencent.parse("1538323200,12910952,128,0,1063");
        let at_ns = 1_538_323_200_000_000_000;
        assert_eq!(parsed, request("1063", at_ns, Operation::Read, 12_910_952 * 512, 65_536));
        let parsed = tencent.parse("1538323200,6338688,8,1,1627");
        assert_eq!(parsed, request("1627", at_ns, WRITE, 6_338_688 * 512, 4096));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "",
            "1,2,3,0",
            "1,2,3,2,5",
            "1.5,2,3,0,5",
            "1,2,3,R,5",
            "1,x,3,0,5",
            "1,2,x,0,5",
            "1,2,3,0,5,6",
            "1,2,3,0,v",
        ] {
            assert!(Tencent { begun: true }.parse(line).is_err(), "{line}");
        }
    }
}
