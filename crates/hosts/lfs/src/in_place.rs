//! Writing contents in place, as F2FS does since Linux 3.18 (its `ipu_policy` is 16, `FSYNC`): no pointer changes, so a
//! sync writes only contents.
//!
//! An `fdatasync` does so, as do an `fsync` with few dirty pages and a write past the page cache. Everything else is
//! appended: units without a place, pages written back because too many are dirty or time has passed, and blocks of folders.
//!
//! Invariants:
//! - **P1** A unit is overwritten where the index in memory has it, whether or not that is durable. The sync also
//!   chains the file's changed nodes, so that recovery finds what the cleaner has moved.
//! - **P2** Nothing durable names a place of another file or unit: a place is reused only after a checkpoint that does not
//!   name it. So until its sync returns, an overwritten unit is the old one or the new one, both of this file.
//! - **P3** A sync returns when what was overwritten is flushed, just like what was appended.

use tantalum::{Fills, UNIT_BYTES};
use tantalum_filesystem::{FileId, FileKind};

use crate::error::Result;
use crate::fs::LogFs;
use crate::index::BlockPointer;
use crate::segments::BUFFER_UNITS;

/// Dirty pages of a file up to which `fsync` writes in place: F2FS's `min_fsync_blocks`. More pages are appended in
/// order, at the cost of writing nodes. `fdatasync` writes in place however many there are.
const MOST_WITH_TIMES: usize = 8;

/// Dirty pages examined together.
const BATCH_PAGES: usize = 256;

impl LogFs {
    /// Writes those dirty pages of a file in place that have a place, unless too many are dirty for a sync with times.
    pub(crate) fn overwrite_dirty(&mut self, id: FileId, with_times: bool) -> Result<()> {
        if !self.superblock.overwrites() || self.file(id)?.inode.metadata.kind != FileKind::File {
            return Ok(());
        }
        if with_times && self.pages.dirty_units(id, 0, MOST_WITH_TIMES + 1).len() > MOST_WITH_TIMES {
            return Ok(());
        }
        let mut next = Some(0);
        while let Some(from) = next {
            let units = self.pages.dirty_units(id, from, BATCH_PAGES);
            next = units.last().and_then(|last| last.checked_add(1));
            for unit in units {
                let BlockPointer::At(lpn) = self.index.pointer(&mut self.log, id, unit)? else { continue };
                let frame = self.pages.find((id, unit)).expect("a dirty page is in memory");
                debug_assert!(
                    !self.log.lists_file(id),
                    "unit {unit} of file {id} is written in place, and the drive's list does not tell"
                );
                self.log.overwrite(id, lpn, self.pages.data(frame))?;
                self.pages.mark_clean(frame);
                self.count_overwritten(1);
            }
        }
        Ok(())
    }

    /// Writes contents of adjacent units in place, as far as their places are adjacent too. Returns their number: 0 if
    /// the first has no place, or everything is appended. The next of `fills` already hold `data`.
    pub(crate) fn overwrite_run(
        &mut self,
        id: FileId,
        first: u32,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<u32> {
        if !self.superblock.overwrites() {
            return Ok(0);
        }
        let most = (data.len() / UNIT_BYTES).min(BUFFER_UNITS) as u32;
        let (pointer, units) = self.index.run(&mut self.log, id, first, most)?;
        let BlockPointer::At(lpn) = pointer else { return Ok(0) };
        assert!(
            (1..=most).contains(&units),
            "{units} of {most} units from {first} of file {id} are adjacent"
        );
        self.log.overwrite_run(id, lpn, &data[..units as usize * UNIT_BYTES], fills)?;
        self.count_overwritten(u64::from(units));
        Ok(units)
    }

    fn count_overwritten(&mut self, units: u64) {
        self.content_units += units;
        self.synced.units_in_place += units;
    }
}
