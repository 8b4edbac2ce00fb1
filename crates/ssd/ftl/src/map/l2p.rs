//! L2P and P2L: the place of each logical page, and the owner of each place.
//!
//! Invariants:
//! - `l2p[x] == p` exactly if `x` is among the owners of `p`.
//! - A place with a *plain* owner has one owner, whose version its spare area records. Every other place in use has an
//!   entry in `claims`, with versions.
//! - `valid[b]` is the number of places in use in block `b`. Places of tenants that pack count as the units that their
//!   contents in use need when moved together.
//!
//! Two arrays; the rare rest is in a table. L2P has four bytes per entry, because reads wait for it; P2L has as few bits as
//! it needs.

use tantalum_nand::{Array, BlockId, Geometry, MAX_UNITS_PER_PAGE, Nand, NarrowArray, PageState, Ppn};

use super::owner::{Claim, IN_SPARE, Owner};
use super::packed::{MOST_PACKED, Packed, PackedEntry, Removal};
use super::touched::{CHUNK_ENTRIES, Touched};
use super::valid::ValidCounts;
use crate::types::{HashMap, Lpn, Seq, TenantId};

/// In L2P: hints refer to the page.
const FLAG: u32 = 1 << 31;

/// The map.
#[derive(Clone, Debug)]
pub struct Map {
    /// 0, or the place plus 1, with [`FLAG`].
    l2p: Array,
    /// 0, or the owner plus 1. From `claimed` on: plus 0, there is a claim; plus a [`PackedEntry`], a tenant packs the
    /// place's contents.
    p2l: NarrowArray,
    claimed: u32,
    valid: ValidCounts,
    /// Logical pages that have a place.
    mapped_units: u32,
    packed: Packed,
    claims: HashMap<u32, Claim>,
    extra_owners: usize,
    touched: Touched,
    units_per_block: u32,
}

impl Map {
    /// An empty map. Untouched memory costs nothing.
    pub fn new(geometry: &Geometry, logical_units: u32) -> Map {
        Map {
            l2p: Array::zeroed(logical_units as usize),
            p2l: NarrowArray::zeroed(geometry.units() as usize, logical_units + 1 + MOST_PACKED),
            claimed: logical_units + 1,
            valid: ValidCounts::new(geometry.blocks(), geometry.units_per_block()),
            mapped_units: 0,
            packed: Packed::default(),
            claims: HashMap::default(),
            extra_owners: 0,
            touched: Touched::new(logical_units),
            units_per_block: geometry.units_per_block(),
        }
    }

    /// This many chunks of L2P, of which nothing is mapped yet, are about to be filled. If that is most of it, huge pages
    /// are much cheaper to get.
    pub fn expect(&mut self, chunks: usize) {
        debug_assert_eq!(self.mapped_units, 0, "something is mapped");
        if 2 * chunks > self.touched.chunks().len() {
            self.l2p = Array::to_fill(self.l2p.len());
        }
    }

    /// Logical capacity.
    pub fn logical_units(&self) -> u32 {
        self.l2p.len() as u32
    }

    /// Logical pages that have a place.
    pub fn mapped_units(&self) -> u32 {
        self.mapped_units
    }

    /// Units that the packed contents in use need.
    pub fn packed_units(&self) -> u64 {
        self.packed.units()
    }

    /// Whether units of a block have packed contents in use.
    pub fn has_packed(&self, block: BlockId) -> bool {
        self.packed.has_some(block.0)
    }

    /// What would be given back if packed contents were removed.
    pub(crate) fn removal(&self) -> Removal<'_> {
        Removal::new(&self.packed, self.units_per_block)
    }

    /// Bytes of host memory that the map may touch.
    pub fn dram_bytes(&self) -> usize {
        size_of_val(&self.l2p[..]) + self.p2l.bytes() + self.valid.dram_bytes()
    }

    /// The place of a logical page.
    #[inline]
    pub fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        (self.l2p[lpn.index()] & !FLAG).checked_sub(1).map(Ppn)
    }

    /// Brings the entry of a logical page into the processor's cache, if there is one.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        if lpn.index() < self.l2p.len() {
            self.l2p.prefetch(lpn.index(), 1);
        }
    }

    /// Whether hints refer to this page, as a log page or as a home.
    #[inline]
    pub fn is_hinted(&self, lpn: Lpn) -> bool {
        self.l2p[lpn.index()] & FLAG != 0
    }

    /// Records whether hints refer to this page.
    pub fn set_hinted(&mut self, lpn: Lpn, hinted: bool) {
        let entry = &mut self.l2p[lpn.index()];
        *entry = if hinted { *entry | FLAG } else { *entry & !FLAG };
    }

    /// The owner of a place.
    #[inline]
    pub fn owner(&self, ppn: Ppn) -> Owner<'_> {
        self.owner_by(ppn, self.p2l.get(ppn.index()))
    }

    /// The owners of a block's places, in order.
    #[inline]
    pub fn owners_in(&self, block: BlockId) -> impl Iterator<Item = (Ppn, Owner<'_>)> {
        let first = block.0 * self.units_per_block;
        let entries = self.p2l.run(first as usize..(first + self.units_per_block) as usize);
        (first..).map(Ppn).zip(entries).map(|(ppn, entry)| (ppn, self.owner_by(ppn, entry)))
    }

    #[inline]
    fn owner_by(&self, ppn: Ppn, entry: u32) -> Owner<'_> {
        match entry {
            0 => Owner::None,
            entry if entry < self.claimed => Owner::Plain(Lpn(entry - 1)),
            entry => match PackedEntry::decode(entry - self.claimed) {
                Some(packed) => Owner::Packed(packed.tenant),
                None => Owner::Claim(&self.claims[&ppn.0]),
            },
        }
    }

    /// The logical pages that own a place, with versions where P2L has them.
    pub fn owners(&self, ppn: Ppn) -> Vec<(Lpn, Option<Seq>)> {
        match self.owner(ppn) {
            Owner::None | Owner::Packed(_) | Owner::Claim(Claim::Transaction(..)) => Vec::new(),
            Owner::Plain(lpn) => vec![(lpn, None)],
            Owner::Claim(Claim::Owners(owners)) => {
                let told = |version: Seq| (version != IN_SPARE).then_some(version);
                owners.iter().map(|(lpn, version)| (*lpn, told(*version))).collect()
            }
        }
    }

    /// Whether a block contains units, none of which can be read.
    pub(crate) fn keeps_only_lost_units(&self, block: BlockId, nand: &Nand) -> bool {
        let is_lost = |ppn| nand.page_state(nand.geometry().page_of(ppn)) == PageState::Uncorrectable;
        let mut owned = self.owners_in(block).filter(|(_, owner)| *owner != Owner::None);
        self.valid(block) > 0 && owned.all(|(ppn, _)| is_lost(ppn))
    }

    /// Places in use in a block.
    #[inline]
    pub fn valid(&self, block: BlockId) -> u32 {
        self.valid.get(block)
    }

    /// Places in use in all blocks.
    pub fn all_valid(&self) -> u64 {
        self.valid.total()
    }

    /// A block is closed: it may be collected from now on.
    pub fn add_candidate(&mut self, block: BlockId) {
        self.valid.add_candidate(block);
    }

    /// A block may no longer be collected.
    pub fn remove_candidate(&mut self, block: BlockId) {
        self.valid.remove_candidate(block);
    }

    /// Whether a block may be collected.
    pub fn is_candidate(&self, block: BlockId) -> bool {
        self.valid.is_candidate(block)
    }

    /// The block that may be collected with the fewest places in use; none if all are full of them.
    pub fn fewest_valid(&mut self) -> Option<BlockId> {
        self.valid.fewest_valid()
    }

    /// All blocks that may be collected and are not full of places in use, fewest first.
    pub fn candidates(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.valid.candidates()
    }

    /// Owners beyond the first of every shared place (SHARE's reverse-mapping table).
    pub fn extra_owners(&self) -> usize {
        self.extra_owners
    }

    /// All claims, in no order.
    pub fn claims(&self) -> impl ExactSizeIterator<Item = (Ppn, &Claim)> {
        self.claims.iter().map(|(&ppn, claim)| (Ppn(ppn), claim))
    }

    /// The chunks of L2P that were ever mapped, with their entries: 0, or the place plus 1. For checkpoints.
    pub fn chunks(&self) -> impl Iterator<Item = (usize, impl ExactSizeIterator<Item = u32> + '_)> {
        let chunks = self.l2p.chunks(CHUNK_ENTRIES).zip(self.touched.chunks()).enumerate();
        chunks
            .filter(|(_, (_, touched))| **touched)
            .map(|(index, (entries, _))| (index, entries.iter().map(|entry| entry & !FLAG)))
    }

    /// Prefetches what is about to be remapped into the processor's cache, so that the misses overlap.
    #[inline]
    pub fn warm(&self, lpns: impl Iterator<Item = Lpn>) {
        let mut places = [0; MAX_UNITS_PER_PAGE];
        for (place, lpn) in places.iter_mut().zip(lpns) {
            *place = (self.l2p[lpn.index()] & !FLAG).saturating_sub(1);
        }
        let owners = places.iter().fold(0, |owners, place| owners ^ self.p2l.get(*place as usize));
        std::hint::black_box(owners);
    }

    /// Points `lpn` at a newly programmed place whose spare area names it as the only owner.
    #[inline]
    pub fn map_plain(&mut self, lpn: Lpn, ppn: Ppn) {
        let old = self.l2p[lpn.index()];
        match (old & !FLAG).checked_sub(1) {
            Some(place) => self.release(lpn, Ppn(place)),
            None => self.mapped_units += 1,
        }
        debug_assert_eq!(self.p2l.get(ppn.index()), 0, "a fresh place has no owner");
        self.l2p[lpn.index()] = (old & FLAG) | (ppn.0 + 1);
        self.p2l.set(ppn.index(), lpn.0 + 1);
        self.valid.increase(ppn.0 / self.units_per_block);
        self.touched.touch(lpn);
    }

    /// Points `lpn` at a place, in addition to the owners that it has. The version may be [`IN_SPARE`].
    pub fn map_shared(&mut self, lpn: Lpn, version: Seq, ppn: Ppn) {
        match self.lookup(lpn) {
            Some(old) => {
                assert_ne!(old, ppn, "lpn {lpn} is at unit {ppn} already, perhaps at another version");
                self.release(lpn, old);
            }
            None => self.mapped_units += 1,
        }
        let entry = self.p2l.get(ppn.index());
        if entry == 0 {
            self.claim(ppn, Claim::Owners(vec![(lpn, version)]));
        } else if entry < self.claimed {
            let first = Lpn(entry - 1);
            self.p2l.set(ppn.index(), self.claimed);
            self.claims.insert(ppn.0, Claim::Owners(vec![(first, IN_SPARE), (lpn, version)]));
            self.extra_owners += 1;
        } else {
            match self.claims.get_mut(&ppn.0) {
                Some(Claim::Owners(owners)) => owners.push((lpn, version)),
                other => panic!("unit {ppn} cannot be shared with lpn {lpn}: its claim is {other:?}"),
            }
            self.extra_owners += 1;
        }
        self.point(lpn, ppn);
        self.touched.touch(lpn);
    }

    /// Gives a logical page another place in L2P.
    fn point(&mut self, lpn: Lpn, ppn: Ppn) {
        let entry = &mut self.l2p[lpn.index()];
        *entry = (*entry & FLAG) | (ppn.0 + 1);
    }

    /// How many chunks of L2P were ever mapped.
    pub fn touched_chunks(&self) -> usize {
        self.touched.count()
    }

    /// Makes a logical page unmapped.
    #[inline]
    pub fn unmap(&mut self, lpn: Lpn) {
        let old = self.l2p[lpn.index()];
        if old & !FLAG != 0 {
            self.release(lpn, Ppn((old & !FLAG) - 1));
            self.l2p[lpn.index()] = old & FLAG;
            self.mapped_units -= 1;
        }
    }

    /// Removes `lpn` from the owners of a place.
    #[inline]
    fn release(&mut self, lpn: Lpn, ppn: Ppn) {
        let entry = self.p2l.get(ppn.index());
        if entry < self.claimed {
            debug_assert_eq!(entry, lpn.0 + 1, "l2p and p2l disagree on unit {ppn}");
            self.clear(ppn);
            return;
        }
        let Some(Claim::Owners(owners)) = self.claims.get_mut(&ppn.0) else {
            panic!("unit {ppn} is mapped by lpn {lpn} but has no owners");
        };
        owners.retain(|owner| owner.0 != lpn);
        if owners.is_empty() {
            self.claims.remove(&ppn.0);
            self.clear(ppn);
        } else {
            self.extra_owners -= 1;
        }
    }

    #[inline]
    fn clear(&mut self, ppn: Ppn) {
        self.p2l.set(ppn.index(), 0);
        self.valid.decrease(ppn.0 / self.units_per_block);
    }

    /// Gives a claim to a place without an owner.
    pub fn claim(&mut self, ppn: Ppn, claim: Claim) {
        assert_eq!(self.p2l.get(ppn.index()), 0, "unit {ppn} has an owner already");
        self.p2l.set(ppn.index(), self.claimed);
        self.valid.increase(ppn.0 / self.units_per_block);
        if let Claim::Owners(owners) = &claim {
            self.extra_owners += owners.len() - 1;
        }
        self.claims.insert(ppn.0, claim);
    }

    /// Removes the claim of a place, which then has no owner. L2P is not changed.
    pub fn unclaim(&mut self, ppn: Ppn) -> Claim {
        let claim = self.claims.remove(&ppn.0).unwrap_or_else(|| panic!("unit {ppn} has no claim"));
        if let Claim::Owners(owners) = &claim {
            self.extra_owners -= owners.len() - 1;
        }
        self.clear(ppn);
        claim
    }

    /// Moves plain owners to consecutive new places from `first` on, all in one block, whose spare areas record their
    /// versions.
    #[inline]
    pub fn relocate_plain(&mut self, units: impl Iterator<Item = (Lpn, Ppn)>, first: Ppn) {
        let (mut p2l, l2p) = (self.p2l.view_mut(), &mut *self.l2p);
        let mut to = first.0;
        for (lpn, from) in units {
            debug_assert_eq!(p2l.get(from.index()), lpn.0 + 1, "unit {from} is not plain");
            debug_assert_eq!(p2l.get(to as usize), 0, "lpn {lpn} moves to unit {to}, which has an owner");
            p2l.set(from.index(), 0);
            p2l.set(to as usize, lpn.0 + 1);
            let entry = &mut l2p[lpn.index()];
            *entry = (*entry & FLAG) | (to + 1);
            self.valid.decrease(from.0 / self.units_per_block);
            to += 1;
        }
        self.valid.increase_by(first.0 / self.units_per_block, to - first.0);
    }

    /// Panics unless plain owners are where they are expected. The misses of these L2P accesses overlap, and leave L2P
    /// in the processor's cache.
    #[inline]
    pub fn assert_at(&self, units: impl Iterator<Item = (Lpn, Ppn)>) {
        let l2p = &*self.l2p;
        for (lpn, ppn) in units {
            assert_eq!(l2p[lpn.index()] & !FLAG, ppn.0 + 1, "P2L says that unit {ppn} is lpn {lpn}");
        }
    }

    /// Moves all owners of a shared place to a new one. If `in_spare`, the new place's spare area names a sole
    /// owner with its version, which is plain from then on.
    pub fn relocate_owners(&mut self, from: Ppn, to: Ppn, in_spare: bool) {
        let claim = self.unclaim(from);
        let Claim::Owners(owners) = &claim else { panic!("unit {from} has no owners") };
        owners.iter().for_each(|(lpn, _)| self.point(*lpn, to));
        match owners[..] {
            [(lpn, _)] if in_spare => {
                self.p2l.set(to.index(), lpn.0 + 1);
                self.valid.increase(to.0 / self.units_per_block);
            }
            _ => self.claim(to, claim),
        }
    }

    /// Contents of this weight at a place of a tenant that packs are in use.
    pub fn add_packed(&mut self, tenant: TenantId, ppn: Ppn, weight: u32) {
        let there = self.packed_at(ppn);
        let is_theirs = there.map_or(self.owner(ppn) == Owner::None, |there| there.tenant == tenant);
        assert!(is_theirs, "unit {ppn} is not of tenant {tenant:?}");
        self.set_packed(ppn, PackedEntry { tenant, weight: there.map_or(0, |there| there.weight) + weight });
        let block = ppn.0 / self.units_per_block;
        self.packed.recount(block, &mut self.valid, |packed| {
            packed.weight += weight;
            packed.units += u32::from(there.is_none());
        });
    }

    /// Contents of this weight at a place are no longer in use.
    pub fn remove_packed(&mut self, ppn: Ppn, weight: u32) {
        let there = self.packed_at(ppn).filter(|there| there.weight >= weight);
        let there = there.unwrap_or_else(|| panic!("unit {ppn} has nothing of weight {weight}"));
        let last = there.weight == weight;
        self.set_packed(ppn, PackedEntry { weight: there.weight - weight, ..there });
        let block = ppn.0 / self.units_per_block;
        self.packed.recount(block, &mut self.valid, |packed| {
            packed.weight -= weight;
            packed.units -= u32::from(last);
        });
    }

    /// The weight in use at a place of a tenant that packs.
    pub fn packed_weight(&self, ppn: Ppn) -> u32 {
        self.packed_at(ppn).map_or(0, |there| there.weight)
    }

    fn packed_at(&self, ppn: Ppn) -> Option<PackedEntry> {
        self.p2l.get(ppn.index()).checked_sub(self.claimed).and_then(PackedEntry::decode)
    }

    fn set_packed(&mut self, ppn: Ppn, packed: PackedEntry) {
        let entry = if packed.weight == 0 { 0 } else { self.claimed + packed.encode() };
        self.p2l.set(ppn.index(), entry);
    }

    /// Builds L2P, P2L and valid counts from what recovery found; `versions` has those that spare areas do not record.
    pub fn rebuild(&mut self, places: impl Iterator<Item = (Lpn, Ppn)>, versions: &HashMap<u32, Seq>) {
        for (lpn, ppn) in places {
            match versions.get(&lpn.0) {
                None if self.p2l.get(ppn.index()) == 0 => self.map_plain(lpn, ppn),
                version => self.map_shared(lpn, version.copied().unwrap_or(IN_SPARE), ppn),
            }
        }
    }

    /// The owners of a place are about to move away from its spare area: stores the versions that it records, by
    /// `version_of`. Returns the owner whose version it does not record, if there is one.
    pub fn tell_versions(&mut self, ppn: Ppn, version_of: impl Fn(Lpn) -> Option<Seq>) -> Result<(), Lpn> {
        let Some(Claim::Owners(owners)) = self.claims.get_mut(&ppn.0) else { return Ok(()) };
        for (lpn, version) in owners.iter_mut().filter(|owner| owner.1 == IN_SPARE) {
            *version = version_of(*lpn).ok_or(*lpn)?;
        }
        Ok(())
    }

    /// The chunks of L2P that were ever mapped, as ranges of logical pages. All others are unmapped.
    pub fn touched(&self) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        self.touched.ranges()
    }
}
