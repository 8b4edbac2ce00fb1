//! The result of cuts of recorded blocks.

use std::fmt::Write;
use std::path::PathBuf;

use serde::Serialize;
use tantalum_record::blocks::BlockEvent;
use tantalum_report::table::{Align, Table, bytes, grouped};

use crate::check::ended;

/// Findings that are printed; the JSON has all.
const PRINTED: usize = 10;

/// The result of cuts of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BlockOutcome {
    /// The name of the drive's profile.
    pub drive: String,
    /// Up to which size its writes are all or nothing.
    pub atomic_write_bytes: u64,
    /// Recorded commands that change something or make it durable.
    pub commands: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Acknowledgements.
    pub acknowledged: u64,
    /// Flash operations at which power could be cut: all, or those after the first acknowledgement.
    pub places: u64,
    /// Cuts that were to be made.
    pub planned: u64,
    /// Cuts whose disks were checked.
    pub checked: u64,
    /// Those that the check refused.
    pub failed: u64,
    /// The refused ones, in the order of their cuts.
    pub findings: Vec<BlockFinding>,
}

/// A cut whose disk the check refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct BlockFinding {
    /// The flash operation at which power was cut, counted from 1 among the places.
    pub flash_operation: u64,
    /// Events of the recording before the command during which it was.
    pub after_commands: u64,
    /// That command.
    pub during: String,
    /// Acknowledgements before.
    pub acknowledged: u64,
    /// How the check ended.
    pub check_ended: String,
    /// The end of what it printed.
    pub check_said: String,
    /// The folder in which the disk is saved.
    #[serde(with = "tantalum_control::path")]
    pub saved: Option<PathBuf>,
}

/// A command in words.
pub fn named(event: &BlockEvent<'_>) -> String {
    let range = |offset: u64, length: u64| format!("{} at byte {}", bytes(length), grouped(offset));
    match event {
        BlockEvent::Write { offset, data, fua } => {
            let fua = if *fua { ", with FUA" } else { "" };
            format!("a write of {}{fua}", range(*offset, data.len() as u64))
        }
        BlockEvent::Zero { offset, bytes, .. } => format!("zeros in {}", range(*offset, *bytes)),
        BlockEvent::Discard { offset, bytes } => format!("a discard of {}", range(*offset, *bytes)),
        BlockEvent::Flush => "a flush".to_owned(),
        BlockEvent::Ack(_) => "an acknowledgement".to_owned(),
        BlockEvent::Other(what) => (*what).to_owned(),
    }
}

/// A table of the counts, and the first findings.
pub fn text_of(outcome: &BlockOutcome) -> String {
    let mut table = Table::new(&[("", Align::Left), ("count", Align::Right)]);
    let BlockOutcome { drive, atomic_write_bytes, planned, checked, failed, findings, .. } = outcome;
    for (name, count) in [
        ("commands", outcome.commands),
        ("of these, flushes", outcome.flushes),
        ("acknowledgements", outcome.acknowledged),
        ("flash operations at which power may be cut", outcome.places),
        ("power cuts, checked", *checked),
        ("checks that failed", *failed),
    ] {
        table.push(vec![name.to_owned(), grouped(count)]);
    }
    let mut text =
        format!("drive: {drive}, writes are all or nothing up to {}\n\n", bytes(*atomic_write_bytes));
    text.push_str(&table.render());
    if checked < planned {
        let _ = writeln!(text, "\nIt ended before all {} cuts had been tried.", grouped(*planned));
    }
    for finding in findings.iter().take(PRINTED) {
        text.push_str(&of_finding(finding));
    }
    if findings.len() > PRINTED {
        let _ = writeln!(text, "\n{} more; --json lists all.", grouped((findings.len() - PRINTED) as u64));
    }
    text
}

fn of_finding(finding: &BlockFinding) -> String {
    let BlockFinding {
        flash_operation,
        after_commands,
        during,
        acknowledged,
        check_ended,
        check_said,
        saved,
    } = finding;
    let mut text = format!(
        "\nat flash operation {}, during {during} (after {} events and {} acknowledgements), the check {}\n",
        grouped(*flash_operation),
        grouped(*after_commands),
        grouped(*acknowledged),
        ended(check_ended)
    );
    check_said.lines().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    if let Some(saved) = saved {
        let _ = writeln!(text, "  the disk: {}", saved.join("dir/disk").display());
    }
    text
}
