//! The result of a run as text for a terminal.

use std::fmt::Write;

use tantalum_report::table::{Align, Table, count, grouped};

use crate::campaign::Outcome;
use crate::check::ended;
use crate::finding::{Finding, WithoutLoss};

/// The title of [`Finding::unavoidable`].
pub(crate) const UNAVOIDABLE: &str = "no sync helps if power fails meanwhile; the reader must tolerate it (checksum, length, or a new name and a rename):";

/// Why the check fails, if what was lost does not say it.
pub(crate) fn why(finding: &Finding) -> Option<&'static str> {
    let why = |why| without_loss(why, finding.lost.is_empty());
    finding.without_loss.map(why).or(finding.lost.is_empty().then_some(NOT_KNOWN))
}

fn without_loss(why: WithoutLoss, is_all_there: bool) -> &'static str {
    match why {
        WithoutLoss::Acknowledged if !is_all_there => {
            "what is lost was acknowledged before it was written: the check fails with all that was written by then, too (mapped \
             memory needs msync first, a buffer a flush and a sync)"
        }
        WithoutLoss::Between if !is_all_there => {
            "the files are wrong between two operations, before what is lost was written, also if only the program is killed"
        }
        WithoutLoss::Acknowledged => {
            "everything written is there: it was acknowledged before it was written (mapped memory needs msync first, a buffer \
             a flush and a sync)"
        }
        WithoutLoss::Between => {
            "everything written is there: the files are wrong between two operations, also if only the program is killed"
        }
    }
}

/// The reason of a finding that names nothing.
const NOT_KNOWN: &str =
    "the drive left neither whole operations nor whole writes: without --drive, findings name the syncs";

/// A sync that the kernel keeps to itself looks like none.
const NO_SYNC: &str = "\nNothing was synced. Linux passes fsync and fdatasync on to this folder, and sync FILE, but neither sync \
                       without a name nor syncfs.\n";

/// What was tried, and how often.
pub(crate) fn counts(outcome: &Outcome) -> [(&'static str, u64); 7] {
    [
        ("operations of the program", outcome.operations as u64),
        ("of these, syncs", outcome.syncs as u64),
        ("places to cut power", outcome.places),
        ("power cuts", outcome.cuts),
        ("outcomes", outcome.outcomes),
        ("different outcomes, checked", outcome.checked),
        ("checks that failed", outcome.failed),
    ]
}

/// A table of the counts, and each finding with what explains it.
pub fn of(outcome: &Outcome) -> String {
    let mut table = Table::new(&[("", Align::Left), ("count", Align::Right)]);
    for (name, count) in counts(outcome) {
        table.push(vec![name.to_owned(), grouped(count)]);
    }
    let mut text = table.render();
    if outcome.unexplained > 0 {
        let _ = writeln!(text, "\nNot explained: {}.", count(outcome.unexplained, "failure"));
    }
    if let Some(why) = &outcome.not_saved {
        let _ = writeln!(text, "\nNot all findings could be saved: {why}");
    }
    if outcome.ended_early {
        text.push_str("\nIt ended before all cuts had been tried.\n");
    }
    if outcome.failed > 0 && outcome.syncs == 0 {
        text.push_str(NO_SYNC);
    }
    for (index, finding) in outcome.findings.iter().enumerate() {
        text.push_str(&of_finding(index + 1, finding));
    }
    text
}

fn of_finding(number: usize, finding: &Finding) -> String {
    let mut text = format!(
        "\nFINDING {number}: the check {}, power was cut after operation {}\n",
        ended(&finding.check_ended),
        finding.last_operation
    );
    let mut list = |title: &str, lines: &[String]| {
        if !lines.is_empty() {
            let _ = writeln!(text, "  {title}");
            for line in lines {
                let _ = writeln!(text, "    {line}");
            }
        }
    };
    list("lost:", &finding.lost);
    list("survived, although later:", &finding.there);
    list("the check passes with:", &finding.saved_by);
    list("why:", why(finding).map(str::to_owned).as_slice());
    let said: Vec<String> = finding.check_said.lines().rev().take(5).map(str::to_owned).collect();
    list(UNAVOIDABLE, &finding.unavoidable);
    list("the check said:", &said.into_iter().rev().collect::<Vec<_>>());
    if finding.also > 0 {
        let fail = if finding.also == 1 { "fails" } else { "fail" };
        let _ = writeln!(text, "  {} {fail} for the same reason", count(finding.also, "more outcome"));
    }
    if let Some(saved) = &finding.saved {
        let _ = writeln!(text, "  again: tantalum crash replay {}", saved.display());
    }
    text
}
