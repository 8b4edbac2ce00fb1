//! The host's errors about programs.

use crate::names::ProgramId;

/// Why an operation on programs failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpuError {
    /// The drive has no power.
    #[error("the drive has no power")]
    PowerLost,
    /// All queue pairs are taken.
    #[error("all {queue_pairs} queue pairs of the drive are in use: close an endpoint first")]
    NoQueuePair {
        /// How many there are.
        queue_pairs: u32,
    },
    /// An endpoint that was closed.
    #[error("endpoint {0:#x} is closed")]
    NoEndpoint(u32),
    /// A processor that the drive does not have.
    #[error("the drive has {processors} processors, numbered from 0, and no processor {spu}")]
    NoProcessor {
        /// The number given.
        spu: u32,
        /// How many there are.
        processors: u32,
    },
    /// A body that is too long.
    #[error("the body has {bytes} bytes; the limit is {limit}")]
    BodyTooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A program that is not installed.
    #[error("program {0} is not installed")]
    NoProgram(ProgramId),
    /// A range that cannot be granted.
    #[error("{start:#x} to {end:#x} cannot be granted: {reason}")]
    NotGrantable {
        /// Its first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Why it cannot be granted.
        reason: &'static str,
    },
}
