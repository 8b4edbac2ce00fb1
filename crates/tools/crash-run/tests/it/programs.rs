//! Typical programs: logs with and without a good checksum, durable writes, and programs that misbehave. Needs FUSE.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{create, recording, settings, write};
use nix::libc::{O_DSYNC, O_SYNC};
use tantalum_crash_run::operation::{Operation, ROOT, Recording};
use tantalum_crash_run::{Acks, Check, CrashTest, RunError, Settings, Task, check, record};
use tantalum_report::Monitor;

/// The sum of nothing is 0, as with many checksums.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, byte| sum.rotate_left(5).wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

/// Length, sum and text; `covered` if the sum also covers the length.
fn record_of(text: &str, covered: bool) -> Vec<u8> {
    let length = (text.len() as u32).to_le_bytes();
    let sum =
        if covered { sum(&[&length[..], text.as_bytes()].concat()).max(1) } else { sum(text.as_bytes()) };
    [&length[..], &sum.to_le_bytes(), text.as_bytes()].concat()
}

/// The records up to the first that is damaged.
fn records(log: &[u8], covered: bool) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), log);
    while rest.len() >= 8 {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let Some(text) = rest.get(8..8 + length) else { break };
        let text = String::from_utf8_lossy(text).into_owned();
        if record_of(&text, covered) != rest[..8 + length] {
            break;
        }
        found.push(text);
        rest = &rest[8 + length..];
    }
    found
}

fn texts() -> [String; 3] {
    [1000, 30, 3000].map(|bytes| "x".repeat(bytes))
}

fn write_log(folder: &Path, acks: &Acks, covered: bool) {
    let mut log = File::create_new(folder.join("log")).unwrap();
    File::open(folder).unwrap().sync_all().unwrap();
    for text in texts() {
        log.write_all(&record_of(&text, covered)).unwrap();
        log.sync_data().unwrap();
        acks.ack(&text.len().to_string());
    }
}

fn check_log(folder: &Path, acks: &[String], covered: bool) {
    let found = records(&fs::read(folder.join("log")).unwrap_or_default(), covered);
    assert!(found.len() >= acks.len(), "{} records after {acks:?}", found.len());
    assert!(texts().starts_with(&found), "a record that nobody wrote");
}

#[test]
fn a_log_whose_checksum_does_not_cover_its_length_is_found() {
    let run = |folder: &Path, acks: &Acks| write_log(folder, acks, false);
    let outcome = CrashTest::new().run(run, |folder, acks| check_log(folder, acks, false)).unwrap();
    let said: Vec<_> = outcome.findings.iter().map(|finding| &finding.check_said[..]).collect();
    assert!(said.iter().any(|said| said.contains("a record that nobody wrote")), "{said:?}");
    assert_eq!(outcome.findings.len(), 1, "{said:?}");
    let run = |folder: &Path, acks: &Acks| write_log(folder, acks, true);
    CrashTest::new().survives(run, |folder, acks| check_log(folder, acks, true));
}

#[test]
fn writes_to_files_opened_as_synchronous_are_durable() {
    for (flags, survives) in [(O_DSYNC, true), (O_SYNC, true), (0, false)] {
        let program = move |folder: &Path, acks: &Acks| {
            let open = |flags| {
                OpenOptions::new().create(true).append(true).custom_flags(flags).open(folder.join("a"))
            };
            drop(open(0).unwrap());
            File::open(folder).unwrap().sync_all().unwrap();
            open(flags).unwrap().write_all(b"text").unwrap();
            acks.ack("there");
        };
        let check = |folder: &Path, acks: &[String]| {
            assert!(acks.is_empty() || fs::read(folder.join("a")).unwrap() == b"text");
        };
        let outcome = CrashTest::new().run(program, check).unwrap();
        assert_eq!(outcome.failed == 0, survives, "{flags:#o}: {outcome:?}");
    }
}

fn recorded(script: &str) -> Result<Recording, RunError> {
    let task = Task {
        program: ["sh", "-c", script].map(OsString::from).into(),
        setup: Some("echo from the setup".to_owned()),
        capacity_bytes: 64 << 20,
    };
    record(&task, &Monitor::silent())
}

/// Each of them once made the run wait forever.
#[test]
fn what_a_program_leaves_running_is_ended_and_not_waited_for() {
    let begun = Instant::now();
    // it keeps standard output and the folder
    let recording = recorded("sleep 7531 & echo x > a; echo ack 1; printf 'ack 2'").unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    let acks: Vec<_> = recording.acks.iter().map(|(_, line)| &line[..]).collect();
    assert_eq!(acks, ["1", "2"]);
    let runs = |process: fs::DirEntry| {
        fs::read(process.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x007531\0")
    };
    assert!(!fs::read_dir("/proc").unwrap().any(|process| process.is_ok_and(runs)));
}

/// Threads that read the acknowledgements once counted them after the operations that followed, if the machine was busy: a bug
/// was found in one run and not in the next.
#[test]
fn acknowledgements_are_in_order_with_operations_on_a_busy_machine() {
    let is_done = AtomicBool::new(false);
    let recording = std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let script = r#"i=0; while [ $i -lt 100 ]; do
            printf x >> a; echo ack out $i; printf y >> a; echo fifo $i > "$TANTALUM_ACK"; i=$((i+1)); done"#;
        let recording = recorded(script);
        is_done.store(true, Ordering::Relaxed);
        recording.unwrap()
    });
    // the first operation creates the file
    let expected: Vec<_> =
        (0..100).flat_map(|i| [(2 + 2 * i, format!("out {i}")), (3 + 2 * i, format!("fifo {i}"))]).collect();
    assert_eq!(recording.acks, expected);
}

/// Linux passes on the part up to the end of a page by itself, and power was cut there.
#[test]
fn what_a_program_writes_at_once_is_one_operation() {
    let recording =
        recorded("for i in 1 2 3 4 5 6; do head -c 1500 /dev/zero; done > a; echo ack 1").unwrap();
    let writes: Vec<_> = recording
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::Write(_, offset, data) => Some((*offset, data.len())),
            _ => None,
        })
        .collect();
    assert_eq!(writes, [0, 1500, 3000, 4500, 6000, 7500].map(|offset| (offset, 1500)));
}

#[test]
fn a_program_may_print_anything() {
    let recording =
        recorded(r"printf '\377\376\nack 1\n'; head -c 300000 /dev/zero; echo x > a; echo; echo ack 2")
            .unwrap();
    assert_eq!(recording.acks.len(), 2, "{:?}", recording.acks);
}

#[test]
fn a_program_that_fails_is_told_what_may_help() {
    let failed = |script: &str| recorded(script).unwrap_err().to_string();
    let full = failed("head -c 200000000 /dev/zero > a");
    assert!(full.contains("its drive is full, and --capacity gives it more"), "{full}");
    let task = Task {
        program: ["cat", "Cargo.toml"].map(OsString::from).into(),
        setup: None,
        capacity_bytes: 64 << 20,
    };
    let elsewhere = record(&task, &Monitor::silent()).unwrap_err().to_string();
    assert!(elsewhere.contains("runs in another folder, so write /"), "{elsewhere}");
    let outside = failed("true");
    assert!(outside.contains("changed nothing in its folder"), "{outside}");
}

#[test]
fn a_check_that_cannot_run_is_told_what_may_help() {
    let recording = recording(&[], &[create("a", 1)]);
    let refused =
        |command: &str| check(&recording, &settings(command), &Monitor::silent()).unwrap_err().to_string();
    let relative = refused("cat Cargo.toml");
    assert!(relative.contains("write /") && relative.contains("for Cargo.toml"), "{relative}");
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("check");
    fs::write(&script, "#!/bin/sh\n").unwrap();
    let not_executable = refused(script.to_str().unwrap());
    assert!(not_executable.contains("make it executable: chmod +x /"), "{not_executable}");
}

#[test]
fn an_interrupted_run_tells_what_it_has_found() {
    let stop = Arc::new(AtomicBool::new(false));
    let on_failure = Arc::clone(&stop);
    let look = move |folder: &Path, acks: &[String]| {
        if acks.is_empty() || folder.join("a").exists() {
            return Ok(());
        }
        on_failure.store(true, Ordering::Relaxed);
        Err("it is gone".to_owned())
    };
    let mut program = vec![create("a", 1)];
    program.extend((0..2000).map(|number| write(1, number, "x")));
    program.push(Operation::SyncFolder(ROOT));
    let mut recording = recording(&[], &program);
    recording.acks = vec![(1, "a is there".to_owned())];
    let settings = Settings { check: Check::Function(Arc::new(look)), ..settings("") };
    let outcome = check(&recording, &settings, &Monitor::new(stop)).unwrap();
    assert!(outcome.ended_early && outcome.cuts < outcome.places, "{outcome:?}");
    assert_eq!(outcome.findings[0].saved_by, ["fsync of the folder after create a"]);
}

/// With a time limit, the end of a long run is reached as well.
#[test]
fn cuts_are_spread_over_the_run() {
    let program: Vec<Operation> =
        [create("a", 1)].into_iter().chain((0..100).map(|at| write(1, at, "x"))).collect();
    // the requested number of cuts, even if the number of places is not a multiple of it
    for (cuts, minutes, expected) in [
        (None, None, 102),
        (Some(10), None, 10),
        (Some(60), None, 60),
        (Some(101), Some(5.0), 101),
        (Some(500), None, 102),
        (None, Some(5.0), 102),
        (Some(1), None, 1),
    ] {
        let settings =
            Settings { cuts, minutes, check: Check::Function(Arc::new(|_, _| Ok(()))), ..settings("") };
        let outcome = check(&recording(&[], &program), &settings, &Monitor::silent()).unwrap();
        assert_eq!((outcome.places, outcome.cuts, outcome.ended_early), (102, expected, false));
    }
}
