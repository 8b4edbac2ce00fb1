//! How long it takes to delete half of a full store (each second key), or all of it, in one transaction, and what flash receives.
//!
//! `cargo run --release -p tantalum-kv --example large_deletes` takes MiB of the drive in front of bytes of a value, such as
//! `-- 64,256 100,1000`.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tantalum::{Status, UNIT_BYTES};
use tantalum_kv::{Namespace, Options, Order, Store, Sync};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = |list: Option<String>, all: &str| -> Result<Vec<u64>, std::num::ParseIntError> {
        list.unwrap_or(all.to_owned()).split(',').map(str::parse).collect()
    };
    let mut arguments = std::env::args().skip(1);
    let capacities = numbers(arguments.next(), "64,256,1024")?;
    let sizes = numbers(arguments.next(), "100,1000,100000")?;
    println!(
        "| capacity | value | namespace | records | deleted | works | seconds | of these the commit | CPU seconds | MiB to flash |"
    );
    println!("|---:|---:|---|---:|---|---|---:|---:|---:|---:|");
    for mib in capacities {
        for bytes in &sizes {
            for order in [Order::Hashed, Order::Ordered] {
                rows(mib, *bytes as usize, order)?;
            }
        }
    }
    Ok(())
}

fn rows(mib: u64, bytes: usize, order: Order) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(".")?;
    let [full, image] = ["full.tant", "image.tant"].map(|name| folder.path().join(name));
    let options = Store::options().capacity_bytes(mib << 20).sync(Sync::None);
    let records = fill(&options, &full, order, bytes)?;
    let name = if order == Order::Hashed { "hashed" } else { "ordered" };
    for (what, which) in [("half", 1), ("all", 0)] {
        std::fs::copy(&full, &image)?;
        let store = options.clone().open(&image)?;
        let namespace = namespace_of(&store, order)?;
        let units = || store.with_drive(|drive| drive.smart().counters.flash_units.total());
        let (before, begun, cpu_before) = (units()?, Instant::now(), cpu_seconds()?);
        let mut tx = store.begin()?;
        // each second key: all nodes of an ordered namespace change
        for number in (0..records).filter(|number| number & which == 0) {
            tx.delete(namespace, key(number))?;
        }
        let committing = Instant::now();
        let works = match tx.commit() {
            Ok(()) => "yes".to_owned(),
            Err(error) => error.to_string(),
        };
        let (all, commit) = (begun.elapsed().as_secs_f64(), committing.elapsed().as_secs_f64());
        let cpu = cpu_seconds()? - cpu_before;
        let flash_mib = ((units()? - before) * UNIT_BYTES as u64) as f64 / f64::from(1 << 20);
        println!(
            "| {mib} MiB | {bytes} B | {name} | {records} | {what} | {works} | {all:.1} | {commit:.1} | {cpu:.1} | {flash_mib:.1} |"
        );
    }
    Ok(())
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn namespace_of(store: &Store, order: Order) -> Result<Namespace, tantalum_kv::Error> {
    if order == Order::Hashed { store.hashed_namespace("all") } else { store.namespace("all") }
}

/// Fills a new store. Returns how many records fit.
fn fill(options: &Options, path: &Path, order: Order, bytes: usize) -> Result<u32, Box<dyn Error>> {
    let store = options.clone().open(path)?;
    let namespace = namespace_of(&store, order)?;
    let value = vec![7; bytes];
    let (mut records, mut at_once) = (0_u32, (500_000 / bytes as u32).clamp(1, 500));
    loop {
        let put = store
            .transact(|tx| (records..records + at_once).try_for_each(|n| tx.put(namespace, key(n), &value)));
        match put {
            Ok(()) => records += at_once,
            Err(tantalum_kv::Error::Drive(Status::CapacityExceeded)) if at_once > 1 => at_once /= 2,
            Err(tantalum_kv::Error::Drive(Status::CapacityExceeded)) => break,
            Err(error) => return Err(error.into()),
        }
    }
    store.close()?;
    Ok(records)
}

/// CPU time of this process, in the kernel too: others may use the machine as well.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    let (_, after_name) = text.rsplit_once(") ").ok_or("the name stands in brackets")?;
    // utime and stime, in hundredths of a second
    let ticks: Result<Vec<u64>, _> = after_name.split(' ').skip(11).take(2).map(str::parse).collect();
    Ok(ticks?.iter().sum::<u64>() as f64 / 100.0)
}
