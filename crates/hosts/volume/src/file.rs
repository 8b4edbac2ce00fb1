//! A file apart from its names: what programs see of it, what the drive knows of it, and the units that it has.
//!
//! Invariant (V3): what the drive's inode names is still the file's, or is in `freed` until the drive has another inode.

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::{FileId, FileKind, Metadata, MetadataChange, NewFile, Timestamp};

use crate::allocate;
use crate::continuation::ContinuationUnit;
use crate::error::VolumeError;
use crate::extents::{Extent, ExtentMap, LpnRange};
use crate::inode::{ATTRIBUTE_BYTES, Inode, units_of};
use crate::properties::Properties;
use crate::space::Space;

/// A continuation of an inode, and its slot.
#[derive(Clone)]
pub(crate) struct Continuation {
    pub slot: u32,
    pub unit: Box<ContinuationUnit>,
}

/// One file.
#[derive(Clone)]
pub(crate) struct File {
    /// As programs see it.
    inode: Inode,
    /// The inode on the drive; none if the drive does not know the file.
    stored: Option<Box<Inode>>,
    /// The continuations of `stored`.
    continuations: Vec<Continuation>,
    /// `inode`, or the file's name in it, may differ from what is stored.
    dirty: bool,
    /// Times of `inode` may differ from those of `stored`.
    times_dirty: bool,
    /// Some of the file's units may be mapped on the drive, and need a trim when they are given up.
    touched: bool,
    /// Given up by `inode`, but `stored` may still name them.
    freed: Vec<LpnRange>,
}

impl File {
    /// A file that the drive does not know; with a target, if it is a symbolic link.
    pub fn new(number: FileId, target: &[u8], new: &NewFile) -> File {
        let mut inode = Inode::new(number, new.kind);
        inode.permissions = new.permissions & 0o7777;
        (inode.owner, inode.group, inode.device_number) = (new.owner, new.group, new.device_number);
        (inode.accessed, inode.modified) = (new.now, new.now);
        (inode.changed, inode.created) = (new.now, new.now);
        inode.properties = Properties::of_link(target);
        File {
            inode,
            stored: None,
            continuations: Vec::new(),
            dirty: true,
            times_dirty: false,
            touched: false,
            freed: Vec::new(),
        }
    }

    /// A file whose inode is on the drive.
    pub fn stored(inode: Inode, continuations: Vec<Continuation>) -> File {
        let stored = Some(Box::new(inode.clone()));
        File {
            inode,
            stored,
            continuations,
            dirty: false,
            times_dirty: false,
            touched: true,
            freed: Vec::new(),
        }
    }

    // -- contents -----------------------------------------------------------------------------------------------------

    /// The file, if it has contents that programs read and write.
    pub fn check_contents(&self) -> Result<&File, VolumeError> {
        match self.inode.kind {
            FileKind::File => Ok(self),
            FileKind::Folder => Err(VolumeError::IsAFolder(self.inode.number)),
            _ => Err(VolumeError::NotARegularFile(self.inode.number)),
        }
    }

    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        self.inode.size
    }

    /// The unit after the last one with a byte of the file.
    pub fn end(&self) -> u32 {
        units_of(self.inode.size)
    }

    /// Where its units are.
    pub fn extents(&self) -> &ExtentMap {
        &self.inode.extents
    }

    /// The units of `units` that have places, and where they are.
    pub fn placed_units(&self, units: Range<u32>) -> impl Iterator<Item = (u32, Lpn)> {
        let extents = self.inode.extents.between(units.start, units.end);
        extents.flat_map(|extent| (extent.unit..extent.end()).zip((extent.lpn.0..).map(Lpn)))
    }

    /// Where a unit is that has a place.
    pub fn place(&self, unit: u32) -> LpnRange {
        self.inode
            .extents
            .run(unit)
            .unwrap_or_else(|| panic!("unit {unit} of file {} has no place", self.inode.number.0))
    }

    /// Whether all of the units have places that the drive's inode names, within a size that it knows.
    pub fn is_in_place(&self, units: Range<u32>, end_bytes: u64) -> bool {
        !self.dirty
            && self.stored.is_some()
            && end_bytes <= self.inode.size
            && self.inode.extents.gap(units.start, units.end).is_none()
    }

    /// Some of its units may be mapped on the drive from now on.
    pub fn touch(&mut self) {
        self.touched = true;
    }

    /// Gives units places, of which `missing` have none, and some around them. Without enough free space it does nothing.
    pub fn allocate(
        &mut self,
        units: Range<u32>,
        missing: u64,
        space: &mut Space,
    ) -> Result<(), VolumeError> {
        let (end, before) = (self.end(), self.inode.extents.units());
        let (first, last) = (units.start, units.end);
        let allocated = allocate::place_units(&mut self.inode.extents, end, units, missing, space);
        self.dirty |= self.inode.extents.units() != before;
        debug_assert!(
            allocated.is_err() || self.inode.extents.gap(first, last).is_none(),
            "units {first}..{last} of file {} were allocated and have no places",
            self.inode.number.0
        );
        allocated
    }

    /// How many first units to reserve if there are to be `units`; none if they are reserved for the program already.
    pub fn reservation(&self, units: u32, space: &Space) -> Option<u32> {
        let inode = &self.inode;
        if units <= inode.reserved_units && inode.reserved_by_program {
            return None;
        }
        Some(allocate::reservation(&inode.extents, inode.reserved_units, units, space))
    }

    /// The first `units` units, which have places, keep them and belong to the program.
    pub fn reserve_for_program(&mut self, units: u32) {
        debug_assert_eq!(self.inode.extents.missing(0, units), 0, "reserved units without a place");
        self.keep(units);
        self.inode.reserved_by_program = true;
        self.touched = true;
    }

    /// The first `units` units keep their places.
    pub fn keep(&mut self, units: u32) {
        self.inode.reserved_units = units.max(self.inode.reserved_units);
        self.dirty = true;
    }

    /// Grows the file, if `size` is larger. What is beyond the old size must be zero.
    pub fn grow_to(&mut self, size: u64) {
        if size > self.inode.size {
            self.inode.size = size;
            self.dirty = true;
        }
    }

    /// Shrinks the file. The rest of its last unit keeps its contents.
    pub fn cut_to(&mut self, size: u64, space: &mut Space) {
        let units = units_of(size);
        assert!(
            size <= self.inode.size,
            "file {} of {} bytes is cut to {size}",
            self.inode.number.0,
            self.inode.size
        );
        self.inode.size = size;
        self.inode.reserved_units = self.inode.reserved_units.min(units);
        self.dirty = true;
        self.give_up(units..u32::MAX, space);
    }

    /// Makes a hole of units.
    pub fn make_hole(&mut self, units: Range<u32>, space: &mut Space) {
        if self.inode.extents.between(units.start, units.end).next().is_none() {
            return;
        }
        if self.inode.reserved_by_program {
            // The program's units all have places.
            self.inode.reserved_units = self.inode.reserved_units.min(units.start);
        }
        self.give_up(units, space);
        self.dirty = true;
    }

    /// The units of `units` beyond the file's end; none if these belong to the program (see [`crate::Volume::reserve`]).
    pub fn beyond_end(&self, units: Range<u32>) -> Range<u32> {
        match self.inode.reserved_by_program {
            true => units.end..units.end,
            false => units.start.max(self.end())..units.end,
        }
    }

    /// Units `units` beyond the file's end lose their places, so that the file reads as zeros there when it grows.
    pub fn give_up_beyond_end(&mut self, units: impl Iterator<Item = u32>, space: &mut Space) {
        let end = self.end();
        for unit in units {
            assert!(unit >= end, "unit {unit} of file {} is given up, its end is {end}", self.inode.number.0);
            self.give_up(unit..unit + 1, space);
        }
        self.dirty = true;
    }

    /// The units that were taken ahead of what the file keeps.
    pub fn ahead(&self) -> Range<u32> {
        let kept = self.inode.kept_units(self.inode.size);
        kept..self.inode.extents.end().max(kept)
    }

    /// Gives up the places of units; they are free at once if nothing was ever there.
    pub fn give_up(&mut self, units: Range<u32>, space: &mut Space) {
        let number = self.inode.number.0;
        let is_unknown = self.touched || self.stored.is_none();
        assert!(is_unknown, "units {units:?} of file {number} are freed while the drive knows the file");
        let ranges = self.inode.extents.take(units.start, units.end);
        let ranges = ranges.iter().map(|extent| extent.range());
        if self.touched {
            self.freed.extend(ranges);
        } else {
            ranges.for_each(|range| space.release(range));
        }
    }

    /// Takes the extents of units that another file, or another part of this one, gets.
    pub fn take_extents(&mut self, units: Range<u32>) -> Vec<Extent> {
        self.inode.extents.take(units.start, units.end)
    }

    /// Puts extents that were taken into a gap at `unit`; they were at `from`.
    pub fn put_extents(&mut self, extents: Vec<Extent>, from: u32, unit: u32) {
        for extent in extents {
            self.inode.extents.insert(Extent { unit: extent.unit - from + unit, ..extent });
        }
        (self.dirty, self.touched) = (true, true);
    }

    // -- metadata -----------------------------------------------------------------------------------------------------

    pub fn kind(&self) -> FileKind {
        self.inode.kind
    }

    /// The metadata of a file with this many names.
    pub fn metadata(&self, links: u32) -> Metadata {
        let inode = &self.inode;
        let kept = inode.kept_units(inode.size);
        let ahead: u64 = inode.extents.between(kept, u32::MAX).map(|extent| u64::from(extent.units)).sum();
        let size = match inode.kind {
            FileKind::SymbolicLink => inode.properties.target().len() as u64,
            _ => inode.size,
        };
        Metadata {
            kind: inode.kind,
            permissions: inode.permissions,
            owner: inode.owner,
            group: inode.group,
            links,
            size,
            units: inode.extents.units() - ahead,
            accessed: inode.accessed,
            modified: inode.modified,
            changed: inode.changed,
            created: inode.created,
            device_number: inode.device_number,
        }
    }

    /// Applies `change`, apart from the size.
    pub fn change_metadata(&mut self, change: &MetadataChange) {
        let inode = &mut self.inode;
        let rights = |inode: &Inode| (inode.permissions, inode.owner, inode.group);
        let before = rights(inode);
        inode.permissions = change.permissions.map_or(inode.permissions, |bits| bits & 0o7777);
        inode.owner = change.owner.unwrap_or(inode.owner);
        inode.group = change.group.unwrap_or(inode.group);
        inode.accessed = change.accessed.unwrap_or(inode.accessed);
        inode.modified = change.modified.unwrap_or(inode.modified);
        inode.changed = change.changed.unwrap_or(inode.changed);
        self.dirty |= rights(&self.inode) != before;
        self.times_dirty = true;
    }

    /// The file's contents or a folder's entries have changed.
    pub fn modified(&mut self, now: Timestamp) {
        self.set_times(now, now);
    }

    /// The file's metadata have changed, or its names.
    pub fn changed(&mut self, now: Timestamp) {
        self.set_times(self.inode.modified, now);
    }

    fn set_times(&mut self, modified: Timestamp, changed: Timestamp) {
        let inode = &mut self.inode;
        self.times_dirty |= (inode.modified, inode.changed) != (modified, changed);
        (inode.modified, inode.changed) = (modified, changed);
    }

    pub fn attributes(&self) -> &[u8; ATTRIBUTE_BYTES] {
        &self.inode.attributes
    }

    pub fn set_attributes(&mut self, attributes: &[u8; ATTRIBUTE_BYTES]) {
        self.dirty |= self.inode.attributes != *attributes;
        self.inode.attributes = *attributes;
    }

    pub fn properties(&self) -> &Properties {
        &self.inode.properties
    }

    /// Whether its properties are too large for the inode's own unit.
    pub fn has_properties_outside(&self) -> bool {
        self.inode.has_properties_outside()
    }

    pub fn set_properties(&mut self, properties: Properties) {
        self.dirty |= self.inode.properties != properties;
        self.inode.properties = properties;
    }

    // -- what the drive knows -------------------------------------------------------------------------------------------

    /// Whether the inode, or the file's name in it, may differ from what is stored, apart from times.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Whether anything may differ from what is stored.
    pub fn may_differ(&self) -> bool {
        self.dirty || self.times_dirty
    }

    /// Whether it has given up units that the drive's inode may still name.
    pub fn has_freed(&self) -> bool {
        !self.freed.is_empty()
    }

    /// The file's name in its inode has changed.
    pub fn name_has_changed(&mut self) {
        self.dirty = true;
    }

    /// Changed times are worth writing the inode.
    pub fn times_are_to_be_stored(&mut self) {
        self.dirty |= self.times_dirty;
    }

    /// The inode to be stored, as it is now or will be with a size of `new_size`; none if the drive has it already, under this
    /// name if `name_is_stored`.
    pub fn to_store(&self, new_size: Option<u64>, name_is_stored: bool) -> Option<Box<Inode>> {
        if !self.dirty && new_size.is_none_or(|size| size == self.inode.size) {
            return None;
        }
        let inode = Box::new(self.inode.with_size(new_size.unwrap_or(self.inode.size)));
        let is_stored = name_is_stored && self.stored.as_ref() == Some(&inode);
        (!is_stored).then_some(inode)
    }

    /// The inode to be stored when only names are: the drive's, or that of a new file without its contents.
    pub fn to_store_with_name(&self) -> Box<Inode> {
        match &self.stored {
            Some(stored) => stored.clone(),
            None => Box::new(self.inode.without_content()),
        }
    }

    /// The continuations of the inode on the drive.
    pub fn continuations(&self) -> &[Continuation] {
        &self.continuations
    }

    /// The drive has this inode, with the same continuations as before.
    pub fn inode_is_stored(&mut self, inode: Box<Inode>) {
        self.stored = Some(inode);
        self.touched = true;
    }

    /// The drive has this inode. Returns the continuations of the one before.
    pub fn replace_stored(
        &mut self,
        inode: Box<Inode>,
        continuations: Vec<Continuation>,
    ) -> Vec<Continuation> {
        assert_eq!(inode.number, self.inode.number, "the number of an inode that is stored, and of its file");
        self.inode_is_stored(inode);
        std::mem::replace(&mut self.continuations, continuations)
    }

    /// The drive's inode equals the file's: nothing durable names what the file gave up any more. Returns that.
    pub fn inode_is_clean(&mut self) -> Vec<LpnRange> {
        self.dirty = false;
        self.times_dirty &= self.stored.as_ref().is_none_or(|stored| !stored.has_times_of(&self.inode));
        self.take_freed()
    }

    /// What the file gave up, and no durable inode names any more.
    pub fn take_freed(&mut self) -> Vec<LpnRange> {
        std::mem::take(&mut self.freed)
    }

    /// The drive is to forget the file, which has lost its last name. Returns whether the drive knows it, and the slots of its
    /// continuations there.
    pub fn unstore(&mut self) -> (bool, Vec<u32>) {
        let continuations = std::mem::take(&mut self.continuations);
        (self.stored.take().is_some(), continuations.iter().map(|c| c.slot).collect())
    }

    // -- checks -------------------------------------------------------------------------------------------------------

    /// Checks that the file is what the drive knows of it, found by this number.
    pub fn assert_invariants(&self, id: FileId) {
        assert_eq!(self.inode.number, id, "the number in an inode, and the one that it is found by");
        self.inode.extents.assert_invariants();
        let Some(stored) = &self.stored else { return };
        let mut kept: Vec<LpnRange> = self.owned().collect();
        kept.sort_unstable();
        let units: u64 = stored.extents.iter().map(|extent| units_within(extent.range(), &kept)).sum();
        assert_eq!(
            units,
            stored.extents.units(),
            "units that file {} kept of those that its inode names",
            id.0
        );
    }

    /// The units that belong to it, given up or not.
    pub fn owned(&self) -> impl Iterator<Item = LpnRange> {
        self.inode.extents.iter().map(|extent| extent.range()).chain(self.freed.iter().copied())
    }

    /// Whether the drive knows the file.
    pub fn is_stored(&self) -> bool {
        self.stored.is_some()
    }
}

/// Units of `range` that are in `kept`, which is sorted and does not overlap.
fn units_within(range: LpnRange, kept: &[LpnRange]) -> u64 {
    let first = kept.partition_point(|kept| kept.end() <= range.lpn.0);
    let touching = kept[first..].iter().take_while(|kept| kept.lpn.0 < range.end());
    touching.map(|kept| u64::from(kept.end().min(range.end()) - kept.lpn.0.max(range.lpn.0))).sum()
}
