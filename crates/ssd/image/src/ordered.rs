//! An image in a file that survives the loss of the machine: what was synced stays, each group completely or not at
//! all.
//!
//! The host writes its cached pages to the disk in any order and may lose any of them until a sync. So records (of
//! blocks, pages, protected DRAM, and the tally) are not written in place. They are kept in memory, and the bytes of
//! them that changed are appended as a *group* to a redo log inside the image; data of units go to free slots at once.
//! Invariants:
//! - A group counts only if it is whole, names the group before it by number and checksum, and, if it is the last, all
//!   the data written with it are there. So one sync makes the data and the group durable together.
//! - Data that a group names are not overwritten before two later groups are durable (`Nand::sync_end`):
//!   before the first is, they may be needed; before the second is, they prove that the group is whole. Records in
//!   place change only to what the redo log says.
//! - The redo log is reused from its start when everything in it is in place and synced, and an empty group in its
//!   first sector, synced before any other group, records this. Otherwise a torn new group could leave the first old
//!   ones, which would overwrite newer bytes. Numbers continue over every opening, so that no old group follows a new
//!   one.
//! - The contents of a redo log are put in place only after the redo log and its data are synced: a killed process
//!   leaves bytes in the host's cache that the disk may not have.
//! - Space is given back to the host as if zeros were written. A slot's goes back when the slot may be overwritten. That of
//!   records that count for nothing, because their block was erased, goes back when the redo log has just started over: then
//!   the records in place say so too, durably, and no group has older ones.
//! - Behind the empty group of a closed image may be a summary (`summary.rs`), which is no group and which the next one overwrites.
//! - A sync runs while others write. If they change so much that the next group might not fit, the writer ends that sync.
//! - After a failed write or sync nothing is written (`host_file.rs`): there is no way to know what the disk has. A group
//!   names data only once they were written.
//! - A group begins in a sector of its own, and is written there and nowhere else: a failed write of it does not harm
//!   the groups before it.
//!
//! Sectors of a redo log that was never used are not allocated on the disk yet, and a sync that allocates them makes
//! the host write its own metadata. So the used part of a redo log is written when an image is opened for the first
//! time.
//!
//! A lost group contains only what was not synced. To the drive, its loss looks like a process that was killed earlier.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use zerocopy::IntoBytes;

use super::host_file::{HOST_PAGE, HostFile};
use super::overlay::Overlay;
use super::ranges::Ranges;
use super::redo_file::{HostSync, RedoFile, SECTOR, Sectors};
use super::redo_log::{EntryHead, Group, REDO_LOG_BYTES, REDO_LOG_FULL, RedoPlace, SlotSum, encode, fill};
use super::tally::TALLY_AT;

/// A group that grows beyond this is made durable without being asked.
const GROUP_BYTES: u64 = 1 << 20;

/// A write is split at multiples of this, so that no group is much larger than [`GROUP_BYTES`]. No record crosses such
/// a place; of several records, a killed process may also leave only some.
const CUT: u64 = 64 << 10;

/// Bytes written, and their place.
#[cfg(test)]
type RawWrites = Vec<(u64, Vec<u8>)>;

/// The sync that [`Ordered::sync_begin`] returned last.
enum UnderWay {
    Nothing,
    /// It has not ended.
    Elsewhere(HostSync),
    /// So much changed meanwhile that it had to end here.
    EndedHere,
}

/// A file whose records change through the redo log.
pub(super) struct Ordered {
    /// The current records; those in place are older.
    records: Overlay,
    file: Arc<HostFile>,
    log: Arc<RedoFile>,
    place: RedoPlace,
    /// Where the next group begins in the redo log.
    head: u64,
    /// Number and checksum of the last group.
    sequence: u64,
    checksum: u32,
    /// A group is being made durable: if that failed, nothing more may be written.
    is_open: bool,
    under_way: UnderWay,
    /// The bytes of records for the next group.
    changed: Ranges,
    slots: Vec<SlotSum>,
    /// Records that count for nothing, and whose space goes back when the redo log starts over.
    void: Ranges,
    /// Raw writes since the last sync; a lost machine may have made any of them.
    #[cfg(test)]
    unsynced: std::sync::Mutex<RawWrites>,
    /// Raw writes that each earlier sync made durable.
    #[cfg(test)]
    synced: std::sync::Mutex<Vec<RawWrites>>,
}

impl Ordered {
    /// Takes over a file in which everything is in place, and makes that durable; `sequence` is the number of the last
    /// group.
    pub fn new(records: Overlay, place: RedoPlace, sequence: u64) -> io::Result<Ordered> {
        let (file, sequence) = (records.file().share(), sequence + 1);
        fill(&file, place)?;
        file.sync_all()?;
        let (checksum, empty) = encode(sequence, 0, &[], &[]);
        let log = RedoFile::open(file.clone(), &Sectors::new(&empty), place.log_at)?;
        file.sync_data()?;
        Ok(Ordered {
            records,
            file,
            log: Arc::new(log),
            place,
            head: SECTOR as u64,
            sequence,
            checksum,
            is_open: false,
            under_way: UnderWay::Nothing,
            changed: Ranges::default(),
            slots: Vec::new(),
            void: Ranges::default(),
            #[cfg(test)]
            unsynced: Default::default(),
            #[cfg(test)]
            synced: Default::default(),
        })
    }

    pub fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match at >= self.place.slots_at {
            true => self.file.read_exact_at(data, at),
            false => self.records.read(data, at),
        }
    }

    /// Writes a unit's data to its slot at once; the next group requires that they are there.
    pub fn write_unit(&mut self, data: &[u8], at: u64, checksum: u32) -> io::Result<()> {
        debug_assert!(
            at >= self.place.slots_at && self.slots.iter().all(|slot| slot.at.get() != at),
            "a unit is written to {at}, which is not a slot, or belongs to the next group already"
        );
        self.write_raw(data, at)?;
        // a group must not name what never arrived; no test fails without this order, because after a failed write
        // nothing more reaches the file (`host_file.rs`)
        self.slots.push(SlotSum { at: at.into(), checksum: checksum.into() });
        self.sync_if_large()
    }

    /// Writes records.
    pub fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        self.file.check()?;
        debug_assert!(
            at >= TALLY_AT && at + data.len() as u64 <= self.place.log_at,
            "{} bytes at {at} are not a record: a replay would refuse them",
            data.len()
        );
        let (mut rest, mut at) = (data, at);
        while !rest.is_empty() {
            let bytes = rest.len().min((CUT - at % CUT) as usize);
            // it reads the rest of a page, which may fail too
            self.records.write(&rest[..bytes], at).map_err(|error| self.file.fail(error))?;
            self.changed.add(at..at + bytes as u64);
            self.void.remove(at..at + bytes as u64);
            self.sync_if_large()?;
            (rest, at) = (&rest[bytes..], at + bytes as u64);
        }
        Ok(())
    }

    /// Makes the changes durable if there are so many that the redo log might not have room for them.
    fn sync_if_large(&mut self) -> io::Result<()> {
        if self.body_bytes() <= GROUP_BYTES {
            return Ok(());
        }
        if let UnderWay::Elsewhere(sync) = &self.under_way {
            sync.run()?;
            self.under_way = UnderWay::EndedHere;
            self.group_is_durable()?;
        }
        self.sync()
    }

    /// Bytes of the next group after its head.
    fn body_bytes(&self) -> u64 {
        let heads = self.slots.len() * size_of::<SlotSum>() + self.changed.count() * size_of::<EntryHead>();
        self.changed.bytes() + heads as u64
    }

    fn write_raw(&self, data: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        self.unsynced.lock().unwrap().push((at, data.to_vec()));
        self.file.write_all_at(data, at)
    }

    fn sync_raw(&self) -> io::Result<()> {
        self.file.sync_data()?;
        #[cfg(test)]
        self.synced.lock().unwrap().push(std::mem::take(&mut self.unsynced.lock().unwrap()));
        Ok(())
    }

    /// Gathers the changes as a group. Once the returned sync has run, the group is durable; then call
    /// [`Ordered::sync_end`]. `None` if nothing changed.
    pub fn sync_begin(&mut self) -> io::Result<Option<HostSync>> {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return Err(unfinished());
        }
        let begun = self.gather()?;
        if let Some(sync) = &begun {
            self.under_way = UnderWay::Elsewhere(sync.clone());
        }
        Ok(begun)
    }

    /// The changes as a group, for the next place of the redo log.
    fn gather(&mut self) -> io::Result<Option<HostSync>> {
        // also if nothing changed: an earlier change may be lost
        self.file.check()?;
        if self.is_open {
            return Err(unfinished());
        }
        let bytes = self.body_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        let (at, end) = (self.place.log_at + self.head, self.head + Group::length(bytes));
        if end > REDO_LOG_BYTES {
            return Err(io::Error::other("the redo log is full: reopen the image"));
        }
        assert!(self.head.is_multiple_of(SECTOR as u64), "a group begins at {}, within a sector", self.head);
        let entries = self.entries().map_err(|error| self.file.fail(error))?;
        self.is_open = true;
        let (checksum, group) = encode(self.sequence + 1, self.checksum, &self.slots, &entries);
        let group = Sectors::new(&group);
        let length = group.bytes().len() as u64;
        assert!(
            self.head + length == end,
            "a group of {length} bytes at {} does not end at {end}",
            self.head
        );
        (self.sequence, self.checksum, self.head) = (self.sequence + 1, checksum, end);
        self.changed = Ranges::default();
        self.slots.clear();
        Ok(Some(HostSync::new(self.log.clone(), group, at)))
    }

    /// The changes, as the entries of a group.
    fn entries(&self) -> io::Result<Vec<u8>> {
        let mut entries = Vec::with_capacity(self.body_bytes() as usize);
        for range in self.changed.iter() {
            let bytes = (range.end - range.start) as usize;
            let head = EntryHead { at: range.start.into(), bytes: (bytes as u32).into() };
            entries.extend_from_slice(head.as_bytes());
            let from = entries.len();
            entries.resize(from + bytes, 0);
            self.records.read(&mut entries[from..], range.start)?;
        }
        Ok(entries)
    }

    /// The sync that [`Ordered::sync_begin`] returned has run.
    pub fn sync_end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            UnderWay::Elsewhere(_) => self.group_is_durable(),
            _ => Ok(()),
        }
    }

    fn group_is_durable(&mut self) -> io::Result<()> {
        #[cfg(test)]
        self.unsynced.lock().unwrap().clear();
        self.is_open = false;
        if self.head > REDO_LOG_FULL {
            // later changes must not be put in place before they are in the redo log
            if let Some(sync) = self.gather()? {
                sync.run()?;
                self.is_open = false;
            }
            self.put_in_place()?;
        }
        Ok(())
    }

    /// Makes the changes durable.
    fn sync(&mut self) -> io::Result<()> {
        if let Some(sync) = self.gather()? {
            sync.run()?;
            self.group_is_durable()?;
        }
        Ok(())
    }

    /// Puts the records in place, once all changes are in the redo log, which is then free from its start.
    fn put_in_place(&mut self) -> io::Result<()> {
        assert_eq!(
            self.body_bytes(),
            0,
            "bytes of records would come in place that the redo log does not have"
        );
        self.is_open = true;
        self.records.changed().try_for_each(|(at, piece)| self.write_raw(piece, at))?;
        self.sync_raw()?;
        self.records.forget();
        self.restart_log()
    }

    /// Records that all groups are in place: the redo log is empty.
    fn restart_log(&mut self) -> io::Result<()> {
        self.is_open = true;
        let (checksum, group) = encode(self.sequence + 1, 0, &[], &[]);
        #[cfg(test)]
        self.unsynced.lock().unwrap().push((self.place.log_at, group.clone()));
        self.log.write(&Sectors::new(&group), self.place.log_at)?;
        self.sync_raw()?;
        (self.sequence, self.checksum, self.head) = (self.sequence + 1, checksum, SECTOR as u64);
        self.give_back_void()?;
        self.is_open = false;
        Ok(())
    }

    // -- space ------------------------------------------------------------------------------------------------

    /// Whether the host takes space back, as far as is known.
    pub fn takes_space_back(&self) -> bool {
        self.file.takes_space_back()
    }

    /// Bytes of the disk.
    pub fn bytes_on_disk(&self) -> io::Result<u64> {
        self.file.bytes_on_disk()
    }

    /// Gives the space of slots back, which may be overwritten at once. False if the host declines.
    pub fn give_back_slots(&mut self, bytes: Range<u64>) -> io::Result<bool> {
        debug_assert!(bytes.start >= self.place.slots_at, "{bytes:?} are no slots");
        self.give_back(bytes)
    }

    /// These records count for nothing, until some of them are written: their space goes back when that is durable in place.
    pub fn is_void(&mut self, records: Range<u64>) {
        debug_assert!(
            records.start >= TALLY_AT && records.end <= self.place.log_at,
            "{records:?} are no records"
        );
        self.void.add(records);
    }

    /// Gives the space of void records back. The redo log is empty, so what is in place counts.
    fn give_back_void(&mut self) -> io::Result<()> {
        for range in std::mem::take(&mut self.void).iter() {
            let page = HOST_PAGE as u64;
            let whole = range.start.next_multiple_of(page)..range.end / page * page;
            if !whole.is_empty() && !self.give_back(whole)? {
                break;
            }
        }
        Ok(())
    }

    fn give_back(&self, bytes: Range<u64>) -> io::Result<bool> {
        #[cfg(test)]
        self.unsynced.lock().unwrap().push((bytes.start, vec![0; (bytes.end - bytes.start) as usize]));
        self.file.give_back(bytes)
    }

    /// Makes all changes durable in place: no data that were written are needed any more to prove a group.
    pub fn settle(&mut self) -> io::Result<()> {
        if !matches!(self.under_way, UnderWay::Nothing) {
            return Err(unfinished());
        }
        self.close()
    }

    /// Leaves a file that needs no redo log.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        if self.is_empty() { self.file.check() } else { self.put_in_place() }
    }

    /// Whether everything is in place, and durable.
    fn is_empty(&self) -> bool {
        !self.is_open
            && self.head == SECTOR as u64
            && self.void.count() == 0
            && self.records.changed().next().is_none()
    }

    /// Writes bytes where the next groups will be, of which nothing is promised. Everything must have been settled.
    pub fn write_in_empty_log(&mut self, bytes: &[u8], at: u64) -> io::Result<()> {
        assert!(self.is_empty() && self.body_bytes() == 0, "the redo log has groups, or is to have one");
        self.log.write(&Sectors::new(bytes), self.place.log_at + at)
    }
}

fn unfinished() -> io::Error {
    io::Error::other("the previous sync did not finish: reopen the image")
}

#[cfg(test)]
#[path = "ordered_tests.rs"]
mod tests;
