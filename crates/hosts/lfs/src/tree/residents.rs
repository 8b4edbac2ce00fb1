//! The tree's part of cleaning: finding out from the summaries what a segment holds, and moving it.

use tantalum::{Lpn, UNIT_BYTES};

use super::summary::{Summary, What};
use super::translation::Number;
use super::{HEAD, Tree};
use crate::bytes::{Page, zeros};
use crate::error::Result;
use crate::index::{MovedPlace, Owner, Resident};
use crate::segments::Log;

/// Set in the number by which the cleaner knows a unit of the table.
const TABLE: u32 = 1 << 31;

/// A unit that the index moves by itself.
#[derive(Clone, Copy)]
enum Own {
    Table(u32),
    Unit(Number),
}

fn own(number: u32) -> Own {
    if number & TABLE != 0 { Own::Table(number & !TABLE) } else { Own::Unit(Number(number)) }
}

/// Units read at once when searching for summaries: after short syncs every second or third unit is one.
const WINDOW_UNITS: u32 = 32;

/// Units of a segment that were read together.
#[derive(Default)]
struct Window {
    first: u32,
    data: Vec<u8>,
}

impl Window {
    /// A unit of a segment, which begins with `first`. If it must be read, those before it are read as well.
    fn unit(&mut self, log: &mut Log, first: u32, unit: u32) -> Result<&Page> {
        let read_units = self.data.len() / UNIT_BYTES;
        let index = match unit.checked_sub(self.first).filter(|index| (*index as usize) < read_units) {
            Some(index) => index as usize,
            None => self.read(log, first.max((unit + 1).saturating_sub(WINDOW_UNITS)), unit)?,
        };
        Ok(&self.data.as_chunks::<UNIT_BYTES>().0[index])
    }

    /// Reads units up to the last one. Returns its index.
    fn read(&mut self, log: &mut Log, first: u32, last: u32) -> Result<usize> {
        self.first = first;
        self.data.resize((last + 1 - first) as usize * UNIT_BYTES, 0);
        if log.read(Lpn(first), &mut self.data).is_err() {
            // A unit read in addition may be unreadable.
            self.first = last;
            self.data.truncate(UNIT_BYTES);
            log.read(Lpn(last), &mut self.data)?;
        }
        Ok((last - self.first) as usize)
    }
}

impl Tree {
    /// The summaries of a segment, back from its last unit; up to the first that is damaged.
    pub(super) fn summaries(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Summary>> {
        let first = log.segments.first_lpn(segment).0;
        let mut end = first + log.segments.units();
        let (mut summaries, mut window) = (Vec::new(), Window::default());
        while end > first {
            let page = window.unit(log, first, end - 1)?;
            let found = Summary::at(Lpn(end - 1), page).filter(|(summary, _)| summary.start.0 >= first);
            let Some((summary, _)) = found else { break };
            end = summary.start.0;
            summaries.push(summary);
        }
        Ok(summaries)
    }

    pub(super) fn find_residents(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Resident>> {
        let mut residents: Vec<Resident> = Vec::new();
        for summary in self.summaries(log, segment)?.iter().rev() {
            for (entry, lpn) in summary.entries.iter().zip((summary.start.0..).map(Lpn)) {
                if let Some(owner) = self.owner_at(log, entry.what, lpn)? {
                    debug_assert!(
                        residents.last().is_none_or(|before| before.lpn < lpn),
                        "two summaries of segment {segment} describe unit {lpn}"
                    );
                    residents.push(Resident { lpn, owner });
                }
            }
        }
        Ok(residents)
    }

    /// The owner of a unit that was written as `what`, if it still lives. A unit that a snapshot sees is moved by its
    /// number, whatever the file now holds.
    fn owner_at(&mut self, log: &mut Log, what: What, lpn: Lpn) -> Result<Option<Owner>> {
        let (number, content) = match what {
            What::Table(number) => {
                return Ok(self.table.is_at(number, lpn).then_some(Owner::Index(TABLE | number)));
            }
            What::Content { file, unit, number } | What::Moved { file, unit, number } => {
                (number, Some(Owner::Content { file, unit }))
            }
            What::Unit(number) => (number, None),
            What::Inode(_) | What::Orphans | What::SuperRoot | What::Nothing => return Ok(None),
        };
        let here = self.find_translation(log, number)?.filter(|unit| unit.place == Some(lpn));
        Ok(here.map(|unit| match content {
            Some(content) if unit.death.is_none() && !self.is_seen(&unit) => content,
            _ => Owner::Index(number.0),
        }))
    }

    pub(super) fn is_own_at(&mut self, log: &mut Log, number: u32, lpn: Lpn) -> Result<bool> {
        match own(number) {
            Own::Table(number) => Ok(self.table.is_at(number, lpn)),
            Own::Unit(number) => {
                Ok(self.find_translation(log, number)?.is_some_and(|unit| unit.place == Some(lpn)))
            }
        }
    }

    pub(super) fn is_own_changed(&self, number: u32) -> bool {
        match own(number) {
            Own::Table(number) => self.table.is_changed(number),
            Own::Unit(number) => self.nodes.is_changed(number),
        }
    }

    /// Copies a unit to the end of the log, or lets the next checkpoint do it.
    pub(super) fn copy_own(&mut self, log: &mut Log, number: u32) -> Result<()> {
        match own(number) {
            Own::Table(number) => self.table.rewrite(log, number),
            Own::Unit(number) => {
                let from = self.place_of(log, number)?;
                let mut page = zeros();
                log.read(from, &mut page[..])?;
                let to = self.partial.append(log, What::Unit(number), &page)?;
                self.relocate(log, number, to)
            }
        }
    }

    pub(super) fn place_for_move(&mut self, log: &mut Log, owner: Owner) -> Result<MovedPlace> {
        let what = match owner {
            Owner::Content { file, unit } => match self.number_of(log, file, unit)? {
                Some(number) => What::Moved { file, unit, number },
                None => What::Inode(file), // it no longer lives, so nobody asks for it
            },
            Owner::Index(number) => match own(number) {
                Own::Table(number) => What::Table(number),
                Own::Unit(number) => What::Unit(number),
            },
        };
        Ok(MovedPlace { head: HEAD, lpn: self.partial.place(log, what)? })
    }

    pub(super) fn has_moved(&mut self, log: &mut Log, owner: Owner, to: Lpn) -> Result<()> {
        match owner {
            Owner::Content { file, unit } => match self.number_of(log, file, unit)? {
                Some(number) => self.relocate(log, number, to),
                None => Ok(()),
            },
            Owner::Index(number) => match own(number) {
                Own::Table(number) => self.table.moved(log, number, to),
                Own::Unit(number) => self.relocate(log, number, to),
            },
        }
    }
}
