//! A copy of the user's database: complete, consistent, and leaving no trace next to it.
//!
//! It is read like any reader would: by SQLite's backup in one read transaction, including the contents of its log,
//! while others may be writing. The connection is read-only and creates no files. SQLite cannot read some databases in
//! this way: those whose write-ahead log or its index is missing, and those with a journal to be rolled back. Nobody
//! has those open, so their files are copied, and the copy is recovered.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};
use tantalum_report::system_error;
use tempfile::TempDir;

use crate::error::ExperimentError;

/// How long others may lock the database.
const PATIENCE: Duration = Duration::from_secs(3);

/// The files copied along with a database that nobody has open: without them, the last commits would be missing.
const COMPANIONS: [&str; 2] = ["-wal", "-journal"];

/// The two bytes of a database's header that say that it has a write-ahead log.
const LOG_MARK: Range<usize> = 18..20;

/// All files that may accompany a database.
const BESIDE: [&str; 4] = ["", "-wal", "-journal", "-shm"];

/// The database as the bytes of one file.
pub(crate) fn one_file(database: &Path) -> Result<Vec<u8>, ExperimentError> {
    let scratch = TempDir::with_prefix("tantalum-").map_err(system_error);
    let scratch = scratch.map_err(ExperimentError::file(&std::env::temp_dir()))?;
    let copy = scratch.path().join("copy.db");
    let unusable = |error: rusqlite::Error| ExperimentError::Database {
        path: database.to_owned(),
        reason: error.to_string(),
    };
    if lacks_its_log(database).map_err(ExperimentError::file(database))? {
        copy_at_rest(database, &copy)?;
    } else {
        match back_up_live(database, &copy) {
            Err(error) if is_at_rest(&error) => copy_at_rest(database, &copy)?,
            backed_up => backed_up.map_err(unusable)?,
        }
    }
    make_one_file(&copy).map_err(unusable)?;
    fs::read(&copy).map_err(ExperimentError::file(&copy))
}

/// Whether the database has a write-ahead log that is missing: SQLite would create it even to read. The log exists
/// while a program that has read anything has the database open.
fn lacks_its_log(database: &Path) -> std::io::Result<bool> {
    let mut header = [0; LOG_MARK.end];
    let is_whole = fs::File::open(database)?.read_exact(&mut header).is_ok();
    Ok(is_whole && header[LOG_MARK] == [2, 2] && !with_suffix(database, "-wal").exists())
}

/// Opens it as a reader that does not even mark in the log's index that it reads; or, if there is no other way, as one
/// that does.
fn back_up_live(database: &Path, to: &Path) -> rusqlite::Result<()> {
    match back_up(&uri(database, "mode=ro&readonly_shm=1"), to) {
        Err(error) if extended_code(&error) == Some(ffi::SQLITE_READONLY_CANTINIT) => {
            back_up(&uri(database, "mode=ro"), to)
        }
        backed_up => backed_up,
    }
}

fn back_up(uri: &str, to: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let source = Connection::open_with_flags(uri, flags)?;
    source.busy_timeout(PATIENCE)?;
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let mut copy = Connection::open(to)?;
    match Backup::new(&source, &mut copy)?.step(-1)? {
        StepResult::Done => Ok(()),
        other => {
            let busy = ffi::Error::new(ffi::SQLITE_BUSY);
            Err(rusqlite::Error::SqliteFailure(busy, Some(format!("the backup ended with {other:?}"))))
        }
    }
}

/// A path as a URI with parameters. Bytes with a meaning in URIs, and non-ASCII bytes, are escaped.
fn uri(path: &Path, parameters: &str) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte.into()),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    format!("{uri}?{parameters}")
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

/// Whether SQLite would have to create or change files to read the database; it need not if others have it open.
fn is_at_rest(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
        && extended_code(error) != Some(ffi::SQLITE_READONLY_CANTINIT)
}

fn copy_at_rest(from: &Path, to: &Path) -> Result<(), ExperimentError> {
    let before = beside(from);
    let copy = |from: &Path, to: &Path| {
        let bytes = fs::read(from).map_err(ExperimentError::file(from))?;
        fs::write(to, bytes).map_err(ExperimentError::file(to))
    };
    copy(from, to)?;
    for companion in COMPANIONS {
        let source = with_suffix(from, companion);
        if source.is_file() {
            copy(&source, &with_suffix(to, companion))?;
        }
    }
    if beside(from) == before {
        return Ok(());
    }
    let reason = "a program opened it during the copy; try again".to_owned();
    Err(ExperimentError::Database { path: from.to_owned(), reason })
}

/// The files of a database: lengths and modification times.
fn beside(database: &Path) -> [Option<(u64, Option<SystemTime>)>; 4] {
    BESIDE.map(|suffix| {
        let metadata = fs::metadata(with_suffix(database, suffix)).ok()?;
        Some((metadata.len(), metadata.modified().ok()))
    })
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

/// Brings a log or a hot journal home. Fails if the file is not a database or is damaged.
fn make_one_file(copy: &Path) -> rusqlite::Result<()> {
    let sqlite = Connection::open(copy)?;
    let _: String = sqlite.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get(0))?;
    let verdict: String = sqlite.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if verdict != "ok" {
        let damaged = ffi::Error::new(ffi::SQLITE_CORRUPT);
        return Err(rusqlite::Error::SqliteFailure(damaged, Some(verdict)));
    }
    sqlite.close().map_err(|(_, error)| error)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// All files of a folder.
    fn files(folder: &Path) -> BTreeMap<OsString, Vec<u8>> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        entries.map(|entry| (entry.file_name(), fs::read(entry.path()).unwrap())).collect()
    }

    fn rows_of(image: &[u8]) -> i64 {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("copy.db"), image).unwrap();
        let sqlite = Connection::open(folder.path().join("copy.db")).unwrap();
        sqlite.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    fn with_log(database: &Path) -> Connection {
        let writer = Connection::open(database).unwrap();
        let _: String = writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
        writer.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").unwrap();
        writer
    }

    /// Copies the files as they are while a writer has them open, which is what a killed writer leaves.
    fn left_behind(folder: &Path, to: &Path, suffixes: &[&str]) {
        for suffix in suffixes {
            fs::copy(with_suffix(&folder.join("app.db"), suffix), with_suffix(&to.join("app.db"), suffix))
                .unwrap();
        }
    }

    #[test]
    fn what_a_writer_left_behind_is_copied_with_its_log_and_nothing_changes() {
        let live = TempDir::new().unwrap();
        let writer = with_log(&live.path().join("app.db"));
        for suffixes in [&["", "-wal", "-shm"][..], &["", "-wal"]] {
            let folder = TempDir::new().unwrap();
            left_behind(live.path(), folder.path(), suffixes);
            let before = files(folder.path());
            assert_eq!(rows_of(&one_file(&folder.path().join("app.db")).unwrap()), 2, "{suffixes:?}");
            assert!(files(folder.path()) == before, "{suffixes:?}");
        }
        drop(writer);
        let before = files(live.path());
        assert_eq!(before.len(), 1, "the last one to close brings the log home");
        assert_eq!(rows_of(&one_file(&live.path().join("app.db")).unwrap()), 2);
        assert!(files(live.path()) == before);
    }

    /// Every transaction changes every page, and brings the log home.
    fn write_until(is_over: &AtomicBool, database: &Path) {
        let writer = Connection::open(database).unwrap();
        writer.busy_timeout(Duration::from_secs(60)).unwrap();
        writer.execute_batch("PRAGMA wal_autocheckpoint = 1; PRAGMA synchronous = OFF").unwrap();
        while !is_over.load(Ordering::Relaxed) {
            writer.execute_batch("UPDATE t SET a = a + 1").unwrap();
        }
    }

    #[test]
    fn while_another_writes_the_copy_is_of_one_moment() {
        for mode in ["WAL", "DELETE"] {
            let folder = TempDir::new().unwrap();
            let database = folder.path().join("app.db");
            let first = Connection::open(&database).unwrap();
            let many = "CREATE TABLE t(a, b); WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<2000)
                INSERT INTO t SELECT 0, zeroblob(1000) FROM c";
            let _: String =
                first.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| row.get(0)).unwrap();
            first.execute_batch(many).unwrap();
            let is_over = AtomicBool::new(false);
            let images = std::thread::scope(|scope| {
                scope.spawn(|| write_until(&is_over, &database));
                let images: Vec<_> = (0..20).map(|_| one_file(&database)).collect();
                is_over.store(true, Ordering::Relaxed);
                images
            });
            for image in images {
                let copy = folder.path().join("copy.db");
                fs::write(&copy, image.unwrap()).unwrap();
                let spread = "SELECT max(a) - min(a) FROM t";
                let spread: i64 =
                    Connection::open(&copy).unwrap().query_row(spread, [], |row| row.get(0)).unwrap();
                assert_eq!(spread, 0, "{mode}: half a transaction was copied");
            }
        }
    }

    #[test]
    fn a_transaction_that_was_not_finished_is_rolled_back_in_the_copy_only() {
        let live = TempDir::new().unwrap();
        let writer = Connection::open(live.path().join("app.db")).unwrap();
        writer
            .execute_batch("PRAGMA cache_size = 1; CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)")
            .unwrap();
        let many = "WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<500)
            INSERT INTO t SELECT zeroblob(1000) FROM c";
        writer.execute_batch(&format!("BEGIN; {many}")).unwrap();
        let folder = TempDir::new().unwrap();
        left_behind(live.path(), folder.path(), &["", "-journal"]);
        let before = files(folder.path());
        assert_eq!(rows_of(&one_file(&folder.path().join("app.db")).unwrap()), 2);
        assert!(files(folder.path()) == before);
    }

    #[test]
    fn what_means_something_in_a_uri_may_be_in_a_name() {
        let folder = TempDir::new().unwrap();
        let database = folder.path().join("a?b#c%41 &ö.db");
        drop(with_log(&database));
        assert_eq!(rows_of(&one_file(&database).unwrap()), 2);
    }

    #[test]
    fn a_writer_that_shares_with_nobody_is_told_of() {
        let folder = TempDir::new().unwrap();
        let writer = Connection::open(folder.path().join("app.db")).unwrap();
        writer.execute_batch("CREATE TABLE t(a); BEGIN EXCLUSIVE").unwrap();
        let error = one_file(&folder.path().join("app.db")).unwrap_err().to_string();
        assert!(error.contains("app.db cannot be used") && error.contains("locked"), "{error}");
    }
}
