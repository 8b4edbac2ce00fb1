//! SQLite on Base-IO: the VFS's volume reads, writes and flushes through a program in the drive. Power fails while SQLite works,
//! and comes back: a committed transaction is there, none is half there. `SPU_SEEDS=200` runs more seeds, `SPU_SEED=17` one.

use crate::common;

use std::sync::{Arc, Mutex};

use common::{KERNEL, OPEN, profile, seeds};
use tantalum::{Device, PowerLoss};
use tantalum_drive::{Client, Drive};
use tantalum_image::SplitMix64;
use tantalum_spu::{BaseIoWay, BlockClient, EndpointId, Ssd, shipped};
use tantalum_sqlite::rusqlite::{self, Connection};
use tantalum_sqlite::{Mode, SharedVolume};
use tantalum_volume::Volume;

/// Host memory for the volume's page cache: small, so that pages are read back through Base-IO.
const CACHE_BYTES: u64 = 1 << 20;
const ROWS: i64 = 30;

/// A drive with Base-IO, or with a program in its place.
struct Host {
    drive: Drive,
    ssd: Arc<Mutex<Ssd>>,
    endpoint: EndpointId,
    module: &'static [u8],
}

impl Host {
    fn new(name: &str, module: &'static [u8]) -> Host {
        let drive = Drive::new(Device::in_memory(&profile(name)).unwrap());
        let mut ssd = Ssd::new(drive.clone());
        let endpoint = ssd.endpoint(KERNEL).unwrap();
        Host { drive, ssd: Arc::new(Mutex::new(ssd)), endpoint, module }
    }

    /// Installs Base-IO, and makes a client of the drive that goes through it.
    fn client(&self) -> Client {
        let base_io = self.ssd.lock().unwrap().install(KERNEL, self.module, OPEN).unwrap();
        let way = BaseIoWay::new(Arc::clone(&self.ssd), BlockClient::new(self.endpoint, base_io));
        self.drive.client().with_route(way)
    }

    /// Power comes back, perhaps with another cut in the recovery.
    fn power_on(&self, random: &mut SplitMix64) {
        let mut loss = PowerLoss::seeded(random.next_u64());
        loop {
            let mut device = self.drive.lock();
            let again = random.below(3) == 0;
            device.cut_after(again.then(|| 1 + random.below(4)));
            if device.power_on(&mut loss).is_ok() && device.has_power() {
                device.cut_after(None);
                break;
            }
        }
        let mut ssd = self.ssd.lock().unwrap();
        ssd.power_on().unwrap();
        while ssd.next_event().is_some() {}
    }

    /// Bytes that requests to Base-IO have taken over the link.
    fn sent(&self) -> u64 {
        self.ssd.lock().unwrap().link_bytes().0
    }
}

fn open(files: &SharedVolume) -> rusqlite::Result<Connection> {
    let connection = files.open("app.db")?;
    connection.execute_batch(
        "PRAGMA synchronous=EXTRA; PRAGMA cache_size=5; PRAGMA cache_spill=3; PRAGMA wal_autocheckpoint=20;",
    )?;
    Ok(connection)
}

/// Raises all rows to a number in one transaction, and changes a few blobs.
fn transaction(connection: &Connection, random: &mut SplitMix64, number: i64) -> rusqlite::Result<()> {
    let (key, bytes) = (random.below(ROWS as u64), random.below(6000));
    connection.execute_batch(&format!(
        "BEGIN; UPDATE t SET n={number};
         UPDATE t SET b=randomblob({bytes}) WHERE k BETWEEN {key} AND {key} + 2; COMMIT"
    ))
}

/// The number that all rows have, of a database without damage.
fn state(connection: &Connection) -> Result<i64, String> {
    let check: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    let row = connection.query_row("SELECT min(n), max(n), count(*) FROM t", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    match (check.as_str(), row) {
        ("ok", Ok((least, most, ROWS))) if least == most => Ok(least),
        (check, row) => Err(format!("integrity check: {check}; least, most and rows: {row:?}")),
    }
}

/// Returns the transactions that were committed and the power cuts, or what was wrong after one.
fn torture(mode: Mode, seed: u64, module: &'static [u8]) -> Result<(i64, u32), String> {
    println!("mode {mode}, seed {seed}");
    let mut random = SplitMix64(seed);
    let names = ["tlc-nvme", "openssd-barefoot", "tlc-nvme-plp"];
    let host = Host::new(names[random.below(3) as usize], module);
    let mut files = SharedVolume::new(Volume::format(host.client(), CACHE_BYTES).unwrap(), mode, Some(seed));
    let mut connection = open(&files).unwrap();
    let create = format!(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, n INTEGER, b BLOB);
         WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x+1 FROM c WHERE x<{ROWS})
         INSERT INTO t SELECT x, 0, zeroblob(500) FROM c; PRAGMA wal_checkpoint;"
    );
    connection.execute_batch(&create).unwrap();
    let (mut number, mut cuts) = (0, 0);
    for _ in 0..4 {
        host.drive.lock().cut_after(Some(1 + random.below(250)));
        let (mut committed, before) = (number, host.sent());
        while committed < number + 60 && transaction(&connection, &mut random, committed + 1).is_ok() {
            committed += 1;
        }
        let (bytes, done) = (host.sent() - before, (committed - number) as u64);
        // in these modes all that a commit writes are plain writes; others have commands that Base-IO does not have
        if matches!(mode, Mode::Rollback | Mode::Wal) {
            assert!(bytes >= 4096 * done, "{mode}: {done} commits, and {bytes} bytes went to the program");
        }
        cuts += u32::from(!host.drive.lock().has_power());
        let now_ns = host.drive.lock().time_ns();
        host.drive.lock().cut_power(now_ns);
        drop(connection);
        // what the host has in memory goes with it
        drop(files.into_volume().map_err(|(_, error)| error).unwrap().into_client_without_sync());
        host.power_on(&mut random);
        let volume = Volume::mount(host.client(), CACHE_BYTES).map_err(|error| error.to_string())?;
        files = SharedVolume::new(volume, mode, Some(seed));
        connection = open(&files).map_err(|error| error.to_string())?;
        let found = state(&connection)?;
        if !(committed..=committed + 1).contains(&found) {
            return Err(format!("found transaction {found}, and {committed} was committed"));
        }
        number = found;
    }
    Ok((number, cuts))
}

#[test]
fn sqlite_on_base_io_keeps_its_transactions_whole_over_power_cuts() {
    let (mut committed, mut cuts) = (0, 0);
    for mode in Mode::ALL {
        for seed in seeds(2) {
            match torture(mode, seed, shipped::BASE_IO) {
                Ok((of_this, cuts_here)) => (committed, cuts) = (committed + of_this, cuts + cuts_here),
                Err(error) => panic!("mode {mode}, seed {seed}: {error}"),
            }
        }
    }
    println!("{committed} transactions, {cuts} cuts");
    assert!(committed > 0 && cuts > 0);
}

/// Base-IO that acknowledges flushes and does nothing.
#[test]
fn sqlite_notices_a_base_io_that_does_not_flush() {
    let module = include_bytes!("../canaries/base_io_unflushed.wasm");
    let noticed = (0..10).find_map(|seed| torture(Mode::Rollback, seed, module).err());
    println!("{}", noticed.expect("a commit was lost"));
}
