//! Bytes that move without the medium are the same, whatever happens to their slots meanwhile.

use std::fs::File;
use std::os::unix::fs::FileExt;

use tempfile::TempDir;

use super::*;
use crate::in_flight::Outcome;
use crate::operations::Source;
use crate::test_support::{GEOMETRY, TIMING, data, program, read_tag, spare};
use tantalum_image::Access;
use tantalum_image::MediumError;
use tantalum_image::{BlockId, PageId};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn create(folder: &TempDir) -> Nand {
    Nand::create(&folder.path().join("image"), GEOMETRY, TIMING, "", 0).unwrap()
}

/// The tags of intact units.
fn tags(bytes: &[u8]) -> Vec<u64> {
    let tag = |unit: &[u8]| {
        let tag = u64::from_le_bytes(unit[..8].try_into().unwrap());
        assert!(unit == data(tag), "a unit is whole, with tag {tag}");
        tag
    };
    bytes.chunks(UNIT_BYTES).map(tag).collect()
}

/// Records reads of these places, one after another.
fn read_later(nand: &mut Nand, places: &[u32], buffer: &mut [u8]) -> Fetches {
    let mut fetches = nand.fetches().unwrap();
    for (&ppn, unit) in places.iter().zip(buffer.chunks_mut(UNIT_BYTES)) {
        nand.read_later(Ppn(ppn), unit, &mut fetches, 0).unwrap();
    }
    fetches
}

/// Fills buffers with units of these tags.
fn filled(nand: &mut Nand, tags: &[u64]) -> Fills {
    let mut fills = nand.fills(tags.len()).unwrap().unwrap();
    let bytes: Vec<u8> = tags.iter().flat_map(|tag| data(*tag)).collect();
    fills.fill(&bytes).unwrap();
    fills
}

#[test]
fn units_are_fetched_in_any_order_and_padding_is_zeros() {
    let folder = folder();
    let mut nand = create(&folder);
    program(&mut nand, 0, [1, 2], 0);
    let slot = nand.stage(&data(3)).unwrap();
    nand.program(PageId(1), &[Source::Padding, Source::Staged(slot)], &[spare(0); 2], 0).unwrap();
    let staged = nand.stage(&data(4)).unwrap();
    let mut bytes = vec![9; 7 * UNIT_BYTES];
    let mut fetches = read_later(&mut nand, &[1, 0, 1, 2, 3], &mut bytes);
    nand.read_slot_later(staged, &mut fetches);
    fetches.go_to(6 * UNIT_BYTES);
    nand.read_later(Ppn(0), &mut [], &mut fetches, 0).unwrap();
    assert!(fetches.fetch(&mut bytes));
    assert_eq!(tags(&bytes), [2, 1, 2, 0, 3, 4, 1]);
    assert!(matches!(
        nand.read_later(Ppn(4), &mut bytes, &mut fetches, 0),
        Err(NandError::Erased { ppn: Ppn(4) })
    ));
}

/// It reused the slot of the erased unit at once.
#[test]
fn what_is_to_be_fetched_stays_though_its_block_is_erased_and_others_write() {
    let folder = folder();
    let mut nand = create(&folder);
    program(&mut nand, 0, [1, 2], 0);
    let mut bytes = vec![0; 2 * UNIT_BYTES];
    let fetches = read_later(&mut nand, &[0, 1], &mut bytes);
    nand.erase(BlockId(0), 0).unwrap();
    nand.advance(u64::MAX);
    assert_eq!(nand.slots_in_use(), 0);
    let others = [5, 6, 7].map(|tag| nand.stage(&data(tag)).unwrap());
    assert!(fetches.fetch(&mut bytes), "the bytes are as they were written");
    assert_eq!(tags(&bytes), [1, 2]);
    drop(fetches);
    others.into_iter().for_each(|slot| nand.release(slot));
    assert_eq!(nand.stage(&data(8)).unwrap(), Slot(1), "nobody fetches any more");
}

#[test]
fn a_unit_that_is_damaged_in_the_image_is_noticed() {
    let folder = folder();
    let mut nand = create(&folder);
    program(&mut nand, 0, [1, 2], 0);
    let mut bytes = vec![0; 2 * UNIT_BYTES];
    let fetches = read_later(&mut nand, &[0, 1], &mut bytes);
    let file = File::options().write(true).open(folder.path().join("image")).unwrap();
    file.write_all_at(&[0xff], fetches.units[1].from + 77).unwrap();
    assert!(!fetches.fetch(&mut bytes));
    assert!(matches!(nand.read(Ppn(1), &mut data(0), 0), Err(NandError::Uncorrectable { ppn: Ppn(1) })));
}

#[test]
fn buffers_that_were_filled_are_programmed_like_others_and_survive_the_process() {
    let folder = folder();
    let mut nand = create(&folder);
    let mut fills = filled(&mut nand, &[1, 2, 3, 4]);
    let first = nand.adopt(&mut fills).unwrap().unwrap();
    nand.skip_fills(&mut fills, 1);
    let second = nand.adopt(&mut fills).unwrap().unwrap();
    assert!(nand.slot_holds(second, data(3).as_chunks().0.first().unwrap()));
    nand.skip_fills(&mut fills, usize::MAX);
    assert_eq!(nand.adopt(&mut fills).unwrap(), None);
    assert_eq!(nand.slots_in_use(), 2);
    nand.program(PageId(0), &[first, second].map(Source::Staged), &[spare(0); 2], 0).unwrap();
    assert_eq!([0, 1].map(|ppn| read_tag(&mut nand, ppn)), [1, 3]);
    drop(nand);
    let mut nand = Nand::open(&folder.path().join("image")).unwrap();
    assert_eq!([0, 1].map(|ppn| read_tag(&mut nand, ppn)), [1, 3]);
    assert_eq!(nand.slots_in_use(), 2);
}

/// The host was about to fill a buffer when power failed and came back, and the buffer belonged to somebody else.
#[test]
fn a_buffer_that_is_filled_after_power_went_is_nobody_elses() {
    let folder = folder();
    let mut nand = create(&folder);
    let mut fills = nand.fills(1).unwrap().unwrap();
    nand.power_fail(0);
    nand.lose_dram();
    nand.resolve(&mut |_| Outcome::Torn, &mut || 0).unwrap();
    let other = nand.stage(&data(5)).unwrap();
    fills.fill(&data(1)).unwrap();
    assert!(nand.slot_holds(other, data(5).as_chunks().0.first().unwrap()));
    assert!(matches!(nand.adopt(&mut fills), Err(NandError::PowerLost)));
    nand.skip_fills(&mut fills, usize::MAX);
    assert_eq!(nand.slots_in_use(), 1);
}

/// Bytes that only the redo log knows to be needed, or that only this process sees, are not moved past the image.
#[test]
fn other_images_have_nothing_to_fetch_or_to_fill() {
    let folder = folder();
    drop(create(&folder));
    let path = folder.path().join("image");
    let others: [&dyn Fn() -> Result<Nand, MediumError>; 3] =
        [&|| Nand::in_memory(GEOMETRY, TIMING), &|| Nand::open_as(&path, Access::Overlay), &|| {
            Nand::open_as(&path, Access::Ordered)
        }];
    for (index, open) in others.into_iter().enumerate() {
        let mut nand = open().unwrap();
        assert!(nand.fetches().is_none() && nand.fills(1).unwrap().is_none(), "{index}");
    }
}
