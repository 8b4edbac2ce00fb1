//! The binary traces of virtual disks that CloudPhysics published (`*.vscsitrace`), in both versions of their records. The layout
//! is that of the trace readers of PyMimircache and libCacheSim (`traceReader/include/vscsi.h`, "created by CloudPhysics").
//!
//! A record is a SCSI command: its block in sectors of 512 bytes, its length in bytes, and its time in microseconds. Commands
//! that do not read, write or flush are left out and counted. A file is one virtual disk.

use std::io::{BufRead, Read};
use std::path::PathBuf;

use super::entries::{Entries, Entry};
use super::error::TraceError;
use super::fields::{SECTOR_BYTES, WRITE, flush, request};
use super::{Expected, Operation, Parsed};

const MICROSECOND: u64 = 1000;

/// Bytes of the longest record.
const MOST_BYTES: usize = 40;

/// The name of its only volume.
const VOLUME: &str = "disk";

/// Operation codes of SCSI's block commands (SBC-3): READ, WRITE, WRITE AND VERIFY and SYNCHRONIZE CACHE.
const READS: [u16; 4] = [0x08, 0x28, 0x88, 0xa8];
const WRITES: [u16; 7] = [0x0a, 0x2a, 0x8a, 0xaa, 0x2e, 0x8e, 0xae];
const FLUSHES: [u16; 2] = [0x35, 0x91];

/// Where the fields of a record stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    version: u8,
    record_bytes: usize,
    command: usize,
    length: usize,
    block: usize,
    time: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout { version: 1, record_bytes: 32, command: 12, length: 4, block: 16, time: 24 },
    Layout { version: 2, record_bytes: 40, command: 0, length: 8, block: 16, time: 24 },
];

impl Layout {
    /// The layout of a file, if the first two records, or the only one, are of one version. Text has no such bytes.
    pub(super) fn of(head: &[u8]) -> Option<Layout> {
        LAYOUTS.into_iter().find(|layout| {
            let mut records = head.chunks_exact(layout.record_bytes).take(2).peekable();
            records.peek().is_some() && records.all(|record| layout.fits(record))
        })
    }

    /// Whether a record is of this version; an operation code is a byte.
    fn fits(self, record: &[u8]) -> bool {
        record[self.command + 3] == self.version && record[self.command + 1] == 0
    }
}

/// Records of commands.
pub(super) struct CloudPhysics {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    layout: Layout,
    number: u64,
}

impl CloudPhysics {
    /// Reads the records of a file; `head` is its beginning.
    pub(super) fn new(
        path: PathBuf,
        head: &[u8],
        reader: Box<dyn BufRead>,
    ) -> Result<CloudPhysics, TraceError> {
        let Some(layout) = Layout::of(head) else {
            let found = format!("{:02x?}", &head[..head.len().min(MOST_BYTES)]);
            let expected = "a SCSI command in the layout of version 1 or 2";
            return Err(TraceError::Record { path, record: 1, expected, found });
        };
        Ok(CloudPhysics { path, reader, layout, number: 0 })
    }
}

impl Entries for CloudPhysics {
    fn advance(&mut self) -> Result<Option<Entry<'_>>, TraceError> {
        let mut record = [0; MOST_BYTES];
        let record = &mut record[..self.layout.record_bytes];
        let length = read_up_to(&mut self.reader, record)
            .map_err(|error| TraceError::File { path: self.path.clone(), error })?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        let parsed = match length < record.len() {
            true => Err("a whole record"),
            false => parse(self.layout, record),
        };
        match parsed {
            Ok(parsed) => Ok(Some(Entry { number: self.number, parsed })),
            Err(expected) => {
                let found = format!("{:02x?}", &record[..length]);
                Err(TraceError::Record { path: self.path.clone(), record: self.number, expected, found })
            }
        }
    }
}

/// Fills the buffer as far as there is something to read.
fn read_up_to(reader: &mut dyn BufRead, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut all = Vec::with_capacity(buffer.len());
    Read::take(reader, buffer.len() as u64).read_to_end(&mut all)?;
    buffer[..all.len()].copy_from_slice(&all);
    Ok(all.len())
}

fn parse(layout: Layout, record: &[u8]) -> Result<Parsed<'static>, Expected> {
    if !layout.fits(record) {
        return Err("a SCSI command of the same version as the first one");
    }
    let long = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    let command = u16::from_le_bytes([record[layout.command], record[layout.command + 1]]);
    let length = u32::from_le_bytes(record[layout.length..layout.length + 4].try_into().expect("four bytes"));
    let at_ns = long(layout.time).checked_mul(MICROSECOND).ok_or("a time of less than 584 years")?;
    let operation = match command {
        command if READS.contains(&command) => Operation::Read,
        command if WRITES.contains(&command) => WRITE,
        command if FLUSHES.contains(&command) => return Ok(flush(VOLUME, at_ns)),
        _ => return Ok(Parsed::LeftOut),
    };
    let offset = long(layout.block).checked_mul(SECTOR_BYTES).ok_or("a block within 2^64 bytes")?;
    request(VOLUME, at_ns, operation, offset, u64::from(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: u8, command: u16, length: u32, block: u64, time: u64) -> Vec<u8> {
        let (serial, segments, kind) = (9u32, 1u32, u16::from(version) << 8 | 3);
        let mut record = Vec::new();
        if version == 1 {
            record.extend([serial, length, segments].iter().flat_map(|word| word.to_le_bytes()));
            record.extend([command, kind].iter().flat_map(|half| half.to_le_bytes()));
        } else {
            record.extend([command, kind].iter().flat_map(|half| half.to_le_bytes()));
            record.extend([serial, length, segments].iter().flat_map(|word| word.to_le_bytes()));
        }
        record.extend([block, time].iter().flat_map(|long| long.to_le_bytes()));
        if version == 2 {
            record.extend(17u64.to_le_bytes());
        }
        record
    }

    fn all(file: Vec<u8>) -> Result<Vec<String>, TraceError> {
        let mut trace = CloudPhysics::new(
            PathBuf::from("w.vscsitrace"),
            &file.clone(),
            Box::new(std::io::Cursor::new(file)),
        )?;
        let mut all = Vec::new();
        while let Some(entry) = trace.advance()? {
            all.push(format!("{:?}", entry.parsed));
        }
        Ok(all)
    }

    #[test]
    fn both_versions_are_commands_with_sectors_and_bytes() {
        let told = |parsed: Result<Parsed<'_>, Expected>| format!("{:?}", parsed.unwrap());
        for version in [1, 2] {
            let file = [
                record(version, 0x28, 8192, 1_232_604_094, 1_000_005),
                record(version, 0x8a, 512, 711_264, 1_000_009),
                record(version, 0x35, 0, 0, 1_000_010),
                record(version, 0x12, 36, 0, 1_000_011),
            ];
            let expected = [
                told(request(VOLUME, 1_000_005_000, Operation::Read, 1_232_604_094 * 512, 8192)),
                told(request(VOLUME, 1_000_009_000, WRITE, 711_264 * 512, 512)),
                told(Ok(flush(VOLUME, 1_000_010_000))),
                told(Ok(Parsed::LeftOut)),
            ];
            assert_eq!(all(file.concat()).unwrap(), expected);
            assert_eq!(all(file[0].clone()).unwrap(), expected[..1]);
        }
    }

    #[test]
    fn damaged_records_are_refused() {
        for version in [1, 2] {
            let good = record(version, 0x28, 8192, 7, 9);
            let refused = |records: &[&[u8]]| all(records.concat()).unwrap_err().to_string();
            let cut = refused(&[&good, &good, &good[..30]]);
            assert!(cut.contains("w.vscsitrace, record 3: expected a whole record, found ["), "{cut}");
            let other = record(3 - version, 0x28, 8192, 7, 9);
            let mixed = refused(&[&good, &good, &other, &other]);
            assert!(mixed.contains("record 3: expected a SCSI command of the same version"), "{mixed}");
            let far = refused(&[&record(version, 0x28, 512, u64::MAX, 9)]);
            assert!(far.contains("record 1: expected a block within 2^64 bytes"), "{far}");
            assert!(refused(&[&record(version, 0x28, 512, 1, u64::MAX)]).contains("584 years"));
        }
        assert!(matches!(
            all(b"hello, this is no trace of a virtual disk".to_vec()),
            Err(TraceError::Record { .. })
        ));
    }
}
