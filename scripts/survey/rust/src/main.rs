//! Runs the ledger of `../ledger.py` on stores written in Rust.
//!
//! `survey-stores STORE work FOLDER` applies the steps on its standard input; `survey-stores STORE dump FOLDER` prints all pairs,
//! after it has made sure that another commit changes nothing else.

mod fjall_store;
mod redb_store;
mod sled_store;
mod store;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Duration;

use store::{Changes, Result, Store};

fn open(store: &str, folder: &Path) -> Result<Box<dyn Store>> {
    match store {
        "redb" => Ok(Box::new(redb_store::Redb::open(folder, false)?)),
        "redb-two-phase" => Ok(Box::new(redb_store::Redb::open(folder, true)?)),
        "fjall" => Ok(Box::new(fjall_store::Fjall::open(folder)?)),
        "sled" => Ok(Box::new(sled_store::Sled::open(folder)?)),
        other => Err(format!("unknown store {other}").into()),
    }
}

fn work(store: &str, folder: &Path) -> Result<()> {
    let mut opened = Some(open(store, folder)?);
    let mut changes = Changes::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["put", key, value] => drop(changes.insert(key.to_owned(), Some(value.to_owned()))),
            ["delete", key, ..] => drop(changes.insert(key.to_owned(), None)),
            ["commit", step, _] => {
                opened.as_mut().ok_or("closed")?.commit(&changes)?;
                changes.clear();
                acknowledge(step)?;
            }
            ["compact", ..] => opened.as_mut().ok_or("closed")?.compact()?,
            ["reopen", ..] => {
                drop(opened.take());
                opened = Some(open(store, folder)?);
            }
            _ => return Err(format!("unknown step {line:.40}").into()),
        }
    }
    Ok(())
}

/// What is heard late tests fewer cuts, so wait until it is heard.
fn acknowledge(step: &str) -> Result<()> {
    let path = std::env::var("TANTALUM_ACK")?;
    writeln!(std::fs::File::options().write(true).open(path)?, "{step}")?;
    std::thread::sleep(Duration::from_millis(20));
    Ok(())
}

fn dump(store: &str, folder: &Path) -> Result<()> {
    let mut opened = open(store, folder)?;
    let pairs = opened.pairs()?;
    let after = ("after".to_owned(), "the cut".to_owned());
    opened.commit(&Changes::from([(after.0.clone(), Some(after.1.clone()))]))?;
    drop(opened);
    let mut expected = pairs.clone();
    expected.extend([after]);
    if open(store, folder)?.pairs()? != expected {
        return Err("a commit after the power cut changed more than it wrote".into());
    }
    pairs.iter().for_each(|(key, value)| println!("{key}\t{value}"));
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [store, what, folder] if what == "work" => work(store, Path::new(folder)),
        [store, what, folder] if what == "dump" => dump(store, Path::new(folder)),
        _ => Err("usage: survey-stores STORE work|dump FOLDER".into()),
    }
}
