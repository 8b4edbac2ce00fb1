//! What must hold between the parts of a mounted volume whenever no operation is under way.
//!
//! - Each unit of the drive belongs to one owner: the superblock, the inode table, a file, what was given up and is not
//!   trimmed yet, or the free space.
//! - Each slot of the table belongs to one owner: a file, a continuation, a link, what was removed, or the free slots.
//! - What a durable inode names is still the file's, or was given up and is not free (V3).
//! - Each file has names, or is an orphan: it has no slot, and the drive does not know it.
//! - Dirty pages lie within their files and have places, as do the pages of open transactions in files that still exist.
//!
//! Builds with debug assertions check this at mount, before an unmount, and after each operation that makes metadata of files
//! durable. Names alone are made durable too often for that: the check walks over all files. Each part checks what holds
//! within it.

use std::collections::BTreeSet;

use crate::extents::LpnRange;
use crate::files::Files;
use crate::pages::Pages;
use crate::space::Space;
use crate::superblock::SUPERBLOCK;
use crate::table::InodeTable;
use crate::transactions::Transactions;
use crate::tree::Tree;

pub(crate) fn assert_units_have_one_owner(space: &Space, table: &InodeTable, files: &Files, all: u32) {
    let mut owned = vec![(LpnRange { lpn: SUPERBLOCK, units: 1 }, "the superblock", 0)];
    owned.extend(table.pieces().map(|range| (range, "the inode table", 0)));
    owned.extend(space.ranges().map(|range| (range, "the free space", 0)));
    owned.extend(space.untrimmed().iter().map(|&range| (range, "what is to be trimmed", 0)));
    for removed in table.removed() {
        owned.extend(removed.freed.iter().map(|&range| (range, "what was removed from slot", removed.slot)));
    }
    for (id, file) in files.iter() {
        owned.extend(file.owned().map(|range| (range, "file", id.0)));
    }
    owned.sort_unstable();
    for (first, next) in owned.iter().zip(&owned[1..]) {
        assert!(first.0.end() <= next.0.lpn.0, "{first:?} and {next:?} have units in common");
    }
    let units: u64 = owned.iter().map(|(range, ..)| u64::from(range.units)).sum();
    assert_eq!(units, u64::from(all), "units of the drive that have an owner, and all units");
    let end = owned.last().map_or(0, |(range, ..)| range.end());
    assert!(end <= all, "{:?} ends beyond the drive's {all} units", owned.last());
}

pub(crate) fn assert_slots_have_one_owner(table: &InodeTable, tree: &Tree, files: &Files) {
    let slots = table.slots();
    let mut owned: BTreeSet<u32> = BTreeSet::new();
    let mut own = |slot: u32, owner: &str| {
        assert!(slot < slots, "slot {slot} of {owner} is beyond the table's {slots} units");
        assert!(owned.insert(slot), "slot {slot} of {owner} has another owner as well");
    };
    table.free_slots().iter().for_each(|&slot| own(slot, "the free slots"));
    tree.slots().for_each(|slot| own(slot, "a file or link"));
    for removed in table.removed() {
        own(removed.slot, "what was removed");
        removed.continuations.iter().for_each(|&slot| own(slot, "a removed continuation"));
    }
    for (_, file) in files.iter() {
        file.continuations().iter().for_each(|stored| own(stored.slot, "a continuation"));
    }
    assert_eq!(owned.len(), slots as usize, "slots that have an owner, and all slots");
}

pub(crate) fn assert_files_are_known(files: &Files, tree: &Tree, table: &InodeTable) {
    assert_eq!(files.len(), tree.len(), "files, and files in the tree");
    for (id, file) in files.iter() {
        let slot = tree.slot(id);
        assert_eq!(
            files.is_orphan(id),
            slot.is_none(),
            "whether file {} is an orphan, and has no slot",
            id.0
        );
        assert!(slot.is_some() || !file.is_stored(), "the drive knows file {}, which has no slot", id.0);
        let continuations = file.continuations().len();
        assert!(continuations <= table.most_continuations(), "file {} has more than the most", id.0);
    }
}

pub(crate) fn assert_pages_have_places(pages: &Pages, files: &Files, transactions: &Transactions) {
    let mut after = None;
    while let Some(id) = pages.cache().next_dirty_file(after) {
        let file = files.get(id).unwrap_or_else(|_| panic!("file {} is gone and dirty", id.0));
        for (unit, _) in pages.cache().dirty_from(id, 0) {
            let has_place = file.extents().run(unit).is_some() && unit < file.end();
            assert!(has_place, "unit {unit} of file {} with {} bytes is dirty", id.0, file.size());
        }
        after = Some(id);
    }
    for (tx, id, unit) in transactions.units() {
        let has_place = files.get(id).map_or(true, |file| file.extents().run(unit).is_some());
        assert!(has_place, "unit {unit} of file {} in {tx:?} has no place", id.0);
    }
}
