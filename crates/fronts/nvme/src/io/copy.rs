//! Copy (NVM, section 3.2.2): the drive shares what it can, as the standard leaves the method of copying open. The rest is
//! read and written: parts of units, ranges that are not aligned to units, and overlapping ranges. So is everything that is to be placed
//! with a certain reclaim unit handle, because what is shared stays where it lies.

use tantalum::{Lpn, ShareRange, UNIT_BYTES};
use tantalum_drive::{Request, When};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::part::Part;
use super::placed::Placed;
use super::read;
use super::transfer::TRANSFER_BYTES;
use super::work::{Force, Worked};
use super::write::{flush_if, write};
use crate::blocks::{Blocks, Units};
use crate::failure::Failure;
use crate::wire::command::Submission;

/// Maximum number of source ranges of one command.
pub const COPY_RANGES: u32 = 128;
/// Maximum size of one command: what cannot be shared is held in memory.
pub const COPY_BLOCKS_BYTES: u32 = 1 << 20;
/// Size of a source range descriptor.
pub const RANGE_BYTES: u32 = 32;

const _: () =
    assert!(COPY_RANGES * RANGE_BYTES <= TRANSFER_BYTES, "the ranges of a command are one transfer");
const _: () = assert!(size_of::<Range>() == RANGE_BYTES as usize, "a range is as long as it is counted");

/// A source range (format 0).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Range {
    reserved: U64,
    first: U64,
    /// The number of blocks, less one, in the lower half.
    blocks: U32,
    protection: [u8; 12],
}

/// Reads the command's fields: the first block to write, and the number of ranges.
pub fn decode(command: &Submission) -> Result<(u64, u32), Failure> {
    let (ranges, format) = ((command.dword(12) & 0xff) + 1, command.dword(12) >> 8 & 0xf);
    if format != 0 {
        return Err(Failure::INVALID_FIELD);
    }
    if ranges > COPY_RANGES {
        return Err(Failure::SIZE_LIMIT);
    }
    Ok((command.first_block(), ranges))
}

/// The source ranges of a command: the first block of each, and their number.
pub fn sources_of(data: &[u8]) -> Option<Vec<(u64, u64)>> {
    let ranges = <[Range]>::ref_from_bytes(data).ok()?;
    Some(
        ranges
            .iter()
            .map(|range| (range.first.get(), u64::from((range.blocks.get() & 0xffff) + 1)))
            .collect(),
    )
}

/// Copies ranges, one after the other, to consecutive blocks starting at `to`. If one fails, the completion says how
/// many were copied.
pub fn copy(part: Part<'_>, when: When, to: u64, data: &[u8], force: Force, placed: Placed) -> Worked {
    let space = part.space;
    let sources = sources_of(data).ok_or(Failure::INVALID_FIELD)?.into_iter();
    let sources = sources.map(|(first, count)| space.blocks(first, count as u32));
    let sources = sources.collect::<Result<Vec<Blocks>, Failure>>()?;
    let total: u64 = sources.iter().map(|source| u64::from(source.count)).sum();
    if total * u64::from(space.block_bytes) > COPY_BLOCKS_BYTES.into() {
        return Err(Failure::SIZE_LIMIT);
    }
    space.blocks(to, total as u32)?;
    let (first, mut to, mut done_ns) = (to, to, 0);
    for (copied, &source) in sources.iter().enumerate() {
        let target = Blocks { first: to, count: source.count };
        let ended = copy_range(part, when, source, target, placed);
        let (_, range_ns) = ended.map_err(|failure| failure.with_result(copied as u64))?;
        done_ns = done_ns.max(range_ns);
        to += u64::from(source.count);
    }
    assert_eq!(
        to,
        first + total,
        "{} ranges of {total} blocks were copied elsewhere than from block {first} on",
        sources.len()
    );
    flush_if(force, part, when, done_ns)
}

fn copy_range(part: Part<'_>, when: When, source: Blocks, target: Blocks, placed: Placed) -> Worked {
    let (from, onto) = (part.space.units(source), part.space.units(target));
    if !placed.is_named() && from.are_whole() && onto.are_whole() && !overlap(from, onto) {
        part.check_readable(source)?;
        let (answer, shared_ns) = share(part, when, from, onto, placed)?;
        return Ok((answer, shared_ns.max(part.unmark(target, when)?)));
    }
    let (answer, read_ns) = read::read(part, when, source, Vec::new())?;
    let (answer, written_ns) = write(part, when, target, answer.data, Force(false), placed)
        .map(|(_, written_ns)| (Default::default(), written_ns))?;
    Ok((answer, written_ns.max(read_ns)))
}

fn overlap(from: Units, onto: Units) -> bool {
    from.first.0 < onto.first.0 + onto.count && onto.first.0 < from.first.0 + from.count
}

/// Shares runs of mapped units, and deallocates where the source is unmapped.
fn share(part: Part<'_>, when: When, from: Units, onto: Units, placed: Placed) -> Worked {
    let (mut at, mut done_ns) = (0, 0);
    while at < from.count {
        let (src, dst) = (Lpn(from.first.0 + at), Lpn(onto.first.0 + at));
        let (units, is_mapped) = run(part, src, from.count - at)?;
        let reply = match is_mapped {
            true => share_or_write(part, when, ShareRange { dst, src, units }, placed)?,
            false => part.perform(Request::Trim { lpn: dst, units }, when)?.done_ns,
        };
        done_ns = done_ns.max(reply);
        at += units;
    }
    assert_eq!(at, from.count, "runs of {from:?} end elsewhere than the range");
    Ok((Default::default(), done_ns))
}

/// The number of units from here that are mapped like the first one, or unmapped like it; at most the limit of one
/// share.
fn run(part: Part<'_>, first: Lpn, most: u32) -> Result<(u32, bool), Failure> {
    let device = part.lock()?;
    let is_mapped = device.is_mapped(first);
    let most = most.min(device.limits().share_units.max(1));
    let same = (1..most).take_while(|&units| device.is_mapped(Lpn(first.0 + units)) == is_mapped).count();
    Ok((1 + same as u32, is_mapped))
}

/// The drive may have no room for another owner; another client may have unmapped a unit meanwhile.
fn share_or_write(
    part: Part<'_>,
    when: When,
    range: ShareRange,
    Placed { handle, .. }: Placed,
) -> Result<u64, Failure> {
    match part.perform(Request::Share { ranges: vec![range], deferred: true }, when) {
        Err(Failure::OVER_LIMIT | Failure::UNMAPPED) => {
            let mut data = vec![0; range.units as usize * UNIT_BYTES];
            let read = part.read(range.src, &mut data, when)?;
            let written = part.write(range.dst, &data, false, handle, when)?;
            Ok(written.done_ns.max(read.done_ns))
        }
        shared => Ok(shared?.done_ns),
    }
}
