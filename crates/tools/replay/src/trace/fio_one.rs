//! fio's iologs of version 1, which fio wrote before version 1.17 and read before 1.20: `rw,offset,length`.
//!
//! `rw` is the number of fio's direction: 0 reads, 1 writes, and 2 is an fsync, which repeats an offset and a length that mean
//! nothing (`write_iolog_put` of log.c at the time). Offset and length are bytes. There are no times, no files and no first
//! line.

use super::fields::{WRITE, flush, number, request};
use super::{Expected, Operation, Parsed, Parser};

/// Fields in a line.
pub(super) const FIELDS: usize = 3;

/// The name of its only volume.
const VOLUME: &str = "file";

/// It has no state between two lines.
#[derive(Debug, Default)]
pub(super) struct FioOne;

impl Parser for FioOne {
    fn parse<'a>(&mut self, line: &'a str) -> Result<Parsed<'a>, Expected> {
        let mut fields = line.split(',').map(str::trim);
        let operation = match fields.next() {
            Some("0") => Operation::Read,
            Some("1") => WRITE,
            Some("2") => Operation::Flush,
            _ => return Err("0 (read), 1 (write) or 2 (fsync) in the first field"),
        };
        let offset = number(fields.next(), "an offset in bytes in the second field")?;
        let bytes = number(fields.next(), "a length in bytes in the third field")?;
        if fields.next().is_some() {
            return Err("three fields: rw, offset, length");
        }
        match operation {
            Operation::Flush => Ok(flush(VOLUME, 0)),
            operation => request(VOLUME, 0, operation, offset, bytes),
        }
    }

    fn has_times(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_reads_one_writes_and_two_syncs() {
        assert_eq!(FioOne.parse("0, 8192, 4096"), request(VOLUME, 0, Operation::Read, 8192, 4096));
        assert_eq!(FioOne.parse("1,0,512"), request(VOLUME, 0, WRITE, 0, 512));
        assert_eq!(FioOne.parse("2,368640,4096"), Ok(flush(VOLUME, 0)));
        assert!(!FioOne.has_times());
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["", "0,8192", "3,0,512", "2,0", "R,0,512", "0,x,512", "0,0,x", "0,0,512,1"] {
            assert!(FioOne.parse(line).is_err(), "{line}");
        }
    }
}
