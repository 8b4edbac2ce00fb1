//! What a program has done to a tree of files, and what may be left of it after a crash.
//!
//! Files are known by their numbers, which the volume keeps through mounts.

use std::collections::BTreeMap;

use super::model::ModelFile;
use tantalum_volume::{FileId, FileKind, RenameMode};

/// A name: the folder's number, and the name in it.
pub type Place = (u32, String);

/// All names, and what they stand for.
pub type Names = BTreeMap<Place, u32>;

/// The number of the root folder.
pub const ROOT: u32 = 1;

#[derive(Clone, Debug)]
pub struct TreeModel {
    pub names: Names,
    /// All that the names were since they were last made durable, and then, in order.
    pub names_since: Vec<Names>,
    pub kinds: BTreeMap<u32, FileKind>,
    pub targets: BTreeMap<u32, Vec<u8>>,
    /// Contents of regular files, with those that are only open.
    pub files: BTreeMap<u32, ModelFile>,
    pub opens: BTreeMap<u32, u32>,
    pub last_number: u32,
}

impl TreeModel {
    pub fn new() -> TreeModel {
        TreeModel {
            names: Names::new(),
            names_since: vec![Names::new()],
            kinds: [(ROOT, FileKind::Folder)].into(),
            targets: BTreeMap::new(),
            files: BTreeMap::new(),
            opens: BTreeMap::new(),
            last_number: ROOT,
        }
    }

    pub fn is_folder(&self, number: u32) -> bool {
        self.kinds.get(&number) == Some(&FileKind::Folder)
    }

    pub fn file(&mut self, number: u32) -> &mut ModelFile {
        self.files.get_mut(&number).expect("a file of the model")
    }

    /// Number of names of the file; of a folder, 2 plus its subfolders.
    pub fn links(&self, number: u32) -> u32 {
        if self.is_folder(number) {
            let inside =
                self.names.iter().filter(|((folder, _), file)| *folder == number && self.is_folder(**file));
            return 2 + inside.count() as u32;
        }
        self.names.values().filter(|file| **file == number).count() as u32
    }

    pub fn is_empty(&self, folder: u32) -> bool {
        !self.names.keys().any(|(in_folder, _)| *in_folder == folder)
    }

    pub fn create(&mut self, place: &Place, kind: FileKind, target: &[u8]) {
        self.last_number += 1;
        let number = self.last_number;
        self.targets.remove(&number);
        self.files.remove(&number);
        self.kinds.insert(number, kind);
        match kind {
            FileKind::File => drop(self.files.insert(number, ModelFile::default())),
            FileKind::SymbolicLink => drop(self.targets.insert(number, target.to_vec())),
            _ => {}
        }
        self.link(place, number);
    }

    pub fn link(&mut self, place: &Place, number: u32) {
        self.names.insert(place.clone(), number);
        self.names_changed();
    }

    pub fn unlink(&mut self, place: &Place) {
        self.names.remove(place).expect("the name is there");
        self.names_changed();
    }

    /// Whether a rename is done and changes something; an error if it is to be refused.
    pub fn may_rename(&self, from: &Place, to: &Place, mode: RenameMode) -> Result<bool, ()> {
        let file = self.names[from];
        let there = self.names.get(to).copied();
        let is_inside = |file: u32, folder: u32| self.is_folder(file) && self.is_within(folder, file);
        if is_inside(file, to.0) {
            return Err(());
        }
        match (there, mode) {
            (None, RenameMode::Exchange) | (Some(_), RenameMode::NoReplace) => Err(()),
            (Some(other), _) if other == file => Ok(false),
            (Some(other), RenameMode::Exchange) if is_inside(other, from.0) => Err(()),
            (Some(other), RenameMode::Replace) => {
                let kinds_fit = self.is_folder(file) == self.is_folder(other);
                if kinds_fit && (!self.is_folder(other) || self.is_empty(other)) { Ok(true) } else { Err(()) }
            }
            _ => Ok(true),
        }
    }

    fn is_within(&self, mut folder: u32, of: u32) -> bool {
        loop {
            if folder == of {
                return true;
            }
            let Some(((parent, _), _)) = self.names.iter().find(|(_, file)| **file == folder) else {
                return false;
            };
            folder = *parent;
        }
    }

    pub fn rename(&mut self, from: &Place, to: &Place, mode: RenameMode) {
        let file = self.names.remove(from).expect("the name is there");
        let replaced = self.names.insert(to.clone(), file);
        if let (RenameMode::Exchange, Some(other)) = (mode, replaced) {
            self.names.insert(from.clone(), other);
        }
        self.names_changed();
    }

    fn names_changed(&mut self) {
        self.names_since.push(self.names.clone());
    }

    pub fn names_are_durable(&mut self) {
        self.names_since = vec![self.names.clone()];
        self.forget_files();
    }

    /// Forgets files that neither have a name, now or after a crash, nor are open.
    fn forget_files(&mut self) {
        let known = |number: &u32| {
            *number == ROOT
                || self.opens.contains_key(number)
                || self.names_since.iter().any(|names| names.values().any(|file| file == number))
        };
        self.files.retain(|number, _| known(number));
        self.kinds.retain(|number, _| known(number));
    }

    /// The file is durable under all names that it has; with a folder, all names are.
    pub fn synced(&mut self, number: u32) {
        if self.is_folder(number) {
            return self.names_are_durable();
        }
        if let Some(file) = self.files.get_mut(&number) {
            file.synced();
        }
        let of_file = |names: &Names| -> Vec<Place> {
            names.iter().filter(|(_, file)| **file == number).map(|(place, _)| place.clone()).collect()
        };
        let now = of_file(&self.names);
        if now.is_empty() {
            while !of_file(&self.names_since[0]).is_empty() {
                self.names_since.remove(0);
            }
        } else {
            while !now.iter().all(|place| self.names_since[0].get(place) == Some(&number)) {
                self.names_since.remove(0);
            }
        }
    }

    pub fn all_synced(&mut self) {
        self.files.values_mut().for_each(ModelFile::synced);
        self.names_are_durable();
    }

    /// The host has crashed: nothing is open, and numbers are counted from those that are there.
    pub fn start_again(&mut self) {
        self.opens.clear();
        self.all_synced();
        self.last_number = self.names.values().copied().max().unwrap_or(ROOT).max(ROOT);
    }
}

/// What is found on a volume.
#[derive(Default)]
pub struct Seen {
    pub names: Names,
    pub contents: BTreeMap<u32, Vec<u8>>,
}

/// Whether a crash may leave this if it came between `before` and `after`.
pub fn is_allowed(before: &TreeModel, after: &TreeModel, seen: &Seen) -> Result<(), String> {
    let names_are = |names: &&Names| **names == seen.names;
    if !before.names_since.iter().chain(&after.names_since).any(|names| names_are(&names)) {
        return Err(format!("names that never were: {:?}, last {:?}", seen.names, after.names));
    }
    for (number, data) in &seen.contents {
        let may_be = |model: &TreeModel| model.files.get(number).is_some_and(|file| file.allows(data, 0));
        if !may_be(before) && !may_be(after) {
            let durable = |model: &TreeModel| model.files.get(number).map(|file| file.durable.data.clone());
            let (before, after) = (durable(before), durable(after));
            let difference =
                after.iter().flat_map(|durable| durable.iter().zip(data).position(|(a, b)| a != b)).next();
            let sizes = (before.map(|data| data.len()), after.map(|data| data.len()));
            return Err(format!(
                "content of file {number} that never was: {} bytes, durable {sizes:?}, differs at {difference:?}",
                data.len()
            ));
        }
    }
    Ok(())
}

/// The id of a file of the model.
pub fn id(number: u32) -> FileId {
    FileId(number)
}
