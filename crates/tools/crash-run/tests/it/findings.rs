//! Recordings of programs that do not survive power loss, each of which must be found; and of correct ones.

use std::fs::{self, File};
use std::io::Write;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::common::{create, old, outcome, recording, rename, settings, write};
use tantalum_crash_run::operation::{Attribute, Operation, ROOT};
use tantalum_crash_run::{
    Acks, CrashTest, Losses, RunError, SavedFinding, Settings, WithoutLoss, check, check_again,
};
use tantalum_report::Monitor;

/// The old file, or the new one; the new one once the program has acknowledged it.
const REPLACED: &str = r#"
    test -s "$TANTALUM_ACKS" && { test "$(cat config)" = new-contents; exit; }
    case "$(cat config)" in old-contents|new-contents) ;; *) exit 1 ;; esac
"#;

#[test]
fn a_rename_without_a_sync_of_the_file_is_found() {
    let program = [
        create("config.tmp", 2),
        write(2, 0, "new-contents"),
        rename("config.tmp", "config"),
        Operation::SyncFolder(ROOT),
    ];
    let outcome = outcome(&recording(&old(), &program), REPLACED);
    assert_eq!(outcome.findings.len(), 1, "{:#?}", outcome.findings);
    let finding = &outcome.findings[0];
    assert_eq!(finding.saved_by, ["fsync config.tmp after write to config.tmp"]);
    assert!(finding.lost[0].starts_with("2. write 12 bytes at 0 of config.tmp"), "{finding:?}");
    assert_eq!(finding.there, ["3. rename config.tmp to config"]);
}

#[test]
fn a_rename_without_a_sync_of_the_folder_is_found() {
    let program = [
        create("config.tmp", 2),
        write(2, 0, "new-contents"),
        Operation::Sync(2),
        rename("config.tmp", "config"),
    ];
    let outcome = outcome(&recording(&old(), &program), REPLACED);
    assert_eq!(outcome.findings.len(), 1, "{:#?}", outcome.findings);
    assert_eq!(outcome.findings[0].saved_by, ["fsync of the folder after rename config.tmp to config"]);
}

#[test]
fn a_file_that_is_replaced_well_has_no_finding() {
    let program = [
        create("config.tmp", 2),
        write(2, 0, "new-contents"),
        Operation::Sync(2),
        rename("config.tmp", "config"),
        Operation::SyncFolder(ROOT),
    ];
    let outcome = outcome(&recording(&old(), &program), REPLACED);
    assert_eq!((outcome.failed, outcome.cuts), (0, 6), "{:#?}", outcome.findings);
    assert!(outcome.checked > 3 && outcome.checked < outcome.outcomes, "{outcome:?}");
}

#[test]
fn a_record_that_is_taken_for_whole_by_its_first_byte_is_found() {
    let record = "R".repeat(1500);
    let program = [write(1, 0, &record), Operation::SyncData(1)];
    let setup = [create("log", 1)];
    let script =
        r#"test "$(head -c 1 log)" = R && test "$(tr -cd R < log | wc -c)" != 1500 && exit 1; exit 0"#;
    let found = outcome(&recording(&setup, &program), script);
    assert_eq!(found.findings.len(), 1, "{:#?}", found.findings);
    // a check that only counts what is there passes
    let script =
        r#"n=$(tr -cd R < log | wc -c); test -s "$TANTALUM_ACKS" && test $n != 1500 && exit 1; exit 0"#;
    assert_eq!(outcome(&recording(&setup, &program), script).failed, 0);
}

#[test]
fn two_files_that_must_agree_are_found() {
    let setup = [create("a", 1), write(1, 0, "1"), create("b", 2), write(2, 0, "1")];
    let program = [write(1, 0, "2"), Operation::Sync(1), write(2, 0, "2"), Operation::Sync(2)];
    let outcome = outcome(&recording(&setup, &program), r#"test "$(cat a)" = "$(cat b)""#);
    assert_eq!(outcome.findings.len(), 1, "{:#?}", outcome.findings);
    assert!(outcome.findings[0].saved_by.is_empty(), "no sync helps");
}

#[test]
fn a_finding_without_a_loss_hides_no_other() {
    // the check dislikes a state between two operations, and that the program says `done` before its data is durable
    let setup = [create("a", 1), write(1, 0, "1")];
    let program = [
        Operation::Change(1, Attribute::Permissions(0o600)),
        Operation::Change(1, Attribute::Permissions(0o644)),
        write(1, 0, "2"),
    ];
    let script = r#"
        test "$(stat -c %a a)" = 600 && exit 1
        test ! -s "$TANTALUM_ACKS" || test "$(cat a)" = 2
    "#;
    let outcome = outcome(&recording(&setup, &program), script);
    let saved_by: Vec<_> = outcome.findings.iter().map(|finding| finding.saved_by.clone()).collect();
    assert!(saved_by.contains(&vec![]), "{saved_by:?}");
    assert!(saved_by.contains(&vec!["fsync a after write to a".to_owned()]), "{saved_by:?}");
}

#[test]
fn what_is_said_and_not_synced_is_found() {
    let setup = [create("a", 1), write(1, 0, "1")];
    let script = r#"test ! -s "$TANTALUM_ACKS" || test "$(cat a)" = 2"#;
    let found = outcome(&recording(&setup, &[write(1, 0, "2")]), script);
    assert_eq!(found.findings[0].saved_by, ["fsync a after write to a"]);
    let right = [write(1, 0, "2"), Operation::SyncData(1)];
    assert_eq!(outcome(&recording(&setup, &right), script).failed, 0);
}

#[test]
fn an_append_whose_size_is_there_without_its_bytes_is_found() {
    let setup = [create("log", 1), write(1, 0, "one\n")];
    let program = [write(1, 4, "two\n"), Operation::Sync(1)];
    // a reader that trusts each line
    let script = r#"! grep -qav -e one -e two log && test "$(tr -d '\0' < log | wc -c)" = "$(wc -c < log)""#;
    let outcome = outcome(&recording(&setup, &program), script);
    assert_eq!(outcome.findings.len(), 1, "{:#?}", outcome.findings);
}

/// A program that POSIX does not protect may be safe on a drive: this volume makes a file's name durable with the file.
#[test]
fn a_drive_loses_less_than_posix_allows() {
    let mut profile = tantalum::Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    let recording = recording(&[], &[create("a", 1), write(1, 0, "1"), Operation::Sync(1)]);
    let script = r#"test ! -s "$TANTALUM_ACKS" || test "$(cat a)" = 1"#;
    assert_eq!(outcome(&recording, script).findings[0].saved_by, ["fsync of the folder after create a"]);
    let on_drive = Settings { losses: Losses::Drive(Box::new(profile)), ..settings(script) };
    let outcome = check(&recording, &on_drive, &Monitor::silent()).unwrap();
    assert_eq!(outcome.failed, 0, "{:#?}", outcome.findings);
    assert!(outcome.cuts > 2 && outcome.checked >= 1, "{outcome:?}");
}

/// What a drive lost is named in terms of the program as well.
#[test]
fn what_a_drive_lost_has_its_remedies() {
    let mut profile = tantalum::Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    let recording = recording(&[], &[create("a", 1), write(1, 0, "1"), create("b", 2), Operation::Sync(2)]);
    let script = "! test -e b || test -s a";
    let on_drive = Settings { losses: Losses::Drive(Box::new(profile)), ..settings(script) };
    let outcome = check(&recording, &on_drive, &Monitor::silent()).unwrap();
    let [finding] = &outcome.findings[..] else { panic!("{outcome:#?}") };
    assert!(finding.lost.iter().any(|lost| lost.contains("a")), "{finding:#?}");
    assert!(finding.saved_by.contains(&"fsync a after write to a".to_owned()), "{finding:#?}");
}

fn on_drive(script: &str) -> Settings {
    let mut profile = tantalum::Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    Settings { losses: Losses::Drive(Box::new(profile)), ..settings(script) }
}

/// Only the sync of the folder was named, and with it the drive still lost the contents; what was written to a file that did not
/// exist had survived.
#[test]
fn the_remedies_of_a_drive_help_when_one_takes_them() {
    let script = r#"test ! -s "$TANTALUM_ACKS" || test "$(cat cur)" = 1"#;
    let program = [create("cur", 1), write(1, 0, "1")];
    let found = check(&recording(&[], &program), &on_drive(script), &Monitor::silent()).unwrap();
    let [finding] = &found.findings[..] else { panic!("{found:#?}") };
    assert_eq!(finding.saved_by, ["fsync of the folder after create cur, and fsync cur after write to cur"]);
    assert_eq!(finding.lost, ["1. create cur", "2. write 1 bytes at 0 of cur"]);
    assert_eq!(finding.there, [""; 0]);
    let [first, second] = program;
    let mended = [first, Operation::SyncFolder(ROOT), second, Operation::Sync(1)];
    let found = check(&recording(&[], &mended), &on_drive(script), &Monitor::silent()).unwrap();
    assert_eq!(found.failed, 0, "{found:#?}");
}

/// As above, where an old file is replaced: the sync of the folder alone would leave an empty file.
#[test]
fn the_remedies_of_a_drive_include_what_its_next_cut_would_lose() {
    let program = [create("config.tmp", 2), write(2, 0, "new-contents"), rename("config.tmp", "config")];
    let found = check(&recording(&old(), &program), &on_drive(REPLACED), &Monitor::silent()).unwrap();
    let remedies: Vec<&String> = found.findings.iter().flat_map(|finding| &finding.saved_by).collect();
    let both = "fsync of the folder after rename config.tmp to config, and fsync config.tmp after write to config.tmp";
    assert!(remedies.iter().any(|remedy| *remedy == both), "{found:#?}");
    assert!(
        !remedies.iter().any(|remedy| remedy.starts_with("fsync of the folder") && !remedy.contains(", and"))
    );
}

/// It said "everything written is there" below what was lost.
#[test]
fn what_was_lost_is_not_said_to_be_there() {
    let setup = [create("map", 1), write(1, 0, &"0".repeat(8192))];
    let mut recorded = recording(&setup, &[write(1, 0, &"1".repeat(8192))]);
    // mapped memory is written after what was acknowledged
    recorded.acks = vec![(setup.len(), "done".to_owned())];
    let script = r#"test ! -s "$TANTALUM_ACKS" || test "$(tr -cd 1 < map | wc -c)" = 8192"#;
    let found = check(&recorded, &on_drive(script), &Monitor::silent()).unwrap();
    let text = tantalum_crash_run::summary::of(&found);
    assert_eq!(found.findings[0].without_loss, Some(WithoutLoss::Acknowledged), "{text}");
    for finding in text.split("FINDING").skip(1) {
        assert_eq!(finding.contains("lost:"), !finding.contains("everything written is there"), "{finding}");
    }
}

/// Checks run in parallel and do not end in their order. Of outcomes that lose equally much, the one that was made first
/// represents the finding.
#[test]
fn checks_that_end_in_another_order_give_the_same_findings() {
    let recording = recording(
        &[create("a", 1), Operation::SyncFolder(ROOT)],
        &[write(1, 0, &"x".repeat(1000)), Operation::Sync(1)],
    );
    let script = |slow: &str| {
        format!(
            "head -c 1 a | grep -q {slow} && sleep 0.1; size=$(tr -d '\\0' < a | wc -c); test $size = 0 || test $size = 1000"
        )
    };
    let findings =
        |script: String| check(&recording, &settings(&script), &Monitor::silent()).unwrap().findings;
    let (first, other) = (findings(script("x")), findings(script("'^$'")));
    assert_eq!(first, findings(script("nothing")));
    assert_eq!(first, other);
    assert_eq!(first.len(), 1, "{first:#?}");
}

#[test]
fn a_check_that_fails_with_power_on_is_refused() {
    let recording = recording(&[], &[create("a", 1)]);
    let error = check(&recording, &settings("echo no; exit 3"), &Monitor::silent()).unwrap_err().to_string();
    assert!(error.contains("exit code 3") && error.ends_with("no"), "{error}");
}

/// What waited for a check when the time was up was still checked, for minutes.
#[test]
fn nothing_more_is_checked_when_the_time_is_up() {
    let program: Vec<Operation> = (0..12).map(|file| create(&format!("{file}"), file + 1)).collect();
    let settings = Settings { minutes: Some(0.01), ..settings("sleep 0.5") };
    let outcome = check(&recording(&[], &program), &settings, &Monitor::silent()).unwrap();
    assert!(outcome.ended_early && outcome.checked > 0, "{outcome:?}");
    let workers = std::thread::available_parallelism().map_or(2, usize::from) as u64;
    assert!(
        outcome.checked <= 2 * workers,
        "each worker may begin one within 0.6 s, and one more: {outcome:?}"
    );
}

#[test]
fn a_check_that_does_not_end_has_failed() {
    let recording = recording(&[], &[create("a", 1), Operation::SyncFolder(ROOT)]);
    let settings = Settings { check_seconds: 1, ..settings("test -e a || sleep 1000") };
    let outcome = check(&recording, &settings, &Monitor::silent()).unwrap();
    assert_eq!(outcome.findings[0].check_ended, "no end within 1 s");
}

#[test]
fn a_saved_finding_can_be_checked_again() {
    let place = tempfile::tempdir().unwrap();
    let recording = recording(&old(), &[create("new", 2), write(2, 0, "x")]);
    let script = "echo looked at $(cat $TANTALUM_ACKS); test ! -e new || test -s new";
    let settings = Settings { save: Some(place.path().join("saved")), ..settings(script) };
    let outcome = check(&recording, &settings, &Monitor::silent()).unwrap();
    let folder = outcome.findings[0].saved.clone().unwrap();
    let saved = SavedFinding::open(&folder).unwrap();
    assert_eq!(saved.finding, outcome.findings[0]);
    for _ in 0..2 {
        let again = check_again(&saved, None).unwrap();
        assert_eq!(again.failed.as_deref(), Some("exit code 1"));
        assert!(again.said.starts_with("looked at"), "{}", again.said);
    }
    let other = r#"test "$(cat config)" = old-contents && test ! -s new && rm config"#;
    for _ in 0..2 {
        assert_eq!(check_again(&saved, Some(other)).unwrap().failed, None, "it works on a copy");
    }
}

#[test]
fn a_folder_without_a_saved_finding_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let error = SavedFinding::open(place.path()).unwrap_err().to_string();
    assert!(error.contains("holds no finding; name a folder that crash run --save left"), "{error}");
    std::fs::write(place.path().join("finding.json"), "{}").unwrap();
    let error = SavedFinding::open(place.path()).unwrap_err().to_string();
    assert!(
        error.contains("finding.json was not written by crash run --save, or is damaged: missing field"),
        "{error}"
    );
}

/// Needs FUSE.
#[test]
fn functions_of_a_test_are_a_program_and_its_check() {
    let write_to = |folder: &Path, sync: bool| {
        let mut file = File::create(folder.join("new")).unwrap();
        file.write_all(b"text").unwrap();
        if sync {
            file.sync_all().unwrap();
        }
        fs::rename(folder.join("new"), folder.join("file")).unwrap();
        if sync {
            File::open(folder).unwrap().sync_all().unwrap();
        }
    };
    let check = |folder: &Path, acks: &[String]| {
        assert!(acks.is_empty() || fs::read_to_string(folder.join("file")).unwrap() == "text", "{acks:?}");
    };
    let program = |sync| {
        move |folder: &Path, acks: &Acks| {
            write_to(folder, sync);
            acks.ack("there");
        }
    };
    CrashTest::new().survives(program(true), check);
    let outcome = CrashTest::new().run(program(false), check).unwrap();
    assert!(outcome.failed > 0 && outcome.findings[0].check_ended == "a panic", "{outcome:?}");
    let failed = catch_unwind(|| CrashTest::new().survives(program(false), check)).unwrap_err();
    let text = failed.downcast_ref::<String>().unwrap();
    assert!(text.contains("FINDING 1") && text.contains("fsync"), "{text}");
}

#[test]
fn a_test_whose_program_panics_leaves_no_mount() {
    let mounts = || fs::read_to_string("/proc/mounts").unwrap();
    let place = Mutex::new(String::new());
    let program = |folder: &Path, _: &Acks| {
        *place.lock().unwrap() = folder.display().to_string();
        assert!(mounts().contains(folder.to_str().unwrap()));
        panic!("broken")
    };
    let ran = catch_unwind(|| CrashTest::new().survives(program, |_, _| {}));
    assert_eq!(ran.unwrap_err().downcast_ref::<&str>(), Some(&"broken"));
    let place = place.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(place.len() > 10 && !mounts().contains(&place), "{place}");
}

/// A program that forgets the same sync in each of its numbered files, and another one elsewhere, was listed once for each file.
#[test]
fn a_bug_that_is_repeated_in_many_files_is_one_finding() {
    let mut program = Vec::new();
    let mut acks = Vec::new();
    for number in 0..9_u64 {
        let (segment, index) = (2 * number + 1, 2 * number + 2);
        program.extend([
            create(&format!("segment-{number:06}"), segment),
            Operation::SyncFolder(ROOT),
            write(segment, 0, "record"),
            create(&format!("index-{number:06}"), index),
            write(index, 0, "place"),
            Operation::Sync(index),
        ]);
        acks.push((program.len(), format!("{number:06}")));
    }
    let mut recording = recording(&[], &program);
    recording.acks = acks;
    let script = "for n in $(cat \"$TANTALUM_ACKS\"); do
        test \"$(cat segment-$n)\" = record && test \"$(cat index-$n)\" = place || exit 1; done";
    let found = outcome(&recording, script);
    let remedies: Vec<&[String]> = found.findings.iter().map(|finding| &*finding.saved_by).collect();
    assert_eq!(found.findings.len(), 2, "{remedies:#?}");
    assert!(remedies.iter().any(|lines| lines[0].starts_with("fsync segment-")), "{remedies:#?}");
    assert!(remedies.iter().any(|lines| lines[0].starts_with("fsync of the folder after create index-")));
    let counts: Vec<u64> = found.findings.iter().map(|finding| finding.also).collect();
    assert!(counts.is_sorted_by(|more, fewer| more >= fewer), "{counts:?}");
    assert_eq!(found.unexplained, 0, "those that another file's explains are counted with it");
}

/// What a reader must tolerate comes after what a sync mends, though it is found first.
#[test]
fn the_most_serious_finding_comes_first() {
    let program = [
        create("a", 1),
        Operation::SyncFolder(ROOT),
        write(1, 0, &"x".repeat(1000)),
        Operation::Sync(1),
        create("b", 2),
        write(2, 0, "y"),
    ];
    let mut recording = recording(&[], &program);
    recording.acks = vec![(6, "b".to_owned())];
    let script = "n=$(stat -c %s a 2>/dev/null || echo 0); x=$(tr -cd x 2>/dev/null < a | wc -c)
        test $n = 0 || { test $n = 1000 && test $x = 1000; } || exit 1
        test ! -s \"$TANTALUM_ACKS\" || test \"$(cat b)\" = y";
    let found = outcome(&recording, script);
    let mended: Vec<bool> = found.findings.iter().map(|finding| !finding.saved_by.is_empty()).collect();
    assert!(mended.is_sorted_by(|first, second| first >= second), "{:#?}", found.findings);
    assert!(mended[0] && !mended[mended.len() - 1], "both kinds: {:#?}", found.findings);
}

/// Memory that is mapped: the kernel wrote it back after it was acknowledged. That was said to be something to tolerate.
#[test]
fn what_is_said_before_it_is_written_is_named() {
    let program = [create("a", 1), Operation::Sync(1), Operation::SyncFolder(ROOT), write(1, 0, "x")];
    let mut recording = recording(&[], &program);
    recording.acks = vec![(3, "x".to_owned())];
    let found = outcome(&recording, "test ! -s \"$TANTALUM_ACKS\" || test \"$(tr -d '\\0' < a)\" = x");
    assert_eq!(found.findings.len(), 1, "{:#?}", found.findings);
    assert_eq!(found.findings[0].without_loss, Some(WithoutLoss::Acknowledged), "{:#?}", found.findings);
    assert!(tantalum_crash_run::summary::of(&found).contains("acknowledged before it was written"));
}

/// Nothing is lost and nothing was acknowledged: whoever kills the program finds the same files.
#[test]
fn files_that_are_wrong_between_two_operations_are_named() {
    let program = [create("a", 1), create("b", 2), Operation::SyncFolder(ROOT)];
    let found =
        outcome(&recording(&[], &program), "test ! -e a && test ! -e b || { test -e a && test -e b; }");
    let why: Vec<Option<WithoutLoss>> = found.findings.iter().map(|finding| finding.without_loss).collect();
    assert!(why.contains(&Some(WithoutLoss::Between)), "{:#?}", found.findings);
}

/// The remedy was "fsync a after write to a", which the program does: power fails before it.
#[test]
fn a_write_that_is_synced_at_once_can_still_be_torn() {
    let program =
        [create("a", 1), Operation::SyncFolder(ROOT), write(1, 0, &"x".repeat(1000)), Operation::Sync(1)];
    let script = "n=$(stat -c %s a 2>/dev/null || echo 0); x=$(tr -cd x 2>/dev/null < a | wc -c)
        test $n = 0 && exit 0; test $n = 1000 && test $x = 1000";
    let found = outcome(&recording(&[], &program), script);
    assert_eq!(found.findings.len(), 1, "{:#?}", found.findings);
    assert_eq!(found.findings[0].unavoidable, ["write to a"], "{:#?}", found.findings);
    assert!(found.findings[0].saved_by.is_empty(), "{:#?}", found.findings);
    let text = tantalum_crash_run::summary::of(&found);
    assert!(text.contains("no sync helps"), "{text}");
    // without the sync at the end, and acknowledged before, the sync is missing as well
    let mut unsynced = recording(&[], &program[..3]);
    unsynced.acks.push((3, "written".to_owned()));
    let script = "test ! -s \"$TANTALUM_ACKS\" || test $(tr -cd x < a | wc -c) = 1000";
    let found = outcome(&unsynced, script);
    assert_eq!(found.findings[0].saved_by, ["fsync a after write to a"], "{:#?}", found.findings);
    assert!(found.findings[0].unavoidable.is_empty(), "{:#?}", found.findings);
}

/// It kept to whole minutes, and checks that take long went on for much longer.
#[test]
fn a_run_keeps_to_its_time() {
    let program: Vec<Operation> =
        [create("a", 1)].into_iter().chain((0..200).map(|at| write(1, at, "x"))).collect();
    let settings = Settings { minutes: Some(0.02), ..settings("sleep 0.1; false || test ! -s a") };
    let begun = Instant::now();
    let found = check(&recording(&[], &program), &settings, &Monitor::silent());
    // explaining takes at most ten seconds more, and one check that has begun
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(found);
}

/// They were gone, after a run that may have taken an hour.
#[test]
fn findings_that_cannot_be_saved_are_reported_all_the_same() {
    let program = [create("config.tmp", 2), write(2, 0, "new-contents"), rename("config.tmp", "config")];
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let settings = Settings { save: Some(file.join("findings")), ..settings(REPLACED) };
    let outcome = check(&recording(&old(), &program), &settings, &Monitor::silent()).unwrap();
    assert!(!outcome.findings.is_empty() && outcome.findings.iter().all(|finding| finding.saved.is_none()));
    assert!(outcome.not_saved.unwrap().contains("finding-1"));
}

/// Ctrl-C had no effect before the check had ended by itself.
#[test]
fn a_running_check_is_interrupted() {
    let cancelled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let monitor = Monitor::new(std::sync::Arc::clone(&cancelled)).quiet();
    let begun = Instant::now();
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        check(&recording(&old(), &[write(1, 0, "new-contents")]), &settings("sleep 1000"), &monitor)
    });
    assert!(matches!(ended, Err(RunError::Interrupted(_))), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
