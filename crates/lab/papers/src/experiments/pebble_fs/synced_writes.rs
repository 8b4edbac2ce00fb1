//! Figure 8: four writers with a sync after each write.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::{Content, FileId, FileKind, FileSystem, Names, NewFile};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::closed_loop::{Turn, serve};

use super::cost::{Cost, Done};
use super::cuts::{self, Survived};
use super::{BASELINES, FS_WRITE, KINDS, PRINTED, Run, format, indexings, setup};
use crate::error::ExperimentError;

const WRITERS: u32 = 4;

/// Bytes of each writer's file, at scale 1.
const FILE_BYTES: u64 = 64 << 20;

/// Synced writes for each figure, at scale 1.
const WRITES: u64 = 20_000;

/// Units of a synced write.
const UNITS: [u32; 5] = [1, 2, 4, 8, 16];

/// Virtual time between two write-backs, as a mount has them.
const WRITE_BACK_NS: Nanoseconds = 5_000_000_000;

const PLACES: [(WriteOrder, &str); 2] = [(WriteOrder::Random, "overwrites"), (WriteOrder::End, "appends")];

const TITLES: [(&str, &str); 5] = [
    ("throughput of four synced writers", "MB/s"),
    ("file write amplification", "x"),
    ("flash programmed over contents", "x"),
    ("syncs that wrote contents alone", "%"),
    ("checkpoints", ""),
];

/// The pattern of a synced writer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteOrder {
    /// It overwrites its file at random.
    Random,
    /// The job appends to its file.
    End,
}

/// Four writers, each with its own file.
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
    fn new(run: &Run<'_>, kind: LfsKind, indexing: Indexing) -> Result<Writers, ExperimentError> {
        let mut fs = format(run, kind, Cleaning::Copy, indexing)?;
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

    /// A write is sent to the drive, and synced in the next turn, so that other writers' requests come in between.
    fn turn(
        &mut self,
        (place, data, bytes): (WriteOrder, &[u8], u64),
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
            WriteOrder::Random => self.random.random_range(0..bytes / length) * length,
            WriteOrder::End => self.ends[client],
        };
        if place == WriteOrder::End {
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

/// Throughput in MB/s, what the syncs cost, and what power cuts left.
fn write_synced(
    run: &Run<'_>,
    kind: LfsKind,
    indexing: Indexing,
    place: WriteOrder,
    units: u32,
) -> Result<(f64, Cost, Survived), ExperimentError> {
    let mut writers = Writers::new(run, kind, indexing)?;
    let data = vec![0xa5; units as usize * UNIT_BYTES];
    // when appended to, the files must stay small compared with the drive
    let writes = run.scaled(WRITES, 1000).min((400 << 20) / data.len() as u64);
    let bar = run.monitor.bar(format!("{kind:?}, {indexing:?}, {place:?}, {units} units"), writes);
    let (before, bytes) = (Done::by(&writers.fs), file_bytes(run));
    let work = (place, &data[..], bytes);
    let served =
        serve(WRITERS, writes, before.now_ns, &bar, |client, at_ns| writers.turn(work, client, at_ns))?;
    writers.fs.write_back().map_err(WorkloadError::from)?;
    let cost = Cost::between(before, Done::by(&writers.fs));
    let survived = cuts::survive(run, writers.fs)?;
    Ok((served.per_second * data.len() as f64 / 1e6, cost, survived))
}

/// Figure 8.
pub fn figure_8(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let mut tables = TITLES.map(|(title, unit)| Figures {
        title: format!("{title}, by size of a write"),
        unit,
        columns: UNITS.iter().map(|units| bytes(u64::from(*units) * UNIT_BYTES as u64)).collect(),
        rows: Vec::new(),
    });
    let mut survived = Vec::new();
    for (kind, kind_name) in KINDS {
        for (place, what) in PLACES {
            for &(indexing, name) in indexings(kind) {
                let name = format!("{kind_name}, {what}, {name}");
                let (rows, there) = measure(run, kind, place, indexing)?;
                for (table, ours) in tables.iter_mut().zip(rows) {
                    table.rows.push(Row { name: name.clone(), ours, paper: None });
                }
                survived.push((name, there));
            }
        }
    }
    let more = format!(
        "files of {}, {} writes with fdatasync for each figure, fewer of large ones",
        bytes(file_bytes(run)),
        run.scaled(WRITES, 1000)
    );
    let source = &PRINTED.figure_8.source;
    let mut outcome = Outcome::new("fs_write under synced writers", source, Time::Virtual, setup(run, more)?);
    outcome.claims = claims(&tables);
    outcome.figures = tables.into();
    outcome.figures.push(cuts::table(survived));
    Ok(outcome)
}

/// A row of each table, and what power cuts left.
fn measure(
    run: &Run<'_>,
    kind: LfsKind,
    place: WriteOrder,
    indexing: Indexing,
) -> Result<([Vec<f64>; TITLES.len()], Survived), ExperimentError> {
    let mut rows = [const { Vec::new() }; TITLES.len()];
    let mut survived = Survived::default();
    for units in UNITS {
        let (throughput, cost, there) = write_synced(run, kind, indexing, place, units)?;
        let figures = [throughput, cost.amplification, cost.flash, cost.listed_percent, cost.checkpoints];
        rows.iter_mut().zip(figures).for_each(|(row, figure)| row.push(figure));
        survived += there;
    }
    Ok((rows, survived))
}

fn claims(tables: &[Figures; TITLES.len()]) -> Vec<PaperClaim> {
    let compared = |table: usize, (kind, baseline): (&str, &str), span: fn(&[f64], &[f64]) -> Span| {
        let row = |place: &str, name: &str| tables[table].row(&format!("{kind}, {place}, {name}"));
        let [first, second] = PLACES.map(|(_, place)| span(row(place, FS_WRITE), row(place, baseline)));
        first.and(second)
    };
    let of_baseline = |(baseline, printed): ((&str, &str), &super::printed::SyncedKind)| {
        [
            printed.throughput.beside(compared(0, baseline, Span::factors)),
            printed.amplification.beside(compared(1, baseline, Span::changes)),
        ]
    };
    BASELINES.into_iter().zip(PRINTED.figure_8.kinds()).flat_map(of_baseline).collect()
}
