//! What theory, or the sum of a drive's parts, says beside what the drive does (docs/fidelity.md).

mod amplification;
mod host;
mod theory;
mod time;
mod wear;

use tantalum_report::{Figures, Outcome, Row, Time};

use super::{Run, smaller};
use crate::error::ExperimentError;

/// The columns of a check.
const COLUMNS: [&str; 3] = ["expected", "ours", "error, %"];

/// The figures of [`COLUMNS`].
fn check(expected: f64, ours: f64) -> [f64; 3] {
    [expected, ours, (ours / expected - 1.0) * 100.0]
}

/// Names and [`check`]s.
type Checks = Vec<(String, [f64; 3])>;

fn table(title: &str, unit: &'static str, rows: Checks) -> Figures {
    let row = |(name, ours): (String, [f64; 3])| Row { name, ours: ours.into(), paper: None };
    let rows = rows.into_iter().map(row).collect();
    Figures { title: title.to_owned(), unit, columns: COLUMNS.map(str::to_owned).into(), rows }
}

pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let setup = vec![
        "new drives in memory, filled in order, then overwritten eight times before they are measured"
            .to_owned(),
        "one plane: femu-2021 with one plane, whose blocks can be large".to_owned(),
    ];
    let source = "theory, and the parts of the drive";
    let mut outcome = Outcome::new("the model beside what must hold", source, Time::Virtual, setup);
    outcome.figures.extend(time::figures(run)?);
    outcome.figures.extend(amplification::figures(run)?);
    outcome.figures.push(wear::figures(run)?);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    /// At a sixteenth of the size blocks are small, and what holds for blocks of their size still holds. Of `fifo`, theory knows
    /// only large blocks.
    #[test]
    fn small_drives_are_as_theory_has_them() {
        let monitor = Monitor::silent();
        let run = Run { scale: 0.0625, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = super::run(&run).unwrap();
        let mut checked = 0;
        for table in &outcome.figures {
            let most = match table.title.as_str() {
                title if title.starts_with("latency") => 0.001,
                title if title.starts_with("commands") => 3.0,
                title if title.contains("by policy") => 4.0,
                title if title.contains("by size") => 10.0,
                _ => continue,
            };
            let error = table.columns.iter().position(|column| column == COLUMNS[2]).unwrap();
            for row in table.rows.iter().filter(|row| !row.name.contains("fifo")) {
                assert!(row.ours[error].abs() <= most, "{}: {row:?}", table.title);
                checked += 1;
            }
        }
        assert_eq!(checked, 3 + 8 + 16 + 6);
    }

    /// The bound is the profile's, and a few erases between two looks.
    #[test]
    fn wear_stays_within_the_spread() {
        let monitor = Monitor::silent();
        let run = Run { scale: 0.5, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        for row in &wear::figures(&run).unwrap().rows {
            let [most, ours, _] = row.ours[..] else { panic!("{row:?}") };
            assert!(ours <= most + 6.0, "{row:?}");
        }
    }
}
