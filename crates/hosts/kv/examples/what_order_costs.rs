//! What an ordered namespace costs compared with a hashed one: records of the drive and memory for its index, bytes
//! programmed into flash for each put, and what recovery does after a power loss. Also, what the capacity of an empty
//! store costs.
//!
//! `cargo run --release -p tantalum-kv --example what_order_costs`

use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{PowerLoss, UNIT_BYTES};
use tantalum_kv::{Namespace, Options, Store, Sync};

const RECORDS: u32 = 100_000;

const CAPACITY: u64 = 2 << 30;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Hashed,
    /// Keys come in their order.
    Ascending,
    /// Keys come in any order.
    Scattered,
}

fn main() -> Result<(), Box<dyn Error>> {
    // first, so that memory released by others is not counted as a store's
    println!("| capacity of a new store | on disk | memory | time to open |");
    [1, 16, 64, 256].into_iter().try_for_each(capacity)?;
    println!("\n{RECORDS} records with keys of 16 bytes, on the drive of a store of 2 GiB");
    println!(
        "| namespace | value | keys a transaction | records of the drive | index | programmed for an insert | \
         for an update | recovery, device time | open, first insert |"
    );
    for (bytes, at_once) in [(100, 1), (100, 100), (1000, 1)] {
        for (kind, name) in [
            (Kind::Hashed, "hashed"),
            (Kind::Ascending, "ordered, ascending keys"),
            (Kind::Scattered, "ordered, scattered keys"),
        ] {
            row(kind, name, bytes, at_once)?;
        }
    }
    Ok(())
}

fn key(number: u32) -> [u8; 16] {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key
}

fn row(kind: Kind, name: &str, bytes: usize, at_once: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(".")?;
    let options = Store::options().capacity_bytes(CAPACITY).sync(Sync::None);
    let store = options.open(folder.path().join("app.tant"))?;
    let namespace = if kind == Kind::Hashed { store.hashed_namespace("a")? } else { store.namespace("a")? };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
    let mut numbers: Vec<u32> = (0..RECORDS).collect();
    if kind == Kind::Scattered {
        (1..numbers.len()).rev().for_each(|at| numbers.swap(at, random.random_range(0..=at)));
    }
    let inserts = programmed(&store, || put_all(&store, namespace, numbers.chunks(at_once), bytes))?;
    let updates = programmed(&store, || put_all(&store, namespace, numbers.chunks(at_once), bytes))?;
    let info = store.with_drive(|drive| drive.namespaces())?;
    let info = info.iter().find(|info| info.namespace.0 == namespace.number()).ok_or("it is there")?;
    let (records, index) = (info.records, info.index_bytes);
    let mut device = store.into_drive().ok_or("nobody else has it")?;
    let now_ns = device.time_ns();
    device.cut_power(now_ns);
    let report = device.power_on(&mut PowerLoss::seeded(1))?;
    let start = Instant::now();
    let store = Store::over(device, Options::default().sync(Sync::None))?;
    put_all(&store, namespace, [&[RECORDS][..]].into_iter(), bytes)?;
    let opened = start.elapsed();
    let per_put = |programmed: u64| programmed as f64 / f64::from(RECORDS);
    println!(
        "| {name} | {bytes} B | {at_once} | {records} | {:.1} MB | {:.0} B | {:.0} B | {:.0} ms | {:.1} ms |",
        index as f64 / 1e6,
        per_put(inserts),
        per_put(updates),
        report.device_ns as f64 / 1e6,
        opened.as_secs_f64() * 1e3,
    );
    Ok(())
}

fn put_all<'a>(
    store: &Store,
    namespace: Namespace,
    mut transactions: impl Iterator<Item = &'a [u32]>,
    bytes: usize,
) -> Result<(), tantalum_kv::Error> {
    transactions.try_for_each(|numbers| {
        store.transact(|tx| {
            numbers.iter().try_for_each(|number| tx.put(namespace, key(*number), vec![*number as u8; bytes]))
        })
    })
}

/// Bytes programmed into flash while something is done.
fn programmed(
    store: &Store,
    work: impl FnOnce() -> Result<(), tantalum_kv::Error>,
) -> Result<u64, tantalum_kv::Error> {
    let units = || store.with_drive(|drive| drive.smart().counters.flash_units.total());
    let before = units()?;
    work()?;
    Ok((units()? - before) * UNIT_BYTES as u64)
}

/// What an empty store of this many GiB costs.
fn capacity(gib: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("app.tant");
    let before = resident_bytes()?;
    let start = Instant::now();
    let store = Store::options().capacity_bytes(gib << 30).open(&path)?;
    let namespace = store.hashed_namespace("a")?;
    put_all(&store, namespace, [&[1][..]].into_iter(), 100)?;
    let opened = start.elapsed();
    let memory = resident_bytes()?.saturating_sub(before);
    let disk = std::fs::metadata(&path)?.blocks() * 512;
    println!(
        "| {gib} GiB | {:.0} MB | {:.0} MB | {:.2} s |",
        disk as f64 / 1e6,
        memory as f64 / 1e6,
        opened.as_secs_f64()
    );
    Ok(())
}

fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split(' ').nth(1).ok_or("statm has a second number")?.parse()?;
    Ok(pages * 4096)
}
