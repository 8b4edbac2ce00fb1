//! From observations to the report.

use tantalum::{Effective, Profile};
use tantalum_fuse::report::{Marked, Report};
use tantalum_record::Event;
use tantalum_report::{Interrupted, LatencyUs, Monitor};
use tantalum_workloads::ageing::Ageing;
use tantalum_workloads::{Life, unit_bytes};

use crate::drive::with_capacitor;
use crate::error::MeasureError;
use crate::images::{Images, whole_units};
use crate::measurement::{
    Amplification, Asked, DriveAbout, Flushes, Measurement, ReplayFigures, Rewritten, by_folder, by_kind,
    by_path, over_time,
};
use crate::passing::UnitWrites;
use crate::postgres_wal::PostgresLogs;
use crate::recording::Recording;
use crate::replay::{Replayed, SecondCopies, Setting, replay};
use crate::sqlite_logs::SqliteLogs;
use crate::stop::Stop;
use crate::tally::Tally;
use crate::write_purpose::WritePurpose;

/// The name of the replay that changes nothing.
const AS_IT_RAN: &str = "as it ran";

/// A recording, and the mount's state at its two marks.
pub(crate) struct Observed {
    pub recording: Recording,
    pub begun: Marked,
    pub ended: Report,
    /// The time between the marks, by the machine's clock.
    pub seconds: f64,
    pub incomplete: Option<String>,
}

/// How the drive was aged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aged {
    pub seed: u64,
    pub ageing: Ageing,
}

/// What was measured, and how it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub name: &'a str,
    /// The exit code, if a program was measured.
    pub exit_code: Option<i32>,
    pub aged: Option<Aged>,
}

/// Counts, replays the recording if `replays`, and puts everything together.
pub(crate) fn evaluate(
    observed: &Observed,
    subject: Subject<'_>,
    replays: bool,
    stop: &Stop,
) -> Result<Measurement, MeasureError> {
    let profile = Profile::from_toml(&observed.begun.profile, "the mount's drive")?;
    let tally = Tally::of(&observed.recording)?;
    let mut incomplete = observed.incomplete.clone();
    if stop.presses() > 0 && subject.exit_code.is_some() {
        incomplete.get_or_insert_with(|| "Ctrl-C ended the program".to_owned());
    }
    if tally.bytes() == 0 && counters(observed).host_units_written == 0 {
        return Err(MeasureError::NothingWritten);
    }
    let mut replayed = Vec::new();
    if replays {
        let seed = subject.aged.map(|aged| aged.seed);
        let missing = replay_all(observed, &tally, &profile, seed, &stop.monitor(), &mut replayed)?;
        incomplete = incomplete.or(missing);
    }
    Ok(Measurement { incomplete, ..measurement(observed, subject, &profile, &tally, &replayed) })
}

fn measurement(
    observed: &Observed,
    subject: Subject<'_>,
    profile: &Profile,
    tally: &Tally,
    replayed: &[(String, Replayed)],
) -> Measurement {
    let written = replayed.first().map(|(_, replayed)| &replayed.written);
    let files = by_path(tally, written);
    let counters = counters(observed);
    let (begun, ended) = (&observed.begun.report.drive, &observed.ended.drive);
    let (drive_units, flash_units) = (counters.host_units_written, counters.flash_units.total());
    Measurement {
        measured: subject.name.to_owned(),
        exit_code: subject.exit_code,
        incomplete: None,
        seconds: observed.seconds,
        drive: DriveAbout {
            profile: profile.name.clone(),
            capacity_bytes: profile.capacity_bytes,
            effective: Effective::of(profile),
            endurance_cycles: profile.flash.endurance_cycles,
            aged: subject.aged.map(|aged| aged.ageing),
            time: begun.time.map_or_else(String::new, |time| format!("{time:?}").to_lowercase()),
        },
        asked: asked(tally),
        folders: by_folder(&files),
        kinds: by_kind(&files, written),
        rewritten: written.map(Rewritten::of).unwrap_or_default(),
        flushes: Flushes::between(begun, ended),
        amplification: Amplification::of(tally.bytes(), drive_units, flash_units),
        life: Life::of(profile, begun.smart.erase_count_mean, &counters, observed.seconds),
        replays: figures(replayed),
        over_time: over_time(tally),
        files,
        counters,
    }
}

fn counters(observed: &Observed) -> tantalum::Counters {
    observed.ended.drive.smart.counters.since(&observed.begun.report.drive.smart.counters)
}

fn asked(tally: &Tally) -> Asked {
    Asked {
        bytes: tally.bytes(),
        writes: tally.paths.iter().map(|path| path.writes).sum(),
        copied_bytes: tally.copied_bytes,
        syncs: tally.syncs.len(),
        sync_seconds: tally.sync_ns as f64 / 1e9,
        sync_us: (!tally.syncs.is_empty()).then(|| LatencyUs::of(&tally.syncs)),
    }
}

/// What was written to data files, to find it in logs, what only passed them, and images that a log's format tells of.
fn second_copies(recording: &Recording, tally: &Tally) -> Result<SecondCopies, MeasureError> {
    let (mut images, mut writes) = (Images::default(), UnitWrites::default());
    let (mut postgres, mut sqlite) = (PostgresLogs::default(), SqliteLogs::default());
    let mut events = recording.events()?;
    let mut number = 0;
    while let Some(stamped) = events.next()? {
        if let Event::Wrote { file, offset, data, .. } = stamped.event
            && let Some(path) = tally.path(file)
        {
            match path.kind {
                Some((WritePurpose::Data, _)) => {
                    for (unit, hash) in whole_units(offset, data) {
                        hash.into_iter().for_each(|hash| images.note(hash));
                        writes.note(number, (file, unit), hash);
                    }
                }
                Some((WritePurpose::Log, _)) => {
                    postgres.note(file, &path.path, offset, data);
                    sqlite.note(file, &path.path, offset, data);
                }
                _ => {}
            }
        }
        number += 1;
    }
    sqlite.find_databases(tally.path_of.iter().map(|(file, at)| (*file, tally.paths[*at].path.as_str())));
    Ok(SecondCopies { images, postgres, sqlite, passing: writes.passing() })
}

/// Does all replays, or as many as Ctrl-C leaves time for. Returns why some are missing.
fn replay_all(
    observed: &Observed,
    tally: &Tally,
    profile: &Profile,
    aged: Option<u64>,
    monitor: &Monitor,
    done: &mut Vec<(String, Replayed)>,
) -> Result<Option<String>, MeasureError> {
    let mut left_out = None;
    let second = second_copies(&observed.recording, tally)?;
    for (name, setting) in settings(observed, profile, aged, &second) {
        match replay(&observed.recording, tally, &setting, &name, monitor) {
            Ok(replayed) => done.push((name, replayed)),
            Err(MeasureError::Interrupted(Interrupted)) => {
                return Ok(Some("Ctrl-C ended the replays".to_owned()));
            }
            // a small drive may not have room for what a capacitor saves
            Err(MeasureError::Device { error, .. }) if !done.is_empty() => {
                left_out.get_or_insert_with(|| format!("the replay \"{name}\" is left out: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(left_out)
}

/// The first is as it ran; then come each property that it did not have, and all of them together.
fn settings<'a>(
    observed: &Observed,
    profile: &Profile,
    aged: Option<u64>,
    second: &'a SecondCopies,
) -> Vec<(String, Setting<'a>)> {
    let before = &observed.begun.report.volume;
    let after = &observed.ended.volume;
    let looked =
        |volume: &tantalum_filesystem::Statistics| volume.units_remapped + volume.units_without_duplicate;
    let shares = looked(after) > looked(before);
    let atomic = observed.begun.atomic_writes;
    let base = Setting { profile: profile.clone(), aged, duplicates: shares, without: None };
    let mut settings = vec![(AS_IT_RAN.to_owned(), base.clone())];
    let with_atomic = |setting: &Setting<'a>| Setting { without: Some(second), ..setting.clone() };
    let mut all = base.clone();
    if !atomic {
        settings.push(("atomic writes".to_owned(), with_atomic(&base)));
        all = with_atomic(&all);
    }
    if !shares {
        settings.push(("duplicates shared".to_owned(), Setting { duplicates: true, ..base.clone() }));
        all.duplicates = true;
    }
    if let Some(protected) = with_capacitor(profile) {
        settings.push(("a capacitor".to_owned(), Setting { profile: protected.clone(), ..base }));
        all.profile = protected;
    }
    if settings.len() > 2 {
        settings.push(("all of these".to_owned(), all));
    }
    settings
}

fn figures(replayed: &[(String, Replayed)]) -> Vec<ReplayFigures> {
    let Some((_, first)) = replayed.first() else { return Vec::new() };
    let saved = |before: u64, after: u64| match before {
        0 => 0.0,
        before => (before as f64 - after as f64) / before as f64 * 100.0,
    };
    let first_flash = first.counters.flash_units.total();
    let figures = |(name, replayed): &(String, Replayed)| {
        let flash = replayed.counters.flash_units.total();
        ReplayFigures {
            name: name.clone(),
            drive_bytes: unit_bytes(replayed.counters.host_units_written),
            flash_bytes: unit_bytes(flash),
            flash_units: replayed.counters.flash_units,
            flushes: replayed.counters.flushes,
            sync_seconds: replayed.sync_ns as f64 / 1e9,
            flash_saved_percent: saved(first_flash, flash),
            sync_saved_percent: saved(first.sync_ns, replayed.sync_ns),
            left_out_bytes: replayed.left_out_bytes,
            not_repeated: replayed.not_repeated,
        }
    };
    replayed.iter().map(figures).collect()
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
