//! The cleaner: moves the live units of a segment elsewhere, so that the segment can be rewritten.
//!
//! In the foreground it cleans when free segments run out and there are no holes to fill ([`crate::segments`]), and a checkpoint then
//! frees what it emptied. In the
//! background it works in slices. It moves units by reading and writing them, or has the drive share them without programming
//! flash ([`crate::Cleaning`]); the old place is given up after the next checkpoint, because the last one still names it.
//!
//! Invariant: a unit is moved only if it is still live where the cleaner saw it, and dirty units are written from
//! memory (hazard 18).

pub(crate) mod job;
mod moving;
mod victim;

use crate::counters::CleanerCounters;
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::Resident;
use job::Job;
use victim::Policy;

/// Segments withheld from files, so that cleaning always has something to gain.
pub(crate) const LEAST_RESERVE: u32 = 24;

/// The number of background slices in which a full segment is moved.
const SLICES: u32 = 8;

impl LogFs {
    /// What the cleaner has done.
    pub fn cleaner(&self) -> CleanerCounters {
        CleanerCounters { filled_units: self.log.filled_units(), ..self.cleaned }
    }

    /// Cleans until there is room for this many further units of contents and of the index, and for a checkpoint. Contents
    /// may go into holes, as far as there are any.
    pub(crate) fn make_room(&mut self, contents: u64, of_index: u64) -> Result<()> {
        let least = self.index.least_free_segments();
        let mut cleaned = std::collections::BTreeSet::new();
        loop {
            let fills = self.index.fills_holes(&self.log);
            let in_holes = if fills { self.log.segments.holes().min(contents) } else { 0 };
            if fills && in_holes < contents && self.would_have_holes(contents) {
                self.write_checkpoint(false)?;
                continue;
            }
            let segment_units = u64::from(self.log.segments.units());
            let wanted = least + (contents - in_holes + of_index).div_ceil(segment_units) as u32;
            if self.log.segments.free_segments() >= wanted {
                return Ok(());
            }
            if self.is_checkpoint_enough(wanted) {
                self.write_checkpoint(false)?;
                continue;
            }
            match victim::choose(&self.log.segments, Policy::Greedy, &cleaned) {
                Some(victim) => {
                    cleaned.insert(victim);
                    self.clean_segment(victim)?;
                }
                None if self.log.segments.waiting_segments() > 0 => self.write_checkpoint(false)?,
                None => return Ok(()),
            }
        }
    }

    /// Whether a checkpoint would free enough segments, or free segments are scarce.
    fn is_checkpoint_enough(&self, wanted: u32) -> bool {
        let least = self.index.least_free_segments();
        let segments = &self.log.segments;
        let (free, waiting) = (segments.free_segments(), segments.waiting_segments());
        let is_short = free < least - 4 || self.index.changed_units() > u64::from(segments.units());
        waiting > 0 && (is_short || free + waiting > wanted)
    }

    /// Whether a checkpoint would make enough holes to be worth it.
    fn would_have_holes(&self, units: u64) -> bool {
        let segments = &self.log.segments;
        segments.would_have_holes(units.max(u64::from(segments.units() / 4)))
    }

    fn clean_segment(&mut self, segment: u32) -> Result<()> {
        // The drive limits how many units are mapped twice; a checkpoint gives up the old places.
        if std::mem::take(&mut self.since.is_share_refused) {
            self.write_checkpoint(false)?;
        }
        let residents = self.residents_of(segment)?;
        self.cleaned.segments += 1;
        self.move_all(&residents, false)
    }

    /// The units that may be live in a segment.
    fn residents_of(&mut self, segment: u32) -> Result<Vec<Resident>> {
        let residents = self.index.residents(&mut self.log, segment)?;
        debug_assert!(
            residents.iter().all(|resident| self.log.segments.find(resident.lpn) == Some(segment)),
            "units of other segments are to be moved out of segment {segment}: {residents:?}"
        );
        Ok(residents)
    }

    /// Does a slice of cleaning in the background, if that pays. Returns whether it did anything.
    pub fn clean_slice(&mut self) -> Result<bool> {
        if self.is_snapshot || self.stopped.is_some() {
            return Ok(false);
        }
        let Some(mut job) = self.job.take().map_or_else(|| self.next_job(), |job| Ok(Some(job)))? else {
            return Ok(false);
        };
        let slice = (self.log.segments.units() / SLICES) as usize;
        let end = (job.done + slice).min(job.residents.len());
        assert!(
            job.done < end || job.residents.is_empty(),
            "a job for segment {} goes on after {} of its {} units",
            job.segment,
            job.done,
            job.residents.len()
        );
        self.move_all(&job.residents[job.done..end], true)?;
        job.done = end;
        if job.done < job.residents.len() {
            self.job = Some(job);
        } else {
            self.cleaned.segments += 1;
        }
        Ok(true)
    }

    fn next_job(&mut self) -> Result<Option<Job>> {
        self.make_room(0, 0)?;
        let segments = &self.log.segments;
        let free = segments.free_segments() + segments.waiting_segments();
        if free > segments.count() / 4 {
            return Ok(None);
        }
        let Some(segment) = victim::choose(segments, Policy::CostBenefit, &Default::default()) else {
            return Ok(None);
        };
        // A nearly full segment costs more than it yields.
        if segments.get(segment).live > segments.units() / 8 * 7 {
            return Ok(None);
        }
        let residents = self.residents_of(segment)?;
        Ok(Some(Job { segment, residents, done: 0 }))
    }

    /// The segment being cleaned in the background.
    pub fn cleaning(&self) -> Option<u32> {
        self.job.as_ref().map(|job| job.segment)
    }

    /// Cleans until no segment is worth cleaning, as the experiments of PebbleSSD do (section 4.4.3), and takes a
    /// checkpoint. Returns the number of segments cleaned.
    pub fn clean_all(&mut self) -> Result<u64> {
        self.change(LogFs::clean_everything)
    }

    fn clean_everything(&mut self) -> Result<u64> {
        self.check_writable()?;
        let before = self.cleaned.segments;
        let mut cleaned = std::collections::BTreeSet::new();
        self.sync_all(false)?;
        while let Some(victim) = victim::choose(&self.log.segments, Policy::Greedy, &cleaned) {
            cleaned.insert(victim);
            self.make_room(0, 2 * u64::from(self.log.segments.units()))?;
            self.clean_segment(victim)?;
        }
        self.sync_all(false)?;
        Ok(self.cleaned.segments - before)
    }
}
