//! The outcome as text for a terminal of 100 columns.

use tantalum_report::table::{Align, Table, bytes, grouped};

use super::outcome::{Interval, Outcome, Recovery};

/// Both tables, with what their columns mean.
pub fn of_recovery_cost(outcome: &Outcome) -> String {
    format!(
        "drive {}, every chunk of the map in use; power is cut after so much was written at random\n\
         since the last checkpoint\n\n{}\n\
         drive {}, {}, {},\n\
         full, overwritten at random; power is cut at 95 % of the way to the next checkpoint\n\n{}\n\
         {LEGEND}",
        outcome.profile,
        growth(outcome),
        outcome.profile,
        bytes(outcome.interval_capacity_bytes),
        outcome.effective,
        intervals(&outcome.intervals),
    )
}

const LEGEND: &str = "\
spare: pages whose spare areas were read; pages: of checkpoint and journal
read ms, total ms: device time until everything was read, and until the drive took commands
host s: time on this machine; cost: units of checkpoints over units that the host wrote
";

fn growth(outcome: &Outcome) -> String {
    let titles =
        ["capacity", "written", "blocks", "spare", "pages", "assertions", "read ms", "total ms", "host s"];
    let mut table = Table::new(&titles.map(|title| (title, Align::Right)));
    for point in &outcome.growth {
        let recovery = &point.recovery;
        table.push(vec![
            bytes(point.capacity_bytes),
            bytes(point.written_bytes),
            grouped(point.blocks),
            grouped(recovery.pages_scanned),
            grouped(recovery.pages_read),
            grouped(recovery.assertions),
            milliseconds(recovery.read_ns),
            milliseconds(recovery.device_ns),
            format!("{:.2}", recovery.wall_seconds),
        ]);
    }
    table.render()
}

fn intervals(intervals: &[Interval]) -> String {
    let titles = [
        "interval",
        "WAF",
        "checkpoints",
        "host units each",
        "cost",
        "spare",
        "read ms",
        "total ms",
        "host s",
    ];
    let mut table = Table::new(&titles.map(|title| (title, Align::Right)));
    for interval in intervals {
        let Recovery { pages_scanned, read_ns, device_ns, wall_seconds, .. } = interval.recovery;
        let name = interval_name(interval);
        table.push(vec![
            if interval.steady { name } else { format!("{name} (not steady)") },
            format!("{:.2}", interval.write_amplification),
            grouped(interval.checkpoints),
            grouped(interval.host_units_per_checkpoint as u64),
            format!("{:.2} %", 100.0 * interval.checkpoint_share),
            grouped(pages_scanned),
            milliseconds(read_ns),
            milliseconds(device_ns),
            format!("{wall_seconds:.2}"),
        ]);
    }
    table.render()
}

/// The name of an interval.
pub(crate) fn interval_name(interval: &Interval) -> String {
    interval.interval_pages.map_or("default".to_owned(), |pages| format!("{} pages", grouped(pages)))
}

fn milliseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery_cost::tests::outcome;

    #[test]
    fn tables_fit_100_columns() {
        let text = of_recovery_cost(outcome());
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains(", 64 MiB, 12.5 % over-provisioning,\n"), "{text}");
        assert!(text.contains("4 GiB") && text.contains("default"), "{text}");
    }
}
