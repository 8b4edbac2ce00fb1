//! The namespace with the drive's zones. A drive has one, with all of them, which every host has; its profile decides about it, so hosts
//! can neither create nor delete it.

use tantalum::{UNIT_BYTES, ZONED_NAMESPACE, ZoneId, ZoneShape};

use super::FIRST_NAMESPACE;
use super::view::Target;
use crate::blocks::{BlockSpace, Blocks};
use crate::failure::Failure;

/// The number of the namespace with zones: none of the drive's key-value namespaces has it.
pub const ZONES_NAMESPACE: u32 = ZONED_NAMESPACE.0 + FIRST_NAMESPACE - 1;

/// The blocks of a namespace with zones: the drive's units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneSpace {
    /// What all zones have in common.
    pub shape: ZoneShape,
}

/// The namespace with zones, as it was when a command of it was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZonesTarget {
    /// Its zones.
    pub zones: ZoneSpace,
    /// The right to its part of the drive.
    pub target: Target,
}

impl ZoneSpace {
    /// Its blocks.
    pub fn space(&self) -> BlockSpace {
        BlockSpace::new(UNIT_BYTES as u32, u64::from(self.shape.count) * u64::from(self.shape.size_units))
    }

    /// Blocks that can be written.
    pub fn capacity(&self) -> u64 {
        u64::from(self.shape.count) * u64::from(self.shape.capacity_units)
    }

    /// Where an existing block is: its zone, and its place there.
    pub fn place(&self, block: u64) -> (ZoneId, u32) {
        let size = u64::from(self.shape.size_units);
        (ZoneId((block / size) as u32), (block % size) as u32)
    }

    /// The block at a place of a zone.
    pub fn block(&self, zone: ZoneId, offset: u32) -> u64 {
        u64::from(zone.0) * u64::from(self.shape.size_units) + u64::from(offset)
    }

    /// The zone that a block is in.
    ///
    /// # Errors
    /// There is no such block.
    pub fn zone(&self, block: u64) -> Result<(ZoneId, u32), Failure> {
        self.space().blocks(block, 1).map(|blocks| self.place(blocks.first))
    }

    /// The zone that a block begins.
    ///
    /// # Errors
    /// There is no such block, or it does not begin a zone.
    pub fn beginning(&self, block: u64) -> Result<ZoneId, Failure> {
        match self.zone(block)? {
            (zone, 0) => Ok(zone),
            _ => Err(Failure::INVALID_FIELD),
        }
    }

    /// Refuses blocks that are not all of one zone.
    pub fn check_one_zone(&self, blocks: Blocks) -> Result<(), Failure> {
        let (_, offset) = self.place(blocks.first);
        let is_one = u64::from(offset) + u64::from(blocks.count) <= u64::from(self.shape.size_units);
        if is_one { Ok(()) } else { Err(Failure::ZONE_BOUNDARY) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_units_of_zones() {
        let shape = ZoneShape { count: 3, capacity_units: 6, size_units: 8, max_open: 1, max_active: 1 };
        let zones = ZoneSpace { shape };
        assert_eq!((zones.space().blocks, zones.capacity()), (24, 18));
        assert_eq!((zones.place(15), zones.block(ZoneId(1), 7)), ((ZoneId(1), 7), 15));
        assert_eq!(zones.beginning(16), Ok(ZoneId(2)));
        assert_eq!(zones.beginning(17), Err(Failure::INVALID_FIELD));
        assert_eq!(zones.beginning(24), Err(Failure::OUT_OF_RANGE));
        assert_eq!(zones.check_one_zone(Blocks { first: 9, count: 7 }), Ok(()));
        assert_eq!(zones.check_one_zone(Blocks { first: 9, count: 8 }), Err(Failure::ZONE_BOUNDARY));
    }
}
