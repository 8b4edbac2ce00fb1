//! What the modes cost the drive, and that the ways that make the difference are really taken.

mod common;

use common::drive;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Smart;
use tantalum_sqlite::rusqlite::params;
use tantalum_sqlite::{Drive, Mode};

/// Random updates of rows of about a page, each a transaction.
fn random_updates(drive: &Drive, synchronous: &str) -> (Smart, u64) {
    let connection = drive.open("app.db").unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous={synchronous};
             CREATE TABLE t(k INTEGER PRIMARY KEY, b BLOB);
             WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<1500)
             INSERT INTO t SELECT x, zeroblob(3500) FROM c;
             PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_autocheckpoint=400;"
        ))
        .unwrap();
    let before = drive.volume().device().smart();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for number in 0..1500_u32 {
        let key = random.random_range(1..=1500_i64);
        let blob = vec![number as u8; 3500];
        connection.execute("UPDATE t SET b=?2 WHERE k=?1", params![key, blob]).unwrap();
    }
    drop(connection);
    let mut smart = drive.volume().device().smart();
    let programmed = smart.flash_units.total() - before.flash_units.total();
    smart.units_shared -= before.units_shared;
    smart.units_brought_home -= before.units_brought_home;
    (smart, programmed)
}

#[test]
fn modes_that_share_program_less_than_a_plain_log() {
    for synchronous in ["normal", "full"] {
        let run = |mode| random_updates(&drive(mode, 9), synchronous);
        let (_, plain) = run(Mode::Wal);
        for mode in [Mode::Share, Mode::SwWal] {
            let (smart, programmed) = run(mode);
            assert!(
                programmed < plain,
                "{mode}, synchronous {synchronous}: {programmed} units programmed, {plain} by a plain log"
            );
            assert!(smart.units_shared > 700, "{mode}: {} units shared", smart.units_shared);
            if mode == Mode::SwWal {
                assert_eq!(smart.units_brought_home, smart.units_shared, "no share needs the journal");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_counters_and_time() {
    for mode in Mode::ALL {
        let run = || {
            let drive = drive(mode, 11);
            let (smart, programmed) = random_updates(&drive, "normal");
            let now_ns = drive.volume().now_ns();
            (format!("{smart:?}"), programmed, now_ns)
        };
        assert_eq!(run(), run(), "{mode}");
    }
}

/// Transactions larger than what stays in host memory, so that frames are sent before they are committed: some are
/// rolled back then, and some overwritten in place.
#[test]
fn transactions_that_spill_to_the_drive_may_change_their_mind() {
    for mode in Mode::ALL {
        let drive = drive(mode, 13);
        let connection = drive.open("app.db").unwrap();
        connection
            .execute_batch(
                "PRAGMA cache_size=20; CREATE TABLE t(k INTEGER PRIMARY KEY, a, b BLOB);
                 WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<3000)
                 INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c;",
            )
            .unwrap();
        let sum = |sql: &str| connection.query_row::<i64, _, _>(sql, [], |row| row.get(0)).unwrap();
        for round in 1..=3 {
            connection.execute_batch("BEGIN; UPDATE t SET a=-1; ROLLBACK").unwrap();
            connection
                .execute_batch(&format!(
                    "BEGIN; UPDATE t SET a={round}; SAVEPOINT s; UPDATE t SET a=-2 WHERE k>100; ROLLBACK TO s;
                     UPDATE t SET a=a+1 WHERE k%2=0; UPDATE t SET a=a+1 WHERE k%4=0; COMMIT"
                ))
                .unwrap();
            let expected = 3000 * round + 1500 + 750;
            assert_eq!(sum("SELECT sum(a) FROM t"), expected, "{mode}, round {round}");
            connection.execute_batch("PRAGMA wal_checkpoint").unwrap();
            assert_eq!(sum("SELECT sum(a) FROM t"), expected, "{mode}, round {round}");
        }
        drop(connection);
        let drive = common::remount(drive, mode);
        let connection = drive.open("app.db").unwrap();
        let sum: i64 = connection.query_row("SELECT sum(a) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 3000 * 3 + 1500 + 750, "{mode}");
        let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok", "{mode}");
    }
}
