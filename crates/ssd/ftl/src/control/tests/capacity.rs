use tantalum_nand::{Nand, UNIT_BYTES};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::key::NamespaceAttributes;
use crate::tenants::records::Footprint;
use crate::test_support::{CONFIG, GEOMETRY, TIMING};

fn write(ftl: &mut Ftl, lpn: Lpn) {
    let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
    let version = ftl.next_seq();
    ftl.write_page(&[HostUnit::plain(slot, lpn, version)], 0).unwrap();
}

/// Until the page of a trim's record is on flash, a cut brings back what was trimmed, and with the records that took its
/// room the drive would hold more than it has room for. No test looked at the time of such an admission.
#[test]
fn what_a_trim_freed_is_there_when_the_trim_is_on_flash() {
    for is_issued in [false, true] {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        write(&mut ftl, Lpn(0));
        ftl.flush_journal(0).unwrap();
        let now_ns = ftl.nand().programs_done_ns();
        ftl.nand_mut().advance(now_ns);
        ftl.trim(Lpn(0), 1, now_ns).unwrap();
        if is_issued {
            ftl.flush_journal(now_ns).unwrap();
        }
        ftl.budget = 0;
        let ready_ns = ftl.admit(1, 0, 0, now_ns).unwrap();
        assert_eq!(ready_ns, ftl.nand().programs_done_ns(), "issued before: {is_issued}");
        assert!(ready_ns >= now_ns + TIMING.program_ns);
    }
}

/// Of 128 units 20 are mapped and 3 wait. Two entries take a chunk in two checkpoints; thousands take blocks of eight
/// units beyond those that are planned, in both.
#[test]
fn records_are_admitted_up_to_the_last_chunk_of_the_capacity() {
    let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
    ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
    (0..20).for_each(|lpn| write(&mut ftl, Lpn(lpn)));
    let mut blocks = Vec::new();
    for entries in [2, 3000, 5000] {
        blocks.push(ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, entries)));
        let free =
            128 - 20 - 3 - 2 * 8 * u64::from(ftl.log.unplanned_blocks(ftl.layout(), ftl.kept(0, entries)));
        let most = free * 64 - entries / 2;
        for (chunks, fits) in [(most, true), (most + 1, false)] {
            ftl.budget = 0;
            let admitted = ftl.admit(chunks, entries, 3, 0);
            assert_eq!(admitted.is_ok(), fits, "{chunks} chunks, {entries} entries: {admitted:?}");
        }
    }
    assert!(blocks[0] < blocks[1] && blocks[1] < blocks[2], "{blocks:?}");
    // 105 units are free; each of these takes one, and its entry half a chunk
    let room = |count| Footprint::of(4000) * count;
    assert!(ftl.has_room(room(104), 3) && !ftl.has_room(room(105), 3));
    assert!(!ftl.has_room(room(104), 4), "one more waits");
}
