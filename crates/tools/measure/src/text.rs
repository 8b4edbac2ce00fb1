//! What was measured, as text for a terminal.

use std::fmt::Write;

use tantalum_report::table::{Align, Table, bytes, count, grouped};
use tantalum_report::{LatencyUs, figure_text};
use tantalum_workloads::unit_bytes;

use crate::measurement::{Measurement, PathWrites};

/// Number of files shown; the rest is one line.
const MOST_FILES: usize = 20;

/// Number of folders shown.
const MOST_FOLDERS: usize = 10;

/// The tables, from what was asked for down to the flash.
pub fn of(measurement: &Measurement) -> String {
    let mut text = format!("{}\n", heading(measurement));
    if let Some(why) = &measurement.incomplete {
        let _ = writeln!(text, "not complete: {why}");
    }
    for (title, table) in tables(measurement) {
        let _ = write!(text, "\n{title}\n\n{}", table.render());
    }
    text
}

/// What ran, how it ended, and on what.
pub(crate) fn heading(measurement: &Measurement) -> String {
    let drive = &measurement.drive;
    let mut text = format!("{}: {:.1} s", measurement.measured, measurement.seconds);
    if let Some(code) = measurement.exit_code {
        let _ = write!(text, ", exit code {code}");
    }
    let _ = write!(text, ", on {} of {}, {}", drive.profile, bytes(drive.capacity_bytes), drive.effective);
    match &drive.aged {
        Some(ageing) => {
            let amplification = ageing.write_amplification;
            let steady = if ageing.steady { "" } else { " (not yet steady)" };
            let _ = write!(text, ", aged to a write amplification of {amplification:.2}{steady}");
        }
        None if measurement.exit_code.is_some() => text.push_str(", fresh"),
        None => {}
    }
    if drive.time == "none" {
        text.push_str("; not at the drive's pace, so rates are this machine's");
    }
    text
}

/// All tables with their titles.
pub(crate) fn tables(measurement: &Measurement) -> Vec<(&'static str, Table)> {
    let mut tables = vec![
        ("in short", in_short(measurement)),
        ("by file", by_file(measurement)),
        ("by folder", by_folder(measurement)),
        ("by kind", by_kind(measurement)),
        ("what flash did", by_cause(measurement)),
    ];
    if measurement.rewritten.units > 0 {
        tables.push(("how often a unit of a file was written", rewritten(measurement)));
    }
    if !measurement.replays.is_empty() {
        tables.push(("the same recording on other drives", replays(measurement)));
    }
    tables
}

fn opt_bytes(amount: Option<u64>) -> String {
    amount.map_or_else(|| "?".to_owned(), bytes)
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), figure_text)
}

/// A latency with its percentiles.
fn latency(latency: &LatencyUs) -> String {
    let milliseconds = |us: f64| figure_text(us / 1000.0);
    format!(
        "mean {} ms, median {}, 99 % {}, longest {}",
        milliseconds(latency.mean),
        milliseconds(latency.p50),
        milliseconds(latency.p99),
        milliseconds(latency.max)
    )
}

fn in_short(measurement: &Measurement) -> Table {
    let Measurement { asked, counters, amplification, flushes, life, .. } = measurement;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut row = |name: &str, value: String| table.push(vec![name.to_owned(), value]);
    row("asked for", format!("{} in {}", bytes(asked.bytes), count(asked.writes, "write")));
    if asked.copied_bytes > 0 {
        row("copied by the file system", bytes(asked.copied_bytes));
    }
    row("to the drive", bytes(unit_bytes(counters.host_units_written)));
    row("to flash", bytes(unit_bytes(counters.flash_units.total())));
    row(
        "amplification of the program",
        format!("{} (to the drive / asked for)", ratio(amplification.program)),
    );
    row("amplification of the drive", format!("{} (to flash / to the drive)", ratio(amplification.drive)));
    row("amplification in all", format!("{} (to flash / asked for)", ratio(amplification.total)));
    let each = asked.sync_us.as_ref().map(|us| format!("; each: {}", latency(us))).unwrap_or_default();
    row("syncs", format!("{}, {:.3} s in them{each}", grouped(asked.syncs), asked.sync_seconds));
    let flush_ms = figure_text(flushes.mean_us / 1000.0);
    row("flushes of the drive", format!("{}, mean {flush_ms} ms", grouped(flushes.count)));
    row("blocks erased", grouped(counters.blocks_erased));
    for (name, value) in life.lines() {
        row(name, value);
    }
    table
}

fn by_file(measurement: &Measurement) -> Table {
    let mut table = Table::new(&[
        ("file", Align::Left),
        ("kind", Align::Left),
        ("asked for", Align::Right),
        ("writes", Align::Right),
        ("to the drive", Align::Right),
        ("syncs", Align::Right),
        ("s in them", Align::Right),
    ]);
    let shown = measurement.files.len().min(MOST_FILES);
    let (first, rest) = measurement.files.split_at(shown);
    for file in first {
        table.push(vec![
            name_of(file),
            file.kind.name().to_owned(),
            bytes(file.bytes),
            grouped(file.writes),
            opt_bytes(file.drive_bytes),
            grouped(file.syncs),
            format!("{:.3}", file.sync_seconds),
        ]);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&PathWrites) -> u64| rest.iter().map(of).sum::<u64>();
        let drive_bytes = rest.iter().map(|file| file.drive_bytes).sum::<Option<u64>>();
        table.push(vec![
            format!("{} more", grouped(rest.len() as u64)),
            String::new(),
            bytes(sum(|file| file.bytes)),
            grouped(sum(|file| file.writes)),
            opt_bytes(drive_bytes),
            grouped(sum(|file| file.syncs)),
            format!("{:.3}", rest.iter().map(|file| file.sync_seconds).sum::<f64>()),
        ]);
    }
    table
}

/// The path, and whether the file is gone or was several files.
pub(crate) fn name_of(file: &PathWrites) -> String {
    match (file.files, file.removed) {
        (1, 0) => file.path.clone(),
        (1, _) => format!("{} (removed)", file.path),
        (files, 0) => format!("{} ({} files)", file.path, grouped(files)),
        (files, removed) => {
            format!("{} ({} files, {} removed)", file.path, grouped(files), grouped(removed))
        }
    }
}

fn by_folder(measurement: &Measurement) -> Table {
    let mut table =
        Table::new(&[("folder", Align::Left), ("asked for", Align::Right), ("to the drive", Align::Right)]);
    let mut folders: Vec<_> = measurement.folders.iter().collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.bytes));
    folders.truncate(MOST_FOLDERS);
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    for folder in folders {
        table.push(vec![folder.path.clone(), bytes(folder.bytes), opt_bytes(folder.drive_bytes)]);
    }
    table
}

fn by_kind(measurement: &Measurement) -> Table {
    let mut table =
        Table::new(&[("kind", Align::Left), ("asked for", Align::Right), ("to the drive", Align::Right)]);
    for kind in &measurement.kinds {
        table.push(vec![kind.kind.name().to_owned(), bytes(kind.bytes), opt_bytes(kind.drive_bytes)]);
    }
    table
}

fn by_cause(measurement: &Measurement) -> Table {
    let mut table =
        Table::new(&[("programmed for", Align::Left), ("units", Align::Right), ("bytes", Align::Right)]);
    for (name, units) in measurement.counters.flash_units.each() {
        table.push(vec![name.to_owned(), grouped(units), bytes(unit_bytes(units))]);
    }
    table
}

fn rewritten(measurement: &Measurement) -> Table {
    let rewritten = &measurement.rewritten;
    let mut table = Table::new(&[("written", Align::Left), ("units", Align::Right)]);
    for (from, to, units) in &rewritten.histogram {
        let times = if from == to { "once".to_owned() } else { format!("{from} to {to} times") };
        table.push(vec![times, grouped(*units)]);
    }
    table.push(vec!["mean".to_owned(), figure_text(rewritten.mean)]);
    table.push(vec!["most".to_owned(), grouped(rewritten.most.into())]);
    table
}

fn replays(measurement: &Measurement) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("to the drive", Align::Right),
        ("to flash", Align::Right),
        ("saved", Align::Right),
        ("flushes", Align::Right),
        ("s in syncs", Align::Right),
        ("saved", Align::Right),
    ]);
    for (number, replay) in measurement.replays.iter().enumerate() {
        let saved = |percent: f64| if number == 0 { String::new() } else { format!("{percent:.1} %") };
        table.push(vec![
            replay.name.clone(),
            bytes(replay.drive_bytes),
            bytes(replay.flash_bytes),
            saved(replay.flash_saved_percent),
            grouped(replay.flushes),
            format!("{:.3}", replay.sync_seconds),
            saved(replay.sync_saved_percent),
        ]);
    }
    table
}
