//! What the modes cost the drive, and that the ways that make the difference are really taken.

use crate::common::drive;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Counters;
use tantalum_sqlite::rusqlite::{self, Connection, ErrorCode, params};
use tantalum_sqlite::{Mode, SharedVolume};

/// Random updates of rows of about a page, each a transaction.
fn random_updates(drive: &SharedVolume, synchronous: &str) -> (Counters, u64) {
    let connection = drive.open("app.db").unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous={synchronous};
             CREATE TABLE t(k INTEGER PRIMARY KEY, b BLOB);
             PRAGMA wal_autocheckpoint=400;"
        ))
        .unwrap();
    for first in (1..1500).step_by(300) {
        connection
            .execute_batch(&format!(
                "WITH RECURSIVE c(x) AS (VALUES({first}) UNION ALL SELECT x+1 FROM c WHERE x<{first}+299)
                 INSERT INTO t SELECT x, zeroblob(3500) FROM c"
            ))
            .unwrap();
    }
    connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let before = drive.volume().device().smart();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for number in 0..1500_u32 {
        let key = random.random_range(1..=1500_i64);
        let blob = vec![number as u8; 3500];
        connection.execute("UPDATE t SET b=?2 WHERE k=?1", params![key, blob]).unwrap();
    }
    drop(connection);
    let counted = drive.volume().device().smart().counters.since(&before.counters);
    (counted, counted.flash_units.total())
}

#[test]
fn modes_that_share_program_less_than_a_plain_log() {
    for synchronous in ["normal", "full"] {
        let run = |mode| random_updates(&drive(mode, 9), synchronous);
        let (_, plain) = run(Mode::Wal);
        for mode in [Mode::Share, Mode::SwWal] {
            let (counted, programmed) = run(mode);
            assert!(
                programmed < plain,
                "{mode}, synchronous {synchronous}: {programmed} units programmed, {plain} by a plain log"
            );
            assert!(counted.units_shared > 700, "{mode}: {} units shared", counted.units_shared);
            if mode == Mode::SwWal {
                assert_eq!(counted.units_brought_home, counted.units_shared, "no share needs the journal");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_counters_and_time() {
    for mode in Mode::ALL {
        let run = || {
            let drive = drive(mode, 11);
            let (counted, programmed) = random_updates(&drive, "normal");
            let now_ns = drive.volume().now_ns();
            (counted, programmed, now_ns)
        };
        assert_eq!(run(), run(), "{mode}");
    }
}

/// Transactions larger than what stays in host memory, so that frames are sent before they are committed: some are
/// rolled back then, and some overwritten in place. The drive's transactions have a limit, so those are smaller.
#[test]
fn transactions_that_spill_to_the_drive_may_change_their_mind() {
    for mode in Mode::ALL {
        let rows = if mode == Mode::XFtl { 200 } else { 3000 };
        let drive = drive(mode, 13);
        let connection = drive.open("app.db").unwrap();
        fill(&connection, rows).unwrap_or_else(|error| panic!("{mode}: {error}: {:?}", drive.last_error()));
        for round in 1..=3 {
            connection.execute_batch("BEGIN; UPDATE t SET a=-1; ROLLBACK").unwrap();
            connection
                .execute_batch(&format!(
                    "BEGIN; UPDATE t SET a={round}; SAVEPOINT s; UPDATE t SET a=-2 WHERE k>100; ROLLBACK TO s;
                     UPDATE t SET a=a+1 WHERE k%2=0; UPDATE t SET a=a+1 WHERE k%4=0; COMMIT"
                ))
                .unwrap();
            let expected = rows * round + rows / 2 + rows / 4;
            assert_eq!(sum(&connection), expected, "{mode}, round {round}");
            connection.execute_batch("PRAGMA wal_checkpoint").unwrap();
            assert_eq!(sum(&connection), expected, "{mode}, round {round}");
        }
        drop(connection);
        let drive = crate::common::remount(drive, mode);
        let connection = drive.open("app.db").unwrap();
        assert_eq!(sum(&connection), rows * 3 + rows / 2 + rows / 4, "{mode}");
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{mode}");
    }
}

#[test]
fn a_transaction_that_the_drive_does_not_take_is_refused_whole() {
    let drive = drive(Mode::XFtl, 17);
    let connection = drive.open("app.db").unwrap();
    fill(&connection, 400).unwrap();
    let rows = connection.query_row::<i64, _, _>("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    let error = connection
        .execute_batch(
            "WITH RECURSIVE c(x) AS (VALUES(1000) UNION ALL SELECT x+1 FROM c WHERE x<9000)
             INSERT INTO t SELECT x, 1, zeroblob(3000) FROM c",
        )
        .unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DiskFull), "{error}");
    assert!(drive.last_error().unwrap().contains("limit"), "{:?}", drive.last_error());
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert_eq!(
        connection.query_row::<i64, _, _>("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap(),
        rows
    );
    connection.execute_batch("UPDATE t SET a=1").unwrap();
    assert_eq!(sum(&connection), 400);
}

fn fill(connection: &Connection, rows: i64) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA cache_size=20; CREATE TABLE t(k INTEGER PRIMARY KEY, a, b BLOB);
         WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<{rows})
         INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c;"
    ))
}

fn sum(connection: &Connection) -> i64 {
    connection.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).unwrap()
}
