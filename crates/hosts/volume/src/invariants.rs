//! What must hold between the parts of a mounted volume whenever no operation is under way.
//!
//! - Each unit of the drive belongs to one owner: the superblock, the inode table, a file, what was given up and is not
//!   trimmed yet, or the free space.
//! - Each slot of the table belongs to one owner: a file, a continuation, a link, what was removed, or the free slots.
//! - What a durable inode names is still the file's, or was given up and is not free (V3).
//! - Each file with a slot, except the root, has one entry for itself and one for each of its links. Files without a slot are
//!   orphans.
//! - Dirty pages lie within their files and have places, as do the pages of open transactions in files that still exist.
//!
//! Builds with debug assertions check this at mount, before an unmount, and after each operation that makes metadata of files
//! durable. Names alone are made durable too often for that: the check walks over all files.

use std::collections::BTreeSet;

use tantalum_filesystem::FileId;

use crate::extents::LpnRange;
use crate::file::File;
use crate::inode::units_of;
use crate::superblock::SUPERBLOCK;
use crate::volume::Volume;

impl Volume {
    /// Checks the invariants at the head of this file, in builds with debug assertions.
    pub(crate) fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.space.assert_invariants();
        self.assert_units_have_one_owner();
        self.assert_slots_have_one_owner();
        self.assert_names_are_complete();
        for (&id, file) in &self.files {
            self.assert_file(id, file);
        }
        self.assert_pages_have_places();
    }

    fn assert_units_have_one_owner(&self) {
        let mut owned = vec![(LpnRange { lpn: SUPERBLOCK, units: 1 }, "the superblock", 0)];
        owned.extend(self.table.pieces().map(|range| (range, "the inode table", 0)));
        owned.extend(self.space.ranges().map(|range| (range, "the free space", 0)));
        owned.extend(self.space.untrimmed().iter().map(|&range| (range, "what is to be trimmed", 0)));
        for removed in self.table.removed() {
            owned.extend(
                removed.freed.iter().map(|&range| (range, "what was removed from slot", removed.slot)),
            );
        }
        for (id, file) in &self.files {
            owned.extend(file.inode.extents.iter().map(|extent| (extent.range(), "file", id.0)));
            owned.extend(file.freed.iter().map(|&range| (range, "what was given up by file", id.0)));
        }
        owned.sort_unstable();
        for (first, next) in owned.iter().zip(&owned[1..]) {
            assert!(first.0.end() <= next.0.lpn.0, "{first:?} and {next:?} have units in common");
        }
        let units: u64 = owned.iter().map(|(range, ..)| u64::from(range.units)).sum();
        let all = self.drive.units();
        assert_eq!(units, u64::from(all), "units of the drive that have an owner, and all units");
        let end = owned.last().map_or(0, |(range, ..)| range.end());
        assert!(end <= all, "{:?} ends beyond the drive's {all} units", owned.last());
    }

    fn assert_slots_have_one_owner(&self) {
        let table = self.table.slots();
        let mut owned: BTreeSet<u32> = BTreeSet::new();
        let mut own = |slot: u32, owner: &str| {
            assert!(slot < table, "slot {slot} of {owner} is beyond the table's {table} units");
            assert!(owned.insert(slot), "slot {slot} of {owner} has another owner as well");
        };
        self.table.free_slots().iter().for_each(|&slot| own(slot, "the free slots"));
        self.links.keys().for_each(|&slot| own(slot, "a link"));
        for removed in self.table.removed() {
            own(removed.slot, "what was removed");
            removed.continuations.iter().for_each(|&slot| own(slot, "a removed continuation"));
        }
        for file in self.files.values() {
            file.slot.iter().for_each(|&slot| own(slot, "a file"));
            file.continuations.iter().for_each(|stored| own(stored.slot, "a continuation"));
        }
        assert_eq!(owned.len(), table as usize, "slots that have an owner, and all slots");
    }

    fn assert_names_are_complete(&self) {
        for (slot, link) in &self.links {
            let is_known = self.files.get(&link.file).is_some_and(|file| file.links.contains(slot));
            assert!(is_known, "file {} does not know its link in slot {slot}", link.file.0);
        }
        let links: usize = self.files.values().map(|file| file.links.len()).sum();
        assert_eq!(links, self.links.len(), "links that files have, and all links");
        for slot in &self.unnamed_links {
            assert!(self.links.contains_key(slot), "slot {slot} waits for its name and has no link");
        }
        for id in &self.unnamed {
            let waits = self.files.get(id).is_some_and(|file| file.slot.is_some() && !file.name_is_stored());
            assert!(waits, "file {} waits for its name, and is gone or has it", id.0);
        }
        let with_slot = self.files.values().filter(|file| file.slot.is_some()).count();
        let folders = self.files.values().filter_map(|file| file.folder.as_deref());
        let entries: usize = folders.map(|folder| folder.names().count()).sum();
        assert_eq!(entries + 1, with_slot + links, "entries of folders and the root, and names of files");
    }

    fn assert_file(&self, id: FileId, file: &File) {
        assert_eq!(file.inode.number, id, "the number in an inode, and the one that it is found by");
        file.inode.extents.assert_invariants();
        let is_orphan = self.orphans.contains(&id);
        assert_eq!(is_orphan, file.slot.is_none(), "whether file {} is an orphan, and has no slot", id.0);
        assert!(
            file.continuations.len() <= self.table.most_continuations(),
            "file {} has more than the most",
            id.0
        );
        let Some(stored) = &file.stored else { return };
        assert!(file.slot.is_some(), "the drive knows file {}, which has no slot", id.0);
        let mut kept: Vec<LpnRange> = file.inode.extents.iter().map(|extent| extent.range()).collect();
        kept.extend(&file.freed);
        kept.sort_unstable();
        let units: u64 = stored.extents.iter().map(|extent| units_within(extent.range(), &kept)).sum();
        assert_eq!(
            units,
            stored.extents.units(),
            "units that file {} kept of those that its inode names",
            id.0
        );
    }

    fn assert_pages_have_places(&self) {
        let mut file = None;
        while let Some(id) = self.cache.next_dirty_file(file) {
            let inode =
                &self.files.get(&id).unwrap_or_else(|| panic!("file {} is gone and dirty", id.0)).inode;
            for (unit, _) in self.cache.dirty_from(id, 0) {
                let has_place = inode.extents.run(unit).is_some() && unit < units_of(inode.size);
                assert!(has_place, "unit {unit} of file {} with {} bytes is dirty", id.0, inode.size);
            }
            file = Some(id);
        }
        for (tx, id, unit) in self.transactions.units() {
            let has_place = |file: &File| file.inode.extents.run(unit).is_some();
            let has_place = self.files.get(&id).is_none_or(has_place);
            assert!(has_place, "unit {unit} of file {} in {tx:?} has no place", id.0);
        }
    }
}

/// Units of `range` that are in `kept`, which is sorted and does not overlap.
fn units_within(range: LpnRange, kept: &[LpnRange]) -> u64 {
    let first = kept.partition_point(|kept| kept.end() <= range.lpn.0);
    let touching = kept[first..].iter().take_while(|kept| kept.lpn.0 < range.end());
    touching.map(|kept| u64::from(kept.end().min(range.end()) - kept.lpn.0.max(range.lpn.0))).sum()
}
