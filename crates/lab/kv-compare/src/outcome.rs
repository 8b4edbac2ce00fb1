//! The results: as text, as plots, and as the page in docs/.

use std::fmt::{self, Write};

use serde::Serialize;
use tantalum_report::table::{Align, Table, grouped};
use tantalum_report::{Figures, Row as Line};

use crate::engines::CacheSize;
use crate::work::Workload;

/// The parameters that all compared stores share.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Case {
    /// What they do.
    pub workload: Workload,
    /// Whether every commit is synced.
    pub synced: bool,
    /// The size of their caches.
    pub cache: CacheSize,
    /// The number of threads.
    pub threads: u64,
    /// Records updated by a commit, in a workload for which this can be chosen.
    pub batch: Option<u64>,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.work(), self.group())
    }
}

impl Case {
    /// The workload, with the records of a commit.
    fn work(&self) -> String {
        let batch = self.batch.map_or(String::new(), |batch| batch.to_string());
        format!("{}{batch}", self.workload.name())
    }

    fn commits(&self) -> &'static str {
        if self.synced { "synced" } else { "unsynced" }
    }

    /// What it has in common with the other workloads.
    fn group(&self) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{}, cache {}, {} thread{s}", self.commits(), self.cache.name(), self.threads)
    }
}

/// The results of one store in one case.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The store.
    pub store: String,
    /// How often it was measured.
    pub rounds: u64,
    /// Operations of all rounds.
    pub operations: u64,
    /// Operations per second in the median round.
    pub per_second: f64,
    /// The rate of the slowest round.
    pub per_second_least: f64,
    /// The rate of the quickest round.
    pub per_second_most: f64,
    /// The median duration of operations.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// Bytes sent to the disk for each byte of keys and values written; `None` if nothing was written.
    pub written_per_byte: Option<f64>,
    /// Bytes programmed into the flash of a Tantalum drive for them; `None` elsewhere.
    pub programmed_per_byte: Option<f64>,
    /// Bytes on the disk for each byte of stored keys and values.
    pub space_per_byte: f64,
}

impl Row {
    fn written(&self) -> String {
        optional(self.written_per_byte)
    }

    fn programmed(&self) -> String {
        optional(self.programmed_per_byte)
    }
}

fn optional(ratio: Option<f64>) -> String {
    ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
}

const COLUMNS: [(&str, Align); 13] = [
    ("work", Align::Left),
    ("commits", Align::Left),
    ("cache", Align::Left),
    ("threads", Align::Right),
    ("store", Align::Left),
    ("ops/s", Align::Right),
    ("least", Align::Right),
    ("most", Align::Right),
    ("p50 us", Align::Right),
    ("p99 us", Align::Right),
    ("written/byte", Align::Right),
    ("flash/byte", Align::Right),
    ("space/byte", Align::Right),
];

/// The table for a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&COLUMNS);
    for row in rows {
        table.push(vec![
            row.case.work(),
            row.case.commits().to_owned(),
            row.case.cache.name().to_owned(),
            row.case.threads.to_string(),
            row.store.clone(),
            whole(row.per_second),
            whole(row.per_second_least),
            whole(row.per_second_most),
            format!("{:.1}", row.p50_us),
            format!("{:.1}", row.p99_us),
            row.written(),
            row.programmed(),
            format!("{:.2}", row.space_per_byte),
        ]);
    }
    format!(
        "{}\nops/s: the median of the rounds; least and most: of the slowest and the quickest\n\
         written/byte: bytes sent to the disk for each byte of keys and values written\n\
         flash/byte: bytes that a Tantalum drive below programmed for them, for whatever reason\n\
         space/byte: bytes on the disk for each byte of keys and values that are there\n",
        table.render()
    )
}

fn whole(number: f64) -> String {
    grouped(number.round() as u64)
}

/// Rows by case, in the order of measurement; within a case by store.
fn by_case(rows: &[Row]) -> impl Iterator<Item = &[Row]> {
    rows.chunk_by(|a, b| a.case == b.case)
}

/// Cases that differ only in the workload, in the order of each group's first case.
fn groups(rows: &[Row]) -> Vec<Vec<&[Row]>> {
    let mut groups: Vec<Vec<&[Row]>> = Vec::new();
    for case in by_case(rows) {
        match groups.iter_mut().find(|group| group[0][0].case.group() == case[0].case.group()) {
            Some(group) => group.push(case),
            None => groups.push(vec![case]),
        }
    }
    groups
}

/// A table of one quantity for each group of cases, by workload and store. Workloads without that quantity are left
/// out.
pub fn figures(
    rows: &[Row],
    title: &str,
    unit: &'static str,
    quantity: impl Fn(&Row) -> Option<f64>,
) -> Vec<Figures> {
    let table = |group: Vec<&[Row]>| {
        let cases: Vec<&[Row]> = group.into_iter().filter(|case| quantity(&case[0]).is_some()).collect();
        let first = cases.first()?;
        let line = |store: usize| Line {
            name: first[store].store.clone(),
            ours: cases.iter().filter_map(|case| quantity(&case[store])).collect(),
            paper: None,
        };
        Some(Figures {
            title: format!("{title}{}", first[0].case.group()),
            unit,
            columns: cases.iter().map(|case| case[0].case.work()).collect(),
            rows: (0..first.len()).map(line).collect(),
        })
    };
    groups(rows).into_iter().filter_map(table).collect()
}

/// Operations per second.
pub fn rates(rows: &[Row]) -> Vec<Figures> {
    figures(rows, "", "operations/s", |row| Some(row.per_second))
}

/// The page for docs/: how it was made, a link to the plot if there is one, and tables with a column for each store.
pub fn markdown(rows: &[Row], command: &str, plot: Option<&str>) -> String {
    let mut page = format!(
        "# Figures of embedded stores\n\nWritten by `{command}` on {} cores. [The key-value store](key-value.md) says \
         what they mean. Each figure is the median of the rounds ({}).\n",
        std::thread::available_parallelism().map_or(1, usize::from),
        rows.first().map_or(0, |row| row.rounds),
    );
    if let Some(plot) = plot {
        write!(page, "\n![Operations per second]({plot})\n").expect("writing to a String cannot fail");
    }
    section(&mut page, rows, "Operations per second", |row| whole(row.per_second));
    section(&mut page, rows, "99th percentile latency of operations, us", |row| match row.p99_us {
        us if us < 100.0 => format!("{us:.1}"),
        us => whole(us),
    });
    section(&mut page, rows, "Bytes sent to the disk for each byte written", Row::written);
    if rows.iter().any(|row| row.programmed_per_byte.is_some()) {
        section(&mut page, rows, "Bytes programmed into flash for each byte written", Row::programmed);
    }
    section(&mut page, rows, "Bytes on the disk for each byte stored", |row| {
        format!("{:.2}", row.space_per_byte)
    });
    page.push_str(&over_first(rows));
    page
}

fn section(page: &mut String, rows: &[Row], title: &str, cell: impl Fn(&Row) -> String) {
    let Some(first) = by_case(rows).next() else { return };
    let stores: String = first.iter().map(|row| format!(" {} |", row.store)).collect();
    let rules = "---:|".repeat(first.len());
    write!(page, "\n## {title}\n\n| commits | cache | threads | work |{stores}\n|---|---|---|---|{rules}\n")
        .expect("writing to a String cannot fail");
    for case in by_case(rows) {
        let Case { cache, threads, .. } = case[0].case;
        let cells: String = case.iter().map(|row| format!(" {} |", cell(row))).collect();
        let (commits, cache, work) = (case[0].case.commits(), cache.name(), case[0].case.work());
        writeln!(page, "| {commits} | {cache} | {threads} | {work} |{cells}")
            .expect("writing to a String cannot fail");
    }
}

/// The rate of the first store divided by that of each other store: the lowest and highest of the workloads.
fn over_first(rows: &[Row]) -> String {
    let Some(first) = by_case(rows).next().filter(|case| case.len() > 1) else { return String::new() };
    let others: String = first[1..].iter().map(|row| format!(" {} |", row.store)).collect();
    let mut section = format!(
        "\n## Operations per second: {} over each of the others\n\nLowest and highest of the workloads.\n\n\
         | commits | cache | threads |{others}\n|---|---|---|{}\n",
        first[0].store,
        "---|".repeat(first.len() - 1)
    );
    for group in groups(rows) {
        let case = group[0][0].case;
        write!(section, "| {} | {} | {} |", case.commits(), case.cache.name(), case.threads)
            .expect("writing to a String cannot fail");
        for store in 1..group[0].len() {
            let factors = || group.iter().map(|case| case[0].per_second / case[store].per_second);
            let (least, most) = (factors().fold(f64::MAX, f64::min), factors().fold(0.0, f64::max));
            write!(section, " {least:.2} to {most:.2} |").expect("writing to a String cannot fail");
        }
        section.push('\n');
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let mut rows = Vec::new();
        for threads in [1, 2] {
            for (workload, rate) in [(Workload::A, 1000.0), (Workload::C, 4000.0)] {
                for (store, factor) in [("ours", 1.0), ("other", 2.0)] {
                    let case =
                        Case { workload, synced: true, cache: CacheSize::Quarter, threads, batch: None };
                    let per_second = rate * factor * threads as f64;
                    rows.push(Row {
                        case,
                        store: store.to_owned(),
                        rounds: 3,
                        operations: 10,
                        per_second: if store == "other" && workload == Workload::C {
                            rate
                        } else {
                            per_second
                        },
                        per_second_least: 1.0,
                        per_second_most: 1e9,
                        p50_us: 1.0,
                        p99_us: 2.5,
                        written_per_byte: (workload == Workload::A).then_some(3.0),
                        programmed_per_byte: None,
                        space_per_byte: 1.5,
                    });
                }
            }
        }
        rows
    }

    #[test]
    fn the_page_has_a_column_for_each_store_and_a_line_for_each_case() {
        let page = markdown(&rows(), "a command", Some("plot.svg"));
        for expected in [
            "`a command`",
            "![Operations per second](plot.svg)",
            "| commits | cache | threads | work | ours | other |\n|---|---|---|---|---:|---:|\n",
            "| synced | quarter | 1 | a | 1,000 | 2,000 |\n",
            "| synced | quarter | 2 | c | - | - |\n",
            "| synced | quarter | 2 | 0.50 to 2.00 |\n",
        ] {
            assert!(page.contains(expected), "{expected:?} is not in\n{page}");
        }
    }

    #[test]
    fn plots_are_by_workload_and_leave_out_what_has_no_figure() {
        let rates = rates(&rows());
        assert_eq!(rates.len(), 2);
        assert_eq!(rates[1].title, "synced, cache quarter, 2 threads");
        assert_eq!(
            (rates[1].columns.join(" "), &rates[1].rows[1].ours[..]),
            ("a c".into(), &[4000.0, 4000.0][..])
        );
        let written = figures(&rows(), "written: ", "bytes", |row| row.written_per_byte);
        assert_eq!((written[0].columns.join(" "), written[0].rows.len()), ("a".into(), 2));
    }

    #[test]
    fn the_table_says_all_of_a_row() {
        let text = text(&rows());
        assert!(text.contains("1,000,000,000") && text.contains("written/byte"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("quarter")).count(), rows().len());
    }
}
