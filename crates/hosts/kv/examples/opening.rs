//! What opening costs: fills a store with small records, or opens the one that is there.
//!
//! `opening fill FILE RECORDS [kill]` makes a store like `tantalum-kv-compare small` does, and closes it, or is killed; `opening
//! open FILE TIMES [kill]` opens it that often, and prints the processor time of the fastest; `kill` leaves it open.

use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_kv::{Error, Store};

const VALUE_BYTES: usize = 100;
const BATCH: u64 = 1000;
const CACHE_BYTES: usize = 256 << 20;

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["fill", file, records] => fill(file, number(records))?.close(),
        ["fill", file, records, "kill"] => {
            std::mem::forget(fill(file, number(records))?);
            std::process::exit(0)
        }
        ["open", file, times] => measure(file, number(times), false),
        ["open", file, times, "kill"] => measure(file, number(times), true),
        _ => {
            eprintln!("usage: opening fill FILE RECORDS [kill] | opening open FILE TIMES [kill]");
            std::process::exit(2)
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn fill(file: &str, records: u64) -> Result<Store, Error> {
    let capacity = (records * (16 + VALUE_BYTES as u64) * 8).max(1 << 30).next_multiple_of(1 << 20);
    let store = Store::options().capacity_bytes(capacity).cache_bytes(CACHE_BYTES).open(file)?;
    let namespace = store.namespace("records")?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for first in (0..records).step_by(BATCH as usize) {
        store.transact(|tx| {
            (first..records.min(first + BATCH)).try_for_each(|record| {
                let mut value = [0; VALUE_BYTES];
                random.fill_bytes(&mut value);
                tx.put(namespace, format!("{:010}{:06}", record / 100, record % 100), value)
            })
        })?;
    }
    Ok(store)
}

/// Opens the store, and prints what the fastest took.
fn measure(file: &str, times: u64, killed: bool) -> Result<(), Error> {
    let (mut least, mut least_wall) = (Duration::MAX, Duration::MAX);
    for _ in 0..times {
        let (before, begun) = (processor_time(), Instant::now());
        let store = Store::options().cache_bytes(CACHE_BYTES).open(file)?;
        least = least.min(processor_time() - before);
        least_wall = least_wall.min(begun.elapsed());
        if killed {
            std::mem::forget(store);
            break;
        }
        store.close()?;
    }
    println!(
        "{:.2} ms of processor time, {:.2} ms in all",
        1e3 * least.as_secs_f64(),
        1e3 * least_wall.as_secs_f64()
    );
    Ok(())
}

/// Of this thread; the store has no others.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("Linux says what this thread used");
    Duration::from_nanos(number(text.split(' ').next().unwrap_or_default()))
}
