//! How fast a mounted volume is, compared with a mount that only passes requests on to a file in memory; the
//! log-structured file systems, mounted the same way, compared with the volume; and small appends, compared with the
//! machine's own disk, beside what the other mount reaches: each append is one request.
//!
//! They run in turns, and the median of each counts, so that other load on the machine disturbs all alike. As on any
//! drive, figures are meaningful only once all of the flash has been written and the data lie as the measurement reads
//! them: a drive in steady state, with sequential patterns before random ones. The image is in memory, like the other
//! mount's file, and touching memory for the first time would not measure the drive.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::context::{Context, Done, Outcome};
use super::example::Example;
use super::failure::Failure;
use super::mounted::Mounted;
use super::shell::Shell;

/// What is mounted: a name, the file system with its index, the name that it is compared with, and the goal as a part of
/// the other's speed. A shared machine is too noisy to require it.
const SYSTEMS: [(&str, [&str; 2], &str, f64); 4] = [
    ("volume", ["volume", ""], "passthrough", 0.9),
    ("lfs-nat", ["lfs-nat", "conventional"], "volume", 0.7),
    ("nat-append", ["lfs-nat", "append"], "volume", 0.7),
    ("lfs-tree", ["lfs-tree", "conventional"], "volume", 0.7),
];

/// Appends in a round, of this many bytes, and the goal as a part of the disk's speed.
const APPENDS: u32 = 100_000;
const APPEND_BYTES: usize = 100;
const APPEND_AIM: f64 = 0.5;

const ROUNDS: usize = 5;
const SECONDS: &str = "--runtime=2";
const FILE_BYTES: &str = "--size=512M";

/// The drive, and how often the file is written before measuring: more than all of the flash.
const CAPACITY: &str = "1GiB";
const FILLS: usize = 4;

/// A measurement: name, fio's pattern and block size, and where fio puts the figure.
struct Pattern {
    name: &'static str,
    arguments: [&'static str; 3],
    direction: &'static str,
    /// Operations per second; otherwise bytes.
    counts_operations: bool,
}

const PATTERNS: [Pattern; 5] = [
    Pattern {
        name: "1 MiB write",
        arguments: ["--rw=write", "--bs=1M", "--iodepth=4"],
        direction: "write",
        counts_operations: false,
    },
    Pattern {
        name: "1 MiB random write",
        arguments: ["--rw=randwrite", "--bs=1M", "--iodepth=4"],
        direction: "write",
        counts_operations: false,
    },
    Pattern {
        name: "1 MiB read",
        arguments: ["--rw=read", "--bs=1M", "--iodepth=4"],
        direction: "read",
        counts_operations: false,
    },
    Pattern {
        name: "4 KiB random read, QD 16",
        arguments: ["--rw=randread", "--bs=4k", "--iodepth=16"],
        direction: "read",
        counts_operations: true,
    },
    Pattern {
        name: "4 KiB random write, QD 16",
        arguments: ["--rw=randwrite", "--bs=4k", "--iodepth=16"],
        direction: "write",
        counts_operations: true,
    },
];

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let memory = tempfile::Builder::new().prefix("tantalum-e2e-").tempdir_in("/dev/shm");
    let Ok(memory) = memory else { return Ok(Done::LeftOut("no /dev/shm".to_owned())) };
    let source = memory.path().join("source");
    fs::create_dir(&source)?;
    let passthrough = Example::start(context, "passthrough", &source, folder.join("passthrough"))?;
    let mut mounts = Vec::new();
    for (name, [system, index], ..) in SYSTEMS {
        let folder = memory.path().join(name);
        fs::create_dir(&folder)?;
        let mut options = vec!["--time", "none", "--file-system", system];
        if !index.is_empty() {
            options.extend(["--index", index]);
        }
        mounts.push(Mounted::create(context, &folder, CAPACITY, &options)?);
    }
    let mounted = SYSTEMS.iter().zip(&mounts).map(|((name, ..), mount)| (*name, mount.folder.as_path()));
    let places: Vec<(&str, &Path)> =
        std::iter::once(("passthrough", passthrough.folder.as_path())).chain(mounted).collect();
    for (_, place) in std::iter::repeat_n(&places, FILLS).flatten() {
        fio(place, &["--rw=write", "--bs=1M", "--iodepth=4", "--end_fsync=1"])?;
    }
    let lines: Result<Vec<String>, Failure> =
        PATTERNS.iter().map(|pattern| pattern.beside_each_other(&places)).collect();
    let mut lines = lines?;
    let options = ["--time", "none", "--write-back"];
    let mut gathering = Mounted::create(context, &memory.path().join("gathering"), CAPACITY, &options)?;
    let appended = [
        ("disk", folder),
        places[0],
        ("volume", mounts[0].folder.as_path()),
        ("write-back", gathering.folder.as_path()),
    ];
    lines.push(appends(&appended)?);
    gathering.unmount()?;
    mounts.iter_mut().try_for_each(Mounted::unmount)?;
    drop(passthrough);
    Ok(Done::Said(lines.join("\n")))
}

/// Appends that nobody syncs, and closing the file: a line for each place but the first, which is what they are compared
/// with.
fn appends(places: &[(&str, &Path)]) -> Result<String, Failure> {
    let figures = in_turns(places, |place| {
        // the other mount cannot remove files
        let mut file = File::create(place.join("appends"))?;
        let begun = Instant::now();
        for _ in 0..APPENDS {
            file.write_all(&[b'x'; APPEND_BYTES])?;
        }
        drop(file);
        let seconds = begun.elapsed().as_secs_f64();
        Ok(f64::from(APPENDS) / seconds)
    })?;
    let (name, unit) = (format!("append of {APPEND_BYTES} bytes"), ("per second", 1.0));
    let line = |index: usize| {
        let beside = (places[0].0, &figures[0][..]);
        line(&name, unit, (places[index].0, &figures[index]), beside, APPEND_AIM)
    };
    Ok((1..places.len()).map(line).collect::<Vec<_>>().join("\n"))
}

/// The figures of each place's rounds.
fn in_turns(
    places: &[(&str, &Path)],
    measure: impl Fn(&Path) -> Result<f64, Failure>,
) -> Result<Vec<Vec<f64>>, Failure> {
    let mut figures = vec![Vec::new(); places.len()];
    for _ in 0..ROUNDS {
        for (figures, (_, place)) in figures.iter_mut().zip(places) {
            figures.push(measure(place)?);
        }
    }
    Ok(figures)
}

/// The medians of two places' rounds, their ratio, and the least and the greatest ratio of a round.
fn line(
    what: &str,
    (unit, scale): (&str, f64),
    (name, ours): (&str, &[f64]),
    (beside, other): (&str, &[f64]),
    aim: f64,
) -> String {
    let mut ratios: Vec<f64> = ours.iter().zip(other).map(|(ours, other)| ours / other).collect();
    ratios.sort_by(f64::total_cmp);
    let (ours, other) = (median(ours), median(other));
    format!(
        "               {what:<26} {name:<10} {:>9.0} {unit}, {beside} {:>9.0}: {:.2} ({:.2} to {:.2}), aim {aim}",
        ours * scale,
        other * scale,
        ours / other,
        ratios[0],
        ratios[ratios.len() - 1],
    )
}

impl Pattern {
    /// A line for each of [`SYSTEMS`].
    fn beside_each_other(&self, places: &[(&str, &Path)]) -> Result<String, Failure> {
        let figures = in_turns(places, |place| self.measure(place))?;
        let of = |wanted: &str| places.iter().zip(&figures).find(|((name, _), _)| *name == wanted);
        let unit = if self.counts_operations { ("IOPS", 1.0) } else { ("MB/s", 1e-6) };
        let lines = SYSTEMS.map(|(system, _, beside, aim)| {
            let (Some((_, ours)), Some((_, other))) = (of(system), of(beside)) else { return String::new() };
            line(self.name, unit, (system, ours), (beside, other), aim)
        });
        Ok(lines.join("\n"))
    }

    /// Operations or bytes per second.
    fn measure(&self, place: &Path) -> Result<f64, Failure> {
        let mut arguments = self.arguments.to_vec();
        arguments.extend(["--time_based", SECONDS, "--output-format=json"]);
        let printed = fio(place, &arguments)?;
        let start = printed.find('{').unwrap_or(0);
        let report: Value = serde_json::from_str(&printed[start..])?;
        let field = if self.counts_operations { "iops" } else { "bw_bytes" };
        let figure = report["jobs"][0][self.direction][field].as_f64();
        figure.ok_or_else(|| Failure::Wrong(format!("fio does not report {field}: {printed}")))
    }
}

fn median(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn fio(place: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let common = ["--name=speed", "--ioengine=libaio", "--direct=1", "--filename=file", FILE_BYTES];
    Shell::new("fio").args(common).args(arguments).folder(place).run()
}
