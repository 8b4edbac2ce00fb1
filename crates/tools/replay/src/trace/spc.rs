//! Traces in the format of the Storage Performance Council (SPC Trace File Format Specification, revision 1.0.1), as in the
//! UMass Trace Repository: `ASU,LBA,Size,Opcode,Timestamp`, and optional fields.
//!
//! Addresses are blocks, sizes bytes, times seconds since the beginning. The specification leaves the size of a block to the
//! description of a trace. It is 512 bytes in those of UMass, as their sequential requests show. A volume is an ASU.

use super::fields::{decimal, letter, number, request, sectors, skips_titles};
use super::{Expected, Parsed, Parser};

/// The titles that some copies have.
pub(super) const TITLES: &str = "ASU,LBA,Size,Opcode,Timestamp";

const SECOND: u64 = 1_000_000_000;

/// Its state between two lines.
#[derive(Debug, Default)]
pub(super) struct Spc {
    begun: bool,
}

impl Parser for Spc {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        if skips_titles(&mut self.begun, line, TITLES) {
            return Ok(Parsed::Nothing);
        }
        let mut fields = line.split(',');
        let volume = fields.next().unwrap_or_default().trim();
        number(Some(volume), "the number of an application storage unit in the first field")?;
        let offset = sectors(fields.next(), "a logical block address in the second field")?;
        let bytes = number(fields.next(), "a size in bytes in the third field")?;
        let operation = letter(fields.next(), "R or W in the fourth field")?;
        let at_ns = decimal(fields.next(), SECOND, "a time in seconds in the fifth field")?;
        request(volume, at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Operation;
    use crate::trace::fields::WRITE;

    /// Lines of Financial1: the third begins seven blocks after the first, which has 3,584 bytes.
    #[test]
    fn addresses_are_blocks_and_sizes_bytes() {
        let mut spc = Spc::default();
        assert_eq!(spc.parse(TITLES), Ok(Parsed::Nothing));
        let parsed = spc.parse("0,303567,3584,w,0.000000");
        assert_eq!(parsed, request("0", 0, WRITE, 303_567 * 512, 3584));
        let parsed = spc.parse("1,55596,3072,R,0.078643,optional");
        assert_eq!(parsed, request("1", 78_643_000, Operation::Read, 55_596 * 512, 3072));
        assert_eq!(spc.parse("0, 303574, 3584, W, 1"), request("0", SECOND, WRITE, 303_574 * 512, 3584));
    }

    #[test]
    fn other_lines_are_refused() {
        let lines = [
            "",
            "x,1,2,W,0.0",
            "0,x,2,W,0.0",
            "0,1,-2,W,0.0",
            "0,1,2,T,0.0",
            "0,1,2,W",
            "0,1,2,W,1e5",
            "0,99999999999999999,2,W,0",
        ];
        for line in lines {
            assert!(Spc { begun: true }.parse(line).is_err(), "{line}");
        }
    }
}
