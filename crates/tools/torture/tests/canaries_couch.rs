//! Guards of the document store, taken out one by one: each must be caught. Prints guard, seeds needed and the promise
//! that was broken. Guards are taken out for one thread, so tests do not meet.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries_couch -- --nocapture`

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use tantalum_canaries::{Guard, take_out};
use tantalum_couch::{Options, ShareRange, Shared, Storage, StorageFile, Store, Way, canaries};
use tantalum_report::Monitor;
use tantalum_torture::Cuts;
use tantalum_torture::couch::{Settings, run};

/// Seeds within which the torture test catches a missing guard.
const MOST_SEEDS: u64 = 20;

/// Tortures a way until a promise is broken.
fn catch(guard: &'static Guard, way: Way) {
    for seed in 0..MOST_SEEDS {
        let settings = Settings {
            ways: vec![way],
            seeds: (seed..seed + 1).into(),
            cuts: Cuts::Random(40),
            commits: 60,
            threads: 1,
            host_faults: false,
        };
        let out = take_out(guard);
        let outcome = run(&settings, &Monitor::silent());
        drop(out);
        if let Some(violation) = outcome.unwrap().violations.first() {
            println!("{guard:?}: {} seeds, {}", seed + 1, violation.promise);
            let outcome = run(&settings, &Monitor::silent()).unwrap();
            assert_eq!(outcome.violations, [], "{guard:?} is back, and seed {seed} still fails");
            return;
        }
    }
    panic!("{guard:?} was taken out, and {MOST_SEEDS} seeds did not notice");
}

#[test]
fn a_header_without_what_it_covers_is_caught() {
    catch(&canaries::HeaderAlone, Way::Original);
}

#[test]
fn a_batch_that_is_shared_in_parts_is_caught() {
    catch(&canaries::SharedInParts, Way::Share);
}

#[test]
fn a_staging_area_that_starts_anew_too_early_is_caught() {
    catch(&canaries::StageReused, Way::Share);
}

#[test]
fn a_document_shared_over_what_a_snapshot_sees_is_caught() {
    catch(&canaries::SharedOverSnapshot, Way::Share);
}

#[test]
fn a_compacted_file_that_is_not_durable_when_it_takes_the_name_is_caught() {
    catch(&canaries::CompactedNotSynced, Way::Original);
}

/// A file system that promises only what POSIX does: a file's content is durable with its own sync, names with theirs.
/// (On a volume a sync of a file makes names durable as well, so the torture test cannot notice.)
#[derive(Clone, Default)]
struct StrictFolder(Arc<Mutex<Names>>);

#[derive(Default)]
struct Names {
    now: BTreeMap<String, StrictFile>,
    durable: BTreeMap<String, StrictFile>,
}

#[derive(Clone, Default)]
struct StrictFile(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
}

impl StrictFolder {
    /// Anything not durable is lost.
    fn crash(&self) {
        let mut names = self.0.lock().unwrap();
        names.now = names.durable.clone();
        for file in names.now.values() {
            let mut content = file.0.lock().unwrap();
            content.now = content.durable.clone();
        }
    }
}

impl Storage for StrictFolder {
    type File = StrictFile;
    type Lock = ();

    fn lock(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, name: &str) -> io::Result<Option<StrictFile>> {
        Ok(self.0.lock().unwrap().now.get(name).cloned())
    }

    fn create(&self, name: &str) -> io::Result<StrictFile> {
        let file = StrictFile::default();
        self.0.lock().unwrap().now.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.lock().unwrap().now.remove(name);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.0.lock().unwrap();
        let file = names.now.remove(from).ok_or(io::ErrorKind::NotFound)?;
        names.now.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut names = self.0.lock().unwrap();
        names.durable = names.now.clone();
        Ok(())
    }
}

impl StorageFile for StrictFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        let bytes = content.now.len().max(size as usize);
        content.now.resize(bytes, 0);
        Ok(())
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        data.copy_from_slice(&self.0.lock().unwrap().now[offset as usize..][..data.len()]);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap().now[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = self.0.lock().unwrap();
        content.durable = content.now.clone();
        Ok(())
    }

    fn share_units(&self) -> u32 {
        0
    }

    fn share(&self, _: &[ShareRange]) -> io::Result<Shared> {
        Ok(Shared::Refused)
    }

    fn copy_from(&self, _: &StrictFile, _: u64, _: u64, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What a document holds after a compaction, an acknowledged update, and a crash.
fn document_after_compaction_and_crash() -> Option<Vec<u8>> {
    let folder = StrictFolder::default();
    let open = || Store::open(folder.clone(), "app.couch", Options::default()).ok();
    let store = open()?;
    store.put(b"key", b"before").unwrap();
    store.compact().unwrap();
    store.put(b"key", b"after").unwrap();
    folder.crash();
    Some(open()?.get(b"key").unwrap()?.into_value())
}

#[test]
fn commits_to_a_compacted_file_without_a_durable_name_are_caught() {
    assert_eq!(document_after_compaction_and_crash().as_deref(), Some(&b"after"[..]), "with the guard");
    let out = take_out(&canaries::SwitchNotDurable);
    let found = document_after_compaction_and_crash();
    drop(out);
    assert_eq!(found.as_deref(), Some(&b"before"[..]), "SwitchNotDurable was not noticed");
    println!("{:?}: 1 case, acknowledged means there", &canaries::SwitchNotDurable);
}
