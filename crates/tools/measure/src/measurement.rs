//! What was measured.

use std::collections::BTreeMap;

use serde::Serialize;
use tantalum::{Counters, Effective, FlashUnits};
use tantalum_control::DriveReport;
use tantalum_report::LatencyUs;
use tantalum_workloads::ageing::Ageing;
use tantalum_workloads::{Life, unit_bytes};

use crate::owners::Written;
use crate::tally::{MOMENT_NS, Tally};
use crate::write_purpose::WritePurpose;

/// Points of the plot over time.
const POINTS: u64 = 60;

/// Everything that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The program with its arguments, or the folder that was watched.
    pub measured: String,
    /// The exit code of the program; 128 plus the signal's number if one ended it. `None` without a program.
    pub exit_code: Option<i32>,
    /// Why the measurement is not complete, if it is not.
    pub incomplete: Option<String>,
    /// How long it ran, in seconds of the machine.
    pub seconds: f64,
    /// The drive.
    pub drive: DriveAbout,
    /// What the program asked for.
    pub asked: Asked,
    /// By path, the most written first.
    pub files: Vec<PathWrites>,
    /// By folder, with everything below it.
    pub folders: Vec<FolderWrites>,
    /// Writes by kind of file.
    pub kinds: Vec<KindWrites>,
    /// How often units of files were written.
    pub rewritten: Rewritten,
    /// What the drive did meanwhile.
    pub counters: Counters,
    /// Flush commands to the drive.
    pub flushes: Flushes,
    /// Amplification.
    pub amplification: Amplification,
    /// The drive's lifetime at this rate.
    pub life: Life,
    /// The recording replayed on other drives.
    pub replays: Vec<ReplayFigures>,
    /// Bytes asked for over time.
    pub over_time: Vec<(f64, u64)>,
}

/// The drive and how it was used.
#[derive(Clone, Debug, Serialize)]
pub struct DriveAbout {
    /// The profile's name.
    pub profile: String,
    /// Logical capacity.
    pub capacity_bytes: u64,
    /// Over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Rated erases of a block.
    pub endurance_cycles: u32,
    /// How it was aged; `None` if it was not.
    pub aged: Option<Ageing>,
    /// Whether the program saw the drive's latencies.
    pub time: String,
}

/// What the program asked for.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// Bytes written to files.
    pub bytes: u64,
    /// Writes, as they reached the file system.
    pub writes: u64,
    /// Bytes that the file system copied within itself.
    pub copied_bytes: u64,
    /// `fsync`, `fdatasync` and syncs of folders.
    pub syncs: u64,
    /// Their total duration, in seconds of drive time.
    pub sync_seconds: f64,
    /// The duration of each, in microseconds of drive time; `None` without syncs.
    pub sync_us: Option<LatencyUs>,
}

/// Files of one path.
#[derive(Clone, Debug, Serialize)]
pub struct PathWrites {
    /// Below the mount.
    pub path: String,
    /// Its purpose.
    pub kind: WritePurpose,
    /// How that is known.
    pub known_by: &'static str,
    /// The number of successive files with this path.
    pub files: u64,
    /// The number of them that were removed.
    pub removed: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Syncs of them.
    pub syncs: u64,
    /// Their duration, in seconds of drive time.
    pub sync_seconds: f64,
    /// Bytes that went to the drive for them, in whole units; `None` if unknown.
    pub drive_bytes: Option<u64>,
}

/// A folder with everything below it.
#[derive(Clone, Debug, Serialize)]
pub struct FolderWrites {
    /// Below the mount; `.` is the mount itself.
    pub path: String,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that went to the drive; `None` if unknown.
    pub drive_bytes: Option<u64>,
}

/// A kind of files.
#[derive(Clone, Debug, Serialize)]
pub struct KindWrites {
    /// What the files hold.
    pub kind: WritePurpose,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that went to the drive; `None` if unknown.
    pub drive_bytes: Option<u64>,
}

/// How often units of files went to the drive.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rewritten {
    /// Different units.
    pub units: u64,
    /// Writes of them, divided by that.
    pub mean: f64,
    /// Writes of the most written unit.
    pub most: u32,
    /// Histogram of writes per unit: from, to, units.
    pub histogram: Vec<(u32, u32, u64)>,
}

/// Flush commands.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Flushes {
    /// The number of commands.
    pub count: u64,
    /// The duration of one, in microseconds of drive time.
    pub mean_us: f64,
}

/// Amplification: each is `None` if nothing was written there.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Amplification {
    /// Bytes to the drive, for each byte asked for.
    pub program: Option<f64>,
    /// Bytes to flash, for each byte to the drive.
    pub drive: Option<f64>,
    /// Bytes to flash, for each byte asked for.
    pub total: Option<f64>,
}

/// The recording on another drive.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayFigures {
    /// What was different.
    pub name: String,
    /// Bytes to the drive.
    pub drive_bytes: u64,
    /// Bytes to flash.
    pub flash_bytes: u64,
    /// Units programmed, by cause.
    pub flash_units: FlashUnits,
    /// Flush commands.
    pub flushes: u64,
    /// The duration of the program's syncs, in seconds of drive time.
    pub sync_seconds: f64,
    /// Flash saved compared with the first replay, in percent; negative if it took more.
    pub flash_saved_percent: f64,
    /// Time in syncs saved compared with the first replay, in percent.
    pub sync_saved_percent: f64,
    /// Bytes of page images left out of logs.
    pub left_out_bytes: u64,
    /// Operations that could not be repeated.
    pub not_repeated: u64,
}

/// By path, folder and kind.
pub(crate) fn by_path(tally: &Tally, written: Option<&Written>) -> Vec<PathWrites> {
    let to_drive =
        |place| written.map(|written| unit_bytes(written.by_path.get(&place).copied().unwrap_or(0)));
    let path = |(place, path): (usize, &crate::tally::PathTally)| {
        let (kind, known_by) = path.kind.expect("every path has a kind");
        PathWrites {
            path: if path.path.is_empty() { ".".to_owned() } else { path.path.clone() },
            kind,
            known_by,
            files: path.files,
            removed: path.removed,
            bytes: path.bytes,
            writes: path.writes,
            syncs: path.syncs,
            sync_seconds: path.sync_ns as f64 / 1e9,
            drive_bytes: to_drive(place),
        }
    };
    let mut paths: Vec<PathWrites> = tally.paths.iter().enumerate().map(path).collect();
    paths.sort_by(|a, b| {
        let most = |path: &PathWrites| path.drive_bytes.unwrap_or(0).max(path.bytes);
        most(b).cmp(&most(a)).then_with(|| a.path.cmp(&b.path))
    });
    paths
}

/// Each folder, with everything below it.
pub(crate) fn by_folder(files: &[PathWrites]) -> Vec<FolderWrites> {
    let mut folders: BTreeMap<String, (u64, Option<u64>)> = BTreeMap::new();
    for file in files {
        let mut folder = file.path.as_str();
        loop {
            folder = folder.rsplit_once('/').map_or(".", |(above, _)| above);
            let sums = folders.entry(folder.to_owned()).or_insert((0, Some(0)));
            sums.0 += file.bytes;
            sums.1 = sums.1.zip(file.drive_bytes).map(|(sum, bytes)| sum + bytes);
            if folder == "." {
                break;
            }
        }
    }
    let folders = folders.into_iter();
    folders.map(|(path, (bytes, drive_bytes))| FolderWrites { path, bytes, drive_bytes }).collect()
}

/// The sums of each kind.
pub(crate) fn by_kind(files: &[PathWrites], written: Option<&Written>) -> Vec<KindWrites> {
    let of = |kind| {
        let of_kind = || files.iter().filter(|file| file.kind == kind);
        let drive_bytes = written.map(|written| match kind {
            WritePurpose::Metadata => unit_bytes(written.metadata),
            _ => of_kind().filter_map(|file| file.drive_bytes).sum(),
        });
        KindWrites { kind, bytes: of_kind().map(|file| file.bytes).sum(), drive_bytes }
    };
    WritePurpose::ALL.into_iter().map(of).collect()
}

impl Rewritten {
    pub(crate) fn of(written: &Written) -> Rewritten {
        let times = || written.times.values().copied();
        let units = times().len() as u64;
        let most = times().max().unwrap_or(0);
        let all: u64 = times().map(u64::from).sum();
        let mut histogram = Vec::new();
        let mut from = 1;
        while from <= most {
            let to = if from == 1 { 1 } else { from * 2 - 1 };
            let count = times().filter(|times| (from..=to).contains(times)).count() as u64;
            histogram.push((from, to, count));
            from = to + 1;
        }
        Rewritten { units, mean: all as f64 / units.max(1) as f64, most, histogram }
    }
}

impl Amplification {
    /// From bytes asked for, units to the drive, and units to flash.
    pub(crate) fn of(asked_bytes: u64, drive_units: u64, flash_units: u64) -> Amplification {
        let ratio = |bytes: u64, of: u64| (of > 0).then(|| bytes as f64 / of as f64);
        let (drive, flash) = (unit_bytes(drive_units), unit_bytes(flash_units));
        Amplification {
            program: ratio(drive, asked_bytes),
            drive: ratio(flash, drive),
            total: ratio(flash, asked_bytes),
        }
    }
}

impl Flushes {
    pub(crate) fn between(begun: &DriveReport, ended: &DriveReport) -> Flushes {
        let sum = |report: &DriveReport| report.latency.flush.count as f64 * report.latency.flush.mean_ns;
        let count = ended.latency.flush.count.saturating_sub(begun.latency.flush.count);
        let mean_us = (sum(ended) - sum(begun)).max(0.0) / count.max(1) as f64 / 1000.0;
        Flushes { count, mean_us }
    }
}

/// Bytes asked for in intervals of equal length: the end of each, in seconds, and its bytes.
pub(crate) fn over_time(tally: &Tally) -> Vec<(f64, u64)> {
    let stretch_ns = tally.span_ns.div_ceil(POINTS).next_multiple_of(MOMENT_NS).max(MOMENT_NS);
    let stretches = tally.span_ns / stretch_ns + 1;
    let mut bytes = vec![0; stretches as usize];
    for moment in &tally.moments {
        bytes[(moment.at_ns / stretch_ns).min(stretches - 1) as usize] += moment.bytes;
    }
    let end = |index: usize| ((index as u64 + 1) * stretch_ns) as f64 / 1e9;
    bytes.into_iter().enumerate().map(|(index, bytes)| (end(index), bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str, kind: WritePurpose, bytes: u64, drive_bytes: u64) -> PathWrites {
        PathWrites {
            path: path.to_owned(),
            kind,
            known_by: "its name",
            files: 1,
            removed: 0,
            bytes,
            writes: 1,
            syncs: 0,
            sync_seconds: 0.0,
            drive_bytes: Some(drive_bytes),
        }
    }

    #[test]
    fn folders_hold_what_is_below_them() {
        let files = [
            path("a/b/c", WritePurpose::Data, 1, 4096),
            path("a/d", WritePurpose::Log, 2, 8192),
            path("e", WritePurpose::Data, 4, 0),
        ];
        let folders = by_folder(&files);
        let sums: Vec<_> =
            folders.iter().map(|folder| (&folder.path[..], folder.bytes, folder.drive_bytes)).collect();
        assert_eq!(sums, [(".", 7, Some(12288)), ("a", 3, Some(12288)), ("a/b", 1, Some(4096))]);
        let written = Written { metadata: 3, ..Written::default() };
        let kinds = by_kind(&files, Some(&written));
        let sums: Vec<_> = kinds.iter().map(|kind| (kind.bytes, kind.drive_bytes.unwrap())).collect();
        assert_eq!(sums, [(5, 4096), (2, 8192), (0, 0), (0, 12288)]);
    }

    #[test]
    fn units_are_counted_by_how_often_they_were_written() {
        let times = [(1, 1), (2, 1), (3, 2), (4, 3), (5, 9)];
        let times = times.into_iter().map(|(unit, times)| ((7, unit), times)).collect();
        let rewritten = Rewritten::of(&Written { times, ..Written::default() });
        assert_eq!((rewritten.units, rewritten.most, rewritten.mean), (5, 9, 3.2));
        assert_eq!(rewritten.histogram, [(1, 1, 2), (2, 3, 2), (4, 7, 0), (8, 15, 1)]);
        assert_eq!(Rewritten::of(&Written::default()).units, 0);
    }
}
