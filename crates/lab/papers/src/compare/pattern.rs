//! The order in which a workload updates its rows.

use std::str::FromStr;

use serde::Serialize;

/// The order in which rows are updated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Every row is as likely as any other.
    Random,
    /// By key, starting over after the last.
    Sequential,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Pattern, String> {
        match name {
            "random" => Ok(Pattern::Random),
            "sequential" => Ok(Pattern::Sequential),
            _ => Err("use one of random, sequential".to_owned()),
        }
    }
}
