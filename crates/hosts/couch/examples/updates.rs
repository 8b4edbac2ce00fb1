//! Updates every document of a store in a folder, checks what the previous round left, and reports how the updates were
//! done: `updates FOLDER ROUND`, rounds from 0. On a mounted Tantalum volume updates are shared, elsewhere they are
//! appended. On a file system that is mounted read-only, it says why the first update is refused.

use std::error::Error;

use tantalum_couch::{Batch, Folder, Options, Store};

const DOCUMENTS: u32 = 2000;
const AT_ONCE: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, round] = &arguments[..] else { return Err("usage: updates FOLDER ROUND".into()) };
    let round: u32 = round.parse()?;
    let store = Store::open(Folder::new(folder)?, "updates.couch", Options::default())?;
    let key = |number: u32| format!("document {number:08}").into_bytes();
    let value = |round: u32, number: u32| [round, number].map(u32::to_le_bytes).concat().repeat(500);
    if let Some(before) = round.checked_sub(1) {
        for (number, document) in (0..DOCUMENTS).zip(store.snapshot().iter()?) {
            let document = document?;
            if document.key() != key(number) || document.value() != value(before, number) {
                return Err(format!("{document:?} is not what round {before} left").into());
            }
        }
    }
    for first in (0..DOCUMENTS).step_by(AT_ONCE as usize) {
        let mut batch = Batch::new();
        for number in first..first + AT_ONCE {
            batch.put(&key(number), &value(round, number))?;
        }
        match store.commit(&batch) {
            Err(refused @ tantalum_couch::Error::ReadOnly { .. }) => {
                println!("{} documents; {refused}", store.statistics().documents);
                return Ok(());
            }
            committed => committed?,
        };
    }
    let changed = store.snapshot().changes(0)?.count() as u64;
    let statistics = store.statistics();
    println!(
        "{} documents, {changed} changed, {} shared, {} appended",
        statistics.documents, statistics.documents_shared, statistics.documents_appended
    );
    Ok(())
}
