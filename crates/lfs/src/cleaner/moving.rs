//! Moving what lives in a segment.

use tantalum::canary::{Guard, out};
use tantalum::{Lpn, ShareRange};

use crate::bytes::zeros;
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::{Owner, Purpose, Resident, Slot};
use crate::superblock::Cleaning;

/// A unit that the drive is to move.
struct Move {
    resident: Resident,
    head: usize,
    to: Lpn,
}

impl LogFs {
    /// Moves residents of a segment that still live there.
    pub(super) fn move_all(&mut self, residents: &[Resident], is_late: bool) -> Result<()> {
        let mut moves = Vec::new();
        for resident in residents {
            // In between, it may have been written elsewhere or given up.
            let is_unchecked = is_late && out(Guard::StaleMove);
            if !is_unchecked && !self.index.lives_at(&mut self.log, resident)? {
                continue;
            }
            if self.is_written_anyway(resident)? {
                continue;
            }
            match self.superblock.cleaning {
                Cleaning::Copy => self.copy(resident)?,
                Cleaning::Remap => {
                    let head = self.index.head(match resident.owner {
                        Owner::Content { .. } => Purpose::MovedContent,
                        Owner::Index(_) => Purpose::MovedIndex,
                    });
                    let to = self.log.allocate(head)?.lpn;
                    moves.push(Move { resident: *resident, head, to });
                }
            }
        }
        self.remap(&moves)
    }

    /// What differs in memory is written from there: now if it is content, with the checkpoint if it is of the index.
    fn is_written_anyway(&mut self, resident: &Resident) -> Result<bool> {
        match resident.owner {
            Owner::Content { file, unit } if self.pages.is_dirty((file, unit)) => {
                self.write_back_page(file, unit)?;
                Ok(true)
            }
            Owner::Content { .. } => Ok(false),
            Owner::Index(unit) => Ok(self.index.is_changed(unit)),
        }
    }

    fn copy(&mut self, resident: &Resident) -> Result<()> {
        self.cleaned.copied_units += 1;
        match resident.owner {
            Owner::Index(unit) => self.index.rewrite(&mut self.log, unit),
            Owner::Content { file, unit } => {
                let mut page = zeros();
                match self.pages.find((file, unit)) {
                    Some(cached) => *page = *cached,
                    None => self.log.read(resident.lpn, &mut page[..])?,
                }
                self.append(file, unit, Purpose::MovedContent, &page)
            }
        }
    }

    /// Lets the drive map new places to the same flash. What it refuses is copied there.
    fn remap(&mut self, moves: &[Move]) -> Result<()> {
        let limit = self.log.client.device().limits().share_units.max(1) as usize;
        for moves in moves.chunks(limit) {
            let is_shared = self.log.share(&ranges(moves))?;
            for one in moves {
                if is_shared {
                    self.cleaned.remapped_units += 1;
                } else {
                    let mut page = zeros();
                    self.log.read(one.resident.lpn, &mut page[..])?;
                    self.log.fill(one.head, one.to, &page)?;
                    self.cleaned.copied_units += 1;
                }
                match one.resident.owner {
                    Owner::Content { file, unit } => {
                        self.index.set_slot(&mut self.log, file, unit, Slot::At(one.to))?;
                    }
                    Owner::Index(unit) => self.index.moved(&mut self.log, unit, one.to)?,
                }
            }
        }
        Ok(())
    }
}

/// Adjacent units that go to adjacent places are one range.
fn ranges(moves: &[Move]) -> Vec<ShareRange> {
    let mut ranges: Vec<ShareRange> = Vec::new();
    for one in moves {
        let (src, dst) = (one.resident.lpn, one.to);
        let follows = |range: &&mut ShareRange| {
            range.src.0 + range.units == src.0 && range.dst.0 + range.units == dst.0
        };
        match ranges.last_mut().filter(follows) {
            Some(range) => range.units += 1,
            None => ranges.push(ShareRange { dst, src, units: 1 }),
        }
    }
    ranges
}
