//! What Identify returns (Base, section 5.17; NVM, section 4.1.5).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Size of every structure that Identify returns.
pub const IDENTIFY_BYTES: usize = 4096;

/// Controller or namespace structures (`CNS`).
pub mod cns {
    /// A namespace of the NVM command set.
    pub const NAMESPACE: u8 = 0x00;
    /// The controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active namespaces.
    pub const ACTIVE_NAMESPACES: u8 = 0x02;
    /// Descriptors of a namespace.
    pub const NAMESPACE_DESCRIPTORS: u8 = 0x03;
    /// A namespace, specific to its command set.
    pub const NAMESPACE_OF_SET: u8 = 0x05;
    /// The controller, specific to a command set.
    pub const CONTROLLER_OF_SET: u8 = 0x06;
    /// Active namespaces of a command set.
    pub const ACTIVE_NAMESPACES_OF_SET: u8 = 0x07;
    /// A namespace, independent of its command set.
    pub const NAMESPACE_OF_ALL_SETS: u8 = 0x08;
    /// Namespaces that exist, attached or not.
    pub const ALLOCATED_NAMESPACES: u8 = 0x10;
    /// A namespace that exists, attached or not.
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    /// Endurance groups.
    pub const ENDURANCE_GROUPS: u8 = 0x19;
    /// Controllers that have a namespace.
    pub const CONTROLLERS_OF_NAMESPACE: u8 = 0x12;
    /// Controllers of the subsystem.
    pub const CONTROLLERS: u8 = 0x13;
    /// Namespaces of a command set that exist.
    pub const ALLOCATED_NAMESPACES_OF_SET: u8 = 0x1a;
    /// I/O command sets.
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// Kinds of descriptors of a namespace (`NIDT`).
pub mod descriptor {
    /// IEEE's identifier of 8 bytes.
    pub const EUI64: u8 = 1;
    /// One of 16 bytes.
    pub const GUID: u8 = 2;
    /// A UUID.
    pub const UUID: u8 = 3;
    /// The command set.
    pub const COMMAND_SET: u8 = 4;
}

/// I/O command sets (`CSI`).
pub mod command_set {
    /// Logical blocks.
    pub const NVM: u8 = 0x00;
    /// Keys and values.
    pub const KEY_VALUE: u8 = 0x01;
    /// Logical blocks in zones.
    pub const ZONED: u8 = 0x02;
}

/// The controller (Base, figure 275).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Controller {
    /// PCI vendor; 0, as this is no PCI device.
    pub vendor: U16,
    /// PCI subsystem vendor.
    pub subsystem_vendor: U16,
    /// `SN`.
    pub serial: [u8; 20],
    /// `MN`.
    pub model: [u8; 40],
    /// `FR`.
    pub firmware: [u8; 8],
    /// `RAB`.
    pub arbitration_burst: u8,
    /// `IEEE`.
    pub ieee: [u8; 3],
    /// Bit 1: several controllers (`CMIC`).
    pub sharing: u8,
    /// The largest transfer, as a power of two of 4 KiB (`MDTS`).
    pub transfer_limit: u8,
    /// `CNTLID`.
    pub id: U16,
    /// `VER`.
    pub version: U32,
    /// `RTD3R`, `RTD3E`.
    pub runtime_d3: [U32; 2],
    /// Supported asynchronous events (`OAES`).
    pub events: U32,
    /// `CTRATT`.
    pub attributes: U32,
    /// `RRLS`.
    pub read_recovery: U16,
    reserved: [u8; 9],
    /// 1 for I/O, 2 for discovery (`CNTRLTYPE`).
    pub kind: u8,
    reserved2: [u8; 144],
    /// Optional admin commands (`OACS`).
    pub admin_commands: U16,
    /// Aborts at once, less one (`ACL`).
    pub abort_limit: u8,
    /// Asynchronous Event Requests at once, less one (`AERL`).
    pub event_limit: u8,
    /// `FRMW`.
    pub firmware_updates: u8,
    /// `LPA`.
    pub log_attributes: u8,
    /// Entries of the error log, less one (`ELPE`).
    pub error_entries: u8,
    /// `NPSS`.
    pub power_states: u8,
    /// `AVSCC`.
    pub vendor_admin: u8,
    /// `APSTA`.
    pub autonomous_power: u8,
    /// `WCTEMP`, `CCTEMP`.
    pub temperatures: [U16; 2],
    reserved3: [u8; 10],
    /// `TNVMCAP`, in bytes.
    pub capacity: [U64; 2],
    /// `UNVMCAP`.
    pub unallocated: [U64; 2],
    reserved4: [u8; 4],
    /// Minutes that an extended self-test takes (`EDSTT`).
    pub self_test_minutes: U16,
    /// Bit 0: one self-test at a time in the subsystem (`DSTO`).
    pub self_test: u8,
    reserved11: u8,
    /// Granularity of the keep-alive timer, in 100 ms (`KAS`).
    pub keep_alive: U16,
    reserved5: [u8; 6],
    /// Kinds of Sanitize (`SANICAP`).
    pub sanitize: U32,
    reserved10: [u8; 8],
    /// The highest endurance group (`ENDGIDMAX`).
    pub endurance_groups: U16,
    /// The most seconds that a change of access takes (`ANATT`).
    pub transition_seconds: u8,
    /// Bits 4:0: which accesses there may be; bit 6: namespaces stay in their groups (`ANACAP`).
    pub access: u8,
    /// The highest group of namespaces with the same access (`ANAGRPMAX`).
    pub highest_access_group: U32,
    /// How many there are (`NANAGRPID`).
    pub access_groups: U32,
    /// The longest persistent event log, in units of 64 KiB (`PELS`).
    pub event_log: U32,
    reserved12: [u8; 156],
    /// Sizes of submission queue entries (`SQES`).
    pub submission_bytes: u8,
    /// Sizes of completion queue entries (`CQES`).
    pub completion_bytes: u8,
    /// Commands of a queue at once (`MAXCMD`).
    pub commands: U16,
    /// The highest namespace (`NN`).
    pub namespaces: U32,
    /// Optional I/O commands (`ONCS`).
    pub io_commands: U16,
    /// `FUSES`.
    pub fused: U16,
    /// `FNA`.
    pub format: u8,
    /// Bit 0: there is a volatile write cache; bits 2:1: behaviour of Flush for all namespaces (`VWC`).
    pub write_cache: u8,
    /// Blocks written atomically in normal operation, less one (`AWUN`).
    pub atomic: U16,
    /// Blocks written atomically even if power fails, less one (`AWUPF`).
    pub atomic_power_fail: U16,
    /// Bit 0: vendor commands are in the standard's format (`ICSVSCC`).
    pub vendor_io: u8,
    /// `NWPC`.
    pub write_protection: u8,
    /// `ACWU`.
    pub atomic_compare: U16,
    /// Formats of copy descriptors (`OCFS`).
    pub copy_formats: U16,
    /// `SGLS`.
    pub sgl: U32,
    /// `MNAN`.
    pub most_namespaces: U32,
    reserved6: [u8; 224],
    /// `SUBNQN`.
    pub subsystem_name: [u8; 256],
    reserved7: [u8; 768],
    /// Size of a command capsule, in units of 16 bytes (`IOCCSZ`).
    pub command_capsule: U32,
    /// Size of a response capsule, in units of 16 bytes (`IORCSZ`).
    pub response_capsule: U32,
    /// Where in-capsule data begin after the command, in units of 16 bytes (`ICDOFF`).
    pub capsule_offset: U16,
    /// Bit 0: static controllers (`FCATT`).
    pub fabrics_attributes: u8,
    /// Maximum SGL descriptors of a command (`MSDBD`).
    pub sgl_descriptors: u8,
    /// Bit 0: Disconnect (`OFCS`).
    pub fabrics_commands: U16,
    reserved8: [u8; 242],
    /// Descriptors of power states; the first is the only one.
    pub power_state: [u8; 32],
    reserved9: [u8; 992],
    vendor_specific: [u8; 1024],
}

/// A namespace of the NVM command set (NVM, figure 97).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Namespace {
    /// Blocks (`NSZE`).
    pub size: U64,
    /// Blocks that may be in use at once (`NCAP`).
    pub capacity: U64,
    /// Blocks that are in use (`NUSE`).
    pub used: U64,
    /// Bit 1: the atomic fields here are valid; bit 4: those of preferred sizes are (`NSFEAT`).
    pub features: u8,
    /// Block formats, less one (`NLBAF`).
    pub formats: u8,
    /// The format in use (`FLBAS`).
    pub format: u8,
    reserved: [u8; 3],
    /// Bit 0: several controllers may have it (`NMIC`).
    pub sharing: u8,
    /// `RESCAP`.
    pub reservations: u8,
    /// `FPI`.
    pub format_progress: u8,
    /// Bits 2:0: how deallocated blocks read, 1 for zeros; bit 3: Write Zeroes deallocates (`DLFEAT`).
    pub deallocate: u8,
    /// `NAWUN`, `NAWUPF`, `NACWU`: blocks less one, within a boundary.
    pub atomic: [U16; 3],
    /// `NABSN`, `NABO`, `NABSPF`: the boundary in blocks less one, its offset, and the boundary for power failures.
    pub boundary: [U16; 3],
    /// `NOIOB`.
    pub optimal_boundary: U16,
    /// `NVMCAP`, in bytes.
    pub bytes: [U64; 2],
    /// `NPWG`, `NPWA`, `NPDG`, `NPDA`: preferred granularity and alignment of writes and deallocations, blocks less one.
    pub preferred: [U16; 4],
    /// Optimal size of a write, blocks less one (`NOWS`).
    pub optimal_write: U16,
    /// Blocks of one source range of Copy (`MSSRL`).
    pub copy_range: U16,
    /// Blocks of one Copy (`MCL`).
    pub copy_blocks: U32,
    /// Source ranges of one Copy, less one (`MSRC`).
    pub copy_ranges: u8,
    reserved2: [u8; 11],
    /// `ANAGRPID`.
    pub access_group: U32,
    reserved3: [u8; 3],
    /// Bit 0: write protected (`NSATTR`).
    pub attributes: u8,
    reserved4: [u8; 2],
    /// `ENDGID`.
    pub endurance_group: U16,
    /// `NGUID`.
    pub guid: [u8; 16],
    /// `EUI64`.
    pub eui64: [u8; 8],
    /// Block formats: metadata bytes, block bytes as a power of two, relative performance.
    pub block_formats: [BlockFormat; 64],
    vendor_specific: [u8; 3712],
}

/// A format of blocks.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct BlockFormat {
    /// Bytes of metadata of a block.
    pub metadata_bytes: U16,
    /// Bytes of a block, as a power of two.
    pub block_bytes_log2: u8,
    /// 0 is best.
    pub performance: u8,
}

/// The controller, as the NVM command set describes it (NVM, figure 100).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct NvmController {
    /// Limits of Verify, Write Zeroes and Write Uncorrectable, as powers of two of 4 KiB; 0 for none.
    pub limits: [u8; 3],
    /// Ranges of one Dataset Management (`DMRL`).
    pub deallocate_ranges: u8,
    /// Blocks of one such range (`DMRSL`).
    pub deallocate_range: U32,
    /// Blocks of all of them (`DMSL`).
    pub deallocate_blocks: U64,
    reserved: [u8; 4080],
}

/// A namespace, independent of its command set (Base, figure 280).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CommonNamespace {
    /// `NSFEAT`.
    pub features: u8,
    /// Bit 0: several controllers may have it (`NMIC`).
    pub sharing: u8,
    /// `RESCAP`.
    pub reservations: u8,
    reserved: u8,
    /// Its group of namespaces with the same access (`ANAGRPID`).
    pub access_group: U32,
    /// Bit 0: write protected (`NSATTR`).
    pub attributes: u8,
    reserved2: [u8; 3],
    /// `ENDGID`.
    pub endurance_group: U16,
    /// Bit 0: ready (`NSTAT`).
    pub status: u8,
    reserved3: [u8; 4081],
}

/// A namespace of the Key Value command set (KV, figure 26).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct KeyValueNamespace {
    /// Bytes (`NSZE`).
    pub size: U64,
    reserved: [u8; 8],
    /// Bytes in use (`NUSE`); 0 if not reported.
    pub used: U64,
    /// `NSFEAT`.
    pub features: u8,
    /// Formats, less one (`NKVF`).
    pub last_format: u8,
    /// Bit 0: several controllers may have it (`NMIC`).
    pub sharing: u8,
    reserved2: [u8; 9],
    /// Its group of namespaces with the same access (`ANAGRPID`).
    pub access_group: U32,
    reserved5: [u8; 3],
    /// Bit 0: write protected (`NSATTR`).
    pub attributes: u8,
    reserved3: [u8; 2],
    /// `ENDGID`.
    pub endurance_group: U16,
    /// `NGUID`.
    pub guid: [u8; 16],
    /// `EUI64`.
    pub eui64: [u8; 8],
    /// Formats of keys and values.
    pub formats: [KeyValueFormat; 16],
    reserved4: [u8; 3768],
}

/// A format of keys and values.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct KeyValueFormat {
    /// Bytes of the longest key.
    pub key_bytes: U16,
    reserved: u8,
    /// Additional.
    pub additional: u8,
    /// Bytes of the largest value.
    pub value_bytes: U32,
    /// Maximum number of keys; 0 for no limit.
    pub keys: U32,
    reserved2: [u8; 4],
}

/// A structure as the data of a reply.
pub fn bytes_of(structure: &(impl IntoBytes + Immutable)) -> Vec<u8> {
    structure.as_bytes().to_vec()
}

/// An empty structure, to be filled in.
pub fn empty<T: FromZeros>() -> T {
    T::new_zeroed()
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!(size_of::<Controller>(), IDENTIFY_BYTES);
        assert_eq!(offset_of!(Controller, transfer_limit), 77);
        assert_eq!(offset_of!(Controller, version), 80);
        assert_eq!(offset_of!(Controller, events), 92);
        assert_eq!(offset_of!(Controller, kind), 111);
        assert_eq!(offset_of!(Controller, admin_commands), 256);
        assert_eq!(offset_of!(Controller, temperatures), 266);
        assert_eq!(offset_of!(Controller, capacity), 280);
        assert_eq!(offset_of!(Controller, keep_alive), 320);
        assert_eq!(offset_of!(Controller, self_test_minutes), 316);
        assert_eq!(offset_of!(Controller, sanitize), 328);
        assert_eq!(offset_of!(Controller, endurance_groups), 340);
        assert_eq!(offset_of!(Controller, event_log), 352);
        assert_eq!(offset_of!(Controller, submission_bytes), 512);
        assert_eq!(offset_of!(Controller, write_cache), 525);
        assert_eq!(offset_of!(Controller, sgl), 536);
        assert_eq!(offset_of!(Controller, subsystem_name), 768);
        assert_eq!(offset_of!(Controller, command_capsule), 1792);
        assert_eq!(offset_of!(Controller, sgl_descriptors), 1803);
        assert_eq!(offset_of!(Controller, power_state), 2048);
        assert_eq!(size_of::<Namespace>(), IDENTIFY_BYTES);
        assert_eq!(offset_of!(Namespace, deallocate), 33);
        assert_eq!(offset_of!(Namespace, bytes), 48);
        assert_eq!((offset_of!(Namespace, preferred), offset_of!(Namespace, optimal_write)), (64, 72));
        assert_eq!(offset_of!(Namespace, copy_range), 74);
        assert_eq!(offset_of!(Namespace, copy_ranges), 80);
        assert_eq!(offset_of!(Namespace, access_group), 92);
        assert_eq!(offset_of!(Namespace, attributes), 99);
        assert_eq!((offset_of!(Namespace, endurance_group), offset_of!(Namespace, guid)), (102, 104));
        assert_eq!(offset_of!(Namespace, block_formats), 128);
        assert_eq!((size_of::<NvmController>(), size_of::<CommonNamespace>()), (4096, 4096));
        assert_eq!(
            (offset_of!(CommonNamespace, endurance_group), offset_of!(CommonNamespace, status)),
            (12, 14)
        );
        assert_eq!(size_of::<KeyValueNamespace>(), IDENTIFY_BYTES);
        assert_eq!(offset_of!(KeyValueNamespace, attributes), 43);
        assert_eq!(
            (offset_of!(KeyValueNamespace, access_group), offset_of!(CommonNamespace, access_group)),
            (36, 4)
        );
        assert_eq!((offset_of!(Controller, access), offset_of!(Controller, access_groups)), (343, 348));
        assert_eq!(
            (offset_of!(KeyValueNamespace, endurance_group), offset_of!(KeyValueNamespace, guid)),
            (46, 48)
        );
        assert_eq!(offset_of!(KeyValueNamespace, formats), 72);
    }
}
