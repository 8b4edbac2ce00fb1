//! Power fails while SQLite works, and comes back: every committed and synced transaction is there, and none in part.

use crate::common::{CACHE_BYTES, seeds, volume};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Outcome, PowerLoss};
use tantalum_sqlite::rusqlite::{self, Connection, params};
use tantalum_sqlite::{Mode, SharedVolume};
use tantalum_volume::Volume;

type Random = Xoshiro256PlusPlus;

/// Rows of the table: each transaction changes several and raises all of them to its number.
const ROWS: i64 = 40;

/// Sets rows to a transaction's number. Small caches make it spill; some of it is rolled back on the way.
fn transaction(connection: &Connection, random: &mut Random, number: i64) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    if random.random_range(0..4) == 0 {
        connection.execute_batch("SAVEPOINT s")?;
        let filler = vec![1; random.random_range(1000..40_000)];
        connection.execute("UPDATE t SET n=-1, b=?1 WHERE k % 3 = 0", [filler])?;
        connection.execute_batch("ROLLBACK TO s; RELEASE s")?;
    }
    let mut blob = vec![0; random.random_range(0..9000)];
    random.fill_bytes(&mut blob);
    let key = random.random_range(0..ROWS);
    connection.execute("UPDATE t SET n=?1", [number])?;
    connection.execute("UPDATE t SET b=?2 WHERE k BETWEEN ?1 AND ?1 + 3", params![key, blob])?;
    connection.execute_batch("COMMIT")
}

/// Checkpoints, a vacuum, or a rollback of more than stays in host memory, so that frames of it were sent. The drive's
/// transactions have a limit, so in their mode it is less.
fn maintain(connection: &Connection, random: &mut Random, mode: Mode) -> rusqlite::Result<()> {
    let spill = if mode == Mode::XFtl { 9000 } else { 110_000 };
    let rolled_back = format!("BEGIN; UPDATE t SET n=-2, b=zeroblob({spill}); ROLLBACK");
    let sql = match random.random_range(0..24) {
        0 => "PRAGMA wal_checkpoint(TRUNCATE)",
        1 => "VACUUM",
        2 | 3 => "PRAGMA wal_checkpoint(PASSIVE)",
        4 => "PRAGMA wal_checkpoint(RESTART)",
        5 | 6 => &rolled_back,
        _ => return Ok(()),
    };
    connection.execute_batch(sql)
}

fn open(drive: &SharedVolume, synchronous: &str) -> rusqlite::Result<Connection> {
    let connection = drive.open("app.db")?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous={synchronous}; PRAGMA cache_size=5; PRAGMA cache_spill=3; PRAGMA wal_autocheckpoint=30;"
    ))?;
    Ok(connection)
}

/// The number that all rows have, and the digest of what the blobs add up to.
fn state(connection: &Connection) -> (i64, i64) {
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let (least, most, rows): (i64, i64, i64) = connection
        .query_row("SELECT min(n), max(n), count(*) FROM t", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert_eq!((least, rows), (most, ROWS), "a transaction is half there");
    let bytes =
        connection.query_row("SELECT total(length(b)) FROM t", [], |row| row.get::<_, f64>(0)).unwrap();
    (least, bytes as i64)
}

/// Works until power fails; returns the last committed transaction and whether one was in progress.
fn work_until_cut(connection: &Connection, random: &mut Random, mode: Mode, mut number: i64) -> i64 {
    for _ in 0..400 {
        if transaction(connection, random, number + 1).is_err() {
            return number;
        }
        number += 1;
        if maintain(connection, random, mode).is_err() {
            return number;
        }
    }
    panic!("power should have gone");
}

/// Brings power back, with another cut or two in the recovery, and mounts the volume.
fn power_on(drive: SharedVolume, mode: Mode, seed: u64, loss: &mut PowerLoss) -> SharedVolume {
    let volume = drive.into_volume().map_err(|(_, error)| error).expect("nothing is open");
    let mut device = volume.into_client_without_sync().into_device().unwrap();
    if loss.random().is_multiple_of(3) {
        device.cut_after(Some(1 + loss.random() % 4));
    }
    for _ in 0..3 {
        match device.power_on(loss) {
            Ok(_) if device.has_power() => break,
            _ => {}
        }
    }
    assert!(device.has_power(), "seed {seed}: power does not come back");
    device.cut_after(None);
    SharedVolume::new(Volume::mount(device, CACHE_BYTES).expect("mount"), mode, Some(seed))
}

fn run(mode: Mode, seed: u64, synchronous: &str, cuts: u32) {
    println!("mode {mode}, seed {seed}, synchronous {synchronous}");
    let mut random = Random::seed_from_u64(seed);
    let mut loss = PowerLoss::seeded(seed);
    let mut drive = SharedVolume::new(volume(), mode, Some(seed));
    let connection = open(&drive, synchronous).unwrap();
    connection
        .execute_batch(&format!(
            "CREATE TABLE t(k INTEGER PRIMARY KEY, n INTEGER, b BLOB);
             WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<{ROWS})
             INSERT INTO t SELECT x, 0, zeroblob(500) FROM c; PRAGMA wal_checkpoint;"
        ))
        .unwrap();
    let mut connection = connection;
    let mut number = 0;
    for cut in 0..cuts {
        drive.volume().device().cut_after(Some(random.random_range(1..400)));
        let committed = work_until_cut(&connection, &mut random, mode, number);
        assert!(!drive.volume().device().has_power(), "stopped by {:?}", drive.last_error());
        drop(connection);
        drive = power_on(drive, mode, seed, &mut loss);
        connection = open(&drive, synchronous).unwrap();
        let (found, _) = state(&connection);
        let least = if synchronous == "extra" { committed } else { number };
        assert!(
            (least..=committed + 1).contains(&found),
            "mode {mode}, seed {seed}, cut {cut}: found {found}, committed {committed}, before {number}"
        );
        number = found;
    }
}

/// With `EXTRA`, which is `FULL` but for the rollback journal: its removal is durable when a commit returns.
#[test]
fn synced_transactions_survive_a_cut_in_every_mode() {
    for mode in Mode::ALL {
        for seed in seeds(3) {
            run(mode, seed, "extra", 6);
        }
    }
}

#[test]
fn transactions_are_whole_after_a_cut_without_syncs() {
    for mode in [Mode::Wal, Mode::Share, Mode::SwWal] {
        for seed in seeds(4) {
            run(mode, seed, "normal", 6);
        }
    }
}

/// Power fails now, if it has not yet, and comes back. Operations in flight have that outcome.
fn cut_now(drive: SharedVolume, mode: Mode, outcome: Outcome) -> SharedVolume {
    let volume = drive.into_volume().map_err(|(_, error)| error).expect("nothing is open");
    let now_ns = volume.now_ns();
    volume.device().cut_after(None);
    volume.device().cut_power(now_ns);
    let mut device = volume.into_client_without_sync().into_device().unwrap();
    device.power_on(&mut PowerLoss::all(outcome)).expect("the drive recovers");
    SharedVolume::new(Volume::mount(device, CACHE_BYTES).expect("mount"), mode, Some(1))
}

/// A drive that takes few units at once, with a table of 40 rows of `n = 0`.
fn table_on_a_drive_of_small_batches(mode: Mode) -> (SharedVolume, Connection) {
    let mut profile = crate::common::profile();
    profile.limits.atomic_units = 8;
    let volume = Volume::format(Device::in_memory(&profile).unwrap(), CACHE_BYTES).unwrap();
    let drive = SharedVolume::new(volume, mode, Some(1));
    let connection = drive.open("app.db").unwrap();
    connection
        .execute_batch(
            "PRAGMA synchronous=EXTRA; PRAGMA cache_spill=OFF;
             CREATE TABLE t(k INTEGER PRIMARY KEY, n INTEGER, b BLOB);
             WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<40)
             INSERT INTO t SELECT x, 0, zeroblob(3000) FROM c; PRAGMA synchronous=NORMAL",
        )
        .unwrap();
    (drive, connection)
}

/// The first row's `n`, and the least and the greatest of the others.
fn numbers(connection: &Connection) -> (i64, i64, i64) {
    let check: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    connection
        .query_row("SELECT (SELECT n FROM t WHERE k=1), min(n), max(n) FROM t WHERE k>1", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap()
}

/// Executes statements until power fails at flash operation `cut`; returns the number acknowledged.
fn work_until(drive: &SharedVolume, connection: Connection, cut: u64, statements: &[&str]) -> usize {
    drive.volume().device().cut_after(Some(cut));
    statements.iter().take_while(|statement| connection.execute_batch(statement).is_ok()).count()
}

/// SQLite makes a file of its journal when a batch is refused, and does not sync it before it writes to the
/// database: after a cut, pages of the transaction were there and the journal was not.
#[test]
fn a_transaction_whose_batch_was_refused_is_whole_after_a_cut() {
    for cut in 1..60 {
        let (drive, connection) = table_on_a_drive_of_small_batches(Mode::Atomic);
        let statements = ["UPDATE t SET n=1", "UPDATE t SET n=2 WHERE k=1"];
        let acknowledged = work_until(&drive, connection, cut, &statements);
        let drive = cut_now(drive, Mode::Atomic, Outcome::Completed);
        let found = numbers(&drive.open("app.db").unwrap());
        let state = [(0, 0, 0), (1, 1, 1), (2, 1, 1)].iter().position(|&whole| whole == found);
        let state = state.unwrap_or_else(|| panic!("cut {cut}: found {found:?}"));
        assert!(
            state >= acknowledged,
            "cut {cut}: {state} transactions of {acknowledged} that were acknowledged"
        );
    }
}

/// A rollback journal was played back and removed, its removal waited in host memory, and a transaction of the drive
/// was durable before it: after a cut SQLite played the journal back over that transaction.
#[test]
fn a_journal_of_another_mode_does_not_come_back_over_a_transaction_of_the_drive() {
    let mut journals = 0;
    for cut in 1..60 {
        let (drive, connection) = table_on_a_drive_of_small_batches(Mode::Rollback);
        work_until(&drive, connection, cut, &["UPDATE t SET n=1"]);
        let drive = cut_now(drive, Mode::XFtl, Outcome::NotStarted);
        journals += u32::from(drive.volume().find("app.db-journal").is_some());
        let connection = drive.open("app.db").unwrap();
        let (_, least, most) = numbers(&connection);
        connection.execute_batch("UPDATE t SET n=2 WHERE k=1").unwrap();
        drop(connection);
        let drive = cut_now(drive, Mode::XFtl, Outcome::NotStarted);
        assert_eq!(numbers(&drive.open("app.db").unwrap()), (2, least, most), "cut {cut}");
    }
    assert!(journals > 0, "no cut left a journal");
}
