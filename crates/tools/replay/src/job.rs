//! A request of a trace on its way to the drive.

use tantalum::{Handle, Nanoseconds, UNIT_BYTES};

use crate::placement::Piece;
use crate::trace::Operation;

const UNIT: u64 = UNIT_BYTES as u64;

/// A request on its way.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Job {
    pub line: u64,
    pub operation: Operation,
    /// When the host issued it.
    pub asked_ns: Nanoseconds,
    /// Bytes asked for.
    pub bytes: u64,
    /// Where its bytes are on the drive.
    pub pieces: Vec<Piece>,
    /// The reclaim unit handle of what it writes; none on a drive without.
    pub handle: Option<Handle>,
}

/// Whether a request is aligned to units.
pub(crate) fn is_aligned(pieces: &[Piece]) -> bool {
    pieces.iter().all(|piece| piece.offset.is_multiple_of(UNIT) && piece.bytes.is_multiple_of(UNIT))
}
