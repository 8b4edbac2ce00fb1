//! Dataset Management (NVM, section 3.2.3).

use tantalum_drive::{Request, When};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::part::Part;
use super::transfer::TRANSFER_BYTES;
use super::work::{Force, Worked};
use super::write::flush_if;
use crate::blocks::Blocks;
use crate::failure::Failure;

/// Bytes of a range.
pub const RANGE_BYTES: u32 = 16;

const _: () = assert!(size_of::<Range>() == RANGE_BYTES as usize, "a range is as long as it is counted");
const _: () = assert!((1 << 8) * RANGE_BYTES <= TRANSFER_BYTES, "the ranges of a command are one transfer");

/// A range of blocks.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Range {
    attributes: U32,
    blocks: U32,
    first: U64,
}

/// The ranges of a command that name any blocks: the first one of each, and their number.
pub fn ranges_of(data: &[u8]) -> Option<Vec<(u64, u64)>> {
    let ranges = <[Range]>::ref_from_bytes(data).ok()?.iter();
    let ranges = ranges.map(|range| (range.first.get(), u64::from(range.blocks.get())));
    Some(ranges.filter(|(_, count)| *count > 0).collect())
}

/// Deallocates ranges, if requested, after checking that all of them exist. Deallocated units read as zeros. Parts of
/// units stay unchanged.
pub fn deallocate(part: Part<'_>, when: When, data: &[u8], is_wanted: bool, force: Force) -> Worked {
    let used = ranges_of(data).ok_or(Failure::INVALID_FIELD)?.into_iter();
    let used = used.map(|(first, count)| part.space.blocks(first, count as u32));
    let used = used.collect::<Result<Vec<Blocks>, Failure>>()?;
    if !is_wanted {
        return Ok(Default::default());
    }
    let mut done_ns = 0;
    for blocks in used {
        let around = part.space.units(blocks);
        let (lpn, units) = around.whole();
        assert!(
            around.first <= lpn && lpn.0 + units <= around.first.0 + around.count || units == 0,
            "{units} units at {lpn} are deallocated for {blocks:?}, which lie in {around:?}"
        );
        if units > 0 {
            let reply = part.perform(Request::Trim { lpn, units }, when)?;
            done_ns = done_ns.max(reply.done_ns);
        }
    }
    flush_if(force, part, when, done_ns)
}
