//! The user's own database and statements: nothing of the user's is changed by them, whatever the statements say, and
//! what a database holds is copied whole while another connection writes to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use rusqlite::Connection;
use tantalum::Profile;
use tantalum_papers::ExperimentError;
use tantalum_papers::compare::{Settings, Statements, compare};
use tantalum_report::Monitor;
use tantalum_sqlite::{Mode, Synchronous};
use tempfile::TempDir;

/// A folder with the user's databases, one of which is in use.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(TempDir::new().unwrap());
        for name in ["app.db", "other.db"] {
            let sqlite = Connection::open(folder.0.path().join(name)).unwrap();
            sqlite.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").unwrap();
        }
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn files(&self) -> BTreeMap<OsString, Vec<u8>> {
        let entries = fs::read_dir(self.path()).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
    }

    /// Reads, compares, and checks that the folder is unchanged.
    fn compare(&self, sql: &str) -> Result<(), ExperimentError> {
        let sql_path = self.path().join("work.sql");
        fs::write(&sql_path, sql).unwrap();
        let before = self.files();
        let outcome = run(&self.path().join("app.db"), &sql_path);
        let after = self.files();
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{sql}");
        // In one process connections share the log's index. That the copy leaves another process's alone is a test of the
        // command (crates/cli/tests/it/comparison.rs).
        for (name, content) in before.iter().filter(|(name, _)| *name != "app.db-shm") {
            assert!(after[name] == *content, "{sql}: {} was changed", name.display());
        }
        outcome
    }

    fn refusal(&self, sql: &str) -> String {
        self.compare(sql).expect_err(sql).to_string()
    }
}

fn profile() -> Profile {
    Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() }
}

fn run(database: &Path, sql: &Path) -> Result<(), ExperimentError> {
    let statements = Statements::read(database, sql, &profile(), 1)?;
    let settings =
        Settings { profile: profile(), modes: Mode::ALL.to_vec(), synchronous: Synchronous::Full, seed: 1 };
    let comparison = compare(&settings, &statements, &Monitor::silent())?;
    assert!(comparison.is_intact(), "{comparison:?}");
    Ok(())
}

#[test]
fn attached_databases_are_on_the_drive() {
    let folder = Folder::new();
    // Relative names mean this process's folder: no other test here has any.
    std::env::set_current_dir(folder.path()).unwrap();
    folder
        .compare(
            "ATTACH 'other.db' AS other;
             CREATE TABLE other.mine(a);
             INSERT INTO other.mine SELECT a FROM main.t;
             DETACH other;
             ATTACH 'file:other.db' AS again;
             UPDATE again.mine SET a = a + 1;
             DETACH again;
             VACUUM INTO 'copy.db';
             ATTACH './copy.db' AS copy;
             DELETE FROM copy.t;
             ATTACH ':memory:' AS nowhere;
             CREATE TABLE nowhere.n(a);
             VACUUM;",
        )
        .unwrap();
    let error = folder.refusal("ATTACH 'other.db' AS other; SELECT * FROM other.t");
    assert!(error.contains("no such table: other.t"), "it is another other.db: {error}");
}

#[test]
fn places_in_the_hosts_folders_are_refused() {
    let folder = Folder::new();
    let other = folder.path().join("other.db").display().to_string();
    let new = folder.path().join("new.db").display().to_string();
    for sql in [
        format!("ATTACH '{other}' AS other; INSERT INTO other.t VALUES (3)"),
        format!("ATTACH 'file:{other}' AS other; INSERT INTO other.t VALUES (3)"),
        format!("VACUUM INTO '{new}'"),
        format!("VACUUM INTO 'file:{new}'"),
        format!("SELECT 1; VACUUM INTO '{new}' || ''"),
    ] {
        let error = folder.refusal(&sql);
        assert!(error.contains("host's folders: statements work on the drive"), "{sql}: {error}");
    }
    for sql in [
        format!("ATTACH 'file:{other}?vfs=unix' AS other; INSERT INTO other.t VALUES (3)"),
        format!("ATTACH 'file:{other}?mode=rw&%76fs=unix' AS other; INSERT INTO other.t VALUES (3)"),
        format!("VACUUM INTO 'file:{new}?vfs=unix-none'"),
    ] {
        let error = folder.refusal(&sql);
        assert!(error.contains("the drive's own VFS"), "{sql}: {error}");
    }
    let error = folder.refusal(&format!("SELECT 1; ATTACH '{other}' || '' AS other; DELETE FROM other.t"));
    assert!(error.contains("statement 2 (ATTACH") && error.contains("not an expression"), "{error}");
}

#[test]
fn what_reaches_past_the_drive_or_decides_the_mode_is_refused() {
    let folder = Folder::new();
    for (sql, reason) in [
        ("PRAGMA journal_mode = MEMORY", "each mode of the comparison sets its own"),
        ("SELECT load_extension('/nonexistent')", "load_extension() accesses files of the host"),
        ("PRAGMA temp_store_directory = '/tmp'", "folder of the host"),
    ] {
        let error = folder.refusal(sql);
        assert!(error.contains(reason), "{sql}: {error}");
    }
}

#[test]
fn a_database_that_is_written_to_is_copied_whole_as_of_its_last_commit() {
    let folder = Folder::new();
    let database = folder.path().join("app.db");
    let writer = Connection::open(&database).unwrap();
    let _: String = writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
    writer.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 2").unwrap();
    let many = "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<1000)
        INSERT INTO t SELECT zeroblob(500) FROM c";
    writer.execute_batch(many).unwrap();
    let reader = Connection::open(&database).unwrap();
    let committed: i64 = reader.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    // More than the cache holds, so that pages that were not committed are in the log.
    writer.execute_batch(&format!("BEGIN; {many}; DELETE FROM t WHERE a = 1")).unwrap();
    let rows = format!("CREATE TABLE found AS SELECT 1 / ((SELECT count(*) FROM t) = {committed}) AS whole");
    let checked = format!("{rows}; CREATE TABLE ok(x NOT NULL); INSERT INTO ok SELECT whole FROM found");
    folder.compare(&checked).unwrap();
    writer.execute_batch("COMMIT").unwrap();
    let error = folder.refusal(&checked);
    assert!(error.contains("NOT NULL"), "the check can fail: {error}");
}

#[test]
fn a_first_transaction_in_a_new_log_is_copied_too() {
    let folder = Folder::new();
    let database = folder.path().join("app.db");
    let _: String = Connection::open(&database)
        .unwrap()
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .unwrap();
    let writer = Connection::open(&database).unwrap();
    writer.execute_batch("INSERT INTO t VALUES (3)").unwrap();
    let sql_path = folder.path().join("work.sql");
    fs::write(&sql_path, "CREATE TABLE ok(x NOT NULL); INSERT INTO ok SELECT max(a) FROM t WHERE a = 3")
        .unwrap();
    run(&database, &sql_path).unwrap();
}

/// In each mode SQLite itself draws another number of random numbers, and the drive's time differs.
#[test]
fn random_numbers_and_the_time_are_alike_in_all_modes() {
    Folder::new()
        .compare(
            "CREATE TABLE made(r, b, at DEFAULT CURRENT_TIMESTAMP, later);
             INSERT INTO made(r, b, later) SELECT random(), randomblob(20), datetime('now', '+1 hour') FROM t;
             UPDATE t SET a = random() % 1000;
             INSERT INTO made(r, later) SELECT a, strftime('%f') FROM t ORDER BY random();",
        )
        .unwrap();
}
