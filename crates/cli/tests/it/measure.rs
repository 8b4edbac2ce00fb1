//! `tantalum measure` as a user sees it, with real programs on real mounts.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const UNIT: u64 = 4096;

fn tantalum(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tantalum"));
    command.args(arguments);
    command
}

fn measure(arguments: &[&str]) -> Output {
    tantalum(&[&["measure"], arguments].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// At this machine's pace.
fn measured(arguments: &[&str]) -> Value {
    let output = measure(&[&["--json", "--time", "none"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    json(&output)
}

fn file<'a>(measured: &'a Value, path: &str) -> &'a Value {
    let files = measured["files"].as_array().unwrap();
    files.iter().find(|file| file["path"] == path).unwrap_or_else(|| panic!("no {path} in {measured}"))
}

#[test]
fn a_workload_counted_by_hand_is_told_exactly() {
    // ten units and a sync; the same again; 300 bytes in a folder; a file that comes and goes
    let script = "dd if=/dev/zero of=a bs=4096 count=10 conv=fsync status=none
        dd if=/dev/urandom of=a bs=4096 count=10 conv=fsync,notrunc status=none
        mkdir d; dd if=/dev/urandom of=d/b bs=100 count=3 status=none
        dd if=/dev/zero of=gone bs=1000 count=1 status=none; rm gone";
    let told = measured(&["--", "sh", "-c", script]);
    assert_eq!(told["asked"]["bytes"], 20 * UNIT + 300 + 1000, "{told}");
    assert_eq!((&told["asked"]["writes"], &told["asked"]["syncs"]), (&24.into(), &2.into()), "{told}");
    let a = file(&told, "a");
    assert_eq!((&a["bytes"], &a["drive_bytes"]), (&(20 * UNIT).into(), &(20 * UNIT).into()), "{a}");
    let b = file(&told, "d/b");
    assert_eq!((&b["bytes"], &b["drive_bytes"]), (&300.into(), &UNIT.into()), "{b}");
    assert_eq!(
        (&file(&told, "gone")["kind"], &file(&told, "gone")["removed"]),
        (&"temporary".into(), &1.into())
    );
    assert_eq!(told["rewritten"]["histogram"], serde_json::json!([[1, 1, 1], [2, 3, 10]]), "{told}");
    // the replay sent what the run sent, and its parts add up
    let to_drive = told["counters"]["host_units_written"].as_u64().unwrap() * UNIT;
    assert_eq!(told["replays"][0]["drive_bytes"], to_drive, "{told}");
    let kinds = told["kinds"].as_array().unwrap();
    let sum: u64 = kinds.iter().map(|kind| kind["drive_bytes"].as_u64().unwrap()).sum();
    assert_eq!(sum, to_drive, "{told}");
}

#[test]
fn sqlite_writes_pages_twice_and_atomic_writes_would_save_it() {
    let sql = "pragma journal_mode=wal; create table t(id integer primary key, text);
        with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)
        insert into t select i, hex(randomblob(100)) from n;
        pragma wal_checkpoint(truncate);";
    let told = measured(&["--", "sqlite3", "{}/test.db", sql]);
    assert_eq!(file(&told, "test.db")["kind"], "data");
    assert_eq!(file(&told, "test.db-wal")["kind"], "log");
    let replay = |name: &str| {
        let replays = told["replays"].as_array().unwrap();
        replays.iter().find(|replay| replay["name"] == name).unwrap_or_else(|| panic!("no {name} in {told}"))
    };
    let data = file(&told, "test.db")["bytes"].as_u64().unwrap();
    let left_out = replay("atomic writes")["left_out_bytes"].as_u64().unwrap();
    assert!(left_out >= data / 2, "{left_out} of {data} were found in the log: {told}");
    assert!(replay("atomic writes")["flash_saved_percent"].as_f64().unwrap() > 20.0, "{told}");
    assert!(replay("a capacitor")["sync_saved_percent"].as_f64().unwrap() > 30.0, "{told}");
}

#[test]
fn the_program_ends_the_command_with_its_exit_code_and_its_output_is_its_own() {
    let output =
        measure(&["--time", "none", "--no-replay", "--", "sh", "-c", "echo said; echo x > f; exit 7"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(text.starts_with("said\n") && text.contains("exit code 7"), "{text}");
    let output = measure(&[
        "--json",
        "--time",
        "none",
        "--no-replay",
        "--",
        "sh",
        "-c",
        "echo said; echo x > f; kill -9 $$",
    ]);
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(json(&output)["exit_code"], 137);
    assert!(String::from_utf8(output.stderr).unwrap().contains("said"));
}

#[test]
fn setup_is_not_measured_and_an_aged_drive_collects_garbage() {
    let options =
        ["--aged", "--capacity", "256MiB", "--setup", "dd if=/dev/urandom of=f bs=1M count=4 status=none"];
    let program =
        ["--", "dd", "if=/dev/urandom", "of=f", "bs=64k", "count=64", "conv=fsync,notrunc", "status=none"];
    let told = measured(&[&options[..], &program[..]].concat());
    assert_eq!(told["asked"]["bytes"], 64 << 16, "{told}");
    assert!(told["drive"]["aged"]["write_amplification"].as_f64().unwrap() > 1.5, "{told}");
    let replayed = &told["replays"][0];
    assert_eq!(replayed["drive_bytes"], told["counters"]["host_units_written"].as_u64().unwrap() * UNIT);
}

#[test]
fn a_report_stands_alone_and_nothing_else_is_left() {
    let place = TempDir::new().unwrap();
    let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    let (page, drive) = (path("page.html"), path("drive.tant"));
    let arguments = ["--report", &page, "--keep", &drive, "--time", "none", "--capacity", "64MiB"];
    let output = measure(&[&arguments[..], &["--", "sh", "-c", "echo '<b>' > '<i>'; sync '<i>'"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.matches("<svg").count() >= 6 && html.contains("&lt;i&gt;"), "{html}");
    assert!(html.contains("may still be written"), "{html}");
    for outside in ["src=", "href=", "@import", "url(", "NaN", "<i>"] {
        assert!(!html.contains(outside), "the page holds {outside}");
    }
    let mut left: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["drive.tant", "page.html"]);
    let stat = tantalum(&["stat", "--json", &drive]).output().unwrap();
    let stat: Value = serde_json::from_slice(&stat.stdout).unwrap();
    assert!(stat["smart"]["host_units_written"].as_u64().unwrap() > 0, "{stat}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_one_clear_line() {
    let cases: [(&[&str], &str); 7] = [
        (&["--", "true"], "nothing was written to the drive"),
        (&["--", "/no/such/program"], "/no/such/program: No such file"),
        (&["--profile", "no-such", "--", "true"], "no-such"),
        (&["--report", "/no/such/folder/x.html", "--", "true"], "/no/such/folder/x.html"),
        (&["--setup", "exit 3", "--", "true"], "--setup \"exit 3\" ended with exit status: 3"),
        (&["--attach", "/"], "no Tantalum volume is mounted on /"),
        (&["--aged", "--capacity", "16MiB", "--", "true"], "cannot be aged"),
    ];
    for (arguments, expected) in cases {
        let output = measure(arguments);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(expected) && !message.contains("panicked"), "{arguments:?}: {message}");
        let lines = message.lines().filter(|line| !line.starts_with("note: "));
        assert_eq!(lines.count(), 1, "{message}");
    }
    for arguments in [&[][..], &["--attach", "/", "--", "true"], &["--seconds", "1", "--", "true"]] {
        assert_eq!(measure(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

/// A mount of another process, unmounted when this is dropped.
struct Mount {
    place: TempDir,
}

impl Mount {
    fn new() -> Mount {
        let mount = Mount { place: TempDir::new().unwrap() };
        fs::create_dir(mount.folder()).unwrap();
        let (image, folder) = (mount.place.path().join("drive.tant"), mount.folder());
        let options = ["--create", "--capacity", "256MiB", "--background", "--time", "none"];
        let paths = [image.to_str().unwrap(), folder.to_str().unwrap()];
        let mounted = tantalum(&[&["mount"], &paths[..], &options[..]].concat()).output().unwrap();
        assert!(mounted.status.success(), "{}", String::from_utf8_lossy(&mounted.stderr));
        mount
    }

    fn folder(&self) -> std::path::PathBuf {
        self.place.path().join("mnt")
    }

    fn attach(&self, more: &[&str]) -> Child {
        let folder = self.folder();
        let arguments = [&["measure", "--json", "--attach", folder.to_str().unwrap()], more].concat();
        let mut child = tantalum(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        said(&mut child, "watching until Ctrl-C");
        child
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = tantalum(&["unmount", self.folder().to_str().unwrap()]).output();
    }
}

/// Waits until the command says this on standard error.
fn said(child: &mut Child, line: &str) {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|said| said.unwrap() == line), "it did not say {line:?}");
    // what else it says must find a reader
    thread::spawn(move || lines.for_each(drop));
}

fn write_units(path: &Path, units: usize) {
    let status = Command::new("dd")
        .args(["if=/dev/urandom", "bs=4096", "conv=fsync,notrunc", "status=none"])
        .arg(format!("of={}", path.display()))
        .arg(format!("count={units}"))
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_mount_is_watched_until_ctrl_c_and_goes_on() {
    let mount = Mount::new();
    fs::create_dir(mount.folder().join("d")).unwrap();
    write_units(&mount.folder().join("d/old"), 20);
    let child = mount.attach(&[]);
    write_units(&mount.folder().join("d/old"), 5);
    write_units(&mount.folder().join("new"), 7);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let told = json(&output);
    assert_eq!((&told["asked"]["bytes"], &told["exit_code"]), (&(12 * UNIT).into(), &Value::Null), "{told}");
    assert_eq!(file(&told, "d/old")["drive_bytes"], 5 * UNIT, "{told}");
    assert_eq!(file(&told, "new")["drive_bytes"], 7 * UNIT, "{told}");
    // it is used as before, and can be watched again
    write_units(&mount.folder().join("new"), 2);
    let child = mount.attach(&["--no-replay"]);
    write_units(&mount.folder().join("new"), 3);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(json(&output)["asked"]["bytes"], 3 * UNIT);
}

#[test]
fn a_mount_is_watched_for_the_time_given() {
    let mount = Mount::new();
    let output = thread::scope(|scope| {
        let watch = scope.spawn(|| mount.attach(&["--seconds", "1", "--no-replay"]).wait_with_output());
        // it is written to all the time, as nobody knows when the second begins
        while !watch.is_finished() {
            fs::write(mount.folder().join("new"), [1; UNIT as usize]).unwrap();
        }
        watch.join().unwrap().unwrap()
    });
    let told = json(&output);
    assert!(told["seconds"].as_f64().unwrap() >= 1.0, "{told}");
    assert!(told["asked"]["bytes"].as_u64().unwrap() >= UNIT, "{told}");
}

#[test]
fn a_mount_that_ends_while_it_is_watched_is_told_so_far() {
    let mount = Mount::new();
    let child = mount.attach(&[]);
    write_units(&mount.folder().join("new"), 7);
    thread::sleep(Duration::from_millis(500));
    let ended = tantalum(&["unmount", mount.folder().to_str().unwrap()]).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let told = json(&output);
    assert_eq!(told["asked"]["bytes"], 7 * UNIT, "{told}");
    assert!(told["incomplete"].as_str().unwrap().contains("unmounted"), "{told}");
}

#[test]
fn ctrl_c_tells_what_there_is_so_far() {
    let script = "dd if=/dev/zero of=a bs=4096 count=3 conv=fsync status=none; echo ready; exec sleep 60";
    let mut child = tantalum(&["measure", "--json", "--time", "none", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    said(&mut child, "ready");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = json(&output);
    // no terminal sent the program a signal, so it gets one after a while
    assert_eq!((output.status.code(), &told["exit_code"]), (Some(143), &143.into()), "{told}");
    assert_eq!(file(&told, "a")["drive_bytes"], 3 * UNIT, "{told}");
    assert!(told["incomplete"].as_str().unwrap().contains("Ctrl-C"), "{told}");
}

/// One size was noted, and another one named by the error; the drive of that size was aged to 0.00, as if that were its end.
#[test]
fn a_drive_that_is_too_small_to_age_is_refused_with_one_size() {
    let small = |capacity| {
        measure(&["--aged", "--time", "none", "--capacity", capacity, "--", "sh", "-c", "echo 1 > a"])
    };
    let output = small("8M");
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.ends_with("use --capacity 320M or more\n"), "{message}");
    assert_eq!(message.matches("--capacity").count(), 1, "{message}");
    let output = small("34M");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("(not yet steady)"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("use --capacity 320M or more"));
}

/// A killed run left its mount and its folder behind, and nothing said so.
#[test]
fn what_a_killed_run_has_left_is_named_with_what_removes_it() {
    let place = TempDir::new().unwrap();
    let run = |arguments: &[&str]| tantalum(arguments).env("TMPDIR", place.path()).output().unwrap();
    let mut killed =
        tantalum(&["measure", "--time", "none", "--", "sh", "-c", "echo 1 > a; cd /; exec sleep 50"])
            .env("TMPDIR", place.path())
            .spawn()
            .unwrap();
    let folder = loop {
        let folders = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        if let Some(folder) = folders.into_iter().find(|folder| folder.join("dir/a").exists()) {
            break folder;
        }
        assert!(killed.try_wait().unwrap().is_none(), "it ended");
        thread::sleep(Duration::from_millis(10));
    };
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = run(&["measure", "--time", "none", "--", "sh", "-c", "echo 1 > a"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{message}");
    let line =
        message.lines().find(|line| line.contains("is left of a run that was killed")).expect(&message);
    let removes =
        line.split('`').nth(1).unwrap().replace("tantalum ", concat!(env!("CARGO_BIN_EXE_tantalum"), " "));
    assert!(Command::new("sh").args(["-c", &removes]).status().unwrap().success(), "{removes}");
    assert!(!folder.exists());
    let output = run(&["crash", "run", "--check", "true", "--", "sh", "-c", "echo 1 > a"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("is left of").count(), 0);
}
