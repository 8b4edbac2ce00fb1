//! An image in a file that survives the loss of the machine: what was synced stays, each group completely or not at
//! all.
//!
//! The host writes its cached pages to the disk in any order, and may lose any of them until a sync. So records (of
//! blocks, pages, protected DRAM, and the tally) are not written in place. They are kept in memory, and their changed
//! bytes are appended as a *group* to a log inside the image; data of units go to free slots at once. Invariants:
//! - A group counts only if it is whole and names the previous group by number and checksum. The last group counts only
//!   if, in addition, all data written with it are there. So one sync makes the data and the group durable together.
//! - Data that a group names are not overwritten before two later groups are durable ([`crate::Nand::sync_end`]): until
//!   the first is, the data may be needed; until the second is, they prove that the group is whole. Records in place
//!   change only after the log has the same change.
//! - The log is reused from its start once all its contents are in place and synced, and an empty group in its first
//!   sector says so, synced before any other group. Otherwise a torn new group could leave the first old groups, which
//!   would then overwrite newer records. Numbers continue across openings, so that no old group follows a new one.
//! - The contents of a log are put in place only after the log and its data are synced: a killed process leaves things
//!   in the host's cache that the disk may not have.
//! - After a failed sync nothing is written, because it is unknown what the disk has.
//! - A group begins in a sector of its own, and is written only there: a failure while writing it leaves the earlier
//!   groups intact.
//!
//! Sectors of a log that was never used are not allocated on the disk yet, and a sync that allocates them makes the
//! host write metadata of its own. So the used part of the log is written when an image is first opened this way.
//!
//! A lost group contains only what was not synced. To the drive, its loss is a process that was killed earlier.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::log_file::{HostSync, LogFile, SECTOR, Sectors};
use super::ranges::Ranges;
use super::store::Overlay;
use super::tally::TALLY_AT;
use crate::geometry::UNIT_BYTES;

/// Bytes of the log of an image.
pub(super) const LOG_BYTES: u64 = 4 << 20;

/// A group that grows beyond this is made durable without being asked.
const GROUP_BYTES: u64 = 1 << 20;

/// A write is split at multiples of this, so that no group is much larger than [`GROUP_BYTES`]. No record crosses such
/// a place; of several records, a killed process may also leave only some.
const CUT: u64 = 64 << 10;

/// Beyond this the log is reused from its start; a group of the largest size fits after it.
const LOG_FULL: u64 = LOG_BYTES / 2;

/// The fill of a log before it is used.
const UNUSED: u8 = 0xff;

const MAGIC: [u8; 8] = *b"TANTLOG1";

/// The head of a group. It is followed by [`SlotSum`]s, then entries, each an [`EntryHead`] and bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct GroupHead {
    magic: [u8; 8],
    checksum: U32,
    slots: U32,
    sequence: U64,
    bytes: U32,
    /// Checksum of the previous group; 0 in the first one.
    previous: U32,
}

/// Data of a unit written with a group.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct SlotSum {
    at: U64,
    checksum: U32,
}

/// Bytes and their place in the image.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct EntryHead {
    at: U64,
    bytes: U32,
}

/// Position of the log and of the slots.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPlace {
    pub log_at: u64,
    pub slots_at: u64,
}

/// A group found in a log.
struct Group {
    head: GroupHead,
    body: Vec<u8>,
}

impl Group {
    /// The group at a place of the log, if there is a whole one.
    fn read(file: &File, place: LogPlace, offset: u64) -> io::Result<Option<Group>> {
        let mut head = [0; size_of::<GroupHead>()];
        if offset + head.len() as u64 > LOG_BYTES || !read_present(file, &mut head, place.log_at + offset)? {
            return Ok(None);
        }
        let head = GroupHead::read_from_bytes(&head).expect("the length is that of a head");
        let bytes = u64::from(head.bytes.get());
        let slots = u64::from(head.slots.get()) * size_of::<SlotSum>() as u64;
        if head.magic != MAGIC || offset + Group::length(bytes) > LOG_BYTES || slots > bytes {
            return Ok(None);
        }
        let mut body = vec![0; bytes as usize];
        let is_there = read_present(file, &mut body, place.log_at + offset + size_of::<GroupHead>() as u64)?;
        let group = Group { head, body };
        Ok((is_there && group.computed_checksum() == head.checksum.get()).then_some(group))
    }

    fn computed_checksum(&self) -> u32 {
        let unsigned = GroupHead { checksum: 0.into(), ..self.head };
        crc32c::crc32c_append(crc32c::crc32c(unsigned.as_bytes()), &self.body)
    }

    /// Whether it follows a given group.
    fn follows(&self, before: &GroupHead) -> bool {
        self.head.sequence.get() == before.sequence.get() + 1
            && self.head.previous.get() == before.checksum.get()
    }

    /// Bytes in the log of a group with a body of this length.
    fn length(body_bytes: u64) -> u64 {
        (size_of::<GroupHead>() as u64 + body_bytes).next_multiple_of(SECTOR as u64)
    }

    /// Whether all data written with it are there.
    fn has_its_data(&self, file: &File, place: LogPlace) -> io::Result<bool> {
        let sums = &self.body[..self.head.slots.get() as usize * size_of::<SlotSum>()];
        let mut unit = [0; UNIT_BYTES];
        for sum in sums.chunks_exact(size_of::<SlotSum>()) {
            let sum = SlotSum::read_from_bytes(sum).expect("the length is that of a sum");
            let at = sum.at.get();
            if at < place.slots_at || at > i64::MAX as u64 - UNIT_BYTES as u64 {
                return Err(self.impossible(&format!("has data at {at}, which is not a slot")));
            }
            if !read_present(file, &mut unit, at)? || crc32c::crc32c(&unit) != sum.checksum.get() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Calls `apply` with each entry: its bytes and their place. No group that was written names other places.
    fn each(&self, place: LogPlace, mut apply: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        let mut rest = &self.body[self.head.slots.get() as usize * size_of::<SlotSum>()..];
        while !rest.is_empty() {
            let Ok((head, after)) = EntryHead::read_from_prefix(rest) else {
                return Err(self.impossible("ends within an entry"));
            };
            let (at, bytes) = (head.at.get(), head.bytes.get() as usize);
            let is_record =
                at >= TALLY_AT && at.checked_add(bytes as u64).is_some_and(|end| end <= place.log_at);
            if bytes > after.len() || !is_record {
                return Err(self.impossible(&format!("has {bytes} bytes for {at}, which is not a record")));
            }
            apply(&after[..bytes], at)?;
            rest = &after[bytes..];
        }
        Ok(())
    }

    fn impossible(&self, how: &str) -> io::Error {
        let number = self.head.sequence.get();
        io::Error::new(io::ErrorKind::InvalidData, format!("group {number} {how}"))
    }
}

/// Reads; false if the file ends earlier.
fn read_present(file: &File, data: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(data, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Calls `apply` with the contents of an image's log that may not be in place, oldest first. Returns the number of the
/// last group, and whether any group has contents.
pub(super) fn replay(
    file: &File,
    place: LogPlace,
    mut apply: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<(u64, bool)> {
    let (mut offset, mut last, mut applied) = (0, 0, false);
    let mut next = Group::read(file, place, offset)?;
    while let Some(group) = next {
        offset += Group::length(group.body.len() as u64);
        next = Group::read(file, place, offset)?;
        next = next.filter(|next| next.follows(&group.head));
        // the data of an earlier group were synced with it, and its slots may hold other data since
        if next.is_none() {
            check_end(file, place, offset, group.head.sequence.get())?;
            if !group.has_its_data(file, place)? {
                break;
            }
        }
        last = group.head.sequence.get();
        applied |= !group.body.is_empty();
        group.each(place, &mut apply)?;
    }
    Ok((last, applied))
}

/// Requires that nothing in the log follows the group that ends at `offset` and has the number `last`. A machine lost
/// while writing the next group leaves at most that one.
fn check_end(file: &File, place: LogPlace, offset: u64, last: u64) -> io::Result<()> {
    for offset in (offset..LOG_BYTES).step_by(SECTOR) {
        if let Some(later) =
            Group::read(file, place, offset)?.filter(|later| later.head.sequence.get() > last + 1)
        {
            return Err(
                later.impossible(&format!("follows group {last}, but the groups between them are missing"))
            );
        }
    }
    Ok(())
}

/// Puts the contents of a log in place, durably. Returns the number of its last group.
pub(super) fn settle(file: &File, place: LogPlace) -> io::Result<u64> {
    let (sequence, says_anything) = replay(file, place, |_, _| Ok(()))?;
    if says_anything {
        // otherwise a group that only the host's cache had could be put in place, then lost with the machine
        file.sync_data()?;
        replay(file, place, |data, at| file.write_all_at(data, at))?;
        file.sync_data()?;
        file.write_all_at(&encode(sequence + 1, 0, &[], &[]).1, place.log_at)?;
        file.sync_data()?;
        return Ok(sequence + 1);
    }
    Ok(sequence)
}

/// A group with its checksum.
fn encode(sequence: u64, previous: u32, slots: &[SlotSum], entries: &[u8]) -> (u32, Vec<u8>) {
    let body = [slots.as_bytes(), entries].concat();
    let head = GroupHead {
        magic: MAGIC,
        checksum: 0.into(),
        slots: (slots.len() as u32).into(),
        sequence: sequence.into(),
        bytes: (body.len() as u32).into(),
        previous: previous.into(),
    };
    let mut group = Group { head, body };
    let checksum = group.computed_checksum();
    group.head.checksum = checksum.into();
    (checksum, [group.head.as_bytes(), &group.body].concat())
}

/// Allocates the used part of a log on the disk, if it never had a group: the remains of groups that were overwritten
/// by the fill would look like damage after the loss of the machine.
fn fill(file: &File, place: LogPlace) -> io::Result<()> {
    let mut first = [0; SECTOR];
    file.read_exact_at(&mut first, place.log_at)?;
    if first.iter().all(|byte| *byte == 0) {
        file.write_all_at(&vec![UNUSED; LOG_FULL as usize - SECTOR], place.log_at + SECTOR as u64)?;
    }
    Ok(())
}

/// Bytes written, and their place.
#[cfg(test)]
type RawWrites = Vec<(u64, Vec<u8>)>;

/// A file whose records change through the log.
pub(super) struct Ordered {
    /// The current records; those in place are older.
    records: Overlay,
    file: Arc<File>,
    log: Arc<LogFile>,
    place: LogPlace,
    /// Position of the next group in the log.
    head: u64,
    /// Number and checksum of the last group.
    sequence: u64,
    checksum: u32,
    /// A sync began and has not finished: if it failed, nothing more may be written.
    is_open: bool,
    /// The bytes of records for the next group.
    changed: Ranges,
    slots: Vec<SlotSum>,
    /// Raw writes since the last sync; a lost machine may have made any of them.
    #[cfg(test)]
    unsynced: std::sync::Mutex<RawWrites>,
    /// The same for earlier syncs: what each of them made durable.
    #[cfg(test)]
    synced: std::sync::Mutex<Vec<RawWrites>>,
}

impl Ordered {
    /// Takes over a file in which everything is in place, and makes that durable; `sequence` is the number of the last
    /// group.
    pub fn new(records: Overlay, file: File, place: LogPlace, sequence: u64) -> io::Result<Ordered> {
        fill(&file, place)?;
        file.sync_all()?;
        let (file, sequence) = (Arc::new(file), sequence + 1);
        let (checksum, empty) = encode(sequence, 0, &[], &[]);
        let log = LogFile::open(file.clone(), &Sectors::new(&empty), place.log_at)?;
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
            changed: Ranges::default(),
            slots: Vec::new(),
            #[cfg(test)]
            unsynced: Default::default(),
            #[cfg(test)]
            synced: Default::default(),
        })
    }

    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match at >= self.place.slots_at {
            true => self.file.read_exact_at(data, at),
            false => self.records.read(data, at),
        }
    }

    /// Writes a unit's data to its slot at once; the next group requires that they are there.
    pub fn write_unit(&mut self, data: &[u8], at: u64, checksum: u32) -> io::Result<()> {
        self.slots.push(SlotSum { at: at.into(), checksum: checksum.into() });
        self.write_raw(data, at)
    }

    /// Writes records.
    pub fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        let (mut rest, mut at) = (data, at);
        while !rest.is_empty() {
            let bytes = rest.len().min((CUT - at % CUT) as usize);
            self.records.write(&rest[..bytes], at)?;
            self.changed.add(at..at + bytes as u64);
            if self.body_bytes() > GROUP_BYTES && !self.is_open {
                self.sync()?;
            }
            (rest, at) = (&rest[bytes..], at + bytes as u64);
        }
        Ok(())
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
    /// [`Ordered::sync_end`]. None if nothing changed.
    pub fn sync_begin(&mut self) -> io::Result<Option<HostSync>> {
        if self.is_open {
            return Err(io::Error::other("the previous sync did not finish: reopen the image"));
        }
        let bytes = self.body_bytes();
        if bytes == 0 {
            return Ok(None);
        }
        let (at, end) = (self.place.log_at + self.head, self.head + Group::length(bytes));
        if end > LOG_BYTES {
            return Err(io::Error::other("too much changed during a sync: reopen the image"));
        }
        self.is_open = true;
        let (checksum, group) = encode(self.sequence + 1, self.checksum, &self.slots, &self.entries()?);
        (self.sequence, self.checksum, self.head) = (self.sequence + 1, checksum, end);
        self.changed = Ranges::default();
        self.slots.clear();
        Ok(Some(HostSync { log: self.log.clone(), group: Sectors::new(&group), at }))
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
        #[cfg(test)]
        self.unsynced.lock().unwrap().clear();
        self.is_open = false;
        if self.head > LOG_FULL {
            // later changes must not be put in place before they are in the log
            if let Some(sync) = self.sync_begin()? {
                sync.run()?;
                self.is_open = false;
            }
            self.put_in_place()?;
        }
        Ok(())
    }

    /// Makes the changes durable.
    fn sync(&mut self) -> io::Result<()> {
        if let Some(sync) = self.sync_begin()? {
            sync.run()?;
            self.sync_end()?;
        }
        Ok(())
    }

    /// Puts the records in place, after all changes are in the log; then the log is free from its start.
    fn put_in_place(&mut self) -> io::Result<()> {
        self.is_open = true;
        self.records.changed().try_for_each(|(at, piece)| self.write_raw(piece, at))?;
        self.sync_raw()?;
        self.records.forget();
        self.restart_log()
    }

    /// Records that all groups are in place: the log is empty.
    fn restart_log(&mut self) -> io::Result<()> {
        self.is_open = true;
        let (checksum, group) = encode(self.sequence + 1, 0, &[], &[]);
        #[cfg(test)]
        self.unsynced.lock().unwrap().push((self.place.log_at, group.clone()));
        self.log.write(&Sectors::new(&group), self.place.log_at)?;
        self.sync_raw()?;
        (self.sequence, self.checksum, self.head) = (self.sequence + 1, checksum, SECTOR as u64);
        self.is_open = false;
        Ok(())
    }

    /// Leaves a file that no longer needs its log.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        self.put_in_place()
    }
}

#[cfg(test)]
#[path = "ordered_tests.rs"]
mod tests;
