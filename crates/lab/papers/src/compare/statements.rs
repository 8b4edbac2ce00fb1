//! The user's own database and statements.
//!
//! The database is copied, with its log or journal if it has one, and never touched (`database_copy`). Nor is any other
//! file of the host: the statements run only on drives (`confined`). They first run on a separate drive, as ordinary
//! files: errors show there before anything else is done, and each mode's database is compared with the result.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, Statement};
use tantalum::{Device, Profile};
use tantalum_report::InvalidSetting;
use tantalum_sqlite::Mode;
use tantalum_volume::Volume;
use tantalum_workloads::capacity::units_in_use;
use tantalum_workloads::memory;

use super::capacity::{on_larger, smallest_capacity_for};
use super::confinement::Refusal;
use super::contents::Contents;
use super::database_copy::one_file;
use super::determinism::{Clock, make_deterministic};
use super::outcome::WorkloadOutcome;
use super::registered_volume::{DATABASE, RegisteredVolume};
use super::script::{self, Script};
use super::session::{PAGE_CACHE_BYTES, Session};
use super::workload::Workload;
use crate::error::ExperimentError;

/// Characters of a statement shown in errors.
const SHOWN_CHARACTERS: usize = 60;

/// A database and statements, which were read and tried.
#[derive(Debug)]
pub struct Statements {
    database: PathBuf,
    sql_path: PathBuf,
    sql: String,
    /// The database as one file.
    image: Vec<u8>,
    /// Transactions that the statements make up.
    transactions: u64,
    /// Units by which the statements make the database grow.
    growth_units: u64,
    expected: Contents,
}

impl Statements {
    /// Copies the database and tries the statements on a drive.
    ///
    /// The seed, which must be that of the comparison, is that of `random()` and `randomblob()`.
    pub fn read(
        database: &Path,
        sql_path: &Path,
        profile: &Profile,
        seed: u64,
    ) -> Result<Statements, ExperimentError> {
        let sql = script::read(sql_path)?;
        let image = one_file(database)?;
        let tried = |profile: &Profile| try_statements(&image, profile, &sql, sql_path, seed);
        let Tried { transactions, expected, growth_units, .. } = tried(profile).map_err(|error| {
            // how much they add shows where there is room for it
            let enough = || {
                on_larger(profile, tried).and_then(|t| smallest_capacity_for(t.used_units, t.growth_units))
            };
            error.if_too_small(profile.capacity_bytes, enough)
        })?;
        Ok(Statements {
            database: database.to_owned(),
            sql_path: sql_path.to_owned(),
            sql,
            image,
            transactions,
            growth_units,
            expected,
        })
    }
}

/// What came out of trying the statements.
struct Tried {
    transactions: u64,
    /// Contents of the database afterwards.
    expected: Contents,
    /// Units in use before.
    used_units: u64,
    /// Further ones in use afterwards.
    growth_units: u64,
}

/// Runs the statements on a drive that has the database as an ordinary file.
fn try_statements(
    image: &[u8],
    profile: &Profile,
    sql: &str,
    sql_path: &Path,
    seed: u64,
) -> Result<Tried, ExperimentError> {
    memory::require(profile.capacity_bytes)?;
    let volume = put(Volume::format(Device::in_memory(profile)?, PAGE_CACHE_BYTES)?, image)?;
    let used_units = units_in_use(&volume);
    let working = RegisteredVolume::new(volume, Mode::Rollback, 0)?;
    let (transactions, expected) = run_all(&working, sql, sql_path, seed)?;
    let growth_units = units_in_use(&working.into_volume()?).saturating_sub(used_units);
    Ok(Tried { transactions, expected, used_units, growth_units })
}

/// Puts the database on a volume.
fn put(mut volume: Volume, image: &[u8]) -> Result<Volume, ExperimentError> {
    let file = volume.create(DATABASE)?;
    volume.write(file, 0, image)?;
    volume.sync(file)?;
    volume.sync_names()?;
    Ok(volume)
}

/// Runs the statements. Returns the number of transactions and the contents of the database afterwards.
fn run_all(
    working: &RegisteredVolume,
    sql: &str,
    sql_path: &Path,
    seed: u64,
) -> Result<(u64, Contents), ExperimentError> {
    let (sqlite, refusal) = working.open_confined()?;
    let doing = || ExperimentError::sqlite("trying the statements");
    sqlite.pragma_update(None, "synchronous", "off").map_err(doing())?;
    let clock = make_deterministic(&sqlite, seed).map_err(doing())?;
    refusal.is_set_up();
    let mut transactions = 0;
    for_each_statement(&sqlite, (&refusal, &clock), sql, sql_path, |statement| {
        finish(statement)?;
        transactions += u64::from(sqlite.is_autocommit());
        Ok(())
    })?;
    if !sqlite.is_autocommit() {
        return Err(ExperimentError::OpenTransaction { path: sql_path.to_owned() });
    }
    if transactions == 0 {
        let (option, value) = ("--sql", sql_path.display().to_string());
        return Err(InvalidSetting::new(option, value, "it contains no statements").into());
    }
    Ok((transactions, Contents::of(&sqlite).map_err(doing())?))
}

/// Runs all statements in order. An error names the statement, and what was refused in it.
fn for_each_statement(
    sqlite: &Connection,
    (refusal, clock): (&Refusal, &Clock),
    sql: &str,
    sql_path: &Path,
    mut run: impl FnMut(&mut Statement<'_>) -> rusqlite::Result<()>,
) -> Result<(), ExperimentError> {
    let mut number = 0;
    let mut script = Script::new(sql);
    while let Some(mut text) = script.next_statement() {
        number += 1;
        let error = |text: &str, error: rusqlite::Error| ExperimentError::Statement {
            path: sql_path.to_owned(),
            number,
            text: shortened(text),
            full: error.sqlite_error_code() == Some(ErrorCode::DiskFull),
            message: refusal.take().unwrap_or_else(|| message_of(error, text)),
        };
        let mut prepared = sqlite.prepare(text);
        // a trigger has semicolons of its own
        while prepared.as_ref().is_err_and(is_unfinished)
            && let Some(longer) = script.extend()
        {
            text = longer;
            prepared = sqlite.prepare(text);
        }
        let mut statement = prepared.map_err(|failure| error(text, failure))?;
        if statement.parameter_count() > 0 {
            return Err(ExperimentError::Statement {
                path: sql_path.to_owned(),
                number,
                text: shortened(&statement.expanded_sql().unwrap_or_default()),
                message: "it has parameters, and there are no values for them: write the values into it"
                    .to_owned(),
                full: false,
            });
        }
        clock.next_statement();
        run(&mut statement).map_err(|failure| error(text, failure))?;
    }
    Ok(())
}

/// Runs a statement to its end, ignoring its rows.
fn finish(statement: &mut Statement<'_>) -> rusqlite::Result<()> {
    let mut rows = statement.raw_query();
    while rows.next()?.is_some() {}
    Ok(())
}

/// SQLite's error message about a statement.
/// Whether a statement goes on behind its end.
fn is_unfinished(error: &rusqlite::Error) -> bool {
    let (rusqlite::Error::SqlInputError { msg, .. } | rusqlite::Error::SqliteFailure(_, Some(msg))) = error
    else {
        return false;
    };
    msg == "incomplete input"
}

fn message_of(error: rusqlite::Error, text: &str) -> String {
    match error {
        rusqlite::Error::SqlInputError { msg, .. } if is_limited_change(&msg, text) => {
            format!("{msg}: {NO_LIMIT_OF_CHANGES}")
        }
        rusqlite::Error::SqlInputError { msg, .. } => msg,
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        other => other.to_string(),
    }
}

/// SQLite's parser as its authors distribute it in one file lacks this, and no flag adds it: it is generated from a grammar.
const NO_LIMIT_OF_CHANGES: &str = "this SQLite has no UPDATE or DELETE with ORDER BY or LIMIT, unlike Debian's; write \
                                   ... WHERE rowid IN (SELECT rowid FROM ... ORDER BY ... LIMIT ...)";

/// Whether the parser stopped where Debian's goes on: at the order or limit of an update or a deletion.
fn is_limited_change(message: &str, text: &str) -> bool {
    let stopped_at = |word: &str| {
        let near = format!("near \"{word}\": syntax error");
        message.eq_ignore_ascii_case(&near)
    };
    let has = |word: &str| text.split_whitespace().any(|part| part.eq_ignore_ascii_case(word));
    (stopped_at("LIMIT") || stopped_at("ORDER")) && (has("UPDATE") || has("DELETE"))
}

/// The beginning of a statement, on one line.
fn shortened(sql: &str) -> String {
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

impl Workload for Statements {
    fn load(&self, volume: Volume, _seed: u64) -> Result<Volume, ExperimentError> {
        put(volume, &self.image)
    }

    fn growth_units(&self) -> u64 {
        self.growth_units
    }

    fn steps(&self) -> u64 {
        self.transactions
    }

    fn warm_up(&self, _session: &mut Session<'_>, _seed: u64) -> Result<(), ExperimentError> {
        Ok(())
    }

    fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError> {
        let sqlite = session.connection();
        let mut stopped = Ok(());
        // Anything to be refused was refused when the statements were tried.
        let refusal = Refusal::default();
        let clock =
            make_deterministic(sqlite, seed).map_err(ExperimentError::sqlite("setting up the connection"))?;
        for_each_statement(sqlite, (&refusal, &clock), &self.sql, &self.sql_path, |statement| {
            if stopped.is_ok() {
                session.statement(|_| finish(statement))?;
                stopped = session.advance(u64::from(sqlite.is_autocommit()));
            }
            Ok(())
        })?;
        stopped
    }

    fn difference(&self, sqlite: &Connection, _seed: u64) -> Result<Option<String>, ExperimentError> {
        let found = Contents::of(sqlite).map_err(ExperimentError::sqlite("reading the database"))?;
        Ok(found.difference(&self.expected))
    }

    fn describe(&self, outcome: &mut WorkloadOutcome) {
        outcome.kind = "statements";
        outcome.database = Some(self.database.display().to_string());
        outcome.sql = Some(self.sql_path.display().to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    struct Files {
        dir: TempDir,
    }

    impl Files {
        fn new(sql: &str) -> Files {
            let dir = TempDir::new().unwrap();
            let sqlite = Connection::open(dir.path().join("app.db")).unwrap();
            sqlite.execute_batch("CREATE TABLE t (x INTEGER UNIQUE); INSERT INTO t VALUES (1)").unwrap();
            fs::write(dir.path().join("work.sql"), sql).unwrap();
            Files { dir }
        }

        fn database(&self) -> PathBuf {
            self.dir.path().join("app.db")
        }

        fn read(&self) -> Result<Statements, ExperimentError> {
            let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() };
            Statements::read(&self.database(), &self.dir.path().join("work.sql"), &profile, 1)
        }
    }

    #[test]
    fn transactions_are_counted() {
        let files = Files::new(
            "INSERT INTO t VALUES (2); BEGIN; INSERT INTO t VALUES (3); DELETE FROM t WHERE x = 1; COMMIT;
             SELECT * FROM t; -- the end",
        );
        assert_eq!(files.read().unwrap().transactions, 3);
    }

    #[test]
    fn the_database_is_not_touched() {
        let files = Files::new("DELETE FROM t");
        let before = fs::read(files.database()).unwrap();
        files.read().unwrap();
        assert_eq!(fs::read(files.database()).unwrap(), before);
        assert_eq!(fs::read_dir(files.dir.path()).unwrap().count(), 2, "something was left beside it");
    }

    #[test]
    fn what_is_only_in_the_log_is_copied() {
        let files = Files::new("SELECT 1");
        let writer = Connection::open(files.database()).unwrap();
        let _: String = writer.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).unwrap();
        writer.execute_batch("INSERT INTO t VALUES (2)").unwrap();
        let image = files.read().unwrap().image;
        let copy = files.dir.path().join("copy.db");
        fs::write(&copy, image).unwrap();
        let count = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        assert_eq!(Connection::open(copy).unwrap().query_row("SELECT count(*) FROM t", [], count), Ok(2));
    }

    /// SQLite gives no place in a statement that ends too early, and every trigger was refused.
    #[test]
    fn a_trigger_has_statements_of_its_own() {
        let files = Files::new(
            "CREATE TABLE u (x);
             CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO u VALUES (new.x); DELETE FROM u WHERE x = 5; END;
             INSERT INTO t VALUES (9);",
        );
        assert_eq!(files.read().unwrap().transactions, 3);
        let error =
            Files::new("CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 1;").read().unwrap_err().to_string();
        assert!(error.contains("incomplete input"), "{error}");
    }

    #[test]
    fn a_failing_statement_is_named_with_sqlites_message() {
        let error = Files::new("SELECT 1;\nINSERT INTO t\n VALUES (1);").read().unwrap_err().to_string();
        assert!(error.contains("statement 2 (INSERT INTO t VALUES (1);)"), "{error}");
        assert!(error.contains("UNIQUE constraint failed: t.x"), "{error}");
    }

    #[test]
    fn a_statement_that_is_no_sql_is_named() {
        let error = Files::new("SELECT 1; SELEKT 2").read().unwrap_err().to_string();
        assert!(error.contains("statement 2 (SELEKT 2)"), "{error}");
        assert!(error.contains("near \"SELEKT\": syntax error"), "{error}");
        let error = Files::new("\n;; SELEKT 2").read().unwrap_err().to_string();
        assert!(error.contains("(SELEKT 2)"), "{error}");
        let error = Files::new("SELECT 1; SELECT ?").read().unwrap_err().to_string();
        assert!(error.contains("statement 2 (SELECT NULL): it has parameters"), "{error}");
    }

    /// Statements that Debian's `sqlite3` runs.
    #[test]
    fn functions_of_debians_sqlite_are_there_and_what_is_not_is_told() {
        let functions =
            Files::new("SELECT pow(2, 3), ceil(1.5), log2(8), soundex('a'); UPDATE t SET x = sqrt(x)");
        assert_eq!(functions.read().unwrap().transactions, 2);
        let error = |sql: &str| Files::new(sql).read().unwrap_err().to_string();
        let changes = [
            "UPDATE t SET x = 2 LIMIT 1",
            "delete from t order by x limit 1",
            "WITH a AS (SELECT 1) UPDATE t SET x = 3 WHERE x IN a LIMIT 2",
        ];
        for sql in changes {
            let message = error(sql);
            assert!(message.contains("no UPDATE or DELETE with ORDER BY or LIMIT"), "{message}");
        }
        let elsewhere = error("SELECT LIMIT 1");
        assert!(!elsewhere.contains("unlike Debian's"), "{elsewhere}");
        let rewritten =
            Files::new("UPDATE t SET x = 2 WHERE rowid IN (SELECT rowid FROM t ORDER BY x LIMIT 1)");
        assert_eq!(rewritten.read().unwrap().transactions, 1);
    }

    #[test]
    fn statements_that_fill_the_drive_are_told_what_would_do() {
        let files = Files::new(
            "CREATE TABLE big (b); INSERT INTO big
             SELECT zeroblob(10000) FROM json_each('[' || substr(replace(hex(zeroblob(1000)), '0', ',0'), 2) || ']');",
        );
        let at = |capacity_bytes| {
            let profile = Profile { capacity_bytes, ..Profile::load("femu-2021").unwrap() };
            Statements::read(&files.database(), &files.dir.path().join("work.sql"), &profile, 1)
        };
        let error = at(16 << 20).unwrap_err().to_string();
        let (what, would_do) = error.split_once("; use --capacity ").expect(&error);
        assert!(what.contains("statement 2 (INSERT INTO big"), "{what}");
        let mib: u64 = would_do.strip_suffix("M or more").expect(&error).parse().unwrap();
        let statements = at(mib << 20).unwrap();
        // 2,000 rows of three pages, in a tenth of the drive, with as much again for a log
        assert!(statements.growth_units > 5_000 && mib > 2 * 10 * 5_000 / 256, "{mib}");
    }

    #[test]
    fn unfinished_and_unsuitable_statements_are_refused() {
        let error = Files::new("BEGIN; DELETE FROM t").read().unwrap_err().to_string();
        assert!(error.contains("add COMMIT"), "{error}");
        let error = Files::new("-- nothing").read().unwrap_err().to_string();
        assert!(error.contains("no statement"), "{error}");
        let error = Files::new("PRAGMA journal_mode = WAL").read().unwrap_err().to_string();
        assert!(error.contains("journal_mode cannot be set to WAL: each mode"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        let files = Files::new("SELECT 1");
        fs::write(files.database(), "hello ".repeat(1000)).unwrap();
        let error = files.read().unwrap_err().to_string();
        assert!(error.contains("app.db cannot be used as a database: file is not a database"), "{error}");
        fs::remove_file(files.database()).unwrap();
        let error = files.read().unwrap_err().to_string();
        assert!(error.contains("app.db: No such file"), "{error}");
    }
}
