//! Copy (NVM, section 3.2.2): the drive shares what it can, as the standard leaves the method of copying open. The rest is
//! read and written: parts of units, ranges that are not aligned to units, and overlapping ranges. So is everything that is to be placed
//! with a certain reclaim unit handle, because what is shared stays where it lies.

use tantalum::{Lpn, ShareRange, UNIT_BYTES};
use tantalum_drive::{Request, When};
use zerocopy::little_endian::{U16, U32, U64};
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
use crate::wire::feature::COPY_ACROSS;

/// Maximum number of source ranges of one command.
pub const COPY_RANGES: u32 = 128;
/// Maximum size of one command: what cannot be shared is held in memory.
pub const COPY_BLOCKS_BYTES: u32 = 1 << 20;
/// Size of a source range descriptor.
pub const RANGE_BYTES: u32 = 32;

/// The format of descriptors without a namespace.
const WITHIN: u32 = 0;
/// Only if no data have to be moved (`FCO`), in the options of a range.
const FAST_ONLY: u16 = 1 << 15;

const _: () =
    assert!(COPY_RANGES * RANGE_BYTES <= TRANSFER_BYTES, "the ranges of a command are one transfer");
const _: () = assert!(size_of::<Range>() == RANGE_BYTES as usize, "a range is as long as it is counted");

/// A source range (formats 0 and 2).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Range {
    /// Of format 2.
    namespace: U32,
    reserved: U32,
    first: U64,
    /// The number of blocks, less one.
    blocks: U16,
    extension: [u8; 4],
    /// Of format 2.
    options: U16,
    protection: [u8; 8],
}

/// A Copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CopyCommand {
    /// The first block to write.
    pub to: u64,
    /// The number of source ranges.
    pub ranges: u32,
    /// Whether they name namespaces.
    pub is_across: bool,
    /// Whether it is on flash before it is done.
    pub force: Force,
    /// Where its data are placed.
    pub placed: Placed,
}

/// A source range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// Its namespace, if it names one.
    pub namespace: Option<u32>,
    /// The first block.
    pub first: u64,
    /// How many.
    pub count: u32,
    /// Whether the copy is to fail if data have to be moved.
    is_fast_only: bool,
}

impl CopyCommand {
    /// Reads the command's fields.
    pub fn decode(command: &Submission, force: Force) -> Result<CopyCommand, Failure> {
        let (ranges, format) = ((command.dword(12) & 0xff) + 1, command.dword(12) >> 8 & 0xf);
        if format != WITHIN && format != COPY_ACROSS {
            return Err(Failure::INVALID_FIELD);
        }
        if ranges > COPY_RANGES {
            return Err(Failure::SIZE_LIMIT);
        }
        let (to, placed) = (command.first_block(), Placed::of(command, 0xf)?);
        Ok(CopyCommand { to, ranges, is_across: format == COPY_ACROSS, force, placed })
    }

    /// Its source ranges.
    pub fn sources_of(&self, data: &[u8]) -> Option<Vec<Source>> {
        let source = |range: &Range| Source {
            namespace: self.is_across.then_some(range.namespace.get()),
            first: range.first.get(),
            count: u32::from(range.blocks.get()) + 1,
            is_fast_only: self.is_across && range.options.get() & FAST_ONLY != 0,
        };
        Some(<[Range]>::ref_from_bytes(data).ok()?.iter().map(source).collect())
    }
}

/// A source range that was found.
struct Found<'a> {
    part: Part<'a>,
    blocks: Blocks,
    is_fast_only: bool,
}

/// Copies ranges, one after the other, to consecutive blocks. If one fails, the completion says how many were copied. `find` gives the
/// drive for another namespace.
pub fn copy<'a>(
    part: Part<'a>,
    when: When,
    command: CopyCommand,
    data: &[u8],
    find: impl Fn(u32) -> Result<Part<'a>, Failure>,
) -> Worked {
    let space = part.space;
    let sources = command.sources_of(data).ok_or(Failure::INVALID_FIELD)?.into_iter();
    let sources = sources.map(|source| {
        let there = source.namespace.map_or(Ok(part), &find)?;
        if there.space.block_bytes != space.block_bytes {
            return Err(Failure::INCOMPATIBLE_NAMESPACE);
        }
        let blocks = there.space.blocks(source.first, source.count)?;
        Ok(Found { part: there, blocks, is_fast_only: source.is_fast_only })
    });
    let sources = sources.collect::<Result<Vec<Found<'_>>, Failure>>()?;
    let total: u64 = sources.iter().map(|source| u64::from(source.blocks.count)).sum();
    if total * u64::from(space.block_bytes) > COPY_BLOCKS_BYTES.into() {
        return Err(Failure::SIZE_LIMIT);
    }
    space.blocks(command.to, total as u32)?;
    let (mut to, mut done_ns) = (command.to, 0);
    for (copied, source) in sources.iter().enumerate() {
        let target = Blocks { first: to, count: source.blocks.count };
        let ended = copy_range(part, when, source, target, command.placed);
        let (_, range_ns) = ended.map_err(|failure| failure.with_result(copied as u64))?;
        done_ns = done_ns.max(range_ns);
        to += u64::from(source.blocks.count);
    }
    assert_eq!(
        to,
        command.to + total,
        "{} ranges of {total} blocks were copied elsewhere than from block {} on",
        sources.len(),
        command.to
    );
    flush_if(command.force, part, when, done_ns)
}

fn copy_range(part: Part<'_>, when: When, source: &Found<'_>, target: Blocks, placed: Placed) -> Worked {
    let (from, onto) = (source.part.space.units(source.blocks), part.space.units(target));
    if !placed.is_named() && from.are_whole() && onto.are_whole() && !overlap(from, onto) {
        source.part.check_readable(source.blocks)?;
        let there = part.beside(&source.part);
        let (answer, shared_ns) = share(there, when, from, onto, source.is_fast_only, placed)?;
        return Ok((answer, shared_ns.max(part.unmark(target, when)?)));
    }
    if source.is_fast_only {
        return Err(Failure::FAST_COPY_NOT_POSSIBLE);
    }
    let (answer, read_ns) = read::read(source.part, when, source.blocks, Vec::new())?;
    let (answer, written_ns) = write(part, when, target, answer.data, Force(false), placed)
        .map(|(_, written_ns)| (Default::default(), written_ns))?;
    Ok((answer, written_ns.max(read_ns)))
}

fn overlap(from: Units, onto: Units) -> bool {
    from.first.0 < onto.first.0 + onto.count && onto.first.0 < from.first.0 + from.count
}

/// Shares runs of mapped units, and deallocates where the source is unmapped.
fn share(part: Part<'_>, when: When, from: Units, onto: Units, is_fast_only: bool, placed: Placed) -> Worked {
    let (mut at, mut done_ns) = (0, 0);
    while at < from.count {
        let (src, dst) = (Lpn(from.first.0 + at), Lpn(onto.first.0 + at));
        let (units, is_mapped) = run(part, src, from.count - at)?;
        let reply = match is_mapped {
            true => share_or_write(part, when, ShareRange { dst, src, units }, is_fast_only, placed)?,
            false => {
                without_data(part, units, part.perform(Request::Trim { lpn: dst, units }, when)?.done_ns)?
            }
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
    is_fast_only: bool,
    Placed { handle, .. }: Placed,
) -> Result<u64, Failure> {
    match part.perform(Request::Share { ranges: vec![range], deferred: true }, when) {
        Err(Failure::OVER_LIMIT) if is_fast_only => Err(Failure::FAST_COPY_NOT_POSSIBLE),
        Err(Failure::OVER_LIMIT | Failure::UNMAPPED) => {
            let mut data = vec![0; range.units as usize * UNIT_BYTES];
            let read = part.read(range.src, &mut data, when)?;
            let written = part.write(range.dst, &data, false, handle, when)?;
            Ok(written.done_ns.max(read.done_ns))
        }
        shared => without_data(part, range.units, shared?.done_ns),
    }
}

/// Counts units that were copied without moving their data.
fn without_data(part: Part<'_>, units: u32, done_ns: u64) -> Result<u64, Failure> {
    part.lock()?.count_without_data(units.into());
    Ok(done_ns)
}
