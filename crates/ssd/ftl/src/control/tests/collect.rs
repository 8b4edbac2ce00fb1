use tantalum_nand::{FailingStep, Geometry, Nand, StepFault, UNIT_BYTES};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::key::{Key, NamespaceAttributes};
use crate::metadata::Record;
use crate::placement::Handle;
use crate::space::FtlConfig;
use crate::tenants::records::KvRecord;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};
use crate::types::{Lpn, METADATA_BYTES, ShareRange};

const UNITS_PER_PAGE: u32 = 2;

fn write_page(ftl: &mut Ftl, lpn: u32) -> Result<(), FtlError> {
    let units: Vec<HostUnit> = (lpn..lpn + UNITS_PER_PAGE)
        .map(|lpn| HostUnit {
            slot: ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap(),
            lpn: Lpn(lpn),
            version: ftl.next_seq(),
            metadata: [0; METADATA_BYTES],
            hint: None,
            handle: Handle::DEFAULT,
        })
        .collect();
    let at_ns = ftl.nand().programs_done_ns();
    ftl.write_page(&units, at_ns).map(|_| ())
}

#[test]
fn a_packed_unit_that_takes_a_little_of_each_victim_does_not_keep_them_all() {
    const BLOCKS: u32 = 40;
    const PAGES: u32 = 8;
    let geometry = Geometry { channels: 1, blocks_per_plane: 64, pages_per_block: PAGES, ..GEOMETRY };
    let config = FtlConfig { logical_units: 800, ..CONFIG };
    let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
    let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
    // each block has a page with one small record, and pages of units
    for block in 0..BLOCKS {
        let key = Key::new(&block.to_be_bytes()).unwrap();
        let record = KvRecord { namespace, key, value: Some(&[1; 50]) };
        let at_ns = ftl.nand().programs_done_ns();
        ftl.put(&[record], 0, at_ns, &mut |_| None).unwrap();
        for page in 1..PAGES {
            write_page(&mut ftl, UNITS_PER_PAGE * (block * PAGES + page)).unwrap();
        }
    }
    // one of those pages is written again, so that every block has the same room
    for round in 0..14 {
        for block in 0..BLOCKS {
            write_page(&mut ftl, UNITS_PER_PAGE * (block * PAGES + 1 + round % (PAGES - 1))).unwrap();
            assert!(ftl.space.free_blocks() > 0, "in round {round}, block {block}");
        }
    }
}

/// Owners that a spare area has no room for are recorded once the unit has its new place. If there is no room for these
/// records, the drive may not go on: a cut would lose those owners. No test had so many owners and no room.
#[test]
fn a_collection_that_cannot_record_all_owners_is_unfinished() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    write_page(&mut ftl, 0).unwrap();
    let ranges: Vec<ShareRange> =
        (10..30).map(|dst| ShareRange { dst: Lpn(dst), src: Lpn(0), units: 1 }).collect();
    ftl.share(&ranges, 0).unwrap();
    ftl.flush_journal(0).unwrap();
    // the step is durable, so that copies of the unit need not wait for it
    let now_ns = ftl.nand.programs_done_ns();
    ftl.nand.advance(now_ns);
    ftl.log.between_steps(now_ns);
    while ftl.log.has_room(1) {
        let version = ftl.next_seq();
        let trim = Record::Trim { lpn: Lpn(100), units: 1, version, step: version };
        ftl.append_reserved(trim, 0).unwrap();
    }
    let old = ftl.map.lookup(Lpn(0)).unwrap();
    let (mut unfinished, block) = (0, ftl.geometry.block_of_unit(old));
    for after in 0.. {
        let mut ftl = ftl.try_clone().unwrap();
        ftl.nand.fail_step(Some(StepFault { step: FailingStep::Reservation, after, lasts: true }));
        let Err(error) = ftl.collect_block(block, now_ns) else { break };
        let has_moved = ftl.map.lookup(Lpn(0)) != Some(old);
        assert_eq!(error.changed_nothing(), !has_moved, "step {after}: {error}");
        unfinished += u32::from(has_moved);
    }
    assert!(unfinished > 0);
}
