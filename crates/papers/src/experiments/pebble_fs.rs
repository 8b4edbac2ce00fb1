//! PebbleSSD's figures 7 to 10: log-structured file systems that clean by `remap` and sync by `fs_write` (Jin's thesis,
//! sections 4.4.3 and 4.4.4), in virtual time.
//!
//! *File write amplification* is counted as the thesis defines it: everything that the file system wrote to the drive,
//! contents and index, over the contents of files. A checkpoint at the end belongs to it, so that what `fs_write` leaves
//! for later is paid.

use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use tantalum::{Device, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{Content, FileId, FileKind, FileSystem, Names, NewFile};
use tantalum_lfs::{Cleaning, Indexing, Kind, LogFs, SyncCounters};
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::closed_loop::{Turn, serve};
use tantalum_workloads::filebench::{Filebench, Personality};

use super::printed::{self, PrintedClaim};
use super::{Run, drive_of};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies, planes and memory are kept.
const CAPACITY_BYTES: u64 = 2 << 30;

/// The file system's page cache.
const CACHE_BYTES: u64 = 64 << 20;

/// Filebench's operations before the cleaning, at scale 1.
const OPERATIONS: u64 = 100_000;

/// The part of filebench's files that fits on such a drive, at scale 1: 10,000 files of 128 KiB are 1.3 GB.
const FILES: f64 = 0.5;

/// Writers of figure 8.
const WRITERS: u32 = 4;

/// Bytes of each writer's file, at scale 1.
const FILE_BYTES: u64 = 64 << 20;

/// Synced writes for each figure, at scale 1.
const WRITES: u64 = 20_000;

/// Units of a synced write.
const UNITS: [u32; 5] = [1, 2, 4, 8, 16];

/// OLTP's operations at scale 1.
const OLTP_OPERATIONS: u64 = 200_000;

/// Virtual time between two write-backs, as a mount has them.
const WRITE_BACK_NS: Nanoseconds = 5_000_000_000;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("pebble_fs.toml", include_str!("pebble_fs.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_7: Cleaned,
    figure_8: Synced,
    figure_9: Faster,
    figure_10: Amplified,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cleaned {
    source: String,
    time: PrintedClaim,
    bytes: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Synced {
    source: String,
    throughput: PrintedClaim,
    amplification: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Faster {
    source: String,
    throughput: PrintedClaim,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Amplified {
    source: String,
    amplification: PrintedClaim,
}

const INDEXINGS: [(Indexing, &str); 2] =
    [(Indexing::Conventional, "conventional"), (Indexing::Nvm, "fs_write")];

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("pebblessd")?;
    profile.capacity_bytes = run.scaled(CAPACITY_BYTES, 512 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

fn format(run: &Run<'_>, cleaning: Cleaning, indexing: Indexing) -> Result<LogFs, ExperimentError> {
    let drive = Drive::new(Device::in_memory(&profile(run)?)?);
    Ok(LogFs::format_indexed(drive.client(), Kind::Nat, cleaning, indexing, CACHE_BYTES)?)
}

fn setup(run: &Run<'_>, more: String) -> Result<Vec<String>, ExperimentError> {
    let about = "file system lfs-nat (F2FS's kind), new, with a page cache of 64 MiB";
    Ok(vec![drive_of(&profile(run)?), about.to_owned(), more])
}

/// What a file system and its drive have done so far.
#[derive(Clone, Copy)]
struct Done {
    host_units: u64,
    flash_units: u64,
    content_units: u64,
    syncs: SyncCounters,
    now_ns: Nanoseconds,
}

impl Done {
    fn by(fs: &LogFs) -> Done {
        let device = fs.client().device();
        let counters = device.smart().counters;
        let flash_units = counters.flash_units.total();
        drop(device);
        Done {
            host_units: counters.host_units_written,
            flash_units,
            content_units: fs.content_units_written(),
            syncs: fs.syncs(),
            now_ns: fs.client().now_ns(),
        }
    }
}

/// What syncs cost between two moments, for the tables.
struct Cost {
    amplification: f64,
    /// Per unit of contents: units of the index, and units of flash programmed.
    index: f64,
    flash: f64,
    /// In percent of all syncs: those that wrote contents alone.
    listed_percent: f64,
    checkpoints: f64,
}

impl Cost {
    fn between(before: Done, after: Done) -> Cost {
        let contents = (after.content_units - before.content_units) as f64;
        let amplification = (after.host_units - before.host_units) as f64 / contents;
        let listed = (after.syncs.listed - before.syncs.listed) as f64;
        let indexed = (after.syncs.indexed - before.syncs.indexed) as f64;
        Cost {
            amplification,
            index: amplification - 1.0,
            flash: (after.flash_units - before.flash_units) as f64 / contents,
            listed_percent: 100.0 * listed / (listed + indexed).max(1.0),
            checkpoints: (after.syncs.checkpoints - before.syncs.checkpoints) as f64,
        }
    }
}

/// Figure 7.
pub(super) fn figure_7(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let mut tables = [
        ("time", "s"),
        ("written by the file system", "MiB"),
        ("programmed to flash", "MiB"),
        ("moved by remap", "MiB"),
    ]
    .map(|(title, unit)| Figures {
        title: format!("cleaning everything: {title}"),
        unit,
        columns: Personality::ALL.map(|personality| personality.name().to_owned()).into(),
        rows: Vec::new(),
    });
    for (cleaning, name) in [(Cleaning::Copy, "copy"), (Cleaning::Remap, "remap")] {
        let mut rows = [const { Vec::new() }; 4];
        for personality in Personality::ALL {
            let cleaned = clean(run, personality, cleaning)?;
            rows.iter_mut().zip(cleaned).for_each(|(row, figure)| row.push(figure));
        }
        for (table, ours) in tables.iter_mut().zip(rows) {
            table.rows.push(Row { name: name.to_owned(), ours, paper: None });
        }
    }
    let changes = |table: &Figures| Span::changes(&table.rows[1].ours, &table.rows[0].ours);
    let printed = &PRINTED.figure_7;
    let claims = vec![printed.time.beside(changes(&tables[0])), printed.bytes.beside(changes(&tables[1]))];
    let more = format!(
        "{} operations of each workload, the same for both; then segments are cleaned until none has anything to gain",
        run.scaled(OPERATIONS, 2000)
    );
    let mut outcome =
        Outcome::new("cleaning by remap beside copying", &printed.source, Time::Virtual, setup(run, more)?);
    outcome.figures = tables.into();
    outcome.claims = claims;
    Ok(outcome)
}

/// Ages a file system with a personality, and cleans it: seconds, MiB written, programmed and remapped.
fn clean(run: &Run<'_>, personality: Personality, cleaning: Cleaning) -> Result<[f64; 4], ExperimentError> {
    let mut fs = format(run, cleaning, Indexing::Conventional)?;
    let operations = run.scaled(OPERATIONS, 2000);
    let bar = run.monitor.bar(format!("{}, {cleaning:?}", personality.name()), operations);
    let mut bench = Filebench::prepare(&mut fs, personality, run.scale * FILES, run.seed, &bar)?;
    bench.run(operations, &bar)?;
    // what the workload left in memory is not the cleaning's
    fs.write_back().map_err(WorkloadError::from)?;
    let (before, moved) = (Done::by(&fs), fs.cleaner());
    fs.clean_all()?;
    let after = Done::by(&fs);
    let mib = |units: u64| units as f64 * UNIT_BYTES as f64 / f64::from(1 << 20);
    Ok([
        (after.now_ns - before.now_ns) as f64 / 1e9,
        mib(after.host_units - before.host_units),
        mib(after.flash_units - before.flash_units),
        mib(fs.cleaner().remapped_units - moved.remapped_units),
    ])
}

/// What a synced writer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// It writes over its file at random.
    Random,
    /// It appends to it.
    End,
}

/// Four writers, each with a file of its own.
struct Writers {
    fs: LogFs,
    files: Vec<FileId>,
    /// Where each one appends.
    ends: Vec<u64>,
    is_written: Vec<bool>,
    random: Xoshiro256PlusPlus,
    next_write_back_ns: Nanoseconds,
}

impl Writers {
    fn new(run: &Run<'_>, indexing: Indexing) -> Result<Writers, ExperimentError> {
        let mut fs = format(run, Cleaning::Copy, indexing)?;
        let bytes = file_bytes(run);
        let new = NewFile { kind: FileKind::File, permissions: 0o644, ..NewFile::default() };
        let mut files = Vec::new();
        for number in 0..WRITERS {
            let made = fs.create_in(FileId::ROOT, format!("{number}").as_bytes(), &new);
            let file = made.map_err(WorkloadError::from)?;
            let part = vec![number as u8; 1 << 20];
            for offset in (0..bytes).step_by(part.len()) {
                fs.write(file, offset, &part).map_err(WorkloadError::from)?;
            }
            files.push(file);
        }
        fs.sync_folder(FileId::ROOT).map_err(WorkloadError::from)?;
        fs.write_back().map_err(WorkloadError::from)?;
        let next_write_back_ns = fs.client().now_ns() + WRITE_BACK_NS;
        let random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
        let (ends, is_written) = (vec![bytes; files.len()], vec![false; files.len()]);
        Ok(Writers { fs, files, ends, is_written, random, next_write_back_ns })
    }

    /// A write that is sent to the drive, and in the next turn its sync: other writers' come in between.
    fn turn(
        &mut self,
        (place, data, bytes): (Place, &[u8], u64),
        client: usize,
        at_ns: Nanoseconds,
    ) -> Result<Turn, WorkloadError> {
        let file = self.files[client];
        self.fs.client_mut().begin_at(at_ns);
        if std::mem::take(&mut self.is_written[client]) {
            self.fs.sync_data(file)?;
            return Ok(Turn::Done(self.fs.client().now_ns()));
        }
        if at_ns >= self.next_write_back_ns {
            self.fs.write_back()?;
            self.next_write_back_ns = at_ns + WRITE_BACK_NS;
        }
        let length = data.len() as u64;
        let offset = match place {
            Place::Random => self.random.random_range(0..bytes / length) * length,
            Place::End => self.ends[client],
        };
        if place == Place::End {
            self.ends[client] += length;
        }
        self.fs.write(file, offset, data)?;
        self.fs.write_out(file)?;
        self.is_written[client] = true;
        Ok(Turn::Next(self.fs.client().now_ns()))
    }
}

fn file_bytes(run: &Run<'_>) -> u64 {
    run.scaled(FILE_BYTES, 16 << 20).next_multiple_of(1 << 20)
}

/// Throughput in MB/s, and what the syncs cost.
fn write_synced(
    run: &Run<'_>,
    indexing: Indexing,
    place: Place,
    units: u32,
) -> Result<(f64, Cost), ExperimentError> {
    let mut writers = Writers::new(run, indexing)?;
    let data = vec![0xa5; units as usize * UNIT_BYTES];
    // appended to, the files must stay small beside the drive
    let writes = run.scaled(WRITES, 1000).min((400 << 20) / data.len() as u64);
    let bar = run.monitor.bar(format!("{indexing:?}, {place:?}, {units} units"), writes);
    let (before, bytes) = (Done::by(&writers.fs), file_bytes(run));
    let work = (place, &data[..], bytes);
    let served =
        serve(WRITERS, writes, before.now_ns, &bar, |client, at_ns| writers.turn(work, client, at_ns))?;
    writers.fs.write_back().map_err(WorkloadError::from)?;
    let cost = Cost::between(before, Done::by(&writers.fs));
    Ok((served.per_second * data.len() as f64 / 1e6, cost))
}

/// Figure 8.
pub(super) fn figure_8(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let columns: Vec<String> =
        UNITS.iter().map(|units| bytes(u64::from(*units) * UNIT_BYTES as u64)).collect();
    let titles = [
        ("throughput of four synced writers", "MB/s"),
        ("file write amplification", "x"),
        ("flash programmed over contents", "x"),
        ("syncs that wrote contents alone", "%"),
        ("checkpoints", ""),
    ];
    let mut tables = titles.map(|(title, unit)| Figures {
        title: format!("{title}, by size of a write"),
        unit,
        columns: columns.clone(),
        rows: Vec::new(),
    });
    for (place, what) in [(Place::Random, "overwrites"), (Place::End, "appends")] {
        for (indexing, name) in INDEXINGS {
            let mut rows = [const { Vec::new() }; 5];
            for units in UNITS {
                let (throughput, cost) = write_synced(run, indexing, place, units)?;
                let figures =
                    [throughput, cost.amplification, cost.flash, cost.listed_percent, cost.checkpoints];
                rows.iter_mut().zip(figures).for_each(|(row, figure)| row.push(figure));
            }
            for (table, ours) in tables.iter_mut().zip(rows) {
                table.rows.push(Row { name: format!("{what}, {name}"), ours, paper: None });
            }
        }
    }
    let printed = &PRINTED.figure_8;
    let pairs = |table: &Figures, span: fn(&[f64], &[f64]) -> Span| {
        let rows = &table.rows;
        span(&rows[1].ours, &rows[0].ours).and(span(&rows[3].ours, &rows[2].ours))
    };
    let claims = vec![
        printed.throughput.beside(pairs(&tables[0], Span::factors)),
        printed.amplification.beside(pairs(&tables[1], Span::changes)),
    ];
    let more = format!(
        "files of {}, {} writes with fdatasync for each figure, fewer of large ones",
        bytes(file_bytes(run)),
        run.scaled(WRITES, 1000)
    );
    let mut outcome =
        Outcome::new("fs_write below synced writers", &printed.source, Time::Virtual, setup(run, more)?);
    outcome.figures = tables.into();
    outcome.claims = claims;
    Ok(outcome)
}

/// OLTP with both ways of indexing: operations in a second, and what its syncs cost.
fn oltp(run: &Run<'_>) -> Result<[(f64, Cost); 2], ExperimentError> {
    let one = |(indexing, name): (Indexing, &str)| -> Result<(f64, Cost), ExperimentError> {
        let mut fs = format(run, Cleaning::Copy, indexing)?;
        let operations = run.scaled(OLTP_OPERATIONS, 5000);
        let bar = run.monitor.bar(format!("OLTP, {name}"), operations);
        let mut bench = Filebench::prepare(&mut fs, Personality::Oltp, 1.0, run.seed, &bar)?;
        let before = Done::by(bench.file_system());
        let per_second = bench.run(operations, &bar)?;
        fs.write_back().map_err(WorkloadError::from)?;
        Ok((per_second, Cost::between(before, Done::by(&fs))))
    };
    let [conventional, listed] = INDEXINGS;
    Ok([one(conventional)?, one(listed)?])
}

/// Figure 9 (a).
pub(super) fn figure_9(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let both = oltp(run)?;
    let table = oltp_table("throughput of Filebench's OLTP", "operations/s", &both, |(rate, _)| *rate);
    let printed = &PRINTED.figure_9;
    let claims = vec![printed.throughput.beside(Span::factors(&table.rows[1].ours, &table.rows[0].ours))];
    let mut outcome =
        Outcome::new("fs_write below OLTP: throughput", &printed.source, Time::Virtual, oltp_setup(run)?);
    outcome.figures = vec![table];
    outcome.claims = claims;
    Ok(outcome)
}

/// Figure 10.
pub(super) fn figure_10(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let both = oltp(run)?;
    let table = oltp_table("file write amplification", "x", &both, |(_, cost)| cost.amplification);
    let printed = &PRINTED.figure_10;
    let claims = vec![printed.amplification.beside(Span::factors(&table.rows[1].ours, &table.rows[0].ours))];
    let mut outcome = Outcome::new(
        "fs_write below OLTP: file write amplification",
        &printed.source,
        Time::Virtual,
        oltp_setup(run)?,
    );
    outcome.figures = vec![
        table,
        oltp_table("units of the index for each of contents", "x", &both, |(_, cost)| cost.index),
        oltp_table("flash programmed over contents", "x", &both, |(_, cost)| cost.flash),
        oltp_table("syncs that wrote contents alone", "%", &both, |(_, cost)| cost.listed_percent),
        oltp_table("checkpoints", "", &both, |(_, cost)| cost.checkpoints),
    ];
    outcome.claims = claims;
    Ok(outcome)
}

fn oltp_table(
    title: &str,
    unit: &'static str,
    both: &[(f64, Cost); 2],
    figure: fn(&(f64, Cost)) -> f64,
) -> Figures {
    let row = |((_, name), measured): (&(Indexing, &str), &(f64, Cost))| Row {
        name: (*name).to_owned(),
        ours: vec![figure(measured)],
        paper: None,
    };
    let rows = INDEXINGS.iter().zip(both).map(row).collect();
    Figures { title: title.to_owned(), unit, columns: vec!["OLTP".to_owned()], rows }
}

fn oltp_setup(run: &Run<'_>) -> Result<Vec<String>, ExperimentError> {
    let operations = run.scaled(OLTP_OPERATIONS, 5000);
    setup(
        run,
        format!(
            "filebench's OLTP as it is defined, {operations} operations; TPC-C and LinkBench are left out"
        ),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::{Monitor, of_experiment};

    use super::*;

    fn run(experiment: fn(&Run<'_>) -> Result<Outcome, ExperimentError>, scale: f64) -> Outcome {
        let monitor = Monitor::silent();
        let run = Run { scale, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = experiment(&run).unwrap();
        println!("{}", of_experiment(&outcome));
        outcome
    }

    #[test]
    fn cleaning_by_remap_writes_a_fraction() {
        let outcome = run(figure_7, 0.05);
        let [time, written] = &outcome.claims[..] else { panic!("{:?}", outcome.claims) };
        assert!(time.ours.high < 0.0 && written.ours.high < -50.0, "{:?}", outcome.claims);
        let remapped = outcome.figures[3].row("remap");
        assert!(remapped.iter().all(|mib| *mib > 0.0), "{remapped:?}");
    }

    #[test]
    fn syncs_by_fs_write_write_next_to_nothing_but_contents() {
        let outcome = run(figure_8, 0.05);
        let amplification = outcome.figures[1].row("overwrites, fs_write");
        let conventional = outcome.figures[1].row("overwrites, conventional");
        assert!(amplification[0] < 1.3 && conventional[0] > 1.9, "{amplification:?} {conventional:?}");
        let listed = outcome.figures[3].row("overwrites, fs_write");
        assert!(listed.iter().all(|percent| *percent > 90.0), "{listed:?}");
    }

    #[test]
    fn oltp_is_amplified_less() {
        let outcome = run(figure_10, 0.05);
        let both = &outcome.figures[0].rows;
        assert!(both[1].ours[0] < both[0].ours[0], "{both:?}");
        assert!(run(figure_9, 0.05).claims[0].ours.low > 0.9);
    }
}
