//! A build without an optional part says so, before it does anything, and how to get it.

use std::fs;
use std::process::{Command, Output};

/// Features that experiments need: whether this build has each, an experiment, and what a build without it says.
const PARTS: [(bool, &str, &str); 2] = [
    (
        cfg!(feature = "servers"),
        "share-fig6",
        "this build has no clients of database servers: build with `cargo install --path crates/cli --features servers`",
    ),
    (
        cfg!(feature = "rocksdb"),
        "kaml-fig9-rocksdb",
        "this build has no RocksDB: build with `cargo install --path crates/cli --features rocksdb`",
    ),
];

fn tantalum(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tantalum")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn an_experiment_that_needs_more_than_this_build_has_fails_before_others_begin() {
    for (_, experiment, message) in PARTS.into_iter().filter(|(is_built, ..)| !is_built) {
        let refused = tantalum(&["lab", "run", "durassd-table1", experiment]);
        assert_eq!(refused.status.code(), Some(2));
        assert_eq!(text(&refused.stderr), format!("error: {message}\n"));
        assert_eq!(text(&refused.stdout), "");
    }
}

#[test]
fn the_list_has_all_experiments_and_marks_those_that_this_build_cannot_run() {
    let listed = text(&tantalum(&["lab", "list"]).stdout);
    for (is_built, experiment, message) in PARTS {
        let line = listed.lines().find(|line| line.starts_with(&format!("{experiment} "))).unwrap();
        assert_eq!(line.contains("--features"), !is_built, "{line}");
        assert_eq!(listed.lines().any(|line| line == message), !is_built, "{listed}");
    }
    let runs_everywhere = listed.lines().find(|line| line.starts_with("durassd-table1 ")).unwrap();
    assert!(!runs_everywhere.contains("--features"), "{runs_everywhere}");
}

#[test]
fn a_sweep_says_first_that_its_table_is_only_csv() {
    let folder = tempfile::tempdir().unwrap();
    let grid = folder.path().join("grid.toml");
    fs::write(
        &grid,
        "[run]\nprofile = \"femu-2021\"\ncapacity = \"64M\"\nworkload = \"seqwrite\"\nrequests = 10\n",
    )
    .unwrap();
    let swept = tantalum(&["lab", "sweep", grid.to_str().unwrap()]);
    assert!(swept.status.success());
    let note = "note: the table is CSV only: this build has no Parquet: build with `cargo install --path crates/cli --features parquet`";
    let has_parquet = cfg!(feature = "parquet");
    assert_eq!(text(&swept.stderr).lines().any(|line| line == note), !has_parquet, "{}", text(&swept.stderr));
    assert_eq!(text(&swept.stdout).contains("table.parquet"), has_parquet, "{}", text(&swept.stdout));
}
