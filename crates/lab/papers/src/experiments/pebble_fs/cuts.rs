//! After each run power fails at a random flash operation while more is written and synced: everything durable must be
//! there, and every write synced since, and the file system's check must find nothing.
//!
//! Each unit written here carries a unique number, so that an older state can be distinguished from the right one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::{AddAssign, ControlFlow};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{PowerLoss, UNIT_BYTES};
use tantalum_filesystem::{Attributes, Content, FileId, FileKind, FileSystem, Names};
use tantalum_lfs::LogFs;
use tantalum_report::{Figures, Row};
use tantalum_workloads::WorkloadError;

use super::{CACHE_BYTES, Run};
use crate::error::ExperimentError;

/// Cuts after each run.
const CUTS: u64 = 2;

/// Flash operations within which power fails.
const WITHIN: u64 = 200;

/// Writes after which power fails in any case, if none of them met the cut.
const MOST_WRITES: u64 = 400;

/// Units that are read at once.
const UNITS_AT_ONCE: usize = 256;

/// The results of cuts.
#[derive(Clone, Copy, Default)]
pub struct Survived {
    cuts: u64,
    synced: u64,
    listed: u64,
    units: u64,
}

impl AddAssign for Survived {
    fn add_assign(&mut self, other: Survived) {
        self.cuts += other.cuts;
        self.synced += other.synced;
        self.listed += other.listed;
        self.units += other.units;
    }
}

/// The table of these results.
pub fn table(rows: impl IntoIterator<Item = (String, Survived)>) -> Figures {
    let columns = ["cuts", "synced writes there", "synced by contents alone", "units compared"];
    let row = |(name, survived): (String, Survived)| Row {
        name,
        ours: [survived.cuts, survived.synced, survived.listed, survived.units].map(|n| n as f64).into(),
        paper: None,
    };
    Figures {
        title: "after power cuts, checked".to_owned(),
        unit: "count",
        columns: columns.map(str::to_owned).into(),
        rows: rows.into_iter().map(row).collect(),
    }
}

/// A file or folder: a hash of each unit of its contents.
struct Stored {
    path: String,
    bytes: u64,
    units: Vec<u64>,
}

type Tree = BTreeMap<FileId, Stored>;

/// A write of a unit that was not acknowledged.
struct Write {
    file: FileId,
    unit: usize,
    hash: u64,
}

/// Cuts power, recovers and compares, several times. Everything must be durable.
pub fn survive(run: &Run<'_>, mut fs: LogFs) -> Result<Survived, ExperimentError> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
    let mut expected = tree(&mut fs)?;
    let mut survived = Survived::default();
    for _ in 0..CUTS {
        run.monitor.check()?;
        let listed = fs.syncs().listed;
        fs.client().device().cut_after(Some(random.random_range(1..=WITHIN)));
        let (synced, unsure) = write_until_cut(&mut fs, &mut expected, &mut random)?;
        survived += Survived { cuts: 1, synced, listed: fs.syncs().listed - listed, units: 0 };
        fs = recover(fs, random.random())?;
        let findings = fs.check()?;
        if let Some(finding) = findings.first() {
            return Err(ExperimentError::WrongFiles { what: finding.to_string() });
        }
        let found = tree(&mut fs)?;
        if let Some(Write { file, unit, hash }) = unsure
            && let (Some(found), Some(expected)) = (found.get(&file), expected.get_mut(&file))
            && found.units.get(unit) == Some(&hash)
        {
            expected.units[unit] = hash; // it was not acknowledged, but may be there
        }
        compare(&expected, &found)?;
        survived.units += found.values().map(|stored| stored.units.len() as u64).sum::<u64>();
    }
    Ok(survived)
}

/// Overwrites random units, each with a sync, until power fails. Returns how many were synced, and the one that was
/// not.
fn write_until_cut(
    fs: &mut LogFs,
    expected: &mut Tree,
    random: &mut Xoshiro256PlusPlus,
) -> Result<(u64, Option<Write>), ExperimentError> {
    let whole = |stored: &Stored| stored.bytes / UNIT_BYTES as u64;
    let files: Vec<FileId> = expected.iter().filter(|(_, it)| whole(it) > 0).map(|(id, _)| *id).collect();
    for synced in 0..MOST_WRITES {
        let file = files[random.random_range(0..files.len())];
        let stored = expected.get_mut(&file).expect("it was found");
        let unit = random.random_range(0..whole(stored)) as usize;
        let mut data = [0xc3; UNIT_BYTES];
        data[..8].copy_from_slice(&random.random::<u64>().to_le_bytes());
        let hash = hash_of(&data);
        let written = fs.write(file, (unit * UNIT_BYTES) as u64, &data).and_then(|()| fs.sync_data(file));
        match written {
            Ok(()) => stored.units[unit] = hash,
            Err(_) if !fs.client().device().has_power() => {
                return Ok((synced, Some(Write { file, unit, hash })));
            }
            Err(errno) => return Err(WorkloadError::from(errno).into()),
        }
    }
    Ok((MOST_WRITES, None))
}

/// Cuts power now, unless it is already off, restores it, and mounts the file system.
fn recover(fs: LogFs, seed: u64) -> Result<LogFs, ExperimentError> {
    let client = fs.into_client_without_sync();
    let now_ns = client.now_ns();
    let mut device = client.device();
    device.cut_power(now_ns);
    device.power_on(&mut PowerLoss::seeded(seed))?;
    device.cut_after(None);
    drop(device);
    Ok(LogFs::mount(client.drive().client(), CACHE_BYTES)?)
}

/// Everything that has a name.
fn tree(fs: &mut LogFs) -> Result<Tree, WorkloadError> {
    let mut tree = Tree::new();
    let mut folders = vec![(FileId::ROOT, String::new())];
    while let Some((folder, path)) = folders.pop() {
        let mut entries = Vec::new();
        fs.read_folder(folder, 0, &mut |entry| {
            let path = format!("{path}/{}", String::from_utf8_lossy(entry.name));
            entries.push((entry.file, entry.kind, path));
            ControlFlow::Continue(())
        })?;
        for (file, kind, path) in entries {
            let stored = if kind == FileKind::Folder {
                folders.push((file, path.clone()));
                Stored { path, bytes: 0, units: Vec::new() }
            } else {
                stored(fs, file, path)?
            };
            tree.insert(file, stored);
        }
    }
    Ok(tree)
}

fn stored(fs: &mut LogFs, file: FileId, path: String) -> Result<Stored, WorkloadError> {
    let bytes = fs.metadata(file)?.size;
    let mut units = Vec::new();
    let mut data = vec![0; UNITS_AT_ONCE * UNIT_BYTES];
    for offset in (0..bytes).step_by(data.len()) {
        let read = fs.read(file, offset, &mut data, None)?;
        units.extend(data[..read].chunks(UNIT_BYTES).map(hash_of));
    }
    Ok(Stored { path, bytes, units })
}

fn hash_of(data: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(data);
    hasher.finish()
}

fn compare(expected: &Tree, found: &Tree) -> Result<(), ExperimentError> {
    let wrong = |what: String| Err(ExperimentError::WrongFiles { what });
    for (id, stored) in expected {
        let Some(found) = found.get(id) else { return wrong(format!("{} is lost", stored.path)) };
        if (&found.path, found.bytes) != (&stored.path, stored.bytes) {
            return wrong(format!(
                "{} of {} bytes is {} of {} bytes",
                stored.path, stored.bytes, found.path, found.bytes
            ));
        }
        if let Some(unit) = (0..stored.units.len()).find(|unit| found.units[*unit] != stored.units[*unit]) {
            return wrong(format!("{}: unit {unit} holds other contents than were synced", stored.path));
        }
    }
    match found.iter().find(|(id, _)| !expected.contains_key(id)) {
        Some((_, found)) => wrong(format!("{} was deleted and is there again", found.path)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(u32, &str, u64, &[u64])]) -> Tree {
        let stored = |&(id, path, bytes, units): &(u32, &str, u64, &[u64])| {
            (FileId(id), Stored { path: path.to_owned(), bytes, units: units.into() })
        };
        files.iter().map(stored).collect()
    }

    #[test]
    fn whatever_differs_is_told() {
        let expected = tree(&[(2, "/a", 8192, &[1, 2]), (3, "/b", 4096, &[3])]);
        let wrong =
            |found: &[(u32, &str, u64, &[u64])]| compare(&expected, &tree(found)).unwrap_err().to_string();
        let b = (3, "/b", 4096, &[3][..]);
        assert!(compare(&expected, &tree(&[(2, "/a", 8192, &[1, 2]), b])).is_ok());
        assert!(wrong(&[b]).contains("/a is lost"));
        assert!(wrong(&[(2, "/c", 8192, &[1, 2]), b]).contains("/a of 8192 bytes is /c"));
        assert!(wrong(&[(2, "/a", 4096, &[1]), b]).contains("is /a of 4096 bytes"));
        assert!(wrong(&[(2, "/a", 8192, &[1, 9]), b]).contains("/a: unit 1"));
        assert!(wrong(&[(2, "/a", 8192, &[1, 2]), b, (4, "/d", 0, &[])]).contains("/d was deleted"));
    }
}
