//! Commands that are left out of a run.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Numbers of commands, written as `3,17..40` (17 to 39).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skip(BTreeSet<u64>);

/// Why a text is not a list of commands.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SkipError {
    /// A part that is neither a number nor a range.
    #[error("{0:?} is neither a command number nor a range A..B")]
    Form(String),
    /// A range larger than any run.
    #[error("{0:?} leaves out more than 1,000,000 commands")]
    TooMany(String),
}

const LIMIT: u64 = 1_000_000;

impl Skip {
    /// Whether a command is left out.
    pub(crate) fn contains(&self, command: u64) -> bool {
        self.0.contains(&command)
    }

    /// Leaves out these commands too.
    pub(crate) fn with(&self, commands: impl IntoIterator<Item = u64>) -> Skip {
        Skip(self.0.iter().copied().chain(commands).collect())
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for &command in &self.0 {
            match ranges.last_mut() {
                Some((_, end)) if *end == command => *end += 1,
                _ => ranges.push((command, command + 1)),
            }
        }
        let parts: Vec<String> = ranges
            .into_iter()
            .map(|(start, end)| if start + 1 == end { start.to_string() } else { format!("{start}..{end}") })
            .collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Skip {
    type Err = SkipError;

    fn from_str(text: &str) -> Result<Skip, SkipError> {
        let mut skip = BTreeSet::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let number = |text: &str| text.parse::<u64>().map_err(|_| SkipError::Form(part.to_owned()));
            match part.split_once("..") {
                None => {
                    skip.insert(number(part)?);
                }
                Some((start, end)) => {
                    let (start, end) = (number(start)?, number(end)?);
                    if end.saturating_sub(start) > LIMIT {
                        return Err(SkipError::TooMany(part.to_owned()));
                    }
                    skip.extend(start..end);
                }
            }
        }
        Ok(Skip(skip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_read_and_written() {
        let skip: Skip = "17..20,3,20,22".parse().unwrap();
        assert_eq!(skip.to_string(), "3,17..21,22");
        assert_eq!(skip.to_string().parse(), Ok(skip));
        assert_eq!("".parse(), Ok(Skip::default()));
        for text in ["a", "1..", "..2", "1-2"] {
            assert_eq!(text.parse::<Skip>(), Err(SkipError::Form(text.into())), "{text}");
        }
        let text = "0..18446744073709551615";
        assert_eq!(text.parse::<Skip>(), Err(SkipError::TooMany(text.into())));
    }
}
