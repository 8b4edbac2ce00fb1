//! The binary files of blktrace: records of `struct blk_io_trace` (the kernel's `linux/blktrace_api.h`), each followed by
//! `pdu_len` bytes of other data.
//!
//! blktrace writes a file for each processor. Each is in the order of time, and they are merged here by time. Only one kind of
//! a request's events is replayed, as for the text of blkparse. A volume is MAJOR,MINOR.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use super::blkparse::{Action, NO_EVENTS};
use super::entries::{Entries, Entry};
use super::error::TraceError;
use super::fields::{SECTOR_BYTES, flush, request};
use super::{Expected, Operation, Parsed};

/// `BLK_IO_TRACE_MAGIC` and `BLK_IO_TRACE_VERSION`.
const MAGIC: u32 = 0x6561_7407;
const RECORD_BYTES: usize = 48;

/// Categories, in the upper half of an action.
const WRITES: u32 = 1 << 1;
const FLUSHES: u32 = 1 << 2;
const PASSTHROUGH: u32 = 1 << 9;
const NOTIFIES: u32 = 1 << 10;
const DISCARDS: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// The lower half of an action without the bit that says that the identity of a control group follows.
const EVENT: u32 = 0xff;

/// Bits of a device's minor number.
const MINOR_BITS: u32 = 20;

/// Whether a file is one of blktrace, of either order of bytes.
pub(super) fn begins(head: &[u8]) -> bool {
    let magic = head.first_chunk().map(|magic| u32::from_le_bytes(*magic));
    magic.is_some_and(|magic| [magic, magic.swap_bytes()].iter().any(|magic| magic >> 8 == MAGIC >> 8))
}

/// Events of all processors in the order of time.
pub(super) struct Blktrace {
    files: Vec<Records>,
    /// The next event of each file.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    action: Action,
    volume: String,
    number: u64,
    taken: u64,
    /// Events of kinds that could have been replayed instead.
    others: u64,
}

impl Blktrace {
    /// Takes events of this kind from the files of all processors.
    pub(super) fn new(
        files: Vec<(PathBuf, Box<dyn BufRead>)>,
        action: Action,
    ) -> Result<Blktrace, TraceError> {
        let files = files.into_iter().map(|(path, reader)| Records { path, reader, number: 0, event: None });
        let (files, next, volume) = (files.collect::<Vec<_>>(), BinaryHeap::new(), String::new());
        let mut all = Blktrace { files, next, action, volume, number: 0, taken: 0, others: 0 };
        for file in 0..all.files.len() {
            all.load(file)?;
        }
        Ok(all)
    }

    /// Reads the next event of a file.
    fn load(&mut self, file: usize) -> Result<(), TraceError> {
        let records = &mut self.files[file];
        records.event = records.read()?;
        self.next.extend(records.event.as_ref().map(|event| Reverse((event.at_ns, file))));
        Ok(())
    }

    fn parse(&mut self, event: &Event) -> Result<Parsed<'_>, Expected> {
        let (number, category) = (event.action & EVENT, event.action >> 16);
        if category & NOTIFIES != 0 {
            return Ok(Parsed::Nothing);
        }
        if number != self.action.number() {
            self.others += u64::from(Action::ALL.iter().any(|action| action.number() == number));
            return Ok(Parsed::Nothing);
        }
        self.taken += 1;
        if category & PASSTHROUGH != 0 {
            return Ok(Parsed::LeftOut);
        }
        self.volume.clear();
        let (major, minor) = (event.device >> MINOR_BITS, event.device & ((1 << MINOR_BITS) - 1));
        write!(self.volume, "{major},{minor}").expect("a string takes all");
        let is = |bit: u32| category & bit != 0;
        let operation = match event.bytes {
            0 if is(FLUSHES) => return Ok(flush(&self.volume, event.at_ns)),
            0 => return Ok(Parsed::Nothing),
            _ if is(DISCARDS) => Operation::Trim,
            _ if is(WRITES) => Operation::Write { preflush: is(FLUSHES), fua: is(FUA) },
            _ => Operation::Read,
        };
        let offset = event.sector.checked_mul(SECTOR_BYTES).ok_or("a sector within 2^64 bytes")?;
        request(&self.volume, event.at_ns, operation, offset, u64::from(event.bytes))
    }
}

impl Entries for Blktrace {
    fn advance(&mut self) -> Result<Option<Entry<'_>>, TraceError> {
        let Some(Reverse((_, file))) = self.next.pop() else { return Ok(None) };
        let event = self.files[file].event.take().expect("it is the next of this file");
        let (path, record) = (self.files[file].path.clone(), self.files[file].number);
        self.load(file)?;
        self.number += 1;
        let number = self.number;
        match self.parse(&event) {
            Ok(parsed) => Ok(Some(Entry { number, parsed })),
            Err(expected) => {
                let found = format!("sector {} and {} bytes", event.sector, event.bytes);
                Err(TraceError::Record { path, record, expected, found })
            }
        }
    }

    fn end(&self) -> Result<(), Expected> {
        if self.taken == 0 && self.others > 0 { Err(NO_EVENTS) } else { Ok(()) }
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    device: u32,
}

/// The records of one file.
struct Records {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    /// Records read so far.
    number: u64,
    event: Option<Event>,
}

impl Records {
    fn read(&mut self) -> Result<Option<Event>, TraceError> {
        let file = |error| TraceError::File { path: self.path.clone(), error };
        let mut record = Vec::with_capacity(RECORD_BYTES);
        Read::take(&mut self.reader, RECORD_BYTES as u64).read_to_end(&mut record).map_err(file)?;
        if record.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let Ok(record) = <[u8; RECORD_BYTES]>::try_from(record.as_slice()) else {
            return Err(self.wrong("48 bytes", format!("the end of the file after {} of them", record.len())));
        };
        let magic = word(&record, 0);
        if magic != MAGIC && magic.swap_bytes() != MAGIC {
            let expected = "the magic number of blktrace's version 7, 0x65617407";
            return Err(self.wrong(expected, format!("{magic:#010x}")));
        }
        let (event, pdu_bytes) = Event::of(&record, magic != MAGIC);
        let skipped = io::copy(&mut Read::take(&mut self.reader, pdu_bytes), &mut io::sink());
        let skipped = skipped.map_err(|error| TraceError::File { path: self.path.clone(), error })?;
        if skipped < pdu_bytes {
            let found = format!("the end of the file after {skipped} of {pdu_bytes}");
            return Err(self.wrong("the bytes of data after the record that it says", found));
        }
        Ok(Some(event))
    }

    fn wrong(&self, expected: Expected, found: String) -> TraceError {
        TraceError::Record { path: self.path.clone(), record: self.number, expected, found }
    }
}

impl Event {
    /// The record's event, and how many bytes follow it.
    fn of(record: &[u8; RECORD_BYTES], swapped: bool) -> (Event, u64) {
        let swap = |word: u32| if swapped { word.swap_bytes() } else { word };
        let swap_long = |long: u64| if swapped { long.swap_bytes() } else { long };
        let pdu = u16::from_le_bytes([record[46], record[47]]);
        let event = Event {
            at_ns: swap_long(long(record, 8)),
            sector: swap_long(long(record, 16)),
            bytes: swap(word(record, 24)),
            action: swap(word(record, 28)),
            device: swap(word(record, 36)),
        };
        (event, u64::from(if swapped { pdu.swap_bytes() } else { pdu }))
    }
}

fn word(record: &[u8; RECORD_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
}

fn long(record: &[u8; RECORD_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: u32 = (8 << MINOR_BITS) | 16;
    const ISSUED: u32 = 7 | (1 << 6) << 16;
    const READS: u32 = 1;

    /// A record as the kernel writes it, with three bytes of other data.
    fn record(at_ns: u64, sector: u64, bytes: u32, action: u32, categories: u32, big: bool) -> Vec<u8> {
        let mut record = Vec::new();
        let mut put = |value: u64, bytes: usize| {
            let value = &value.to_le_bytes()[..bytes];
            match big {
                true => record.extend(value.iter().rev()),
                false => record.extend(value),
            }
        };
        let action = action | categories << 16;
        let words = [u64::from(MAGIC), 1, at_ns, sector, u64::from(bytes), u64::from(action), 77];
        for (value, bytes) in words.into_iter().zip([4, 4, 8, 8, 4, 4, 4]) {
            put(value, bytes);
        }
        for (value, bytes) in [(u64::from(DEVICE), 4), (3, 4), (0, 2), (3, 2)] {
            put(value, bytes);
        }
        assert_eq!(record.len(), RECORD_BYTES);
        record.extend(b"pdu");
        record
    }

    /// A request's time, operation (none if it is left out), offset and length.
    type Told = (u64, Option<Operation>, u64, u64);

    fn entries(files: Vec<Vec<u8>>, action: Action) -> Result<Vec<Told>, TraceError> {
        let file = |(number, bytes)| {
            let reader: Box<dyn BufRead> = Box::new(io::Cursor::new(bytes));
            (PathBuf::from(format!("sda.blktrace.{number}")), reader)
        };
        let mut blktrace = Blktrace::new(files.into_iter().enumerate().map(file).collect(), action)?;
        let mut all = Vec::new();
        while let Some(entry) = blktrace.advance()? {
            match entry.parsed {
                Parsed::Nothing => {}
                Parsed::LeftOut => all.push((0, None, 0, 0)),
                Parsed::Request { volume, at_ns, operation, offset, bytes } => {
                    assert_eq!(volume, "8,16");
                    all.push((at_ns, Some(operation), offset, bytes));
                }
            }
        }
        blktrace.end().map(|()| all).map_err(|expected| TraceError::End { path: PathBuf::new(), expected })
    }

    #[test]
    fn files_of_processors_are_merged_by_time() {
        let issued = |at_ns, sector| record(at_ns, sector, 4096, ISSUED, WRITES, false);
        let first = [issued(10, 8), issued(40, 16)].concat();
        let second = [issued(20, 24), issued(30, 32)].concat();
        let merged = entries(vec![first, Vec::new(), second], Action::Issued).unwrap();
        let write = Some(Operation::Write { preflush: false, fua: false });
        let expected =
            [(10, 8), (20, 24), (30, 32), (40, 16)].map(|(at, sector)| (at, write, sector * 512, 4096));
        assert_eq!(merged, expected);
    }

    #[test]
    fn categories_say_what_is_done_in_either_order_of_bytes() {
        for big in [false, true] {
            let operation = |bytes, categories| {
                let file = record(5, 8, bytes, ISSUED, categories, big);
                assert!(begins(&file));
                entries(vec![file], Action::Issued).unwrap().first().map(|(_, operation, ..)| *operation)
            };
            let write = |preflush, fua| Some(Some(Operation::Write { preflush, fua }));
            assert_eq!(operation(512, READS), Some(Some(Operation::Read)));
            assert_eq!(operation(512, WRITES | FUA), write(false, true));
            assert_eq!(operation(512, WRITES | FLUSHES | FUA), write(true, true));
            assert_eq!(operation(512, WRITES | DISCARDS), Some(Some(Operation::Trim)));
            assert_eq!(operation(0, WRITES | FLUSHES), Some(Some(Operation::Flush)));
            assert_eq!(operation(36, READS | PASSTHROUGH), Some(None), "a SCSI command has no sectors");
            assert_eq!(operation(0, READS), None);
            assert_eq!(operation(16, NOTIFIES), None);
        }
    }

    #[test]
    fn events_of_one_kind_are_taken() {
        let of_group = 1 << 8;
        let kinds = [1, 2, 7, 8, 12].map(|kind| record(kind, 8, 512, kind as u32 | of_group, WRITES, false));
        let times = |action| -> Vec<u64> {
            entries(vec![kinds.concat()], action).unwrap().iter().map(|(at_ns, ..)| *at_ns).collect()
        };
        assert_eq!(times(Action::Queued), [1]);
        assert_eq!(times(Action::Issued), [7]);
        assert_eq!(times(Action::Completed), [8]);
        let other = entries(vec![kinds[0].clone()], Action::Issued).unwrap_err().to_string();
        assert!(other.contains("--action"), "{other}");
    }

    #[test]
    fn damaged_records_are_refused() {
        let whole = record(1, 8, 512, ISSUED, WRITES, false);
        let refused = |file: Vec<u8>| entries(vec![file], Action::Issued).unwrap_err().to_string();
        let second = |bytes: &[u8]| refused([&whole, bytes].concat());
        assert!(second(&whole[..20]).contains("sda.blktrace.0, record 2: expected 48 bytes, found the end"));
        assert!(
            second(&whole[..49]).contains("record 2: expected the bytes of data"),
            "{}",
            second(&whole[..49])
        );
        assert!(second(&[7; 48]).contains("record 2: expected the magic number"));
        let far = refused(record(1, u64::MAX / 2, 512, ISSUED, WRITES, false));
        assert!(
            far.contains("record 1: expected a sector within 2^64 bytes, found sector 9223372036854775807"),
            "{far}"
        );
        let version = refused([[6, 0x74, 0x61, 0x65].as_slice(), &whole[4..]].concat());
        assert!(version.contains("version 7"), "{version}");
    }
}
