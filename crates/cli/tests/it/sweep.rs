//! `tantalum lab sweep` and `tantalum replay` as their users run them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

const GRID: &str = r#"
seeds = 3
[run]
profile = "femu-2021"
capacity = "64M"
condition = "aged"
requests = 20000
[axes]
workload = ["randwrite", "mixed"]
queue_depth = [1, 8]
"#;

fn tantalum(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.current_dir(folder);
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    tantalum(folder).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn complete(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder.join("runs")) else { return 0 };
    let is_run = |path: &Path| path.extension().is_some_and(|ending| ending == "json");
    entries.filter(|entry| is_run(&entry.as_ref().unwrap().path())).count()
}

#[test]
fn kill_9_loses_the_runs_under_way_and_no_others() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("grid.toml"), GRID).unwrap();
    let output = dir.path().join("grid.sweep");
    let mut before = 0;
    for least in [1, 4] {
        let sweep = ["lab", "sweep", "grid.toml", "--threads", "2"];
        let mut child =
            tantalum(dir.path()).args(sweep).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while complete(&output) < least {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        before = complete(&output);
    }
    assert!((4..12).contains(&before), "{before}");
    let resumed = run(dir.path(), &["lab", "sweep", "grid.toml"]);
    let said = text(&resumed.stdout);
    assert!(
        said.starts_with(&format!(
            "12 runs: {} done now, {before} kept from before, 0 failed\n",
            12 - before
        )),
        "{said}"
    );
    assert!(run(dir.path(), &["lab", "sweep", "grid.toml", "--output", "whole"]).status.success());
    let names: &[&str] =
        if cfg!(feature = "parquet") { &["table.csv", "table.parquet"] } else { &["table.csv"] };
    for name in names {
        let (resumed, whole) = (output.join(name), dir.path().join("whole").join(name));
        assert!(fs::read(resumed).unwrap() == fs::read(whole).unwrap(), "{name} differs");
    }
}

#[test]
fn runs_can_be_done_one_by_one_elsewhere() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("grid.toml"), GRID.replace("seeds = 3", "seeds = 1")).unwrap();
    let listed = run(dir.path(), &["lab", "sweep", "grid.toml", "--list"]);
    let runs = dir.path().join("grid.sweep/runs");
    fs::create_dir_all(&runs).unwrap();
    for line in text(&listed.stdout).lines() {
        let id = line.split('"').nth(3).unwrap();
        let file = fs::File::create(dir.path().join("one.json")).unwrap();
        fs::write(dir.path().join("run.json"), line).unwrap();
        let given = fs::File::open(dir.path().join("run.json")).unwrap();
        let done =
            tantalum(dir.path()).args(["lab", "sweep", "--one"]).stdin(given).stdout(file).status().unwrap();
        assert!(done.success());
        fs::rename(dir.path().join("one.json"), runs.join(format!("{id}.json"))).unwrap();
    }
    let said = text(&run(dir.path(), &["lab", "sweep", "grid.toml"]).stdout);
    assert!(said.starts_with("4 runs: 0 done now, 4 kept from before, 0 failed\n"), "{said}");
    let wrong = run(dir.path(), &["lab", "sweep", "--one"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("it is not a run as --list prints it"), "{}", text(&wrong.stderr));
}

#[test]
fn options_come_before_notes_and_a_failed_run_tells_why() {
    let dir = TempDir::new().unwrap();
    let trace = format!("0,W,{},4096,2\n", 1u64 << 40);
    fs::write(dir.path().join("trace.csv"), trace).unwrap();
    let grid = "[run]\ncapacity = \"64M\"\ntrace = \"trace.csv\"\nscale = \"none\"\n";
    fs::write(dir.path().join("grid.toml"), grid).unwrap();
    let sweep = |more: &[&str]| {
        let output = run(dir.path(), &[&["lab", "sweep", "grid.toml"], more].concat());
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert_eq!(sweep(&["--threads", "0"]), "error: --threads 0: it must be at least 1\n");
    let said = sweep(&["--output", "trace.csv"]);
    assert!(said.starts_with("error: trace.csv/runs: ") && said.lines().count() == 1, "{said}");
    let said = sweep(&[]);
    assert!(said.contains("the first is seed 1: trace.csv, line 1: the request ends at byte"), "{said}");
}

#[test]
fn a_trace_is_replayed_or_refused_with_its_line() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("trace.log"), "fio version 3 iolog\n0 f write 0 512\n9 f datasync 0 0\n")
        .unwrap();
    let replayed = run(dir.path(), &["replay", "trace.log", "--capacity", "64M", "--report", "page.html"]);
    let said = text(&replayed.stdout);
    assert!(
        replayed.status.success() && said.contains("0 reads, 1 write, for which 1 unit had to be read first"),
        "{said}"
    );
    assert!(fs::read_to_string(dir.path().join("page.html")).unwrap().contains("trace.log"));
    fs::write(dir.path().join("trace.log"), "fio version 3 iolog\n0 f write 0\n").unwrap();
    let refused = run(dir.path(), &["replay", "trace.log"]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("trace.log, line 2: expected"), "{said}");
    let refused = |arguments: &[&str]| {
        let refused = run(dir.path(), &[&["replay"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2));
        text(&refused.stderr)
    };
    assert_eq!(refused(&["trace.log", "--report", "."]), "error: .: it is a folder; name a file\n");
    let said = refused(&["trace.log", "--action", "Q"]);
    assert!(said.contains("trace.log: the action chooses events of blktrace"), "{said}");
    fs::write(dir.path().join("empty"), "").unwrap();
    assert!(refused(&["empty"]).ends_with("error: empty: the trace is empty\n"));
    let both = run(dir.path(), &["replay", "trace.log", "--speed", "2", "--queue-depth", "3"]);
    assert_eq!(both.status.code(), Some(2));
}

/// It ended without a word.
#[test]
fn ctrl_c_while_a_trace_is_read_says_that_nothing_was_replayed() {
    let dir = TempDir::new().unwrap();
    let mut child = tantalum(dir.path())
        .args(["replay", "-", "--format", "alibaba", "--capacity", "64M"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let mut write = || std::io::Write::write_all(&mut pipe, b"0,W,0,4096,1\n");
    write().unwrap();
    thread::sleep(Duration::from_secs(2));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    thread::sleep(Duration::from_secs(1));
    // it may have ended already
    let _ = write();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), text(&ended.stdout)), (Some(130), String::new()));
    let said = text(&ended.stderr);
    assert!(said.ends_with("interrupted: nothing was replayed yet\n"), "{said}");
}

/// A trace is read twice. From a pipe it was of no known format, or "changed".
#[test]
fn a_trace_comes_from_a_pipe_or_by_its_columns() {
    let dir = TempDir::new().unwrap();
    let lines: String = (0..100).map(|number| format!("{number},w,{},8\n", number * 8)).collect();
    let columns = ["--columns", "time,op,offset,sectors", "--time-unit", "ms", "--offset-unit", "sector"];
    let options = [&["--capacity", "64M", "--json"][..], &columns].concat();
    fs::write(dir.path().join("trace.csv"), format!("when,what,where,length\n{lines}")).unwrap();
    let plain = run(dir.path(), &[&["replay", "trace.csv"][..], &options].concat());
    let plain: serde_json::Value = serde_json::from_slice(&plain.stdout).unwrap();
    assert_eq!(plain["trace"]["requests"], 100);
    assert_eq!(plain["trace"]["seconds"], 0.099);
    assert!(plain["warnings"][0].as_str().unwrap().contains("the drive's cache holds all of it"), "{plain}");
    for path in ["-", "/dev/stdin"] {
        let mut child = tantalum(dir.path())
            .arg("replay")
            .arg(path)
            .args(&options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
        let piped: serde_json::Value =
            serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!((&piped["requests"], &piped["counters"]), (&plain["requests"], &plain["counters"]));
    }
    let refused = |arguments: &[&str], why: &str| {
        let refused = run(dir.path(), &[&["replay"], arguments].concat());
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(why), "{said}");
    };
    refused(&["trace.csv"], "trace.csv, line 1: \"when,what,where,length\" is of no known format");
    refused(
        &["trace.csv", "--columns", "time,op,offset,sectors"],
        "--columns: say in which unit the times are",
    );
    fs::write(dir.path().join("numbers"), "4851300 1 524288 16 0\n").unwrap();
    refused(&["numbers"], "can be of the format mqsim, but does not show it; use --format");
}
