//! The results as text for a terminal.

use std::fmt::Write;

use tantalum_report::table::{Align, Table, grouped};

use super::torture::DeviceCrash;

/// What was cut and checked, on which drives, and every broken promise.
pub fn of_device_crash(crash: &DeviceCrash) -> String {
    let mut text = format!("{}\n{}\n", drives(crash).render(), totals(crash));
    for violation in &crash.outcome.violations {
        let (promise, seed, cut) = (&violation.promise, violation.seed, violation.cut);
        writeln!(
            text,
            "\n{promise} BROKEN, seed {seed}, cut {cut}: {}\n  {}",
            violation.detail, violation.replay
        )
        .expect("writing to a String cannot fail");
    }
    text
}

/// A row for each kind of drive.
fn drives(crash: &DeviceCrash) -> Table {
    const COLUMNS: [&str; 12] = [
        "PLP",
        "cache",
        "page",
        "cuts",
        "in recovery",
        "commands",
        "collected",
        "checkpoints",
        "journal",
        "erases",
        "swaps",
        "broken",
    ];
    let align = |index| if index < 2 { Align::Left } else { Align::Right };
    let columns: Vec<(&str, Align)> =
        COLUMNS.into_iter().enumerate().map(|(index, title)| (title, align(index))).collect();
    let mut table = Table::new(&columns);
    for counts in &crash.drives {
        let reached = &counts.reached;
        let numbers = [
            u64::from(counts.page_bytes),
            counts.cuts,
            counts.second_cuts,
            reached.commands,
            reached.collections,
            reached.checkpoints,
            reached.journal_pages,
            reached.blocks_erased,
            reached.indexes_swapped_in,
            counts.violations,
        ];
        let words = [counts.plp.to_owned(), counts.cache.to_owned()];
        table.push(words.into_iter().chain(numbers.map(grouped)).collect());
    }
    table
}

fn totals(crash: &DeviceCrash) -> String {
    let outcome = &crash.outcome;
    let (recoveries, cuts) = (grouped(outcome.dirty_recoveries), grouped(outcome.cuts));
    let mut text = format!(
        "{} seeds; {recoveries} recoveries of {cuts} cuts were dirty; {} more cuts in clean shutdowns\n\
         {} torn pages read, {} promises checked, {} broken",
        grouped(outcome.seeds),
        grouped(crash.shutdown_cuts),
        grouped(outcome.torn_pages_seen),
        grouped(outcome.promises_checked),
        grouped(outcome.violations.len() as u64),
    );
    if crash.outcome.interrupted {
        text.push_str("\ninterrupted: these are the results so far");
    }
    text
}
