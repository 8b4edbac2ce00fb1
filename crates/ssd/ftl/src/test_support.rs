//! A small drive for tests.

use tantalum_nand::{BlockId, Geometry, Nanoseconds, PlaneId, Timing};

use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::metadata::{JournalPage, Record};
use crate::parts::Parts;
use crate::reservation::{Need, Purpose};
use crate::space::{CheckpointInterval, FtlConfig, VictimPolicy};
use crate::types::Seq;

pub const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 32,
    pages_per_block: 4,
    page_bytes: 8192,
};
pub const TIMING: Timing = Timing {
    read_ns: 50_000,
    program_ns: 500_000,
    erase_ns: 3_000_000,
    channel_bytes_per_second: 400_000_000,
};
pub const CONFIG: FtlConfig = FtlConfig {
    protected_units: 0,
    logical_units: 128,
    victim_policy: VictimPolicy::Greedy,
    wear_spread: 8,
    dump_units: 0,
    shared_owners: 8,
    checkpoint_interval: CheckpointInterval::DEFAULT,
    index_dram_bytes: None,
    nvm_log_bytes: None,
    file_lists: None,
};

impl Ftl {
    /// Appends a record in room made for it.
    pub(crate) fn append_reserved(&mut self, record: Record, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut room = self.reserve(&Need::record(Purpose::Trim), at_ns)?;
        self.append_journal(&mut room, &[record], at_ns)
    }
}

impl Parts {
    /// Appends a record, whatever room there is.
    pub(crate) fn append_without_room(&mut self, record: Record) -> Result<(), FtlError> {
        self.metadata.append(&mut self.nand, &[record], 0)
    }

    /// Takes the waiting records as a page.
    pub(crate) fn take_journal_page(&mut self, step: Seq) -> JournalPage {
        self.metadata.take_page(&mut self.nand, step).unwrap()
    }

    /// Returns a block that was erased and not programmed since.
    pub(crate) fn release_erased(&mut self, plane: PlaneId, block: BlockId) {
        self.space.blocks_mut().release_erased(plane, block, &self.nand);
    }
}
