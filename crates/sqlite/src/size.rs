//! Sizes as people write them.

/// A text that is no size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no size: a number, with K, M, G or T (also KiB and so on) for powers of 1024")]
pub(crate) struct ParseSizeError(String);

/// Bytes of `8G`, `512MiB`, `4096`.
pub(crate) fn parse_size(text: &str) -> Result<u64, ParseSizeError> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(ParseSizeError(text.to_owned())),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| ParseSizeError(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("8GiB"), Ok(8 << 30));
        for wrong in ["", "G", "8 GiB", "-1", "8X", "99999999999T"] {
            assert!(parse_size(wrong).is_err(), "{wrong:?}");
        }
    }
}
