//! A page of units that garbage collection moves: what their copies' spare areas say, and what owns the new places.
//!
//! A copyback keeps the versions of a unit and takes a new step (hazard 6). It lists all owners of the unit; those that
//! do not fit in the spare area go into the journal (hazard 5).

use std::collections::VecDeque;

use tantalum_canaries::guard;
use tantalum_nand::{Nand, Nanoseconds, Ppn, Source, UnitSpare};

use crate::error::{Damage, FtlError};
use crate::map::{Claim, Map, Owner};
use crate::page_image::PageImage;
use crate::placement::Handle;
use crate::space::Target;
use crate::spare::{self, Kind, Mark, Spare};
use crate::tenants::records::{PackedRecords, Records};
use crate::tenants::units::Units;
use crate::types::{Lpn, Seq, TxId};

/// A unit in transit.
#[derive(Clone, Copy)]
pub(crate) enum Moving {
    /// One owner, whose version the new spare area records.
    Plain(Lpn),
    /// Several owners, or versions that the old spare area does not record.
    Owners {
        /// How many of them its new spare area has no room for.
        spilled: u32,
    },
    /// A page of an open transaction.
    Transaction(TxId, Lpn),
    /// Packed records, in the order in which such units were put on the page.
    Packed,
}

/// A page of units in transit.
pub(crate) struct MovingPage {
    pub target: Target,
    /// The page's contents, except the plain units that came last: a page that holds only plain units skips this.
    page: PageImage,
    units: Vec<(Ppn, Moving)>,
    /// The handles of its units but the packed ones, on a drive with placement.
    pub handles: Vec<Handle>,
    packed: VecDeque<PackedRecords>,
    /// The page may be programmed from then on.
    pub earliest_ns: Nanoseconds,
    pub step: Seq,
    /// Whether an owner comes from a share, a remap or a commit that may not be on flash yet.
    pub waits_for_steps: bool,
}

impl MovingPage {
    /// An empty page for a stream.
    pub fn new(target: Target, earliest_ns: Nanoseconds) -> MovingPage {
        MovingPage {
            target,
            page: PageImage::new(),
            units: Vec::with_capacity(4),
            handles: Vec::new(),
            packed: VecDeque::new(),
            earliest_ns,
            step: Seq(0),
            waits_for_steps: false,
        }
    }

    /// Whether nothing is on it.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Units on it.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Records that the owners take for which the new spare areas have no room.
    pub fn spilled(&self) -> usize {
        let spilled = |(_, how): &(Ppn, Moving)| match how {
            Moving::Owners { spilled } => *spilled as usize,
            Moving::Plain(_) | Moving::Transaction(..) | Moving::Packed => 0,
        };
        self.units.iter().map(spilled).sum()
    }

    /// Adds a plain unit.
    #[inline]
    pub fn take_plain(&mut self, ppn: Ppn, lpn: Lpn) {
        self.units.push((ppn, Moving::Plain(lpn)));
    }

    /// Adds a unit that is more than plain. Returns how many owners it has.
    pub fn take_marked(
        &mut self,
        ppn: Ppn,
        map: &mut Map,
        units: &Units,
        nand: &Nand,
    ) -> Result<usize, FtlError> {
        let old = Spare::decode(&nand.spare(ppn)?).ok_or(Damage::Spare { ppn })?;
        let told = map.tell_versions(ppn, |lpn| old.version_of(lpn));
        told.map_err(|lpn| Damage::Owner { ppn, lpn })?;
        let mut copy = Spare::new(Kind::Data, self.step);
        (copy.metadata, copy.handle) = (old.metadata, guard!(CopyForgetsHandle, old.handle));
        let owners = match map.owner(ppn) {
            Owner::Plain(lpn) => vec![(lpn, old.version_of(lpn).ok_or(Damage::Owner { ppn, lpn })?)],
            Owner::Claim(Claim::Owners(owners)) => owners.clone(),
            Owner::Claim(&Claim::Transaction(tx, lpn)) => {
                copy.kind = Kind::Transaction;
                copy.push_owner(lpn, old.version_of(lpn).unwrap_or(old.step));
                let copy = (Source::Copy(ppn), copy.encode());
                self.push(nand, (ppn, Moving::Transaction(tx, lpn)), copy)?;
                return Ok(1);
            }
            Owner::None | Owner::Packed(_) => unreachable!("unit {ppn} is a block namespace's"),
        };
        let (count, log_lpn) = (owners.len(), units.living_log_page(&old, &owners));
        if log_lpn.is_some() {
            copy.mark = old.mark;
        }
        // the log page comes first: its version is the hint's
        let mut ordered = owners;
        ordered.sort_by_key(|owner| (Some(owner.0) != log_lpn, owner.0));
        let mut spilled = 0;
        for &(lpn, version) in &ordered {
            debug_assert!(
                version < self.step,
                "a copy of step {} names lpn {lpn} at version {version}",
                self.step
            );
            spilled += u32::from(!copy.push_owner(lpn, version));
        }
        let how = match ordered[..] {
            [(lpn, _)] if map.owner(ppn) == Owner::Plain(lpn) => Moving::Plain(lpn),
            _ => Moving::Owners { spilled },
        };
        self.page.marked |= matches!(copy.mark, Mark::Hint(..));
        self.push(nand, (ppn, how), (Source::Copy(ppn), copy.encode()))?;
        Ok(count)
    }

    /// Adds packed records.
    pub fn take_packed(&mut self, packed: PackedRecords, nand: &mut Nand) -> Result<(), FtlError> {
        let source = Source::Staged(nand.stage(packed.bytes())?);
        let spare = packed.spare(self.step).encode();
        // nobody owns the place: the packed contents came from several places
        self.push(nand, (Ppn(0), Moving::Packed), (source, spare))?;
        self.earliest_ns = self.earliest_ns.max(packed.ready_ns());
        self.packed.push_back(packed);
        Ok(())
    }

    pub fn push(
        &mut self,
        nand: &Nand,
        (ppn, how): (Ppn, Moving),
        unit: (Source, UnitSpare),
    ) -> Result<(), FtlError> {
        self.place_plain(nand)?;
        self.page.push(unit.0, unit.1);
        self.units.push((ppn, how));
        Ok(())
    }

    /// Puts the plain units that came last into the page image.
    fn place_plain(&mut self, nand: &Nand) -> Result<(), FtlError> {
        let head = spare::head(self.step);
        for &(ppn, _) in &self.units[self.page.used..] {
            let mut spare = nand.spare(ppn)?;
            spare[..head.len()].copy_from_slice(&head);
            self.page.push(Source::Copy(ppn), spare);
        }
        Ok(())
    }

    /// The places of its units, if the page holds only plain units, of which there are this many.
    pub fn plain_units(&self, units: usize) -> Option<impl Iterator<Item = Ppn> + '_> {
        let is_plain = self.page.used == 0 && self.units.len() == units;
        is_plain.then(|| self.units.iter().map(|unit| unit.0))
    }

    /// The page image, with all units.
    pub fn image(&mut self, nand: &Nand) -> Result<&PageImage, FtlError> {
        self.place_plain(nand)?;
        Ok(&self.page)
    }

    /// The page was programmed. Returns how many of its units are of units, and how many of records.
    pub fn programmed(&mut self) -> (u64, u64) {
        self.page.is_programmed();
        let packed = self.packed.len();
        ((self.units.len() - packed) as u64, packed as u64)
    }

    /// Gives the new places, from `first` on, to the owners of plain units, if the page holds only these. False if not.
    pub fn move_plain(&mut self, first: Ppn, map: &mut Map) -> bool {
        if self.page.used > 0 {
            return false;
        }
        let plain = self.units.iter().map(|(from, how)| match how {
            Moving::Plain(lpn) => (*lpn, *from),
            _ => unreachable!("what is not plain is in the page image"),
        });
        map.relocate_plain(plain, first);
        true
    }

    /// Gives the new place of one unit to its owners. Returns those that its spare area has no room for.
    pub fn move_unit(
        &mut self,
        index: usize,
        to: Ppn,
        map: &mut Map,
        units: &mut Units,
        records: &mut Records,
    ) -> Vec<(Lpn, Seq)> {
        let (from, how) = self.units[index];
        match how {
            Moving::Plain(lpn) => map.relocate_plain(std::iter::once((lpn, from)), to),
            Moving::Packed => {
                let packed = self.packed.pop_front().expect("there is one for each such unit");
                records.moved(&packed, to, map);
            }
            Moving::Transaction(tx, lpn) => units.transaction_moved(map, (tx, lpn), from, to),
            Moving::Owners { spilled } => {
                map.relocate_owners(from, to, spilled == 0);
                if guard!(ExtraOwnersForgotten, spilled > 0) {
                    return self.spilled_owners(index, to, map);
                }
            }
        }
        Vec::new()
    }

    fn spilled_owners(&self, index: usize, to: Ppn, map: &Map) -> Vec<(Lpn, Seq)> {
        let spare = Spare::decode(&self.page.spares[index]).expect("it was just encoded");
        let Owner::Claim(Claim::Owners(owners)) = map.owner(to) else { return Vec::new() };
        owners.iter().filter(|owner| spare.version_of(owner.0).is_none()).copied().collect()
    }

    /// Its units are moved: it is empty again, and may be programmed from `earliest_ns` on.
    pub fn begin_anew(&mut self, earliest_ns: Nanoseconds) {
        debug_assert!(self.packed.is_empty(), "{} packed units have no place", self.packed.len());
        self.units.clear();
        self.page.clear();
        self.waits_for_steps = false;
        self.earliest_ns = earliest_ns;
    }

    /// Its units stay where they are. The buffers of a page that was not programmed are released.
    pub fn give_up(&self, nand: &mut Nand, error: &FtlError) {
        self.page.give_up_after(nand, error);
    }
}
