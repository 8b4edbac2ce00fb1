//! Making metadata durable.
//!
//! One batch holds one unit for each file or link: its inode or its name, or zeros where it was removed. The order
//! around the batch keeps V3 and V4: data and new continuations, flush, batch, trim of what the batch gave up; only
//! then is that free. A batch with a synced inode also carries all waiting names (see `tree`).

use std::collections::BTreeSet;

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;
use zerocopy::IntoBytes;

use crate::continuation::ContinuationUnit;
use crate::drive::VolumeClient;
use crate::error::{Damage, VolumeError};
use crate::file::Continuation;
use crate::files::Files;
use crate::inode::{CONTINUATIONS, Inode, InodeUnit, MOST_EXTENTS};
use crate::link::LinkUnit;
use crate::name::NamePlace;
use crate::space::Space;
use crate::table::InodeTable;
use crate::tree::Tree;

const ZEROS: [u8; UNIT_BYTES] = [0; UNIT_BYTES];

/// The parts whose metadata become durable, and the drive where they do.
pub(crate) struct Commit<'a> {
    drive: &'a mut VolumeClient,
    files: &'a mut Files,
    tree: &'a mut Tree,
    table: &'a mut InodeTable,
    space: &'a mut Space,
}

/// An inode that is ready to be written; its continuations are already on the drive, though not flushed.
pub(crate) struct InodeChange {
    file: FileId,
    lpn: Lpn,
    inode: Box<Inode>,
    unit: Box<InodeUnit>,
    continuations: Vec<Continuation>,
}

impl InodeChange {
    pub fn file(&self) -> FileId {
        self.file
    }

    /// What to write, and where.
    pub fn write(&self) -> (Lpn, &[u8]) {
        (self.lpn, self.unit.as_bytes())
    }

    /// The slots of its continuations.
    #[cfg(test)]
    pub fn continuation_slots(&self) -> impl Iterator<Item = u32> {
        self.continuations.iter().map(|c| c.slot)
    }

    /// What a mount will read.
    fn read_back(&self) -> Result<(Inode, NamePlace), Damage> {
        let (mut inode, place) = Inode::decode(&self.unit)?;
        inode.add_continuations(self.continuations.iter().map(|c| &*c.unit))?;
        Ok((inode, place))
    }
}

impl<'a> Commit<'a> {
    pub fn new(
        drive: &'a mut VolumeClient,
        files: &'a mut Files,
        tree: &'a mut Tree,
        table: &'a mut InodeTable,
        space: &'a mut Space,
    ) -> Commit<'a> {
        Commit { drive, files, tree, table, space }
    }

    // -- preparing inodes -------------------------------------------------------------------------------------------------

    /// The inodes of files as they are now, or will be with a new size, as far as the drive does not have them; changed
    /// continuations are sent to the drive. All, or none.
    pub fn prepare(
        &mut self,
        files: impl Iterator<Item = (FileId, Option<u64>)>,
    ) -> Result<Vec<InodeChange>, VolumeError> {
        let mut changes = Vec::new();
        for (file, size) in files {
            if let Err(error) = self.prepare_one(file, size, &mut changes) {
                self.abandon(changes);
                return Err(error);
            }
        }
        Ok(changes)
    }

    fn prepare_one(
        &mut self,
        id: FileId,
        new_size: Option<u64>,
        changes: &mut Vec<InodeChange>,
    ) -> Result<(), VolumeError> {
        let file = self.files.get(id)?;
        let Some((slot, place)) = self.tree.first_name(id) else { return Ok(()) };
        let Some(inode) = file.to_store(new_size, !self.tree.is_unnamed(id)) else { return Ok(()) };
        let encoded = inode.encode(slot, place);
        if encoded.continuations.len() > CONTINUATIONS {
            let extents = inode.extents.len();
            return Err(VolumeError::TooFragmented { extents, most: MOST_EXTENTS });
        }
        let lpn = self.table.lpn(slot);
        changes.push(InodeChange { file: id, lpn, inode, unit: encoded.unit, continuations: Vec::new() });
        let change = changes.last_mut().expect("it was pushed");
        self.place_continuations(change, encoded.continuations)?;
        change.unit.set_continuation_slots(change.continuations.iter().map(|c| c.slot));
        debug_assert_eq!(
            change.read_back(),
            Ok(((*change.inode).clone(), self.tree.first_name(id).expect("it has a slot").1.clone())),
            "an inode as it is written, and as it is"
        );
        Ok(())
    }

    /// Gives each continuation its slot: the one where it is already, or a free one to which it is sent.
    fn place_continuations(
        &mut self,
        change: &mut InodeChange,
        units: Vec<Box<ContinuationUnit>>,
    ) -> Result<(), VolumeError> {
        for (index, unit) in units.into_iter().enumerate() {
            let stored = self.files.get(change.file)?.continuations().get(index);
            if let Some(stored) = stored.filter(|stored| stored.unit == unit) {
                change.continuations.push(stored.clone());
                continue;
            }
            self.ensure_free_slots(1)?;
            let slot = self.table.take();
            change.continuations.push(Continuation { slot, unit });
            let data = change.continuations[index].unit.as_bytes();
            self.drive.write_continuation(self.table.lpn(slot), data)?;
        }
        Ok(())
    }

    /// Drops changes that were not written: the slots of their new continuations are free again.
    pub fn abandon(&mut self, changes: Vec<InodeChange>) {
        for change in changes {
            let Ok(file) = self.files.get(change.file) else { continue };
            let new = slots_only_in(&change.continuations, file.continuations());
            new.for_each(|slot| self.table.free(slot));
        }
    }

    // -- slots ------------------------------------------------------------------------------------------------------------

    /// A slot for a new file or link. Leaves some for the continuations of existing files.
    pub fn take_slot_for_name(&mut self) -> Result<u32, VolumeError> {
        self.ensure_free_slots(self.table.slots_before_name())?;
        Ok(self.table.take())
    }

    /// Ensures that this many slots are free: those of removed files, or new ones.
    fn ensure_free_slots(&mut self, slots: usize) -> Result<(), VolumeError> {
        if self.table.free_slots().len() < slots && !self.table.removed().is_empty() {
            self.drive.check()?;
            self.names()?;
        }
        while self.table.free_slots().len() < slots {
            self.table.grow(self.space, self.drive)?;
        }
        Ok(())
    }

    // -- writing ----------------------------------------------------------------------------------------------------------

    /// Names that wait to become durable, in units of metadata.
    pub fn pending_names(&self) -> usize {
        self.tree.pending() + self.table.removed().len()
    }

    /// Makes waiting names durable, and nothing else of their files.
    pub fn names(&mut self) -> Result<(), VolumeError> {
        if self.pending_names() > 0 {
            self.write_batch(&[])?;
        }
        self.removals_are_durable();
        self.trim();
        debug_assert_eq!(self.pending_names(), 0, "names that wait after all were made durable");
        Ok(())
    }

    /// Makes the metadata of `files` durable, after all data that were written back: with their times, or only if
    /// something else changed. Waiting names of these files go with them, and then all waiting names do.
    pub fn files(&mut self, files: &[FileId], times: bool) -> Result<(), VolumeError> {
        for &id in files.iter().filter(|_| times) {
            if let Ok(file) = self.files.get_mut(id) {
                file.times_are_to_be_stored();
            }
        }
        let changes = self.prepare(files.iter().map(|&file| (file, None)))?;
        let names_wait = files.iter().any(|&file| self.names_wait_for(file));
        let written = self.drive.flush().and_then(|()| match changes.is_empty() && !names_wait {
            true => Ok(()),
            false => self.write_batch(&changes),
        });
        if let Err(error) = written {
            self.abandon(changes);
            return Err(error);
        }
        self.apply(changes);
        files.iter().for_each(|&file| self.inode_is_clean(file));
        self.trim();
        Ok(())
    }

    /// Whether a sync of the file must make name changes durable: names in it if it is a folder, further names of it,
    /// or the loss of its last name. Otherwise it could be seen again after a crash without what was synced.
    fn names_wait_for(&self, file: FileId) -> bool {
        let Ok(is_folder) = self.tree.is_folder(file) else { return false };
        is_folder && self.pending_names() > 0
            || self.files.is_orphan(file) && !self.table.removed().is_empty()
            || self.tree.has_unnamed_link(file)
    }

    /// Writes inodes and all waiting names in one batch. The names are then applied; the inodes not yet.
    fn write_batch(&mut self, changes: &[InodeChange]) -> Result<(), VolumeError> {
        let is_flushed = changes.is_empty() || !self.drive.owes_flush();
        assert!(is_flushed, "{} inodes are written before what they show is flushed", changes.len());
        let renamed = self.renamed_inodes(changes);
        let links = self.tree.unnamed_links().map(|(slot, link)| (self.table.lpn(slot), link.encode()));
        let links: Vec<(Lpn, Box<LinkUnit>)> = links.collect();
        let mut writes: Vec<(Lpn, &[u8])> = Vec::with_capacity(changes.len() + self.pending_names());
        writes.extend(changes.iter().map(InodeChange::write));
        writes.extend(renamed.iter().map(InodeChange::write));
        writes.extend(links.iter().map(|(lpn, unit)| (*lpn, unit.as_bytes())));
        writes.extend(self.table.removed_units().map(|lpn| (lpn, &ZEROS[..])));
        let most = self.drive.batch_units();
        assert!(writes.len() <= most, "a batch has {} units, the drive takes {most}", writes.len());
        debug_assert!(all_differ(&writes), "a batch has a unit twice: {:?}", places_of(&writes));
        self.drive.write_atomic(&writes)?;
        for change in renamed {
            self.files.existing(change.file).inode_is_stored(change.inode);
        }
        self.tree.names_are_stored();
        self.removals_are_durable();
        Ok(())
    }

    /// What is stored of the files with waiting names, with their new names, except those in `changes`. New files are
    /// stored with their metadata and without contents.
    fn renamed_inodes(&self, changes: &[InodeChange]) -> Vec<InodeChange> {
        let others = self.tree.unnamed().filter(|&id| changes.iter().all(|change| change.file != id));
        let rename = |id: FileId| {
            let file = self.files.get(id).expect("a file whose name waits");
            let (slot, place) = self.tree.first_name(id).expect("a file that has a name has a slot");
            let inode = file.to_store_with_name();
            let mut unit = inode.encode(slot, place).unit;
            unit.set_continuation_slots(file.continuations().iter().map(|c| c.slot));
            InodeChange { file: id, lpn: self.table.lpn(slot), inode, unit, continuations: Vec::new() }
        };
        others.map(rename).collect()
    }

    /// The changes are durable. What the old inodes name and the new ones do not may be given up.
    pub fn apply_and_trim(&mut self, changes: Vec<InodeChange>) {
        self.apply(changes);
        self.trim();
    }

    fn apply(&mut self, changes: Vec<InodeChange>) {
        for change in changes {
            let id = change.file;
            let lpn = self.tree.slot(id).map(|slot| self.table.lpn(slot));
            assert_eq!(lpn, Some(change.lpn), "where file {} is in the table, and was written", id.0);
            self.table.note_continuations(change.continuations.len());
            let file = self.files.existing(id);
            let before = file.replace_stored(change.inode, change.continuations);
            slots_only_in(&before, file.continuations()).for_each(|slot| self.table.free(slot));
            self.tree.name_is_stored(id);
            self.inode_is_clean(id);
        }
    }

    /// The drive's inode equals the file's. What an orphan gave up may still be named, until its removal is durable.
    fn inode_is_clean(&mut self, file: FileId) {
        if self.files.is_orphan(file) {
            return;
        }
        if let Ok(file) = self.files.get_mut(file) {
            self.space.give_up(file.inode_is_clean());
        }
    }

    /// The drive knows what was removed, and therefore that it has no orphans.
    fn removals_are_durable(&mut self) {
        self.table.removals_are_durable(self.space);
        self.files.free_what_orphans_gave_up(self.space);
    }

    /// Trims what no durable inode names, and frees it. Nobody waits for the trims, and their causes are durable: if
    /// the drive refuses, they are left for the next time.
    fn trim(&mut self) {
        let _ = self.space.trim(self.drive);
    }
}

/// The slots of `continuations` that are not slots of `others`.
fn slots_only_in<'a>(
    continuations: &'a [Continuation],
    others: &'a [Continuation],
) -> impl Iterator<Item = u32> + use<'a> {
    let is_only_here = |c: &&Continuation| others.iter().all(|other| other.slot != c.slot);
    continuations.iter().filter(is_only_here).map(|c| c.slot)
}

fn places_of(writes: &[(Lpn, &[u8])]) -> Vec<Lpn> {
    writes.iter().map(|(lpn, _)| *lpn).collect()
}

fn all_differ(writes: &[(Lpn, &[u8])]) -> bool {
    places_of(writes).into_iter().collect::<BTreeSet<Lpn>>().len() == writes.len()
}
