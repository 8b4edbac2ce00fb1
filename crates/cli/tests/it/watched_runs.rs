//! Commands that create drives in their own process let others watch these while they run, if requested.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tantalum_control::Control;
use tantalum_control::Look;

/// A timeout for a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

struct Run(Child);

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null());
    Run(command.spawn().unwrap())
}

fn interrupt(run: &Run) {
    let interrupted = Command::new("kill").args(["-INT", &run.0.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
}

/// Polls until the answer is right.
fn wait_for(name: &Path, what: &str, is_right: impl Fn(&Look) -> bool) -> Look {
    let begun = Instant::now();
    let mut last = None;
    while begun.elapsed() < PATIENCE {
        let look = Control::connect(name).and_then(|mut control| control.look::<Look>());
        match look {
            Ok(look) if is_right(&look) => return look,
            answer => last = Some(answer.map(|look| look.counters)),
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("{what}: no such look, but at last {last:?}");
}

/// The run is seen at work, ends by Ctrl-C, and leaves no socket.
fn is_seen(folder: &Path, arguments: &[&str]) {
    let name = folder.join("run");
    let arguments = [arguments, &["--watch", "run"]].concat();
    let mut run = start(folder, &arguments);
    let what = arguments.join(" ");
    let first =
        wait_for(&name, &what, |look| look.counters.host_units_written + look.counters.records_put > 0);
    // the same drive has done more, or there is another one
    let goes_on = |look: &Look| look.image != first.image || look.counters != first.counters;
    let next = wait_for(&name, &what, goes_on);
    assert_eq!(next.time, None, "{what}");
    interrupt(&run);
    let ended = run.0.wait().unwrap();
    assert_eq!(ended.code(), Some(130), "{what}");
    assert!(!folder.join("run.sock").exists(), "{what} left its socket");
}

#[test]
fn a_bench_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let endless = ["bench", "--pattern", "randwrite", "--capacity", "64M", "--operations", "100000000000"];
    is_seen(folder.path(), &endless);
}

#[test]
fn a_replay_is_seen_also_while_the_trace_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    // writes to a fresh drive: whatever was written, the trace wrote; minutes of them, in which a busy machine looks twice
    let lines = (0..1_000_000_u64).map(|number| {
        format!("{},host,0,Write,{},1048576,0\n", 10_000_000 + number, (number * 7919 % 60) << 20)
    });
    fs::write(folder.path().join("trace.csv"), lines.collect::<String>()).unwrap();
    is_seen(folder.path(), &["replay", "trace.csv", "--capacity", "64M", "--queue-depth", "8"]);
}

#[test]
fn power_cuts_of_sqlite_and_of_documents_are_seen() {
    for kind in ["sqlite", "couch"] {
        let folder = tempfile::tempdir().unwrap();
        is_seen(folder.path(), &["crash", kind, "--minutes", "30"]);
    }
}

/// It used its own device, so there was nothing to see but an error.
#[test]
fn an_experiment_on_the_device_alone_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    is_seen(folder.path(), &["lab", "run", "kaml-scale", "--scale", "0.2"]);
}

/// The drive is in the process that mounts it.
#[cfg(feature = "servers")]
#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn the_drive_that_an_experiment_mounts_for_a_server_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let experiment = ["lab", "run", "share-pgbench", "--scale", "0.05", "--watch", "run"];
    let mut run = start(folder.path(), &experiment);
    let is_mounted = |look: &Look| look.time == Some(tantalum_drive::Pacing::Real);
    let look = wait_for(&folder.path().join("run"), "share-pgbench", is_mounted);
    assert!(look.image.to_string_lossy().ends_with("run, image 2 (drive.img)"), "{:?}", look.image);
    interrupt(&run);
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
}

#[test]
fn the_cost_of_recovery_and_power_cuts_of_records_are_seen() {
    for arguments in [&["recovery-cost"][..], &["crash", "kv", "--minutes", "30"]] {
        let folder = tempfile::tempdir().unwrap();
        is_seen(folder.path(), arguments);
    }
}

#[test]
fn a_run_that_nobody_watches_makes_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["bench", "--pattern", "seqwrite", "--capacity", "64M", "--operations", "1000"];
    let mut run = start(folder.path(), &few);
    assert!(run.0.wait().unwrap().success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
