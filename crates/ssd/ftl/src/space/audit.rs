//! Compares the blocks' uses with the streams, the map and the medium.

use std::collections::BTreeSet;

use tantalum_nand::{BlockId, Nand, PlaneId};

use super::free::FreeBlock;
use super::handles::{HandlesIn, handles_in};
use super::{BlockUse, Space};
use crate::findings::{Audit, Finding};
use crate::map::Map;

impl Space {
    /// See the head of this file.
    pub fn audit(&self, map: &Map, nand: &Nand, audit: &mut Audit) {
        audit.blocks = self.geometry.blocks().into();
        let open: BTreeSet<BlockId> = self.streams.blocks().collect();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let block_use = self.blocks.block_use(block);
            let holds_data = matches!(block_use, BlockUse::Open | BlockUse::Closed | BlockUse::Bad);
            let against = [
                (!holds_data && map.valid(block) > 0, "but it contains units"),
                ((block_use == BlockUse::Open) != open.contains(&block), "against the streams' open blocks"),
                (
                    (block_use == BlockUse::Closed) != map.is_candidate(block),
                    "against the candidates for collection",
                ),
                (nand.is_bad(block) && block_use != BlockUse::Bad, "and it is retired"),
                (
                    self.layout.isolates && holds_data && handles_in(block, nand) == HandlesIn::Several,
                    "and has units of several handles, which are kept apart",
                ),
            ];
            for (_, against) in against.into_iter().filter(|(wrong, _)| *wrong) {
                audit.map_findings.push(Finding::BlockUse { block, block_use, against });
            }
        }
        self.audit_free_lists(audit);
    }

    fn audit_free_lists(&self, audit: &mut Audit) {
        let mut listed = BTreeSet::new();
        for plane in (0..self.geometry.planes()).map(PlaneId) {
            for &FreeBlock { block, .. } in self.blocks.free_list(plane) {
                let block_use = self.blocks.block_use(block);
                if block_use != BlockUse::Free
                    || !listed.insert(block)
                    || self.geometry.plane_of(block) != plane
                {
                    let against =
                        "and it is in a list of free blocks, twice or on another plane if it is free";
                    audit.map_findings.push(Finding::BlockUse { block, block_use, against });
                }
            }
        }
        let free = self.blocks.with_use(BlockUse::Free).count() as u64;
        audit.count("blocks in the free lists", listed.len() as u64, free);
        audit.count("free blocks", self.blocks.free().into(), free);
    }
}
