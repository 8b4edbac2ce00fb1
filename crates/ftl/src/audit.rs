//! The audit: whether what the FTL keeps agrees with itself, and with what the flash says.
//!
//! [`Ftl::audit_maps`] looks at DRAM alone and is what tests call after each power cut; [`Ftl::audit_units`] reads the
//! flash too. Neither changes anything. Between commands there is nothing to be found, whatever the drive has been
//! through, unless a page was lost: the invariants are those at the heads of `map`, `blocks`, `valid` and `logs`.

use std::collections::BTreeSet;
use std::ops::Range;

use tantalum_nand::{BlockId, Geometry, NandError, PageState, PlaneId, Ppn, UNIT_BYTES};

use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key::NamespaceId;
use crate::map::{BlockPacked, Claim, Owner};
use crate::space::BlockUse;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::TENANTS;
use crate::types::{Hint, Lpn, Seq};

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Finding {
    /// P2L names an owner that is elsewhere.
    #[error("place {ppn} belongs to unit {lpn}, which is at {found:?}")]
    OwnerElsewhere {
        /// The place.
        ppn: Ppn,
        /// Its owner by P2L.
        lpn: Lpn,
        /// Where L2P says the owner is.
        found: Option<Ppn>,
    },
    /// L2P points at a place that P2L gives to others.
    #[error("unit {lpn} is at place {ppn}, which is not its own")]
    NotOwned {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// A number that is kept is not what there is.
    #[error("{what}: {kept} by the count that is kept, {counted} are there")]
    Count {
        /// What is counted.
        what: &'static str,
        /// As kept.
        kept: u64,
        /// As there.
        counted: u64,
    },
    /// A block's count of places in use is wrong.
    #[error("block {block}: {kept} places in use by its count, {counted} are")]
    ValidCount {
        /// The block.
        block: BlockId,
        /// As kept.
        kept: u32,
        /// As there.
        counted: u32,
    },
    /// A block's use does not agree with a list.
    #[error("block {block} is used as {block_use:?}, {against}")]
    BlockUse {
        /// The block.
        block: BlockId,
        /// Its use.
        block_use: BlockUse,
        /// What speaks against it.
        against: &'static str,
    },
    /// A unit's hints are not in order.
    #[error("unit {lpn}: {wrong}")]
    Hint {
        /// The unit.
        lpn: Lpn,
        /// What is wrong.
        wrong: &'static str,
    },
    /// An atomic batch is half done.
    #[error("an atomic batch is under way, and no command is")]
    BatchUnderWay,
    /// What the records at a place weigh is not what indexes and tombstones say.
    #[error("place {ppn}: its records weigh {kept} chunks by P2L, {counted} by the indexes and tombstones")]
    RecordsWeight {
        /// The place.
        ppn: Ppn,
        /// As kept.
        kept: u32,
        /// As the indexes say.
        counted: u32,
    },
    /// A unit of records cannot be read.
    #[error("records of key-value namespace {namespace} at place {ppn} cannot be read")]
    RecordsUnreadable {
        /// The place.
        ppn: Ppn,
        /// The namespace of one of them.
        namespace: NamespaceId,
    },
    /// An index that is on flash only cannot be read.
    #[error("the index of key-value namespace {namespace} is on flash only and cannot be read")]
    IndexUnreadable {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// An index names a place where another record is, or none.
    #[error("key-value namespace {namespace} has a record at place {ppn}, chunk {chunk}, that is not there")]
    NotTheRecord {
        /// The place.
        ppn: Ppn,
        /// Its first chunk.
        chunk: u8,
        /// The namespace.
        namespace: NamespaceId,
    },
    /// A mapped unit's page is erased.
    #[error("unit {lpn} is at place {ppn}, which is erased")]
    Erased {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// A mapped unit cannot be read.
    #[error("unit {lpn} at place {ppn} cannot be read: its page is uncorrectable, or its data are damaged")]
    Unreadable {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// The spare area of a mapped unit says something else.
    #[error("unit {lpn} is at place {ppn}, whose spare area {says}")]
    Spare {
        /// The unit.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
        /// What it says.
        says: &'static str,
    },
}

/// What was looked at, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Audit {
    /// Places that belong to somebody.
    pub places: u64,
    /// Owners of places that have several, or whose version no spare area tells.
    pub claims: u64,
    /// Blocks.
    pub blocks: u64,
    /// Hints that live.
    pub hints: u64,
    /// Records of key-value namespaces.
    pub records: u64,
    /// Mapped units whose spare areas and data were read.
    pub units: u64,
    /// What is wrong with the maps.
    pub map_findings: Vec<Finding>,
    /// What is wrong with the mapped units.
    pub unit_findings: Vec<Finding>,
}

impl Ftl {
    /// Looks at what is in DRAM.
    pub fn audit_maps(&self) -> Audit {
        let mut audit = Audit::default();
        self.audit_places(&mut audit);
        self.audit_blocks(&mut audit);
        self.audit_free_lists(&mut audit);
        TENANTS.iter().for_each(|tenant| tenant.audit(self, &mut audit));
        if self.batch_under_way {
            audit.map_findings.push(Finding::BatchUnderWay);
        }
        audit
    }

    /// P2L against L2P, and the counts that follow from it.
    fn audit_places(&self, audit: &mut Audit) {
        let (mut extra_owners, mut record_units) = (0, 0);
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let (mut counted, mut records) = (0, BlockPacked::default());
            // a block that was never programmed, or not since its erase, has no places to look at
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
                owners.iter().map(|(lpn, version)| (*lpn, Some(*version))).collect()
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

    fn audit_blocks(&self, audit: &mut Audit) {
        audit.blocks = self.geometry.blocks().into();
        let open: BTreeSet<BlockId> = self.streams.blocks().collect();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let block_use = self.blocks.block_use(block);
            let holds_data = matches!(block_use, BlockUse::Open | BlockUse::Closed | BlockUse::Bad);
            let against = [
                (!holds_data && self.map.valid(block) > 0, "and units are in it"),
                ((block_use == BlockUse::Open) != open.contains(&block), "against the streams' open blocks"),
                (
                    (block_use == BlockUse::Closed) != self.map.valid_counts().is_candidate(block),
                    "against the candidates for collection",
                ),
                (self.nand.is_bad(block) && block_use != BlockUse::Bad, "and it is retired"),
            ];
            for (_, against) in against.into_iter().filter(|(wrong, _)| *wrong) {
                audit.map_findings.push(Finding::BlockUse { block, block_use, against });
            }
        }
        let lists = [
            ("journal blocks", self.metadata.journal_blocks() as usize, BlockUse::Journal),
            ("checkpoint blocks", self.metadata.checkpoint_blocks().len(), BlockUse::Checkpoint),
            ("dump blocks", self.metadata.dump_blocks().len(), BlockUse::Dump),
        ];
        for (what, kept, block_use) in lists {
            audit.count(what, kept as u64, self.blocks.with_use(block_use).count() as u64);
        }
    }

    fn audit_free_lists(&self, audit: &mut Audit) {
        let mut listed = BTreeSet::new();
        for plane in (0..self.geometry.planes()).map(PlaneId) {
            for &block in self.blocks.free_list(plane) {
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

    pub(crate) fn audit_hints(&self, audit: &mut Audit) {
        audit.hints = self.logs.count() as u64;
        let mut wrong = |lpn, wrong| audit.map_findings.push(Finding::Hint { lpn, wrong });
        for (lpn, _) in self.logs.living() {
            if !self.map.is_hinted(lpn) {
                wrong(lpn, "its hint lives, and L2P does not say so");
            }
            if self.map.lookup(lpn).is_none() {
                wrong(lpn, "its hint lives, and it is not mapped");
            }
        }
        for (lpn, page) in self.logs.living().chain(self.logs.waiting()) {
            let Some(home) = page.hint.home else { continue };
            if !self.map.is_hinted(home) || !self.logs.claims(home, lpn, page.version) {
                wrong(lpn, "its hint claims a home that does not know of it");
            }
        }
        for lpn in self.map.touched().flatten().map(Lpn).filter(|lpn| self.map.is_hinted(*lpn)) {
            if self.logs.hint(lpn).is_none() && !self.logs.is_claimed(lpn) {
                wrong(lpn, "L2P says that a hint knows it, and none does");
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

    /// A plain owner is named by the spare area; one with a claim may be, and then at no newer version: what the claim
    /// has beyond that is from the journal or a checkpoint.
    fn audit_spare(&self, lpn: Lpn, ppn: Ppn) -> Result<Option<Finding>, FtlError> {
        let wrong = |says| Ok(Some(Finding::Spare { lpn, ppn, says }));
        let Some(spare) = Spare::decode(&self.nand.spare(ppn)?) else { return wrong("makes no sense") };
        if !matches!(spare.kind, Kind::Data | Kind::Transaction) {
            return wrong("says that it is no data");
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
        if self.logs.hint(lpn).is_some_and(|living| !has(living.hint)) {
            return wrong("does not have the hint that lives");
        }
        Ok(None)
    }
}

impl Audit {
    pub(crate) fn count(&mut self, what: &'static str, kept: u64, counted: u64) {
        if kept != counted {
            self.map_findings.push(Finding::Count { what, kept, counted });
        }
    }

    /// All findings.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.map_findings.iter().chain(&self.unit_findings)
    }
}

fn places_of(geometry: &Geometry, block: BlockId) -> impl Iterator<Item = Ppn> + use<> {
    let first = geometry.first_unit(block).0;
    (first..first + geometry.units_per_block()).map(Ppn)
}
