use tantalum_nand::{BlockId, Nand, UNIT_BYTES};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::placement::Handle;
use crate::space::BlockUse;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::Lpn;

fn states(ftl: &Ftl, first: u32, room: usize) -> Vec<BlockState> {
    let mut states = vec![BlockState::default(); room];
    let count = ftl.block_states(BlockId(first), &mut states);
    states.truncate(count);
    states
}

#[test]
fn states_are_those_of_the_blocks() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    for lpn in [1, 2, 1] {
        let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        let unit = HostUnit::plain(slot, Lpn(lpn), version);
        ftl.write_page(&[unit], 0).unwrap();
    }
    let all = states(&ftl, 0, GEOMETRY.blocks() as usize);
    assert_eq!(all.len(), GEOMETRY.blocks() as usize);
    assert_eq!(all.iter().map(|state| state.valid_units).sum::<u32>(), 2);
    assert!(all.iter().any(|state| state.block_use == BlockUse::Open && state.valid_units > 0));
    let erases: u32 = all.iter().map(|state| state.erases).sum();
    let counted: u32 = (0..GEOMETRY.blocks()).map(|block| ftl.nand.erase_count(BlockId(block))).sum();
    assert_eq!(erases, counted);
}

#[test]
fn no_more_are_given_than_there_are_or_than_there_is_room_for() {
    let ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let blocks = GEOMETRY.blocks();
    let all = states(&ftl, 0, blocks as usize + 5);
    assert_eq!(all.len(), blocks as usize);
    assert_eq!(states(&ftl, 2, 3), all[2..5]);
    assert_eq!(states(&ftl, blocks - 1, 3), all[blocks as usize - 1..]);
    assert_eq!(states(&ftl, blocks, 3), []);
    assert_eq!(states(&ftl, u32::MAX, 3), []);
}

#[test]
fn metadata_are_those_that_the_unit_was_written_with() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
    let (lpn, version, metadata) = (Lpn(1), ftl.next_seq(), [7; 24]);
    ftl.write_page(&[HostUnit { slot, lpn, version, metadata, hint: None, handle: Handle::DEFAULT }], 0)
        .unwrap();
    assert_eq!([1, 2].map(|lpn| ftl.metadata(Lpn(lpn)).unwrap()), [[7; 24], [0; 24]]);
}
