//! Log pages (Base, section 5.16.1).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Log page identifiers.
pub mod id {
    /// The supported log pages.
    pub const SUPPORTED: u8 = 0x00;
    /// Commands that failed.
    pub const ERRORS: u8 = 0x01;
    /// The drive's health.
    pub const SMART: u8 = 0x02;
    /// Firmware slots.
    pub const FIRMWARE: u8 = 0x03;
    /// Namespaces that changed.
    pub const CHANGED_NAMESPACES: u8 = 0x04;
    /// Commands and their effects.
    pub const EFFECTS: u8 = 0x05;
    /// Self-tests.
    pub const SELF_TEST: u8 = 0x06;
    /// The drive's state, as a host has asked for it.
    pub const TELEMETRY_HOST: u8 = 0x07;
    /// The drive's state, as the drive has kept it.
    pub const TELEMETRY_CONTROLLER: u8 = 0x08;
    /// How namespaces are reached through the controller's port.
    pub const ACCESS: u8 = 0x0c;
    /// What has happened to the drive.
    pub const PERSISTENT_EVENTS: u8 = 0x0d;
    /// The health of an endurance group.
    pub const ENDURANCE_GROUP: u8 = 0x09;
    /// The supported features.
    pub const FEATURES: u8 = 0x12;
    /// Configurations of flexible data placement.
    pub const PLACEMENT_CONFIGURATIONS: u8 = 0x20;
    /// Which reclaim unit handles namespaces have.
    pub const HANDLE_USAGE: u8 = 0x21;
    /// Bytes written and erased with flexible data placement.
    pub const PLACEMENT_STATISTICS: u8 = 0x22;
    /// Events of flexible data placement.
    pub const PLACEMENT_EVENTS: u8 = 0x23;
    /// What has happened to reservations.
    pub const RESERVATIONS: u8 = 0x80;
    /// What became of the last Sanitize.
    pub const SANITIZE: u8 = 0x81;
    /// Zones that have changed.
    pub const CHANGED_ZONES: u8 = 0xbf;
    /// Where subsystems are.
    pub const DISCOVERY: u8 = 0x70;
}

/// An entry of the error log (Base, figure 205).
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ErrorEntry {
    /// The number of errors, including this one.
    pub count: U64,
    /// The queue.
    pub queue: U16,
    /// The command.
    pub command: U16,
    /// Its status, as in the completion.
    pub status: U16,
    /// The position of the error in the command: byte in bits 7:0, bit in bits 10:8; FFFFh if none.
    pub location: U16,
    /// The first block that it concerns.
    pub block: U64,
    /// The namespace.
    pub namespace: U32,
    vendor: u8,
    /// 3 for TCP.
    pub transport: u8,
    reserved: [u8; 2],
    specific: U64,
    transport_specific: U16,
    reserved2: [u8; 22],
}

/// The drive's health (Base, figure 207).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Smart {
    /// Bit 0: spare low; bit 2: reliability degraded; bit 3: read-only.
    pub critical_warning: u8,
    /// The temperature in kelvin.
    pub temperature: U16,
    /// Percent.
    pub available_spare: u8,
    /// Percent.
    pub spare_threshold: u8,
    /// Percent of the rated endurance, at most 255.
    pub percentage_used: u8,
    /// Endurance group warnings.
    pub group_warning: u8,
    reserved: [u8; 25],
    /// In units of 1000 times 512 bytes, rounded up.
    pub data_read: [U64; 2],
    /// In units of 1000 times 512 bytes, rounded up.
    pub data_written: [U64; 2],
    /// Commands.
    pub host_reads: [U64; 2],
    /// Commands.
    pub host_writes: [U64; 2],
    /// Minutes.
    pub busy_minutes: [U64; 2],
    /// Times.
    pub power_cycles: [U64; 2],
    /// Hours.
    pub power_on_hours: [U64; 2],
    /// Power losses without a shutdown.
    pub unsafe_shutdowns: [U64; 2],
    /// Reads that found data uncorrectable.
    pub media_errors: [U64; 2],
    /// Total entries of the error log so far.
    pub error_entries: [U64; 2],
    /// Temperatures and their times.
    rest: [u8; 320],
}

/// The health of an endurance group (Base 2.1, section 5.1.12.1.10).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EnduranceGroup {
    /// As in [`Smart`].
    pub critical_warning: u8,
    /// Bit 0: the media rotate (`EGRMEDIA`).
    pub features: u8,
    reserved: u8,
    /// Percent.
    pub available_spare: u8,
    /// Percent.
    pub spare_threshold: u8,
    /// Percent of the rated endurance, at most 255.
    pub percentage_used: u8,
    /// The domain; 0 for none.
    pub domain: U16,
    reserved2: [u8; 24],
    /// What could be written in its life if nothing were written more than once, in units of 10^9 bytes, rounded up.
    pub endurance: [U64; 2],
    /// In units of 10^9 bytes, rounded up.
    pub data_read: [U64; 2],
    /// By hosts, in units of 10^9 bytes, rounded up.
    pub data_written: [U64; 2],
    /// To flash, in units of 10^9 bytes, rounded up.
    pub media_written: [U64; 2],
    /// Commands.
    pub host_reads: [U64; 2],
    /// Commands.
    pub host_writes: [U64; 2],
    /// Reads that found data uncorrectable.
    pub media_errors: [U64; 2],
    /// Total entries of the error log so far.
    pub error_entries: [U64; 2],
    /// Bytes.
    pub capacity: [U64; 2],
    /// Bytes of no namespace.
    pub unallocated: [U64; 2],
    reserved3: [u8; 320],
}

/// What became of the last Sanitize (Base, figure 269).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct SanitizeStatus {
    /// Of 65536 parts; FFFFh if none is under way (`SPROG`).
    pub progress: U16,
    /// Bits 2:0: 0 never, 1 complete, 2 under way, 3 failed (`SSTAT`).
    pub status: U16,
    /// Dword 10 of the command.
    pub dword: U32,
    /// Estimated seconds by kind; FFFFFFFFh if not told.
    pub estimates: [U32; 6],
    reserved: [u8; 480],
}

/// The address of one subsystem (Base, figure 257, after 1024 bytes of header).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryEntry {
    /// 3 for TCP.
    pub transport: u8,
    /// 1 for IPv4, 2 for IPv6.
    pub family: u8,
    /// 2 for a subsystem with namespaces.
    pub kind: u8,
    /// Requirements (`TREQ`), see [`requirement`].
    pub requirements: u8,
    /// The port of the subsystem.
    pub port: U16,
    /// FFFFh: any controller.
    pub controller: U16,
    /// Maximum entries of the admin queue.
    pub admin_entries: U16,
    /// Flags.
    pub flags: U16,
    reserved: [u8; 20],
    /// The TCP port.
    pub service: [u8; 32],
    reserved2: [u8; 192],
    /// The subsystem's name.
    pub subsystem_name: [u8; 256],
    /// The address.
    pub address: [u8; 256],
    /// TCP: byte 0, see [`security`]; 0 for none.
    pub transport_specific: [u8; 256],
}

/// The header of the log of accesses.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Accesses {
    /// Counts changes.
    pub changes: U64,
    /// Groups that follow.
    pub groups: U16,
    reserved: [u8; 6],
}

/// The access to a group of namespaces. The numbers of these follow.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct GroupAccess {
    /// The group.
    pub group: U32,
    /// How many namespaces follow.
    pub namespaces: U32,
    /// Counts changes of it.
    pub changes: U64,
    /// See [`crate::ports::PortAccess`].
    pub access: u8,
    reserved: [u8; 15],
}

/// The header of the discovery log.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct DiscoveryHeader {
    /// Changes with the log.
    pub generation: U64,
    /// Entries.
    pub entries: U64,
    /// 0.
    pub format: U16,
    reserved: [u8; 1006],
}

/// Requirements of a subsystem. Bits 1:0 are about a secure channel; 0 says nothing. That none is required is not said: nvme-cli
/// 2.3 takes it for a reason to ask for TLS, and does not connect.
pub mod requirement {
    /// A secure channel is required.
    pub const SECURE: u8 = 1;
    /// It is possible.
    pub const SECURE_IF_WANTED: u8 = 2;
    /// Flow control of the submission queue can be disabled.
    pub const NO_FLOW_CONTROL: u8 = 1 << 2;
}

/// Types of security, for TCP (`SECTYPE`).
pub mod security {
    /// TLS 1.3.
    pub const TLS_1_3: u8 = 2;
}

/// Bits of an entry of the effects logs, of commands and of features.
pub mod effect {
    /// Supported.
    pub const SUPPORTED: u32 = 1 << 0;
    /// Changes blocks or values.
    pub const CHANGES_CONTENT: u32 = 1 << 1;
    /// Changes what a namespace can do (`NCC`).
    pub const CHANGES_CAPABILITIES: u32 = 1 << 2;
    /// Not while other commands to the same namespace are under way (`CSE`).
    pub const ALONE: u32 = 1 << 16;
    /// Not while any other command is under way (`CSE`).
    pub const ALONE_OF_ALL: u32 = 2 << 16;
    /// Changes which namespaces there are (`NIC`).
    pub const CHANGES_INVENTORY: u32 = 1 << 3;
    /// Concerns one namespace.
    pub const OF_NAMESPACE: u32 = 1 << 20;
    /// Concerns the controller.
    pub const OF_CONTROLLER: u32 = 1 << 21;
    /// Concerns the endurance group.
    pub const OF_GROUP: u32 = 1 << 23;
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<ErrorEntry>(), offset_of!(ErrorEntry, block)), (64, 16));
        assert_eq!(offset_of!(ErrorEntry, transport), 29);
        assert_eq!(size_of::<Smart>(), 512);
        assert_eq!((offset_of!(Smart, data_read), offset_of!(Smart, unsafe_shutdowns)), (32, 144));
        assert_eq!((offset_of!(Smart, temperature), offset_of!(Smart, power_cycles)), (1, 112));
        assert_eq!((size_of::<EnduranceGroup>(), offset_of!(EnduranceGroup, endurance)), (512, 32));
        assert_eq!(
            (offset_of!(EnduranceGroup, media_written), offset_of!(EnduranceGroup, capacity)),
            (80, 160)
        );
        assert_eq!((size_of::<SanitizeStatus>(), offset_of!(SanitizeStatus, estimates)), (512, 8));
        assert_eq!(size_of::<DiscoveryEntry>(), 1024);
        assert_eq!(offset_of!(DiscoveryEntry, service), 32);
        assert_eq!(offset_of!(DiscoveryEntry, address), 512);
        assert_eq!(size_of::<DiscoveryHeader>(), 1024);
        assert_eq!((size_of::<Accesses>(), size_of::<GroupAccess>()), (16, 32));
        assert_eq!(offset_of!(GroupAccess, access), 16);
    }
}
