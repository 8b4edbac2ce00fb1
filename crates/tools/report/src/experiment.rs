//! The results of an experiment, next to its paper's.

use serde::{Deserialize, Serialize};

use crate::figures::Figures;

/// Which clock the figures come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// Virtual time: the same on any machine.
    Virtual,
    /// The machine's time: compare within one run only.
    Real,
}

/// The results of one `tantalum lab run`.
#[derive(Clone, Debug, Serialize)]
pub struct Outcomes {
    /// `"lab run"`.
    pub command: &'static str,
    /// The experiments' results, in the requested order.
    pub experiments: Vec<Outcome>,
}

/// One experiment's findings.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// The source of the paper's figures.
    pub source: &'static str,
    /// The clock of its figures.
    pub time: Time,
    /// The share of the full set-up.
    pub scale: f64,
    /// The seed of all randomness.
    pub seed: u64,
    /// Drive, load and host, a line each.
    pub setup: Vec<String>,
    /// The tables.
    pub figures: Vec<Figures>,
    /// The paper's claim in words.
    pub claims: Vec<PaperClaim>,
}

impl Outcome {
    /// An outcome without tables yet. The caller that runs the experiment fills in name, scale and seed.
    pub fn new(title: &'static str, source: &'static str, time: Time, setup: Vec<String>) -> Outcome {
        Outcome {
            experiment: "",
            title,
            source,
            time,
            scale: 0.0,
            seed: 0,
            setup,
            figures: Vec::new(),
            claims: Vec::new(),
        }
    }
}

/// The form of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// A factor.
    Factor,
    /// A change in percent.
    Percent,
}

/// The range of several figures. Parsed from one figure, or from a list of the least and the greatest.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Written")]
pub struct Span {
    /// The least figure.
    pub low: f64,
    /// The greatest figure.
    pub high: f64,
}

/// A span as written in a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(f64),
    Two([f64; 2]),
}

impl TryFrom<Written> for Span {
    type Error = String;

    fn try_from(written: Written) -> Result<Span, String> {
        match written {
            Written::One(figure) => Ok(Span::one(figure)),
            Written::Two([low, high]) if low <= high => Ok(Span::new(low, high)),
            Written::Two([low, high]) => Err(format!("[{low}, {high}]: the least has to come first")),
        }
    }
}

impl Span {
    /// From one to the other.
    pub const fn new(low: f64, high: f64) -> Span {
        Span { low, high }
    }

    /// One figure.
    pub const fn one(figure: f64) -> Span {
        Span { low: figure, high: figure }
    }

    /// The factors by which `of` differs from `over`, place by place.
    pub fn factors(of: &[f64], over: &[f64]) -> Span {
        let factors = || of.iter().zip(over).map(|(of, over)| of / over);
        Span { low: factors().fold(f64::MAX, f64::min), high: factors().fold(f64::MIN, f64::max) }
    }

    /// The span that covers both.
    pub fn and(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The changes from `over` to `of` in percent, place by place.
    pub fn changes(of: &[f64], over: &[f64]) -> Span {
        let Span { low, high } = Span::factors(of, over);
        Span { low: (low - 1.0) * 100.0, high: (high - 1.0) * 100.0 }
    }
}

/// A claim of the paper, and our figure for it.
#[derive(Clone, Debug, Serialize)]
pub struct PaperClaim {
    /// What is compared.
    pub what: String,
    /// Its form.
    pub quantity: Quantity,
    /// What the paper says.
    pub paper: Span,
    /// What was measured.
    pub ours: Span,
}

impl PaperClaim {
    /// A factor.
    pub fn factor(what: impl Into<String>, paper: Span, ours: Span) -> PaperClaim {
        PaperClaim { what: what.into(), quantity: Quantity::Factor, paper, ours }
    }

    /// A change in percent.
    pub fn percent(what: impl Into<String>, paper: Span, ours: Span) -> PaperClaim {
        PaperClaim { what: what.into(), quantity: Quantity::Percent, paper, ours }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_hold_all_factors() {
        assert_eq!(Span::factors(&[2.0, 9.0, 4.0], &[1.0, 3.0, 1.0]), Span::new(2.0, 4.0));
        assert_eq!(Span::changes(&[50.0, 75.0], &[100.0, 100.0]), Span::new(-50.0, -25.0));
    }
}
