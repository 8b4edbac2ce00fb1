//! When power is cut.

use std::fmt;
use std::str::FromStr;

/// When power is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// This many times in the life of one program, at random flash operations.
    Random(u64),
    /// At every flash operation of a workload, each time from its beginning.
    All,
    /// At one flash operation of that workload, from 1.
    At(u64),
}

impl fmt::Display for Cuts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cuts::Random(cuts) => write!(f, "{cuts}"),
            Cuts::All => f.write_str("all"),
            Cuts::At(operation) => write!(f, "@{operation}"),
        }
    }
}

impl FromStr for Cuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Cuts, String> {
        let number = |text: &str| match text.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err("use a number of cuts from 1, all, or @N for flash operation N".to_owned()),
        };
        match text.strip_prefix('@') {
            Some(operation) => number(operation).map(Cuts::At),
            None if text == "all" => Ok(Cuts::All),
            None => number(text).map(Cuts::Random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_are_written_as_they_are_read() {
        for (text, cuts) in [("20", Cuts::Random(20)), ("all", Cuts::All), ("@7", Cuts::At(7))] {
            assert_eq!(text.parse(), Ok(cuts));
            assert_eq!(cuts.to_string(), text);
        }
        for wrong in ["", "0", "@", "@0", "-1", "some"] {
            assert!(wrong.parse::<Cuts>().unwrap_err().contains("@N"), "{wrong:?}");
        }
    }
}
