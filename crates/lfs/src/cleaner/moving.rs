//! Moving the live units of a segment.

use tantalum::ShareRange;
use tantalum::canary::{Guard, out};

use crate::bytes::zeros;
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::{MovedPlace, Owner, Purpose, Resident};
use crate::superblock::Cleaning;

/// A unit that the drive is to move.
struct Move {
    resident: Resident,
    to: MovedPlace,
}

impl LogFs {
    /// Moves residents of a segment that are still live there.
    pub(super) fn move_all(&mut self, residents: &[Resident], is_late: bool) -> Result<()> {
        let limit = self.log.client.device().limits().share_units.max(1) as usize;
        let (mut moves, mut copies) = (Vec::new(), Vec::new());
        let mut most = 0;
        for resident in residents {
            // It may have been rewritten elsewhere or given up since.
            let is_unchecked = is_late && out(Guard::StaleMove);
            if !is_unchecked && !self.index.lives_at(&mut self.log, resident)? {
                continue;
            }
            if self.is_written_anyway(resident, &mut moves)? {
                continue;
            }
            match self.superblock.cleaning {
                Cleaning::Copy => copies.push(*resident),
                Cleaning::Remap => {
                    if moves.is_empty() {
                        most = limit.min(self.index.moves_at_once(&mut self.log)?);
                    }
                    let to = self.index.place_for(&mut self.log, resident.owner)?;
                    moves.push(Move { resident: *resident, to });
                    if moves.len() == most {
                        self.remap(&std::mem::take(&mut moves))?;
                    }
                }
            }
        }
        self.copy_all(&copies)?;
        self.remap(&moves)
    }

    /// Units that differ in memory are written from there: contents now, units of the index with the checkpoint.
    fn is_written_anyway(&mut self, resident: &Resident, moves: &mut Vec<Move>) -> Result<bool> {
        match resident.owner {
            Owner::Content { file, unit } if self.pages.is_dirty((file, unit)) => {
                // Nothing is appended while assigned places are empty.
                self.remap(&std::mem::take(moves))?;
                self.write_back_page(file, unit, false)?;
                Ok(true)
            }
            Owner::Content { .. } => Ok(false),
            Owner::Index(unit) => Ok(self.index.is_changed(unit)),
        }
    }

    /// Reads the units that are not in memory, all at once, and appends them.
    fn copy_all(&mut self, residents: &[Resident]) -> Result<()> {
        let mut contents = Vec::new();
        let mut read_ns = self.log.client.now_ns();
        for resident in residents {
            self.cleaned.copied_units += 1;
            match resident.owner {
                Owner::Index(unit) => self.index.rewrite(&mut self.log, unit)?,
                Owner::Content { file, unit } => {
                    let mut page = zeros();
                    match self.pages.find((file, unit)) {
                        Some(cached) => *page = *cached,
                        None => {
                            read_ns = read_ns.max(self.log.read_queued(resident.lpn, &mut page[..], None)?)
                        }
                    }
                    contents.push((file, unit, page));
                }
            }
        }
        self.log.client.wait_until(read_ns);
        contents.iter().try_for_each(|(file, unit, page)| {
            self.index.append(&mut self.log, Purpose::MovedContent, *file, *unit, page)
        })
    }

    /// Lets the drive map new places to the same flash. Units that it refuses to map are copied there.
    fn remap(&mut self, moves: &[Move]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        let is_shared = self.log.share(&ranges(moves))?;
        self.since.is_share_refused |= !is_shared;
        for one in moves {
            if is_shared {
                self.cleaned.remapped_units += 1;
            } else {
                let mut page = zeros();
                self.log.read(one.resident.lpn, &mut page[..])?;
                self.log.fill(one.to.head, one.to.lpn, &page)?;
                match one.resident.owner {
                    Owner::Content { .. } => self.log.written.contents += 1,
                    Owner::Index(_) => self.log.written.nodes += 1,
                }
                self.cleaned.copied_units += 1;
            }
            self.index.moved(&mut self.log, one.resident.owner, one.to.lpn)?;
        }
        Ok(())
    }
}

/// Adjacent units that go to adjacent places are one range.
fn ranges(moves: &[Move]) -> Vec<ShareRange> {
    let mut ranges: Vec<ShareRange> = Vec::new();
    for one in moves {
        let (src, dst) = (one.resident.lpn, one.to.lpn);
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
