//! What commands change, by their fields and data, as the server reads them.

use tantalum::{Lpn, ShareRange};

use super::spot::{ABSENT, Spot, Sum, sum_of};
use super::versions::Content;
use crate::blocks::BlockSpace;
use crate::io::key_value::{KeyValueCommand, records_of};
use crate::io::vendor::{HintedPage, VendorCommand, ranges_of, writes_of};
use crate::io::{Force, IoCommand, deallocate};

/// What a command changes, if it takes place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Blocks and records, with what they hold then.
    pub spots: Vec<(Spot, Content)>,
    /// Whether it happens as a whole or not at all.
    pub is_step: bool,
    /// Whether it is durable when it is done.
    pub is_durable: bool,
    /// Blocks that it may change later, with what they hold then: the home of a page of a hinted log.
    pub later: Vec<(Spot, Content)>,
}

/// The blocks of a unit.
pub fn blocks_of(space: &BlockSpace, lpn: Lpn) -> impl Iterator<Item = Spot> + use<> {
    let per_unit = u64::from(space.per_unit());
    (u64::from(lpn.0) * per_unit..(u64::from(lpn.0) + 1) * per_unit).map(Spot::Block)
}

/// The blocks of a unit with the checksums of its bytes.
pub fn unit(space: &BlockSpace, lpn: Lpn, data: &[u8]) -> Vec<(Spot, Content)> {
    let sums: Vec<Sum> = data.chunks_exact(space.block_bytes as usize).map(sum_of).collect();
    blocks_of(space, lpn).zip(sums.into_iter().map(Content::Is)).collect()
}

/// What a command changes; `None` for one that reads, or is about a transaction. `data` came from the host.
pub fn change_of(command: IoCommand, space: &BlockSpace, data: &[u8]) -> Option<Change> {
    let block_bytes = space.block_bytes as usize;
    let zero = Content::Is(sum_of(&vec![0; block_bytes]));
    let zeros = |first: u64, count: u64| {
        let zero = zero.clone();
        (first..first + count).map(move |block| (Spot::Block(block), zero.clone()))
    };
    let plain =
        |spots: Vec<(Spot, Content)>, Force(is_durable)| Change { spots, is_durable, ..Change::default() };
    match command {
        IoCommand::Write(blocks, force, _) => {
            let sums = data.chunks_exact(block_bytes).map(|block| Content::Is(sum_of(block)));
            let spots: Vec<(Spot, Content)> = (blocks.first..).map(Spot::Block).zip(sums).collect();
            debug_assert_eq!(
                spots.len(),
                blocks.count as usize,
                "blocks that get other bytes, and those of {blocks:?}"
            );
            Some(plain(spots, force))
        }
        IoCommand::WriteZeroes(blocks, force, _) => {
            Some(plain(zeros(blocks.first, blocks.count.into()).collect(), force))
        }
        IoCommand::Deallocate(_, true) => {
            let ranges = deallocate::ranges_of(data)?;
            let spots = ranges.into_iter().flat_map(|(first, count)| zeros(first, count)).collect();
            Some(plain(spots, Force(false)))
        }
        IoCommand::Copy(copy) => {
            let sources = copy.sources_of(data)?.into_iter();
            // it knows one namespace with blocks
            let from = sources.flat_map(|source| source.first..source.first + u64::from(source.count));
            let spots =
                (copy.to..).zip(from).map(|(to, from)| (Spot::Block(to), Content::Like(Spot::Block(from))));
            Some(plain(spots.collect(), copy.force))
        }
        IoCommand::Vendor(command) => vendor_change(command, space, data),
        IoCommand::KeyValue(command) => record_change(command, data),
        IoCommand::Flush
        | IoCommand::Read(_)
        | IoCommand::Compare(_)
        | IoCommand::Verify(_)
        | IoCommand::Handles(_)
        // hosts send its halves
        | IoCommand::CompareAndWrite(..)
        // it does not judge what hosts make unreadable
        | IoCommand::WriteUncorrectable(_)
        // it does not attach to zones
        | IoCommand::Zones(_)
        | IoCommand::Deallocate(_, false) => None,
    }
}

/// All or nothing, and durable when it is done.
fn step(spots: Vec<(Spot, Content)>) -> Change {
    Change { spots, is_step: true, is_durable: true, later: Vec::new() }
}

fn vendor_change(command: VendorCommand, space: &BlockSpace, data: &[u8]) -> Option<Change> {
    match command {
        VendorCommand::Share(_, is_deferred) => {
            let ranges = ranges_of(data).ok()?;
            let spots = ranges.iter().flat_map(|range| shared(space, range)).collect();
            Some(Change { is_durable: !is_deferred, ..step(spots) })
        }
        VendorCommand::Remap(from, to, units) => {
            let range = ShareRange { dst: Lpn(to), src: Lpn(from), units };
            let zero = Content::Is(sum_of(&vec![0; space.block_bytes as usize]));
            let moved = (from..from.checked_add(units)?).flat_map(|unit| blocks_of(space, Lpn(unit)));
            let gone = moved.map(|block| (block, zero.clone()));
            Some(step(shared(space, &range).chain(gone).collect()))
        }
        VendorCommand::WriteAtomic(count) => Some(step(units(space, count, data)?)),
        VendorCommand::WriteBatch(count, _) => {
            let (scattered, records) = data.split_at_checked((count as usize + 1) * tantalum::UNIT_BYTES)?;
            let mut spots = units(space, count, scattered)?;
            spots.extend(put(records)?);
            Some(step(spots))
        }
        VendorCommand::WriteHinted(lpn) => {
            let (page, data) = <HintedPage as zerocopy::FromBytes>::ref_from_prefix(data).ok()?;
            let home = page.hint().home;
            let spots = unit(space, Lpn(lpn), data);
            let later = home.map(|home| unit(space, home, data)).unwrap_or_default();
            Some(Change { spots, later, ..Change::default() })
        }
        VendorCommand::Begin
        | VendorCommand::TxWrite(..)
        | VendorCommand::TxRead(..)
        | VendorCommand::Commit(_)
        | VendorCommand::Abort(_)
        | VendorCommand::BeginLog => None,
    }
}

fn record_change(command: KeyValueCommand, data: &[u8]) -> Option<Change> {
    match command {
        KeyValueCommand::Store(namespace, key, _, _) => {
            Some(step(vec![(Spot::Record(namespace, key), Content::Is(sum_of(data)))]))
        }
        KeyValueCommand::Delete(namespace, key) => {
            Some(step(vec![(Spot::Record(namespace, key), Content::Is(ABSENT))]))
        }
        KeyValueCommand::Put(_) => Some(step(put(data)?)),
        KeyValueCommand::Retrieve(..) | KeyValueCommand::List(..) | KeyValueCommand::Exist(..) => None,
    }
}

fn put(data: &[u8]) -> Option<Vec<(Spot, Content)>> {
    let records = records_of(data).ok()?.into_iter();
    Some(
        records
            .map(|(namespace, key, value)| {
                let sum = value.as_deref().map_or(ABSENT, sum_of);
                (Spot::Record(namespace, key), Content::Is(sum))
            })
            .collect(),
    )
}

/// Scattered units, as Write Atomic carries them.
fn units(space: &BlockSpace, count: u32, data: &[u8]) -> Option<Vec<(Spot, Content)>> {
    let writes = writes_of(count, data).ok()?;
    Some(writes.iter().flat_map(|(lpn, data)| unit(space, *lpn, data)).collect())
}

/// Blocks that get what others hold.
fn shared(space: &BlockSpace, range: &ShareRange) -> impl Iterator<Item = (Spot, Content)> + use<> {
    let ShareRange { dst, src, units } = *range;
    let space = *space;
    (0..units).flat_map(move |unit| {
        let from = blocks_of(&space, Lpn(src.0.wrapping_add(unit))).map(Content::Like);
        blocks_of(&space, Lpn(dst.0.wrapping_add(unit))).zip(from)
    })
}
