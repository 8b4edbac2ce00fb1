//! What a host did to the blocks of a drive: recorded while the drive is served, stored in a file, performed again on another
//! drive ([`perform`]).
//!
//! A recording begins with the drive's profile and with an empty drive. Commands are in the order in which the drive could first
//! have executed them: each has all of its data, and none that follows was given to the drive before it. What a program has
//! acknowledged ([`BlockEvent::Ack`]) stands behind every command that it can have waited for. Reads are not recorded.

use std::fs::File;
use std::io;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tantalum::{Command, Lpn, Profile, ProfileError, Status, UNIT_BYTES};

use crate::frames::{FrameReader, FrameWriter, Magic, SpoolError};

/// The beginning of a recording.
const MAGIC: Magic = *b"TNTLBLK1";

/// Bytes of a unit, as offsets have them.
const UNIT: u64 = UNIT_BYTES as u64;

/// Something that happened to a drive's blocks. Offsets and lengths are in bytes, from the drive's first unit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BlockEvent<'a> {
    /// Bytes were written.
    Write {
        /// Where.
        offset: u64,
        /// The bytes.
        #[serde(borrow, with = "crate::bytes")]
        data: &'a [u8],
        /// Whether they were durable when the command was done.
        fua: bool,
    },
    /// Bytes read as zeros from now on.
    Zero {
        /// Where.
        offset: u64,
        /// How many.
        bytes: u64,
        /// As of a write.
        fua: bool,
    },
    /// Whole units were deallocated; parts of units stayed as they were.
    Discard {
        /// Where.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// Everything before it that was done became durable.
    Flush,
    /// A program acknowledged something.
    Ack(&'a str),
    /// Something that cannot be performed again.
    Other(&'a str),
}

/// A recording in progress, which several threads write.
#[derive(Debug)]
pub struct BlockTape(Mutex<FrameWriter>);

impl BlockTape {
    /// Begins a recording in an empty file, of an empty drive of this profile.
    pub fn new(file: File, profile: &Profile) -> BlockTape {
        let mut writer = FrameWriter::new(file, &MAGIC);
        writer.put(&profile.to_toml());
        BlockTape(Mutex::new(writer))
    }

    /// Adds an event. Failures are reported by [`BlockTape::check`] and [`BlockTape::flush`].
    pub fn take(&self, event: &BlockEvent<'_>) {
        self.0.lock().put(event);
    }

    /// Reports whether everything so far could be kept: what follows a failure is not in the recording.
    pub fn check(&self) -> io::Result<()> {
        self.0.lock().check()
    }

    /// Writes what waits in memory, and reports whether everything was kept.
    pub fn flush(&self) -> io::Result<()> {
        self.0.lock().flush()
    }
}

/// Why a recording of blocks cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockRecordingError {
    /// It is not a recording, or damaged.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Its profile is damaged, or of another version.
    #[error("the profile in the recording: {0}")]
    Profile(#[from] ProfileError),
}

/// A recording that is read from its beginning.
#[derive(Debug)]
pub struct BlockEvents {
    frames: FrameReader,
    /// The drive's profile.
    pub profile: Profile,
}

impl BlockEvents {
    /// Begins to read; the file is at its beginning.
    pub fn read(file: File) -> Result<BlockEvents, BlockRecordingError> {
        let mut frames = FrameReader::new(file, &MAGIC)?;
        let text: String = frames.next()?.ok_or(SpoolError::Damaged { number: 0 })?;
        Ok(BlockEvents { profile: Profile::from_toml(&text, "of the recording")?, frames })
    }

    /// The next event, or `None` at the end. A truncated event is the end: its writer was killed.
    #[expect(
        clippy::should_implement_trait,
        reason = "events borrow their bytes, which an Iterator cannot give"
    )]
    pub fn next(&mut self) -> Result<Option<BlockEvent<'_>>, SpoolError> {
        self.frames.next()
    }
}

/// Performs an event on a drive: `issue` has the drive execute a command, and returns when that is done. Acknowledgements change
/// nothing.
///
/// # Errors
/// The drive's; [`Status::InvalidField`] for what cannot be performed.
pub fn perform(
    event: &BlockEvent<'_>,
    mut issue: impl FnMut(Command<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    match *event {
        BlockEvent::Write { offset, data, fua } => write(offset, data, fua, &mut issue),
        BlockEvent::Zero { offset, bytes, fua } => zero(offset, bytes, fua, &mut issue),
        BlockEvent::Discard { offset, bytes } => match whole(offset, bytes) {
            Some((lpn, units)) => issue(Command::Trim { lpn, units }),
            None => Ok(()),
        },
        BlockEvent::Flush => issue(Command::Flush),
        BlockEvent::Ack(_) => Ok(()),
        BlockEvent::Other(what) => Err(Status::InvalidField(format!("{what} cannot be performed again"))),
    }
}

/// The whole units of a range.
fn whole(offset: u64, bytes: u64) -> Option<(Lpn, u32)> {
    let (first, end) = (offset.div_ceil(UNIT), (offset + bytes) / UNIT);
    (first < end).then_some((Lpn(first as u32), (end - first) as u32))
}

fn write(
    offset: u64,
    data: &[u8],
    fua: bool,
    issue: &mut impl FnMut(Command<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    let (lpn, end) = (Lpn((offset / UNIT) as u32), offset + data.len() as u64);
    let is_whole = offset.is_multiple_of(UNIT) && end.is_multiple_of(UNIT);
    if is_whole {
        return issue(Command::Write { lpn, data, fua, handle: None });
    }
    let before = (offset % UNIT) as usize;
    let mut units = vec![0; (end.next_multiple_of(UNIT) - u64::from(lpn.0) * UNIT) as usize];
    issue(Command::Read { lpn, data: &mut units })?;
    units[before..before + data.len()].copy_from_slice(data);
    issue(Command::Write { lpn, data: &units, fua, handle: None })
}

fn zero(
    offset: u64,
    bytes: u64,
    fua: bool,
    issue: &mut impl FnMut(Command<'_>) -> Result<(), Status>,
) -> Result<(), Status> {
    let end = offset + bytes;
    let parts = match whole(offset, bytes) {
        Some((lpn, units)) => {
            issue(Command::WriteZeroes { lpn, units })?;
            let (from, to) = (u64::from(lpn.0) * UNIT, (u64::from(lpn.0) + u64::from(units)) * UNIT);
            [offset..from, to..end]
        }
        // up to two units, of each a part
        None => {
            let middle = offset.next_multiple_of(UNIT).min(end);
            [offset..middle, middle..end]
        }
    };
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        write(part.start, &vec![0; (part.end - part.start) as usize], false, issue)?;
    }
    if fua { issue(Command::Flush) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use tantalum::Device;

    use super::*;

    fn profile() -> Profile {
        Profile { capacity_bytes: 8 << 20, ..Profile::load("tlc-nvme").unwrap() }
    }

    #[test]
    fn what_is_recorded_is_read() {
        let mut file = tempfile::tempfile().unwrap();
        let tape = BlockTape::new(file.try_clone().unwrap(), &profile());
        let events = [
            BlockEvent::Write { offset: 512, data: &[1, 2, 3], fua: true },
            BlockEvent::Zero { offset: 0, bytes: u64::MAX, fua: false },
            BlockEvent::Discard { offset: 4096, bytes: 1 },
            BlockEvent::Flush,
            BlockEvent::Ack("7"),
            BlockEvent::Other("Copy"),
        ];
        events.iter().for_each(|event| tape.take(event));
        tape.flush().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut read = BlockEvents::read(file).unwrap();
        assert_eq!(read.profile, profile());
        for event in events {
            assert_eq!(read.next().unwrap(), Some(event));
        }
        assert_eq!(read.next().unwrap(), None);
    }

    #[test]
    fn another_kind_of_recording_is_refused() {
        use crate::tape::Sink;
        let mut file = tempfile::tempfile().unwrap();
        crate::Spool::new(file.try_clone().unwrap()).flush().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let refused = BlockEvents::read(file).map(drop);
        assert!(matches!(refused, Err(BlockRecordingError::Spool(SpoolError::NotARecording))));
    }

    /// Ranges that begin and end anywhere, beside the same in an array of bytes.
    #[test]
    fn a_drive_has_the_same_bytes_as_memory() {
        let mut device = Device::in_memory(&profile()).unwrap();
        let mut memory = vec![0; 16 * UNIT_BYTES];
        let mut turn = 1_u64;
        for step in 0..2000_u64 {
            // a linear congruential generator
            let mut below = |most: u64| {
                turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (turn >> 33) % most
            };
            let offset = below(15 * 8) * 512;
            let bytes = (1 + below(24)).min(16 * 8 - offset / 512) * 512;
            let data = vec![step as u8 | 1; bytes as usize];
            let range = offset as usize..(offset + bytes) as usize;
            let event = match below(4) {
                0 | 1 => BlockEvent::Write { offset, data: &data, fua: step % 5 == 0 },
                2 => BlockEvent::Zero { offset, bytes, fua: step % 5 == 0 },
                _ => BlockEvent::Discard { offset, bytes },
            };
            match event {
                BlockEvent::Write { .. } => memory[range].copy_from_slice(&data),
                BlockEvent::Zero { .. } => memory[range].fill(0),
                _ => {
                    let unit = |at: usize| at * UNIT_BYTES;
                    let (first, end) = (range.start.div_ceil(UNIT_BYTES), range.end / UNIT_BYTES);
                    if first < end {
                        memory[unit(first)..unit(end)].fill(0);
                    }
                }
            }
            let mut submit = |command: Command<'_>| {
                let at_ns = device.time_ns();
                device.submit(command, at_ns).map(drop)
            };
            perform(&event, &mut submit).unwrap();
            let mut found = vec![0; memory.len()];
            submit(Command::Read { lpn: Lpn(0), data: &mut found }).unwrap();
            assert!(found == memory, "step {step}: {event:?}");
        }
    }
}
