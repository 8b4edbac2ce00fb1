//! The tree of folders: looking up, creating, linking, removing and renaming.
//!
//! Invariant: what may be refused is done before anything changes, so a refusal changes nothing.

use tantalum_filesystem::{Errno, FileId, FileKind, NAME_BYTES, NewFile, RenameMode, Timestamp};

use super::block;
use super::folder::{Folder, NameTarget};
use crate::bytes::Page;
use crate::error::{Damage, LfsError, Result, refuse};
use crate::fs::{File, LogFs};
use crate::inode::Inode;

/// The longest target of a symbolic link.
const MOST_TARGET_BYTES: usize = 4095;

/// Maximum number of names of one file.
const MOST_NAMES: u32 = 65_000;

pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        b"" | b"." | b".." => refuse(Errno::EINVAL),
        _ if name.len() > NAME_BYTES => refuse(Errno::ENAMETOOLONG),
        _ if name.contains(&0) || name.contains(&b'/') => refuse(Errno::EINVAL),
        _ => Ok(()),
    }
}

impl LogFs {
    /// A folder's entries, read when they are first needed.
    pub(crate) fn folder(&mut self, id: FileId) -> Result<&mut Folder> {
        if !self.folders.contains_key(&id) {
            let inode = &self.file(id)?.inode;
            if !inode.is_folder() {
                return refuse(Errno::ENOTDIR);
            }
            let units = inode.metadata.size.div_ceil(tantalum::UNIT_BYTES as u64) as u32;
            let mut folder = Folder::default();
            for unit in 0..units {
                folder.add_unit();
                self.load_block(id, unit, &mut folder)?;
            }
            debug_assert!(self.files.contains_key(&id), "folder {id} is in memory, but not its inode");
            self.folders.insert(id, folder);
        }
        Ok(self.folders.get_mut(&id).expect("it is in memory"))
    }

    fn load_block(&mut self, id: FileId, unit: u32, folder: &mut Folder) -> Result<()> {
        let Some(page) = self.page(id, unit)? else { return Ok(()) };
        let is_whole = block::is_whole(page);
        let mut is_sound = is_whole;
        for entry in block::entries_of(page) {
            let BlockParts { name, entry } = BlockParts::new(unit, &entry);
            is_sound = is_sound && folder.insert(&name, entry);
        }
        if is_sound {
            return Ok(());
        }
        let lpn = match self.index.pointer(&mut self.log, id, unit)? {
            crate::index::BlockPointer::At(lpn) => lpn,
            _ => tantalum::Lpn(0),
        };
        Err(LfsError::Damaged { lpn, damage: Damage::NotA { expected: "a block of a folder" } })
    }

    pub(crate) fn lookup_name(&mut self, folder: FileId, name: &[u8]) -> Result<NameTarget> {
        if name.len() > NAME_BYTES {
            return refuse(Errno::ENAMETOOLONG);
        }
        self.folder(folder)?.get(name).ok_or(LfsError::Refused(Errno::ENOENT))
    }

    /// Creates a file of any kind.
    pub(crate) fn make_file(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Result<FileId> {
        self.settle()?;
        self.check_new_name(folder, name)?;
        if new.kind == FileKind::Folder && self.file(folder)?.inode.metadata.links >= MOST_NAMES {
            return refuse(Errno::EMLINK);
        }
        let inode = Inode::new(new, folder, name);
        let file = self.index.new_file(&mut self.log, &inode)?;
        let other = self.files.insert(file, File::new(inode));
        assert!(other.is_none(), "file {file} is made, but is in memory: {other:?}");
        self.since.created(file, new.kind == FileKind::Folder);
        if let Err(error) = self.add_entry(folder, name, file, new.kind) {
            self.forget(file)?;
            return Err(error);
        }
        self.modified(folder, new.now)?;
        Ok(file)
    }

    pub(crate) fn make_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<FileId> {
        match target.len() {
            0 => return refuse(Errno::ENOENT),
            1..=MOST_TARGET_BYTES => {}
            _ => return refuse(Errno::ENAMETOOLONG),
        }
        let new = NewFile { kind: FileKind::SymbolicLink, permissions: 0o777, ..*new };
        let link = self.make_file(folder, name, &new)?;
        let filled = self.change_page(link, 0, true).map(|page| page[..target.len()].copy_from_slice(target));
        if let Err(error) = filled {
            self.remove_entry(folder, name)?;
            self.forget(link)?;
            return Err(error);
        }
        self.change_inode(link)?.metadata.size = target.len() as u64;
        Ok(link)
    }

    pub(crate) fn link_file(
        &mut self,
        file: FileId,
        folder: FileId,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        self.settle()?;
        let inode = &self.file(file)?.inode;
        let (kind, links) = (inode.metadata.kind, inode.metadata.links);
        match links {
            _ if kind == FileKind::Folder => return refuse(Errno::EPERM),
            0 => return refuse(Errno::ENOENT),
            MOST_NAMES.. => return refuse(Errno::EMLINK),
            _ => {}
        }
        self.check_new_name(folder, name)?;
        self.add_entry(folder, name, file, kind)?;
        self.change_inode(file)?.metadata.links += 1;
        self.since.renamed.insert(file);
        self.status_changed(file, now)?;
        self.modified(folder, now)
    }

    pub(crate) fn unlink_name(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<()> {
        self.settle()?;
        let entry = self.lookup_name(folder, name)?;
        if entry.kind == FileKind::Folder {
            return refuse(Errno::EISDIR);
        }
        self.check_orphans()?;
        self.remove_entry(folder, name)?;
        self.modified(folder, now)?;
        self.drop_name(entry.file, now)
    }

    pub(crate) fn remove_empty_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<()> {
        self.settle()?;
        let entry = self.lookup_name(folder, name)?;
        self.check_empty(entry.file)?;
        self.check_orphans()?;
        self.remove_entry(folder, name)?;
        self.modified(folder, now)?;
        self.drop_name(entry.file, now)
    }

    pub(crate) fn rename(
        &mut self,
        (folder, name): (FileId, &[u8]),
        (new_folder, new_name): (FileId, &[u8]),
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<()> {
        self.settle()?;
        let entry = self.lookup_name(folder, name)?;
        check_name(new_name)?;
        let there = self.folder(new_folder)?.get(new_name);
        if entry.kind == FileKind::Folder {
            self.check_not_inside(entry.file, new_folder)?;
        }
        // What may be refused is done before anything changes.
        self.promise_unit(folder, entry.place.0)?;
        if let Some(other) = there {
            self.promise_unit(new_folder, other.place.0)?;
        }
        match (there, mode) {
            (Some(_), RenameMode::NoReplace) => return refuse(Errno::EEXIST),
            (None, RenameMode::Exchange) => return refuse(Errno::ENOENT),
            (Some(other), _) if other.file == entry.file => return Ok(()),
            (Some(other), RenameMode::Exchange) => {
                if other.kind == FileKind::Folder {
                    self.check_not_inside(other.file, folder)?;
                }
                self.point_entry(new_folder, new_name, entry)?;
                self.point_entry(folder, name, other)?;
                self.moved_to(other, new_folder, folder, now)?;
            }
            (other, _) => self.take_name((folder, name, entry), (new_folder, new_name, other), now)?,
        }
        self.moved_to(entry, folder, new_folder, now)?;
        self.modified(folder, now)?;
        self.modified(new_folder, now)
    }

    /// Gives a file another name, which may be another file's. Its move to the other folder is not counted yet.
    fn take_name(
        &mut self,
        (folder, name, entry): (FileId, &[u8], NameTarget),
        (new_folder, new_name, other): (FileId, &[u8], Option<NameTarget>),
        now: Timestamp,
    ) -> Result<()> {
        match other {
            Some(other) => {
                self.check_replaceable(entry, other)?;
                self.point_entry(new_folder, new_name, entry)?;
                self.remove_entry(folder, name)?;
                self.count_subfolder(new_folder, other.kind, false)?;
                self.drop_name(other.file, now)?;
            }
            None => {
                if self.file(new_folder)?.inode.metadata.links == 0 {
                    return refuse(Errno::ENOENT);
                }
                self.add_entry_uncounted(new_folder, new_name, entry.file, entry.kind)?;
                self.remove_entry(folder, name)?;
            }
        }
        // Removing the entry has already subtracted it.
        self.count_subfolder(folder, entry.kind, true)
    }

    /// A file got a name in another folder, or another name in the same one.
    fn moved_to(&mut self, entry: NameTarget, from: FileId, to: FileId, now: Timestamp) -> Result<()> {
        if entry.kind == FileKind::Folder && from != to {
            self.count_subfolder(from, entry.kind, false)?;
            self.count_subfolder(to, entry.kind, true)?;
            self.change_inode(entry.file)?.parent = to;
        }
        self.since.renamed.insert(entry.file);
        self.since.is_name_lost = true;
        self.status_changed(entry.file, now)
    }

    fn check_replaceable(&mut self, entry: NameTarget, other: NameTarget) -> Result<()> {
        self.check_orphans()?;
        match (entry.kind, other.kind) {
            (FileKind::Folder, _) => self.check_empty(other.file),
            (_, FileKind::Folder) => refuse(Errno::EISDIR),
            _ => Ok(()),
        }
    }

    fn check_empty(&mut self, folder: FileId) -> Result<()> {
        if self.folder(folder)?.is_empty() { Ok(()) } else { refuse(Errno::ENOTEMPTY) }
    }

    /// Fails if `folder` is `file` or inside it.
    fn check_not_inside(&mut self, file: FileId, mut folder: FileId) -> Result<()> {
        loop {
            if folder == file {
                return refuse(Errno::EINVAL);
            }
            if folder == FileId::ROOT {
                return Ok(());
            }
            folder = self.file(folder)?.inode.parent;
        }
    }

    fn check_new_name(&mut self, folder: FileId, name: &[u8]) -> Result<()> {
        check_name(name)?;
        if self.folder(folder)?.get(name).is_some() {
            return refuse(Errno::EEXIST);
        }
        if self.file(folder)?.inode.metadata.links == 0 {
            return refuse(Errno::ENOENT);
        }
        Ok(())
    }

    // -- entries ----------------------------------------------------------------------------------------------------

    /// Adds an entry to a folder; the name is free.
    pub(crate) fn add_entry(
        &mut self,
        folder: FileId,
        name: &[u8],
        file: FileId,
        kind: FileKind,
    ) -> Result<()> {
        self.add_entry_uncounted(folder, name, file, kind)?;
        self.count_subfolder(folder, kind, true)
    }

    fn add_entry_uncounted(&mut self, id: FileId, name: &[u8], file: FileId, kind: FileKind) -> Result<()> {
        let slots = block::slots_for(name);
        let candidates: Vec<u32> = self.folder(id)?.units_with(slots).collect();
        let mut place = None;
        for unit in candidates {
            let free = match self.page(id, unit)? {
                Some(page) => block::find_free(page, slots),
                None => Some(1),
            };
            if let Some(slot) = free {
                place = Some((unit, slot));
                break;
            }
        }
        let place = match place {
            Some(place) => place,
            None => (self.add_block(id)?, 1),
        };
        block::put(self.change_block(id, place.0)?, place.1, name, file, kind);
        assert!(self.folder(id)?.insert(name, NameTarget { file, kind, place }), "the name was free");
        Ok(())
    }

    fn add_block(&mut self, id: FileId) -> Result<u32> {
        let unit = self.folder(id)?.units();
        self.change_block(id, unit)?;
        self.folder(id)?.add_unit();
        let size = &mut self.change_space(id)?.size;
        *size += tantalum::UNIT_BYTES as u64;
        let blocks = size.div_ceil(tantalum::UNIT_BYTES as u64);
        assert_eq!(
            blocks,
            u64::from(unit) + 1,
            "folder {id} got block {unit}, and has another number of blocks"
        );
        Ok(unit)
    }

    fn change_block(&mut self, id: FileId, unit: u32) -> Result<&mut Page> {
        self.since.block_changes += 1;
        self.change_page(id, unit, false)
    }

    /// Removes an entry. A folder without entries gives up its blocks.
    pub(crate) fn remove_entry(&mut self, id: FileId, name: &[u8]) -> Result<()> {
        let entry = self.lookup_name(id, name)?;
        block::remove(self.change_block(id, entry.place.0)?, entry.place.1, name);
        let folder = self.folder(id)?;
        folder.remove(name);
        if folder.is_empty() {
            folder.clear();
            self.give_up_units(id, 0..1 << 32)?;
            self.change_inode(id)?.metadata.size = 0;
        }
        self.since.is_name_lost = true;
        self.count_subfolder(id, entry.kind, false)
    }

    /// Makes an existing entry name another file.
    fn point_entry(&mut self, id: FileId, name: &[u8], to: NameTarget) -> Result<()> {
        let place = self.lookup_name(id, name)?.place;
        block::put(self.change_block(id, place.0)?, place.1, name, to.file, to.kind);
        self.folder(id)?.replace(name, to.file, to.kind);
        Ok(())
    }

    fn count_subfolder(&mut self, folder: FileId, kind: FileKind, is_added: bool) -> Result<()> {
        if kind == FileKind::Folder {
            let links = &mut self.change_inode(folder)?.metadata.links;
            *links = if is_added { *links + 1 } else { *links - 1 };
        }
        Ok(())
    }
}

/// An entry of a block as a folder keeps it.
struct BlockParts {
    name: Box<[u8]>,
    entry: NameTarget,
}

impl BlockParts {
    fn new(unit: u32, entry: &block::BlockEntry<'_>) -> BlockParts {
        let place = (unit, entry.slot);
        BlockParts {
            name: entry.name.into(),
            entry: NameTarget { file: entry.file, kind: entry.kind, place },
        }
    }
}
