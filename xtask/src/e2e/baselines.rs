//! Whether our log-structured file systems write more than the ones they are modelled on: F2FS and NILFS2 in a guest on a
//! served drive, `lfs-nat` and `lfs-tree` on a mounted one, all under the same program (`xtask/guest/writers.c`) with the
//! workloads of `pebble-fig8` and OLTP.
//!
//! The comparison is of the bytes the drive received for each 4 KiB block of contents written, from before the first
//! write until after a last sync of everything.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::guest::Guest;
use super::mounted::Mounted;
use super::served::Served;
use super::shell::Shell;

/// The drive of the experiments, as far as sizes matter.
const PROFILE: &str = "pebblessd";

/// File systems of the guest, as `baselines.sh` calls them. `f2fs-log` is F2FS without writing in place, as Linux 3.16 and
/// the thesis had it; `f2fs` has its defaults.
const THEIRS: [&str; 3] = ["f2fs", "f2fs-log", "nilfs2"];

/// Ours: a name here, and the options of `tantalum mount`. Checkpoints by time are due as often as in those that they are
/// modelled on: F2FS's `cp_interval`, NILFS2's `NILFS_SC_DEFAULT_TIMEOUT`.
const OURS: [(&str, [&str; 6]); 3] = [
    ("lfs-nat", ["--file-system", "lfs-nat", "--index", "conventional", "--sync-interval", "60"]),
    ("nat-append", ["--file-system", "lfs-nat", "--index", "append", "--sync-interval", "60"]),
    ("lfs-tree", ["--file-system", "lfs-tree", "--index", "conventional", "--sync-interval", "5"]),
];

/// Which of ours is modelled on which of theirs.
const PAIRS: [(&str, &str); 3] = [("lfs-nat", "f2fs"), ("nat-append", "f2fs-log"), ("lfs-tree", "nilfs2")];

/// By how much ours may write more before the step fails: checkpoints are timed, and runs differ in length. The table has
/// their number.
const SLACK: f64 = 0.05;

/// The same under `fsync`, which writes inodes for their times: `lfs-nat` has 663 pointers there and F2FS 923, so `lfs-nat`
/// more often writes a direct node as well.
const SLACK_WITH_TIMES: f64 = 0.15;

const CAPACITY: &str = "512M";

/// Files of a synced writer: those of `pebble-fig8` at that experiment's own scale.
const FILE_MIB: u32 = 16;

/// The same where cleaning is measured: together they take two thirds of the drive, and more is overwritten than is left
/// free.
const FULL_FILE_MIB: u32 = 85;

/// There, writes for each write that `TANTALUM_WRITES` asks for.
const FULL_WRITES: u64 = 15;

/// Synced writes of a workload; `TANTALUM_WRITES` asks for more, or fewer. `TANTALUM_WORKLOADS=OLTP,appends` takes those
/// whose names have one of these parts.
const WRITES: u64 = 1000;

/// A workload: the arguments of `writers`, in which FOLDER and COUNT are replaced.
struct Workload {
    title: String,
    arguments: String,
    count: u64,
    /// The drive is so full that it needs cleaning, which NILFS2 does not keep up with.
    is_full: bool,
}

/// What one file system wrote under one workload.
#[derive(Clone, Copy)]
struct Measured {
    host_units: u64,
    writes: u64,
    blocks: u64,
    /// Where the file system reports it.
    counts: Option<Counts>,
}

/// What a file system counts itself.
#[derive(Clone, Copy)]
struct Counts {
    /// Blocks that the cleaner moved.
    moved: u64,
    checkpoints: u64,
}

impl Counts {
    /// Of ours.
    fn of(report: &Value) -> Result<Counts, Failure> {
        let log = &report["volume"]["log"];
        let (moved, checkpoints) = (log["units_copied"].as_u64(), log["checkpoints"].as_u64());
        let counts = moved.zip(checkpoints).map(|(moved, checkpoints)| Counts { moved, checkpoints });
        counts.ok_or_else(|| Failure::Wrong(format!("no units_copied or checkpoints in {report}")))
    }

    fn since(self, before: Counts) -> Counts {
        Counts { moved: self.moved - before.moved, checkpoints: self.checkpoints - before.checkpoints }
    }
}

impl Measured {
    fn amplification(&self) -> f64 {
        self.host_units as f64 / self.blocks.max(1) as f64
    }

    /// From the last line of `writers`, and, in a guest, what the file system counts, before and after.
    fn new(said: &str, host_units: u64) -> Result<Measured, Failure> {
        let numbers: Vec<u64> = said.split([' ', ',']).filter_map(|word| word.parse().ok()).collect();
        let (writes, blocks, counts) = match numbers[..] {
            [writes, blocks] => (writes, blocks, None),
            [writes, blocks, moved_before, before, moved, checkpoints] => {
                let before = Counts { moved: moved_before, checkpoints: before };
                (writes, blocks, Some(Counts { moved, checkpoints }.since(before)))
            }
            _ => return Err(Failure::Wrong(format!("writers said {said:?}"))),
        };
        ensure(writes > 0, || format!("writers said {said:?}"))?;
        Ok(Measured { host_units, writes, blocks, counts })
    }
}

/// The workloads, each with this number of synced writes or slightly more.
fn workloads(writes: u64) -> Vec<Workload> {
    let mut all = Vec::new();
    for (sync, sizes) in [("fdatasync", &[4, 16][..]), ("fsync", &[4])] {
        for kib in sizes {
            for place in ["overwrites", "appends"] {
                all.push(Workload {
                    title: format!("{place} of {kib} KiB, {sync}"),
                    arguments: format!("synced,FOLDER,{sync},{place},{},COUNT,{FILE_MIB}", kib << 10),
                    count: writes,
                    is_full: false,
                });
            }
        }
        let arguments = format!("oltp,FOLDER,{sync},COUNT");
        all.push(Workload { title: format!("OLTP, {sync}"), arguments, count: writes, is_full: false });
    }
    for sync in ["fdatasync", "fsync"] {
        all.push(Workload {
            title: format!("overwrites of 64 KiB, full, {sync}"),
            arguments: format!("synced,FOLDER,{sync},overwrites,65536,COUNT,{FULL_FILE_MIB}"),
            count: FULL_WRITES * writes,
            is_full: true,
        });
    }
    all
}

impl Workload {
    /// Whether a file system is measured under it.
    fn runs_on(&self, system: &str) -> bool {
        !self.is_full || system != "nilfs2"
    }

    /// As arguments, with this folder and count; with a count of 0, the files are created.
    fn words(&self, folder: &str, count: u64) -> Vec<String> {
        let word = |word: &str| match word {
            "FOLDER" => folder.to_owned(),
            "COUNT" => count.to_string(),
            other => other.to_owned(),
        };
        self.arguments.split(',').map(word).collect()
    }
}

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let writes = std::env::var("TANTALUM_WRITES").unwrap_or_else(|_| WRITES.to_string());
    let writes =
        writes.parse().map_err(|_| Failure::Wrong(format!("TANTALUM_WRITES={writes} is not a number")))?;
    let wanted = std::env::var("TANTALUM_WORKLOADS").unwrap_or_default();
    let is_wanted = |workload: &Workload| wanted.split(',').any(|part| workload.title.contains(part));
    let workloads: Vec<Workload> = workloads(writes).into_iter().filter(is_wanted).collect();
    ensure(!workloads.is_empty(), || format!("TANTALUM_WORKLOADS={wanted} is part of no workload's name"))?;
    let guest = Guest::build(context, None)?;
    let mut columns = Vec::new();
    for (name, options) in OURS {
        columns.push((name, ours(context, folder, (name, &options), &guest.client("writers"), &workloads)?));
    }
    for (system, measured) in THEIRS.into_iter().zip(theirs(context, folder, &guest, &workloads)?) {
        columns.push((system, measured));
    }
    let table = table(&workloads, &columns);
    let dearer = dearer(&workloads, &columns);
    ensure(dearer.is_empty(), || format!("{}\n{table}", dearer.join("\n")))?;
    Ok(Done::Said(table))
}

/// One of ours under all workloads, each on a new drive.
fn ours(
    context: &Context,
    folder: &Path,
    (name, options): (&str, &[&str]),
    writers: &Path,
    workloads: &[Workload],
) -> Result<Column, Failure> {
    let mut measured = Vec::new();
    for (number, workload) in workloads.iter().enumerate() {
        let folder = folder.join(format!("{name}-{number}"));
        fs::create_dir(&folder)?;
        let all = [&["--time", "none", "--profile", PROFILE], options].concat();
        let mut mounted = Mounted::create(context, &folder, CAPACITY, &all)?;
        let place = mounted.folder.to_string_lossy().into_owned();
        Shell::new(writers).args(workload.words(&place, 0)).run()?;
        let before = mounted.stat()?;
        let said = Shell::new(writers).args(workload.words(&place, workload.count)).run()?;
        let after = mounted.stat()?;
        let units = units_written(&after)? - units_written(&before)?;
        let counts = Counts::of(&after)?.since(Counts::of(&before)?);
        measured.push(Some(Measured { counts: Some(counts), ..Measured::new(said.trim_end(), units)? }));
        mounted.unmount()?;
        fs::remove_dir_all(&folder)?;
    }
    Ok(measured)
}

/// Each of theirs under all workloads, in one guest, each on a new file system.
fn theirs(
    context: &Context,
    folder: &Path,
    guest: &Guest,
    workloads: &[Workload],
) -> Result<Vec<Column>, Failure> {
    let drive = Served::create(context, folder, "baselines.tant", PROFILE, &[])?;
    let cases = THEIRS.iter().flat_map(|system| workloads.iter().map(move |workload| (*system, workload)));
    let cases: Vec<(&str, &Workload)> = cases.filter(|(system, workload)| workload.runs_on(system)).collect();
    let words = |(system, workload): &(&str, &Workload)| {
        format!("{system}:{}:{}", workload.count, workload.arguments)
    };
    let arguments = cases.iter().map(words).collect::<Vec<String>>().join(" ");
    let parameters = format!("PORT={}\nNQN={}\nCASES='{arguments}'\n", drive.port, drive.name);
    let (mut all, mut before) = (Vec::new(), 0);
    let said = guest.run(folder, "baselines", &parameters, |question| {
        match question.split_once(' ').unwrap_or((question, "")) {
            ("begin", _) => before = units_written(&drive.stat()?)?,
            ("end", said) => all.push(Measured::new(said, units_written(&drive.stat()?)? - before)?),
            _ => return Err(Failure::Wrong(format!("the guest asks for {question:?}"))),
        }
        Ok(())
    })?;
    said.expect(4 * all.len())?;
    ensure(all.len() == cases.len(), || {
        format!("the guest did {} workloads, not {}", all.len(), cases.len())
    })?;
    drive.close()?;
    let mut all = all.into_iter();
    let column =
        |system: &&str| workloads.iter().map(|one| one.runs_on(system).then(|| all.next())?).collect();
    Ok(THEIRS.iter().map(column).collect())
}

fn units_written(report: &Value) -> Result<u64, Failure> {
    let units = report["smart"]["host_units_written"].as_u64();
    units.ok_or_else(|| Failure::Wrong(format!("no host_units_written in {report}")))
}

type Columns = [(&'static str, Column)];

/// What one file system wrote under each workload that runs on it.
type Column = Vec<Option<Measured>>;

fn table(workloads: &[Workload], columns: &Columns) -> String {
    let titles: String = columns.iter().map(|(system, _)| format!("{system:>11}")).collect();
    let mut lines = vec![format!("{:<36}{titles}{:>8}", "units for each block of contents", "writes")];
    for (row, workload) in workloads.iter().enumerate() {
        let figure =
            |one: &Option<Measured>| one.map_or("-".to_owned(), |one| format!("{:.3}", one.amplification()));
        let figures = columns.iter().map(|(_, measured)| format!("{:>11}", figure(&measured[row])));
        let writes = columns[0].1[row].map_or(0, |one| one.writes);
        lines.push(format!("{:<36}{}{writes:>8}", workload.title, figures.collect::<String>()));
        let counts: Vec<Option<Counts>> = columns.iter().map(|(_, measured)| measured[row]?.counts).collect();
        lines.push(counts_line("  checkpoints", &counts, |counts| counts.checkpoints));
        if counts.iter().flatten().any(|counts| counts.moved > 0) {
            lines.push(counts_line("  moved by the cleaner", &counts, |counts| counts.moved));
        }
    }
    lines.join("\n")
}

fn counts_line(title: &str, counts: &[Option<Counts>], of: fn(&Counts) -> u64) -> String {
    let figure = |counts: &Option<Counts>| counts.as_ref().map_or("-".to_owned(), |one| of(one).to_string());
    let figures = counts.iter().map(|counts| format!("{:>11}", figure(counts)));
    format!("{title:<36}{}", figures.collect::<String>())
}

/// Where ours write more than the ones they are modelled on.
fn dearer(workloads: &[Workload], columns: &Columns) -> Vec<String> {
    let of = |name: &str| columns.iter().find(|(system, _)| *system == name).map(|(_, measured)| measured);
    let mut found = Vec::new();
    for (ours, theirs) in PAIRS {
        let (Some(our_rows), Some(their_rows)) = (of(ours), of(theirs)) else { continue };
        for ((workload, our), their) in workloads.iter().zip(our_rows).zip(their_rows) {
            // They differ in how much a checkpoint writes, and in how often one is due to make holes usable.
            if workload.is_full {
                continue;
            }
            let (Some(our), Some(their)) = (our, their) else { continue };
            let (our, their) = (our.amplification(), their.amplification());
            let slack = if workload.title.ends_with(" fsync") { SLACK_WITH_TIMES } else { SLACK };
            if our > their * (1.0 + slack) {
                found.push(format!("{}: {ours} writes {our:.3}, {theirs} {their:.3}", workload.title));
            }
        }
    }
    found
}
