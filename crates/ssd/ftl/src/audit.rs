//! The audit: whether the FTL's state agrees with itself and with the flash.
//!
//! `Ftl::audit_maps` checks only DRAM, and tests call it after each power cut; `Ftl::audit_units` also reads the
//! flash. Neither changes anything. Between commands there are no findings, whatever the drive has been through, unless
//! a page was lost: the invariants are those at the heads of `map`, `blocks`, `valid` and `logs`.

use std::ops::Range;

use tantalum_nand::{BlockId, Geometry, NandError, PageState, Ppn, UNIT_BYTES};

use crate::error::FtlError;
use crate::findings::{Audit, Finding};
use crate::map::{BlockPacked, Claim, IN_SPARE, Owner};
use crate::parts::Parts;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::TENANTS;
use crate::types::{Hint, Lpn, Seq};

impl Parts {
    /// Checks what is in DRAM.
    pub fn audit_maps(&self) -> Audit {
        let mut audit = Audit::default();
        self.audit_places(&mut audit);
        self.space.audit(&self.map, &self.nand, &mut audit);
        self.metadata.audit(&self.space, &mut audit);
        TENANTS.iter().for_each(|tenant| tenant.audit(self, &mut audit));
        audit
    }

    /// P2L against L2P, and the counts that follow from it.
    fn audit_places(&self, audit: &mut Audit) {
        let (mut extra_owners, mut record_units) = (0, 0);
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let (mut counted, mut records) = (0, BlockPacked::default());
            // a block that was never programmed, or not since its erase, has no places to examine
            let programmed = self.nand.next_page(block) > 0 || self.map.valid(block) > 0;
            for ppn in places_of(&self.geometry, block).filter(|_| programmed) {
                let owners = self.owners(ppn);
                let in_use = !matches!(self.map.owner(ppn), Owner::None);
                match self.map.owner(ppn) {
                    Owner::Packed(_) => records.add(self.map.packed_weight(ppn)),
                    _ => counted += u32::from(in_use),
                }
                extra_owners += owners.len().saturating_sub(1);
                if let Owner::Claim(_) = self.map.owner(ppn) {
                    audit.claims += owners.len() as u64;
                }
                for (lpn, _) in owners {
                    let found = self.map.lookup(lpn);
                    if found != Some(ppn) {
                        audit.map_findings.push(Finding::OwnerElsewhere { ppn, lpn, found });
                    }
                }
            }
            audit.places += u64::from(counted + records.units);
            record_units += u64::from(records.valid());
            let counted = counted + records.valid();
            let kept = self.map.valid(block);
            if kept != counted {
                audit.map_findings.push(Finding::ValidCount { block, kept, counted });
            }
        }
        audit.count("units of packed records", self.map.packed_units(), record_units);
        audit.count("owners beyond the first", self.map.extra_owners() as u64, extra_owners as u64);
    }

    /// The owners of a place, with versions where P2L has them.
    fn owners(&self, ppn: Ppn) -> Vec<(Lpn, Option<Seq>)> {
        match self.map.owner(ppn) {
            Owner::None | Owner::Packed(_) | Owner::Claim(Claim::Transaction(..)) => Vec::new(),
            Owner::Plain(lpn) => vec![(lpn, None)],
            Owner::Claim(Claim::Owners(owners)) => {
                let told = |version: Seq| (version != IN_SPARE).then_some(version);
                owners.iter().map(|(lpn, version)| (*lpn, told(*version))).collect()
            }
        }
    }

    /// L2P against P2L.
    pub(crate) fn audit_owners(&self, audit: &mut Audit) {
        let mut mapped = 0;
        for lpn in self.map.touched().flatten().map(Lpn) {
            mapped += u64::from(self.map.lookup(lpn).is_some());
            self.audit_owner(lpn, audit);
        }
        audit.count("mapped units", self.map.mapped_units().into(), mapped);
    }

    fn audit_owner(&self, lpn: Lpn, audit: &mut Audit) {
        let Some(ppn) = self.map.lookup(lpn) else { return };
        if ppn.0 >= self.geometry.units() || !self.owners(ppn).iter().any(|owner| owner.0 == lpn) {
            audit.map_findings.push(Finding::NotOwned { lpn, ppn });
        }
    }

    pub(crate) fn audit_hints(&self, audit: &mut Audit) {
        audit.hints = self.tenants.units.logs.count() as u64;
        let mut wrong = |lpn, wrong| audit.map_findings.push(Finding::Hint { lpn, wrong });
        for (lpn, _) in self.tenants.units.logs.living() {
            if !self.map.is_hinted(lpn) {
                wrong(lpn, "its hint lives, but L2P does not say so");
            }
            if self.map.lookup(lpn).is_none() {
                wrong(lpn, "its hint lives, but it is not mapped");
            }
        }
        for (lpn, page) in self.tenants.units.logs.living().chain(self.tenants.units.logs.waiting()) {
            let Some(home) = page.hint.home else { continue };
            if !self.map.is_hinted(home) || !self.tenants.units.logs.claims(home, lpn, page.version) {
                wrong(lpn, "its hint claims a home that does not know the claim");
            }
        }
        for lpn in self.map.touched().flatten().map(Lpn).filter(|lpn| self.map.is_hinted(*lpn)) {
            if self.tenants.units.logs.hint(lpn).is_none() && !self.tenants.units.logs.is_claimed(lpn) {
                wrong(lpn, "L2P says that a hint refers to it, but none does");
            }
        }
    }

    // -- against the flash --------------------------------------------------------------------------------------

    /// Reads the spare areas and the data of the mapped units among `lpns`, and compares.
    pub fn audit_units(&mut self, lpns: Range<u32>, audit: &mut Audit) -> Result<(), FtlError> {
        let mut data = [0; UNIT_BYTES];
        for lpn in lpns.map(Lpn) {
            let Some(ppn) = self.map.lookup(lpn) else { continue };
            audit.units += 1;
            let finding = match self.nand.page_state(self.geometry.page_of(ppn)) {
                PageState::Erased => Some(Finding::Erased { lpn, ppn }),
                PageState::Uncorrectable => Some(Finding::Unreadable { lpn, ppn }),
                PageState::Programmed => match self.nand.read(ppn, &mut data, 0) {
                    Ok(_) => self.audit_spare(lpn, ppn)?,
                    Err(NandError::Uncorrectable { .. }) => Some(Finding::Unreadable { lpn, ppn }),
                    Err(error) => return Err(error.into()),
                },
            };
            audit.unit_findings.extend(finding);
        }
        Ok(())
    }

    /// The spare area names a plain owner. It may name one with a claim, and then at no newer version: anything beyond
    /// that comes from the journal or a checkpoint.
    fn audit_spare(&self, lpn: Lpn, ppn: Ppn) -> Result<Option<Finding>, FtlError> {
        let wrong = |says| Ok(Some(Finding::Spare { lpn, ppn, says }));
        let Some(spare) = Spare::decode(&self.nand.spare(ppn)?) else { return wrong("makes no sense") };
        if !matches!(spare.kind, Kind::Data | Kind::Transaction) {
            return wrong("says that it holds no data");
        }
        let claimed = self.owners(ppn).into_iter().find(|owner| owner.0 == lpn).and_then(|owner| owner.1);
        match (claimed, spare.version_of(lpn)) {
            (None, None) => return wrong("does not name the unit"),
            (Some(claimed), Some(named)) if claimed < named => {
                return wrong("names the unit at a newer version");
            }
            _ => {}
        }
        let has = |hint: Hint| match spare.mark {
            Mark::Hint(named, log_lpn) => {
                let claims = hint.home.is_none() || hint.home == named.home;
                log_lpn == lpn && hint.is_same_page(&named) && claims
            }
            _ => false,
        };
        if self.tenants.units.logs.hint(lpn).is_some_and(|living| !has(living.hint)) {
            return wrong("does not have the hint that lives");
        }
        Ok(None)
    }
}

fn places_of(geometry: &Geometry, block: BlockId) -> impl Iterator<Item = Ppn> + use<> {
    let first = geometry.first_unit(block).0;
    (first..first + geometry.units_per_block()).map(Ppn)
}
