//! MariaDB and PostgreSQL on a mounted drive that loses power while they work: each restarts, recovers, and has every
//! commit that was acknowledged to a client.
//!
//! Clients insert numbered rows, each with an update of a counter in the same transaction, and remember the last
//! number that was acknowledged. Power fails at a random flash operation. After recovery the rows of each client must run
//! from 1 without a gap to at least that number, and the counter must agree with the last row. Each server does this with
//! its defaults, guarded against torn pages, on every file system that can be mounted; and without its guard on a volume
//! with atomic writes. The log-structured file systems are mounted with their defaults, and with syncs that write only
//! contents.
//!
//! Needs mariadb-server, postgresql and /dev/fuse, and is ignored otherwise:
//! `cargo test --release -p tantalum-cli --features servers --test servers_survive_power_cuts -- --ignored`.
//! `TANTALUM_CUTS` is the number of cuts, `TANTALUM_SEED` the seed of all randomness; `lfs_nat` at the end runs the
//! tests on one file system.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_filesystem::{Attributes, FileId, MetadataChange};
use tantalum_lfs::{Cleaning, Indexing, LfsKind as LogKind, LogFs};
use tantalum_papers::servers::mysql::{self, prelude::Queryable};
use tantalum_papers::servers::{
    MariaDb, MariaDbOptions, Mount, MountOptions, PlainFolder, Postgresql, PostgresqlOptions, ServerFolder,
    postgres,
};
use tantalum_volume::Volume;

const CLIENTS: u64 = 4;

/// The maximum number of flash operations until power fails.
const MOST_OPERATIONS: u64 = 3000;

/// The longest life before power is cut, whatever the drive has done.
const LONGEST_LIFE: Duration = Duration::from_secs(20);

const PAYLOAD_BYTES: usize = 700;

/// For the drive of a log-structured file system: few enough that the cleaner must make room.
const LOG_STRUCTURED_BYTES: u64 = 1 << 30;

/// Page cache while a file system is created.
const CACHE_BYTES: u64 = 16 << 20;

const SCHEMA: [&str; 2] = [
    "CREATE TABLE journal (client INT NOT NULL, number BIGINT NOT NULL, payload VARCHAR(1000) NOT NULL, \
     PRIMARY KEY (client, number))",
    "CREATE TABLE counters (client INT NOT NULL PRIMARY KEY, number BIGINT NOT NULL)",
];

/// A client's connection: one transaction for each number.
trait Connection: Send {
    fn commit(&mut self, client: u64, number: u64, payload: &str) -> Result<(), String>;
    /// Rows, the greatest number, bytes of all payloads, and the counter.
    fn state(&mut self, client: u64) -> (u64, u64, u64, u64);
}

/// A server on a folder.
trait Server {
    fn connect(&self) -> Box<dyn Connection>;
    fn abandon(self: Box<Self>);
}

/// What prevents torn pages of a database.
#[derive(Clone, Copy, PartialEq)]
enum TornPages {
    /// The server: doublewrite, full-page writes.
    Server,
    /// The mount.
    Mount,
}

/// What is on the drive.
#[derive(Clone, Copy)]
enum FileSystemOnDrive {
    Volume,
    LogStructured(LogKind, Indexing),
}

use FileSystemOnDrive::{LogStructured, Volume as OnVolume};

impl FileSystemOnDrive {
    /// Creates it on a new drive in an image.
    fn create(self, image: &Path) {
        let (profile, capacity_bytes) = match self {
            OnVolume => ("tlc-nvme", 2 << 30),
            LogStructured(_, Indexing::Conventional | Indexing::Appended) => {
                ("tlc-nvme", LOG_STRUCTURED_BYTES)
            }
            LogStructured(_, Indexing::Nvm) => ("pebblessd", LOG_STRUCTURED_BYTES),
        };
        let mut profile = Profile::load(profile).unwrap();
        profile.capacity_bytes = capacity_bytes;
        let device = Device::create(image, &profile).unwrap();
        let mine = MetadataChange::made_by_caller();
        let client = match self {
            OnVolume => {
                let mut volume = Volume::format(device, CACHE_BYTES).unwrap();
                volume.change_metadata(FileId::ROOT, &mine).unwrap();
                volume.unmount().unwrap()
            }
            LogStructured(kind, indexing) => {
                let cleaning = match indexing {
                    Indexing::Conventional | Indexing::Appended => Cleaning::Copy,
                    Indexing::Nvm => Cleaning::Remap,
                };
                let mut fs = LogFs::format_indexed(device, kind, cleaning, indexing, CACHE_BYTES).unwrap();
                fs.change_metadata(FileId::ROOT, &mine).unwrap();
                fs.unmount().unwrap()
            }
        };
        let device = client.into_device().unwrap();
        let now_ns = device.time_ns();
        device.shutdown(now_ns).unwrap();
    }
}

/// How a server is created and started.
struct Kind {
    install: fn(&Path, TornPages),
    start: fn(&Path, &Path, TornPages) -> Box<dyn Server>,
    make_schema: fn(&Path, &Path, TornPages),
}

fn mariadb_options(torn_pages: TornPages) -> MariaDbOptions {
    MariaDbOptions {
        page_bytes: 16_384,
        buffer_bytes: 8 << 20,
        doublewrite: torn_pages == TornPages::Server,
        log_folder: None,
        durable: true,
        batch_pages: None,
    }
}

struct OnMariaDb(MariaDb);

impl Server for OnMariaDb {
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(self.0.connect(Some("test")).unwrap())
    }

    fn abandon(self: Box<Self>) {
        self.0.abandon();
    }
}

impl Connection for mysql::Conn {
    fn commit(&mut self, client: u64, number: u64, payload: &str) -> Result<(), String> {
        let mut run = |text: String| self.query_drop(text).map_err(|error| error.to_string());
        run("START TRANSACTION".into())?;
        run(format!("INSERT INTO journal VALUES ({client}, {number}, '{payload}')"))?;
        run(format!("UPDATE counters SET number = {number} WHERE client = {client}"))?;
        run("COMMIT".into())
    }

    fn state(&mut self, client: u64) -> (u64, u64, u64, u64) {
        let rows = format!(
            "SELECT COUNT(*), COALESCE(MAX(number), 0), CAST(COALESCE(SUM(LENGTH(payload)), 0) AS UNSIGNED) \
             FROM journal WHERE client = {client}"
        );
        let (count, last, bytes) = self.query_first(rows).unwrap().unwrap();
        let counter = format!("SELECT number FROM counters WHERE client = {client}");
        (count, last, bytes, self.query_first(counter).unwrap().unwrap())
    }
}

struct OnPostgresql(Postgresql);

impl Server for OnPostgresql {
    fn connect(&self) -> Box<dyn Connection> {
        Box::new(self.0.connect("postgres").unwrap())
    }

    fn abandon(self: Box<Self>) {
        self.0.abandon();
    }
}

impl Connection for postgres::Client {
    fn commit(&mut self, client: u64, number: u64, payload: &str) -> Result<(), String> {
        self.batch_execute(&format!(
            "BEGIN; INSERT INTO journal VALUES ({client}, {number}, '{payload}'); \
             UPDATE counters SET number = {number} WHERE client = {client}; COMMIT"
        ))
        .map_err(|error| error.to_string())
    }

    fn state(&mut self, client: u64) -> (u64, u64, u64, u64) {
        let rows = format!(
            "SELECT COUNT(*), COALESCE(MAX(number), 0), COALESCE(SUM(LENGTH(payload)), 0)::BIGINT \
             FROM journal WHERE client = {client}"
        );
        let row = self.query_one(&rows, &[]).unwrap();
        let counter = format!("SELECT number FROM counters WHERE client = {client}");
        let number = |value: i64| u64::try_from(value).unwrap();
        let counter = number(self.query_one(&counter, &[]).unwrap().get(0));
        (number(row.get(0)), number(row.get(1)), number(row.get(2)), counter)
    }
}

const MARIADB: Kind = Kind {
    install: |data, torn_pages| MariaDb::install(data, &mariadb_options(torn_pages)).unwrap(),
    start: |data, beside, torn_pages| {
        Box::new(OnMariaDb(MariaDb::start(data, beside, &mariadb_options(torn_pages)).unwrap()))
    },
    make_schema: |data, beside, torn_pages| {
        let server = MariaDb::start(data, beside, &mariadb_options(torn_pages)).unwrap();
        let mut connection = server.connect(None).unwrap();
        connection.query_drop("CREATE DATABASE test").unwrap();
        connection.query_drop("USE test").unwrap();
        SCHEMA.iter().for_each(|table| connection.query_drop(table).unwrap());
        for client in 0..CLIENTS {
            connection.query_drop(format!("INSERT INTO counters VALUES ({client}, 0)")).unwrap();
        }
        drop(connection);
        server.stop();
    },
};

fn postgresql_options(torn_pages: TornPages) -> PostgresqlOptions {
    let full_page_writes = torn_pages == TornPages::Server;
    PostgresqlOptions { buffer_bytes: 4 << 20, full_page_writes, checkpoint_seconds: 30 }
}

const POSTGRESQL: Kind = Kind {
    install: |data, _| Postgresql::install(data).unwrap(),
    start: |data, beside, torn_pages| {
        Box::new(OnPostgresql(Postgresql::start(data, beside, &postgresql_options(torn_pages)).unwrap()))
    },
    make_schema: |data, beside, torn_pages| {
        let server = Postgresql::start(data, beside, &postgresql_options(torn_pages)).unwrap();
        let mut connection = server.connect("postgres").unwrap();
        SCHEMA.iter().for_each(|table| connection.batch_execute(table).unwrap());
        for client in 0..CLIENTS {
            connection.batch_execute(&format!("INSERT INTO counters VALUES ({client}, 0)")).unwrap();
        }
        drop(connection);
        server.stop();
    },
};

fn number_from(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is {text}")))
}

/// Lives of one server on one drive, each ended by a power cut.
fn survives(kind: &Kind, torn_pages: TornPages, on: FileSystemOnDrive) {
    let (cuts, seed) = (number_from("TANTALUM_CUTS", 5), number_from("TANTALUM_SEED", 1));
    println!("{cuts} power cuts, seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let folder = PlainFolder::new().unwrap();
    let image = folder.folder().join("drive.img");
    on.create(&image);

    let mount = mounted(&folder, &image, torn_pages);
    let data = mount.folder().join("data");
    (kind.install)(&data, torn_pages);
    (kind.make_schema)(&data, folder.folder(), torn_pages);
    mount.unmount().unwrap();

    let acknowledged: Vec<AtomicU64> = (0..CLIENTS).map(|_| AtomicU64::new(0)).collect();
    for cut in 1..=cuts {
        let mount = mounted(&folder, &image, torn_pages);
        let server = (kind.start)(&data, folder.folder(), torn_pages);
        verify(server.as_ref(), &acknowledged, cut);
        let operations = random.random_range(1..=MOST_OPERATIONS);
        live(server, &mount, &acknowledged, (operations, random.random()));
        mount.unmount().unwrap();
        println!("cut {cut} of {cuts}: {} commits acknowledged", commits(&acknowledged));
    }
    let mount = mounted(&folder, &image, torn_pages);
    let server = (kind.start)(&data, folder.folder(), torn_pages);
    verify(server.as_ref(), &acknowledged, cuts + 1);
    server.abandon();
    mount.unmount().unwrap();
    let commits = commits(&acknowledged);
    println!("{commits} commits acknowledged over {cuts} power cuts, all there");
    assert!(commits > cuts, "the servers hardly did anything: {commits} commits");
}

fn commits(acknowledged: &[AtomicU64]) -> u64 {
    acknowledged.iter().map(|last| last.load(Ordering::Relaxed)).sum()
}

fn mounted(folder: &PlainFolder, image: &Path, torn_pages: TornPages) -> Mount {
    let atomic_writes = torn_pages == TornPages::Mount;
    let options =
        MountOptions { real_time: false, remap_duplicates: true, atomic_writes, sync_writes: false };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_tantalum"));
    Mount::new(&program, image, &folder.folder().join("mount"), options).unwrap()
}

/// Clients commit until power is lost; then the server ends as well. Power fails after this many flash operations, with
/// this seed.
fn live(server: Box<dyn Server>, mount: &Mount, acknowledged: &[AtomicU64], (operations, seed): (u64, u64)) {
    let payload = "x".repeat(PAYLOAD_BYTES);
    // A server whose drive lost power while clients connected refused them, and the test took that for a failure.
    let next_of = |client: usize| {
        let mut connection = server.connect();
        // what was not acknowledged may be there nevertheless
        let next = connection.state(client as u64).1 + 1;
        (connection, next)
    };
    let clients: Vec<(Box<dyn Connection>, u64)> = (0..acknowledged.len()).map(next_of).collect();
    mount.cut(Some(operations), seed).unwrap();
    thread::scope(|scope| {
        for (client, ((mut connection, mut number), last)) in
            clients.into_iter().zip(acknowledged).enumerate()
        {
            let payload = &payload;
            scope.spawn(move || {
                let client = client as u64;
                while connection.commit(client, number, payload).is_ok() {
                    last.store(number, Ordering::Relaxed);
                    number += 1;
                }
            });
        }
        let start = Instant::now();
        while mount.has_power().unwrap() && start.elapsed() < LONGEST_LIFE {
            thread::sleep(Duration::from_millis(100));
        }
        if mount.has_power().unwrap() {
            mount.cut(None, 0).unwrap();
        }
        server.abandon();
    });
}

fn verify(server: &dyn Server, acknowledged: &[AtomicU64], cut: u64) {
    let mut connection = server.connect();
    for (client, last) in acknowledged.iter().enumerate() {
        let acknowledged = last.load(Ordering::Relaxed);
        let (rows, greatest, bytes, counter) = connection.state(client as u64);
        let state =
            format!("before cut {cut}, client {client}: {rows} rows to {greatest}, counter {counter}");
        assert!(greatest >= acknowledged, "{state}; {acknowledged} was acknowledged");
        assert_eq!(rows, greatest, "{state}: rows are missing");
        assert_eq!(counter, greatest, "{state}: half a transaction");
        assert_eq!(bytes, rows * PAYLOAD_BYTES as u64, "{state}: {bytes} bytes");
    }
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_has_every_acknowledged_commit() {
    survives(&MARIADB, TornPages::Server, OnVolume);
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_without_doublewrite_has_every_acknowledged_commit_on_atomic_writes() {
    survives(&MARIADB, TornPages::Mount, OnVolume);
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_has_every_acknowledged_commit_on_lfs_nat() {
    survives(&MARIADB, TornPages::Server, LogStructured(LogKind::Nat, Indexing::Conventional));
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_has_every_acknowledged_commit_on_lfs_nat_with_lists() {
    survives(&MARIADB, TornPages::Server, LogStructured(LogKind::Nat, Indexing::Nvm));
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_has_every_acknowledged_commit_on_lfs_tree() {
    survives(&MARIADB, TornPages::Server, LogStructured(LogKind::Tree, Indexing::Conventional));
}

#[test]
#[ignore = "needs mariadb-server and /dev/fuse: run by cargo xtask e2e"]
fn mariadb_has_every_acknowledged_commit_on_lfs_tree_with_lists() {
    survives(&MARIADB, TornPages::Server, LogStructured(LogKind::Tree, Indexing::Nvm));
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_has_every_acknowledged_commit() {
    survives(&POSTGRESQL, TornPages::Server, OnVolume);
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_without_full_page_writes_has_every_acknowledged_commit_on_atomic_writes() {
    survives(&POSTGRESQL, TornPages::Mount, OnVolume);
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_has_every_acknowledged_commit_on_lfs_nat() {
    survives(&POSTGRESQL, TornPages::Server, LogStructured(LogKind::Nat, Indexing::Conventional));
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_has_every_acknowledged_commit_on_lfs_nat_with_lists() {
    survives(&POSTGRESQL, TornPages::Server, LogStructured(LogKind::Nat, Indexing::Nvm));
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_has_every_acknowledged_commit_on_lfs_tree() {
    survives(&POSTGRESQL, TornPages::Server, LogStructured(LogKind::Tree, Indexing::Conventional));
}

#[test]
#[ignore = "needs postgresql and /dev/fuse: run by cargo xtask e2e"]
fn postgresql_has_every_acknowledged_commit_on_lfs_tree_with_lists() {
    survives(&POSTGRESQL, TornPages::Server, LogStructured(LogKind::Tree, Indexing::Nvm));
}
