//! What Fabrics commands carry (Base, section 6), and properties (Base, section 3.1.3).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// "Any controller" in [`ConnectData::controller`].
pub const ANY_CONTROLLER: u16 = 0xffff;

/// The fields of Connect, from byte 40 of the command (Base, section 6.3).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Connect {
    /// The format of all this: 0.
    pub format: U16,
    /// The queue to connect to; 0 is the admin queue.
    pub queue: U16,
    /// Its entries, less one.
    pub entries: U16,
    /// Bit 2: no flow control of the submission queue.
    pub attributes: u8,
    reserved: u8,
    /// The keep-alive timeout in milliseconds; 0 for none. Only for the admin queue.
    pub keep_alive_ms: U32,
    reserved2: [u8; 12],
}

/// Bytes of [`ConnectData`].
pub const CONNECT_DATA_BYTES: usize = size_of::<ConnectData>();

/// The data of Connect.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// The host.
    pub host: [u8; 16],
    /// The controller: for an I/O queue the one assigned to the admin queue.
    pub controller: U16,
    reserved: [u8; 238],
    /// The subsystem's name.
    pub subsystem_name: [u8; 256],
    /// The host's name.
    pub host_name: [u8; 256],
    reserved2: [u8; 256],
}

impl Connect {
    /// Connects to a queue.
    pub fn new(queue: u16, entries: u16, attributes: u8, keep_alive_ms: u32) -> Connect {
        Connect {
            queue: queue.into(),
            entries: entries.into(),
            attributes,
            keep_alive_ms: keep_alive_ms.into(),
            ..Connect::default()
        }
    }
}

impl ConnectData {
    /// The data of a Connect.
    pub fn new(host: [u8; 16], controller: u16, subsystem_name: &str, host_name: &str) -> ConnectData {
        ConnectData {
            host,
            controller: controller.into(),
            reserved: [0; 238],
            subsystem_name: super::text(subsystem_name, 0),
            host_name: super::text(host_name, 0),
            reserved2: [0; 256],
        }
    }
}

/// The fields of Property Get and Property Set, from byte 40 of the command (Base, sections 6.5 and 6.6).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Property {
    /// Bits 2:0 the size: 0 for four bytes, 1 for eight.
    pub attributes: u8,
    reserved: [u8; 3],
    /// Which property.
    pub offset: U32,
    /// The value to set.
    pub value: U64,
    reserved2: [u8; 8],
}

/// Where properties are.
pub mod property {
    /// Capabilities (`CAP`), eight bytes.
    pub const CAPABILITIES: u32 = 0x00;
    /// Version (`VS`).
    pub const VERSION: u32 = 0x08;
    /// Controller configuration (`CC`).
    pub const CONFIGURATION: u32 = 0x14;
    /// Controller status (`CSTS`).
    pub const STATUS: u32 = 0x1c;
    /// NVM subsystem reset (`NSSR`).
    pub const SUBSYSTEM_RESET: u32 = 0x20;
    /// Controller ready timeouts (`CRTO`).
    pub const READY_TIMEOUTS: u32 = 0x68;
}

impl Property {
    /// A property, and the value that it is set to.
    pub fn new(is_long: bool, offset: u32, value: u64) -> Property {
        Property {
            attributes: is_long.into(),
            offset: offset.into(),
            value: value.into(),
            ..Property::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<Connect>(), offset_of!(Connect, keep_alive_ms)), (24, 8));
        assert_eq!(size_of::<ConnectData>(), 1024);
        assert_eq!(offset_of!(ConnectData, subsystem_name), 256);
        assert_eq!(offset_of!(ConnectData, host_name), 512);
        assert_eq!((size_of::<Property>(), offset_of!(Property, value)), (24, 8));
    }
}
