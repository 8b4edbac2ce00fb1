//! What a program has done to a volume, and what may be left of it after a crash.

use std::collections::BTreeMap;

pub const UNIT: usize = 4096;

/// A file's content is cut off here.
pub const MOST_BYTES: usize = 60 * UNIT;

/// A file as the program sees it.
#[derive(Clone, Default, Debug)]
pub struct ModelFile {
    pub data: Vec<u8>,
    pub attributes: u8,
    /// What lies behind its end is the program's, so nobody looks there: it grows without gaps.
    pub reserved: bool,
    /// What it was when it was last made durable; it was empty when it was made.
    pub durable: Durable,
    /// Since then, all that any unit was.
    pub later: BTreeMap<usize, Vec<Page>>,
}

/// What a unit was.
#[derive(Clone, Debug)]
pub struct Page {
    data: Vec<u8>,
    /// Bytes below the file's end. Behind it the unit may still hold what it was before a cut, and if the cut is lost in
    /// a crash that is seen again.
    visible: usize,
}

#[derive(Clone, Default, Debug)]
pub struct Durable {
    pub data: Vec<u8>,
    pub attributes: u8,
}

impl ModelFile {
    /// Notes what the units that `range` touches are now, before or after a change.
    pub fn note(&mut self, range: std::ops::Range<usize>) {
        for unit in range.start / UNIT..range.end.div_ceil(UNIT) {
            let end = self.data.len().min((unit + 1) * UNIT);
            let mut data = self.data[end.min(unit * UNIT)..end].to_vec();
            let visible = data.len();
            data.resize(UNIT, 0);
            self.later.entry(unit).or_default().push(Page { data, visible });
        }
    }

    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let old_end = self.data.len();
        let end = offset + data.len();
        if end > old_end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(data);
        self.note(offset.min(old_end)..end);
    }

    pub fn set_size(&mut self, size: usize) {
        let old_end = self.data.len();
        self.data.resize(size, 0);
        self.note(old_end.min(size)..size.max(old_end).div_ceil(UNIT) * UNIT);
    }

    /// Units and size are written in one step.
    pub fn write_units(&mut self, units: &[(u64, Vec<u8>)], new_size: Option<u64>) {
        if let Some(size) = new_size.filter(|&size| size as usize > self.data.len()) {
            self.set_size(size as usize);
        }
        for (unit, data) in units {
            self.write(*unit as usize * UNIT, data);
        }
        if let Some(size) = new_size {
            self.set_size(size as usize);
        }
    }

    pub fn synced(&mut self) {
        self.durable = Durable { data: self.data.clone(), attributes: self.attributes };
        self.later.clear();
    }

    /// Whether the file may be this after a crash.
    pub fn allows(&self, data: &[u8], attributes: u8) -> bool {
        if data.len() != self.durable.data.len() || attributes != self.durable.attributes {
            return false;
        }
        data.chunks(UNIT).zip(self.durable.data.chunks(UNIT)).enumerate().all(|(unit, (page, durable))| {
            // The unit's bytes below the durable size are all that can be seen.
            let pages = self.later.get(&unit).map_or(&[][..], Vec::as_slice);
            let was = |byte: usize| {
                page[byte] == 0
                    || page[byte] == durable[byte]
                    || pages.iter().any(|before| before.data[byte] == page[byte])
            };
            let is_later = |later: &Page| {
                let visible = later.visible.min(page.len());
                later.data[..visible] == page[..visible] && (visible..page.len()).all(was)
            };
            page == durable || pages.iter().any(is_later)
        })
    }
}

/// What the program has done. Files are named by a number that is never used again.
#[derive(Clone, Default, Debug)]
pub struct Model {
    pub files: BTreeMap<u32, ModelFile>,
    pub names: BTreeMap<String, u32>,
    pub next: u32,
    /// All that the names were since they were last made durable, and then, in order.
    pub names_since: Vec<BTreeMap<String, u32>>,
}

impl Model {
    pub fn file(&mut self, number: u32) -> &mut ModelFile {
        self.files.get_mut(&number).expect("a file of the model")
    }

    pub fn name_of(&self, number: u32) -> String {
        self.names.iter().find(|(_, named)| **named == number).expect("the file has a name").0.clone()
    }

    pub fn create(&mut self, name: &str) {
        self.files.insert(self.next, ModelFile::default());
        self.names.insert(name.to_owned(), self.next);
        self.next += 1;
        self.names_changed();
    }

    pub fn remove(&mut self, name: &str) {
        self.names.remove(name);
        self.names_changed();
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        let number = self.names.remove(from).expect("the file has a name");
        self.names.insert(to.to_owned(), number);
        self.names_changed();
    }

    fn names_changed(&mut self) {
        self.names_since.push(self.names.clone());
    }

    pub fn names_are_durable(&mut self) {
        self.names_since = vec![self.names.clone()];
        self.files.retain(|file, _| self.names.values().any(|named| named == file));
    }

    /// The file is durable, under its name: names are at least those of when it got it.
    pub fn synced(&mut self, number: u32) {
        self.file(number).synced();
        let name = self.name_of(number);
        while self.names_since[0].get(&name) != Some(&number) {
            self.names_since.remove(0);
        }
    }

    pub fn all_synced(&mut self) {
        self.files.values_mut().for_each(ModelFile::synced);
        self.names_are_durable();
    }
}

/// Whether a crash may leave these files, by name with content and attributes, if it came between `before` and
/// `after`. Returns the names of the model's files that they are.
pub fn find_allowed(
    before: &Model,
    after: &Model,
    seen: &BTreeMap<String, (Vec<u8>, u8)>,
) -> Option<BTreeMap<String, u32>> {
    let may_be = |model: &Model, number: &u32, (data, attributes): &(Vec<u8>, u8)| {
        model.files.get(number).is_some_and(|file| file.allows(data, *attributes))
    };
    let is_allowed = |names: &&BTreeMap<String, u32>| {
        names.keys().eq(seen.keys())
            && names.iter().all(|(name, number)| {
                may_be(before, number, &seen[name]) || may_be(after, number, &seen[name])
            })
    };
    before.names_since.iter().chain(&after.names_since).find(is_allowed).cloned()
}
