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
use crate::error::{Damage, VolumeError};
use crate::file::Continuation;
use crate::inode::{CONTINUATIONS, Inode, InodeUnit, MOST_EXTENTS};
use crate::link::LinkUnit;
use crate::volume::Volume;

const ZEROS: [u8; UNIT_BYTES] = [0; UNIT_BYTES];

/// An inode that is ready to be written; its continuations are already on the drive, though not flushed.
pub(crate) struct InodeChange {
    pub file: FileId,
    pub lpn: Lpn,
    inode: Box<Inode>,
    pub unit: Box<InodeUnit>,
    continuations: Vec<Continuation>,
}

impl InodeChange {
    /// What a mount will read.
    fn read_back(&self) -> Result<Inode, Damage> {
        let mut inode = Inode::decode(&self.unit)?;
        inode.add_continuations(self.continuations.iter().map(|c| &*c.unit))?;
        Ok(inode)
    }
}

impl Volume {
    /// Makes the metadata of `files` durable, after all data that were written back: with their times, or only if
    /// something else changed. Waiting names of these files go with them, and then all waiting names do.
    pub(crate) fn commit(&mut self, files: &[FileId], times: bool) -> Result<(), VolumeError> {
        if times {
            files.iter().for_each(|file| self.times_are_to_be_stored(*file));
        }
        let changes = self.prepare_all(files.iter().map(|&file| (file, None)))?;
        let names_wait = files.iter().any(|&file| self.names_wait_for(file));
        for change in &changes {
            // V4: data precede the inode that shows them
            let dirty = self.cache.last_dirty_unit(change.file);
            debug_assert_eq!(dirty, None, "a dirty unit of file {}, whose inode goes first", change.file.0);
        }
        let written = self.drive.flush().and_then(|()| match changes.is_empty() && !names_wait {
            true => Ok(()),
            false => self.write_batch(&changes),
        });
        if let Err(error) = written {
            self.abandon(changes);
            return Err(error);
        }
        self.apply(changes);
        for &file in files {
            self.give_up_freed(file);
        }
        self.trim();
        Ok(())
    }

    fn times_are_to_be_stored(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file) {
            file.dirty |= file.times_dirty;
        }
    }

    /// Whether a sync of the file must make name changes durable: names in it if it is a folder, further names of it,
    /// or the loss of its last name. Otherwise it could be seen again after a crash without what was synced.
    fn names_wait_for(&self, file: FileId) -> bool {
        let Some(file) = self.files.get(&file) else { return false };
        file.folder.is_some() && self.pending_names() > 0
            || file.slot.is_none() && !self.table.removed().is_empty()
            || file.links.iter().any(|link| self.unnamed_links.contains(link))
    }

    /// Makes waiting names durable, and nothing else of their files.
    pub(crate) fn commit_names(&mut self) -> Result<(), VolumeError> {
        if self.pending_names() > 0 {
            self.write_batch(&[])?;
        }
        self.apply_removals();
        self.trim();
        debug_assert_eq!(self.pending_names(), 0, "names that wait after all were made durable");
        Ok(())
    }

    /// Ensures that inodes written without a sync do not precede what they show: dirty data of their files, and whatever
    /// was sent and not flushed.
    pub(crate) fn settle(&mut self, changes: &[InodeChange]) -> Result<(), VolumeError> {
        for change in changes {
            self.write_back_file(change.file)?;
        }
        if self.drive.owes_flush() && !changes.is_empty() {
            self.drive.flush()?;
        }
        for change in changes {
            let dirty = self.cache.last_dirty_unit(change.file);
            debug_assert_eq!(dirty, None, "a dirty unit of file {}, whose inode goes first", change.file.0);
        }
        Ok(())
    }

    /// Writes inodes and all waiting names in one batch. The names are then applied; the inodes not yet.
    fn write_batch(&mut self, changes: &[InodeChange]) -> Result<(), VolumeError> {
        let is_flushed = changes.is_empty() || !self.drive.owes_flush();
        assert!(is_flushed, "{} inodes are written before what they show is flushed", changes.len());
        let renamed = self.renamed_inodes(changes);
        let links = self.unnamed_links.iter().map(|slot| (self.table.lpn(*slot), self.links[slot].encode()));
        let links: Vec<(Lpn, Box<LinkUnit>)> = links.collect();
        let mut writes: Vec<(Lpn, &[u8])> = Vec::with_capacity(changes.len() + self.pending_names());
        writes.extend(changes.iter().map(|change| (change.lpn, change.unit.as_bytes())));
        writes.extend(renamed.iter().map(|change| (change.lpn, change.unit.as_bytes())));
        writes.extend(links.iter().map(|(lpn, unit)| (*lpn, unit.as_bytes())));
        writes.extend(self.table.removed_units().map(|lpn| (lpn, &ZEROS[..])));
        let most = self.drive.batch_units();
        assert!(writes.len() <= most, "a batch has {} units, the drive takes {most}", writes.len());
        debug_assert!(all_differ(&writes), "a batch has a unit twice: {:?}", places_of(&writes));
        self.drive.write_atomic(&writes)?;
        for change in renamed {
            let file = self.files.get_mut(&change.file).expect("a file whose name waits");
            file.stored = Some(change.inode);
            file.touched = true;
        }
        for slot in &self.unnamed_links {
            let link = self.links.get_mut(slot).expect("a link that waits");
            link.stored = Some(link.place.clone());
        }
        self.unnamed.clear();
        self.unnamed_links.clear();
        self.apply_removals();
        Ok(())
    }

    /// What is stored of the files with waiting names, with their new names, except those in `changes`. New files are
    /// stored with their metadata and without contents.
    fn renamed_inodes(&self, changes: &[InodeChange]) -> Vec<InodeChange> {
        let others = self.unnamed.iter().filter(|&&id| changes.iter().all(|change| change.file != id));
        let rename = |&id: &FileId| {
            let file = &self.files[&id];
            let slot = file.slot.expect("a file that has a name has a slot");
            let mut inode = match &file.stored {
                Some(stored) => stored.clone(),
                None => Box::new(file.inode.without_content()),
            };
            (inode.folder, inode.name) = (file.inode.folder, file.inode.name.clone());
            let mut unit = inode.encode(slot).unit;
            unit.set_continuation_slots(file.continuations.iter().map(|c| c.slot));
            let lpn = self.table.lpn(slot);
            InodeChange { file: id, lpn, inode, unit, continuations: Vec::new() }
        };
        others.map(rename).collect()
    }

    /// [`Volume::prepare`] for several files: all, or none.
    pub(crate) fn prepare_all(
        &mut self,
        files: impl Iterator<Item = (FileId, Option<u64>)>,
    ) -> Result<Vec<InodeChange>, VolumeError> {
        let mut changes = Vec::new();
        for (file, size) in files {
            match self.prepare(file, size) {
                Ok(change) => changes.extend(change),
                Err(error) => {
                    self.abandon(changes);
                    return Err(error);
                }
            }
        }
        Ok(changes)
    }

    /// A slot for a new file or link. Leaves some for the continuations of existing files.
    pub(crate) fn take_slot_for_name(&mut self) -> Result<u32, VolumeError> {
        self.ensure_free_slots(self.table.slots_before_name())?;
        Ok(self.table.take())
    }

    /// Ensures that this many slots are free: those of removed files, or new ones.
    fn ensure_free_slots(&mut self, slots: usize) -> Result<(), VolumeError> {
        if self.table.free_slots().len() < slots && !self.table.removed().is_empty() {
            self.drive.check()?;
            self.commit_names()?;
        }
        while self.table.free_slots().len() < slots {
            self.table.grow(&mut self.space, &mut self.drive)?;
        }
        Ok(())
    }

    /// A file's inode as it is now, or will be with a size of `new_size`; changed continuations are sent to the
    /// drive. None if the drive has it already.
    fn prepare(&mut self, id: FileId, new_size: Option<u64>) -> Result<Option<InodeChange>, VolumeError> {
        let file = self.file(id)?;
        let Some(slot) = file.slot else { return Ok(None) };
        if !file.dirty && new_size.is_none_or(|size| size == file.inode.size) {
            return Ok(None);
        }
        let inode = Box::new(file.inode.with_size(new_size.unwrap_or(file.inode.size)));
        if file.stored.as_ref() == Some(&inode) {
            return Ok(None);
        }
        let encoded = inode.encode(slot);
        if encoded.continuations.len() > CONTINUATIONS {
            let extents = inode.extents.len();
            return Err(VolumeError::TooFragmented { extents, most: MOST_EXTENTS });
        }
        let lpn = self.table.lpn(slot);
        let mut change = InodeChange { file: id, lpn, inode, unit: encoded.unit, continuations: Vec::new() };
        let continuations = encoded.continuations;
        if let Err(error) = self.place_continuations(&mut change, continuations) {
            self.abandon(vec![change]);
            return Err(error);
        }
        change.unit.set_continuation_slots(change.continuations.iter().map(|c| c.slot));
        debug_assert_eq!(
            change.read_back().as_ref(),
            Ok(&*change.inode),
            "an inode as it is written, and as it is"
        );
        Ok(Some(change))
    }

    /// Gives each continuation its slot: the one where it is already, or a free one to which it is sent.
    fn place_continuations(
        &mut self,
        change: &mut InodeChange,
        units: Vec<Box<ContinuationUnit>>,
    ) -> Result<(), VolumeError> {
        for (index, unit) in units.into_iter().enumerate() {
            let stored = self.file(change.file)?.continuations.get(index);
            if let Some(stored) = stored.filter(|stored| stored.unit == unit) {
                change.continuations.push(stored.clone());
                continue;
            }
            self.ensure_free_slots(1)?;
            let slot = self.table.take();
            change.continuations.push(Continuation { slot, unit });
            let data = change.continuations[index].unit.as_bytes();
            let lpn = self.table.lpn(slot);
            self.drive.write_continuation(lpn, data)?;
        }
        Ok(())
    }

    /// Drops changes that were not written: the slots of their new continuations are free again.
    pub(crate) fn abandon(&mut self, changes: Vec<InodeChange>) {
        for change in changes {
            let Some(file) = self.files.get(&change.file) else { continue };
            let is_new = |c: &&Continuation| file.continuations.iter().all(|stored| stored.slot != c.slot);
            let new = change.continuations.iter().filter(is_new);
            new.for_each(|continuation| self.table.free(continuation.slot));
        }
    }

    /// The changes are durable. What the old inodes name and the new ones do not may be given up.
    pub(crate) fn apply(&mut self, changes: Vec<InodeChange>) {
        for change in changes {
            let file = self.files.get_mut(&change.file).expect("a file whose inode was written");
            let lpn = file.slot.map(|slot| self.table.lpn(slot));
            assert_eq!(
                lpn,
                Some(change.lpn),
                "where file {} is in the table, and was written",
                change.file.0
            );
            let is_old = |c: &&Continuation| change.continuations.iter().all(|new| new.slot != c.slot);
            let old = file.continuations.iter().filter(is_old);
            old.for_each(|continuation| self.table.free(continuation.slot));
            self.table.note_continuations(change.continuations.len());
            file.continuations = change.continuations;
            file.stored = Some(change.inode);
            file.touched = true;
            self.unnamed.remove(&change.file);
            self.give_up_freed(change.file);
        }
    }

    /// The drive's inode equals the file's: nothing durable names what the file gave up any more. What an orphan gave
    /// up may still be named: see [`Volume::apply_removals`].
    fn give_up_freed(&mut self, file: FileId) {
        if let Some(file) = self.files.get_mut(&file).filter(|file| file.slot.is_some()) {
            file.dirty = false;
            file.times_dirty &= file.stored.as_ref().is_none_or(|stored| !stored.has_times_of(&file.inode));
            self.space.give_up(std::mem::take(&mut file.freed));
        }
    }

    /// The drive knows what was removed, and therefore that it has no orphans.
    fn apply_removals(&mut self) {
        self.table.removals_are_durable(&mut self.space);
        for orphan in &self.orphans {
            let file = self.files.get_mut(orphan).expect("an orphan is a file");
            self.space.give_up(std::mem::take(&mut file.freed));
        }
    }

    /// Trims what no durable inode names, and frees it. Nobody waits for the trims, and their causes are durable: if
    /// the drive refuses, they are left for the next time.
    pub(crate) fn trim(&mut self) {
        let _ = self.space.trim(&mut self.drive);
    }
}

fn places_of(writes: &[(Lpn, &[u8])]) -> Vec<Lpn> {
    writes.iter().map(|(lpn, _)| *lpn).collect()
}

fn all_differ(writes: &[(Lpn, &[u8])]) -> bool {
    places_of(writes).into_iter().collect::<BTreeSet<Lpn>>().len() == writes.len()
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};

    use super::*;
    use crate::extents::Extent;

    /// Writes every other unit, in falling order, so that no extent touches another.
    fn write_pieces(volume: &mut Volume, file: FileId, units: std::ops::Range<u64>) {
        for unit in units.rev() {
            volume.write(file, unit * 2 * 4096, &[1]).unwrap();
        }
    }

    #[test]
    fn changes_that_were_not_written_give_back_the_slots_of_new_continuations_only() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 16 << 20).unwrap();
        let file = volume.create("pieces").unwrap();
        write_pieces(&mut volume, file, 0..1000);
        volume.sync(file).unwrap();
        let free = volume.table.free_slots().clone();

        // pieces after all others change the last continuation
        write_pieces(&mut volume, file, 1000..1001);
        volume.write_back_file(file).unwrap();
        let changes = volume.prepare_all([(file, None)].into_iter()).unwrap();
        let slots: Vec<u32> = changes[0].continuations.iter().map(|c| c.slot).collect();
        let new = slots.iter().filter(|slot| free.contains(slot)).count();
        assert!(new > 0 && new < slots.len(), "{new} of {} continuations are new", slots.len());
        assert!(slots.iter().all(|slot| !volume.table.free_slots().contains(slot)));
        volume.abandon(changes);
        assert_eq!(*volume.table.free_slots(), free);
    }

    /// Without the check it would be stored without its last extents.
    #[test]
    fn an_inode_with_more_extents_than_it_can_name_is_not_written() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 16 << 20).unwrap();
        let file = volume.create("pieces").unwrap();
        let entry = volume.file_mut(file).unwrap();
        let extents = 128 * 340 + 300;
        for piece in 0..extents {
            entry.inode.extents.insert(Extent { unit: 2 * piece, lpn: Lpn(9000 + 2 * piece), units: 1 });
        }
        entry.inode.size = u64::from(2 * extents) * UNIT_BYTES as u64;
        let refused = VolumeError::TooFragmented { extents: extents as usize, most: MOST_EXTENTS };
        assert_eq!(volume.prepare_all([(file, None)].into_iter()).err(), Some(refused));
    }

    #[test]
    fn a_continuation_keeps_its_slot_until_it_is_replaced() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut volume = Volume::format(Device::in_memory(&profile).unwrap(), 16 << 20).unwrap();
        let file = volume.create("pieces").unwrap();
        let mut all: Option<usize> = None;
        for pieces in [0..1000, 1000..1001, 1001..1002] {
            write_pieces(&mut volume, file, pieces);
            volume.sync(file).unwrap();
            let slots: Vec<u32> = volume.file(file).unwrap().continuations.iter().map(|c| c.slot).collect();
            assert!(
                slots.len() > 1 && slots.iter().all(|slot| !volume.table.free_slots().contains(slot)),
                "{slots:?}"
            );
            let all = *all.get_or_insert(slots.len() + volume.table.free_slots().len());
            assert_eq!(slots.len() + volume.table.free_slots().len(), all, "what was replaced is free again");
        }
    }
}
