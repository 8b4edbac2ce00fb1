//! `tantalum crash` as a user sees it.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn tantalum(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).output().unwrap()
}

fn device(arguments: &[&str]) -> serde_json::Value {
    let output = tantalum(&[&["crash", "device", "--json"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = tantalum(&[&["crash", "device"], arguments].concat());
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty() && !message.contains("panicked"), "{message}");
    message
}

#[test]
fn every_cut_of_a_seed_is_counted_and_survived() {
    let small = ["--seed", "3", "--age", "100", "--commands", "5", "--second-cut"];
    let [crash, again] = std::thread::scope(|scope| {
        let run = || scope.spawn(|| device(&small));
        [run(), run()].map(|run| run.join().expect("it prints an outcome"))
    });
    assert_eq!(crash["violations"].as_array().unwrap().len(), 0, "{crash}");
    assert_eq!((&crash["seeds"], &crash["dirty_recoveries"]), (&1.into(), &crash["cuts"]));
    assert!(crash["second_cuts"].as_u64().unwrap() > 0, "{crash}");
    assert_eq!(crash["drives"].as_array().unwrap().len(), 3, "{crash}");
    assert_eq!(crash, again, "the same seed, the same outcome");
}

#[test]
fn a_command_line_that_a_violation_would_name_cuts_once() {
    let drive = ["--plp", "none", "--cache", "volatile", "--page-bytes", "4096"];
    let place = ["--seed", "3", "--age", "100", "--at", "103.0.-", "--skip", "0..50,60"];
    let crash = device(&[&drive[..], &place].concat());
    assert_eq!(crash["drives"][0]["plp"], "none", "{crash}");
    // what the drive continues with may end in a cut of its own
    assert!((1..=2).contains(&crash["cuts"].as_u64().unwrap()), "{crash}");
}

#[test]
fn random_cuts_and_weights_are_taken() {
    let crash =
        device(&["--seeds", "5..7", "--cuts", "4", "--weights", "write=90,reopen=0", "--plp", "capacitor"]);
    assert_eq!((&crash["cuts"], &crash["shutdown_cuts"]), (&8.into(), &0.into()), "{crash}");
}

/// The seed draws which client acts when, so that a run repeats; what it covered is part of the outcome.
#[test]
fn several_clients_of_a_seed_are_counted_and_survived() {
    let clients = || {
        let arguments = ["crash", "clients", "--seed", "3", "--cuts", "5", "--second-cut", "--json"];
        let output = tantalum(&arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let crash = clients();
    assert_eq!(crash["violations"].as_array().unwrap().len(), 0, "{crash}");
    assert_eq!((&crash["seeds"], &crash["dirty_recoveries"]), (&1.into(), &crash["cuts"]));
    assert_eq!(crash["drives"].as_array().unwrap().len(), 5, "{crash}");
    assert!(crash["coverage"]["most_in_flight"].as_u64().unwrap() > 3, "{crash}");
    assert_eq!(crash, clients(), "the same seed, the same outcome");
    let output = tantalum(&["crash", "clients", "--clients", "1"]);
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--clients 1: use a number from 2 to 6"), "{message}");
}

#[test]
fn options_that_make_no_sense_say_what_would() {
    let cases: [(&[&str], &str); 10] = [
        (&["--seeds", "5..5"], "no seeds selected"),
        (&["--cuts", "some"], "use `all` or a number"),
        (&["--cuts", "0"], "use `all` or a number of at least 1"),
        (&["--commands", "0"], "use a number from 1"),
        (&["--minutes", "0"], "use a number of minutes above 0"),
        (&["--page-bytes", "512"], "4096, 8192 or 16384"),
        (&["--plp", "none", "--cache", "durable"], "a durable cache needs --plp capacitor"),
        (&["--weights", "erase=1"], "no command named \"erase\"; use write, fua, bulk"),
        (&["--medium", "image"], "use a number with an image"),
        (&["--seed", "1", "--at", "57"], "\"57\" is not a valid cut; use COMMAND.OPERATION.FATES"),
    ];
    for (arguments, expected) in cases {
        let message = refused(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

/// Cuts of one seed take longer than this, so the time ends in the middle of a seed.
#[test]
fn each_torture_keeps_to_a_fraction_of_a_minute() {
    let tortures: [&[&str]; 8] = [
        &["device", "--age", "50"],
        &["device", "--second-cut", "--cuts", "100000"],
        &["clients", "--cuts", "all", "--second-cut"],
        &["clients", "--cuts", "100000"],
        &["kv", "--cuts", "100000"],
        &["kv", "--cuts", "100000", "--host-faults"],
        &["sqlite", "--cuts", "all", "--transactions", "40"],
        &["couch", "--cuts", "all", "--commits", "1000"],
    ];
    let keeps_to_it = |torture: &[&str]| {
        let begun = Instant::now();
        let output = tantalum(&[&["crash"], torture, &["--minutes", "0.05", "--json"]].concat());
        let took = begun.elapsed().as_secs_f64();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{torture:?}: {message}");
        // a busy machine may take longer for the cut that is under way
        assert!((3.0..20.0).contains(&took), "{torture:?} took {took} s");
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(outcome["cuts"].as_u64().unwrap() > 0, "{torture:?}: {outcome}");
        assert_eq!(outcome["interrupted"], false, "{outcome}");
    };
    std::thread::scope(|scope| {
        tortures.iter().for_each(|torture| drop(scope.spawn(|| keeps_to_it(torture))));
    });
}

/// It had passed, with "seeds 0".
#[test]
fn a_time_too_short_for_any_cut_is_no_success() {
    for torture in ["device", "clients", "sqlite", "couch", "kv"] {
        let output = tantalum(&["crash", torture, "--minutes", "1e-9"]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{torture}: {message}");
        assert!(message.contains("error: nothing was tested: the time was up"), "{torture}: {message}");
    }
}

#[test]
fn cuts_that_do_not_exist_are_refused() {
    let drive =
        ["--seed", "1", "--plp", "none", "--cache", "volatile", "--page-bytes", "4096", "--age", "20"];
    let message = refused(&[&drive[..], &["--at", "17.99.-"]].concat());
    assert!(message.contains("--at 17.99.-: the drive has no such operation"), "{message}");
    // at once: getting there would take days
    let message = refused(&[&drive[..], &["--at", "99999999.1.n"]].concat());
    assert!(
        message.contains("--at 99999999.1.n: a run with --age 20 ends before command 1000020"),
        "{message}"
    );
    let output = tantalum(&["crash", "sqlite", "--mode", "wal", "--seed", "1", "--cuts", "@99999999"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("--cuts @99999999: no workload of this run has"), "{message}");
}

#[test]
fn an_interrupted_run_of_seeds_gives_what_it_has() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tantalum"))
        .args(["crash", "sqlite", "--seeds", "100000", "--mode", "wal", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let outcome: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&outcome["interrupted"], &outcome["violations"]), (&true.into(), &serde_json::json!([])));
}

/// The host's error was reported as broken promises, with exit code 1.
#[test]
fn a_missing_folder_for_images_is_no_broken_promise() {
    for arguments in [
        &["device", "--medium", "image", "--cuts", "2"][..],
        &["device", "--host-faults", "--cuts", "2"],
        &["clients", "--medium", "image", "--cuts", "2"],
        &["kv", "--host-faults", "--cuts", "2", "--seeds", "1"],
        &["sqlite", "--host-faults", "--cuts", "2", "--seeds", "1"],
        &["couch", "--host-faults", "--cuts", "2", "--seeds", "1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
        let output = command.arg("crash").args(arguments).env("TMPDIR", "/nowhere").output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains("an image in /nowhere cannot be used"), "{arguments:?}: {message}");
        assert!(message.ends_with("set TMPDIR to a folder with room\n"), "{arguments:?}: {message}");
        assert_eq!(message.matches("error: ").count(), 1, "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// It said "interrupted before power could be cut", although the program had ended.
#[test]
fn an_interruption_of_the_first_check_says_that_no_check_had_ended() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let check = format!("touch {}; sleep 50", begun.display());
    let mut run = Command::new(env!("CARGO_BIN_EXE_tantalum"))
        .args(["crash", "run", "--check", &check, "--", "sh", "-c", "echo 1 > a"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !begun.exists() {
        if run.try_wait().unwrap().is_some() {
            eprintln!("skipped: this machine cannot mount");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(run.id() as i32), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    let output = run.wait_with_output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("no check had ended: nothing was tested"), "{message}");
}
