//! A replay as text for a terminal.

use std::fmt::Write;

use tantalum_report::table::{Align, Table, bytes, count, grouped};
use tantalum_report::{Figures, figure_text};
use tantalum_workloads::{handle_table, unit_bytes};

use crate::outcome::{Outcome, Unaligned};

/// The tables.
pub fn of(outcome: &Outcome) -> String {
    let mut text = format!("{}\n", heading(outcome));
    let _ = writeln!(text, "addresses: {}", outcome.replay.addresses);
    for note in notes(outcome) {
        let _ = writeln!(text, "{note}");
    }
    for (title, table) in tables(outcome) {
        let _ = write!(text, "\n{title}\n\n{}", table.render());
    }
    text
}

/// What was replayed, and on which drive.
pub(crate) fn heading(outcome: &Outcome) -> String {
    let (trace, drive) = (&outcome.trace, &outcome.drive);
    let mut text = format!(
        "{}{}: {}, on {} of {}, {}, {}",
        trace.path,
        trace.format.map(|format| format!(" ({})", format.name())).unwrap_or_default(),
        count(trace.requests, "request"),
        drive.profile,
        bytes(drive.capacity_bytes),
        drive.effective,
        drive.condition.name()
    );
    if let Some(amplification) = drive.aged_amplification {
        let _ = write!(text, " to a write amplification of {amplification:.2}");
    }
    match (outcome.replay.speed, outcome.replay.queue_depth) {
        (Some(1.0), _) => text.push_str("; at the trace's times"),
        (Some(speed), _) => {
            let _ = write!(text, "; at {speed} times the trace's speed");
        }
        (None, Some(1)) => text.push_str("; one request after the other"),
        (None, depth) => {
            let _ = write!(text, "; {} requests at a time", depth.unwrap_or(0));
        }
    }
    text
}

/// What a reader must know to interpret the figures.
pub(crate) fn notes(outcome: &Outcome) -> Vec<String> {
    let incomplete = outcome.incomplete.iter().map(|why| format!("not complete: {why}"));
    incomplete.chain(outcome.warnings.iter().map(|warning| format!("warning: {warning}"))).collect()
}

/// All tables with their titles.
pub(crate) fn tables(outcome: &Outcome) -> Vec<(String, Table)> {
    let mut tables = vec![
        ("requests, with latencies in microseconds".to_owned(), requests(outcome)),
        ("in short".to_owned(), in_short(outcome)),
        ("what flash did".to_owned(), by_cause(outcome)),
    ];
    if !outcome.handles.is_empty() {
        let title = "by reclaim unit handle: volume N of the trace has handle N modulo their number";
        tables.push((title.to_owned(), handle_table(&outcome.handles)));
    }
    tables.extend(outcome.binds.iter().map(|figures| (figures.title.clone(), parts(figures))));
    tables
}

fn requests(outcome: &Outcome) -> Table {
    let titles = ["mean", "median", "95 %", "99 %", "99.9 %", "longest"];
    let mut columns = vec![("", Align::Left), ("requests", Align::Right), ("bytes", Align::Right)];
    columns.extend(titles.map(|title| (title, Align::Right)));
    let mut table = Table::new(&columns);
    for requests in &outcome.requests {
        let us = &requests.latency_us;
        let mut row = vec![requests.kind.name().to_owned(), grouped(requests.count), bytes(requests.bytes)];
        row.extend([us.mean, us.p50, us.p95, us.p99, requests.p999_us, us.max].map(figure_text));
        table.push(row);
    }
    table
}

fn in_short(outcome: &Outcome) -> Table {
    let Outcome { counters, unaligned, wear, life, .. } = outcome;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
    let mut row = |name: &str, value: String| table.push(vec![name.to_owned(), value]);
    let took = match outcome.trace.seconds {
        Some(seconds) => format!("{:.3} s; the trace {:.3} s", outcome.seconds, seconds),
        None => format!("{:.3} s", outcome.seconds),
    };
    row("time of the drive", took);
    row("to the drive", bytes(unit_bytes(counters.host_units_written)));
    row("to flash", bytes(unit_bytes(counters.flash_units.total())));
    let ratio = outcome.amplification.map_or_else(|| "-".to_owned(), figure_text);
    row("write amplification", format!("{ratio} (to flash / to the drive)"));
    if unaligned.reads + unaligned.writes + unaligned.trims > 0 {
        row("not of whole 4 KiB units", unaligned_in_short(unaligned));
    }
    if unaligned.empty > 0 {
        row("requests for nothing", grouped(unaligned.empty));
    }
    row("blocks erased", grouped(counters.blocks_erased));
    let (before, after) = (figure_text(wear.mean_before), figure_text(wear.mean_after));
    row(
        "erases of a block",
        format!("mean {before} before, {after} after ({} to {})", wear.least_after, wear.most_after),
    );
    for (name, value) in life.lines() {
        row(name, value);
    }
    table
}

fn unaligned_in_short(unaligned: &Unaligned) -> String {
    let Unaligned { reads, writes, units_read_to_write, trims, .. } = *unaligned;
    let (reads, writes, trims) = (count(reads, "read"), count(writes, "write"), count(trims, "trim"));
    format!(
        "{reads}, {writes}, for which {} had to be read first, {trims}",
        count(units_read_to_write, "unit")
    )
}

fn by_cause(outcome: &Outcome) -> Table {
    let mut table = Table::new(&[
        ("programmed for", Align::Left),
        ("units", Align::Right),
        ("bytes", Align::Right),
        ("amplification", Align::Right),
    ]);
    for (name, units) in outcome.counters.flash_units.each() {
        let share = outcome.share(units).map_or_else(|| "-".to_owned(), figure_text);
        table.push(vec![name.to_owned(), grouped(units), bytes(unit_bytes(units)), share]);
    }
    table
}

/// The figures of one replay, one per line.
fn parts(figures: &Figures) -> Table {
    let mut table = Table::new(&[("", Align::Left), (figures.unit, Align::Right)]);
    let row = figures.rows.first().map_or(&[][..], |row| &row.ours);
    for (name, figure) in figures.columns.iter().zip(row) {
        table.push(vec![name.clone(), figure_text(*figure)]);
    }
    table
}
