//! Tests that see the parts of a volume.

use tantalum::{Device, Lpn, Profile};
use tantalum_filesystem::FileId;

use super::*;
use crate::extents::Extent;
use crate::inode::MOST_EXTENTS;

fn volume() -> Volume {
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
    Volume::format(Device::in_memory(&profile).unwrap(), 16 << 20).unwrap()
}

/// Writes every other unit, in falling order, so that no extent touches another.
fn write_pieces(volume: &mut Volume, file: FileId, units: std::ops::Range<u64>) {
    for unit in units.rev() {
        volume.write(file, unit * 2 * 4096, &[1]).unwrap();
    }
}

fn continuation_slots(volume: &Volume, file: FileId) -> Vec<u32> {
    volume.files.get(file).unwrap().continuations().iter().map(|c| c.slot).collect()
}

#[test]
fn changes_that_were_not_written_give_back_the_slots_of_new_continuations_only() {
    let mut volume = volume();
    let file = volume.create("pieces").unwrap();
    write_pieces(&mut volume, file, 0..1000);
    volume.sync(file).unwrap();
    let free = volume.table.free_slots().clone();

    // pieces after all others change the last continuation
    write_pieces(&mut volume, file, 1000..1001);
    volume.write_back_file(file).unwrap();
    let changes = volume.commit().prepare([(file, None)].into_iter()).unwrap();
    let slots: Vec<u32> = changes[0].continuation_slots().collect();
    let new = slots.iter().filter(|slot| free.contains(slot)).count();
    assert!(new > 0 && new < slots.len(), "{new} of {} continuations are new", slots.len());
    assert!(slots.iter().all(|slot| !volume.table.free_slots().contains(slot)));
    volume.commit().abandon(changes);
    assert_eq!(*volume.table.free_slots(), free);
}

/// Without the check it would be stored without its last extents.
#[test]
fn an_inode_with_more_extents_than_it_can_name_is_not_written() {
    let mut volume = volume();
    let file = volume.create("pieces").unwrap();
    let extents = 128 * 340 + 300;
    let pieces = (0..extents).map(|piece| Extent { unit: 2 * piece, lpn: Lpn(9000 + 2 * piece), units: 1 });
    let entry = volume.files.get_mut(file).unwrap();
    entry.put_extents(pieces.collect(), 0, 0);
    entry.grow_to(u64::from(2 * extents) * UNIT_BYTES as u64);
    let refused = VolumeError::TooFragmented { extents: extents as usize, most: MOST_EXTENTS };
    assert_eq!(volume.commit().prepare([(file, None)].into_iter()).err(), Some(refused));
}

#[test]
fn a_continuation_keeps_its_slot_until_it_is_replaced() {
    let mut volume = volume();
    let file = volume.create("pieces").unwrap();
    let mut all: Option<usize> = None;
    for pieces in [0..1000, 1000..1001, 1001..1002] {
        write_pieces(&mut volume, file, pieces);
        volume.sync(file).unwrap();
        let slots = continuation_slots(&volume, file);
        let free = volume.table.free_slots();
        assert!(slots.len() > 1 && slots.iter().all(|slot| !free.contains(slot)), "{slots:?}");
        let all = *all.get_or_insert(slots.len() + free.len());
        assert_eq!(slots.len() + free.len(), all, "what was replaced is free again");
    }
}
