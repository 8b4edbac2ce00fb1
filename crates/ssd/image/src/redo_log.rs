//! The redo log in an image that survives the loss of the machine: its format, and its replay when the image is
//! opened. `ordered.rs` explains its purpose.
//!
//! It is a sequence of groups from the start of its area. A group counts only if it is whole, names the group before it
//! by number and checksum, and, if it is the last, all the data written with it are there.

use std::io;

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::host_file::HostFile;
use super::redo_file::SECTOR;
use super::tally::TALLY_AT;
use crate::checksum::{checksum_of, checksum_with};
use crate::geometry::UNIT_BYTES;

/// Bytes of the redo log of an image.
pub const REDO_LOG_BYTES: u64 = 4 << 20;

/// Beyond this, the redo log is reused from its start. Two groups of the greatest size fit after it: one whose sync is under way,
/// and one with the changes during it.
pub(super) const REDO_LOG_FULL: u64 = REDO_LOG_BYTES / 2 - (128 << 10);

/// The bytes with which the redo log is filled before it is used.
pub(super) const UNUSED: u8 = 0xff;

/// Bytes that are read at once where no group is expected.
const READ_BYTES: usize = 256 << 10;

const MAGIC: [u8; 8] = *b"TANTLOG1";

/// The head of a group. It is followed by [`SlotSum`]s, then entries, each an [`EntryHead`] and bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(super) struct GroupHead {
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
pub(super) struct SlotSum {
    pub at: U64,
    pub checksum: U32,
}

/// Bytes and their place in the image.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub(super) struct EntryHead {
    pub at: U64,
    pub bytes: U32,
}

/// The places of the redo log and the slots.
#[derive(Clone, Copy, Debug)]
pub struct RedoPlace {
    /// Where the log begins in the file, bytes.
    pub log_at: u64,
    /// Where the slots begin, bytes.
    pub slots_at: u64,
}

/// A group that was found in a redo log.
pub(super) struct Group {
    head: GroupHead,
    body: Vec<u8>,
}

impl Group {
    /// The group at a place of the redo log, if one is whole there.
    fn read(file: &HostFile, place: RedoPlace, offset: u64) -> io::Result<Option<Group>> {
        let mut head = [0; size_of::<GroupHead>()];
        if offset + head.len() as u64 > REDO_LOG_BYTES
            || !read_present(file, &mut head, place.log_at + offset)?
        {
            return Ok(None);
        }
        let head = GroupHead::read_from_bytes(&head).expect("the length is that of a head");
        let bytes = u64::from(head.bytes.get());
        let slots = u64::from(head.slots.get()) * size_of::<SlotSum>() as u64;
        if head.magic != MAGIC || offset + Group::length(bytes) > REDO_LOG_BYTES || slots > bytes {
            return Ok(None);
        }
        let mut body = vec![0; bytes as usize];
        let is_there = read_present(file, &mut body, place.log_at + offset + size_of::<GroupHead>() as u64)?;
        let group = Group { head, body };
        Ok((is_there && group.computed_checksum() == head.checksum.get()).then_some(group))
    }

    fn computed_checksum(&self) -> u32 {
        let unsigned = GroupHead { checksum: 0.into(), ..self.head };
        checksum_with(checksum_of(unsigned.as_bytes()), &self.body)
    }

    /// Whether it follows a given group.
    fn follows(&self, before: &GroupHead) -> bool {
        self.head.sequence.get() == before.sequence.get() + 1
            && self.head.previous.get() == before.checksum.get()
    }

    /// Bytes that a group with a body of this length takes in the redo log.
    pub fn length(body_bytes: u64) -> u64 {
        (size_of::<GroupHead>() as u64 + body_bytes).next_multiple_of(SECTOR as u64)
    }

    /// Whether all data written with it are there.
    fn has_its_data(&self, file: &HostFile, place: RedoPlace) -> io::Result<bool> {
        let mut unit = [0; UNIT_BYTES];
        for sum in self.sums() {
            let at = sum.at.get();
            if at < place.slots_at || at > i64::MAX as u64 - UNIT_BYTES as u64 {
                return Err(self.impossible(&format!("has data at {at}, which is not a slot")));
            }
            if !read_present(file, &mut unit, at)? || checksum_of(&unit) != sum.checksum.get() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes it and its data where they are. The sync that wrote them may have failed, and then the host takes pages for
    /// written that the disk does not have: the next sync writes only those that are written again.
    fn write_again(&self, file: &HostFile, place: RedoPlace, offset: u64) -> io::Result<()> {
        let mut unit = [0; UNIT_BYTES];
        for sum in self.sums() {
            file.read_exact_at(&mut unit, sum.at.get())?;
            file.write_all_at(&unit, sum.at.get())?;
        }
        file.write_all_at(&[self.head.as_bytes(), &self.body].concat(), place.log_at + offset)
    }

    /// The data written with it.
    fn sums(&self) -> impl Iterator<Item = SlotSum> {
        let sums = &self.body[..self.head.slots.get() as usize * size_of::<SlotSum>()];
        let parse = |sum| SlotSum::read_from_bytes(sum).expect("the length is that of a sum");
        sums.chunks_exact(size_of::<SlotSum>()).map(parse)
    }

    /// Calls `apply` with each entry: its bytes and their place. No group that was written names other places.
    fn each(&self, place: RedoPlace, mut apply: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
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
fn read_present(file: &HostFile, data: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(data, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a redo log has.
#[derive(Default)]
pub(super) struct Replayed {
    /// The number of the last group; 0 if there is none.
    pub sequence: u64,
    /// Whether any group has entries or data.
    pub says_anything: bool,
    /// The last group and its offset.
    last: Option<(u64, Group)>,
}

/// Calls `apply` with the contents of an image's redo log that may not be in place, oldest first.
pub(super) fn replay(
    file: &HostFile,
    place: RedoPlace,
    mut apply: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<Replayed> {
    let (mut offset, mut replayed) = (0, Replayed::default());
    let mut next = Group::read(file, place, offset)?;
    while let Some(group) = next {
        let start = offset;
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
        replayed.sequence = group.head.sequence.get();
        replayed.says_anything |= !group.body.is_empty();
        group.each(place, &mut apply)?;
        replayed.last = Some((start, group));
    }
    Ok(replayed)
}

/// Requires that nothing in the redo log comes after the group that ends at `offset` and is numbered `last`. A machine
/// that was lost while the next one was written leaves at most that one.
fn check_end(file: &HostFile, place: RedoPlace, offset: u64, last: u64) -> io::Result<()> {
    let mut part = vec![0; READ_BYTES];
    for start in (offset..REDO_LOG_BYTES).step_by(READ_BYTES) {
        let bytes = READ_BYTES.min((REDO_LOG_BYTES - start) as usize);
        let present = file.read_present_at(&mut part[..bytes], place.log_at + start)?;
        for (sector, at) in part[..present].chunks(SECTOR).zip((start..).step_by(SECTOR)) {
            let head = GroupHead::read_from_prefix(sector);
            let is_later = head.is_ok_and(|(head, _)| head.magic == MAGIC && head.sequence.get() > last + 1);
            if is_later && let Some(later) = Group::read(file, place, at)? {
                return Err(later
                    .impossible(&format!("follows group {last}, but the groups between them are missing")));
            }
        }
    }
    Ok(())
}

/// Puts the contents of a redo log in place, durably. Returns the number of its last group.
pub(super) fn settle(file: &HostFile, place: RedoPlace) -> io::Result<u64> {
    let Replayed { sequence, says_anything, last } = replay(file, place, |_, _| Ok(()))?;
    if says_anything {
        // otherwise a group that only the host's cache had could be put in place, then lost with the machine
        if let Some((offset, group)) = last {
            group.write_again(file, place, offset)?;
        }
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
pub(super) fn encode(sequence: u64, previous: u32, slots: &[SlotSum], entries: &[u8]) -> (u32, Vec<u8>) {
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

/// Allocates the used part of a redo log on the disk, if there was never a group in it: if groups were overwritten with
/// filler, what a lost machine leaves of them would be taken for damage.
pub(super) fn fill(file: &HostFile, place: RedoPlace) -> io::Result<()> {
    let mut first = [0; SECTOR];
    file.read_exact_at(&mut first, place.log_at)?;
    if first.iter().all(|byte| *byte == 0) {
        file.write_all_at(&vec![UNUSED; REDO_LOG_FULL as usize - SECTOR], place.log_at + SECTOR as u64)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const PLACE: RedoPlace = RedoPlace { log_at: TALLY_AT + SECTOR as u64, slots_at: 64 << 20 };

    fn file() -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PLACE.log_at + REDO_LOG_BYTES).unwrap();
        file
    }

    fn hosted(file: &File) -> HostFile {
        HostFile::new(file.try_clone().unwrap(), None)
    }

    /// Writes a group with one entry, of one byte of records, and returns its checksum.
    fn put(file: &File, offset: u64, sequence: u64, previous: u32) -> u32 {
        let head = EntryHead { at: TALLY_AT.into(), bytes: 1.into() };
        let (checksum, group) = encode(sequence, previous, &[], &[head.as_bytes(), &[7]].concat());
        file.write_all_at(&group, PLACE.log_at + offset).unwrap();
        checksum
    }

    fn replayed(file: &File) -> io::Result<(u64, usize)> {
        let mut entries = 0;
        let replayed = replay(&hosted(file), PLACE, |_, _| {
            entries += 1;
            Ok(())
        })?;
        Ok((replayed.sequence, entries))
    }

    const NEXT: u64 = SECTOR as u64;

    #[test]
    fn a_group_counts_if_both_number_and_checksum_of_the_one_before_are_right() {
        let file = file();
        let first = put(&file, 0, 5, 0);
        put(&file, NEXT, 6, first);
        assert_eq!(replayed(&file).unwrap(), (6, 2));
        put(&file, NEXT, 6, first ^ 1);
        assert_eq!(replayed(&file).unwrap(), (5, 1), "it is of another life of the log");
        put(&file, NEXT, 5, first);
        assert_eq!(replayed(&file).unwrap(), (5, 1), "its number is not the next one");
    }

    #[test]
    fn at_most_one_group_may_be_torn() {
        let file = file();
        put(&file, 0, 5, 0);
        put(&file, 3 * NEXT, 6, 1);
        assert_eq!(replayed(&file).unwrap(), (5, 1), "a machine was lost while group 6 was written");
        put(&file, 3 * NEXT, 7, 1);
        assert!(replayed(&file).is_err(), "group 6 is missing");
    }

    #[test]
    fn what_was_put_in_place_is_not_replayed_again() {
        let file = file();
        put(&file, 0, 5, 0);
        assert_eq!(settle(&hosted(&file), PLACE).unwrap(), 6);
        let mut record = [0];
        file.read_exact_at(&mut record, TALLY_AT).unwrap();
        assert_eq!((record, replayed(&file).unwrap()), ([7], (6, 0)));
        assert_eq!(settle(&hosted(&file), PLACE).unwrap(), 6, "nothing is left to do");
    }

    #[test]
    fn only_the_end_of_the_file_is_an_end() {
        let file = file();
        assert!(!read_present(&hosted(&file), &mut [0; 8], PLACE.log_at + REDO_LOG_BYTES - 4).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let unreadable = File::create(folder.path().join("written")).unwrap();
        assert!(read_present(&hosted(&unreadable), &mut [0; 8], 0).is_err(), "the host cannot read it");
    }

    #[test]
    fn filling_the_log_changes_nothing_before_it() {
        let file = file();
        file.write_all_at(&vec![3; PLACE.log_at as usize], 0).unwrap();
        fill(&hosted(&file), PLACE).unwrap();
        let mut before = vec![0; PLACE.log_at as usize];
        file.read_exact_at(&mut before, 0).unwrap();
        assert!(before.iter().all(|byte| *byte == 3));
        let mut log = vec![0; REDO_LOG_FULL as usize];
        file.read_exact_at(&mut log, PLACE.log_at).unwrap();
        assert!(
            log[..SECTOR].iter().all(|byte| *byte == 0) && log[SECTOR..].iter().all(|byte| *byte == UNUSED)
        );
    }
}
