//! Logs written here record by record, as PostgreSQL lays them out.

use super::*;

const FILE: FileNumber = 7;
const PATH: &str = "data/pg_wal/000000010000000000000001";
const SEGMENT_BYTES: u64 = DEFAULT_SEGMENT_BYTES;

/// A log under construction, from the beginning of its first file.
struct Writer {
    magic: u16,
    bytes: Vec<u8>,
    /// Where images are that full-page writes put there, by this test's own count.
    images: Vec<Range<usize>>,
    /// Bytes of the current record that are still to come.
    remaining: usize,
}

/// A page in a record: its image without its hole, and flags of the image.
struct Image {
    bytes: usize,
    flags: u8,
}

impl Writer {
    fn new(magic: u16) -> Writer {
        Writer { magic, bytes: Vec::new(), images: Vec::new(), remaining: 0 }
    }

    fn begin_page(&mut self) {
        let place = SEGMENT_BYTES + self.bytes.len() as u64;
        let is_long = place.is_multiple_of(SEGMENT_BYTES);
        let info = u16::from(self.remaining > 0) | if is_long { 2 } else { 0 };
        let mut header = Vec::new();
        header.extend(self.magic.to_le_bytes());
        header.extend(info.to_le_bytes());
        header.extend(1_u32.to_le_bytes());
        header.extend(place.to_le_bytes());
        header.extend((self.remaining as u32).to_le_bytes());
        header.extend([0; 4]);
        if is_long {
            header.extend(99_u64.to_le_bytes());
            header.extend((SEGMENT_BYTES as u32).to_le_bytes());
            header.extend((PAGE_BYTES as u32).to_le_bytes());
        }
        self.bytes.extend(header);
    }

    fn put(&mut self, byte: u8) {
        if (self.bytes.len() as u64).is_multiple_of(PAGE_BYTES) {
            self.begin_page();
        }
        self.bytes.push(byte);
    }

    /// A record with images, other data of each block, and main data.
    fn record(&mut self, kind: (u8, u8), images: &[Image], main_bytes: usize) {
        let has_hole_length = if self.magic < 0xd110 { 2 } else { 4 };
        let (mut headers, mut data) = (Vec::new(), Vec::new());
        let mut ranges = Vec::new();
        for (number, image) in images.iter().enumerate() {
            headers.extend([number as u8, if number == 0 { 0x10 } else { 0x90 }, 5, 0]);
            headers.extend((image.bytes as u16).to_le_bytes());
            headers.extend([200, 0, image.flags]);
            if image.flags & 1 != 0 && image.flags & has_hole_length != 0 {
                headers.extend([7, 7]);
            }
            headers.extend(vec![3; if number == 0 { 16 } else { 4 }]);
            ranges.push(data.len()..data.len() + image.bytes);
            data.extend((0..image.bytes).map(|at| (at * 7 + number) as u8));
            data.extend([4; 5]);
        }
        headers.extend([253, 1, 2, 252, 1, 2, 3, 4]);
        if main_bytes < 256 {
            headers.extend([255, main_bytes as u8]);
        } else {
            headers.push(254);
            headers.extend((main_bytes as u32).to_le_bytes());
        }
        data.extend(vec![6; main_bytes]);
        let mut record = ((RECORD_HEADER + headers.len() + data.len()) as u32).to_le_bytes().to_vec();
        record.extend([1; 12]);
        record.extend([kind.1, kind.0, 0, 0]);
        let body = [&headers[..], &data].concat();
        let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &[&body[..], &record].concat());
        record.extend((checksum as u32).to_le_bytes());
        let begin_of_data = RECORD_HEADER + headers.len();
        record.extend(body);
        for (at, byte) in record.iter().enumerate() {
            // a record that begins with a page does not continue there
            self.remaining = if at > 0 { record.len() - at } else { 0 };
            self.put(*byte);
            let is_image =
                at >= begin_of_data && ranges.iter().any(|range| range.contains(&(at - begin_of_data)));
            let place = self.bytes.len() - 1;
            match self.images.last_mut() {
                _ if !is_image => {}
                Some(last) if last.end == place && !(place as u64).is_multiple_of(PAGE_BYTES) => {
                    last.end += 1
                }
                _ => self.images.push(place..place + 1),
            }
        }
        self.remaining = 0;
        while !self.bytes.len().is_multiple_of(8) {
            self.put(0);
        }
    }

    fn page_of(&self, at: usize) -> Vec<u8> {
        let start = at / PAGE_BYTES as usize * PAGE_BYTES as usize;
        let mut page = self.bytes[start..].to_vec();
        page.resize(page.len().next_multiple_of(PAGE_BYTES as usize), 0);
        page
    }
}

/// Ranges that touch are one.
fn joined(ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range),
        }
    }
    joined
}

/// Updates with and without images of several lengths, so that records, headers and images begin anywhere in a page.
fn update(writer: &mut Writer, number: usize) {
    // compressed, as new versions and as old ones say it
    let compressed = 2 | 4;
    let images: &[Image] = match number % 5 {
        0 => &[],
        1 => &[Image { bytes: 8192, flags: 2 }],
        2 => &[Image { bytes: 3001 + number, flags: 3 }, Image { bytes: 900, flags: 2 }],
        3 => &[Image { bytes: 1207, flags: compressed | 1 }],
        _ => &[Image { bytes: 500, flags: compressed }],
    };
    writer.record((10, 0x20), images, if number.is_multiple_of(7) { 300 + number } else { 40 });
}

/// Each commit writes from the beginning of the last page on, so pages are written again as they fill, and parts of records
/// before the rest of them.
#[test]
fn every_image_is_found_in_whatever_parts_the_log_is_written() {
    for magic in [0xd10d, 0xd110, 0xd118] {
        let mut writer = Writer::new(magic);
        let mut logs = PostgresLogs::default();
        let mut writes = Vec::new();
        for number in 0..400 {
            let begin = writer.bytes.len();
            update(&mut writer, number);
            let start = begin / PAGE_BYTES as usize * PAGE_BYTES as usize;
            let mut data = writer.page_of(begin);
            if number.is_multiple_of(3) && !writer.bytes.len().is_multiple_of(PAGE_BYTES as usize) {
                // the last page comes with the next write
                data.truncate((data.len() - PAGE_BYTES as usize).max(PAGE_BYTES as usize));
            }
            logs.note(FILE, PATH, start as u64, &data);
            writes.push((start, data));
        }
        let whole = writer.page_of(0);
        let tail = writer.bytes.len() / PAGE_BYTES as usize * PAGE_BYTES as usize;
        logs.note(FILE, PATH, tail as u64, &writer.page_of(tail));
        assert_eq!(joined(logs.find(FILE, 0, &whole).unwrap()), joined(writer.images.clone()), "{magic:x}");
        // and of each write, what was found of its places, though the record was not whole then
        for (start, data) in writes {
            let found = logs.find(FILE, start as u64, &data).unwrap();
            let of_write = |image: &Range<usize>| image.start.max(start)..image.end.min(start + data.len());
            let expected = writer.images.iter().map(of_write).filter(|image| !image.is_empty());
            let expected = expected.map(|image| image.start - start..image.end - start).collect();
            assert_eq!(joined(found), joined(expected), "{magic:x}, write at {start}");
        }
    }
}

/// `CREATE INDEX` and `hint bits` log pages whatever `full_page_writes` says: a run without it writes them too.
#[test]
fn images_that_do_not_depend_on_full_page_writes_stay() {
    let mut writer = Writer::new(0xd110);
    for info in [0xa0, 0xb0] {
        writer.record((LOG_RECORDS, info), &[Image { bytes: 8000, flags: 2 }], 0);
    }
    let mut logs = PostgresLogs::default();
    logs.note(FILE, PATH, 0, &writer.page_of(0));
    assert_eq!(logs.find(FILE, 0, &writer.page_of(0)), Some(Vec::new()));
}

/// The rest of the file is written too, as pages without records.
#[test]
fn after_a_switch_the_log_goes_on_in_the_next_file() {
    after_a_switch_at(0);
    // on the last page of the file
    after_a_switch_at(SEGMENT_BYTES - PAGE_BYTES / 2);
}

fn after_a_switch_at(place: u64) {
    let mut writer = Writer::new(0xd110);
    let mut records = 2;
    while (writer.bytes.len() as u64) < place {
        writer.record((10, 0x20), &[], 1000);
        records += 1;
    }
    writer.record((LOG_RECORDS, SWITCH_OF_SEGMENT), &[], 0);
    while (writer.bytes.len() as u64) < SEGMENT_BYTES {
        writer.put(0);
    }
    let mut logs = PostgresLogs::default();
    logs.note(FILE, PATH, 0, &writer.page_of(0));
    writer.images.clear();
    update(&mut writer, 2);
    let next = writer.page_of(SEGMENT_BYTES as usize);
    logs.note(FILE + 1, PATH, 0, &next);
    assert_eq!(logs.logs.values().map(|log| log.records).collect::<Vec<_>>(), [records]);
    let images = writer.images.iter();
    let images = images.map(|image| image.start - SEGMENT_BYTES as usize..image.end - SEGMENT_BYTES as usize);
    assert_eq!(joined(logs.find(FILE + 1, 0, &next).unwrap()), joined(images.collect()));
}

/// What looks like a log but whose checksums are wrong is searched for units instead.
#[test]
fn what_only_looks_like_a_log_is_none() {
    let mut writer = Writer::new(0xd110);
    (0..9).for_each(|number| update(&mut writer, number));
    let mut data = writer.page_of(0);
    data[LONG_PAGE_HEADER as usize + 30] ^= 1;
    let mut logs = PostgresLogs::default();
    logs.note(FILE, PATH, 0, &data);
    assert_eq!(logs.find(FILE, 0, &data), None);
    logs.note(FILE + 1, PATH, 0, &[0; 1 << 16]);
    assert_eq!(logs.find(FILE + 1, 0, &[0; 1 << 16]), None);
}

/// A watched mount: the log was begun before, and the recording starts in the middle of a record.
#[test]
fn a_recording_may_begin_in_the_middle_of_a_log() {
    let mut writer = Writer::new(0xd110);
    (0..40).for_each(|number| update(&mut writer, number));
    let mut logs = PostgresLogs::default();
    let start = 5 * PAGE_BYTES as usize;
    let data = writer.page_of(start);
    logs.note(FILE, PATH, start as u64, &data);
    let found = joined(logs.find(FILE, start as u64, &data).unwrap());
    let first = found[0].start + start;
    let expected = writer.images.iter().filter(|image| image.start >= first);
    let expected = expected.map(|image| image.start - start..image.end - start).collect();
    assert_eq!(found, joined(expected));
    assert!(found.len() > 20 && first < start + 2 * PAGE_BYTES as usize, "{found:?}");
}

/// After a crash, the log goes on from its last whole record: what was behind it is written over.
#[test]
fn a_log_that_is_written_over_after_a_crash_is_read_again() {
    let mut writer = Writer::new(0xd110);
    (0..40).for_each(|number| update(&mut writer, number));
    let mut logs = PostgresLogs::default();
    logs.note(FILE, PATH, 0, &writer.page_of(0));
    let mut again = Writer::new(0xd110);
    (0..20).for_each(|number| update(&mut again, number));
    let kept = again.bytes.len();
    (20..40).for_each(|number| update(&mut again, number + 1));
    assert!(kept as u64 > PAGE_BYTES);
    let data = again.page_of(kept);
    let start = kept / PAGE_BYTES as usize * PAGE_BYTES as usize;
    logs.note(FILE, PATH, start as u64, &data);
    let found = joined(logs.find(FILE, start as u64, &data).unwrap());
    let expected = again.images.iter().filter(|image| image.start >= kept);
    let expected = joined(expected.map(|image| image.start - start..image.end - start).collect());
    assert_eq!(found[found.len() - expected.len()..], expected);
}

/// Nothing that a log may say makes reading it panic.
#[test]
fn damaged_records_are_not_looked_into() {
    let mut writer = Writer::new(0xd110);
    (0..9).for_each(|number| update(&mut writer, number));
    let begin = LONG_PAGE_HEADER as usize;
    let length = u32_at(&writer.bytes, begin).unwrap() as usize;
    let record = writer.bytes[begin..begin + length].to_vec();
    for at in RECORD_HEADER..record.len() {
        for value in [0, 1, 0x10, 32, 33, 252, 253, 254, 255] {
            let mut damaged = record.clone();
            damaged[at] = value;
            for images in images_of(&damaged, 0xd110).into_iter().flatten() {
                assert!(images.end <= damaged.len());
            }
        }
    }
    for bytes in RECORD_HEADER..record.len() {
        let _ = images_of(&record[..bytes], 0xd110);
    }
}
