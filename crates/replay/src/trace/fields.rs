//! Fields of a line.

use super::{Expected, Operation, Parsed};

/// Maximum size of one request, which is fio's own limit. A line with more is damaged.
const MOST_BYTES: u64 = 1 << 32;

const NANOSECONDS: u64 = 1_000_000_000;

/// A whole number.
pub(super) fn number(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    field.and_then(|field| field.parse().ok()).ok_or(expected)
}

/// A time in units of this many nanoseconds.
pub(super) fn time(field: Option<&str>, unit_ns: u64, expected: Expected) -> Result<u64, Expected> {
    number(field, expected)?.checked_mul(unit_ns).ok_or(expected)
}

/// Seconds with up to nine digits after the point.
pub(super) fn seconds(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    let (whole, rest) = field.and_then(|field| field.split_once('.')).ok_or(expected)?;
    if rest.is_empty() || rest.len() > 9 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected);
    }
    let part = number(Some(rest), expected)? * 10u64.pow(9 - rest.len() as u32);
    time(Some(whole), NANOSECONDS, expected)?.checked_add(part).ok_or(expected)
}

/// A request, if it is possible on a drive.
pub(super) fn request(
    volume: &str,
    at_ns: u64,
    operation: Operation,
    offset: u64,
    bytes: u64,
) -> Result<Parsed<'_>, Expected> {
    if offset.checked_add(bytes).is_none() {
        return Err("an offset and a length that end within 2^64 bytes");
    }
    if matches!(operation, Operation::Read | Operation::Write { .. }) && bytes > MOST_BYTES {
        return Err("at most 4 GiB of data in one request");
    }
    Ok(Parsed::Request { volume, at_ns, operation, offset, bytes })
}

/// A flush.
pub(super) fn flush(volume: &str, at_ns: u64) -> Parsed<'_> {
    Parsed::Request { volume, at_ns, operation: Operation::Flush, offset: 0, bytes: 0 }
}

/// A write of the usual kind.
pub(super) const WRITE: Operation = Operation::Write { preflush: false, fua: false };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_nanoseconds() {
        let cases = [("0.000000000", 0), ("12.000000007", 12_000_000_007), ("1.5", 1_500_000_000)];
        for (text, ns) in cases {
            assert_eq!(seconds(Some(text), "s"), Ok(ns), "{text}");
        }
        for text in ["", "1", "1.", ".5", "-1.0", "1.0000000001", "1.+5", "99999999999999.0"] {
            assert_eq!(seconds(Some(text), "s"), Err("s"), "{text}");
        }
    }

    #[test]
    fn impossible_requests_are_refused() {
        assert!(request("v", 0, WRITE, u64::MAX, 1).is_err());
        assert!(request("v", 0, Operation::Read, 0, MOST_BYTES + 1).is_err());
        assert!(request("v", 0, Operation::Trim, 0, u64::MAX).is_ok());
        assert!(request("v", 0, WRITE, 0, MOST_BYTES).is_ok());
    }
}
