//! The handles with which the host places data, seen from the blocks: reclaim units, and which handles a block has units of.

use tantalum_nand::{BlockId, Nand, Ppn};

use super::{Space, Target};
use crate::map::Map;
use crate::placement::Handle;
use crate::spare;

/// The handles of the readable units of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandlesIn {
    /// There is no such unit.
    None,
    /// All have this one.
    One(Handle),
    /// They have several.
    Several,
}

impl HandlesIn {
    /// Whether units of a handle may be added where handles are kept apart.
    pub fn leaves_room_for(self, handle: Handle) -> bool {
        match self {
            HandlesIn::None => true,
            HandlesIn::One(found) => found == handle,
            HandlesIn::Several => false,
        }
    }
}

impl Space {
    /// Units of 4 KiB that still fit in the reclaim unit that a stream of the host fills.
    pub fn writable_units(&self, target: Target, nand: &Nand) -> u64 {
        let stream = self.streams.of(target);
        let left = |block| self.geometry.pages_per_block - nand.next_page(block);
        let pages = stream.blocks().map(left).sum::<u32>() + stream.unbegun() * self.geometry.pages_per_block;
        u64::from(pages) * u64::from(self.geometry.units_per_page())
    }

    /// Whether a reclaim unit of a stream was filled since the last call.
    pub fn take_filled(&mut self, target: Target) -> bool {
        self.streams.of_mut(target).take_filled()
    }

    /// A stream of the host begins the next reclaim unit: what is open is closed. Returns the units that would still have fitted;
    /// none if the reclaim unit is empty, which then goes on.
    pub fn begin_reclaim_unit(&mut self, target: Target, map: &mut Map, nand: &Nand) -> Option<u64> {
        let writable = self.writable_units(target, nand);
        let stream = self.streams.of_mut(target);
        let width = u64::from(stream.width()) * u64::from(self.geometry.units_per_block());
        if writable >= width {
            return None;
        }
        let open: Vec<BlockId> = stream.blocks().collect();
        for &block in &open {
            stream.close(self.geometry.plane_of(block));
        }
        stream.begin_reclaim_unit();
        open.into_iter().for_each(|block| self.close(block, map));
        Some(writable)
    }
}

/// The handles of what is in a block, in no time: recovery has read the blocks of which firmware asks.
pub fn handles_in(block: BlockId, nand: &Nand) -> HandlesIn {
    let mut scratch = Vec::new();
    // without power nothing is found, and nothing is done with it
    let Ok(ends) = nand.block_spare_ends(block, &mut scratch) else { return HandlesIn::None };
    let first = nand.geometry().first_unit(block);
    let readable = (first.0..).map(Ppn).zip(ends).filter(|(ppn, _)| nand.is_readable(*ppn));
    let mut handles = readable.filter_map(|(_, ends)| spare::handle(ends));
    let Some(one) = handles.next() else { return HandlesIn::None };
    if handles.all(|other| other == one) { HandlesIn::One(one) } else { HandlesIn::Several }
}
