//! What a program has done to a file system, and what may be left after a crash.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_filesystem::{FileId, FileKind, RenameMode};

pub const UNIT: usize = 4096;

/// A name: the folder, and the name in it.
pub type Place = (FileId, String);

/// All names, and the files that they stand for, by the model's own numbers, which are never reused.
pub type Names = BTreeMap<Place, u32>;

#[derive(Clone, Debug)]
pub struct ModelFile {
    pub id: FileId,
    pub kind: FileKind,
    pub target: Vec<u8>,
    pub data: Vec<u8>,
    pub opens: u32,
    /// All that the extended attribute was since the file was last made durable, and then.
    attributes: Vec<Option<Vec<u8>>>,
    /// What it was when it was last made durable.
    pub durable: Vec<u8>,
    /// Since then, all that any unit was.
    later: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Since then, all sizes.
    sizes: BTreeSet<usize>,
    /// A crash may leave a growing file at any whole unit in between.
    grows_by_units: bool,
}

impl ModelFile {
    fn new(id: FileId, kind: FileKind, grows_by_units: bool) -> ModelFile {
        ModelFile {
            id,
            kind,
            target: Vec::new(),
            data: Vec::new(),
            opens: 0,
            attributes: vec![None],
            durable: Vec::new(),
            later: BTreeMap::new(),
            sizes: BTreeSet::new(),
            grows_by_units,
        }
    }

    fn note(&mut self, range: std::ops::Range<usize>) {
        self.sizes.insert(self.data.len());
        for unit in range.start / UNIT..range.end.div_ceil(UNIT) {
            let end = self.data.len().min((unit + 1) * UNIT);
            let page = self.data[end.min(unit * UNIT)..end].to_vec();
            self.later.entry(unit).or_default().push(page);
        }
    }

    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let (old_end, end) = (self.data.len(), offset + data.len());
        if end > old_end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(data);
        self.note(offset.min(old_end)..end);
    }

    pub fn set_size(&mut self, size: usize) {
        let old_end = self.data.len();
        self.note(size.min(old_end)..size.max(old_end).next_multiple_of(UNIT));
        self.data.resize(size, 0);
        self.note(size.min(old_end)..size.max(old_end).next_multiple_of(UNIT));
    }

    /// The extended attribute; `None` if there is none.
    pub fn attribute(&self) -> Option<&Vec<u8>> {
        self.attributes.last().expect("there is one state at least").as_ref()
    }

    pub fn set_attribute(&mut self, value: Option<Vec<u8>>) {
        self.attributes.push(value);
    }

    /// Whether a crash may leave this attribute.
    pub fn may_have(&self, attribute: &Option<Vec<u8>>) -> bool {
        self.attributes.contains(attribute)
    }

    pub fn synced(&mut self) {
        self.attributes.drain(..self.attributes.len() - 1);
        self.durable = self.data.clone();
        self.later.clear();
        self.sizes.clear();
    }

    /// Why a crash cannot leave this content, if it cannot.
    pub fn forbids(&self, seen: &[u8]) -> Option<String> {
        let smallest = self.sizes.first().copied().unwrap_or_default().min(self.durable.len());
        let largest = self.sizes.last().copied().unwrap_or_default();
        let is_between = self.grows_by_units
            && seen.len().is_multiple_of(UNIT)
            && (smallest..largest).contains(&seen.len());
        if seen.len() != self.durable.len() && !self.sizes.contains(&seen.len()) && !is_between {
            return Some(format!("{} bytes, durable were {}", seen.len(), self.durable.len()));
        }
        let none = Vec::new();
        for (at, byte) in seen.iter().enumerate() {
            let pages = self.later.get(&(at / UNIT)).unwrap_or(&none);
            let durable = self.durable.get(at).copied();
            let is_durable = durable == Some(*byte) || durable.is_none() && *byte == 0;
            let is_later = || {
                *byte == 0 && !pages.is_empty() || pages.iter().any(|page| page.get(at % UNIT) == Some(byte))
            };
            if !is_durable && !is_later() {
                return Some(format!("byte {at} of {} is {byte}, durable was {durable:?}", seen.len()));
            }
        }
        None
    }
}

/// What a sync of a file that no checkpoint had made durable.
#[derive(Clone, Debug)]
struct SyncedNew {
    place: Place,
    file: u32,
    /// How many states of names there were when it was created.
    created: usize,
    /// The sync returned.
    is_certain: bool,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub files: BTreeMap<u32, ModelFile>,
    pub names: Names,
    /// All that the names were since they were last certainly durable, and then, in order.
    history: Vec<Names>,
    created: BTreeMap<u32, (Place, usize)>,
    synced: Vec<SyncedNew>,
    pub last: u32,
    grows_by_units: bool,
}

/// The root folder's number.
pub const ROOT_FILE: u32 = 0;

impl Model {
    pub fn new(grows_by_units: bool) -> Model {
        let root = ModelFile::new(FileId::ROOT, FileKind::Folder, grows_by_units);
        Model {
            files: [(ROOT_FILE, root)].into(),
            names: Names::new(),
            history: vec![Names::new()],
            created: BTreeMap::new(),
            synced: Vec::new(),
            last: ROOT_FILE,
            grows_by_units,
        }
    }

    pub fn file(&mut self, number: u32) -> &mut ModelFile {
        self.files.get_mut(&number).expect("a file of the model")
    }

    pub fn id(&self, number: u32) -> FileId {
        self.files[&number].id
    }

    pub fn is_folder(&self, number: u32) -> bool {
        self.files[&number].kind == FileKind::Folder
    }

    /// Folders that have a name, and the root.
    pub fn folders(&self) -> Vec<u32> {
        let named = self.names.values().copied().filter(|number| self.is_folder(*number));
        std::iter::once(ROOT_FILE).chain(named).collect()
    }

    pub fn links(&self, number: u32) -> u32 {
        if self.is_folder(number) {
            let id = self.id(number);
            let inside = |(place, file): &(&Place, &u32)| place.0 == id && self.is_folder(**file);
            return 2 + self.names.iter().filter(inside).count() as u32;
        }
        self.names.values().filter(|file| **file == number).count() as u32
    }

    pub fn is_empty(&self, number: u32) -> bool {
        !self.names.keys().any(|place| place.0 == self.id(number))
    }

    fn changed(&mut self) {
        self.history.push(self.names.clone());
    }

    pub fn create(&mut self, place: &Place, kind: FileKind, id: FileId, target: &[u8]) {
        self.last += 1;
        let mut file = ModelFile::new(id, kind, self.grows_by_units);
        file.target = target.to_vec();
        self.files.insert(self.last, file);
        self.names.insert(place.clone(), self.last);
        self.created.insert(self.last, (place.clone(), self.history.len()));
        self.changed();
    }

    pub fn link(&mut self, place: &Place, number: u32) {
        self.names.insert(place.clone(), number);
        self.changed();
    }

    pub fn unlink(&mut self, place: &Place) {
        self.names.remove(place).expect("the name is there");
        self.changed();
    }

    /// Whether a rename is done and changes something; an error if it is to be refused.
    pub fn may_rename(&self, from: &Place, to: &Place, mode: RenameMode) -> Result<bool, ()> {
        let file = self.names[from];
        let there = self.names.get(to).copied();
        if self.is_folder(file) && self.is_within(to.0, file) {
            return Err(());
        }
        match (there, mode) {
            (None, RenameMode::Exchange) | (Some(_), RenameMode::NoReplace) => Err(()),
            (Some(other), _) if other == file => Ok(false),
            (Some(other), RenameMode::Exchange) if self.is_folder(other) && self.is_within(from.0, other) => {
                Err(())
            }
            (Some(other), RenameMode::Replace) => {
                let kinds_fit = self.is_folder(file) == self.is_folder(other);
                if kinds_fit && (!self.is_folder(other) || self.is_empty(other)) { Ok(true) } else { Err(()) }
            }
            _ => Ok(true),
        }
    }

    fn is_within(&self, mut folder: FileId, of: u32) -> bool {
        loop {
            if folder == self.id(of) {
                return true;
            }
            let above =
                self.names.iter().find(|(_, file)| self.is_folder(**file) && self.id(**file) == folder);
            let Some((place, _)) = above else { return false };
            folder = place.0;
        }
    }

    pub fn rename(&mut self, from: &Place, to: &Place, mode: RenameMode) {
        let file = self.names.remove(from).expect("the name is there");
        let replaced = self.names.insert(to.clone(), file);
        if let (RenameMode::Exchange, Some(other)) = (mode, replaced) {
            self.names.insert(from.clone(), other);
        }
        self.changed();
    }

    /// A file's sync begins, or has returned.
    pub fn syncs(&mut self, number: u32, is_certain: bool) {
        if is_certain {
            self.file(number).synced();
        }
        if let Some((place, created)) = self.created.get(&number) {
            let (place, created) = (place.clone(), *created);
            self.synced.retain(|synced| synced.file != number || synced.is_certain);
            self.synced.push(SyncedNew { place, file: number, created, is_certain });
        }
    }

    /// Names are certainly durable as they are.
    pub fn names_are_durable(&mut self) {
        self.history = vec![self.names.clone()];
        self.created.clear();
        self.synced.clear();
    }

    pub fn all_synced(&mut self) {
        self.files.values_mut().for_each(ModelFile::synced);
        self.names_are_durable();
        self.forget();
    }

    /// Forgets files that have no name and are not open, now and in every state that a crash may leave.
    fn forget(&mut self) {
        let named: BTreeSet<u32> = self.history.iter().flat_map(|names| names.values().copied()).collect();
        self.files.retain(|number, file| *number == ROOT_FILE || named.contains(number) || file.opens > 0);
    }

    /// Whether names are a state that a crash may leave: one of the history, with what was synced since. Returns it in
    /// the model's numbers.
    pub fn find_names(&self, seen: &BTreeMap<Place, (FileId, FileKind)>) -> Option<Names> {
        for (index, names) in self.history.iter().enumerate().rev() {
            let later = self.synced.iter().filter(|synced| synced.created > index);
            let certain: Vec<&SyncedNew> = later.clone().filter(|synced| synced.is_certain).collect();
            let maybe: Vec<&SyncedNew> = later.filter(|synced| !synced.is_certain).collect();
            for with_maybe in [false, true] {
                let mut state = names.clone();
                let added = certain.iter().chain(maybe.iter().filter(|_| with_maybe));
                state.extend(added.map(|synced| (synced.place.clone(), synced.file)));
                let files = state.iter().map(|(place, file)| (place, &self.files[file]));
                if files
                    .map(|(place, file)| (place, (file.id, file.kind)))
                    .eq(seen.iter().map(|(place, file)| (place, *file)))
                {
                    return Some(state);
                }
            }
        }
        None
    }

    /// The states that a crash may leave, to be printed.
    pub fn history_of_ids(&self) -> Vec<Vec<String>> {
        let line = |(place, file): (&Place, &u32)| {
            let f = &self.files[file];
            format!("{}/{} is {file}: {} {:?}", place.0, place.1, f.id, f.kind)
        };
        self.history.iter().map(|names| names.iter().map(line).collect()).collect()
    }

    /// After a crash: only what was found exists.
    pub fn continue_with(
        &mut self,
        names: Names,
        contents: BTreeMap<u32, Vec<u8>>,
        attributes: BTreeMap<u32, Option<Vec<u8>>>,
    ) {
        self.names = names;
        attributes.into_iter().for_each(|(number, value)| self.file(number).set_attribute(value));
        for (number, data) in contents {
            self.file(number).data = data;
        }
        self.files.values_mut().for_each(|file| file.opens = 0);
        self.all_synced();
    }
}
