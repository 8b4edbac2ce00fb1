//! Flexible data placement (Base 2.1, sections 5.1.12.1.28 to 31, 5.1.25.1.20 and 21, 7.3, 7.4; NVM 1.1, section 3.2.1): log pages, the
//! status of handles, and directives.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Types of directives (Base, section 8.1.8).
pub mod directive {
    /// Which directives there are.
    pub const IDENTIFY: u8 = 0;
    /// Data placement.
    pub const DATA_PLACEMENT: u8 = 2;
    /// The operation of Directive Receive that tells which directives there are.
    pub const RETURN_PARAMETERS: u8 = 1;
    /// The operation of Directive Send that enables one.
    pub const ENABLE: u8 = 1;
}

/// Types of events.
pub mod event {
    /// The host began the next reclaim unit before one was full.
    pub const NOT_FULLY_WRITTEN: u8 = 0x00;
    /// A reset made handles begin a reclaim unit.
    pub const RESET: u8 = 0x02;
    /// A write named a placement identifier that its namespace does not have.
    pub const INVALID_IDENTIFIER: u8 = 0x03;
    /// The drive moved data.
    pub const MOVED: u8 = 0x80;
    /// A reclaim unit was full, and the next one began.
    pub const IMPLICITLY_MODIFIED: u8 = 0x81;
    /// From here on events are the controller's, and below the host's.
    pub const OF_CONTROLLER: u8 = 0x80;
}

/// What precedes the configurations.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Configurations {
    /// Less one (`NUMFDPC`).
    pub count: U16,
    /// 0.
    pub version: u8,
    reserved: u8,
    /// Bytes of the log page.
    pub bytes: U32,
    reserved2: [u8; 8],
}

/// A configuration; [`HandleKind`] of each handle follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Configuration {
    /// Bytes, with the handles.
    pub bytes: U16,
    /// Bits 3:0: bits of the reclaim group in an identifier; bit 4: there is a volatile cache; bit 7: it is valid.
    pub attributes: u8,
    /// Bytes for vendors.
    pub vendor_bytes: u8,
    /// Reclaim groups.
    pub groups: U32,
    /// Handles.
    pub handles: U16,
    /// Placement identifiers of one update, less one (`MAXPIDS`).
    pub identifiers: U16,
    /// Namespaces.
    pub namespaces: U32,
    /// Nominal bytes of a reclaim unit.
    pub unit_bytes: U64,
    /// Seconds until a reclaim unit ends; 0 for no limit.
    pub seconds: U32,
    reserved: [u8; 36],
}

/// How far a handle is kept apart.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct HandleKind {
    /// 1 initially, 2 persistently.
    pub isolation: u8,
    reserved: [u8; 3],
}

/// What precedes the use of handles.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Usages {
    /// Handles.
    pub handles: U16,
    reserved: [u8; 6],
}

/// Who uses a handle.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Usage {
    /// 0 nobody, 1 namespaces whose hosts asked for it, 2 namespaces for which the drive chose it.
    pub attributes: u8,
    reserved: [u8; 7],
}

/// Bytes written and erased.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Statistics {
    /// That hosts wrote (`HBMW`).
    pub host_bytes: [U64; 2],
    /// That were written to flash (`MBMW`).
    pub media_bytes: [U64; 2],
    /// That were erased (`MBE`).
    pub erased_bytes: [U64; 2],
    reserved: [u8; 16],
}

/// What precedes events.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Events {
    /// How many follow.
    pub count: U32,
    reserved: [u8; 60],
}

/// An event.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Event {
    /// See [`event`].
    pub kind: u8,
    /// Bit 0: the identifier is told; bit 1: the namespace is; bit 2: the handle is.
    pub flags: u8,
    /// The placement identifier.
    pub identifier: U16,
    /// As the feature Timestamp has it.
    pub timestamp: [u8; 8],
    /// The namespace.
    pub namespace: U32,
    /// Of data that were moved.
    pub moved: Moved,
    /// The reclaim group.
    pub group: U16,
    /// The reclaim unit handle.
    pub handle: U16,
    reserved: [u8; 4],
    vendor_specific: [u8; 24],
}

/// What was moved.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Moved {
    /// Bit 0: the first block is told.
    pub flags: u8,
    reserved: u8,
    /// Blocks.
    pub blocks: U16,
    /// The first one.
    pub first: U64,
    reserved2: [u8; 4],
}

/// What precedes the status of handles.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Statuses {
    reserved: [u8; 14],
    /// How many follow.
    pub count: U16,
}

/// The status of a handle.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Status {
    /// The placement identifier.
    pub identifier: U16,
    /// The reclaim unit handle.
    pub handle: U16,
    /// Seconds until its reclaim unit ends; 0 if not told.
    pub seconds: U32,
    /// Blocks that still fit in its reclaim unit (`RUAMW`).
    pub writable_blocks: U64,
    reserved: [u8; 16],
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<Configurations>(), offset_of!(Configurations, bytes)), (16, 4));
        assert_eq!((size_of::<Configuration>(), offset_of!(Configuration, identifiers)), (64, 10));
        assert_eq!((offset_of!(Configuration, unit_bytes), offset_of!(Configuration, seconds)), (16, 24));
        assert_eq!((size_of::<HandleKind>(), size_of::<Usages>(), size_of::<Usage>()), (4, 8, 8));
        assert_eq!((size_of::<Statistics>(), offset_of!(Statistics, erased_bytes)), (64, 32));
        assert_eq!((size_of::<Events>(), size_of::<Event>(), size_of::<Moved>()), (64, 64, 16));
        assert_eq!((offset_of!(Event, namespace), offset_of!(Event, moved)), (12, 16));
        assert_eq!((offset_of!(Event, group), offset_of!(Event, handle)), (32, 34));
        assert_eq!((size_of::<Statuses>(), size_of::<Status>()), (16, 32));
        assert_eq!(offset_of!(Status, writable_blocks), 8);
    }
}
