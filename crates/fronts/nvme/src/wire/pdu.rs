//! Protocol data units of NVMe/TCP (TCP, section 3.6).

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Completion, Submission};

/// Types of PDUs (TCP, section 3.6.1).
pub mod kind {
    /// The host opens a connection.
    pub const IC_REQ: u8 = 0x00;
    /// The controller's answer.
    pub const IC_RESP: u8 = 0x01;
    /// The host ends a connection because of an error.
    pub const H2C_TERM_REQ: u8 = 0x02;
    /// The controller ends a connection because of an error.
    pub const C2H_TERM_REQ: u8 = 0x03;
    /// A command.
    pub const CAPSULE_CMD: u8 = 0x04;
    /// A completion.
    pub const CAPSULE_RESP: u8 = 0x05;
    /// Data of a write command.
    pub const H2C_DATA: u8 = 0x06;
    /// Data of a read command.
    pub const C2H_DATA: u8 = 0x07;
    /// The controller is ready for data.
    pub const R2T: u8 = 0x09;
}

/// Bits of [`Common::flags`].
pub mod flag {
    /// A header digest follows the header.
    pub const HEADER_DIGEST: u8 = 1 << 0;
    /// A data digest follows the data.
    pub const DATA_DIGEST: u8 = 1 << 1;
    /// The last data PDU of a transfer.
    pub const LAST: u8 = 1 << 2;
    /// The command succeeded, and no response follows.
    pub const SUCCESS: u8 = 1 << 3;
}

/// Positions of fields in headers, which tell a host where its mistake is.
pub mod field {
    /// The type of the PDU.
    pub const KIND: u32 = 0;
    /// The flags.
    pub const FLAGS: u32 = 1;
    /// Bytes of the header.
    pub const HEADER_BYTES: u32 = 2;
    /// Where the data begin.
    pub const DATA_OFFSET: u32 = 3;
    /// Bytes of the PDU.
    pub const PDU_BYTES: u32 = 4;
    /// The format version in the first PDU.
    pub const VERSION: u32 = 8;
    /// The command to which data belong.
    pub const COMMAND: u32 = 8;
    /// The alignment in the first PDU.
    pub const ALIGNMENT: u32 = 10;
    /// The transfer to which data belong.
    pub const TRANSFER: u32 = 10;
}

/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 4;

/// The digests of a connection: bit 0 those of headers, bit 1 those of data (`DGST`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Digests(u8);

impl Digests {
    /// Those among the bits that a host asks for which exist.
    pub fn new(bits: u8) -> Digests {
        Digests(bits & 3)
    }

    /// The bits.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Whether headers have digests.
    pub fn of_headers(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether data have digests.
    pub fn of_data(self) -> bool {
        self.0 & 2 != 0
    }
}

/// The supported PDU format version (`PFV`).
pub const FORMAT_VERSION: u16 = 0;
/// Bytes of data that a command on the admin queue may carry (TCP, section 3.5).
pub const ADMIN_CAPSULE_BYTES: usize = 8192;

/// The common header of all PDUs.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Common {
    /// Its type, see [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// Bytes of the header (`HLEN`).
    pub header_bytes: u8,
    /// Offset of the data from the beginning of the PDU (`PDO`).
    pub data_offset: u8,
    /// Total bytes, including digests (`PLEN`).
    pub pdu_bytes: U32,
}

/// The host's or the controller's first PDU (TCP, sections 3.6.2.2 and 3.6.2.3).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Initialize {
    /// The common header.
    pub common: Common,
    /// The format version (`PFV`).
    pub version: U16,
    /// Required alignment of the data that this side receives, in dwords less one (`HPDA`, `CPDA`).
    pub alignment: u8,
    /// Bit 0: header digests; bit 1: data digests (`DGST`).
    pub digests: u8,
    /// The host's: R2Ts of one command, less one (`MAXR2T`). The controller's: bytes in one data PDU (`MAXH2CDATA`).
    pub limit: U32,
    reserved: [u8; 112],
}

/// Data of a command, in either direction (TCP, sections 3.6.2.8 and 3.6.2.9), and R2T (3.6.2.10), which has the same fields.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Data {
    /// The common header.
    pub common: Common,
    /// The command (`CCCID`).
    pub command: U16,
    /// The transfer that an R2T opened (`TTAG`).
    pub transfer: U16,
    /// Offset in the command's data (`DATAO`, `R2TO`).
    pub offset: U32,
    /// Number of bytes (`DATAL`, `R2TL`).
    pub bytes: U32,
    reserved: [u8; 4],
}

/// The end of a connection because of an error (TCP, sections 3.6.2.4 and 3.6.2.5). The header of the PDU at fault
/// follows.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Terminate {
    /// The common header.
    pub common: Common,
    /// Why (`FES`).
    pub status: U16,
    /// More about it (`FEI`).
    pub information: U32,
    reserved: [u8; 10],
}

/// Why a connection ends (`FES`; TCP, figure 31 and following).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fatal {
    /// An invalid field in a PDU's header, with its position.
    InvalidField(u32),
    /// An unexpected PDU.
    Sequence,
    /// The header and its digest disagree.
    HeaderDigest,
    /// Data that were not requested.
    DataOutOfRange,
    /// Too much data for one PDU or the transfer.
    DataLimit,
    /// An unsupported parameter, with its position.
    Unsupported(u32),
}

impl Fatal {
    /// The status and its information field.
    pub fn fields(self) -> (u16, u32) {
        match self {
            Fatal::InvalidField(at) => (0x01, at),
            Fatal::Sequence => (0x02, 0),
            Fatal::HeaderDigest => (0x03, 0),
            Fatal::DataOutOfRange => (0x04, 0),
            Fatal::DataLimit => (0x05, 0),
            Fatal::Unsupported(at) => (0x06, at),
        }
    }
}

/// A capsule with a command (TCP, section 3.6.2.6).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct CommandCapsule {
    /// The common header.
    pub common: Common,
    /// The command.
    pub command: Submission,
}

/// A capsule with a completion (TCP, section 3.6.2.7).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ResponseCapsule {
    /// The common header.
    pub common: Common,
    /// The completion.
    pub completion: Completion,
}

/// Bytes of the header of a PDU that a host may send; `None` if hosts send no PDUs of this type.
pub fn host_header_bytes(kind: u8) -> Option<usize> {
    match kind {
        kind::IC_REQ => Some(size_of::<Initialize>()),
        kind::H2C_TERM_REQ => Some(size_of::<Terminate>()),
        kind::CAPSULE_CMD => Some(size_of::<CommandCapsule>()),
        kind::H2C_DATA => Some(size_of::<Data>()),
        _ => None,
    }
}

/// Bytes of the header of a PDU that a controller may send.
pub fn controller_header_bytes(kind: u8) -> Option<usize> {
    match kind {
        kind::IC_RESP => Some(size_of::<Initialize>()),
        kind::C2H_TERM_REQ => Some(size_of::<Terminate>()),
        kind::CAPSULE_RESP => Some(size_of::<ResponseCapsule>()),
        kind::C2H_DATA | kind::R2T => Some(size_of::<Data>()),
        _ => None,
    }
}

impl Initialize {
    /// The first PDU of a side.
    pub fn new(kind: u8, alignment: u8, digests: u8, limit: u32) -> Initialize {
        Initialize {
            common: Common { kind, flags: 0, header_bytes: 128, data_offset: 0, pdu_bytes: 128.into() },
            version: FORMAT_VERSION.into(),
            alignment,
            digests,
            limit: limit.into(),
            reserved: [0; 112],
        }
    }
}

impl Data {
    /// A data PDU or an R2T; the sender completes its common header.
    pub fn new(kind: u8, flags: u8, command: u16, transfer: u16, offset: u32, bytes: u32) -> Data {
        Data {
            common: Common { kind, flags, header_bytes: 24, data_offset: 0, pdu_bytes: 24.into() },
            command: command.into(),
            transfer: transfer.into(),
            offset: offset.into(),
            bytes: bytes.into(),
            reserved: [0; 4],
        }
    }
}

impl Terminate {
    /// The end because of an error; `header` bytes of the PDU at fault follow.
    pub fn new(kind: u8, fatal: Fatal, header: usize) -> Terminate {
        let (status, information) = fatal.fields();
        Terminate {
            common: Common {
                kind,
                flags: 0,
                header_bytes: 24,
                data_offset: 0,
                pdu_bytes: (24 + header as u32).into(),
            },
            status: status.into(),
            information: information.into(),
            reserved: [0; 10],
        }
    }
}

impl CommandCapsule {
    /// A command without data; the sender completes its common header.
    pub fn new(command: Submission) -> CommandCapsule {
        let common = Common {
            kind: kind::CAPSULE_CMD,
            flags: 0,
            header_bytes: 72,
            data_offset: 0,
            pdu_bytes: 72.into(),
        };
        CommandCapsule { common, command }
    }
}

impl ResponseCapsule {
    /// A completion; the sender completes its common header.
    pub fn new(completion: Completion) -> ResponseCapsule {
        let common = Common {
            kind: kind::CAPSULE_RESP,
            flags: 0,
            header_bytes: 24,
            data_offset: 0,
            pdu_bytes: 24.into(),
        };
        ResponseCapsule { common, completion }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!(size_of::<Common>(), 8);
        assert_eq!(size_of::<Initialize>(), 128);
        assert_eq!((offset_of!(Initialize, alignment), offset_of!(Initialize, limit)), (10, 12));
        assert_eq!(size_of::<Data>(), 24);
        assert_eq!((offset_of!(Data, transfer), offset_of!(Data, bytes)), (10, 16));
        assert_eq!(size_of::<Terminate>(), 24);
        assert_eq!((offset_of!(Terminate, status), offset_of!(Terminate, information)), (8, 10));
        assert_eq!((size_of::<CommandCapsule>(), size_of::<ResponseCapsule>()), (72, 24));
    }

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        let data = Data::new(kind::H2C_DATA, flag::LAST, 0x1234, 7, 4096, 512);
        let bytes = data.as_bytes();
        assert_eq!(&bytes[8..20], [0x34, 0x12, 7, 0, 0, 0x10, 0, 0, 0, 2, 0, 0]);
        let read = Data::read_from_bytes(bytes).unwrap();
        assert_eq!((read.command.get(), read.bytes.get(), read.common.flags), (0x1234, 512, flag::LAST));
    }
}
