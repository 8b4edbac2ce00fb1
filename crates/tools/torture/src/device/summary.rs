//! The results as text for a terminal.

use tantalum_report::table::{count, grouped};

use super::torture::DeviceCrash;
use crate::summary::{broken, of_drives};

/// What was cut and checked, on which drives, and every broken promise.
pub fn of_device_crash(crash: &DeviceCrash) -> String {
    format!("{}\n{}\n{}", drives(crash), totals(crash), broken(&crash.outcome))
}

/// A row for each kind of drive.
fn drives(crash: &DeviceCrash) -> String {
    let titles = [
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
    let rows = crash.drives.iter().map(|counts| {
        let reached = &counts.reached;
        let numbers = [
            counts.page_bytes.map_or(0, u64::from),
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
        ([counts.plp, counts.cache], numbers)
    });
    of_drives(titles, rows)
}

fn totals(crash: &DeviceCrash) -> String {
    let outcome = &crash.outcome;
    let mut text = format!(
        "{}; {}, dirty recoveries: {}; {} in clean shutdowns\n\
         {} read, {} checked, {} broken",
        count(outcome.seeds, "seed"),
        count(outcome.cuts, "cut"),
        grouped(outcome.dirty_recoveries),
        count(crash.shutdown_cuts, "more cut"),
        count(outcome.torn_pages_seen, "torn page"),
        count(outcome.promises_checked, "promise"),
        grouped(outcome.violations.len() as u64),
    );
    if crash.outcome.interrupted {
        text.push_str("\ninterrupted: these are the results so far");
    }
    text
}
