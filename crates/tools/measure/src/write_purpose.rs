//! The purpose of a file: data, a log, or temporary. Determined by its name if that is known, otherwise by what was done
//! to it.

use serde::Serialize;

/// The purpose of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WritePurpose {
    /// Data that are meant to stay.
    Data,
    /// What makes changes of data durable or atomic: a journal, a write-ahead log, a doublewrite buffer.
    Log,
    /// Data that disappear before anybody makes them durable.
    Temporary,
    /// What the file system wrote for itself: inodes, names, the map of free space.
    Metadata,
}

impl WritePurpose {
    /// All kinds, in the order of tables.
    pub const ALL: [WritePurpose; 4] =
        [WritePurpose::Data, WritePurpose::Log, WritePurpose::Temporary, WritePurpose::Metadata];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            WritePurpose::Data => "data",
            WritePurpose::Log => "log",
            WritePurpose::Temporary => "temporary",
            WritePurpose::Metadata => "metadata",
        }
    }
}

/// Ends of file names of logs: SQLite's journal and write-ahead log, and RocksDB's and others' logs.
const LOG_ENDINGS: [&str; 6] = ["-journal", "-wal", ".wal", ".log", ".journal", ".dblwr"];

/// Folders of logs, and beginnings of their names: PostgreSQL, InnoDB, Aria, MySQL's binary log.
const LOG_FOLDERS: [&str; 3] = ["pg_wal", "pg_xlog", "#innodb_redo"];
const LOG_BEGINNINGS: [&str; 5] = ["ib_logfile", "#ib_redo", "aria_log.", "binlog.", "mysql-bin."];

/// Folders and beginnings of names of temporary files: PostgreSQL, SQLite, InnoDB.
const TEMPORARY_FOLDERS: [&str; 2] = ["pgsql_tmp", "#innodb_temp"];
const TEMPORARY_BEGINNINGS: [&str; 4] = ["etilqs_", "pgsql_tmp", "ibtmp", "#sql"];

/// Folders, beginnings and ends of names of data files that grow at their end: InnoDB's tables and undo logs, Aria, PostgreSQL.
const DATA_FOLDERS: [&str; 3] = ["base", "global", "pg_tblspc"];
const DATA_BEGINNINGS: [&str; 2] = ["ibdata", "undo0"];
const DATA_ENDINGS: [&str; 6] = [".ibd", ".MAD", ".MAI", ".sqlite", ".sqlite3", ".db"];

/// A file that was appended to and synced at least this often is a log.
const SYNCS_OF_A_LOG: u64 = 8;

/// What was done to the files of a path.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Habits {
    /// Bytes written.
    pub bytes: u64,
    /// Of these, bytes appended to the file.
    pub appended: u64,
    /// Syncs.
    pub syncs: u64,
    /// Whether all files of this path were created and removed during the measurement.
    pub came_and_went: bool,
}

/// The kind of the files of a path, and how that is known.
pub(crate) fn kind_of(path: &str, habits: &Habits) -> (WritePurpose, &'static str) {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let is_in = |folders: &[&str]| path.rsplit('/').skip(1).any(|part| folders.contains(&part));
    let ends = |endings: &[&str]| endings.iter().any(|end| name.ends_with(end));
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    if is_in(&TEMPORARY_FOLDERS) || begins(&TEMPORARY_BEGINNINGS) {
        return (WritePurpose::Temporary, "its name");
    }
    if is_in(&LOG_FOLDERS) || begins(&LOG_BEGINNINGS) || ends(&LOG_ENDINGS) {
        return (WritePurpose::Log, "its name");
    }
    if is_in(&DATA_FOLDERS) || begins(&DATA_BEGINNINGS) || ends(&DATA_ENDINGS) {
        return (WritePurpose::Data, "its name");
    }
    if habits.came_and_went && habits.syncs == 0 {
        return (WritePurpose::Temporary, "removed, and never synced");
    }
    let is_appended = habits.bytes > 0 && habits.appended >= habits.bytes - habits.bytes / 10;
    if is_appended && habits.syncs >= SYNCS_OF_A_LOG {
        return (WritePurpose::Log, "appended to, with syncs between");
    }
    (WritePurpose::Data, "neither a log nor temporary")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_files_are_known_by_name() {
        let habits = Habits::default();
        for (path, kind) in [
            ("test.db", WritePurpose::Data),
            ("test.db-journal", WritePurpose::Log),
            ("a/test.db-wal", WritePurpose::Log),
            ("data/pg_wal/000000010000000000000001", WritePurpose::Log),
            ("data/base/5/16384", WritePurpose::Data),
            ("data/base/pgsql_tmp/pgsql_tmp12.0", WritePurpose::Temporary),
            ("#ib_16384_0.dblwr", WritePurpose::Log),
            ("ib_logfile0", WritePurpose::Log),
            ("ibdata1", WritePurpose::Data),
            ("000012.log", WritePurpose::Log),
            ("pg_wal", WritePurpose::Data),
        ] {
            assert_eq!(kind_of(path, &habits).0, kind, "{path}");
        }
    }

    #[test]
    fn unknown_names_are_told_by_what_was_done() {
        let log = Habits { bytes: 1000, appended: 900, syncs: 8, came_and_went: false };
        assert_eq!(kind_of("journal.bin", &log).0, WritePurpose::Log);
        assert_eq!(kind_of("journal.bin", &Habits { appended: 899, ..log }).0, WritePurpose::Data);
        assert_eq!(kind_of("journal.bin", &Habits { syncs: 7, ..log }).0, WritePurpose::Data);
        assert_eq!(
            kind_of("shop/sbtest1.ibd", &log).0,
            WritePurpose::Data,
            "a table that grows, with syncs between"
        );
        let scratch = Habits { bytes: 1, appended: 1, syncs: 0, came_and_went: true };
        assert_eq!(kind_of("scratch", &scratch).0, WritePurpose::Temporary);
        assert_eq!(kind_of("scratch", &Habits { syncs: 1, ..scratch }).0, WritePurpose::Data);
    }
}
