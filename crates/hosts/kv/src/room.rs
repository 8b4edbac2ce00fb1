//! Whether the drive has room for the steps of a large commit, one after the other.
//!
//! What a step deletes or replaces gives back room, but how much depends on where it lies: the drive counts in whole units what
//! each of its blocks holds. So the drive is asked what it would give back, step by step. Deletes of records alone are never
//! refused, whatever room there is.

use tantalum::{Device, Footprint};

use crate::large::sizes;
use crate::record::Name;
use crate::record_store::Records;

/// Chunks of a unit of the drive.
const UNIT_CHUNKS: u64 = 64;

/// Units for what is not counted: the marker, and the deletes of what a step is logged in.
const SPARE_UNITS: u64 = 4;

/// What is not counted when a store says how many records fit: units that are not full, and a namespace that does not exist yet,
/// which takes as much of a checkpoint as a few entries.
pub(crate) const UNCOUNTED: Footprint = Footprint { chunks: 4 * UNIT_CHUNKS, entries: 16 };

/// Entries of the index that one put of the drive adds at most before they are counted with all others.
pub(crate) const ENTRIES_AT_ONCE: u64 = 2048;

/// Chunks that values of more than a unit take beside their own, at most. The drive counts in whole units what each of its blocks holds,
/// and their last parts do not fill units; and the units of a record are put together, in pages that are free before. Values that share
/// units lose nothing that their own chunks do not count.
pub(crate) fn beside_large(device: &Device, value_bytes: usize, values: u64) -> u64 {
    let value: Footprint = sizes(value_bytes).map(Footprint::of).sum();
    if values == 0 || value.chunks <= UNIT_CHUNKS {
        return 0;
    }
    let geometry = device.profile().geometry().expect("the drive has one");
    let units = (value.chunks * values).div_ceil(UNIT_CHUNKS);
    let blocks = u64::from(geometry.planes()) + units.div_ceil(geometry.units_per_block().into());
    let at_once = sizes(value_bytes).map(|bytes| Footprint::of(bytes).chunks).max().unwrap_or(0);
    blocks.min(units) * UNIT_CHUNKS + at_once
}

/// What a step takes.
#[derive(Default)]
pub(crate) struct Taken {
    /// What must be free for it; nothing, if it deletes alone.
    need: Footprint,
    /// Chunks that it puts and that stay, until a later step replaces them.
    new: u64,
    /// Chunks among these of steps before it that it replaces.
    replaced: u64,
    /// More entries of the index than before, at most.
    entries: u64,
    /// Records that it deletes or replaces, and no step before it.
    pub gone: Vec<Name>,
}

impl Taken {
    /// What these records take. `planned` gives the chunks of one that a step before has changed, if it counts; `exists` says whether
    /// the drive has one already, so that it is not another entry of the index.
    pub fn of(
        records: &Records,
        planned: impl Fn(&Name) -> Option<u64>,
        exists: impl Fn(&Name) -> bool,
    ) -> Taken {
        let all = footprint_of(records);
        let puts =
            records.iter().filter_map(|(name, value)| Some((name, Footprint::of(value.as_ref()?.len()))));
        let new: Footprint = puts.clone().map(|(_, footprint)| footprint).sum();
        let is_new = |(name, _): &(&Name, Footprint)| planned(name).is_none() && !exists(name);
        debug_assert!(
            new == Footprint::default() || all.chunks >= new.chunks && all.entries >= new.entries,
            "records take {all:?}, and those among them that are put {new:?}"
        );
        Taken {
            need: if new == Footprint::default() { new } else { all },
            new: new.chunks,
            replaced: records.iter().filter_map(|(name, _)| planned(name)).sum(),
            entries: puts.filter(is_new).map(|(_, footprint)| footprint.entries).sum(),
            gone: records.iter().map(|(name, _)| *name).filter(|name| planned(name).is_none()).collect(),
        }
    }
}

/// What records take while what they replace is still there.
pub(crate) fn footprint_of(records: &Records) -> Footprint {
    records.iter().map(|(_, value)| Footprint::of(value.as_ref().map_or(0, |value| value.len()))).sum()
}

/// Whether there is room for steps, one after the other, beside this, and for `after` when they are in place.
pub(crate) fn fits<'a>(
    device: &Device,
    steps: impl Iterator<Item = &'a Taken> + Clone,
    beside: Footprint,
    after: Footprint,
) -> bool {
    let entries: u64 = steps.clone().map(|step| step.entries).sum();
    let most = steps.clone().map(|step| step.need.entries).max().unwrap_or(0).max(after.entries);
    let groups = steps.clone().map(|step| &step.gone[..]);
    let free = device.free_without(entries + beside.entries + most, groups);
    // before the first step, and after each; nothing without power
    let expected = if free.is_empty() { 0 } else { steps.clone().count() + 1 };
    assert_eq!(free.len(), expected, "what the drive says of its room, and what it was asked");
    let mut written = Written::new(device);
    let takes = |written: &Written, more| (written.chunks() + more + SPARE_UNITS * UNIT_CHUNKS) as i64;
    for (step, free) in steps.zip(&free) {
        let is_put = step.need != Footprint::default();
        if is_put && takes(&written, chunks(beside) + chunks(step.need)) > *free {
            return false;
        }
        written.add(step);
    }
    free.last().is_some_and(|free| after == Footprint::default() || takes(&written, chunks(after)) <= *free)
}

fn chunks(footprint: Footprint) -> u64 {
    footprint.chunks + footprint.entries.div_ceil(2)
}

/// What steps have written.
struct Written {
    new: u64,
    replaced: u64,
    entries: u64,
    pages: u64,
    units_per_page: u64,
    pages_per_block: u64,
    planes: u64,
}

impl Written {
    fn new(device: &Device) -> Written {
        let geometry = device.profile().geometry().expect("the drive has one");
        Written {
            new: 0,
            replaced: 0,
            entries: 0,
            pages: 0,
            units_per_page: geometry.units_per_page().into(),
            pages_per_block: geometry.pages_per_block.into(),
            planes: geometry.planes().into(),
        }
    }

    fn add(&mut self, step: &Taken) {
        self.new += step.new;
        self.replaced += step.replaced;
        assert!(
            self.replaced <= self.new,
            "steps replace {} chunks of steps before them, which put {}",
            self.replaced,
            self.new
        );
        self.entries += step.entries;
        if step.new > 0 {
            self.pages += (step.need.chunks.div_ceil(UNIT_CHUNKS) + 1).div_ceil(self.units_per_page);
        }
    }

    /// What it takes: each block that was written to counts in whole units.
    fn chunks(&self) -> u64 {
        let blocks = self.pages.min(self.planes + self.pages.div_ceil(self.pages_per_block));
        let in_blocks = (self.new + blocks * UNIT_CHUNKS).saturating_sub(self.replaced);
        in_blocks + self.entries.div_ceil(2)
    }
}
