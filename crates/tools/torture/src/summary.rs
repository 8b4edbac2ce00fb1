//! The results of a torture test, as text for a terminal.

use std::fmt::Write;

use tantalum_report::table::{Align, Table, grouped};

use super::CrashOutcome;

/// A table of the counts, and each violation with the command line that reproduces it.
pub fn of(outcome: &CrashOutcome) -> String {
    let mut table = Table::new(&[("", Align::Left), ("count", Align::Right)]);
    let rows = [
        ("seeds", outcome.seeds),
        ("power cuts", outcome.cuts),
        ("dirty recoveries", outcome.dirty_recoveries),
        ("cuts during recovery", outcome.second_cuts),
        ("torn pages seen", outcome.torn_pages_seen),
        ("promises checked", outcome.promises_checked),
        ("violations", outcome.violations.len() as u64),
    ];
    rows.into_iter().for_each(|(name, count)| table.push(vec![name.to_owned(), grouped(count)]));
    let mut text = table.render();
    for violation in &outcome.violations {
        let (promise, detail) = (&violation.promise, &violation.detail);
        writeln!(text, "\nBROKEN: {promise}\n  {detail}\n  reproduce: {}", violation.replay)
            .expect("writing to a String cannot fail");
    }
    if outcome.interrupted {
        text.push_str("\ninterrupted: these are the results so far\n");
    }
    text
}

/// Every broken promise with its seed and cut, below a table.
pub(crate) fn broken(outcome: &CrashOutcome) -> String {
    let mut text = String::new();
    for violation in &outcome.violations {
        let (promise, seed, cut) = (&violation.promise, violation.seed, violation.cut);
        let (detail, replay) = (&violation.detail, &violation.replay);
        writeln!(text, "\n{promise} BROKEN, seed {seed}, cut {cut}: {detail}\n  {replay}")
            .expect("writing to a String cannot fail");
    }
    text
}

/// A row for each kind of drive: its power-loss protection, its cache, and counts under these titles.
pub(crate) fn of_drives<'a, const COUNTS: usize>(
    titles: [&str; COUNTS],
    rows: impl Iterator<Item = ([&'a str; 2], [u64; COUNTS])>,
) -> String {
    let words = ["PLP", "cache"].map(|title| (title, Align::Left));
    let columns: Vec<(&str, Align)> =
        words.into_iter().chain(titles.map(|title| (title, Align::Right))).collect();
    let mut table = Table::new(&columns);
    for (words, counts) in rows {
        table.push(words.map(str::to_owned).into_iter().chain(counts.map(grouped)).collect());
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Violation;

    #[test]
    fn a_violation_stands_below_the_counts_with_its_command_line() {
        let violation = Violation {
            seed: 3,
            cut: 7,
            promise: "D1".into(),
            detail: "unit 5 is lost".into(),
            replay: "tantalum crash device --seed 3".into(),
        };
        let outcome = CrashOutcome { cuts: 1234, violations: vec![violation], ..CrashOutcome::default() };
        let text = of(&outcome);
        assert!(text.contains("power cuts            1,234\n"), "{text}");
        assert!(
            text.ends_with("BROKEN: D1\n  unit 5 is lost\n  reproduce: tantalum crash device --seed 3\n")
        );
    }
}
