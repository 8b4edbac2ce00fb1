//! How many records of a size a store has room for: what `Store::room_for` says of a new one, and how many fit, in one go and if
//! the store is opened anew after each eighth of them.
//!
//! `cargo run --release -p tantalum-kv --example how_much_fits` takes MiB of the drive, bytes of a value, and records of a
//! transaction, such as `-- 16,64 1,100,1000 1`.

use std::error::Error;
use std::path::Path;

use tantalum::Status;
use tantalum_kv::{Options, Store, Sync};

fn main() -> Result<(), Box<dyn Error>> {
    let numbers = |list: Option<String>, all: &str| -> Result<Vec<u64>, std::num::ParseIntError> {
        list.unwrap_or(all.to_owned()).split(',').map(str::parse).collect()
    };
    let mut arguments = std::env::args().skip(1);
    let capacities = numbers(arguments.next(), "16,64,256,1024")?;
    let sizes = numbers(arguments.next(), "1,24,100,200,500,984,1000,2000")?;
    let at_once = numbers(arguments.next(), "1")?[0];
    println!(
        "| capacity | bytes of a value | `room_for` | fit | lower by | fit if opened anew | lower by | bytes of values | of the capacity |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for mib in capacities {
        for bytes in &sizes {
            row(mib, *bytes as usize, at_once)?;
        }
    }
    Ok(())
}

fn row(mib: u64, bytes: usize, at_once: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir_in(".")?;
    let options = Store::options().capacity_bytes(mib << 20).sync(Sync::None);
    let path = folder.path().join("app.tant");
    let told = options.clone().open(&path)?.room_for(bytes)?;
    let (fit, _) = fill(&options, &path, (bytes, at_once), u64::MAX)?;
    std::fs::remove_file(&path)?;
    let (anew, overstated) = fill(&options, &path, (bytes, at_once), told / 8)?;
    let lower_by = |fit: u64| 100.0 * (1.0 - told as f64 / fit as f64);
    let value_bytes = (fit * bytes as u64) as f64;
    println!(
        "| {mib} MiB | {bytes} | {told} | {fit} | {:.1} % | {anew} | {:.1} % | {:.1} MB | {:.0} % |{}",
        lower_by(fit),
        lower_by(anew),
        value_bytes / 1e6,
        100.0 * value_bytes / (mib << 20) as f64,
        if overstated > 0 { format!(" OVERSTATED by {overstated}") } else { String::new() },
    );
    Ok(())
}

/// Fills a store, and opens it anew after so many records. Returns how many fit, and by how many it once said more.
fn fill(
    options: &Options,
    path: &Path,
    (bytes, mut at_once): (usize, u64),
    anew: u64,
) -> Result<(u64, u64), Box<dyn Error>> {
    let mut store = options.clone().open(path)?;
    let (value, mut records) = (vec![7; bytes], 0_u64);
    let mut said = store.room_for(bytes)?;
    let mut next_opening = anew;
    loop {
        let all = store.hashed_namespace("all")?;
        let put = store.transact(|tx| {
            (records..records + at_once).try_for_each(|n| tx.put(all, n.to_be_bytes(), &value))
        });
        match put {
            Ok(()) => records += at_once,
            Err(tantalum_kv::Error::Drive(Status::CapacityExceeded)) if at_once > 1 => at_once = 1,
            Err(tantalum_kv::Error::Drive(Status::CapacityExceeded)) => break,
            Err(error) => return Err(error.into()),
        }
        if records >= next_opening {
            next_opening = records + anew;
            store.close()?;
            store = options.clone().open(path)?;
            said = said.max(records + store.room_for(bytes)?);
        }
    }
    Ok((records, said.saturating_sub(records)))
}
