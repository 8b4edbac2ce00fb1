//! Whether clients see the drive's latencies.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// When answers are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Answers are held back until the drive's completion time.
    Real,
    /// Answers are delivered at once; the drive's time passes as a single client would see it.
    None,
}

/// A text that is not the name of a pacing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("must be \"real\" or \"none\"")]
pub struct UnknownPacing;

impl FromStr for Pacing {
    type Err = UnknownPacing;

    fn from_str(text: &str) -> Result<Pacing, UnknownPacing> {
        match text {
            "real" => Ok(Pacing::Real),
            "none" => Ok(Pacing::None),
            _ => Err(UnknownPacing),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacings_have_names() {
        assert_eq!("real".parse(), Ok(Pacing::Real));
        assert_eq!("none".parse(), Ok(Pacing::None));
        assert_eq!("fast".parse::<Pacing>(), Err(UnknownPacing));
    }
}
