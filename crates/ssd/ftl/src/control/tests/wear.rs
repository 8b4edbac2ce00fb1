use tantalum_nand::{Geometry, Nand, Timing};

use super::super::*;
use crate::host_unit::HostUnit;
use crate::space::FtlConfig;
use crate::test_support::CONFIG;
use crate::types::Lpn;

/// One block was moved in an eighth of the erases that wear each block once, however many blocks there were: with nine tenths of
/// the data cold, some blocks were erased five hundred times when others never were.
#[test]
fn cold_data_do_not_keep_blocks_from_wearing() {
    let geometry = Geometry {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 2,
        blocks_per_plane: 256,
        pages_per_block: 8,
        page_bytes: 4096,
    };
    let timing = Timing { read_ns: 1, program_ns: 1, erase_ns: 1, channel_bytes_per_second: 1_000_000_000 };
    let config = FtlConfig { logical_units: 3200, wear_spread: 8, ..CONFIG };
    let mut ftl = Ftl::format(Nand::in_memory(geometry, timing).unwrap(), config).unwrap();
    let mut write = |lpn| {
        let slot = ftl.nand_mut().stage(&[1; tantalum_nand::UNIT_BYTES]).unwrap();
        let version = ftl.next_seq();
        ftl.write_page(&[HostUnit::plain(slot, Lpn(lpn), version)], 0).unwrap();
        ftl.maintain(0).unwrap();
        let wear = ftl.wear();
        (wear.max - wear.min, ftl.counters().flash_units.copyback)
    };
    for lpn in 0..3200 {
        write(lpn);
    }
    let overwrites = 200_000;
    let spread = (0..overwrites).map(|number| write(number % 320).0).max().unwrap();
    assert!(spread <= 8 + 4, "{spread}");
    // at least once for each eight erases of a block, a tenth of what is written
    let (_, copied) = write(0);
    assert!(copied < u64::from(overwrites) / 2, "{copied}");
}
