//! What an experiment found, beside what its paper has.

use serde::Serialize;
use tantalum::Profile;

use crate::table::bytes;

/// Which clock the figures come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Time {
    /// The drive's own: the same on any machine.
    Virtual,
    /// The machine's: compare within one run only.
    Real,
}

/// The drive, in the words of a set-up.
pub(super) fn drive_of(profile: &Profile) -> String {
    let Profile { name, capacity_bytes, over_provisioning_percent, .. } = profile;
    format!("drive {name}, {}, {over_provisioning_percent} % over-provisioning", bytes(*capacity_bytes))
}

/// All that one `tantalum lab run` found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcomes {
    /// `"lab run"`.
    pub command: &'static str,
    /// In the order asked for.
    pub experiments: Vec<Outcome>,
}

/// One experiment's findings.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// Where the paper's figures are from.
    pub source: &'static str,
    /// Which clock.
    pub time: Time,
    /// The share of the full set-up.
    pub scale: f64,
    /// What all randomness came from.
    pub seed: u64,
    /// Drive, load and host, a line each.
    pub setup: Vec<String>,
    /// The tables.
    pub figures: Vec<Figures>,
    /// What the paper says in words.
    pub claims: Vec<Claim>,
}

impl Outcome {
    /// One without tables yet. Who runs the experiment fills in its name, scale and seed.
    pub(crate) fn new(title: &'static str, source: &'static str, time: Time, setup: Vec<String>) -> Outcome {
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

/// One table: a figure for each row and column.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// What the table is of.
    pub title: String,
    /// What is counted.
    pub unit: &'static str,
    /// What the columns differ in.
    pub columns: Vec<String>,
    /// One line, or two with the paper's, for each.
    pub rows: Vec<Row>,
}

impl Figures {
    /// How busy the machine's processors were: where they are busy all the time, the figures are theirs.
    pub(crate) fn of_processors(
        columns: &[String],
        rows: impl IntoIterator<Item = (String, Vec<f64>)>,
    ) -> Figures {
        let row = |(name, ours)| Row { name, ours, paper: None };
        Figures {
            title: "processors busy meanwhile".to_owned(),
            unit: "percent",
            columns: columns.to_vec(),
            rows: rows.into_iter().map(row).collect(),
        }
    }

    /// The figures of the row of that name.
    pub(crate) fn row(&self, name: &str) -> &[f64] {
        let row = self.rows.iter().find(|row| row.name == name);
        &row.unwrap_or_else(|| panic!("{}: no row {name}", self.title)).ours
    }
}

/// A row of figures: as many as there are columns.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub name: String,
    /// What was measured.
    pub ours: Vec<f64>,
    /// What the paper prints; none where it has only a plot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<Vec<f64>>,
}

/// How a claim is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    /// So many times as much.
    Factor,
    /// More or less by so many percent.
    Percent,
}

/// From the least to the most of several figures.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Span {
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Span {
    /// From one to the other.
    pub(crate) const fn new(low: f64, high: f64) -> Span {
        Span { low, high }
    }

    /// One figure.
    pub(crate) const fn one(figure: f64) -> Span {
        Span { low: figure, high: figure }
    }

    /// The factors by which `of` differs from `over`, place by place.
    pub(crate) fn factors(of: &[f64], over: &[f64]) -> Span {
        let factors = || of.iter().zip(over).map(|(of, over)| of / over);
        Span { low: factors().fold(f64::MAX, f64::min), high: factors().fold(f64::MIN, f64::max) }
    }

    /// What holds both.
    pub(crate) fn and(self, other: Span) -> Span {
        Span { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The same as changes in percent.
    pub(crate) fn changes(of: &[f64], over: &[f64]) -> Span {
        let Span { low, high } = Span::factors(of, over);
        Span { low: (low - 1.0) * 100.0, high: (high - 1.0) * 100.0 }
    }
}

/// A sentence of the paper, and what it is here.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// What is compared.
    pub what: String,
    /// In which terms.
    pub quantity: Quantity,
    /// What the paper says.
    pub paper: Span,
    /// What was measured.
    pub ours: Span,
}

impl Claim {
    /// A factor.
    pub(crate) fn factor(what: impl Into<String>, paper: Span, ours: Span) -> Claim {
        Claim { what: what.into(), quantity: Quantity::Factor, paper, ours }
    }

    /// A change in percent.
    pub(crate) fn percent(what: impl Into<String>, paper: Span, ours: Span) -> Claim {
        Claim { what: what.into(), quantity: Quantity::Percent, paper, ours }
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
