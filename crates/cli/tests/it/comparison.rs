//! `tantalum compare sqlite` as a whole.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rusqlite::Connection;
use serde_json::Value;
use tempfile::TempDir;

const SMALL: [&str; 12] = [
    "compare",
    "sqlite",
    "--profile",
    "femu-2021",
    "--capacity",
    "128M",
    "--rows",
    "500",
    "--operations",
    "1500",
    "--value-bytes",
    "2000",
];

fn tantalum(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).current_dir(dir).output().unwrap()
}

fn printed(output: Output) -> String {
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{message}");
    String::from_utf8(output.stdout).unwrap()
}

fn small(dir: &Path, more: &[&str]) -> String {
    printed(tantalum(dir, &[&SMALL[..], more].concat()))
}

#[test]
fn the_same_seed_gives_the_same_json() {
    let dir = TempDir::new().unwrap();
    let json = small(dir.path(), &["--json", "--seed", "7"]);
    assert_eq!(json, small(dir.path(), &["--json", "--seed", "7"]));
    assert_ne!(json, small(dir.path(), &["--json", "--seed", "8"]));
}

#[test]
fn modes_that_remap_program_less_than_wal() {
    let dir = TempDir::new().unwrap();
    let outcome: Value = serde_json::from_str(&small(dir.path(), &["--json"])).unwrap();
    let runs = outcome["runs"].as_array().unwrap();
    let programmed = |mode: &str| {
        let run = runs.iter().find(|run| run["mode"] == mode).unwrap();
        assert_eq!(run["integrity"], "ok", "{mode}");
        assert_eq!(run["transactions"], 1500, "{mode}");
        run["flash_units_programmed"].as_u64().unwrap()
    };
    for mode in ["x-ftl", "atomic", "rollback"] {
        programmed(mode);
    }
    for mode in ["share", "sw-wal"] {
        assert!(programmed(mode) < programmed("wal"), "{mode} programs {} units", programmed(mode));
    }
}

#[test]
fn the_table_fits_and_the_report_is_written() {
    let dir = TempDir::new().unwrap();
    let table = small(dir.path(), &["--modes", "wal,sw-wal", "--report", "report.html"]);
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.lines().any(|line| line.starts_with("sw-wal")), "{table}");
    assert!(fs::read_to_string(dir.path().join("report.html")).unwrap().ends_with("</html>\n"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left beside the report");
}

#[test]
fn a_drive_too_small_for_the_database_is_refused() {
    let dir = TempDir::new().unwrap();
    let arguments = [
        "compare",
        "sqlite",
        "--profile",
        "femu-2021",
        "--capacity",
        "64M",
        "--rows",
        "100000",
        "--report",
        "report.html",
    ];
    let output = tantalum(dir.path(), &arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{message}");
    let (what, would_do) = message.rsplit_once("; use --capacity ").expect(&message);
    assert!(what.contains("a drive of 64 MiB is too small for this: filling the table"), "{message}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let few =
        ["--modes", "wal", "--operations", "100", "--capacity", would_do.strip_suffix(" or more\n").unwrap()];
    let enough = [&arguments[..4], &few, &["--rows", "100000"]].concat();
    assert!(printed(tantalum(dir.path(), &enough)).contains("  ok"));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_no_report() {
    let dir = TempDir::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tantalum"))
        .args([
            "compare",
            "sqlite",
            "--profile",
            "femu-2021",
            "--operations",
            "100000000",
            "--capacity",
            "256M",
            "--report",
            "report.html",
        ])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a half-written report stayed");
}

#[test]
fn your_own_statements_run_in_every_mode() {
    let dir = TempDir::new().unwrap();
    let sql = "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);
        BEGIN; INSERT INTO t (b) VALUES ('one'), ('two'), ('three'); COMMIT;
        UPDATE t SET b = upper(b) WHERE a > 1;
        DELETE FROM t WHERE a = 1;";
    fs::write(dir.path().join("work.sql"), sql).unwrap();
    fs::write(dir.path().join("app.db"), "").unwrap();
    let arguments = [
        "compare",
        "sqlite",
        "--profile",
        "femu-2021",
        "--capacity",
        "128M",
        "--database",
        "app.db",
        "--sql",
        "work.sql",
        "--json",
    ];
    let outcome: Value = serde_json::from_str(&printed(tantalum(dir.path(), &arguments))).unwrap();
    let runs = outcome["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    for run in runs {
        assert_eq!((&run["transactions"], &run["integrity"]), (&4.into(), &"ok".into()), "{run}");
    }
    assert_eq!(fs::read(dir.path().join("app.db")).unwrap(), b"", "the database was touched");
}

/// All files of a folder.
fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn nothing_of_yours_changes_whatever_your_statements_say_and_while_you_write() {
    let dir = TempDir::new().unwrap();
    let open = |name: &str| Connection::open(dir.path().join(name)).unwrap();
    open("other.db").execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").unwrap();
    let writer = open("app.db");
    let _: String = writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    writer.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").unwrap();
    let committed: i64 = writer.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    writer.execute_batch("INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4)").unwrap();
    let sql = "ATTACH 'other.db' AS other; CREATE TABLE other.t AS SELECT * FROM main.t;
        CREATE TABLE three(x CHECK (x = 3)); INSERT INTO three SELECT count(*) FROM other.t;
        VACUUM INTO 'copy.db';";
    fs::write(dir.path().join("work.sql"), sql).unwrap();
    let before = files(dir.path());
    let arguments = "compare sqlite --profile femu-2021 --capacity 64M --modes wal,share --json \
        --database app.db --sql work.sql";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let outcome: Value = serde_json::from_str(&printed(tantalum(dir.path(), &arguments))).unwrap();
    for run in outcome["runs"].as_array().unwrap() {
        assert_eq!(run["integrity"], "ok", "{run}");
    }
    let after = files(dir.path());
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    assert!(after.keys().any(|name| name == "app.db-wal"), "the writer has no log");
    for (name, content) in before {
        assert!(after[&name] == content, "{} was changed", name.display());
    }
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(writer.query_row("SELECT count(*) FROM t", [], |row| row.get(0)), Ok(committed + 2));
}
