//! A folder of several blocks: its names are changed, and power is cut at every flash operation meanwhile. What is left
//! is one of the states since the folder was last synced, and no other.

mod common;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use common::{KINDS, NOW, ROOT, SMALL_CACHE, device, new, sound};
use tantalum::PowerLoss;
use tantalum_drive::Drive;
use tantalum_filesystem::{FileId, FileKind, FolderEntry, Names, Outcome, RenameMode};
use tantalum_lfs::{Cleaning, Indexing, Kind, LogFs};

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

/// Changes and syncs until power goes: the states that may be left. None if it did not go.
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

fn every_cut(kind: Kind, cleaning: Cleaning, indexing: Indexing) -> u64 {
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
