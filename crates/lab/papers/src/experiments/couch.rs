//! SHARE's figures 7 and 8 and table 2: the document store in its original way, and sharing.
//!
//! The store is this project's (`tantalum-couch`), built as the paper describes Couchbase's: nodes of 4 KiB, an update is
//! the document, the path to it in both trees, and a header. Its original way is configured as its users would: all inner
//! nodes and leaves in memory, documents without gaps, one write and one sync per batch.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{Profile, UNIT_BYTES};
use tantalum_couch::Way;
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, Row, Span, Time};

use super::binds::{self, Phase};
use super::couch_client::{Client, DOCUMENTS, Load, Measured, OPERATIONS, aged, documents_of};
use super::printed::{self, PrintedClaim};
use super::{Run, drive_of};
use crate::error::ExperimentError;

/// The paper's drive.
const CAPACITY_BYTES: u64 = 4 << 30;

/// The paper has 1 to 256.
const BATCHES: [usize; 5] = [1, 4, 16, 64, 256];

const WAYS: [(&str, Way); 2] = [("original", Way::Original), ("share", Way::Share)];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("couch.toml", include_str!("couch.toml")));

/// Of two figures and a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_7: Figure7,
    figure_8: Figure8,
    table_2: Table2,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure7 {
    source: String,
    throughput: PrintedClaim,
    written: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure8 {
    source: String,
    throughput: PrintedClaim,
}

/// Seconds and megabytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table2 {
    source: String,
    original: [f64; 2],
    share: [f64; 2],
    elapsed: PrintedClaim,
    written: PrintedClaim,
}

/// Figure 7: workload F.
pub(super) fn figure_7(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    // SHARE, 5.3.2: all operations read, modify and write
    let load = Load { letter: 'F', reads: 0.0, reads_first: true };
    let Figure7 { source, throughput, written } = &PRINTED.figure_7;
    measure(run, "YCSB F on a document store", source, load, throughput, Some(written))
}

/// Figure 8: workload A.
pub(super) fn figure_8(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let load = Load { letter: 'A', reads: 0.5, reads_first: false };
    let Figure8 { source, throughput } = &PRINTED.figure_8;
    measure(run, "YCSB A on a document store", source, load, throughput, None)
}

fn measure(
    run: &Run<'_>,
    title: &'static str,
    source: &'static str,
    load: Load,
    throughput: &PrintedClaim,
    written: Option<&PrintedClaim>,
) -> Result<Outcome, ExperimentError> {
    let profile = profile(run, CAPACITY_BYTES)?;
    let bar = run.monitor.bar("cases", (WAYS.len() * BATCHES.len()) as u64);
    let mut results: Vec<Vec<Measured>> = Vec::new();
    for (_, way) in WAYS {
        let aged = aged(run, &profile, way)?;
        let mut of_way = Vec::new();
        for batch in BATCHES {
            let volume = aged.try_clone().expect("a drive in memory can be copied");
            of_way.push(Client::new(run, volume, way)?.measure(run, load, batch)?);
            bar.advance(1)?;
        }
        results.push(of_way);
    }
    let mut outcome = Outcome::new(title, source, Time::Virtual, setup_of(run, &profile));
    outcome.figures = all_figures(load, &results);
    outcome.figures.extend(binds::figures(&profile, &phases_of(&results)));
    let columns = |of: fn(&Measured) -> f64, way: usize| results[way].iter().map(of).collect::<Vec<f64>>();
    let rates = |way| columns(|measured| measured.per_second, way);
    outcome.claims.push(throughput.beside(Span::factors(&rates(1), &rates(0))));
    if let Some(written) = written {
        let units = |way| columns(Measured::host_units, way);
        outcome.claims.push(written.beside(Span::factors(&units(0), &units(1))));
    }
    Ok(outcome)
}

/// The bottleneck in each case.
fn phases_of(results: &[Vec<Measured>]) -> Vec<(String, Phase)> {
    let of_way = |((name, _), results): (&(&str, Way), &Vec<Measured>)| -> Vec<(String, Phase)> {
        let named =
            |(batch, measured): (&usize, &Measured)| (format!("{name}, batch {batch}"), measured.phase);
        BATCHES.iter().zip(results).map(named).collect()
    };
    WAYS.iter().zip(results).flat_map(of_way).collect()
}

fn all_figures(load: Load, results: &[Vec<Measured>]) -> Vec<Figures> {
    let figures = |title: &str, unit, figure: &dyn Fn(&Measured) -> f64| Figures {
        title: format!("workload {}: {title}", load.letter),
        unit,
        columns: BATCHES.iter().map(|batch| format!("batch {batch}")).collect(),
        rows: rows(results, figure),
    };
    vec![
        figures("throughput", "operations/s", &|measured| measured.per_second),
        figures("the host writes, for each update", "units of 4 KiB", &Measured::host_units),
        figures("flash is programmed, for each update", "units of 4 KiB", &|measured| {
            measured.for_update(measured.counters.flash_units.total())
        }),
        figures("of them moved by garbage collection", "units of 4 KiB", &|measured| {
            measured.for_update(measured.counters.flash_units.copyback)
        }),
        figures("of them the drive's journal and checkpoints", "units of 4 KiB", &|measured| {
            let units = &measured.counters.flash_units;
            measured.for_update(units.journal + units.checkpoint)
        }),
        figures("of them the empty rest of pages", "units of 4 KiB", &|measured| {
            measured.for_update(measured.counters.flash_units.padding)
        }),
        figures("flushes", "for each update", &|measured| measured.for_update(measured.counters.flushes)),
    ]
}

fn rows(results: &[Vec<Measured>], figure: &dyn Fn(&Measured) -> f64) -> Vec<Row> {
    let row = |((name, _), results): (&(&str, Way), &Vec<Measured>)| Row {
        name: (*name).to_owned(),
        ours: results.iter().map(figure).collect(),
        paper: None,
    };
    WAYS.iter().zip(results).map(row).collect()
}

/// The set-up of the measurements of batches.
fn setup_of(run: &Run<'_>, profile: &Profile) -> Vec<String> {
    let operations = grouped(run.scaled((DOCUMENTS as f64 * OPERATIONS) as u64, 100));
    vec![
        format!("{}, aged", drive_of(profile)),
        format!(
            "{} documents of 4 KiB with their keys, one client, {operations} operations",
            documents_text(run)
        ),
        "batch: updates for each sync".to_owned(),
    ]
}

/// Table 2: compaction.
pub(super) fn table_2(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    // the drive keeps as many shared units as an eighth of its capacity, and compaction shares all documents
    let profile = profile(run, DOCUMENTS * UNIT_BYTES as u64 * 10)?;
    let (mut rows, mut phases): (Vec<CompactionRow>, _) = (Vec::new(), Vec::new());
    let printed = &PRINTED.table_2;
    let paper = [printed.original, printed.share];
    for ((name, way), paper) in WAYS.into_iter().zip(paper) {
        let mut client = Client::new(run, aged(run, &profile, way)?, way)?;
        client.measure(run, Load { letter: 'F', reads: 0.0, reads_first: false }, 16)?;
        let measured = client.compact()?;
        let megabytes = measured.counters.host_units_written as f64 * UNIT_BYTES as f64 / 1e6;
        let flash = measured.counters.flash_units.total() as f64 * UNIT_BYTES as f64 / 1e6;
        rows.push((name, [measured.phase.elapsed_ns as f64 / 1e9, megabytes, flash], paper));
        phases.push((name.to_owned(), measured.phase));
        run.monitor.check()?;
    }
    let setup = vec![
        format!("{}, aged", drive_of(&profile)),
        format!("{} documents of 4 KiB with their keys, after a tenth as many updates", documents_text(run)),
        "the paper's figures are of the full set-up: compare ratios".to_owned(),
    ];
    let title = "compaction of a document store";
    let mut outcome = Outcome::new(title, &printed.source, Time::Virtual, setup);
    outcome.figures = vec![
        compaction_figures(&rows, "elapsed", "s", 0),
        compaction_figures(&rows, "written", "MB", 1),
        compaction_figures(&rows, "programmed to flash", "MB", 2),
    ];
    outcome.figures.extend(binds::figures(&profile, &phases));
    let ratio = |column: usize| Span::one(rows[0].1[column] / rows[1].1[column]);
    outcome.claims = vec![printed.elapsed.beside(ratio(0)), printed.written.beside(ratio(1))];
    Ok(outcome)
}

fn documents_text(run: &Run<'_>) -> String {
    grouped(documents_of(run))
}

fn profile(run: &Run<'_>, capacity_bytes: u64) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("openssd-barefoot")?;
    // the staging area and the file system need their room at any scale
    profile.capacity_bytes = run.scaled(capacity_bytes, 64 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

/// A way, what its compaction took, and what the paper prints for it.
type CompactionRow = (&'static str, [f64; 3], [f64; 2]);

/// One column of the rows as figures.
fn compaction_figures(rows: &[CompactionRow], title: &str, unit: &'static str, column: usize) -> Figures {
    let row = |(name, ours, paper): &CompactionRow| Row {
        name: (*name).to_owned(),
        ours: vec![ours[column]],
        paper: paper.get(column).map(|figure| vec![*figure]),
    };
    Figures {
        title: title.to_owned(),
        unit,
        columns: vec!["compaction".to_owned()],
        rows: rows.iter().map(row).collect(),
    }
}
