//! Figure 7: cleaning everything.

use tantalum::UNIT_BYTES;
use tantalum_filesystem::FileSystem;
use tantalum_lfs::{Cleaning, Indexing, LfsKind};
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::filebench::{Filebench, Personality};

use super::cost::Done;
use super::cuts::{self, Survived};
use super::{PRINTED, Run, format, setup};
use crate::error::ExperimentError;

/// Filebench's operations before the cleaning, at scale 1.
const OPERATIONS: u64 = 100_000;

/// The part of filebench's files that fits on such a drive, at scale 1: 10,000 files of 128 KiB are 1.3 GB.
const FILES: f64 = 0.5;

const TITLES: [(&str, &str); 8] = [
    ("time", "s"),
    ("written by the file system", "MiB"),
    ("of that, contents", "MiB"),
    ("of that, nodes", "MiB"),
    ("of that, summaries, tables and checkpoints", "MiB"),
    ("read by the file system", "MiB"),
    ("programmed to flash", "MiB"),
    ("moved by remap", "MiB"),
];

/// The file systems. F2FS comes first as in the thesis, and then as it is today: what it overwrites in place leaves nothing
/// to clean.
const CASES: [(LfsKind, Indexing, &str); 3] = [
    (LfsKind::Nat, Indexing::Appended, "lfs-nat"),
    (LfsKind::Nat, Indexing::Conventional, "lfs-nat in place"),
    (LfsKind::Tree, Indexing::Conventional, "lfs-tree"),
];

/// Figure 7.
pub fn figure_7(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let mut tables = TITLES.map(|(title, unit)| Figures {
        title: format!("cleaning everything: {title}"),
        unit,
        columns: Personality::ALL.map(|personality| personality.name().to_owned()).into(),
        rows: Vec::new(),
    });
    let mut survived = Vec::new();
    for (kind, indexing, kind_name) in CASES {
        for (cleaning, name) in [(Cleaning::Copy, "copy"), (Cleaning::Remap, "remap")] {
            let name = format!("{kind_name}, {name}");
            let (rows, there) = clean_all(run, (kind, indexing), cleaning)?;
            for (table, ours) in tables.iter_mut().zip(rows) {
                table.rows.push(Row { name: name.clone(), ours, paper: None });
            }
            survived.push((name, there));
        }
    }
    let more = format!(
        "{} operations of each workload, the same for both; then segments are cleaned until none has anything to gain",
        run.scaled(OPERATIONS, 2000)
    );
    let source = &PRINTED.figure_7.source;
    let mut outcome =
        Outcome::new("cleaning by remap against copying", source, Time::Virtual, setup(run, more)?);
    outcome.claims = claims(&tables);
    outcome.figures = tables.into();
    outcome.figures.push(cuts::table(survived));
    Ok(outcome)
}

fn claims(tables: &[Figures; TITLES.len()]) -> Vec<PaperClaim> {
    let changes = |table: usize, kind: &str| {
        let [remap, copy] = ["remap", "copy"].map(|name| tables[table].row(&format!("{kind}, {name}")));
        Span::changes(remap, copy)
    };
    let printed = &PRINTED.figure_7;
    vec![
        printed.nat.time.beside(changes(0, "lfs-nat")),
        printed.nat.bytes.beside(changes(1, "lfs-nat")),
        printed.tree.bytes.beside(changes(1, "lfs-tree")),
    ]
}

/// A row of each table, and what power cuts left.
fn clean_all(
    run: &Run<'_>,
    kind: (LfsKind, Indexing),
    cleaning: Cleaning,
) -> Result<([Vec<f64>; TITLES.len()], Survived), ExperimentError> {
    let mut rows = [const { Vec::new() }; TITLES.len()];
    let mut survived = Survived::default();
    for personality in Personality::ALL {
        let (cleaned, there) = clean(run, kind, personality, cleaning)?;
        rows.iter_mut().zip(cleaned).for_each(|(row, figure)| row.push(figure));
        survived += there;
    }
    Ok((rows, survived))
}

/// Ages a file system with a personality, and cleans it: a figure for each of [`TITLES`]. Both ways of cleaning begin after a
/// checkpoint, and end with one that is counted.
fn clean(
    run: &Run<'_>,
    (kind, indexing): (LfsKind, Indexing),
    personality: Personality,
    cleaning: Cleaning,
) -> Result<([f64; TITLES.len()], Survived), ExperimentError> {
    let mut fs = format(run, kind, cleaning, indexing)?;
    let operations = run.scaled(OPERATIONS, 2000);
    let bar = run.monitor.bar(format!("{kind:?}, {}, {cleaning:?}", personality.name()), operations);
    let mut bench = Filebench::prepare(&mut fs, personality, run.scale * FILES, run.seed, &bar)?;
    bench.run(operations, &bar)?;
    // what the workload left in memory is not part of the cleaning
    fs.write_back().map_err(WorkloadError::from)?;
    let (before, moved) = (Done::by(&fs), fs.cleaner());
    fs.clean_all()?;
    let after = Done::by(&fs);
    let rest = |done: &Done| done.written.summaries + done.written.tables + done.written.roots;
    let mib = |units: u64| units as f64 * UNIT_BYTES as f64 / f64::from(1 << 20);
    let figures = [
        (after.now_ns - before.now_ns) as f64 / 1e9,
        mib(after.host_units - before.host_units),
        mib(after.written.contents - before.written.contents),
        mib(after.written.nodes - before.written.nodes),
        mib(rest(&after) - rest(&before)),
        mib(after.read_units - before.read_units),
        mib(after.flash_units - before.flash_units),
        mib(fs.cleaner().remapped_units - moved.remapped_units),
    ];
    Ok((figures, cuts::survive(run, fs)?))
}
