//! Traces for the simulator MQSim (its README, "Defining a Trace-based Workload"): arrival time, device, first logical sector,
//! sectors, and 0 for a write or 1 for a read, between blanks.
//!
//! Times are nanoseconds, the unit of MQSim's own traces. A volume is a device.

use super::fields::{WRITE, number, request, sectors};
use super::{Expected, Operation, Parsed, Parser};

/// Fields in a line.
pub(super) const FIELDS: usize = 5;

/// It has no state between two lines.
#[derive(Debug, Default)]
pub(super) struct Mqsim;

impl Parser for Mqsim {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let mut fields = line.split_ascii_whitespace();
        let at_ns = number(
            fields.next(),
            "a time in whole nanoseconds in the first field (for DiskSim's milliseconds use --columns)",
        )?;
        let volume = fields.next().unwrap_or_default();
        number(Some(volume), "the number of a device in the second field")?;
        let offset = sectors(fields.next(), "a sector in the third field")?;
        let bytes = sectors(fields.next(), "a number of sectors in the fourth field")?;
        let operation = match fields.next() {
            Some("0") => WRITE,
            Some("1") => Operation::Read,
            _ => return Err("0 (write) or 1 (read) in the fifth field"),
        };
        if fields.next().is_some() {
            return Err("five fields: time, device, sector, sectors, type");
        }
        request(volume, at_ns, operation, offset, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_reads_and_zero_writes() {
        assert_eq!(Mqsim.parse("4851300 1 524288 16 0"), request("1", 4_851_300, WRITE, 524_288 * 512, 8192));
        assert_eq!(Mqsim.parse("4864300\t1 8 1 1"), request("1", 4_864_300, Operation::Read, 4096, 512));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in
            ["", "1 0 8 8", "1.5 0 8 8 1", "1 0 8 8 2", "1 0 8 8 1 9", "1 x 8 8 1", "1 0 x 8 1", "1 0 8 -8 1"]
        {
            assert!(Mqsim.parse(line).is_err(), "{line}");
        }
    }
}
