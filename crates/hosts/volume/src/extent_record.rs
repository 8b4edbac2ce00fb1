//! Extents as they are stored on the drive: in inodes, and in their continuations.

use tantalum::Lpn;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::Damage;
use crate::extents::{Extent, ExtentMap};

pub(crate) const EXTENT_BYTES: usize = size_of::<ExtentRecord>();

/// An extent as it is stored in an inode or a continuation.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct ExtentRecord {
    unit: U32,
    lpn: U32,
    units: U32,
}

impl From<Extent> for ExtentRecord {
    fn from(extent: Extent) -> ExtentRecord {
        ExtentRecord {
            unit: U32::new(extent.unit),
            lpn: U32::new(extent.lpn.0),
            units: U32::new(extent.units),
        }
    }
}

/// The records of a file's extents, in order.
pub(crate) fn records_of(extents: &[Extent]) -> Vec<ExtentRecord> {
    extents.iter().map(|&extent| extent.into()).collect()
}

/// Adds the records' extents after those in the map. Does not check whether the drive has such units.
pub(crate) fn insert_records(map: &mut ExtentMap, bytes: &[u8], count: U16) -> Result<(), Damage> {
    let count = usize::from(count.get());
    check_count(count, bytes.len() / EXTENT_BYTES)?;
    for bytes in bytes.chunks_exact(EXTENT_BYTES).take(count) {
        let record = ExtentRecord::read_from_bytes(bytes).expect("a record's bytes");
        let (unit, lpn, units) = (record.unit.get(), Lpn(record.lpn.get()), record.units.get());
        let fits = unit.checked_add(units).is_some() && lpn.0.checked_add(units).is_some();
        if units == 0 || unit < map.end() || !fits {
            return Err(Damage::Extent { lpn, units });
        }
        map.insert(Extent { unit, lpn, units });
    }
    Ok(())
}

/// Whether a stored count is at most what there is room for.
pub(crate) fn check_count(count: usize, most: usize) -> Result<(), Damage> {
    if count > most { Err(Damage::Count { count: count as u32, most: most as u32 }) } else { Ok(()) }
}
