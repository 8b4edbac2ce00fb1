//! Units of files: their space, their contents, and giving them up.

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::FileId;

use super::node::RESERVED;
use super::summary::What;
use super::translation::Number;
use super::{HEAD, Tree};
use crate::bytes::Page;
use crate::error::Result;
use crate::index::Purpose;
use crate::segments::{Log, Run};

impl Tree {
    /// Promises space for a unit and gives up what was there. `ENOSPC` is possible only if it was a hole.
    pub(super) fn reserve_unit(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()> {
        let old = self.value_of(log, file, unit)?;
        if old == Some(RESERVED) {
            return Ok(());
        }
        let root = self.own_root(log, file)?;
        let Some(number) = old else {
            self.put(log, root, unit, RESERVED, 1)?;
            log.segments.reserve_anyway(); // `put` made sure
            self.since.reserved.insert((file, unit));
            return Ok(());
        };
        self.put(log, root, unit, RESERVED, 0)?;
        self.give_up(log, Number(number))?;
        if !self.promised.remove(&(file, unit)) {
            log.segments.reserve_anyway();
        }
        self.since.untold.insert(file);
        Ok(())
    }

    /// Makes sure that there is space for other contents of a unit that is not a hole.
    pub(super) fn promise_unit(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()> {
        if self.snapshots.is_empty() || self.promised.contains(&(file, unit)) {
            return Ok(());
        }
        let Some(number) = self.number_of(log, file, unit)? else { return Ok(()) };
        if self.is_shared(log, number)? {
            log.segments.reserve()?;
            self.promised.insert((file, unit));
        }
        Ok(())
    }

    /// Appends contents of a unit.
    pub(super) fn append_unit(
        &mut self,
        log: &mut Log,
        purpose: Purpose,
        file: FileId,
        unit: u32,
        page: &Page,
    ) -> Result<()> {
        if purpose == Purpose::MovedContent
            && let Some(number) = self.number_of(log, file, unit)?
        {
            let lpn = self.partial.append(log, What::Moved { file, unit, number }, page)?;
            return self.relocate(log, number, lpn);
        }
        let number = self.number_for(log, file, unit)?;
        let lpn = self.partial.append(log, What::Content { file, unit, number }, page)?;
        self.set_contents(log, file, unit, number, lpn)?;
        self.since.appended.insert(file);
        Ok(())
    }

    /// Gives places to units of a file, which are sent before a summary that describes them.
    pub(super) fn place_run(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<()> {
        let file = run.file();
        // if a sync through the index follows listed writes, a summary must name them before the list is cleared
        self.since.appended.insert(file);
        while let Some(unit) = run.next() {
            if self.snapshots.is_empty() && self.place_known(log, run)? > 0 {
                continue;
            }
            let number = self.number_for(log, file, unit)?;
            let lpn = self.place_next(log, run, unit, number)?;
            self.set_contents(log, file, unit, number, lpn)?;
        }
        Ok(())
    }

    /// Gives places to the next units that have numbers and are in one leaf of the tree. No snapshot may see them: only
    /// the table changes. Returns how many units were placed.
    fn place_known(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<usize> {
        let (file, Some(first)) = (run.file(), run.next()) else { return Ok(0) };
        let Some(root) = self.root_of(log, file)? else { return Ok(0) };
        let leaf = self.leaf_of(log, root, first)?;
        let mut numbers = std::mem::take(&mut self.numbers);
        let node = self.node(log, leaf)?;
        numbers.clear();
        if let Ok(index) = node.search(first) {
            let entries = (index..node.len()).zip(first..=u32::MAX).take(run.left());
            let known = entries
                .take_while(|(index, unit)| node.key(*index) == *unit && node.value(*index) != RESERVED);
            numbers.extend(known.map(|(index, _)| Number(node.value(index))));
        }
        let placed = (first..=u32::MAX).zip(&numbers).try_for_each(|(unit, number)| {
            let lpn = self.place_next(log, run, unit, *number)?;
            self.drop_promise(log, file, unit);
            self.relocate(log, *number, lpn)
        });
        let count = numbers.len();
        debug_assert!(
            placed.is_err() || run.next().is_none_or(|next| next as usize == first as usize + count),
            "{count} units from {first} of file {file} got places, and the next is {:?}",
            run.next()
        );
        self.numbers = numbers;
        placed.map(|()| count)
    }

    fn place_next(&mut self, log: &mut Log, run: &mut Run<'_>, unit: u32, number: Number) -> Result<Lpn> {
        if self.partial.room(log) == 0 {
            run.send(log, HEAD)?;
        }
        self.partial.append_of(log, What::Content { file: run.file(), unit, number }, run)
    }

    /// The virtual number that new contents of a unit get.
    pub(crate) fn number_for(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<Number> {
        match self.number_of(log, file, unit)? {
            Some(number) if !self.is_shared(log, number)? => Ok(number),
            _ => self.free_number(log),
        }
    }

    /// The contents of a unit are at `lpn`, and `number` stands for them.
    pub(super) fn set_contents(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        number: Number,
        lpn: Lpn,
    ) -> Result<()> {
        let old = self.value_of(log, file, unit)?;
        if old != Some(number.0) {
            let root = self.own_root(log, file)?;
            self.put(log, root, unit, number.0, 0)?;
            match old {
                None => {}
                Some(RESERVED) => log.segments.unreserve(),
                Some(old) => drop(self.give_up(log, Number(old))?),
            }
        }
        self.drop_promise(log, file, unit);
        self.since.reserved.remove(&(file, unit));
        self.relocate(log, number, lpn)
    }

    fn drop_promise(&mut self, log: &mut Log, file: FileId, unit: u32) {
        if self.promised.remove(&(file, unit)) {
            log.segments.unreserve();
        }
    }

    /// Turns units into holes. Returns how many were not holes.
    pub(super) fn clear_units(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64> {
        let Some(root) = self.root_of(log, file)? else { return Ok(0) };
        if self.node(log, root)?.len() == 0 {
            return Ok(0);
        }
        let root = self.own_root(log, file)?;
        let mut cleared = 0;
        loop {
            let taken = self.take(log, root, &units)?;
            if taken.is_empty() {
                return Ok(cleared);
            }
            cleared += taken.len() as u64;
            self.since.untold.insert(file);
            for (unit, value) in taken {
                self.drop_promise(log, file, unit);
                self.since.reserved.remove(&(file, unit));
                match value {
                    RESERVED => log.segments.unreserve(),
                    number => drop(self.give_up(log, Number(number))?),
                }
            }
        }
    }
}
