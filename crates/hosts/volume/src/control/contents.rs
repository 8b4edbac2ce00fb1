//! What a volume does with the contents of files: through the page cache and beside it, all or nothing, and without moving
//! data.
//!
//! A unit gets its place when it is first written into the page cache, so that the writer learns of a full volume, and not a
//! later sync. Cached pages go only when the drive has what replaces them (hazard 32): dirty ones are all there is of what
//! was written last.

use std::ops::Range;

use tantalum::{Command, Fetches, Fills, Lpn, TxId, UNIT_BYTES, result_of};
use tantalum_filesystem::{FileId, RangeCommit};

use super::Volume;
use crate::allocate::check_end;
use crate::byte_range::{Edges, UNIT, pieces};
use crate::commit::InodeChange;
use crate::direct_io::{self, check_units, places_of_writes, units_of_writes};
use crate::error::VolumeError;
use crate::inode::{MOST_EXTENTS, units_of};
use crate::lending::LentExtent;
use crate::share::{self, ByteCopy, UnitCopy};

/// Bytes copied at once if units cannot be shared.
const COPY_BYTES: u64 = 256 * UNIT;

impl Volume {
    // -- sizes and places -----------------------------------------------------------------------------------------------

    /// Bytes of the file.
    pub fn size(&self, file: FileId) -> Result<u64, VolumeError> {
        Ok(self.files.get(file)?.size())
    }

    /// The place of unit `unit` of the file; none if it has no place yet. A program may write there directly if it has
    /// reserved the unit.
    pub fn lpn(&self, file: FileId, unit: u64) -> Option<Lpn> {
        let unit = u32::try_from(unit).ok()?;
        Some(self.files.get(file).ok()?.extents().run(unit)?.lpn)
    }

    /// Truncates the file, or lets it grow with zeros (or over what was reserved, see [`Volume::reserve`]). A
    /// truncation gives up the reservation beyond it. Durable with [`Volume::sync`].
    pub fn set_size(&mut self, file: FileId, size: u64) -> Result<(), VolumeError> {
        self.drive.check()?;
        check_end(size)?;
        let old_size = self.files.contents(file)?.size();
        if size > old_size {
            self.clear_tail(file)?;
            self.files.get_mut(file)?.grow_to(size);
        }
        if size < old_size {
            self.transactions.check_none(file, None)?;
            self.cut_to(file, size)?;
        }
        Ok(())
    }

    /// Shrinks the file. The rest of its last unit keeps its contents until it grows again.
    fn cut_to(&mut self, id: FileId, size: u64) -> Result<(), VolumeError> {
        let file = self.files.get_mut(id)?;
        self.pages.forget(id, units_of(size)..file.end().max(file.extents().end()));
        file.cut_to(size, &mut self.space);
        Ok(())
    }

    /// Zeroes the rest of the file's last unit before the size grows over it.
    fn clear_tail(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.pages.clear_tail(&mut self.drive, &mut self.files, file)
    }

    /// Gives the file's units below `bytes` their places, and keeps them whatever happens to the size, except a
    /// truncation below them. The size does not change. Reservations grow in steps, so that the inode changes seldom.
    /// Durable with the file's next sync; units below the reservation may then be written directly, see
    /// [`Volume::lpn`].
    ///
    /// Reserved units beyond the size belong to the program. When the size grows over them they read as whatever is
    /// there: zeros, or what was written directly, or what a write that grew the file left there before a crash.
    pub fn reserve(&mut self, file: FileId, bytes: u64) -> Result<(), VolumeError> {
        self.drive.check()?;
        let units = units_of(check_end(bytes)?);
        let Some(units) = self.files.contents(file)?.reservation(units, &self.space) else { return Ok(()) };
        self.place_units(file, 0..units)?;
        self.files.get_mut(file)?.reserve_for_program(units);
        Ok(())
    }

    /// Gives all of the units a place, or none if there is not enough free space.
    fn place_units(&mut self, file: FileId, units: Range<u32>) -> Result<(), VolumeError> {
        let missing = self.files.get(file)?.extents().missing(units.start, units.end);
        if missing == 0 {
            return Ok(());
        }
        if missing > self.space.units() {
            self.reclaim(file)?;
        }
        self.files.get_mut(file)?.allocate(units, missing, &mut self.space)
    }

    /// Frees everything that is not needed: units that files other than `growing` took ahead, and units that were given
    /// up while a durable inode may still name them.
    fn reclaim(&mut self, growing: FileId) -> Result<(), VolumeError> {
        // A transaction's pages may lie beyond the size.
        if self.transactions.is_empty() {
            for (id, file) in self.files.iter_mut().filter(|(id, _)| *id != growing) {
                let ahead = file.ahead();
                self.pages.forget(id, ahead.clone());
                file.give_up(ahead.start..u32::MAX, &mut self.space);
            }
        }
        for file in self.files.which(|file| file.has_freed()) {
            self.sync(file)?;
        }
        self.sync_names()
    }

    /// A step failed that may have written to these units: those beyond the file's end lose their places, so that the
    /// file reads as zeros there when it grows, even if they were allocated. Others stay: those that belong to the
    /// program (see [`Volume::reserve`]) or to an open transaction.
    fn give_up_beyond_end(&mut self, id: FileId, units: Range<u32>) {
        let Ok(file) = self.files.get_mut(id) else { return };
        let beyond = file.beyond_end(units);
        if beyond.is_empty() {
            return;
        }
        self.pages.forget(id, beyond.clone());
        let transactions = &self.transactions;
        let free = beyond.filter(|&unit| !transactions.any_has_written(id, unit));
        file.give_up_beyond_end(free, &mut self.space);
    }

    // -- through the page cache -----------------------------------------------------------------------------------------

    /// Reads from `offset` on, and returns how many bytes there were: fewer than requested at the file's end.
    pub fn read(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let entry = self.files.contents(file)?;
        self.pages.read(&mut self.drive, (file, entry), offset, data)
    }

    /// Writes into the page cache. Durable with [`Volume::sync`].
    ///
    /// If it fails, data from the front may have been written, up to a unit's end, and the size includes them.
    pub fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        let size = self.files.contents(file)?.size();
        if data.is_empty() {
            return Ok(());
        }
        let end = check_end(offset.saturating_add(data.len() as u64))?;
        self.place_units(file, (offset / UNIT) as u32..units_of(end))?;
        if offset > size {
            self.clear_tail(file)?;
        }
        self.pages.write(&mut self.drive, &mut self.files, file, offset, data)
    }

    /// Puts the drive's contents of a unit that was written or shared without the volume into the page cache.
    ///
    /// # Panics
    ///
    /// If `data` is not one unit.
    pub fn cache_put_clean(&mut self, file: FileId, unit: u64, data: &[u8]) {
        let page: &[u8; UNIT_BYTES] = data.try_into().expect("a page is one unit of 4096 bytes");
        if let (Ok(unit), true) = (u32::try_from(unit), self.files.contains(file)) {
            self.pages.put_clean(file, unit, page);
        }
    }

    /// Drops the cached copy of a unit, clean or dirty.
    pub fn cache_drop(&mut self, file: FileId, unit: u64) {
        if let Ok(unit) = u32::try_from(unit) {
            self.pages.forget_unit(file, unit);
        }
    }

    // -- beside the page cache ------------------------------------------------------------------------------------------

    /// Writes whole units and waits for the drive. Durable with [`Volume::sync`]. Cached copies of the units are
    /// replaced.
    ///
    /// If it fails, some units within the file's size may have been written; the size is as before.
    pub fn write_direct(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.write_units(file, offset, data, None)
    }

    /// As [`Volume::write_direct`], with buffers that already hold `data` ([`tantalum::Device::fills`]). The caller
    /// must release the rest.
    pub fn write_direct_filled(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: &mut Fills,
    ) -> Result<(), VolumeError> {
        self.write_units(file, offset, data, Some(fills))
    }

    fn write_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        let size = self.files.contents(file)?.size();
        if data.is_empty() {
            return Ok(());
        }
        let units = check_units(offset, data)?;
        self.place_units(file, units.clone())?;
        if offset > size {
            self.clear_tail(file)?;
        }
        let entry = self.files.get_mut(file)?;
        entry.touch();
        let (pages, drive) = (&mut self.pages, &mut self.drive);
        match direct_io::write_units(pages, drive, (file, entry), units.clone(), data, fills) {
            Ok(done_ns) => self.drive.wait_until(done_ns),
            Err(error) => {
                self.give_up_beyond_end(file, units);
                return Err(error);
            }
        }
        entry.grow_to(offset + data.len() as u64);
        Ok(())
    }

    /// Reads whole units, and returns how many bytes there were: fewer than requested at the file's end. Units in
    /// the page cache are read from there.
    pub fn read_direct(&mut self, file: FileId, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        self.read_units(file, offset, data, None)
    }

    /// As [`Volume::read_direct`], but bytes in the drive's image file are left to be fetched into `data`, which may
    /// happen while others use the volume ([`tantalum::Device::fetches`]). The contents of `data` after the bytes read
    /// are undefined.
    pub fn read_direct_later(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        fetches: &mut Fetches,
    ) -> Result<usize, VolumeError> {
        self.read_units(file, offset, data, Some(fetches))
    }

    fn read_units(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let entry = self.files.contents(file)?;
        direct_io::read_units(&mut self.pages, &mut self.drive, (file, entry), offset, data, fetches)
    }

    /// Returns where a file's bytes are, in whole units, up to its end; holes have no place. The page cache then holds
    /// nothing of the file. Until its places are given up ([`Volume::before_reuse`]), others may read and write there; do not
    /// use them through the volume at the same time.
    pub fn lend(&mut self, file: FileId) -> Result<Vec<LentExtent>, VolumeError> {
        self.drive.check()?;
        let units = self.files.contents(file)?.end();
        self.write_back_file(file)?;
        self.pages.forget(file, 0..units);
        let file = self.files.get_mut(file)?;
        // others may write where the volume never did
        file.touch();
        Ok(file.extents().between(0, units).map(LentExtent::from).collect())
    }

    /// From now on `tell` is called with bytes of the drive before a file gives them up. Once it returns, nobody may access
    /// them any more on the strength of [`Volume::lend`]. It must not use the volume.
    pub fn before_reuse(&mut self, tell: impl FnMut(Range<u64>) + Send + 'static) {
        self.space.set_before_reuse(tell);
    }

    // -- all or nothing ---------------------------------------------------------------------------------------------------

    /// Units that one [`Volume::write_atomic`] can take: a batch less the inode's unit.
    pub fn atomic_units_limit(&self) -> u32 {
        self.drive.batch_units() as u32 - 1
    }

    /// Writes whole units, each as (number in the file, data of one or several units), and sets the size, all or
    /// nothing, durable when it returns. Waiting names become durable first, if the file's is one of them.
    ///
    /// Refuses data that are not whole units, more than [`Volume::atomic_units_limit`] of them, and to cut a file in which an
    /// open transaction has written.
    pub fn write_atomic(
        &mut self,
        file: FileId,
        writes: &[(u64, &[u8])],
        new_size: Option<u64>,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.files.contents(file)?;
        for &(unit, data) in writes {
            self.place_units(file, check_units(unit.saturating_mul(UNIT), data)?)?;
        }
        self.prepare_new_size(file, new_size, None)?;
        let mut batch = places_of_writes(self.files.get(file)?, writes);
        let changes = self.commit().prepare(std::iter::once((file, new_size)))?;
        debug_assert!(!self.tree.is_unnamed(file), "the batch of file {} lacks its name", file.0);
        batch.extend(changes.iter().map(InodeChange::write));
        let written = self.settle(&changes).and_then(|()| match batch.is_empty() {
            true => Ok(()),
            false => self.drive.write_atomic(&batch),
        });
        drop(batch);
        if let Err(error) = written {
            self.commit().abandon(changes);
            return Err(error);
        }
        self.files.get_mut(file)?.touch();
        for (unit, page) in units_of_writes(writes) {
            self.pages.put_clean(file, unit, page);
        }
        self.finish_new_size(file, new_size)?;
        self.commit().apply_and_trim(changes);
        self.assert_invariants();
        Ok(())
    }

    /// Writes whole units and waits for the drive: after a power cut all of them read as `data`, or all as before. More
    /// than [`Volume::atomic_units_limit`] units are several such writes. Cached copies of the units are replaced.
    pub fn write_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let most = self.atomic_units_limit() as usize * UNIT_BYTES;
        for (part, data) in data.chunks(most).enumerate() {
            self.write_part_whole(file, offset.saturating_add((part * most) as u64), data)?;
        }
        Ok(())
    }

    fn write_part_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        let entry = self.files.contents(file)?;
        let units = check_units(offset, data)?;
        let end_bytes = offset + data.len() as u64;
        let writes = [(units.start.into(), data)];
        // the drive knows the places of all of them: only its map changes
        if !entry.is_in_place(units.clone(), end_bytes) {
            let new_size = (end_bytes > entry.size()).then_some(end_bytes);
            return self.write_atomic(file, &writes, new_size);
        }
        if units.len() == 1 {
            return self.write_direct(file, offset, data);
        }
        let entry = self.files.get_mut(file)?;
        entry.touch();
        self.drive.write_atomic(&places_of_writes(entry, &writes))?;
        self.pages.forget(file, units);
        Ok(())
    }

    /// Prepares a batch that sets the file's size: refuses to cut a file in which a transaction other than `own` has written;
    /// makes the file's name durable, which would otherwise need units of the batch; and if the file grows, zeroes what is
    /// behind its end, which [`Volume::settle`] brings to the drive.
    fn prepare_new_size(
        &mut self,
        file: FileId,
        size: Option<u64>,
        own: Option<TxId>,
    ) -> Result<(), VolumeError> {
        let old_size = self.files.get(file)?.size();
        if size.is_some_and(|size| size < old_size) {
            self.transactions.check_none(file, own)?;
        }
        if self.tree.is_unnamed(file) {
            self.commit().names()?;
        }
        let Some(size) = size else { return Ok(()) };
        check_end(size)?;
        if size > old_size && !old_size.is_multiple_of(UNIT) {
            self.clear_tail(file)?;
        }
        Ok(())
    }

    /// The drive has the file's new size.
    fn finish_new_size(&mut self, file: FileId, size: Option<u64>) -> Result<(), VolumeError> {
        let Some(size) = size else { return Ok(()) };
        let entry = self.files.get_mut(file)?;
        if size < entry.size() {
            return self.cut_to(file, size);
        }
        entry.grow_to(size);
        Ok(())
    }

    // -- the drive's transactions (X-FTL) -----------------------------------------------------------------------------------

    // A transaction's pages go to the drive as they are written. The page cache keeps them as the transaction's version; the
    // commit makes them what everyone sees. Metadata that the transaction changed join it as pages of their own.

    /// Opens a transaction.
    pub fn tx_begin(&mut self) -> Result<TxId, VolumeError> {
        let tx = result_of(|tx| self.drive.submit(Command::Begin { tx }))?;
        self.transactions.begin(tx);
        Ok(tx)
    }

    /// Writes whole units of a file within a transaction: others see the old ones until the commit. The size does not
    /// change. If it fails, the transaction is still open and has some of the units, from the front.
    pub fn tx_write(&mut self, tx: TxId, file: FileId, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.transactions.check(tx)?;
        self.files.contents(file)?;
        let units = check_units(offset, data)?;
        self.place_units(file, units.clone())?;
        let entry = self.files.get_mut(file)?;
        entry.touch();
        let mut done_ns = self.drive.now_ns();
        for (unit, page) in units.zip(data.as_chunks::<UNIT_BYTES>().0) {
            done_ns = done_ns.max(self.drive.write_in(tx, entry.place(unit).lpn, page)?);
            self.transactions.note(tx, file, unit);
            self.pages.put_in(tx, file, unit, page);
        }
        self.drive.wait_until(done_ns);
        Ok(())
    }

    /// Reads the file as the transaction sees it, and returns how many bytes there were: fewer than requested at the
    /// end of the file, or of what the transaction wrote if that is further.
    pub fn tx_read(
        &mut self,
        tx: TxId,
        file: FileId,
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, VolumeError> {
        self.drive.check_power()?;
        let written_end = self.transactions.written_end(tx, file)?;
        let size = self.files.get(file)?.size().max(written_end * UNIT);
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        let mut done = 0;
        for piece in pieces(offset.min(size), bytes) {
            let to = &mut data[done..done + piece.bytes.len()];
            if self.transactions.has_written(tx, file, piece.unit)? {
                let entry = self.files.get(file)?;
                let page = self.pages.read_in(&mut self.drive, tx, (file, entry), piece.unit)?;
                to.copy_from_slice(&page[piece.bytes.clone()]);
            } else {
                let there = self.read(file, offset + done as u64, to)?;
                to[there..].fill(0);
            }
            done += piece.bytes.len();
        }
        Ok(bytes)
    }

    /// Makes what the transaction wrote visible and durable, with the size of `file` if one is given: all or
    /// nothing. If it fails while the drive has power, the transaction is still open and has changed nothing that others
    /// see. If it had got as far as the files' metadata, the transaction can then only be read and aborted: further commits
    /// fail with [`VolumeError::CommitFailed`].
    pub fn tx_commit(&mut self, tx: TxId, file: FileId, new_size: Option<u64>) -> Result<(), VolumeError> {
        self.drive.check()?;
        let mut files = self.transactions.files_to_commit(tx)?;
        files.insert(file);
        let size_of = |touched| new_size.filter(|_| touched == file);
        for &touched in &files {
            self.prepare_new_size(touched, size_of(touched), Some(tx))?;
        }
        let changes = self.commit().prepare(files.iter().map(|&touched| (touched, size_of(touched))))?;
        if let Err(error) = self.write_commit(tx, &changes) {
            self.commit().abandon(changes);
            return Err(error);
        }
        for (file, unit) in self.transactions.end(tx) {
            self.pages.publish(tx, file, unit);
        }
        self.finish_new_size(file, new_size)?;
        self.commit().apply_and_trim(changes);
        self.assert_invariants();
        Ok(())
    }

    fn write_commit(&mut self, tx: TxId, changes: &[InodeChange]) -> Result<(), VolumeError> {
        self.settle(changes)?;
        if !changes.is_empty() {
            self.transactions.note_inodes(tx);
        }
        let mut done_ns = self.drive.now_ns();
        for (lpn, unit) in changes.iter().map(InodeChange::write) {
            done_ns = done_ns.max(self.drive.write_in(tx, lpn, unit)?);
        }
        self.drive.wait_until(done_ns);
        self.drive.submit(Command::Commit { tx }).map(drop)
    }

    /// Discards what the transaction wrote.
    pub fn tx_abort(&mut self, tx: TxId) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.transactions.check(tx)?;
        self.drive.submit(Command::Abort { tx })?;
        for (file, unit) in self.transactions.end(tx) {
            self.pages.forget_in(tx, file, unit);
        }
        self.assert_invariants();
        Ok(())
    }

    // -- ranges -------------------------------------------------------------------------------------------------------------

    /// Gives all units that the range touches a place, so that writing to them cannot fail for lack of space. The file
    /// grows to the range's end unless `keep_size`; new bytes read as zeros. Durable with [`Volume::sync`]. If it fails, the
    /// file reads as before; some units may have got places.
    pub fn allocate(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        keep_size: bool,
    ) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        check_end(end)?;
        self.place_units(file, (offset / UNIT) as u32..units_of(end))?;
        if end <= self.files.get(file)?.size() {
            return Ok(());
        }
        if keep_size {
            self.files.get_mut(file)?.keep(units_of(end));
        } else {
            self.clear_tail(file)?;
            self.files.get_mut(file)?.grow_to(end);
        }
        Ok(())
    }

    /// Makes the range read as zeros and gives up its whole units. They are free for others once that is durable, with
    /// [`Volume::sync`]. A file with too many extents keeps the units, emptied. If it fails, part of the range reads as
    /// zeros, and the rest is as it was.
    pub fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        self.transactions.check_none(file, None)?;
        let units = self.zero_edges(file, offset..end)?;
        self.make_hole(file, units)
    }

    /// Makes the range read as zeros. Then all of it has a place, as with [`Volume::allocate`]. If it fails, the file may
    /// have grown, part of the range reads as zeros, and the rest is as it was.
    pub fn zero_range(
        &mut self,
        file: FileId,
        offset: u64,
        bytes: u64,
        keep_size: bool,
    ) -> Result<(), VolumeError> {
        let end = self.check_range(file, offset, bytes)?;
        self.transactions.check_none(file, None)?;
        self.allocate(file, offset, bytes, keep_size)?;
        let units = self.zero_edges(file, offset..end)?;
        self.zero_in_place(file, units)
    }

    /// The first byte from `from` on that is not in a hole; none if there is none before the file's end.
    pub fn seek_data(&self, file: FileId, from: u64) -> Result<Option<u64>, VolumeError> {
        self.drive.check_power()?;
        let entry = self.files.contents(file)?;
        if from >= entry.size() {
            return Ok(None);
        }
        let mut units = entry.placed_units((from / UNIT) as u32..entry.end());
        let found = units.find(|&(unit, lpn)| self.has_data(file, unit, lpn));
        Ok(found.map(|(unit, _)| from.max(u64::from(unit) * UNIT)))
    }

    /// The first byte from `from` on that is in a hole; the end of the file counts as one. None if `from` is not before
    /// that end.
    pub fn seek_hole(&self, file: FileId, from: u64) -> Result<Option<u64>, VolumeError> {
        self.drive.check_power()?;
        let entry = self.files.contents(file)?;
        if from >= entry.size() {
            return Ok(None);
        }
        let first = (from / UNIT) as u32;
        let units = entry.placed_units(first..entry.end()).zip(first..);
        let data = units.take_while(|&((unit, lpn), next)| unit == next && self.has_data(file, unit, lpn));
        let hole = u64::from(first) + data.count() as u64;
        Ok(Some((hole * UNIT).clamp(from, entry.size())))
    }

    /// Whether a unit that has a place was written there, or is about to be.
    fn has_data(&self, file: FileId, unit: u32, lpn: Lpn) -> bool {
        self.pages.cache().is_dirty((file, unit)) || self.drive.is_mapped(lpn)
    }

    /// The end of a range of a file with contents.
    fn check_range(&self, file: FileId, offset: u64, bytes: u64) -> Result<u64, VolumeError> {
        self.drive.check()?;
        self.files.contents(file)?;
        if bytes == 0 {
            return Err(VolumeError::BadRange { file, offset, bytes, why: "the range is empty" });
        }
        Ok(offset.saturating_add(bytes))
    }

    /// Zeroes the range's parts of units that it does not cover, and returns those that it covers.
    fn zero_edges(&mut self, file: FileId, bytes: Range<u64>) -> Result<Range<u32>, VolumeError> {
        let edges = Edges::of(bytes, self.files.get(file)?.size());
        for bytes in [edges.first, edges.last].into_iter().flatten() {
            self.pages.zero(&mut self.drive, &mut self.files, file, bytes)?;
        }
        Ok(edges.units)
    }

    /// Makes units read as zeros: a hole, or emptied in place if the file has too many extents to have one more. If it fails,
    /// some of them do, and the others are as they were.
    fn make_hole(&mut self, id: FileId, units: Range<u32>) -> Result<(), VolumeError> {
        let file = self.files.get_mut(id)?;
        if file.extents().len() >= MOST_EXTENTS {
            return self.zero_in_place(id, units);
        }
        self.pages.forget(id, units.clone());
        file.make_hole(units, &mut self.space);
        Ok(())
    }

    /// Makes units read as zeros in place. If it fails, some of them do, and the others are as they were.
    fn zero_in_place(&mut self, id: FileId, units: Range<u32>) -> Result<(), VolumeError> {
        for extent in self.files.get(id)?.extents().between(units.start, units.end) {
            self.drive.zero(extent.range())?;
            self.pages.forget(id, extent.unit..extent.end());
        }
        Ok(())
    }

    // -- without moving data ------------------------------------------------------------------------------------------------

    /// Copies bytes from one file to another or within one, and returns how many there were up to the end of the first.
    /// Whole units are shared if both ranges have the same alignment within units, as far as the drive allows; holes
    /// stay holes. Durable with a [`Volume::sync`] of the second file.
    ///
    /// If it fails, some of the range within the second file's size may have been copied, each unit completely; the others
    /// hold what they held. The size may have grown, but not beyond what was copied.
    pub fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Result<u64, VolumeError> {
        self.drive.check()?;
        let from_size = self.files.contents(from)?.size();
        let to_size = self.files.contents(to)?.size();
        let bytes = bytes.min(from_size.saturating_sub(from_offset));
        if bytes == 0 {
            return Ok(0);
        }
        check_end(to_offset.saturating_add(bytes))?;
        share::check_apart((from, from_offset), (to, to_offset), bytes, "it overlaps the source range")?;
        self.transactions.check_none(to, None)?;
        if to_offset > to_size {
            self.clear_tail(to)?;
        }
        let Some(copy) = ByteCopy::plan(&self.files, (from, from_offset), (to, to_offset), bytes)? else {
            self.copy_bytes((from, from_offset), (to, to_offset), bytes)?;
            return Ok(bytes);
        };
        self.copy_bytes((from, from_offset), (to, to_offset), copy.head)?;
        if let Err(error) = self.copy_units(copy.units) {
            self.give_up_beyond_end(to, copy.units.targets());
            return Err(error);
        }
        let done = copy.head + copy.middle;
        self.files.get_mut(to)?.grow_to(to_offset + done);
        self.copy_bytes((from, from_offset + done), (to, to_offset + done), bytes - done)?;
        Ok(bytes)
    }

    fn copy_bytes(
        &mut self,
        (from, from_offset): (FileId, u64),
        (to, to_offset): (FileId, u64),
        bytes: u64,
    ) -> Result<(), VolumeError> {
        let mut buffer = vec![0; bytes.min(COPY_BYTES) as usize];
        for start in (0..bytes).step_by(COPY_BYTES as usize) {
            let data = &mut buffer[..(bytes - start).min(COPY_BYTES) as usize];
            let read = self.read(from, from_offset + start, data)?;
            self.write(to, to_offset + start, &data[..read])?;
        }
        Ok(())
    }

    /// Shares units that were written, and makes holes of others.
    fn copy_units(&mut self, copy: UnitCopy) -> Result<(), VolumeError> {
        self.write_back_file(copy.from.0)?;
        let mut rest = copy;
        while rest.units > 0 {
            let data = rest.mapped(&self.files, &self.drive, true)?;
            let done = if data > 0 {
                let part = rest.first(data);
                self.place_units(part.to.0, part.targets())?;
                part.share(&mut self.files, &mut self.pages, &mut self.drive)?;
                data
            } else {
                let hole = rest.mapped(&self.files, &self.drive, false)?;
                self.make_hole(rest.to.0, rest.first(hole).targets())?;
                hole
            };
            rest = rest.after(done);
        }
        Ok(())
    }

    /// Makes ranges of files read as ranges of others, all or nothing, durable when it returns: SHARE as its
    /// applications call it. The files stay independent.
    ///
    /// Ranges are whole units, up to the files' ends, which may lie within the last unit; no target overlaps another
    /// range. The drive shares [`tantalum::Limits::share_units`] in one step.
    pub fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Result<(), VolumeError> {
        self.drive.check()?;
        share::check_commit(ranges, &self.files, &self.transactions, &self.drive)?;
        let copies: Vec<UnitCopy> = ranges.iter().map(UnitCopy::of_commit).collect();
        for copy in &copies {
            self.clear_tail(copy.from.0)?;
            self.map_units(copy.from.0, copy.sources())?;
            self.place_units(copy.to.0, copy.targets())?;
        }
        for copy in &copies {
            self.write_back_file(copy.from.0)?;
            if self.files.get(copy.to.0)?.is_dirty() {
                // The step must not be seen in units that no durable inode names. Data precede that inode (V4).
                self.write_back_file(copy.to.0)?;
                self.commit_files(&[copy.to.0], false)?;
            }
            self.files.get_mut(copy.to.0)?.touch();
        }
        let mut shares = Vec::new();
        for copy in &copies {
            shares.extend(copy.places(&self.files)?);
        }
        for copy in &copies {
            let dirty = self.pages.cache().dirty_units(copy.from.0, copy.from.1, 1);
            let is_clean = dirty.iter().all(|&unit| unit >= copy.sources().end);
            debug_assert!(is_clean, "unit {dirty:?} of file {} is shared while it is dirty", copy.from.0.0);
        }
        self.drive.await_write_back();
        self.drive.submit(Command::Share { ranges: &shares, deferred: false })?;
        for copy in &copies {
            self.pages.forget(copy.to.0, copy.targets());
        }
        self.assert_invariants();
        Ok(())
    }

    /// Writes zeros to units that were never written, so that they can be shared.
    fn map_units(&mut self, file: FileId, units: Range<u32>) -> Result<(), VolumeError> {
        self.write_back_file(file)?;
        self.place_units(file, units.clone())?;
        let file = self.files.get_mut(file)?;
        file.touch();
        for unit in units {
            let lpn = file.place(unit).lpn;
            if !self.drive.is_mapped(lpn) {
                self.drive.write_back(lpn, &[0; UNIT_BYTES])?;
            }
        }
        Ok(())
    }

    /// Swaps ranges of two files, or of one, in one step, durable when it returns together with everything else of the
    /// files. The ranges are whole units, up to the files' ends, and do not overlap. If it fails, the swap is undone.
    pub fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        for (file, offset) in [(a, a_offset), (b, b_offset)] {
            share::check_whole_units(&self.files, file, offset, bytes)?;
            self.transactions.check_none(file, None)?;
            self.clear_tail(file)?;
            self.write_back_file(file)?;
        }
        share::check_apart((a, a_offset), (b, b_offset), bytes, "it overlaps the other range")?;
        let units = units_of(bytes);
        let ranges = [(a, (a_offset / UNIT) as u32), (b, (b_offset / UNIT) as u32)];
        share::check_pieces(&self.files, ranges, units)?;
        share::swap_extents(&mut self.files, &mut self.pages, &mut self.space, ranges, units)?;
        let files = if a == b { &[a][..] } else { &[a, b][..] };
        if let Err(error) = self.commit_files(files, true) {
            // Nothing refuses this: the files had these extents before, however many there are.
            share::swap_extents(&mut self.files, &mut self.pages, &mut self.space, ranges, units)?;
            return Err(error);
        }
        self.assert_invariants();
        Ok(())
    }
}
