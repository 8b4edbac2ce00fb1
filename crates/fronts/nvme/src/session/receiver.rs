//! A PDU being read.

use zerocopy::FromBytes;

use crate::wire::command::Submission;
use crate::wire::pdu::{CommandCapsule, Common, DIGEST_BYTES, Data, Initialize};

/// Bytes of the largest header, with its digest.
const HEADER_BYTES: usize = size_of::<Initialize>() + DIGEST_BYTES;

const _: () = assert!(
    size_of::<CommandCapsule>() + DIGEST_BYTES <= HEADER_BYTES
        && size_of::<Data>() + DIGEST_BYTES <= HEADER_BYTES,
    "headers of commands and data fit with their digests"
);

/// The part of a PDU being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The header and its digest.
    Header,
    /// Padding between header and data; its bytes.
    Padding(usize),
    /// Data; the bytes that are missing.
    Data(usize),
    /// The digest of the data; the bytes of it that have arrived.
    Digest(usize),
}

/// Where data go.
#[derive(Debug)]
pub enum Target {
    /// Into the capsule.
    Capsule(Vec<u8>),
    /// Into a transfer: which one, and the range.
    Transfer { tag: u16, from: usize, at: usize },
}

/// A PDU being read.
#[derive(Debug)]
pub struct Receiver {
    pub stage: Stage,
    pub header: [u8; HEADER_BYTES],
    pub header_read: usize,
    pub digest: [u8; DIGEST_BYTES],
    pub target: Target,
    pub data_bytes: usize,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            stage: Stage::Header,
            header: [0; HEADER_BYTES],
            header_read: 0,
            digest: [0; DIGEST_BYTES],
            target: Target::Capsule(Vec::new()),
            data_bytes: 0,
        }
    }
}

impl Receiver {
    /// The common header.
    pub fn common(&self) -> Common {
        Common::read_from_prefix(&self.header).expect("a header is longer").0
    }

    /// The command in a capsule.
    pub fn capsule(&self) -> Submission {
        Submission::read_from_prefix(&self.header[size_of::<Common>()..]).expect("a header is longer").0
    }

    /// The part of the header that was read.
    pub fn header(&self) -> &[u8] {
        let digest = self.header_read.min(self.common().header_bytes.into());
        &self.header[..digest]
    }
}
