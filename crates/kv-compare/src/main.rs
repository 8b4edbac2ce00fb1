//! Runs the same work on each store, on this machine's disk, and prints what it took: YCSB's A, B, C and F, and transfers
//! that change four records (as TPC-B's do). No latency is emulated.

mod engines;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use engines::{Engine, Failure, NAMES, Setting, open};
use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

/// Compares embedded key-value stores.
#[derive(Parser)]
struct Arguments {
    /// The stores, with commas between them
    #[arg(long, value_delimiter = ',', default_values_t = NAMES.iter().map(|name| name.to_string()))]
    stores: Vec<String>,
    /// The workloads: a, b, c, f (YCSB) and t (transfers)
    #[arg(long, value_delimiter = ',', default_values_t = ["a", "b", "c", "f", "t"].map(str::to_owned))]
    workloads: Vec<String>,
    /// Records that are there
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(8..))]
    records: u64,
    /// Bytes of a record of YCSB; those of transfers have 100
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    value_bytes: u32,
    /// Bytes of cache, as a share of the data, in percent: 25 means four times the cache
    #[arg(long, default_value_t = 200)]
    cache_percent: u64,
    /// Threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<u64>,
    /// Seconds for each measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Only synced or only unsynced
    #[arg(long)]
    synced: Option<bool>,
    /// Where to make the stores; they are removed afterwards
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// Where random numbers start
    #[arg(long, default_value_t = 17)]
    seed: u64,
    /// For scripts
    #[arg(long)]
    json: bool,
}

/// One line of the table.
#[derive(Serialize)]
struct Row {
    workload: String,
    synced: bool,
    threads: u64,
    store: String,
    operations: u64,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    /// Bytes written to the disk for each byte of records written; none if nothing was written.
    written_per_byte: Option<f64>,
    /// Bytes on the disk for each byte of records that are there.
    space_per_byte: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(unknown) =
        arguments.workloads.iter().find(|name| !["a", "b", "c", "f", "t"].contains(&&name[..]))
    {
        eprintln!("there is no workload {unknown}; there are: a, b, c, f, t");
        return ExitCode::from(2);
    }
    if let Some(unknown) = arguments.stores.iter().find(|name| !NAMES.contains(&&name[..])) {
        eprintln!("there is no store {unknown}; there are: {}", NAMES.join(", "));
        return ExitCode::from(2);
    }
    match measure_all(&arguments) {
        Ok(rows) => {
            print(&rows, arguments.json);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(arguments: &Arguments) -> Result<Vec<Row>, Failure> {
    let syncs: Vec<bool> = arguments.synced.map_or(vec![true, false], |synced| vec![synced]);
    let count = syncs.len() * arguments.workloads.len() * arguments.threads.len() * arguments.stores.len();
    let progress = ProgressBar::new(count as u64);
    let mut rows = Vec::new();
    for &synced in &syncs {
        for workload in &arguments.workloads {
            for &threads in &arguments.threads {
                for store in &arguments.stores {
                    rows.push(measure(arguments, store, workload, synced, threads)?);
                    progress.inc(1);
                }
            }
        }
    }
    progress.finish_and_clear();
    Ok(rows)
}

fn measure(a: &Arguments, store: &str, workload: &str, synced: bool, threads: u64) -> Result<Row, Failure> {
    let folder = tempfile::tempdir_in(&a.folder)?;
    let value_bytes = if workload == "t" { 100 } else { a.value_bytes as usize };
    let data_bytes = a.records * (8 + value_bytes as u64);
    let cache_bytes = (data_bytes * a.cache_percent / 100) as usize;
    let engine = open(store, folder.path(), Setting { synced, cache_bytes, data_bytes })?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(a.seed);
    let keys: Vec<u64> = (0..a.records).collect();
    for keys in keys.chunks(500) {
        let records: Vec<_> = keys.iter().map(|key| (*key, value(&mut random, value_bytes))).collect();
        engine.load(&records)?;
    }
    engine.settle()?;
    let (before, written) = (written_bytes()?, AtomicU64::new(0));
    let zipf = Zipf::new(a.records);
    let end = Instant::now() + Duration::from_secs_f64(a.seconds);
    let start = Instant::now();
    let latencies = std::thread::scope(|scope| {
        let run = |thread| {
            let (engine, zipf, written) = (&*engine, &zipf, &written);
            let random = Xoshiro256PlusPlus::seed_from_u64(a.seed << 8 | (thread + 1));
            scope.spawn(move || work(engine, workload, zipf, value_bytes, random, end, written))
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().expect("a thread ends well"))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    engine.settle()?;
    drop(engine);
    sync_all(folder.path())?;
    let to_disk = written_bytes()? - before;
    let mut all = Histogram::<u64>::new(3)?;
    latencies.iter().try_for_each(|latencies| all.add(latencies))?;
    let written = written.into_inner();
    Ok(Row {
        workload: workload.to_owned(),
        synced,
        threads,
        store: store.to_owned(),
        operations: all.len(),
        per_second: all.len() as f64 / elapsed,
        p50_us: all.value_at_quantile(0.5) as f64 / 1000.0,
        p99_us: all.value_at_quantile(0.99) as f64 / 1000.0,
        written_per_byte: (written > 0).then(|| to_disk as f64 / written as f64),
        space_per_byte: allocated_bytes(folder.path())? as f64 / data_bytes as f64,
    })
}

fn work(
    engine: &dyn Engine,
    workload: &str,
    zipf: &Zipf,
    value_bytes: usize,
    mut random: Xoshiro256PlusPlus,
    end: Instant,
    written: &AtomicU64,
) -> Result<Histogram<u64>, Failure> {
    let mut latencies = Histogram::<u64>::new(3)?;
    let reads_percent = match workload {
        "a" | "f" => 50,
        "b" => 95,
        "c" => 100,
        _ => 0,
    };
    let mut now = Instant::now();
    while now < end {
        let key = zipf.draw(&mut random);
        let records = if workload == "t" { 4 } else { 1 };
        if random.random_range(0..100) < reads_percent {
            engine.read(key)?;
        } else {
            let fresh = value(&mut random, value_bytes);
            match workload {
                "t" => engine.change(&zipf.four(&mut random), &|old| add_one(old))?,
                "f" => engine.change(&[key], &|_| fresh.clone())?,
                _ => engine.write(&[(key, fresh.clone())])?,
            }
            written.fetch_add(records * (8 + value_bytes as u64), Ordering::Relaxed);
        }
        let done = Instant::now();
        latencies.record((done - now).as_nanos() as u64)?;
        now = done;
    }
    Ok(latencies)
}

/// An account with one more on it.
fn add_one(old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    let (number, _) = new.split_first_chunk_mut::<8>().expect("a record has eight bytes at least");
    *number = (u64::from_le_bytes(*number).wrapping_add(1)).to_le_bytes();
    new
}

fn value(random: &mut Xoshiro256PlusPlus, bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    value.chunks_mut(8).for_each(|part| {
        let number: u64 = random.random();
        part.copy_from_slice(&number.to_le_bytes()[..part.len()]);
    });
    value
}

/// YCSB's choice of records: zipfian with 0.99, scattered over the keys.
struct Zipf {
    records: u64,
    sums: Vec<f64>,
}

impl Zipf {
    fn new(records: u64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=records).map(|rank| {
            sum += 1.0 / (rank as f64).powf(0.99);
            sum
        });
        Zipf { records, sums: sums.collect() }
    }

    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        let last = self.sums.last().expect("there are records");
        let drawn = random.random::<f64>() * last;
        let rank = self.sums.partition_point(|sum| *sum < drawn) as u64;
        (rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1) % self.records
    }

    /// Four different records, all equally likely, in order: so nobody gives way to another.
    fn four(&self, random: &mut Xoshiro256PlusPlus) -> [u64; 4] {
        loop {
            let mut keys = [(); 4].map(|()| random.random_range(0..self.records));
            keys.sort_unstable();
            if keys.windows(2).all(|pair| pair[0] != pair[1]) {
                return keys;
            }
        }
    }
}

/// What this process has sent to the disk.
fn written_bytes() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("/proc/self/io says nothing of write_bytes")?.parse()?)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

fn sync_all(folder: &Path) -> Result<(), Failure> {
    files(folder)?.iter().try_for_each(|path| Ok(std::fs::File::open(path)?.sync_all()?))
}

fn allocated_bytes(folder: &Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt;
    files(folder)?.iter().try_fold(0, |sum, path| Ok(sum + std::fs::metadata(path)?.blocks() * 512))
}

fn print(rows: &[Row], json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(rows).expect("rows are numbers and names"));
        return;
    }
    println!("work  commits   threads  store     ops/s      p50 us    p99 us    written/byte  space/byte");
    println!("----  --------  -------  --------  ---------  --------  --------  ------------  ----------");
    for row in rows {
        let written = row.written_per_byte.map_or("-".to_owned(), |written| format!("{written:.2}"));
        println!(
            "{:<4}  {:<8}  {:>7}  {:<8}  {:>9.0}  {:>8.1}  {:>8.1}  {:>12}  {:>10.2}",
            row.workload,
            if row.synced { "synced" } else { "unsynced" },
            row.threads,
            row.store,
            row.per_second,
            row.p50_us,
            row.p99_us,
            written,
            row.space_per_byte
        );
    }
    println!("\nwritten/byte: bytes sent to the disk for each byte of keys and values written");
    println!("space/byte: bytes on the disk for each byte of keys and values that are there");
}
