//! The tree of folders: which names there are, where each is stored, and which the drive does not know yet.
//!
//! A name is in the inode of its file, or in a link if the file has other names as well; folders have no contents. So
//! an operation changes a few units of the inode table, and waiting changes are at most half a batch: all of them fit
//! in one batch with the inode of a synced file. Changes in one batch need no order; that is why a removal, a creation
//! under the same name and a rename over it can never be seen separately.
//!
//! Invariants:
//! - Each file with a slot, except the root, has one entry for itself and one for each of its links. A file without a slot
//!   has lost its last name, and is only open.
//! - `unnamed` and `unnamed_links` have exactly the names that differ from what the drive knows.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_filesystem::{FileId, RenameMode};

use crate::error::{Damage, VolumeError};
use crate::folder::{Folder, NameTarget};
use crate::link::Link;
use crate::name::{Name, NamePlace, check_name, display};

/// Maximum number of names of a file, as on other file systems: programs count them in 16 bits.
const MOST_NAMES: u32 = 65_000;

/// The names of all files.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    nodes: BTreeMap<FileId, Node>,
    /// Further names of files, by slot.
    links: BTreeMap<u32, Link>,
    /// Files that the drive does not know, or knows by another name.
    unnamed: BTreeSet<FileId>,
    /// Links that the drive does not know, or knows by another name.
    unnamed_links: BTreeSet<u32>,
}

/// The names of one file.
#[derive(Clone)]
struct Node {
    /// The inode's slot in the table; none once the file has no name and is only open.
    slot: Option<u32>,
    /// The first name, which is in the inode.
    place: NamePlace,
    /// The first name that the drive knows; none if it does not know the file.
    stored: Option<NamePlace>,
    /// Slots of the links that are further names of the file.
    links: BTreeSet<u32>,
    /// Its entries, if it is a folder.
    folder: Option<Box<Folder>>,
}

/// A name that a program gave.
type Named<'a> = (FileId, &'a [u8]);

/// A rename that is possible.
pub(crate) struct Rename<'a> {
    from: Named<'a>,
    to: Named<'a>,
    /// The file that gets the new name.
    pub file: FileId,
    /// The file that had the new name.
    pub other: Option<FileId>,
    /// The other file gets the old name; otherwise it loses its own.
    pub exchanges: bool,
}

/// What the removal of a name leaves.
pub(crate) enum Unnamed {
    /// The slot of a link, and whether the drive knows the link. If it was the first name that was removed, the link's has
    /// moved into the inode.
    Link { slot: u32, is_stored: bool, was_first: bool },
    /// The slot of the inode: it was the last name.
    File { slot: u32 },
}

impl Tree {
    // -- looking up -------------------------------------------------------------------------------------------------

    /// The file with a given name in a folder.
    pub fn lookup(&self, folder: FileId, name: &[u8]) -> Result<FileId, VolumeError> {
        Ok(self.entry(folder, name)?.file)
    }

    /// The parent of a folder; the root is its own.
    pub fn parent(&self, folder: FileId) -> Result<FileId, VolumeError> {
        let node = self.node(folder)?;
        if node.folder.is_none() {
            return Err(VolumeError::NotAFolder(folder));
        }
        Ok(node.place.folder)
    }

    /// The entries of a folder after the one with cookie `after`, as (cookie, name, file).
    pub fn entries(
        &self,
        folder: FileId,
        after: u64,
    ) -> Result<impl Iterator<Item = (u64, &Name, FileId)>, VolumeError> {
        let entries = self.folder(folder)?.after(after);
        Ok(entries.map(|(name, entry)| (entry.cookie, name, entry.file)))
    }

    /// The names in a folder, in order.
    pub fn names(&self, folder: FileId) -> Result<impl Iterator<Item = &Name>, VolumeError> {
        Ok(self.folder(folder)?.names())
    }

    pub fn is_folder(&self, file: FileId) -> Result<bool, VolumeError> {
        Ok(self.node(file)?.folder.is_some())
    }

    /// The slot of the file's inode; none if it has no name.
    pub fn slot(&self, file: FileId) -> Option<u32> {
        self.nodes.get(&file)?.slot
    }

    /// The first name of a file, and the slot of the inode that has it; none if it has no name.
    pub fn first_name(&self, file: FileId) -> Option<(u32, &NamePlace)> {
        let node = self.nodes.get(&file)?;
        Some((node.slot?, &node.place))
    }

    /// Number of names of a file; of a folder, 2 plus its subfolders.
    pub fn count(&self, file: FileId) -> Result<u32, VolumeError> {
        Ok(self.node(file)?.names())
    }

    // -- checks before a change -------------------------------------------------------------------------------------

    /// Fails if a folder cannot get this name.
    pub fn check_new_name(&self, folder: FileId, name: &[u8]) -> Result<(), VolumeError> {
        check_name(name)?;
        match self.folder(folder)?.get(name) {
            Some(_) => Err(VolumeError::NameExists(display(name))),
            None if self.node(folder)?.slot.is_none() => Err(VolumeError::NoSuchFile(folder)),
            None => Ok(()),
        }
    }

    /// Fails if a file cannot get a further name.
    pub fn check_link(&self, file: FileId) -> Result<(), VolumeError> {
        let node = self.node(file)?;
        if node.folder.is_some() {
            return Err(VolumeError::IsAFolder(file));
        }
        if node.slot.is_none() {
            return Err(VolumeError::NoSuchFile(file));
        }
        let links = node.names();
        if links >= MOST_NAMES {
            return Err(VolumeError::TooManyLinks { file, links });
        }
        Ok(())
    }

    /// Fails if this is not an empty folder.
    pub fn check_empty(&self, folder: FileId) -> Result<(), VolumeError> {
        if self.folder(folder)?.is_empty() { Ok(()) } else { Err(VolumeError::FolderNotEmpty(folder)) }
    }

    /// Checks a rename. None if both are names of one file, which stay as they are.
    pub fn plan_rename<'a>(
        &self,
        from: Named<'a>,
        to: Named<'a>,
        mode: RenameMode,
    ) -> Result<Option<Rename<'a>>, VolumeError> {
        let ((folder, name), (new_folder, new_name)) = (from, to);
        let file = self.entry(folder, name)?.file;
        check_name(new_name)?;
        let other = self.folder(new_folder)?.get(new_name).map(|entry| entry.file);
        self.check_not_into_itself(file, new_folder)?;
        match (other, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(VolumeError::NameExists(display(new_name))),
            (None, RenameMode::Exchange) => return Err(VolumeError::NameNotFound(display(new_name))),
            (Some(other), _) if other == file => return Ok(None),
            (Some(other), RenameMode::Exchange) => self.check_not_into_itself(other, folder)?,
            (Some(other), RenameMode::Replace) => self.check_replaceable(file, other)?,
            // A folder that is only open is gone after a crash, and with it all names in it.
            (None, _) if self.slot(new_folder).is_none() => return Err(VolumeError::NoSuchFile(new_folder)),
            (None, _) => {}
        }
        Ok(Some(Rename { from, to, file, other, exchanges: mode == RenameMode::Exchange }))
    }

    /// Whether a rename may replace `replaced` with `file`.
    fn check_replaceable(&self, file: FileId, replaced: FileId) -> Result<(), VolumeError> {
        match (self.is_folder(file)?, self.is_folder(replaced)?) {
            (true, _) => self.check_empty(replaced),
            (false, true) => Err(VolumeError::IsAFolder(replaced)),
            (false, false) => Ok(()),
        }
    }

    /// Fails if `folder` is `file` or inside it.
    fn check_not_into_itself(&self, file: FileId, mut folder: FileId) -> Result<(), VolumeError> {
        if !self.is_folder(file)? {
            return Ok(());
        }
        loop {
            if folder == file {
                return Err(VolumeError::IntoItself(file));
            }
            if folder == FileId::ROOT {
                return Ok(());
            }
            folder = self.node(folder)?.place.folder;
        }
    }

    // -- changes ----------------------------------------------------------------------------------------------------

    /// Gives a new file a slot and a name, both of which are free.
    pub fn add(&mut self, file: FileId, slot: u32, folder: FileId, name: &[u8], is_folder: bool) {
        let place = NamePlace { folder, name: name.into() };
        let known = self.nodes.insert(file, Node::new(slot, place.clone(), is_folder));
        assert!(known.is_none(), "file {} is created and has a name", file.0);
        self.unnamed.insert(file);
        self.add_entry(&place, file, None);
    }

    /// Gives a file a further name, which is in a link.
    pub fn add_link(&mut self, file: FileId, slot: u32, folder: FileId, name: &[u8]) {
        let place = NamePlace { folder, name: name.into() };
        self.add_entry(&place, file, Some(slot));
        let known = self.links.insert(slot, Link { place, file, stored: None });
        assert!(known.is_none(), "slot {slot} gets a link of file {} and has {known:?}", file.0);
        self.unnamed_links.insert(slot);
        self.existing(file).links.insert(slot);
    }

    /// Removes a name, and returns whose it was.
    pub fn remove(&mut self, folder: FileId, name: &[u8]) -> (FileId, Unnamed) {
        let NameTarget { file, link, .. } = self.take_entry(folder, name);
        let node = self.existing(file);
        assert!(node.slot.is_some(), "file {} has a name, {:?}, and no slot", file.0, display(name));
        let promoted = node.links.first().copied();
        let unnamed = match (link, promoted) {
            (Some(slot), _) => {
                let is_stored = self.remove_link(slot).stored.is_some();
                Unnamed::Link { slot, is_stored, was_first: false }
            }
            (None, Some(slot)) => {
                let Link { place, stored, .. } = self.remove_link(slot);
                let folder = self.existing(place.folder).folder.as_mut();
                folder.expect("a name is in a folder").set_inode_name(&place.name);
                self.set_place(file, None, place);
                Unnamed::Link { slot, is_stored: stored.is_some(), was_first: true }
            }
            (None, None) => Unnamed::File { slot: self.take_slot(file) },
        };
        (file, unnamed)
    }

    fn remove_link(&mut self, slot: u32) -> Link {
        let link = self.links.remove(&slot).expect("the link exists");
        self.unnamed_links.remove(&slot);
        let is_known = self.existing(link.file).links.remove(&slot);
        assert!(is_known, "file {} did not know its link in slot {slot}", link.file.0);
        link
    }

    /// The file has lost its last name.
    fn take_slot(&mut self, file: FileId) -> u32 {
        self.unnamed.remove(&file);
        let node = self.existing(file);
        assert!(node.links.is_empty(), "file {} goes and has names in slots {:?}", file.0, node.links);
        let is_empty = node.folder.as_ref().is_none_or(|folder| folder.is_empty());
        assert!(is_empty, "folder {} goes and has entries", file.0);
        node.stored = None;
        node.slot.take().expect("a file that has a name has a slot")
    }

    /// Moves or exchanges names, and returns the files whose names in their inodes have changed. What had the new name, unless
    /// it is exchanged, must have been removed.
    pub fn rename(&mut self, rename: &Rename<'_>) -> impl Iterator<Item = FileId> + use<> {
        let (from, to) = (rename.from, rename.to);
        let entry = self.take_entry(from.0, from.1);
        let other = rename.exchanges.then(|| self.take_entry(to.0, to.1));
        let first = self.put_entry(to, entry);
        let second = other.and_then(|other| self.put_entry(from, other));
        first.into_iter().chain(second)
    }

    /// A file without a name is gone.
    pub fn forget(&mut self, file: FileId) {
        let node = self.nodes.remove(&file).expect("an orphan is a file");
        assert_eq!(node.slot, None, "file {} goes and still has a name", file.0);
    }

    /// Returns the file, if its name in its inode has changed.
    fn put_entry(&mut self, (folder, name): Named<'_>, entry: NameTarget) -> Option<FileId> {
        let place = NamePlace { folder, name: name.into() };
        self.add_entry(&place, entry.file, entry.link);
        self.set_place(entry.file, entry.link, place);
        entry.link.is_none().then_some(entry.file)
    }

    /// Writes a name where it is stored: in a link, or in the file's inode.
    fn set_place(&mut self, file: FileId, link: Option<u32>, place: NamePlace) {
        if let Some(slot) = link {
            let link = self.links.get_mut(&slot).expect("an entry's link exists");
            assert_eq!(link.file, file, "the file of the link in slot {slot}, and of the entry with it");
            match link.stored.as_ref() == Some(&place) {
                true => self.unnamed_links.remove(&slot),
                false => self.unnamed_links.insert(slot),
            };
            link.place = place;
            return;
        }
        let node = self.existing(file);
        node.place = place;
        match node.is_stored() {
            true => self.unnamed.remove(&file),
            false => self.unnamed.insert(file),
        };
    }

    fn add_entry(&mut self, place: &NamePlace, file: FileId, link: Option<u32>) {
        let is_folder = self.nodes[&file].folder.is_some();
        let is_new = self.existing_folder(place.folder).insert(place.name.clone(), file, link, is_folder);
        assert!(is_new, "the name {:?} was free", display(&place.name));
    }

    fn take_entry(&mut self, folder: FileId, name: &[u8]) -> NameTarget {
        self.existing_folder(folder).remove(name).expect("the name was there")
    }

    // -- what the drive knows -----------------------------------------------------------------------------------------

    /// Names that the drive does not know, in units of metadata.
    pub fn pending(&self) -> usize {
        self.unnamed.len() + self.unnamed_links.len()
    }

    /// Whether the drive does not know the file, or knows it by another name.
    pub fn is_unnamed(&self, file: FileId) -> bool {
        self.unnamed.contains(&file)
    }

    /// Files that the drive does not know, or knows by another name.
    pub fn unnamed(&self) -> impl Iterator<Item = FileId> {
        self.unnamed.iter().copied()
    }

    /// Whether the drive does not know a further name of the file.
    pub fn has_unnamed_link(&self, file: FileId) -> bool {
        let waits = |node: &Node| node.links.iter().any(|link| self.unnamed_links.contains(link));
        !self.unnamed_links.is_empty() && self.nodes.get(&file).is_some_and(waits)
    }

    /// Links that the drive does not know, or knows by another name, with their slots.
    pub fn unnamed_links(&self) -> impl Iterator<Item = (u32, &Link)> {
        self.unnamed_links.iter().map(|slot| (*slot, &self.links[slot]))
    }

    /// The drive knows the name in the inode of a file.
    pub fn name_is_stored(&mut self, file: FileId) {
        if self.unnamed.remove(&file) {
            let node = self.existing(file);
            node.stored = Some(node.place.clone());
        }
    }

    /// The drive knows all names.
    pub fn names_are_stored(&mut self) {
        for file in &self.unnamed {
            let node = self.nodes.get_mut(file).expect("a file whose name waits");
            node.stored = Some(node.place.clone());
        }
        for slot in &self.unnamed_links {
            let link = self.links.get_mut(slot).expect("a link that waits");
            link.stored = Some(link.place.clone());
        }
        self.unnamed.clear();
        self.unnamed_links.clear();
    }

    // -- mounting -----------------------------------------------------------------------------------------------------

    /// A file that the drive knows by this name.
    pub fn add_stored(&mut self, file: FileId, slot: u32, place: NamePlace, is_folder: bool) {
        let stored = Some(place.clone());
        let known = self.nodes.insert(file, Node { stored, ..Node::new(slot, place, is_folder) });
        assert!(known.is_none(), "file {} is read from slot {slot} and has a name", file.0);
    }

    /// Builds the index of the folders from the names in inodes, which were added, and in links, and checks that it is complete.
    /// Fails with the slot that is damaged.
    pub fn index(&mut self, links: BTreeMap<u32, Link>) -> Result<(), (u32, Damage)> {
        self.links = links;
        let mut names = Vec::new();
        for (&file, node) in self.nodes.iter().filter(|(file, _)| **file != FileId::ROOT) {
            let slot = node.slot.expect("a file that was read has a slot");
            names.push((slot, None, file, node.place.clone()));
        }
        names
            .extend(self.links.iter().map(|(&slot, link)| (slot, Some(slot), link.file, link.place.clone())));
        for (slot, link, file, NamePlace { folder, name }) in names {
            let lost = |file: FileId| (slot, Damage::Lost { number: file.0 });
            let node = self.nodes.get_mut(&file).ok_or(lost(file))?;
            let is_folder = node.folder.is_some();
            if let Some(link) = link {
                if is_folder {
                    return Err(lost(file));
                }
                node.links.insert(link);
            }
            let entries = self.nodes.get_mut(&folder).and_then(|node| node.folder.as_mut());
            if !entries.ok_or(lost(folder))?.insert(name, file, link, is_folder) {
                return Err((slot, Damage::DuplicateName));
            }
        }
        self.check_reachable()
    }

    /// All folders are below the root, and there is a root.
    fn check_reachable(&self) -> Result<(), (u32, Damage)> {
        let is_root = self.nodes.get(&FileId::ROOT).is_some_and(|root| root.folder.is_some());
        let mut reached = BTreeSet::new();
        let mut waiting = if is_root { vec![FileId::ROOT] } else { Vec::new() };
        while let Some(id) = waiting.pop() {
            reached.insert(id);
            let entries = self.nodes[&id].folder.iter().flat_map(|folder| folder.after(0));
            let files = entries.map(|(_, entry)| entry.file);
            waiting.extend(files.filter(|file| self.nodes[file].folder.is_some()));
        }
        let is_out_of_reach = |(id, node): &(&FileId, &Node)| node.folder.is_some() && !reached.contains(id);
        let out_of_reach = self.nodes.iter().find(is_out_of_reach).map(|(id, _)| *id);
        match out_of_reach.or((!is_root).then_some(FileId::ROOT)) {
            Some(id) => Err((self.slot(id).unwrap_or(0), Damage::Lost { number: id.0 })),
            None => Ok(()),
        }
    }

    // -- checks -------------------------------------------------------------------------------------------------------

    /// Files, with a name or without.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// All slots that hold a file or a link.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        self.links.keys().copied().chain(self.nodes.values().filter_map(|node| node.slot))
    }

    /// Checks the invariants at the head of this file.
    pub fn assert_invariants(&self) {
        for (slot, link) in &self.links {
            let is_known = self.nodes.get(&link.file).is_some_and(|node| node.links.contains(slot));
            assert!(is_known, "file {} does not know its link in slot {slot}", link.file.0);
            let waits = link.stored.as_ref() != Some(&link.place);
            assert_eq!(waits, self.unnamed_links.contains(slot), "whether the link in slot {slot} waits");
        }
        let links: usize = self.nodes.values().map(|node| node.links.len()).sum();
        assert_eq!(links, self.links.len(), "links that files have, and all links");
        for slot in &self.unnamed_links {
            assert!(self.links.contains_key(slot), "slot {slot} waits for its name and has no link");
        }
        for (id, node) in self.nodes.iter().filter(|(_, node)| node.slot.is_some()) {
            let waits = self.unnamed.contains(id);
            assert_eq!(waits, !node.is_stored(), "whether file {} waits for its name, and has another", id.0);
        }
        for id in &self.unnamed {
            let waits = self.nodes.get(id).is_some_and(|node| node.slot.is_some() && !node.is_stored());
            assert!(waits, "file {} waits for its name, and is gone or has it", id.0);
        }
        let with_slot = self.nodes.values().filter(|node| node.slot.is_some()).count();
        let folders = self.nodes.values().filter_map(|node| node.folder.as_deref());
        let entries: usize = folders.map(|folder| folder.names().count()).sum();
        assert_eq!(entries + 1, with_slot + links, "entries of folders and the root, and names of files");
    }

    // -- nodes --------------------------------------------------------------------------------------------------------

    fn node(&self, file: FileId) -> Result<&Node, VolumeError> {
        self.nodes.get(&file).ok_or(VolumeError::NoSuchFile(file))
    }

    fn existing(&mut self, file: FileId) -> &mut Node {
        self.nodes.get_mut(&file).expect("a file that has a name exists")
    }

    fn folder(&self, folder: FileId) -> Result<&Folder, VolumeError> {
        self.node(folder)?.folder.as_deref().ok_or(VolumeError::NotAFolder(folder))
    }

    fn existing_folder(&mut self, folder: FileId) -> &mut Folder {
        self.existing(folder).folder.as_mut().expect("it is a folder")
    }

    fn entry(&self, folder: FileId, name: &[u8]) -> Result<NameTarget, VolumeError> {
        check_name(name)?;
        self.folder(folder)?.get(name).ok_or_else(|| VolumeError::NameNotFound(display(name)))
    }
}

impl Node {
    fn new(slot: u32, place: NamePlace, is_folder: bool) -> Node {
        let folder = is_folder.then(Box::default);
        Node { slot: Some(slot), place, stored: None, links: BTreeSet::new(), folder }
    }

    fn is_stored(&self) -> bool {
        self.stored.as_ref() == Some(&self.place)
    }

    fn names(&self) -> u32 {
        match (&self.folder, self.slot) {
            (_, None) => 0,
            (Some(folder), _) => 2 + folder.subfolders(),
            (None, _) => 1 + self.links.len() as u32,
        }
    }
}
