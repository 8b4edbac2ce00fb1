//! Fields of a line.

use super::{Expected, Operation, Parsed};

/// Maximum size of one request, which is fio's own limit. A line with more is damaged.
const MOST_BYTES: u64 = 1 << 32;

const NANOSECONDS: u64 = 1_000_000_000;

/// Most traces count in sectors of this size, whatever the device's.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Digits after a point that count. Others are beyond any unit.
const MOST_DIGITS: usize = 18;

/// Whether a line is of titles, which may stand first.
pub(super) fn skips_titles(begun: &mut bool, line: &str, titles: &str) -> bool {
    !std::mem::replace(begun, true) && line.eq_ignore_ascii_case(titles)
}

/// A whole number.
pub(super) fn number(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    field.and_then(|field| field.trim().parse().ok()).ok_or(expected)
}

/// A whole number in hexadecimal after 0x.
pub(super) fn hexadecimal(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    let digits = field.and_then(|field| field.strip_prefix("0x").or(field.strip_prefix("0X")));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or(expected)
}

/// A number of sectors in bytes.
pub(super) fn sectors(field: Option<&str>, expected: Expected) -> Result<u64, Expected> {
    number(field, expected)?.checked_mul(SECTOR_BYTES).ok_or(expected)
}

/// A read or a write, as a letter or a word in any case.
pub(super) fn letter(field: Option<&str>, expected: Expected) -> Result<Operation, Expected> {
    let field = field.unwrap_or_default().trim();
    let is = |names: [&str; 2]| names.iter().any(|name| field.eq_ignore_ascii_case(name));
    match (is(["r", "read"]), is(["w", "write"])) {
        (true, _) => Ok(Operation::Read),
        (false, true) => Ok(WRITE),
        (false, false) => Err(expected),
    }
}

/// Whether a field is the number of a device, MAJOR,MINOR.
pub(super) fn is_device(field: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    field.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// A time in units of this many nanoseconds.
pub(super) fn time(field: Option<&str>, unit_ns: u64, expected: Expected) -> Result<u64, Expected> {
    number(field, expected)?.checked_mul(unit_ns).ok_or(expected)
}

/// A time in units of this many nanoseconds, with digits after the point or without.
pub(super) fn decimal(field: Option<&str>, unit_ns: u64, expected: Expected) -> Result<u64, Expected> {
    let field = field.ok_or(expected)?.trim();
    let (whole, digits) = field.split_once('.').unwrap_or((field, "0"));
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(expected);
    }
    let digits = &digits[..digits.len().min(MOST_DIGITS)];
    let part = if digits.is_empty() { 0 } else { number(Some(digits), expected)? };
    let part_ns = u128::from(part) * u128::from(unit_ns) / 10u128.pow(digits.len() as u32);
    time(Some(whole), unit_ns, expected)?.checked_add(part_ns as u64).ok_or(expected)
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
    fn times_may_have_digits_after_the_point() {
        let cases = [
            ("12", 1000, 12_000),
            ("0.5", 1000, 500),
            ("12.", 1000, 12_000),
            ("1.23456789", 1000, 1234),
            ("0.999999999999999999999999", 1_000_000_000, 999_999_999),
            ("7.9", 1, 7),
        ];
        for (text, unit_ns, ns) in cases {
            assert_eq!(decimal(Some(text), unit_ns, "t"), Ok(ns), "{text}");
        }
        for text in ["", ".", "x", "1.x", "1.2.3", "-1", "1e3", "18446744073709551615"] {
            assert_eq!(decimal(Some(text), 1000, "t"), Err("t"), "{text}");
        }
    }

    #[test]
    fn letters_and_hexadecimal_numbers_are_in_any_case() {
        for (text, operation) in
            [("r", Operation::Read), (" READ", Operation::Read), ("W", WRITE), ("Write", WRITE)]
        {
            assert_eq!(letter(Some(text), "l"), Ok(operation));
        }
        assert!(letter(Some("RW"), "l").is_err() && letter(None, "l").is_err());
        assert_eq!(hexadecimal(Some("0xFf"), "h"), Ok(255));
        for text in ["ff", "0x", "0x+1", "0xg", "0x11112222333344445"] {
            assert_eq!(hexadecimal(Some(text), "h"), Err("h"), "{text}");
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
