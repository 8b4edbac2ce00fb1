//! Cuts of what a host did to the blocks of a drive.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tantalum::{Profile, UNIT_BYTES};
use tantalum_crash_run::{BlockOutcome, BlockSettings, RunError, check_blocks, recorded_profile};
use tantalum_record::blocks::{BlockEvent, BlockTape};
use tantalum_report::Monitor;
use tempfile::TempDir;

const UNIT: u64 = UNIT_BYTES as u64;

/// Units of a record, which a host writes with one command.
const RECORD: u64 = 4;

/// A drive whose flash pages hold one unit, and whose cache holds few.
fn profile(atomic_write_units: u32) -> Profile {
    let mut profile = Profile { capacity_bytes: 8 << 20, ..Profile::load("tlc-nvme").unwrap() };
    (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 1);
    profile.flash.page_bytes = UNIT_BYTES as u32;
    profile.cache.bytes = 20 * UNIT;
    profile.limits.atomic_write_units = atomic_write_units;
    profile
}

/// A recording in a folder of its own.
fn recording(host: impl FnOnce(&BlockTape)) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.blocks");
    let tape = BlockTape::new(File::create_new(&path).unwrap(), &profile(1));
    host(&tape);
    tape.flush().unwrap();
    (folder, path)
}

/// Versions of eight records, one after the other, and each is acknowledged: after a flush, or before.
fn versions(tape: &BlockTape, flushes_first: bool) {
    for version in 1..=60_u64 {
        let (record, byte) = (version % 8, version as u8);
        let data = vec![byte; (RECORD * UNIT) as usize];
        tape.take(&BlockEvent::Write { offset: record * RECORD * UNIT, data: &data, fua: false });
        let ack = format!("{record} {byte}");
        match flushes_first {
            true => [BlockEvent::Flush, BlockEvent::Ack(&ack)],
            false => [BlockEvent::Ack(&ack), BlockEvent::Flush],
        }
        .iter()
        .for_each(|event| tape.take(event));
    }
}

/// A record's first byte is at least the version that was acknowledged last.
const IS_KEPT: &str = r#"
    while read -r record version; do
        found=$(od -An -tu1 -j $((record * 16384)) -N 1 disk | tr -d ' ')
        [ "$found" -ge "$version" ] || { echo "record $record: $found, not $version"; exit 1; }
    done < "$TANTALUM_ACKS""#;

/// All units of a record are the same.
const IS_WHOLE: &str = r#"
    for unit in 0 4 8 12 16 20 24 28; do
        for other in 1 2 3; do
            cmp -n 4096 -i $((unit * 4096)):$(((unit + other) * 4096)) disk disk || exit 1
        done
    done"#;

fn run(path: &Path, check: &str, profile: &Profile, save: Option<PathBuf>) -> Result<BlockOutcome, RunError> {
    let (recording, check) = (path.to_owned(), check.to_owned());
    let settings = BlockSettings { recording, check, check_seconds: 60, cuts: 120, seed: 1, save };
    check_blocks(&settings, profile, &Monitor::silent())
}

#[test]
fn what_is_flushed_before_it_is_acknowledged_survives() {
    let (_folder, path) = recording(|tape| versions(tape, true));
    let outcome = run(&path, IS_KEPT, &profile(1), None).unwrap();
    assert_eq!((outcome.acknowledged, outcome.flushes, outcome.failed), (60, 60, 0), "{outcome:?}");
    assert!(outcome.checked > 100, "{outcome:?}");
}

/// The findings are the same in each run, and their disks fail again.
#[test]
fn what_is_acknowledged_before_it_is_flushed_is_found_and_saved() {
    let (folder, path) = recording(|tape| versions(tape, false));
    let place = |name: &str| Some(folder.path().join(name));
    let outcome = run(&path, IS_KEPT, &profile(1), place("a")).unwrap();
    assert!(outcome.failed > 10 && outcome.failed == outcome.findings.len() as u64, "{outcome:?}");
    let again = run(&path, IS_KEPT, &profile(1), place("b")).unwrap();
    assert_eq!(outcome.failed, again.failed);
    for (finding, same) in outcome.findings.iter().zip(&again.findings) {
        assert_eq!(finding.flash_operation, same.flash_operation);
        assert_eq!(finding.check_said, same.check_said);
        let saved = finding.saved.as_ref().unwrap();
        let disk = |saved: &Path| fs::read(saved.join("dir/disk")).unwrap();
        assert!(disk(saved) == disk(same.saved.as_ref().unwrap()));
        let acks = fs::read_to_string(saved.join("acks")).unwrap();
        assert_eq!(acks.lines().count() as u64, finding.acknowledged);
    }
    let refused = run(&path, IS_KEPT, &profile(1), place("a"));
    assert!(matches!(refused, Err(RunError::PlaceInUse { .. })), "{refused:?}");
}

/// The same recording on two drives. Without the promise the check must be able to see a torn record.
#[test]
fn records_are_torn_unless_the_drive_promises_that_writes_of_their_size_are_not() {
    let (_folder, path) = recording(|tape| {
        for version in 1..=400_u64 {
            let data = vec![version as u8; (RECORD * UNIT) as usize];
            tape.take(&BlockEvent::Write { offset: version % 8 * RECORD * UNIT, data: &data, fua: false });
        }
        tape.take(&BlockEvent::Flush);
    });
    assert_eq!(recorded_profile(&path).unwrap(), profile(1));
    let torn = |atomic_write_units| run(&path, IS_WHOLE, &profile(atomic_write_units), None).unwrap().failed;
    assert_eq!(torn(RECORD as u32), 0);
    assert!(torn(1) > 5);
}

#[test]
fn what_cannot_be_tested_is_an_error() {
    let (_folder, path) = recording(|tape| versions(tape, true));
    assert!(matches!(run(&path, "false", &profile(1), None), Err(RunError::CheckFails { .. })));
    let (_folder, empty) = recording(|tape| tape.take(&BlockEvent::Ack("nothing")));
    assert!(matches!(run(&empty, "true", &profile(1), None), Err(RunError::NoFlashOperations { .. })));
    let (_folder, other) = recording(|tape| tape.take(&BlockEvent::Other("Copy")));
    let refused = run(&other, "true", &profile(1), None).unwrap_err().to_string();
    assert!(refused.contains("event 0") && refused.contains("Copy"), "{refused}");
    fs::write(&other, "something else").unwrap();
    assert!(matches!(run(&other, "true", &profile(1), None), Err(RunError::Recording { .. })));
}
