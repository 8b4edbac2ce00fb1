//! The same statements on a drive and on SQLite in memory, in every mode.

use crate::common::{drive, remount, seeds};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_sqlite::rusqlite::{Connection, params};
use tantalum_sqlite::{Mode, SharedVolume};

type Random = Xoshiro256PlusPlus;

/// A database on a drive and its oracle.
struct Pair {
    drive: Option<SharedVolume>,
    on_drive: Option<Connection>,
    oracle: Connection,
    page_bytes: u32,
}

impl Pair {
    fn new(mode: Mode, seed: u64, page_bytes: u32) -> Pair {
        let oracle = Connection::open_in_memory().unwrap();
        let drive = drive(mode, seed);
        let mut pair = Pair { drive: Some(drive), on_drive: None, oracle, page_bytes };
        pair.open();
        pair.both("CREATE TABLE t(k INTEGER PRIMARY KEY, a INTEGER, b BLOB)");
        pair.both("CREATE INDEX t_a ON t(a)");
        pair
    }

    fn open(&mut self) {
        let drive = self.drive.as_ref().unwrap();
        let connection = open(drive, self.page_bytes);
        self.on_drive = Some(connection);
    }

    fn reopen(&mut self, mode: Mode) {
        self.on_drive = None;
        self.drive = Some(remount(self.drive.take().unwrap(), mode));
        self.open();
    }

    fn connection(&self) -> &Connection {
        self.on_drive.as_ref().unwrap()
    }

    fn both(&self, sql: &str) {
        self.connection().execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        self.oracle.execute_batch(sql).unwrap();
    }

    fn check(&self, context: &str) {
        let integrity: String =
            self.connection().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok", "{context}");
        assert_eq!(rows(self.connection()), rows(&self.oracle), "{context}");
    }
}

/// Opens the database: the page size is set when it is new, the cache so small that pages spill.
fn open(drive: &SharedVolume, page_bytes: u32) -> Connection {
    let connection = drive.open("app.db").unwrap();
    let page_size = || connection.query_row("PRAGMA page_size", [], |row| row.get::<_, u32>(0)).unwrap();
    if page_size() != page_bytes {
        let mode = drive.mode().journal_mode();
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode=delete; PRAGMA page_size={page_bytes}; VACUUM; PRAGMA journal_mode={mode};"
            ))
            .unwrap();
    }
    assert_eq!(page_size(), page_bytes);
    connection.execute_batch("PRAGMA cache_size=10; PRAGMA cache_spill=5;").unwrap();
    connection
}

fn rows(connection: &Connection) -> Vec<(i64, i64, Vec<u8>)> {
    let mut statement = connection.prepare("SELECT k, a, b FROM t ORDER BY k").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn change(pair: &Pair, random: &mut Random) {
    let key = random.random_range(0..400_i64);
    let mut blob = vec![0; random.random_range(0..3000)];
    random.fill_bytes(&mut blob);
    let number = random.random_range(0..1000_i64);
    for connection in [pair.connection(), &pair.oracle] {
        let done = match number % 10 {
            0..=5 => connection.execute(
                "INSERT INTO t VALUES(?1, ?2, ?3) ON CONFLICT(k) DO UPDATE SET a=?2, b=?3",
                params![key, number, blob],
            ),
            6 => connection.execute("DELETE FROM t WHERE k BETWEEN ?1 AND ?1 + 5", [key]),
            7 => connection.execute("UPDATE t SET a=a+1 WHERE k BETWEEN ?1 AND ?1 + 40", [key]),
            8 => connection.execute("UPDATE t SET b=zeroblob(?2) WHERE k=?1", [key, number * 20]),
            _ => connection.execute("UPDATE t SET b=?2 WHERE k BETWEEN ?1 AND ?1 + 20", params![key, blob]),
        };
        done.unwrap();
    }
}

/// A transaction with savepoints, some of which are rolled back.
fn transaction(pair: &Pair, random: &mut Random) {
    pair.both("BEGIN");
    for _ in 0..random.random_range(1..5) {
        pair.both("SAVEPOINT s");
        for _ in 0..random.random_range(1..12) {
            change(pair, random);
        }
        match random.random_range(0..4) {
            0 => pair.both("ROLLBACK TO s; RELEASE s"),
            1 => {
                pair.both("ROLLBACK TO s");
                change(pair, random);
                pair.both("RELEASE s");
            }
            _ => pair.both("RELEASE s"),
        }
    }
    pair.both(if random.random_range(0..5) == 0 { "ROLLBACK" } else { "COMMIT" });
}

fn maintain(pair: &mut Pair, random: &mut Random, mode: Mode) {
    let checkpoint = |kind: &str| format!("PRAGMA wal_checkpoint({kind})");
    let sql = match random.random_range(0..12) {
        0 => checkpoint("PASSIVE"),
        1 => checkpoint("FULL"),
        2 => checkpoint("RESTART"),
        3 => checkpoint("TRUNCATE"),
        4 => "VACUUM".to_owned(),
        5 => "PRAGMA synchronous=NORMAL".to_owned(),
        6 => "PRAGMA synchronous=FULL".to_owned(),
        7 => "PRAGMA synchronous=OFF".to_owned(),
        8 => "PRAGMA journal_size_limit=50000".to_owned(),
        9 if random.random_range(0..4) == 0 => {
            format!("PRAGMA journal_mode=truncate; PRAGMA journal_mode={}", mode.journal_mode())
        }
        9 | 10 => return pair.reopen(mode),
        _ => "PRAGMA wal_autocheckpoint=20".to_owned(),
    };
    pair.connection().execute_batch(&sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn run(mode: Mode, seed: u64, page_bytes: u32, steps: u32) {
    let context = format!("mode {mode}, seed {seed}, page size {page_bytes}");
    println!("{context}");
    let mut random = Random::seed_from_u64(seed);
    let mut pair = Pair::new(mode, seed, page_bytes);
    for step in 0..steps {
        transaction(&pair, &mut random);
        if random.random_range(0..4) == 0 {
            maintain(&mut pair, &mut random, mode);
        }
        if step % 16 == 15 {
            pair.check(&context);
        }
    }
    pair.check(&context);
    pair.reopen(mode);
    pair.check(&context);
}

#[test]
fn every_mode_keeps_what_sqlite_in_memory_keeps() {
    for mode in Mode::ALL {
        for seed in seeds(3) {
            run(mode, seed, 4096, 60);
        }
    }
}

#[test]
fn every_page_size_works_in_every_mode() {
    for mode in Mode::ALL {
        for page_bytes in [512, 1024, 8192, 16384, 65536] {
            run(mode, u64::from(page_bytes), page_bytes, 16);
        }
    }
}

#[test]
fn every_mode_reads_what_every_other_left() {
    for seed in seeds(4) {
        println!("seed {seed}");
        let mut random = Random::seed_from_u64(seed);
        let mut pair = Pair::new(Mode::SwWal, seed, 4096);
        for _ in 0..12 {
            for _ in 0..6 {
                transaction(&pair, &mut random);
            }
            let mode = Mode::ALL[random.random_range(0..Mode::ALL.len())];
            pair.reopen(mode);
            pair.check(&format!("seed {seed}, then {mode}"));
        }
    }
}

/// A page of several units comes home unit by unit. What a checkpoint leaves in the page cache hides where it is, so
/// the volume is mounted again.
#[test]
fn pages_of_several_units_come_home_whole() {
    for mode in [Mode::Share, Mode::SwWal] {
        for page_bytes in [8192, 16384, 65536] {
            let mut pair = Pair::new(mode, 1, page_bytes);
            let mut random = Random::seed_from_u64(1);
            for round in 0..6 {
                for key in 0..40_i64 {
                    let mut blob = vec![0; 3000];
                    random.fill_bytes(&mut blob);
                    for connection in [pair.connection(), &pair.oracle] {
                        let sql = "INSERT OR REPLACE INTO t VALUES (?, ?, ?)";
                        connection.execute(sql, params![key, round, blob]).unwrap();
                    }
                }
                pair.connection().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
            }
            let smart = pair.drive.as_ref().unwrap().volume().device().smart();
            let shared = smart.counters.units_shared;
            assert!(
                shared >= u64::from(page_bytes / 4096),
                "{mode}, page size {page_bytes}: {shared} units shared"
            );
            pair.reopen(mode);
            pair.check(&format!("mode {mode}, page size {page_bytes}"));
        }
    }
}
