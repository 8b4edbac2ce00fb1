//! A folder of several blocks: its names are changed, and power is cut at every flash operation meanwhile. One of the
//! states since the folder was last synced must be left.

use crate::common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use common::{KINDS, NOW, ROOT, SMALL_CACHE, crash, device, new, sound};
use tantalum::PowerLoss;
use tantalum_drive::Drive;
use tantalum_filesystem::{
    Attributes, Content, FileId, FileKind, FileSystem, FolderEntry, MetadataChange, Names, NewFile, Outcome,
    RenameMode, Timestamp,
};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

/// With names of 200 bytes, a unit holds less than 20.
const FILES: u32 = 60;

type State = BTreeMap<Vec<u8>, FileId>;

fn name(number: u32) -> Vec<u8> {
    format!("{number:0200}").into_bytes()
}

fn read(fs: &mut LogFs, folder: FileId) -> State {
    let mut state = State::new();
    let mut take = |entry: FolderEntry<'_>| {
        state.insert(entry.name.to_vec(), entry.file);
        ControlFlow::Continue(())
    };
    fs.read_folder(folder, 0, &mut take).unwrap();
    state
}

/// One change, from one block to another.
fn change(fs: &mut LogFs, folder: FileId, round: u32, state: &mut State) -> Outcome<()> {
    let (from, to) = (name(round), name(FILES - 1 - round));
    match round % 4 {
        0 => {
            fs.rename_in(folder, &from, folder, &to, RenameMode::Replace, NOW)?;
            let file = state.remove(&from).expect("the name is there");
            state.insert(to, file);
        }
        1 => {
            fs.rename_in(folder, &from, folder, &to, RenameMode::Exchange, NOW)?;
            let (one, other) = (state[&from], state[&to]);
            state.extend([(from, other), (to, one)]);
        }
        2 => {
            fs.unlink(folder, &from, NOW)?;
            state.remove(&from);
        }
        _ => {
            fs.link(state[&to], folder, &name(FILES + round), NOW)?;
            state.insert(name(FILES + round), state[&to]);
        }
    }
    Ok(())
}

/// Changes and syncs until power fails; returns the states that may be left, or `None` if it did not fail.
fn work(fs: &mut LogFs, drive: &Drive, folder: FileId, operations: u64) -> Option<Vec<State>> {
    let mut states = vec![read(fs, folder)];
    drive.lock().cut_after(Some(operations));
    for round in 0..16 {
        let mut state = states.last().expect("there is one").clone();
        let is_done = change(fs, folder, round, &mut state);
        states.push(state);
        if is_done.is_err() {
            return Some(states);
        }
        if round % 3 == 2 {
            if fs.sync_folder(folder).is_err() {
                return Some(states);
            }
            states.drain(..states.len() - 1);
        }
    }
    (!drive.lock().has_power()).then_some(states)
}

fn every_cut(kind: LfsKind, cleaning: Cleaning, indexing: Indexing) -> u64 {
    for operations in 1.. {
        let drive = Drive::new(device(16));
        let made = LogFs::format_indexed(drive.client(), kind, cleaning, indexing, SMALL_CACHE);
        let mut fs = made.unwrap();
        let folder = fs.create_in(ROOT, b"folder", &new(FileKind::Folder)).unwrap();
        for number in 0..FILES {
            fs.create_in(folder, &name(number), &new(FileKind::File)).unwrap();
        }
        fs.sync_folder(folder).unwrap();
        let Some(states) = work(&mut fs, &drive, folder, operations) else { return operations - 1 };
        drop(fs);
        for seed in 0..4 {
            let drive = drive.try_clone().expect("a drive in memory can be copied");
            drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            let mut fs = LogFs::mount(drive.client(), SMALL_CACHE).unwrap();
            let left = read(&mut fs, folder);
            assert!(states.contains(&left), "{kind:?}: cut {operations} leaves {} names", left.len());
            sound(&mut fs);
        }
    }
    unreachable!("the work ends")
}

#[test]
fn every_cut_of_changes_to_several_blocks_leaves_one_state() {
    for kind in KINDS {
        for (cleaning, indexing) in
            [(Cleaning::Copy, Indexing::Conventional), (Cleaning::Remap, Indexing::Nvm)]
        {
            let cuts = every_cut(kind, cleaning, indexing);
            assert!(cuts > 10, "only {cuts} cuts happened");
        }
    }
}

/// Creates files and symbolic links, occasionally removes a name, and syncs the folder after every second change, until power
/// fails; returns the states that may be left, or `None` if it did not fail.
fn create_and_sync(fs: &mut LogFs, drive: &Drive, folder: FileId, operations: u64) -> Option<Vec<State>> {
    let mut states = vec![read(fs, folder)];
    drive.lock().cut_after(Some(operations));
    for round in 0..24u32 {
        let mut state = states.last().expect("there is one").clone();
        let name = name(round);
        let change = match round % 8 {
            5 => fs.create_symbolic_link(folder, &name, b"target", &new(FileKind::File)).map(Some),
            6 => fs.unlink(folder, &self::name(round - 3), NOW).map(|()| None),
            _ => fs.create_in(folder, &name, &new(FileKind::File)).map(Some),
        };
        match change {
            Ok(Some(file)) => _ = state.insert(name, file),
            Ok(None) => _ = state.remove(&self::name(round - 3)),
            Err(_) => return Some(states),
        }
        states.push(state);
        if round % 2 == 1 {
            if fs.sync_folder(folder).is_err() {
                return Some(states);
            }
            states.drain(..states.len() - 1);
        }
    }
    (!drive.lock().has_power()).then_some(states)
}

#[test]
fn every_cut_of_syncs_of_new_names_leaves_one_state() {
    for kind in KINDS {
        for operations in 1.. {
            let drive = Drive::new(device(16));
            let mut fs = LogFs::format(drive.client(), kind, Cleaning::Copy, SMALL_CACHE).unwrap();
            let folder = fs.create_in(ROOT, b"folder", &new(FileKind::Folder)).unwrap();
            fs.sync_folder(folder).unwrap();
            let Some(states) = create_and_sync(&mut fs, &drive, folder, operations) else {
                assert!(operations > 20, "only {operations} cuts happened");
                break;
            };
            drop(fs);
            for seed in 0..4 {
                let drive = drive.try_clone().expect("a drive in memory can be copied");
                drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
                let mut fs = LogFs::mount(drive.client(), SMALL_CACHE).unwrap();
                let left = read(&mut fs, folder);
                assert!(states.contains(&left), "{kind:?}: cut {operations} leaves {} names", left.len());
                for (name, file) in left {
                    if fs.metadata(file).unwrap().kind == FileKind::SymbolicLink {
                        assert_eq!(fs.read_symbolic_link(file).unwrap(), b"target", "{name:?}");
                    }
                }
                sound(&mut fs);
            }
        }
    }
}

/// Units sent to the drive, and checkpoints, for a change and a sync of its folder.
fn cost(fs: &mut LogFs, drive: &Drive, change: impl FnOnce(&mut LogFs)) -> (u64, u64) {
    let now = |fs: &LogFs| (drive.lock().smart().counters.host_units_written, fs.syncs().checkpoints);
    let before = now(fs);
    change(fs);
    fs.sync_folder(ROOT).unwrap();
    let after = now(fs);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_sync_of_new_names_writes_their_inodes_and_other_changes_a_checkpoint() {
    for (kind, units) in KINDS.into_iter().zip([1, 2]) {
        let drive = Drive::new(device(16));
        let mut fs = LogFs::format(drive.client(), kind, Cleaning::Copy, SMALL_CACHE).unwrap();
        fs.create_in(ROOT, b"old", &new(FileKind::File)).unwrap();
        fs.sync_folder(ROOT).unwrap();
        fs.write_back().unwrap();
        let later = Timestamp { seconds: 77, nanoseconds: 0 };
        let file = NewFile { now: later, ..new(FileKind::File) };
        let create = |name: &'static [u8]| move |fs: &mut LogFs| _ = fs.create_in(ROOT, name, &file).unwrap();
        assert_eq!(cost(&mut fs, &drive, create(b"one")), (units, 0), "{kind:?}");
        assert_eq!(cost(&mut fs, &drive, create(b"two")), (units, 0), "{kind:?}");
        let synced = cost(&mut fs, &drive, |fs| {
            let file = fs.create_in(ROOT, b"three", &file).unwrap();
            fs.sync(file).unwrap();
        });
        assert_eq!(synced, (units, 0), "{kind:?}: the file's own sync made the name durable");
        let mut fs = crash(fs, SMALL_CACHE);
        let names: Vec<Vec<u8>> = read(&mut fs, ROOT).into_keys().collect();
        assert_eq!(names, [&b"old"[..], b"one", b"three", b"two"]);
        assert_eq!(fs.metadata(ROOT).unwrap().modified, later, "the folder has the time of its new names");
        let changes: [fn(&mut LogFs); 5] = [
            |fs| fs.unlink(ROOT, b"one", NOW).unwrap(),
            |fs| fs.rename_in(ROOT, b"two", ROOT, b"2", RenameMode::Replace, NOW).unwrap(),
            |fs| _ = fs.create_in(ROOT, b"folder", &new(FileKind::Folder)).unwrap(),
            |fs| {
                fs.create_in(ROOT, b"four", &new(FileKind::File)).unwrap();
                let change = MetadataChange { permissions: Some(0o700), ..MetadataChange::default() };
                fs.change_metadata(ROOT, &change).unwrap();
            },
            |fs| {
                fs.create_in(ROOT, b"five", &new(FileKind::File)).unwrap();
                let change = MetadataChange { modified: Some(NOW), ..MetadataChange::default() };
                fs.change_metadata(ROOT, &change).unwrap();
            },
        ];
        for change in changes {
            assert_eq!(cost(&mut fs, &drive, change).1, 1, "{kind:?}");
        }
    }
}
