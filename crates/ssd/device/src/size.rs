//! Sizes as people write them: `512M`, `1GiB`, `1.5TB`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

/// Why a text is not a valid size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// It is not a number and a unit.
    #[error(
        "a size is a number and a unit: K, M, G, T (or KiB …) for powers of 1024, KB … for powers of 1000"
    )]
    Form,
    /// A fraction of a unit that is not a whole number of bytes.
    #[error("{text} is not a whole number of bytes; use a smaller unit, such as {whole}")]
    Fraction {
        /// What was given.
        text: String,
        /// About as much, in whole units of 1024 bytes.
        whole: String,
    },
    /// It is too large.
    #[error("more than 2^64 bytes")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let text = text.trim();
        let end = text.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, unit) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
        let are_digits =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(whole) || !are_digits(fraction) {
            return Err(SizeError::Form);
        }
        let factor = factor_of(unit.trim_start()).ok_or(SizeError::Form)?;
        let whole: u64 = whole.parse().map_err(|_| SizeError::TooLarge)?;
        let whole = whole.checked_mul(factor).ok_or(SizeError::TooLarge)?;
        let part = part_of(fraction, factor).map_err(|part| SizeError::Fraction {
            text: text.to_owned(),
            whole: format!("{}K", (whole.saturating_add(part) >> 10).max(1)),
        })?;
        whole.checked_add(part).map(Size).ok_or(SizeError::TooLarge)
    }
}

/// The bytes in the digits after the point; if they are not whole, an error with the next lower number.
fn part_of(fraction: &str, factor: u64) -> Result<u64, u64> {
    const MOST_DIGITS: usize = 20;
    let digits = fraction.trim_end_matches('0');
    let cut = &digits[..digits.len().min(MOST_DIGITS)];
    let scaled = cut.bytes().fold(0, |sum, digit| sum * 10 + u128::from(digit - b'0')) * u128::from(factor);
    let one = 10u128.pow(cut.len() as u32);
    let part = (scaled / one) as u64;
    if scaled.is_multiple_of(one) && cut == digits { Ok(part) } else { Err(part) }
}

fn factor_of(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if matches!(unit.as_str(), "" | "b") {
        return Some(1);
    }
    let power = "kmgt".find(unit.chars().next()?)? as u32 + 1;
    match &unit[1..] {
        "" | "i" | "ib" => Some(1 << (10 * power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers() {
        let sizes = [
            ("4096", 4096),
            ("512M", 512 << 20),
            ("1GiB", 1 << 30),
            ("1 TiB", 1 << 40),
            ("8g", 8 << 30),
            ("375GB", 375_000_000_000),
            ("0", 0),
            ("1.5G", 1536 << 20),
            ("0.5 KiB", 512),
            ("2.50MB", 2_500_000),
            ("1.0", 1),
        ];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "G", "1.", ".5G", "1.5.5G", "1.-5G", "-1", "1X", "1GiBs", "1é", "é"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::Form), "{text}");
        }
        let fraction = "1.3G".parse::<Size>().unwrap_err().to_string();
        assert_eq!(fraction, "1.3G is not a whole number of bytes; use a smaller unit, such as 1363148K");
        for text in ["0.5", "1.0000000000000000000000000000000000000000001T"] {
            assert!(matches!(text.parse::<Size>(), Err(SizeError::Fraction { .. })), "{text}");
        }
        for text in ["99999999999999999999", "99999999T"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::TooLarge), "{text}");
        }
    }
}
