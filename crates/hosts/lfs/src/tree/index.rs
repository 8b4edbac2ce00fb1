//! The trees as an [`Index`].

use std::ops::Range;

use tantalum::Lpn;
use tantalum_filesystem::{Errno, FileId, Timestamp};

use super::node::RESERVED;
use super::translation::Number;
use super::{HEAD, Tree};
use crate::bytes::Page;
use crate::check::Finding;
use crate::error::{LfsError, Result, refuse};
use crate::index::{BlockPointer, Index, MovedPlace, Owner, Purpose, Resident, Snapshot, Synced};
use crate::inode::Inode;
use crate::segments::{Log, Run};

/// Free segments in reserve, besides those that the table may take.
const LEAST_FREE: u32 = 12;

/// Segments of changed nodes that wait in memory at most: half of what a mount may have to read.
const MOST_WAITING: u32 = 8;

/// Segments of log after an anchor that a mount may have to read.
const MOST_SEGMENTS_BEHIND: u32 = 16;

/// The number of new files up to which each gets its own summary; for more, a checkpoint writes less.
const MOST_AT_ONCE: usize = 4;

/// The highest file number: the drive's lists use the top bit for something else.
const LAST_FILE: u32 = u32::MAX >> 1;

impl Index for Tree {
    fn inode(&mut self, log: &mut Log, file: FileId) -> Result<Option<Inode>> {
        let Some(root) = self.root_of(log, file)? else { return Ok(None) };
        let inode = Inode::read_from(&self.node(log, root)?.page[..]);
        let lpn = self.translation(log, root)?.place.unwrap_or(Lpn(0));
        inode.map(Some).map_err(|damage| LfsError::Damaged { lpn, damage })
    }

    fn set_inode(&mut self, log: &mut Log, file: FileId, inode: &Inode) -> Result<()> {
        let root = self.own_root(log, file)?;
        inode.write_to(&mut self.change(log, root)?.page[..]);
        self.since.inodes.insert(file);
        Ok(())
    }

    fn new_file(&mut self, log: &mut Log, inode: &Inode) -> Result<FileId> {
        let files = self.own_files_root(log)?;
        let mut number = self.last_file;
        loop {
            // Numbers are issued in turn, so that one that was given up is not reused soon.
            number = if number >= LAST_FILE { 1 } else { number + 1 };
            if self.find(log, files, number)?.is_none() {
                break;
            }
        }
        let file = FileId(number);
        if log.segments.available() == 0 {
            return refuse(Errno::ENOSPC);
        }
        self.add_file(log, file)?;
        self.set_inode(log, file, inode)?;
        Ok(file)
    }

    fn remove_file(&mut self, log: &mut Log, file: FileId) -> Result<()> {
        let Some(root) = self.root_of(log, file)? else { return Ok(()) };
        let files = self.own_files_root(log)?;
        let taken = self.take(log, files, &(u64::from(file.0)..u64::from(file.0) + 1))?;
        debug_assert_eq!(taken, [(file.0, root.0)], "file {file} leaves the tree of files");
        self.free_node(log, root)?;
        self.roots.remove(&file);
        self.files = self.files.saturating_sub(1);
        self.since.inodes.remove(&file);
        self.since.appended.remove(&file);
        Ok(())
    }

    fn pointer(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<BlockPointer> {
        match self.value_of(log, file, unit)? {
            None => Ok(BlockPointer::Hole),
            Some(RESERVED) => Ok(BlockPointer::Reserved),
            Some(number) => Ok(BlockPointer::At(self.place_of(log, Number(number))?)),
        }
    }

    fn run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(BlockPointer, u32)> {
        let first = self.pointer(log, file, unit)?;
        let mut units = 1;
        while units < most && self.pointer(log, file, unit + units)? == first.behind(units) {
            units += 1;
        }
        Ok((first, units))
    }

    fn used_run(&mut self, log: &mut Log, file: FileId, unit: u32, most: u32) -> Result<(bool, u32)> {
        let Some(root) = self.root_of(log, file)? else { return Ok((false, 1)) };
        let leaf = self.leaf_of(log, root, unit)?;
        let node = self.node(log, leaf)?;
        let keys = |from| (from..node.len()).map(|index| node.key(index));
        match node.search(unit) {
            Ok(index) => {
                let used = keys(index).zip(unit..=u32::MAX).take_while(|(key, unit)| key == unit);
                Ok((true, used.take(most as usize).count() as u32))
            }
            Err(index) => Ok((false, keys(index).next().map_or(1, |key| most.min(key - unit)))),
        }
    }

    fn needs_promises(&self) -> bool {
        !self.snapshots.is_empty()
    }

    fn reserve(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()> {
        self.reserve_unit(log, file, unit)
    }

    fn promise(&mut self, log: &mut Log, file: FileId, unit: u32) -> Result<()> {
        self.promise_unit(log, file, unit)
    }

    fn append(
        &mut self,
        log: &mut Log,
        purpose: Purpose,
        file: FileId,
        unit: u32,
        page: &Page,
    ) -> Result<()> {
        self.append_unit(log, purpose, file, unit, page)
    }

    fn append_run(&mut self, log: &mut Log, run: &mut Run<'_>) -> Result<()> {
        log.send_buffer(HEAD)?;
        let placed = self.place_run(log, run);
        run.send(log, HEAD).and(placed)
    }

    fn clear(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64> {
        self.clear_units(log, file, units)
    }

    fn next_used(&mut self, log: &mut Log, file: FileId, from: u32) -> Result<Option<u32>> {
        match self.root_of(log, file)? {
            Some(root) => Ok(self.next(log, root, from)?.map(|(unit, _)| unit)),
            None => Ok(None),
        }
    }

    fn sync_file(&mut self, log: &mut Log, file: FileId) -> Result<Synced> {
        if !self.can_tell(file) {
            return Ok(Synced::NeedsCheckpoint);
        }
        if !self.since.inodes.contains(&file) && !self.since.appended.contains(&file) {
            log.flush()?;
            return Ok(Synced::Yes);
        }
        self.append_sync(log, file)?;
        self.partial.write_durably(log)?;
        Ok(Synced::Yes)
    }

    fn sync_new_files(&mut self, log: &mut Log, files: &[FileId]) -> Result<Synced> {
        if files.len() > MOST_AT_ONCE || !files.iter().all(|file| self.can_tell(*file)) {
            return Ok(Synced::NeedsCheckpoint);
        }
        files.iter().try_for_each(|file| self.append_sync(log, *file))?;
        self.partial.write_durably(log)?;
        Ok(Synced::Yes)
    }

    fn checkpoints(&self) -> u64 {
        self.number
    }

    fn append_listed(&mut self, log: &mut Log, file: FileId, unit: u32, page: &Page) -> Result<()> {
        self.append_listed_unit(log, file, unit, page)
    }

    fn follow(&mut self, log: &mut Log, file: FileId, unit: u32, lpn: Lpn) -> Result<()> {
        self.follow_unit(log, file, unit, lpn)
    }

    fn end_following(&mut self, log: &mut Log) -> Result<()> {
        self.complete_partial(log)
    }

    fn changed_units(&self) -> u64 {
        (self.nodes.changed().len() + self.table.changed_count()) as u64
    }

    fn is_checkpoint_due(&self, log: &Log) -> bool {
        self.changed_units() > log.segments.may_wait(self.least_free_segments(), MOST_WAITING)
            || self.partial.segments_begun() > MOST_SEGMENTS_BEHIND
            || self.quarantined > self.layout.units / 8
    }

    fn least_free_segments(&self) -> u32 {
        LEAST_FREE + (self.layout.leaves + self.layout.branches).div_ceil(self.layout.payload)
    }

    fn checkpoint(&mut self, log: &mut Log, orphans: &[FileId], is_last: bool) -> Result<()> {
        self.take_checkpoint(log, orphans, is_last)
    }

    fn residents(&mut self, log: &mut Log, segment: u32) -> Result<Vec<Resident>> {
        self.find_residents(log, segment)
    }

    fn lives_at(&mut self, log: &mut Log, resident: &Resident) -> Result<bool> {
        match resident.owner {
            Owner::Index(number) => self.is_own_at(log, number, resident.lpn),
            Owner::Content { file, unit } => match self.number_of(log, file, unit)? {
                Some(number) => Ok(self.place_of(log, number)? == resident.lpn),
                None => Ok(false),
            },
        }
    }

    fn is_changed(&self, unit: u32) -> bool {
        self.is_own_changed(unit)
    }

    fn rewrite(&mut self, log: &mut Log, unit: u32) -> Result<()> {
        self.copy_own(log, unit)
    }

    fn moves_at_once(&mut self, log: &mut Log) -> Result<usize> {
        self.partial.ensure_room(log, 1)?;
        Ok(self.partial.room(log))
    }

    fn place_for(&mut self, log: &mut Log, owner: Owner) -> Result<MovedPlace> {
        self.place_for_move(log, owner)
    }

    fn moved(&mut self, log: &mut Log, owner: Owner, to: Lpn) -> Result<()> {
        self.has_moved(log, owner, to)
    }

    fn files(&mut self, log: &mut Log) -> Result<Vec<FileId>> {
        let mut files = Vec::new();
        let mut from = 0;
        while let Some((file, _)) = self.next(log, self.files_root, from)? {
            files.push(FileId(file));
            let Some(next) = file.checked_add(1) else { break };
            from = next;
        }
        Ok(files)
    }

    fn free_files(&self) -> u64 {
        u64::from(LAST_FILE.saturating_sub(self.files))
    }

    fn file_count(&self) -> u64 {
        u64::from(self.files)
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        self.readable_snapshots()
    }

    fn create_snapshot(&mut self, log: &mut Log, now: Timestamp) -> Result<u32> {
        self.freeze(log, now)
    }

    fn begin_deletion(&mut self, number: u32) -> Result<()> {
        self.mark_going(number)
    }

    fn delete_some(&mut self, log: &mut Log, from: u32) -> Result<Option<u32>> {
        self.thaw_some(log, from)
    }

    fn audit_file(
        &mut self,
        log: &mut Log,
        file: FileId,
        visit: &mut dyn FnMut(Owner, Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        self.audit_tree_of(log, file, visit, findings)
    }

    fn audit(
        &mut self,
        log: &mut Log,
        reachable: u64,
        visit: &mut dyn FnMut(Option<Lpn>),
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        self.audit_all(log, reachable, visit, findings)
    }
}
