//! An image in a file that survives the loss of the machine: what was synced stays, all of it or none of a group.
//!
//! The host writes its cached pages to the disk in any order and may lose any of them until a sync. So records (of
//! blocks, pages, protected DRAM, and the tally) are not written in place. They are kept in memory, and the bytes of them
//! that changed are appended as a *group* to a log inside the image; data of units go to free slots at once. Invariants:
//! - A group counts only if it is whole, names the group before it by number and checksum, and, being the last, all the
//!   data that were written with it are there. One sync therefore makes the data and the group durable together.
//! - Data that a group names are not overwritten before two later groups are durable ([`crate::Nand::sync_end`]): before
//!   one is, they may be needed; and before the next one is, they prove that the group is whole. Records in place change
//!   only when the log says the same.
//! - The log is reused from its start when all it says is in place and synced, and when that is said by an empty group
//!   in its first sector, synced before any other group. Otherwise a torn new group could leave the first old ones, which
//!   would be put over what is newer. Numbers go on, over every opening, so that no old group follows a new one.
//! - What a log says is put in place only after the log and its data are synced: a killed process leaves in the host's
//!   cache what the disk may not have.
//! - After a sync that failed nothing is written: what the disk has cannot be told.
//! - A group begins in a sector of its own, and is written there and nowhere else: what goes wrong in writing it leaves
//!   the groups before it.
//!
//! Sectors of a log that was never used have no place on the disk yet, and a sync that gives them one has the host write
//! records of its own. So all that is used of a log is written when an image is opened for the first time.
//!
//! A group that is lost takes with it only what was not synced. To the drive it is a process that was killed earlier.

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

/// A group that grows beyond this becomes durable by itself.
const GROUP_BYTES: u64 = 1 << 20;

/// A write is cut at multiples of this, so that no group is much greater than [`GROUP_BYTES`]. No record crosses such a
/// place; of several, a killed process may leave some as well.
const CUT: u64 = 64 << 10;

/// The log is reused from its start beyond this; a group of the greatest size fits behind it.
const LOG_FULL: u64 = LOG_BYTES / 2;

/// What the log is filled with before it is used.
const UNUSED: u8 = 0xff;

const MAGIC: [u8; 8] = *b"TANTLOG1";

/// What a group starts with. Then come [`SlotSum`]s, then entries, each an [`EntryHead`] and bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct GroupHead {
    magic: [u8; 8],
    checksum: U32,
    slots: U32,
    sequence: U64,
    bytes: U32,
    /// Checksum of the group before it; 0 in the first one.
    previous: U32,
}

/// Data of a unit that were written with a group.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct SlotSum {
    at: U64,
    checksum: U32,
}

/// Bytes that belong somewhere in the image.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
struct EntryHead {
    at: U64,
    bytes: U32,
}

/// Where the log lies, and where the slots begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogPlace {
    pub log_at: u64,
    pub slots_at: u64,
}

/// A group that was found in a log.
struct Group {
    head: GroupHead,
    body: Vec<u8>,
}

impl Group {
    /// The group at a place of the log, if one is whole there.
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

    /// Whether it comes after a group.
    fn follows(&self, before: &GroupHead) -> bool {
        self.head.sequence.get() == before.sequence.get() + 1
            && self.head.previous.get() == before.checksum.get()
    }

    /// Bytes that a group with so long a body takes in the log.
    fn length(body_bytes: u64) -> u64 {
        (size_of::<GroupHead>() as u64 + body_bytes).next_multiple_of(SECTOR as u64)
    }

    /// Whether all the data that were written with it are there.
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

    /// Calls `apply` with each entry: bytes, and where they belong. No group that was written names other places.
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

/// Reads; false if the file ends before.
fn read_present(file: &File, data: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(data, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Calls `apply` with what the log of an image says and may not be in place, oldest first. Returns the number of the
/// last group, and whether any says anything.
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
        // the data of an earlier group were synced with it, and its slots may have other data since
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

/// Demands that nothing in the log comes after the group that ends at `offset` and is numbered `last`. A machine that was
/// lost while the next one was written leaves at most that one.
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

/// Puts in place what a log says, all of it durable. Returns the number of its last group.
pub(super) fn settle(file: &File, place: LogPlace) -> io::Result<u64> {
    let (sequence, says_anything) = replay(file, place, |_, _| Ok(()))?;
    if says_anything {
        // a group that only the host's cache had was put in place, then lost with the machine
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

/// Gives a log its place on the disk, as much of it as is used, if there was never a group in it: what a lost machine
/// leaves of groups that were filled over would be taken for damage.
fn fill(file: &File, place: LogPlace) -> io::Result<()> {
    let mut first = [0; SECTOR];
    file.read_exact_at(&mut first, place.log_at)?;
    if first.iter().all(|byte| *byte == 0) {
        file.write_all_at(&vec![UNUSED; LOG_FULL as usize - SECTOR], place.log_at + SECTOR as u64)?;
    }
    Ok(())
}

/// Bytes that were written, and where to.
#[cfg(test)]
type RawWrites = Vec<(u64, Vec<u8>)>;

/// A file whose records change through the log.
pub(super) struct Ordered {
    /// Records as they are by now; those in place are older.
    records: Overlay,
    file: Arc<File>,
    log: Arc<LogFile>,
    place: LogPlace,
    /// Where the next group begins in the log.
    head: u64,
    /// Number and checksum of the last group.
    sequence: u64,
    checksum: u32,
    /// A sync began and has not ended: if it failed, nothing more may be written.
    is_open: bool,
    /// The bytes of records that the next group says.
    changed: Ranges,
    slots: Vec<SlotSum>,
    /// Raw writes since the last sync, of which a lost machine may have made any.
    #[cfg(test)]
    unsynced: std::sync::Mutex<RawWrites>,
    /// The same of syncs that were: what each of them made durable.
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

    /// Writes a unit's data to its slot at once; the next group demands that they are there.
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

    /// Bytes of the next group behind its head.
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

    /// Gathers what changed as a group. Once what is returned has run, it is durable; then [`Ordered::sync_end`]. None if
    /// nothing changed.
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

    /// What changed, as the entries of a group.
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

    /// What [`Ordered::sync_begin`] gave has run.
    pub fn sync_end(&mut self) -> io::Result<()> {
        #[cfg(test)]
        self.unsynced.lock().unwrap().clear();
        self.is_open = false;
        if self.head > LOG_FULL {
            // what changed since is not to come in place before it is in the log
            if let Some(sync) = self.sync_begin()? {
                sync.run()?;
                self.is_open = false;
            }
            self.put_in_place()?;
        }
        Ok(())
    }

    /// Makes what changed durable.
    fn sync(&mut self) -> io::Result<()> {
        if let Some(sync) = self.sync_begin()? {
            sync.run()?;
            self.sync_end()?;
        }
        Ok(())
    }

    /// Brings the records in place, all that changed being in the log: that is free from its start.
    fn put_in_place(&mut self) -> io::Result<()> {
        self.is_open = true;
        self.records.changed().try_for_each(|(at, piece)| self.write_raw(piece, at))?;
        self.sync_raw()?;
        self.records.forget();
        self.restart_log()
    }

    /// Says that all groups are in place: the log is empty.
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

    /// Leaves a file that needs no log.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        self.put_in_place()
    }
}

#[cfg(test)]
#[path = "ordered_tests.rs"]
mod tests;
