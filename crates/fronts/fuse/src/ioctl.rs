//! The ioctls, which `include/tantalum_ioctl.h` describes for C programs.
//!
//! The kernel copies an ioctl's argument by the size in its number. So a commit of n ranges has a number of its own,
//! and the length of the argument gives the number of ranges.

use fuser::Errno;

use crate::refusal::Refusal;

/// The letter of Tantalum's ioctls.
const TYPE: u32 = b't' as u32;

const TOKEN: u32 = 1;
const COMMIT: u32 = 2;
const EXCHANGE: u32 = 3;

const WRITE: u32 = 1;
const READ: u32 = 2;

/// Bytes of a range.
pub(crate) const RANGE_BYTES: usize = 40;

/// A range of one open file and one of another, both named by tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    pub from: u64,
    pub from_offset: u64,
    pub to: u64,
    pub to_offset: u64,
    pub bytes: u64,
}

/// A request of a program.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// The token of the file that the ioctl is made on.
    Token,
    /// Ranges that take over the contents of others, all or nothing.
    Commit(Vec<Range>),
    /// Two ranges that swap contents.
    Exchange(Range),
}

impl Request {
    /// Parses an ioctl's number and argument. `ENOTTY` if it is not one of Tantalum's, `EINVAL` if it is but is
    /// invalid.
    pub fn parse(command: u32, argument: &[u8], out_bytes: u32) -> Result<Request, Refusal> {
        let (number, letter) = (command & 0xff, command >> 8 & 0xff);
        let (bytes, direction) = (command >> 16 & 0x3fff, command >> 30);
        if letter != TYPE {
            return Err(Errno::ENOTTY.into());
        }
        match (number, direction) {
            (TOKEN, READ) if bytes == 8 && out_bytes == 8 => Ok(Request::Token),
            (COMMIT, WRITE) if bytes as usize == argument.len() => Ok(Request::Commit(ranges(argument)?)),
            (EXCHANGE, WRITE) if bytes as usize == argument.len() => match ranges(argument)?[..] {
                [range] => Ok(Request::Exchange(range)),
                _ => Err(Errno::EINVAL.into()),
            },
            (TOKEN | COMMIT | EXCHANGE, _) => Err(Errno::EINVAL.into()),
            _ => Err(Errno::ENOTTY.into()),
        }
    }
}

/// At least one range.
fn ranges(argument: &[u8]) -> Result<Vec<Range>, Refusal> {
    let (ranges, rest) = argument.as_chunks::<RANGE_BYTES>();
    if ranges.is_empty() || !rest.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    Ok(ranges.iter().map(range).collect())
}

fn range(bytes: &[u8; RANGE_BYTES]) -> Range {
    let field = |index: usize| {
        u64::from_ne_bytes(bytes[8 * index..][..8].try_into().expect("a field has eight bytes"))
    };
    Range { from: field(0), from_offset: field(1), to: field(2), to_offset: field(3), bytes: field(4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(direction: u32, number: u32, bytes: usize) -> u32 {
        direction << 30 | (bytes as u32) << 16 | TYPE << 8 | number
    }

    fn errno(parsed: Result<Request, Refusal>) -> i32 {
        parsed.unwrap_err().0.into()
    }

    #[test]
    fn requests_are_told_by_number_and_length() {
        assert_eq!(Request::parse(command(READ, TOKEN, 8), &[], 8).unwrap(), Request::Token);
        let fields: Vec<u8> = (1u64..=10).flat_map(u64::to_ne_bytes).collect();
        let first = Range { from: 1, from_offset: 2, to: 3, to_offset: 4, bytes: 5 };
        let second = Range { from: 6, from_offset: 7, to: 8, to_offset: 9, bytes: 10 };
        let commit = Request::parse(command(WRITE, COMMIT, 80), &fields, 0).unwrap();
        assert_eq!(commit, Request::Commit(vec![first, second]));
        let exchange = Request::parse(command(WRITE, EXCHANGE, 40), &fields[..40], 0).unwrap();
        assert_eq!(exchange, Request::Exchange(first));
    }

    #[test]
    fn nonsense_is_refused() {
        let fields = [0; 80];
        let (einval, enotty): (i32, i32) = (Errno::EINVAL.into(), Errno::ENOTTY.into());
        assert_eq!(errno(Request::parse(0x5401, &[], 0)), enotty, "a terminal's");
        assert_eq!(errno(Request::parse(command(WRITE, 9, 8), &fields[..8], 0)), enotty, "no such number");
        assert_eq!(errno(Request::parse(command(WRITE, TOKEN, 8), &fields[..8], 0)), einval, "direction");
        assert_eq!(errno(Request::parse(command(WRITE, COMMIT, 0), &[], 0)), einval, "no range");
        assert_eq!(errno(Request::parse(command(WRITE, COMMIT, 41), &fields[..41], 0)), einval, "a part");
        assert_eq!(errno(Request::parse(command(WRITE, COMMIT, 80), &fields[..40], 0)), einval, "length");
        assert_eq!(errno(Request::parse(command(WRITE, EXCHANGE, 80), &fields, 0)), einval, "two ranges");
    }
}
