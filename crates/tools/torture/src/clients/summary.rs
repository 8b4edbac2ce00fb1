//! The results as text for a terminal.

use std::collections::BTreeMap;

use tantalum_report::table::{count, grouped};

use super::torture::ClientsCrash;
use crate::summary::{broken, of_drives};

/// What was cut and checked, what the clients did, and every broken promise.
pub fn of_clients_crash(crash: &ClientsCrash) -> String {
    format!("{}\n{}\n{}\n{}", drives(crash), coverage(crash), totals(crash), broken(&crash.outcome))
}

/// A row for each kind of drive.
fn drives(crash: &ClientsCrash) -> String {
    let titles = ["cuts", "in recovery", "turns", "collected", "checkpoints", "journal", "erases", "broken"];
    let rows = crash.drives.iter().map(|counts| {
        let reached = &counts.reached;
        let numbers = [
            counts.cuts,
            counts.second_cuts,
            reached.commands,
            reached.collections,
            reached.checkpoints,
            reached.journal_pages,
            reached.blocks_erased,
            counts.violations,
        ];
        ([counts.plp, counts.cache], numbers)
    });
    of_drives(titles, rows)
}

/// Names with their counts, as many in a line as fit.
fn list(title: &str, counts: &BTreeMap<&'static str, u64>) -> String {
    let (mut lines, mut line) = (Vec::new(), format!("{title}:"));
    for (name, count) in counts {
        let part = format!(" {name} {},", grouped(*count));
        if line.len() + part.len() > 110 {
            lines.push(std::mem::replace(&mut line, " ".to_owned()));
        }
        line.push_str(&part);
    }
    lines.push(line.trim_end_matches(',').to_owned());
    lines.join("\n")
}

fn coverage(crash: &ClientsCrash) -> String {
    let (coverage, cuts) = (&crash.coverage, crash.outcome.cuts + crash.shutdown_cuts);
    let mean = coverage.in_flight_at_cuts as f64 / cuts.max(1) as f64;
    format!(
        "{}\n{}\n{}\n\
         in flight at cuts: {mean:.1} commands, at most {}; of several clients at {}, in conflict at {}\n\
         {} met a change of another client in flight; answers never given: {}\n\
         {} shared instead of written; a program committed {} and aborted {}; {} opened after cuts\n\
         {} refused by drives whose flash wears, {} by full drives",
        list("commands", &coverage.commands),
        list("by way of", &coverage.ways),
        list("cuts", &coverage.cuts),
        grouped(coverage.most_in_flight),
        count(coverage.cuts_with_several_clients, "cut"),
        grouped(coverage.cuts_in_conflicts),
        count(coverage.conflicts, "command"),
        grouped(coverage.answers_lost),
        count(coverage.remapped, "unit"),
        count(coverage.program_commits, "transaction"),
        grouped(coverage.program_aborts),
        count(coverage.reopened, "image"),
        count(coverage.refused_by_worn_drives, "command"),
        grouped(coverage.refused_by_full_drives),
    )
}

fn totals(crash: &ClientsCrash) -> String {
    let outcome = &crash.outcome;
    let mut text = format!(
        "{}; {}, dirty recoveries: {}; {} in clean shutdowns\n\
         {} read, {} refused, {} checked, {} broken",
        count(outcome.seeds, "seed"),
        count(outcome.cuts, "cut"),
        grouped(outcome.dirty_recoveries),
        count(crash.shutdown_cuts, "more cut"),
        count(outcome.torn_pages_seen, "torn page"),
        count(crash.reached.refused, "command"),
        count(outcome.promises_checked, "promise"),
        grouped(outcome.violations.len() as u64),
    );
    if outcome.interrupted {
        text.push_str("\ninterrupted: these are the results so far");
    }
    text
}
