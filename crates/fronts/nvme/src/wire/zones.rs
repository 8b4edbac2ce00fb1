//! The Zoned Namespace Command Set, 1.2: what Identify returns, reports of zones, and the log of changed zones.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// What Zone Management Send does (`ZSA`).
pub mod action {
    /// Close Zone.
    pub const CLOSE: u8 = 0x01;
    /// Finish Zone.
    pub const FINISH: u8 = 0x02;
    /// Open Zone.
    pub const OPEN: u8 = 0x03;
    /// Reset Zone.
    pub const RESET: u8 = 0x04;
    /// Offline Zone.
    pub const OFFLINE: u8 = 0x05;
}

/// What Zone Management Receive returns (`ZRA`).
pub const REPORT_ZONES: u8 = 0x00;

/// States of a zone (`ZS`).
pub mod state {
    /// Empty.
    pub const EMPTY: u8 = 0x1;
    /// Implicitly opened.
    pub const IMPLICITLY_OPEN: u8 = 0x2;
    /// Explicitly opened.
    pub const EXPLICITLY_OPEN: u8 = 0x3;
    /// Closed.
    pub const CLOSED: u8 = 0x4;
    /// Read only.
    pub const READ_ONLY: u8 = 0xd;
    /// Full.
    pub const FULL: u8 = 0xe;
    /// Offline.
    pub const OFFLINE: u8 = 0xf;
}

/// The type of all zones: they are written in order (`ZT`).
pub const SEQUENTIAL_WRITE_REQUIRED: u8 = 2;

/// The write pointer of a zone that has none.
pub const NO_WRITE_POINTER: u64 = u64::MAX;

/// A namespace with zones (CNS 05h, CSI 02h).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZonedNamespace {
    /// `ZOC`: bit 0, the capacity of zones may change; bit 1, the controller finishes zones.
    pub characteristics: U16,
    /// `OZCS`: bit 0, reads may cross zones; bit 1, there are random write areas.
    pub optional_commands: U16,
    /// Zones that may be active at once, less one (`MAR`).
    pub most_active: U32,
    /// Zones that may be open at once, less one (`MOR`).
    pub most_open: U32,
    /// `RRL`, `FRL`, `RRL1` to `RRL3`, `FRL1` to `FRL3`: when the controller recommends to reset or finish a zone.
    recommended: [U32; 8],
    /// `NUMZRWA`, `ZRWAFG`, `ZRWASZ`, `ZRWACAP`: random write areas.
    random_write_areas: [u8; 9],
    reserved: [u8; 2763],
    /// What zones add to each format of blocks.
    pub formats: [ZonedFormat; 64],
    vendor_specific: [u8; 256],
}

/// What zones add to a format of blocks (`LBAFE`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZonedFormat {
    /// Blocks from the beginning of a zone to that of the next (`ZSZE`).
    pub zone_blocks: U64,
    /// Size of a descriptor extension, in units of 64 bytes (`ZDES`).
    pub extension: u8,
    reserved: [u8; 7],
}

/// The controller, as the Zoned Namespace Command Set describes it (CNS 06h, CSI 02h).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZonedController {
    /// The largest append, as a power of two of 4 KiB; 0 for that of all commands (`ZASL`).
    pub append_limit: u8,
    reserved: [u8; 4095],
}

/// What precedes the descriptors of a report.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ReportHeader {
    /// Zones that match; of a partial report, those that it has.
    pub zones: U64,
    reserved: [u8; 56],
}

/// A zone of a report. Places are blocks of the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ZoneDescriptor {
    /// `ZT`.
    pub kind: u8,
    /// The state, in bits 7:4 (`ZS`).
    pub state: u8,
    /// `ZA`.
    pub attributes: u8,
    /// `ZAI`.
    pub attributes_information: u8,
    reserved: [u8; 4],
    /// Blocks that can be written (`ZCAP`).
    pub capacity: U64,
    /// The first block (`ZSLBA`).
    pub first: U64,
    /// The write pointer (`WP`).
    pub pointer: U64,
    reserved2: [u8; 32],
}

/// Zones that a log of changed zones can name.
pub const CHANGED_ZONES: usize = 511;

/// Zones whose descriptors have changed, without a command that does so (log page BFh).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ChangedZones {
    /// How many, or [`TOO_MANY_CHANGED`].
    pub count: U16,
    reserved: [u8; 6],
    /// Their first blocks.
    pub zones: [U64; CHANGED_ZONES],
}

/// There are more changed zones than the log has room for, and it names none.
pub const TOO_MANY_CHANGED: u16 = 0xffff;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::wire::identify::IDENTIFY_BYTES;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!(size_of::<ZonedNamespace>(), IDENTIFY_BYTES);
        assert_eq!((offset_of!(ZonedNamespace, most_active), offset_of!(ZonedNamespace, most_open)), (4, 8));
        assert_eq!(offset_of!(ZonedNamespace, random_write_areas), 44);
        assert_eq!(offset_of!(ZonedNamespace, formats), 2816);
        assert_eq!(size_of::<ZonedFormat>(), 16);
        assert_eq!(size_of::<ZonedController>(), IDENTIFY_BYTES);
        assert_eq!((size_of::<ReportHeader>(), size_of::<ZoneDescriptor>()), (64, 64));
        assert_eq!((offset_of!(ZoneDescriptor, capacity), offset_of!(ZoneDescriptor, pointer)), (8, 24));
        assert_eq!((size_of::<ChangedZones>(), offset_of!(ChangedZones, zones)), (4096, 8));
    }
}
