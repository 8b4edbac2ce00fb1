//! What one controller sees of the namespaces, and the namespace of a command.

use tantalum::{Handle, NamespaceId};

use super::reservation::Denied;
use super::table::{Entry, Pending, Sanitize, Table};
use super::zones::{ZONES_NAMESPACE, ZoneSpace, ZonesTarget};
use super::{RECORDS, ZONES, contents_of, namespace_of};
use crate::blocks::BlockSpace;
use crate::failure::Failure;

/// The namespace of a command, as it was when the command was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// Its blocks; none for a namespace with records.
    pub space: BlockSpace,
    /// Its slot in the table.
    pub(super) slot: u8,
    /// The right to its part of the drive.
    pub(super) right: u64,
    /// Whether reads of deallocated blocks fail.
    pub reports_deallocated: bool,
    /// Whether the drive has blocks that are marked as not readable.
    pub has_marks: bool,
    /// What the controller's host may not do, because of a reservation.
    pub denied: Denied,
}

/// How it stands with a part of the drive, besides the table.
pub(super) struct Part {
    pub right: u64,
    pub reports_deallocated: bool,
    pub has_marks: bool,
    pub denied: Denied,
}

impl Target {
    /// Whether it is the same namespace, with the same contents.
    #[inline]
    pub fn is_same(&self, other: &Target) -> bool {
        self.slot == other.slot && contents_of(self.right) == contents_of(other.right)
    }

    /// Whether commands find out about blocks before they read or write them.
    #[inline]
    pub fn is_checked(&self) -> bool {
        self.reports_deallocated | self.has_marks
    }

    fn new(slot: usize, space: BlockSpace, part: &Part) -> Target {
        let Part { right, reports_deallocated, has_marks, denied } = *part;
        Target { space, slot: slot as u8, right, reports_deallocated, has_marks, denied }
    }
}

/// The namespaces that are attached to a controller.
#[derive(Clone, Debug)]
pub struct View {
    version: u64,
    /// Block namespaces by number.
    blocks: Vec<(u32, Target)>,
    /// Their reclaim unit handles.
    handles: Vec<Vec<Handle>>,
    /// How many the drive has.
    drive_handles: u32,
    /// Those of them that are being formatted.
    formatted: Vec<u32>,
    key_value: Vec<NamespaceId>,
    records: Target,
    zones: Option<ZonesTarget>,
    sanitize: Sanitize,
}

impl View {
    /// Of a table, with a bit for each slot that is attached, and of what the drive itself has: namespaces with records, and zones. `part`
    /// says how it stands with a part.
    pub(super) fn new(
        version: u64,
        table: &Table,
        attached: u32,
        (key_value, zones): (&[NamespaceId], Option<ZoneSpace>),
        part: impl Fn(usize) -> Part,
    ) -> View {
        let target = |slot: usize, space| Target::new(slot, space, &part(slot));
        let is_there = |entry: &Entry| entry.pending != Pending::Delete;
        let has = |slot: usize, entry: &Entry| attached >> slot & 1 == 1 && is_there(entry);
        let blocks = || table.entries().filter(|(slot, entry)| has(*slot, entry));
        View {
            version,
            handles: blocks().map(|(_, entry)| entry.handles.list().to_vec()).collect(),
            drive_handles: table.handles.count,
            blocks: blocks().map(|(slot, entry)| (entry.number, target(slot, entry.space()))).collect(),
            formatted: blocks()
                .filter(|(_, entry)| !entry.is_usable())
                .map(|(_, entry)| entry.number)
                .collect(),
            key_value: key_value.to_vec(),
            records: target(RECORDS, BlockSpace::NONE),
            zones: zones.map(|zones| ZonesTarget { zones, target: target(ZONES, zones.space()) }),
            sanitize: table.sanitize,
        }
    }

    /// The namespace of a command as it is now. One whose contents have changed hands since it was checked stays as it was, and the drive
    /// keeps it out.
    #[inline]
    pub fn renewed(&self, number: u32, target: &Target) -> Target {
        self.blocks(number).filter(|now| now.is_same(target)).copied().unwrap_or(*target)
    }

    /// Refuses I/O commands of a namespace while it is formatted, and all during a Sanitize, and after one that failed.
    #[inline]
    pub fn check(&self, number: u32) -> Result<(), Failure> {
        match self.formatted.contains(&number) {
            true => Err(Failure::FORMAT_IN_PROGRESS),
            false => self.sanitize.check(),
        }
    }

    /// Of a drive that was never divided, for whoever decodes commands without executing them.
    pub fn undivided(space: BlockSpace, key_value: Vec<NamespaceId>) -> View {
        let part = Part { right: 0, reports_deallocated: false, has_marks: false, denied: Denied::default() };
        let target = |slot: usize, space| Target::new(slot, space, &part);
        let blocks = vec![(super::BLOCK_NAMESPACE, target(0, space))];
        let records = target(RECORDS, BlockSpace::NONE);
        let (handles, formatted, zones) = (vec![Vec::new()], Vec::new(), None);
        let sanitize = Sanitize::default();
        View { version: 0, blocks, handles, drive_handles: 0, formatted, key_value, records, zones, sanitize }
    }

    /// Of nothing, and older than any other.
    pub fn empty() -> View {
        View { version: u64::MAX, ..View::undivided(BlockSpace::NONE, Vec::new()) }
    }

    /// The version of the table of which it is.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The block namespace with this number.
    #[inline]
    pub fn blocks(&self, number: u32) -> Option<&Target> {
        self.blocks.iter().find(|(there, _)| *there == number).map(|(_, target)| target)
    }

    /// The reclaim unit handles of the block namespace with this number, by placement handle; none on a drive without.
    #[inline]
    pub fn handles(&self, number: u32) -> &[Handle] {
        if self.drive_handles == 0 {
            return &[];
        }
        let at = self.blocks.iter().position(|(there, _)| *there == number);
        at.and_then(|at| self.handles.get(at)).map_or(&[], Vec::as_slice)
    }

    /// Reclaim unit handles of the drive.
    pub fn drive_handles(&self) -> u32 {
        self.drive_handles
    }

    /// The block namespace with this number, as the source of a copy.
    pub fn source_of_copy(&self, number: u32) -> Result<&Target, Failure> {
        match self.blocks(number) {
            Some(_) if self.formatted.contains(&number) => Err(Failure::FORMAT_IN_PROGRESS),
            Some(target) if target.denied.reads => Err(Failure::RESERVATION_CONFLICT),
            Some(target) => Ok(target),
            None if self.key_value(number).is_some() || self.zones(number).is_some() => {
                Err(Failure::INCOMPATIBLE_NAMESPACE)
            }
            None => Err(Failure::INVALID_NAMESPACE),
        }
    }

    /// The namespace with records that has this number.
    pub fn key_value(&self, number: u32) -> Option<NamespaceId> {
        namespace_of(number).filter(|namespace| self.key_value.contains(namespace))
    }

    /// The part of the drive that all namespaces with records share.
    pub fn records(&self) -> &Target {
        &self.records
    }

    /// The namespace with zones, if it has this number.
    pub fn zones(&self, number: u32) -> Option<&ZonesTarget> {
        self.zones.as_ref().filter(|_| number == ZONES_NAMESPACE)
    }

    /// The numbers of its block namespaces, in order.
    pub fn of_blocks(&self) -> Vec<u32> {
        super::in_order(self.blocks.iter().map(|(number, _)| *number))
    }

    /// The numbers of all of its namespaces, in order.
    pub fn numbers(&self) -> Vec<u32> {
        let records = self.key_value.iter().map(|&namespace| super::number_of(namespace));
        let zones = self.zones.map(|_| ZONES_NAMESPACE);
        super::in_order(self.blocks.iter().map(|(number, _)| *number).chain(records).chain(zones))
    }
}
