//! SQLite's log format, and the layout of a log in units.
//!
//! SQLite sees a header of 32 bytes and then frames, each a header of 24 bytes and a page (SQLite's file format,
//! section 4). In units: the log's header has unit 0 to itself. Frame `n`, counted from 1, has the `k` units of its
//! page, starting at unit `1 + (n - 1) * k`; its header is stored as metadata of the first of them. So a page of the
//! log is whole units on the drive, and can be shared with the database file.

use tantalum::{METADATA_BYTES, UNIT_BYTES};
use tantalum_volume::ATTRIBUTE_BYTES;

/// Bytes of the log's header.
pub(crate) const LOG_HEADER_BYTES: usize = 32;

/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER_BYTES: usize = METADATA_BYTES;

/// The attributes of a log's volume file start with this if it is laid out in units; the page size follows.
const ATTRIBUTES_MAGIC: [u8; 4] = *b"tlog";

/// SQLite's largest page size.
const MOST_PAGE_BYTES: u32 = 65536;

/// The header of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogHeader(pub [u8; LOG_HEADER_BYTES]);

impl LogHeader {
    /// The header in `bytes`, if they are one.
    pub fn parse(bytes: &[u8]) -> Option<LogHeader> {
        let header = LogHeader(bytes.try_into().ok()?);
        let is_magic = header.word(0) & 0xffff_fffe == 0x377f_0682;
        let page_bytes = header.page_bytes();
        (is_magic && page_bytes.is_power_of_two() && (512..=MOST_PAGE_BYTES).contains(&page_bytes))
            .then_some(header)
    }

    /// Bytes of each frame's page.
    pub fn page_bytes(&self) -> u32 {
        self.word(8)
    }

    /// What all frames of this life of the log repeat.
    pub fn salt(&self) -> [u8; 8] {
        self.0[16..24].try_into().expect("a salt has 8 bytes")
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[at..at + 4].try_into().expect("a word has 4 bytes"))
    }
}

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FrameHeader(pub [u8; FRAME_HEADER_BYTES]);

impl FrameHeader {
    /// The number of the page in the database, counted from 1.
    pub fn page_number(&self) -> u32 {
        self.word(0)
    }

    /// Whether the frame ends a transaction of the log's life with that salt. SQLite writes frames without salt and
    /// checksum if it knows that it will rewrite their headers.
    pub fn commits(&self, salt: [u8; 8]) -> bool {
        self.word(4) != 0 && self.0[8..16] == salt
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.0[at..at + 4].try_into().expect("a word has 4 bytes"))
    }
}

/// A place in a log, as SQLite addresses it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogLocation {
    /// In the log's header.
    LogHeader,
    /// In the header of a frame.
    FrameHeader(u32),
    /// In the page of a frame.
    Page(u32),
}

/// Some bytes within one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The place.
    pub place: LogLocation,
    /// Offset of the bytes in it.
    pub start: usize,
    /// Number of bytes.
    pub bytes: usize,
}

/// The layout of a log in units, which follows from its page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    page_bytes: u32,
}

impl Layout {
    /// The layout for a page size; `None` if pages are not whole units.
    pub fn new(page_bytes: u32) -> Option<Layout> {
        let is_whole = page_bytes.is_power_of_two()
            && page_bytes as usize >= UNIT_BYTES
            && page_bytes <= MOST_PAGE_BYTES;
        is_whole.then_some(Layout { page_bytes })
    }

    /// The layout according to a volume file's attributes; `None` if the file is a plain one.
    pub fn from_attributes(attributes: &[u8; ATTRIBUTE_BYTES]) -> Option<Layout> {
        let (magic, rest) = attributes.split_first_chunk::<4>()?;
        let page_bytes = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        if *magic == ATTRIBUTES_MAGIC { Layout::new(page_bytes) } else { None }
    }

    /// The attributes for this layout.
    pub fn to_attributes(self) -> [u8; ATTRIBUTE_BYTES] {
        let mut attributes = [0; ATTRIBUTE_BYTES];
        attributes[..4].copy_from_slice(&ATTRIBUTES_MAGIC);
        attributes[4..8].copy_from_slice(&self.page_bytes.to_le_bytes());
        attributes
    }

    /// Bytes of a page.
    pub fn page_bytes(self) -> usize {
        self.page_bytes as usize
    }

    /// Units of a page.
    pub fn page_units(self) -> u32 {
        self.page_bytes / UNIT_BYTES as u32
    }

    /// The first unit of a frame.
    pub fn first_unit(self, frame: u32) -> u64 {
        1 + u64::from(frame - 1) * u64::from(self.page_units())
    }

    /// Units of a log with that many frames.
    pub fn units(self, frames: u32) -> u64 {
        self.first_unit(frames + 1)
    }

    /// Frames that fit in that many units.
    pub fn frames_in_units(self, units: u64) -> u32 {
        u32::try_from(units.saturating_sub(1) / u64::from(self.page_units())).unwrap_or(u32::MAX - 1)
    }

    /// Bytes of a log with that many frames, as SQLite sees it.
    pub fn bytes(self, frames: u32) -> u64 {
        LOG_HEADER_BYTES as u64 + u64::from(frames) * self.frame_bytes()
    }

    /// Whole frames in a log of that many bytes, as SQLite sees it.
    pub fn frames_in_bytes(self, bytes: u64) -> u32 {
        let frames = bytes.saturating_sub(LOG_HEADER_BYTES as u64) / self.frame_bytes();
        u32::try_from(frames).unwrap_or(u32::MAX - 1)
    }

    /// The parts of `offset..offset + bytes`, in order.
    pub fn parts(self, offset: u64, bytes: usize) -> impl Iterator<Item = Part> {
        let (mut at, end) = (offset, offset + bytes as u64);
        std::iter::from_fn(move || {
            let (place, start, place_bytes) = self.place(at);
            let bytes = (place_bytes - start).min((end - at) as usize);
            at += bytes as u64;
            (bytes > 0).then_some(Part { place, start, bytes })
        })
    }

    fn frame_bytes(self) -> u64 {
        (FRAME_HEADER_BYTES + self.page_bytes()) as u64
    }

    /// The place at an offset, the position in that place, and the place's length.
    fn place(self, offset: u64) -> (LogLocation, usize, usize) {
        let Some(behind) = offset.checked_sub(LOG_HEADER_BYTES as u64) else {
            return (LogLocation::LogHeader, offset as usize, LOG_HEADER_BYTES);
        };
        let frame = u32::try_from(behind / self.frame_bytes()).unwrap_or(u32::MAX - 1) + 1;
        let start = (behind % self.frame_bytes()) as usize;
        match start.checked_sub(FRAME_HEADER_BYTES) {
            None => (LogLocation::FrameHeader(frame), start, FRAME_HEADER_BYTES),
            Some(start) => (LogLocation::Page(frame), start, self.page_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(page_bytes: u32, offset: u64, bytes: usize) -> Vec<(LogLocation, usize, usize)> {
        let layout = Layout::new(page_bytes).unwrap();
        layout.parts(offset, bytes).map(|part| (part.place, part.start, part.bytes)).collect()
    }

    #[test]
    fn pages_that_are_not_whole_units_have_no_layout() {
        assert_eq!(Layout::new(2048), None);
        assert_eq!(Layout::new(6144), None);
        assert_eq!(Layout::new(131_072), None);
        assert_eq!(Layout::new(65536).unwrap().page_units(), 16);
    }

    #[test]
    fn a_frame_is_as_many_units_as_its_page() {
        let layout = Layout::new(8192).unwrap();
        assert_eq!((layout.first_unit(1), layout.first_unit(2), layout.units(2)), (1, 3, 5));
        assert_eq!(
            (layout.frames_in_units(0), layout.frames_in_units(4), layout.frames_in_units(5)),
            (0, 1, 2)
        );
        assert_eq!(layout.bytes(2), 32 + 2 * (24 + 8192));
        assert_eq!(layout.frames_in_bytes(layout.bytes(2) - 1), 1);
        assert_eq!(layout.frames_in_bytes(0), 0);
    }

    #[test]
    fn bytes_are_cut_at_headers_and_pages() {
        assert_eq!(parts(4096, 0, 32), [(LogLocation::LogHeader, 0, 32)]);
        assert_eq!(parts(4096, 32, 24), [(LogLocation::FrameHeader(1), 0, 24)]);
        assert_eq!(parts(4096, 56, 4096), [(LogLocation::Page(1), 0, 4096)]);
        assert_eq!(
            parts(4096, 32 + 4120, 4120),
            [(LogLocation::FrameHeader(2), 0, 24), (LogLocation::Page(2), 0, 4096)]
        );
        assert_eq!(
            parts(4096, 24, 4124),
            [
                (LogLocation::LogHeader, 24, 8),
                (LogLocation::FrameHeader(1), 0, 24),
                (LogLocation::Page(1), 0, 4092)
            ]
        );
        assert_eq!(parts(4096, 48, 8), [(LogLocation::FrameHeader(1), 16, 8)]);
        assert_eq!(parts(4096, 48, 0), []);
    }

    #[test]
    fn attributes_tell_the_layout() {
        let layout = Layout::new(16384).unwrap();
        assert_eq!(Layout::from_attributes(&layout.to_attributes()), Some(layout));
        assert_eq!(Layout::from_attributes(&[0; ATTRIBUTE_BYTES]), None);
        let mut damaged = layout.to_attributes();
        damaged[5] = 3;
        assert_eq!(Layout::from_attributes(&damaged), None);
    }

    #[test]
    fn a_frame_commits_with_the_salt_of_its_log() {
        let mut header = FrameHeader::default();
        assert!(!header.commits([0; 8]), "no commit size");
        header.0[7] = 9;
        assert!(!header.commits([1; 8]), "not sealed yet");
        header.0[8..16].fill(1);
        assert!(header.commits([1; 8]));
    }

    #[test]
    fn a_log_header_is_known_by_its_magic() {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&0x377f_0683_u32.to_be_bytes());
        assert_eq!(LogHeader::parse(&bytes), None, "no page size");
        bytes[8..12].copy_from_slice(&65536_u32.to_be_bytes());
        assert_eq!(LogHeader::parse(&bytes).map(|header| header.page_bytes()), Some(65536));
        assert_eq!(LogHeader::parse(&bytes[..24]), None);
        bytes[0] = 0;
        assert_eq!(LogHeader::parse(&bytes), None);
    }
}
