//! Compares both directions of the map with each other, and with the counts that follow from them.

use tantalum_nand::{BlockId, Geometry, Nand, Ppn};

use super::l2p::Map;
use super::owner::Owner;
use super::packed::BlockPacked;
use crate::findings::{Audit, Finding};
use crate::types::Lpn;

impl Map {
    /// Compares P2L with L2P, and with the counts that follow from it.
    pub(crate) fn audit(&self, nand: &Nand, audit: &mut Audit) {
        let geometry = nand.geometry();
        let (mut extra_owners, mut record_units) = (0, 0);
        for block in (0..geometry.blocks()).map(BlockId) {
            let (mut counted, mut records) = (0, BlockPacked::default());
            // a block that was never programmed, or not since its erase, has no places to examine
            let programmed = nand.next_page(block) > 0 || self.valid(block) > 0;
            let first = geometry.first_unit(block).0;
            let places = (first..first + geometry.units_per_block()).map(Ppn);
            for ppn in places.filter(|_| programmed) {
                let owners = self.owners(ppn);
                let in_use = !matches!(self.owner(ppn), Owner::None);
                match self.owner(ppn) {
                    Owner::Packed(_) => records.add(self.packed_weight(ppn)),
                    _ => counted += u32::from(in_use),
                }
                extra_owners += owners.len().saturating_sub(1);
                if let Owner::Claim(_) = self.owner(ppn) {
                    audit.claims += owners.len() as u64;
                }
                for (lpn, _) in owners {
                    let found = self.lookup(lpn);
                    if found != Some(ppn) {
                        audit.map_findings.push(Finding::OwnerElsewhere { ppn, lpn, found });
                    }
                }
            }
            audit.places += u64::from(counted + records.units);
            record_units += u64::from(records.valid());
            let counted = counted + records.valid();
            let kept = self.valid(block);
            if kept != counted {
                audit.map_findings.push(Finding::ValidCount { block, kept, counted });
            }
        }
        audit.count("units of packed records", self.packed_units(), record_units);
        audit.count("owners beyond the first", self.extra_owners() as u64, extra_owners as u64);
    }

    /// Compares L2P with P2L.
    pub(crate) fn audit_owners(&self, geometry: &Geometry, audit: &mut Audit) {
        let mut mapped = 0;
        for lpn in self.touched().flatten().map(Lpn) {
            mapped += u64::from(self.lookup(lpn).is_some());
            self.audit_owner(lpn, geometry.units(), audit);
        }
        audit.count("mapped units", self.mapped_units().into(), mapped);
    }

    fn audit_owner(&self, lpn: Lpn, places: u32, audit: &mut Audit) {
        let Some(ppn) = self.lookup(lpn) else { return };
        if ppn.0 >= places || !self.owners(ppn).iter().any(|owner| owner.0 == lpn) {
            audit.map_findings.push(Finding::NotOwned { lpn, ppn });
        }
    }
}
