//! Sizes as people write them: `512M`, `1GiB`, `1TB`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

/// Why a text is not a valid size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// It is not a number and a unit.
    #[error(
        "a size is a number and a unit: K, M, G, T (or KiB …) for powers of 1024, KB … for powers of 1000"
    )]
    Form,
    /// It is too large.
    #[error("more than 2^64 bytes")]
    TooLarge,
}

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Size, SizeError> {
        let text = text.trim();
        let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(end);
        if digits.is_empty() {
            return Err(SizeError::Form);
        }
        let number: u64 = digits.parse().map_err(|_| SizeError::TooLarge)?;
        let factor = factor_of(unit.trim_start()).ok_or(SizeError::Form)?;
        number.checked_mul(factor).map(Size).ok_or(SizeError::TooLarge)
    }
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
        ];
        for (text, bytes) in sizes {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "G", "1.5G", "-1", "1X", "1GiBs", "1é", "é"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::Form), "{text}");
        }
        for text in ["99999999999999999999", "99999999T"] {
            assert_eq!(text.parse::<Size>(), Err(SizeError::TooLarge), "{text}");
        }
    }
}
