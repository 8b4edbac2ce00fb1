//! Submission and completion queue entries (Base, sections 3.3.3.1 and 3.3.3.2), and data pointers.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A command.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Submission {
    /// The opcode, see [`super::opcode`].
    pub opcode: u8,
    /// Bits 1:0 fused operation, bits 7:6 the kind of data pointer.
    pub flags: u8,
    /// The command identifier.
    pub id: U16,
    /// The namespace (`NSID`). In a Fabrics command the first byte is its type.
    pub namespace: U32,
    /// Command dwords 2 and 3.
    pub dword2: [U32; 2],
    /// Metadata pointer.
    pub metadata: U64,
    /// Where the data are.
    pub data: Pointer,
    /// Command dwords 10 to 15.
    pub dword10: [U32; 6],
}

/// An SGL descriptor (Base, section 4.1.2).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Pointer {
    /// An offset in the capsule.
    pub address: U64,
    /// Bytes.
    pub bytes: U32,
    reserved: [u8; 3],
    /// The descriptor's type in bits 7:4, its subtype in bits 3:0.
    pub kind: u8,
}

/// A data block in the capsule: its address is an offset.
pub const IN_CAPSULE: u8 = 0x01;
/// A transport data block: the transport moves it.
pub const TRANSPORT: u8 = 0x5a;

impl Pointer {
    /// A given number of bytes of data, in the capsule or moved by the transport.
    pub fn new(bytes: u32, kind: u8) -> Pointer {
        Pointer { address: 0.into(), bytes: bytes.into(), reserved: [0; 3], kind }
    }
}

impl Submission {
    /// Command dword 10 to 15.
    pub fn dword(&self, number: usize) -> u32 {
        self.dword10[number - 10].get()
    }

    /// Dwords 10 and 11 as one number: the first logical block of an I/O command.
    pub fn first_block(&self) -> u64 {
        u64::from(self.dword(11)) << 32 | u64::from(self.dword(10))
    }

    /// Bit `bit` of dword `number`.
    pub fn bit(&self, number: usize, bit: u32) -> bool {
        self.dword(number) >> bit & 1 == 1
    }

    /// The bytes of dwords 10 to 15, as Fabrics commands number them from byte 40.
    pub fn tail(&self) -> &[u8] {
        self.dword10.as_bytes()
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Completion {
    /// The command's result (dwords 0 and 1).
    pub result: U64,
    /// How far the submission queue was read (`SQHD`).
    pub queue_head: U16,
    /// The submission queue; zero over fabrics.
    pub queue: U16,
    /// The command.
    pub id: U16,
    /// Phase in bit 0, status in the others.
    pub status: U16,
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!(size_of::<Submission>(), 64);
        assert_eq!((offset_of!(Submission, data), offset_of!(Submission, dword10)), (24, 40));
        assert_eq!((size_of::<Pointer>(), offset_of!(Pointer, kind)), (16, 15));
        assert_eq!((size_of::<Completion>(), offset_of!(Completion, status)), (16, 14));
    }

    #[test]
    fn dwords_are_counted_as_the_standard_does() {
        let dword10 = [1, 2, 3, 4, 5, 6].map(U32::new);
        let command = Submission { dword10, ..Submission::default() };
        assert_eq!((command.dword(10), command.dword(15)), (1, 6));
        assert_eq!(command.first_block(), 2 << 32 | 1);
        assert!(command.bit(12, 0) && command.bit(12, 1) && !command.bit(12, 2));
    }
}
