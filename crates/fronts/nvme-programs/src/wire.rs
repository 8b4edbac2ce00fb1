//! Data of the vendor commands about programs in the drive, which docs/nvme.md describes.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The result of opening an endpoint.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Opened {
    /// The key that names the endpoint in commands.
    pub key: U64,
    /// Its number, as programs see it.
    pub endpoint: U32,
    /// The number of its process, to which rights are granted.
    pub process: U32,
    /// Processors of the drive.
    pub processors: U32,
    /// Bytes of a stripe.
    pub stripe_bytes: U32,
    /// The drive's capacity.
    pub capacity_bytes: U64,
    /// The longest body of a request.
    pub body_bytes: U32,
    reserved: [u8; 28],
}

/// The head of a module to install.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Installation {
    /// The first byte of the program's own region.
    pub region_start: U64,
    /// The end of that region (exclusive); zero if it has none.
    pub region_end: U64,
    /// 1 if every process may send it requests.
    pub is_open: U32,
    reserved: [u8; 12],
}

/// Rights granted to a process.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Granted {
    /// The process.
    pub process: U32,
    /// 1 to read, 2 to write, 3 for both, 0 to revoke them.
    pub rights: U32,
    /// The first byte of the range.
    pub start: U64,
    /// The byte after its last.
    pub end: U64,
    /// Instead of a range: a namespace whose records it may read.
    pub namespace: U32,
    reserved: [u8; 4],
}

/// An event; the body of a request follows, or the text of a fault.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Told {
    /// 1 for a request, 2 for a decision about a permission, 3 for the end of a program.
    pub kind: U32,
    /// The processor.
    pub spu: U32,
    /// The program; zero in a decision.
    pub program: U32,
    /// The handler; zero in a decision.
    pub handler: U32,
    /// Bytes that follow.
    pub bytes: U32,
    /// 1 if a permission was granted.
    pub granted: U32,
    /// The first byte of a permission's range.
    pub start: U64,
    /// The byte after its last.
    pub end: U64,
    /// The drive's time of the event.
    pub at_ns: U64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_page_that_documents_them() {
        let sizes = [size_of::<Opened>(), size_of::<Installation>(), size_of::<Granted>(), size_of::<Told>()];
        assert_eq!(sizes, [64, 32, 32, 48]);
    }
}
