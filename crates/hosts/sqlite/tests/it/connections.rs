//! Several connections in one process, on one thread and on many.

use std::time::Duration;

use crate::common::drive;
use tantalum_sqlite::Mode;
use tantalum_sqlite::rusqlite::{Connection, ErrorCode, TransactionBehavior};

fn number(connection: &Connection, sql: &str) -> i64 {
    connection.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

#[test]
fn writers_lock_one_another_out() {
    for mode in Mode::ALL {
        let drive = drive(mode, 1);
        let (one, other) = (drive.open("app.db").unwrap(), drive.open("app.db").unwrap());
        one.execute_batch("CREATE TABLE t(a); BEGIN IMMEDIATE; INSERT INTO t VALUES(1)").unwrap();
        other.busy_timeout(Duration::ZERO).unwrap();
        let error = other.execute_batch("BEGIN IMMEDIATE").unwrap_err();
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{mode}");
        assert_eq!(number(&other, "SELECT count(*) FROM t"), 0, "{mode}: readers may go on");
        one.execute_batch("COMMIT").unwrap();
        assert_eq!(number(&other, "SELECT count(*) FROM t"), 1, "{mode}");
    }
}

#[test]
fn readers_keep_their_snapshot_while_others_write_and_check_point() {
    for mode in [Mode::Wal, Mode::Share, Mode::SwWal] {
        let drive = drive(mode, 2);
        let writer = drive.open("app.db").unwrap();
        writer
            .execute_batch(
                "CREATE TABLE t(a, b);
                 WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<50)
                 INSERT INTO t SELECT x, zeroblob(2000) FROM c;",
            )
            .unwrap();
        let mut readers = Vec::new();
        for round in 0..12 {
            let reader = drive.open("app.db").unwrap();
            reader.execute_batch("BEGIN").unwrap();
            let sum = number(&reader, "SELECT sum(a) FROM t");
            readers.push((reader, sum));
            writer.execute_batch("UPDATE t SET a = a + 1").unwrap();
            let kind = ["PASSIVE", "FULL", "RESTART", "TRUNCATE"][round % 4];
            writer.busy_timeout(Duration::ZERO).unwrap();
            writer.execute_batch(&format!("PRAGMA wal_checkpoint({kind})")).unwrap();
            for (reader, sum) in &readers {
                assert_eq!(number(reader, "SELECT sum(a) FROM t"), *sum, "{mode}, round {round}");
            }
            if round % 3 == 2 {
                readers.remove(round % readers.len());
            }
        }
        drop(readers);
        assert_eq!(number(&writer, "SELECT sum(a) FROM t"), 50 * 51 / 2 + 12 * 50);
        writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        assert_eq!(number(&writer, "SELECT sum(a) FROM t"), 50 * 51 / 2 + 12 * 50);
    }
}

#[test]
fn threads_lose_no_increment() {
    const THREADS: i64 = 4;
    const INCREMENTS: i64 = 25;
    for mode in Mode::ALL {
        let drive = drive(mode, 3);
        let first = drive.open("app.db").unwrap();
        first
            .execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(0); PRAGMA wal_autocheckpoint=7")
            .unwrap();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let mut connection = drive.open("app.db").unwrap();
                    connection.busy_timeout(Duration::from_secs(60)).unwrap();
                    connection.execute_batch("PRAGMA wal_autocheckpoint=7").unwrap();
                    for _ in 0..INCREMENTS {
                        let transaction =
                            connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
                        transaction.execute("UPDATE t SET a = a + 1", []).unwrap();
                        transaction.commit().unwrap();
                    }
                });
            }
        });
        assert_eq!(number(&first, "SELECT a FROM t"), THREADS * INCREMENTS, "{mode}");
        assert_eq!(
            first.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap(),
            "ok",
            "{mode}"
        );
    }
}

#[test]
fn a_volume_in_use_is_not_given_away() {
    let drive = drive(Mode::Wal, 4);
    let connection = drive.open("app.db").unwrap();
    let (drive, error) = drive.into_volume().unwrap_err();
    assert!(error.to_string().contains("files of the volume are open"), "{error}");
    drop(connection);
    let volume = drive.into_volume().map_err(|(_, error)| error).unwrap();
    assert!(volume.find("app.db").is_some());
}
