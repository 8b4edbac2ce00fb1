//! Images of pages in PostgreSQL's write-ahead log, from its format.
//!
//! An image there lacks the page's free space, and headers of the log's own pages interrupt it, so its bytes are not those
//! of a unit. A log counts as PostgreSQL's if the CRC-32C of its records is right (versions 9.5 and later, with pages of
//! 8 KiB, of a little-endian machine).
//!
//! Places are those of the log (LSN), whatever file they are in: the last page is written again with each commit, and a
//! record can be written in parts before its checksum can be verified. Images that PostgreSQL writes also without
//! full-page writes, such as those of a new index, stay.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Range, RangeInclusive};

use tantalum_record::operation::FileNumber;

/// A place in a log.
type Lsn = u64;

/// A page of the log.
const PAGE_BYTES: u64 = 8192;
/// The smallest file of a log. Its places in the file and in the log are equal modulo this.
const LEAST_SEGMENT_BYTES: u64 = 1 << 20;
const DEFAULT_SEGMENT_BYTES: u64 = 16 << 20;

/// The numbers that begin a page, in versions since 9.5.
const MAGIC: RangeInclusive<u16> = 0xd087..=0xd1ff;
/// The first number of a version (15) whose flags of images have the present meaning.
const MAGIC_OF_PRESENT_FLAGS: u16 = 0xd110;
const PAGE_CONTINUES_RECORD: u16 = 1;
const PAGE_HAS_LONG_HEADER: u16 = 2;
const SHORT_PAGE_HEADER: u64 = 24;
const LONG_PAGE_HEADER: u64 = 40;

const RECORD_HEADER: usize = 24;
/// Where the checksum of a record is.
const RECORD_CHECKSUM: usize = 20;
const RECORD_ALIGNMENT: u64 = 8;
/// Longer records are not looked into.
const LONGEST_RECORD: u64 = 64 << 20;

/// Records of the log itself.
const LOG_RECORDS: u8 = 0;
const SWITCH_OF_SEGMENT: u8 = 0x40;
/// Images for their own sake, which do not depend on full-page writes: for changed hint bits, and of whole new pages.
const IMAGES_IN_ANY_CASE: [u8; 2] = [0xa0, 0xb0];

const BLOCK_IDS: RangeInclusive<u8> = 0..=32;
const TOP_TRANSACTION: u8 = 252;
const ORIGIN: u8 = 253;
const LONG_DATA: u8 = 254;
const SHORT_DATA: u8 = 255;
const BLOCK_HAS_IMAGE: u8 = 0x10;
const BLOCK_IS_OF_SAME_RELATION: u8 = 0x80;
const IMAGE_HAS_HOLE: u8 = 0x01;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The header of a page of a log.
#[derive(Clone, Copy, Debug)]
struct PageHeader {
    magic: u16,
    timeline: u32,
    place: Lsn,
    bytes: u64,
    /// Of the record that began on an earlier page and goes on here, the bytes from here on.
    remaining_of_record: Option<u64>,
    /// The length of a file of the log, which its first page says.
    segment_bytes: Option<u64>,
}

impl PageHeader {
    /// Of the page at an offset of a file.
    fn read(offset: u64, page: &[u8]) -> Option<PageHeader> {
        let (magic, info) = (u16_at(page, 0)?, u16_at(page, 2)?);
        let place = u64_at(page, 8)?;
        let is_here = place % LEAST_SEGMENT_BYTES == offset % LEAST_SEGMENT_BYTES;
        if !MAGIC.contains(&magic) || !is_here || !place.is_multiple_of(PAGE_BYTES) {
            return None;
        }
        let is_long = info & PAGE_HAS_LONG_HEADER != 0;
        let segment_bytes = if is_long { Some(u64::from(u32_at(page, 32)?)) } else { None };
        let remaining = u64::from(u32_at(page, 16)?);
        Some(PageHeader {
            magic,
            timeline: u32_at(page, 4)?,
            place,
            bytes: if is_long { LONG_PAGE_HEADER } else { SHORT_PAGE_HEADER },
            remaining_of_record: (info & PAGE_CONTINUES_RECORD != 0).then_some(remaining),
            segment_bytes: segment_bytes.filter(|bytes| bytes.is_power_of_two()),
        })
    }

    /// Where the first record begins that begins on this page.
    fn first_record(&self) -> Option<Lsn> {
        let remaining = self.remaining_of_record.unwrap_or(0).next_multiple_of(RECORD_ALIGNMENT);
        let at = self.bytes + remaining;
        (at < PAGE_BYTES).then_some(self.place + at)
    }
}

/// The pages of a log in what was written to a file, with the offset of each in the data.
fn pages(offset: u64, data: &[u8]) -> impl Iterator<Item = (usize, PageHeader)> {
    let skipped = (offset.next_multiple_of(PAGE_BYTES) - offset) as usize;
    let starts = (skipped..data.len()).step_by(PAGE_BYTES as usize);
    let whole = starts.filter(move |at| at + PAGE_BYTES as usize <= data.len());
    whole.filter_map(move |at| Some((at, PageHeader::read(offset + at as u64, &data[at..])?)))
}

/// Where the images are in a record that full-page writes put there. None if it is not well formed.
fn images_of(record: &[u8], magic: u16) -> Option<Vec<Range<usize>>> {
    if record[17] == LOG_RECORDS && IMAGES_IN_ANY_CASE.contains(&(record[16] & 0xf0)) {
        return Some(Vec::new());
    }
    let has_hole_length = match magic < MAGIC_OF_PRESENT_FLAGS {
        true => 0x02,
        false => 0x04 | 0x08 | 0x10,
    };
    // of each block, the bytes of its image and of its other data
    let mut blocks = Vec::new();
    let (mut at, mut data_bytes) = (RECORD_HEADER, 0);
    while at + data_bytes < record.len() {
        let id = record[at];
        match id {
            SHORT_DATA | LONG_DATA => {
                let bytes = if id == SHORT_DATA {
                    usize::from(*record.get(at + 1)?)
                } else {
                    u32_at(record, at + 1)? as usize
                };
                at += if id == SHORT_DATA { 2 } else { 5 };
                data_bytes += bytes;
            }
            ORIGIN => at += 3,
            TOP_TRANSACTION => at += 5,
            id if BLOCK_IDS.contains(&id) => {
                let (flags, bytes) = (*record.get(at + 1)?, usize::from(u16_at(record, at + 2)?));
                at += 4;
                let mut image_bytes = 0;
                if flags & BLOCK_HAS_IMAGE != 0 {
                    image_bytes = usize::from(u16_at(record, at)?);
                    let image_flags = *record.get(at + 4)?;
                    let is_compressed = image_flags & has_hole_length != 0;
                    at += if is_compressed && image_flags & IMAGE_HAS_HOLE != 0 { 7 } else { 5 };
                }
                at += if flags & BLOCK_IS_OF_SAME_RELATION != 0 { 4 } else { 16 };
                blocks.push((image_bytes, bytes));
                data_bytes += image_bytes + bytes;
            }
            _ => return None,
        }
    }
    let mut images = Vec::new();
    for (image_bytes, bytes) in blocks {
        if image_bytes > 0 {
            images.push(at..at + image_bytes);
        }
        at += image_bytes + bytes;
    }
    (at <= record.len()).then_some(images)
}

/// The records of one log in order, as far as they were written.
#[derive(Debug, Default)]
struct Log {
    /// Pages from the one on which the next record begins.
    pages: BTreeMap<Lsn, (PageHeader, Vec<u8>)>,
    /// Where the next record begins, if that is known.
    next: Option<Lsn>,
    segment_bytes: Option<u64>,
    /// The rest of a file after a switch to the next: pages without records.
    rest_of_file: Range<Lsn>,
    /// Records whose checksums were right.
    records: u64,
    /// The images found, in order.
    images: Vec<Range<Lsn>>,
}

/// A record, and where in the log its parts are: place, and offset in the record.
struct Record {
    bytes: Vec<u8>,
    parts: Vec<(Lsn, usize)>,
    end: Lsn,
    magic: u16,
}

impl Record {
    fn is_whole(&self) -> bool {
        let checksum = |parts: [&[u8]; 2]| {
            let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
            parts.iter().for_each(|part| digest.update(part));
            digest.finalize() as u32
        };
        let (header, data) = self.bytes.split_at(RECORD_HEADER);
        u32_at(header, RECORD_CHECKSUM) == Some(checksum([data, &header[..RECORD_CHECKSUM]]))
    }

    /// Where a range of the record is in the log.
    fn places(&self, range: &Range<usize>) -> impl Iterator<Item = Range<Lsn>> {
        let ends = self.parts.iter().skip(1).map(|(_, offset)| *offset).chain([self.bytes.len()]);
        let parts = self.parts.iter().zip(ends);
        parts.filter_map(|((place, offset), end)| {
            let (from, to) = (range.start.max(*offset), range.end.min(end));
            (from < to).then(|| place + (from - offset) as u64..place + (to - offset) as u64)
        })
    }
}

impl Log {
    fn note(&mut self, header: PageHeader, page: &[u8]) {
        if self.rest_of_file.contains(&header.place) {
            return;
        }
        let expected = self.pages.last_key_value().map(|(last, _)| last + PAGE_BYTES);
        let is_next = match self.next {
            Some(next) if self.pages.is_empty() => header.place == next / PAGE_BYTES * PAGE_BYTES,
            Some(_) => self.pages.contains_key(&header.place) || expected == Some(header.place),
            None => false,
        };
        if !is_next {
            // the recording begins here, or the log goes on elsewhere after a crash
            self.pages.clear();
            self.next = header.first_record();
            self.images.truncate(self.images.partition_point(|image| image.end <= header.place));
            if self.next.is_none() {
                return;
            }
        }
        self.segment_bytes = header.segment_bytes.or(self.segment_bytes);
        self.pages.insert(header.place, (header, page.to_vec()));
        self.advance();
    }

    /// Looks for images in the records that are whole now.
    fn advance(&mut self) {
        while let Some(record) = self.next.and_then(|next| self.record(next)) {
            if !record.is_whole() {
                return;
            }
            let images = images_of(&record.bytes, record.magic).unwrap_or_default();
            self.images.extend(images.iter().flat_map(|image| record.places(image)));
            self.records += 1;
            let mut next = record.end.next_multiple_of(RECORD_ALIGNMENT);
            if record.bytes[17] == LOG_RECORDS && record.bytes[16] & 0xf0 == SWITCH_OF_SEGMENT {
                let end = next.next_multiple_of(self.segment_bytes.unwrap_or(DEFAULT_SEGMENT_BYTES));
                self.rest_of_file = next..end;
                next = end;
            }
            self.next = Some(next);
            self.pages = self.pages.split_off(&(next / PAGE_BYTES * PAGE_BYTES));
        }
    }

    /// The record that begins at a place. None while not all its pages were written.
    fn record(&self, at: Lsn) -> Option<Record> {
        let (header, page) = self.pages.get(&(at / PAGE_BYTES * PAGE_BYTES))?;
        let begin = at.max(header.place + header.bytes);
        let length = u64::from(u32_at(page, (begin % PAGE_BYTES) as usize)?);
        if !(RECORD_HEADER as u64..=LONGEST_RECORD).contains(&length) {
            return None;
        }
        // cheap: a long record is not put together again with each of its pages
        let headers = (self.pages.len() as u64 - 1) * SHORT_PAGE_HEADER;
        let available = self.pages.last_key_value()?.0 + PAGE_BYTES - begin - headers;
        if available < length {
            return None;
        }
        let mut record = Record {
            bytes: Vec::with_capacity(length as usize),
            parts: Vec::new(),
            end: begin,
            magic: header.magic,
        };
        while (record.bytes.len() as u64) < length {
            let (header, page) = self.pages.get(&(record.end / PAGE_BYTES * PAGE_BYTES))?;
            let from = record.end.max(header.place + header.bytes);
            let remaining = length - record.bytes.len() as u64;
            record.end = (from + remaining).min(header.place + PAGE_BYTES);
            record.parts.push((from, record.bytes.len()));
            let within = (from - header.place) as usize..(record.end - header.place) as usize;
            record.bytes.extend_from_slice(&page[within]);
        }
        Some(record)
    }

    /// The images in a page of the log, as ranges of the page.
    fn images_in(&self, page: Lsn) -> impl Iterator<Item = Range<usize>> {
        let from = self.images.partition_point(|image| image.end <= page);
        let here = self.images[from..].iter().take_while(move |image| image.start < page + PAGE_BYTES);
        here.map(move |image| (image.start - page) as usize..(image.end - page) as usize)
    }
}

/// What the logs of PostgreSQL servers hold.
#[derive(Debug, Default)]
pub(crate) struct PostgresLogs {
    /// Each server's log by folder and timeline.
    logs: HashMap<(usize, u32), Log>,
    folders: HashMap<String, usize>,
    folder_of: HashMap<FileNumber, usize>,
}

impl PostgresLogs {
    /// Records what was written to a log.
    pub fn note(&mut self, file: FileNumber, path: &str, offset: u64, data: &[u8]) {
        for (at, header) in pages(offset, data) {
            let folder = *self.folder_of.entry(file).or_insert_with(|| {
                let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
                let number = self.folders.len();
                *self.folders.entry(folder.to_owned()).or_insert(number)
            });
            let log = self.logs.entry((folder, header.timeline)).or_default();
            log.note(header, &data[at..at + PAGE_BYTES as usize]);
        }
    }

    /// Where images are in what was written to a log. None if it is not one of PostgreSQL's.
    pub fn find(&self, file: FileNumber, offset: u64, data: &[u8]) -> Option<Vec<Range<usize>>> {
        let folder = *self.folder_of.get(&file)?;
        let mut found = None;
        for (at, header) in pages(offset, data) {
            let log = self.logs.get(&(folder, header.timeline)).filter(|log| log.records > 0);
            let Some(log) = log else { continue };
            let images = log.images_in(header.place).map(|image| at + image.start..at + image.end);
            found.get_or_insert_with(Vec::new).extend(images);
        }
        found
    }
}

#[cfg(test)]
#[path = "postgres_wal_tests.rs"]
mod tests;
