//! Results as text for a terminal of 100 columns.

use std::fmt::Write;

use tantalum::Nanoseconds;
use tantalum_report::table::{Align, Table, bytes, count, grouped};
use tantalum_sqlite::Mode;

use super::outcome::{Comparison, INTACT, Run, WorkloadOutcome};
use super::pattern::Pattern;
use super::spread::Uncertainty;

/// A comparison: the workload, the table, and what is wrong, if anything.
pub fn of_comparison(comparison: &Comparison) -> String {
    let (columns, rows) = comparison_cells(&comparison.runs);
    let aligned = |&title: &&'static str| {
        let words = title == columns[0] || title == columns[columns.len() - 1];
        (title, if words { Align::Left } else { Align::Right })
    };
    let mut table = Table::new(&columns.iter().map(aligned).collect::<Vec<_>>());
    rows.into_iter().for_each(|row| table.push(row.into()));
    let binds = what_binds(comparison).render();
    let mut text =
        format!("{}\n\n{}\n{LEGEND}\n{binds}\n{BINDS_LEGEND}", circumstances(comparison), table.render());
    if let Some(line) = too_short(comparison) {
        text = format!("{text}\n{line}\n");
    }
    for run in comparison.runs.iter().filter(|run| run.integrity != INTACT) {
        writeln!(text, "\n{}: WRONG CONTENTS: {}", run.mode, run.integrity)
            .expect("writing to a String cannot fail");
    }
    text
}

/// Which runs were too short for a ratio, and how long would do, a line for each.
pub(crate) fn too_short(comparison: &Comparison) -> Option<String> {
    let short: Vec<&Run> = comparison.runs.iter().filter(|run| !run.uncertainty.is_small()).collect();
    let enough = short.iter().map(|run| run.uncertainty.transactions_needed(run.transactions)).max()?;
    let mut text = "too short to tell, so without ratios:\n".to_owned();
    for run in short {
        let how = match run.uncertainty {
            Uncertainty { time: Some(time), flash: Some(flash) } => format!(
                "a longer run's time may differ by {:.0} %, its flash units by {:.0} %",
                100.0 * time,
                100.0 * flash
            ),
            _ => count(run.transactions, "transaction"),
        };
        let _ = writeln!(text, "  {:8}  {how}", run.mode.to_string());
    }
    let _ = write!(text, "{} transactions or more would probably do: 10 % is enough", grouped(enough));
    Some(text)
}

const LEGEND: &str = "\
flash/tx: units of 4 KiB programmed per transaction, for any reason; lifetime: wal's over this
speed, writes: tx/s and flash/tx against wal's
check: after a power cut, the whole database against what was written to it
";

const BINDS_LEGEND: &str = "\
reads to others: us of a transaction's commands, of which several may be under way at once
planes: how busy, and of that with what hosts program and with garbage collection
";

/// What transactions waited for: the time of their commands, and of the planes.
fn what_binds(comparison: &Comparison) -> Table {
    let titles = ["mode", "reads", "writes", "flushes", "others", "planes", "for hosts", "collection"];
    let mut table =
        Table::new(&titles.map(|title| (title, if title == titles[0] { Align::Left } else { Align::Right })));
    let flash = &comparison.profile.flash;
    let planes = f64::from(flash.channels * flash.dies_per_channel * flash.planes_per_die);
    for run in &comparison.runs {
        let usage = &run.usage;
        let each = |ns: Nanoseconds| format!("{:.0}", ns as f64 / 1e3 / run.transactions.max(1) as f64);
        let busy = |ns: Nanoseconds| format!("{:.0} %", ns as f64 / 1e7 / planes / run.device_seconds);
        let (programs_ns, collection_ns) = (usage.plane_programs_ns, usage.plane_background_ns);
        table.push(vec![
            run.mode.to_string(),
            each(usage.reads_ns),
            each(usage.writes_ns),
            each(usage.flushes_ns),
            each(usage.others_ns),
            busy(usage.plane_reads_ns + programs_ns + collection_ns + usage.plane_erases_ns),
            busy(programs_ns),
            busy(collection_ns),
        ]);
    }
    table
}

/// The workload in one line.
pub(crate) fn workload_line(workload: &WorkloadOutcome) -> String {
    let what = match (workload.pattern, &workload.database, &workload.sql) {
        (Some(pattern), _, _) => format!(
            "{} updates of {} rows, {} bytes in each transaction",
            match pattern {
                Pattern::Random => "random",
                Pattern::Sequential => "sequential",
            },
            grouped(workload.rows.unwrap_or(0)),
            grouped(workload.value_bytes.unwrap_or(0).into()),
        ),
        (None, Some(database), Some(sql)) => format!("{sql} on a copy of {database}"),
        (None, _, _) => workload.kind.to_owned(),
    };
    format!("{what}; synchronous = {}", workload.synchronous.name())
}

/// The workload and the drive.
pub(crate) fn circumstances(comparison: &Comparison) -> String {
    format!("{}\n{}", workload_line(&comparison.workload), drive_line(comparison))
}

fn drive_line(comparison: &Comparison) -> String {
    let workload = &comparison.workload;
    let aged = if workload.aged_steady { "aged to" } else { "aged (not yet steady) to" };
    format!(
        "drive {}, {}, {}, {aged} write amplification {:.2};\n\
         virtual time, with {} us of host time for each statement",
        comparison.profile.name,
        bytes(comparison.capacity_bytes),
        workload.effective,
        workload.aged_write_amplification,
        workload.host_ns_per_statement / 1000,
    )
}

/// Figures in a row of the table of a comparison.
const COLUMNS: usize = 11;

/// The titles and, for each run, the cells of the table.
pub(crate) fn comparison_cells(runs: &[Run]) -> ([&'static str; COLUMNS], Vec<[String; COLUMNS]>) {
    let titles = [
        "mode", "tx/s", "speed", "flash/tx", "writes", "WAF", "erases", "p50 us", "p99 us", "lifetime",
        "check",
    ];
    let baseline = runs.iter().find(|run| run.mode == Mode::Wal && run.uncertainty.is_small());
    (titles, runs.iter().map(|run| cells(run, baseline)).collect())
}

fn cells(run: &Run, baseline: Option<&Run>) -> [String; COLUMNS] {
    let baseline = baseline.filter(|_| run.uncertainty.is_small());
    let relative = |figure: fn(&Run) -> f64| change(figure(run), baseline.map(figure));
    [
        run.mode.to_string(),
        grouped(run.transactions_per_second.round() as u64),
        relative(|run| run.transactions_per_second),
        format!("{:.2}", run.flash_units_per_transaction()),
        relative(Run::flash_units_per_transaction),
        format!("{:.2}", run.write_amplification),
        grouped(run.blocks_erased),
        grouped(run.latency_us.p50.round() as u64),
        grouped(run.latency_us.p99.round() as u64),
        run.lifetime_ratio.map_or(String::new(), |ratio| format!("{ratio:.2}x")),
        if run.integrity == INTACT { "ok".to_owned() } else { "WRONG".to_owned() },
    ]
}

/// The difference of a figure from the baseline's; empty without one.
fn change(figure: f64, baseline: Option<f64>) -> String {
    match baseline {
        Some(baseline) if baseline > 0.0 => match ((figure / baseline - 1.0) * 100.0).round() {
            0.0 => "0 %".to_owned(),
            percent => format!("{percent:+.0} %"),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::outcome::tests::comparison;

    #[test]
    fn a_comparison_fits_100_columns() {
        let mut comparison = comparison();
        for run in &mut comparison.runs {
            run.transactions_per_second = 123_456.0;
            run.latency_us.p99 = 12_345_678.9;
            run.blocks_erased = 123_456;
        }
        for line in of_comparison(&comparison).lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }

    #[test]
    fn figures_are_set_against_wal() {
        let text = of_comparison(&comparison());
        let line = text.lines().find(|line| line.starts_with("x-ftl")).unwrap();
        assert!(line.contains("+17 %") && line.contains("0.86x"), "{line}");
    }

    /// One statement was said to have 33 times the lifetime.
    #[test]
    fn a_run_that_is_too_short_has_no_ratios() {
        let mut comparison = comparison();
        assert!(!of_comparison(&comparison).contains("too short"));
        comparison.runs[2].uncertainty = Uncertainty { time: Some(0.02), flash: Some(0.3) };
        comparison.runs[3].uncertainty = Uncertainty { time: None, flash: None };
        super::super::outcome::relate_to_baseline(&mut comparison.runs);
        let text = of_comparison(&comparison);
        for (run, percents) in comparison.runs.iter().zip([true, true, false, false, true, true]) {
            let line = text.lines().find(|line| line.starts_with(&run.mode.to_string())).unwrap();
            assert_eq!(line.contains('%') && line.contains('x'), percents, "{line}");
        }
        assert!(text.contains("time may differ by 2 %, its flash units by 30 %"), "{text}");
        assert!(text.contains("1,000 transactions or more"), "{text}");
    }

    #[test]
    fn no_difference_has_no_sign() {
        assert_eq!(change(100.0, Some(100.0)), "0 %");
        assert_eq!((change(99.7, Some(100.0)), change(100.4, Some(100.0))), ("0 %".into(), "0 %".into()));
        assert_eq!((change(99.4, Some(100.0)), change(101.0, Some(100.0))), ("-1 %".into(), "+1 %".into()));
    }

    #[test]
    fn what_binds_is_the_time_of_a_transactions_commands_and_of_the_planes() {
        let text = of_comparison(&comparison());
        let line = text.lines().rfind(|line| line.starts_with("wal")).unwrap();
        // 600 units, a hundred transactions; 32 planes for two seconds, half of it collecting
        let cells: Vec<&str> = line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect();
        assert_eq!(cells, ["wal", "0", "0", "6000", "0", "50 %", "0 %", "50 %"]);
    }

    #[test]
    fn wrong_contents_stand_out() {
        let mut comparison = comparison();
        comparison.runs[4].integrity = "row 3 is missing".to_owned();
        let text = of_comparison(&comparison);
        assert!(text.contains("share: WRONG CONTENTS: row 3 is missing"), "{text}");
    }
}
