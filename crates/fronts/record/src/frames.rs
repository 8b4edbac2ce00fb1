//! A file of frames, which may be larger than memory: the eight bytes of its kind, then for each frame the length of what
//! follows (four bytes, little-endian) and a value in postcard's format. It can be read by the program that made it, or
//! another of the same version.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use serde::{Deserialize, Serialize};

/// The beginning of a file. Its last character is the version of the layout.
pub type Magic = [u8; 8];

/// Bytes that wait in memory before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// No frame is longer: the kernel's writes have at most 1 MiB, and names are short.
const MOST_BYTES: usize = 1 << 26;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file cannot be read.
    #[error("the recording cannot be read: {0}")]
    File(#[from] io::Error),
    /// It is not a recording.
    #[error("this is not a recording of this version of tantalum")]
    NotARecording,
    /// An event is damaged.
    #[error("event {number} of the recording is damaged")]
    Damaged {
        /// The event's number, from 0.
        number: u64,
    },
}

/// Writes frames.
#[derive(Debug)]
pub struct FrameWriter {
    file: File,
    waiting: Vec<u8>,
    failed: Option<io::Error>,
}

impl FrameWriter {
    /// Begins an empty file.
    pub fn new(file: File, magic: &Magic) -> FrameWriter {
        FrameWriter { file, waiting: magic.to_vec(), failed: None }
    }

    /// Adds a frame. Failures are reported by [`FrameWriter::flush`].
    pub fn put(&mut self, value: &impl Serialize) {
        if self.failed.is_some() {
            return;
        }
        let start = self.waiting.len();
        self.waiting.extend_from_slice(&[0; 4]);
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = postcard::to_extend(value, waiting).expect("events are plain data");
        let bytes = (self.waiting.len() - start - 4) as u32;
        self.waiting[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
        if self.waiting.len() >= BUFFER_BYTES {
            self.write();
        }
    }

    /// Writes what waits in memory, and reports whether everything was kept.
    pub fn flush(&mut self) -> io::Result<()> {
        self.write();
        self.check()
    }

    /// Reports whether everything so far could be kept.
    pub fn check(&self) -> io::Result<()> {
        match &self.failed {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.waiting).err();
        }
        self.waiting.clear();
    }
}

/// Reads frames from the first.
#[derive(Debug)]
pub struct FrameReader {
    file: BufReader<File>,
    frame: Vec<u8>,
    number: u64,
}

impl FrameReader {
    /// Begins to read; the file is at its beginning.
    pub fn new(file: File, magic: &Magic) -> Result<FrameReader, SpoolError> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut found = Magic::default();
        match fill(&mut file, &mut found)? && found == *magic {
            true => Ok(FrameReader { file, frame: Vec::new(), number: 0 }),
            false => Err(SpoolError::NotARecording),
        }
    }

    /// The next value, or `None` at the end. A truncated frame is the end: its writer was killed.
    pub fn next<'a, T: Deserialize<'a>>(&'a mut self) -> Result<Option<T>, SpoolError> {
        let mut length = [0; 4];
        if !fill(&mut self.file, &mut length)? {
            return Ok(None);
        }
        let bytes = u32::from_le_bytes(length) as usize;
        let damaged = SpoolError::Damaged { number: self.number };
        if bytes > MOST_BYTES {
            return Err(damaged);
        }
        self.frame.resize(bytes, 0);
        if !fill(&mut self.file, &mut self.frame)? {
            return Ok(None);
        }
        self.number += 1;
        postcard::from_bytes(&self.frame).map(Some).map_err(|_| damaged)
    }
}

/// Whether there were enough bytes.
fn fill(file: &mut impl Read, to: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
