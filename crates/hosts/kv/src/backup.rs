//! Backups in a file of what a snapshot sees, made while others write; and stores created from them.
//!
//! A backup begins with eight bytes that identify it. Frames follow: length (4 bytes), checksum of the frame's number
//! and contents (4), contents. These are entries: 1, kind, length of the name (1), name: a namespace; 2, length of the
//! key (2), length of the value (4), key, value: a record of the namespace before it; 0, number of records (8): the end.
//! A value too large for a frame is in several: 3, length of the key (2), length of the value (8), key; then, each in a
//! frame of its own, 4, length (4), and that many of the value's bytes. All little-endian. A file without an end is not a
//! backup.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use tantalum_image::{checksum_of, checksum_with};

use crate::copy::{Copied, Sink, copy};
use crate::error::Error;
use crate::files::{io_error, make_new};
use crate::record::Order;
use crate::snapshot::Snapshot;
use crate::store::Store;

const MAGIC: &[u8; 8] = b"TANTBAK1";

/// A frame is written when it has this many bytes.
const FRAME_BYTES: usize = 256 << 10;

/// Maximum size of a frame: the last record may have 2 MiB.
const MOST_FRAME_BYTES: usize = 4 << 20;

/// Larger values are in several frames, each with this much.
const PIECE_BYTES: usize = 2 << 20;

const END: u8 = 0;
const NAMESPACE: u8 = 1;
const RECORD: u8 = 2;
const LARGE: u8 = 3;
const PIECE: u8 = 4;

impl Store {
    /// Writes a backup of the committed state ([`Snapshot::back_up`]).
    pub fn back_up(&self, path: impl AsRef<Path>) -> Result<Copied, Error> {
        self.snapshot()?.back_up(path)
    }
}

impl Snapshot {
    /// Writes what the snapshot sees to a file, which must not exist, and syncs it. Others continue to read and write.
    /// The file appears when it is complete. Fails with [`Error::SnapshotLost`] if too much is overwritten meanwhile.
    pub fn back_up(&self, path: impl AsRef<Path>) -> Result<Copied, Error> {
        let path = path.as_ref();
        if path.exists() {
            return Err(Error::Exists { path: path.to_owned() });
        }
        let mut copied = Copied::default();
        let is_new = make_new(path, |unfinished| {
            let file = File::create_new(unfinished).map_err(io_error(unfinished, "create the backup"))?;
            let mut writer = Writer { file: BufWriter::new(file), path, frame: Vec::new(), number: 0 };
            writer.write(MAGIC)?;
            copied = copy(self, &mut writer)?;
            writer.frame.push(END);
            writer.frame.extend_from_slice(&copied.records.to_le_bytes());
            writer.end_frame()?;
            writer.file.flush().map_err(io_error(path, "write the backup"))
        })?;
        if is_new { Ok(copied) } else { Err(Error::Exists { path: path.to_owned() }) }
    }
}

struct Writer<'a> {
    file: BufWriter<File>,
    path: &'a Path,
    frame: Vec<u8>,
    number: u64,
}

fn frame_checksum(number: u64, contents: &[u8]) -> u32 {
    checksum_with(checksum_of(&number.to_le_bytes()), contents)
}

impl Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all(bytes).map_err(io_error(self.path, "write the backup"))
    }

    fn end_frame(&mut self) -> Result<(), Error> {
        let frame = std::mem::take(&mut self.frame);
        self.write(&(frame.len() as u32).to_le_bytes())?;
        self.write(&frame_checksum(self.number, &frame).to_le_bytes())?;
        self.write(&frame)?;
        self.number += 1;
        Ok(())
    }

    fn large(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.frame.push(LARGE);
        self.frame.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.frame.extend_from_slice(&(value.len() as u64).to_le_bytes());
        self.frame.extend_from_slice(key);
        self.end_frame()?;
        value.chunks(PIECE_BYTES).try_for_each(|piece| {
            self.frame.push(PIECE);
            self.frame.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            self.frame.extend_from_slice(piece);
            self.end_frame()
        })
    }

    fn end_entry(&mut self) -> Result<(), Error> {
        if self.frame.len() >= FRAME_BYTES { self.end_frame() } else { Ok(()) }
    }
}

impl Sink for Writer<'_> {
    fn namespace(&mut self, name: &str, order: Order) -> Result<(), Error> {
        self.frame.extend_from_slice(&[NAMESPACE, u8::from(order == Order::Ordered), name.len() as u8]);
        self.frame.extend_from_slice(name.as_bytes());
        self.end_entry()
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if value.len() > PIECE_BYTES {
            return self.large(key, value);
        }
        self.frame.push(RECORD);
        self.frame.extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.frame.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.frame.extend_from_slice(key);
        self.frame.extend_from_slice(value);
        self.end_entry()
    }
}

/// Reads a backup to its end.
pub(crate) fn read(path: &Path, sink: &mut impl Sink) -> Result<Copied, Error> {
    let file = File::open(path).map_err(io_error(path, "open the backup"))?;
    let (file, copied) = (BufReader::new(file), Copied::default());
    let mut reader = Reader { file, path, number: 0, copied, large: None };
    let mut magic = [0; MAGIC.len()];
    reader.fill(&mut magic)?;
    if magic != *MAGIC {
        return Err(reader.damaged("it does not begin as a backup does"));
    }
    loop {
        let frame = reader.frame()?;
        if reader.entries(&frame, sink)? {
            return Ok(reader.copied);
        }
    }
}

struct Reader<'a> {
    file: BufReader<File>,
    path: &'a Path,
    number: u64,
    copied: Copied,
    /// A value of which pieces are missing.
    large: Option<Large>,
}

struct Large {
    key: Vec<u8>,
    value: Vec<u8>,
    missing_bytes: u64,
}

impl Reader<'_> {
    fn damaged(&self, what: &'static str) -> Error {
        Error::Backup { path: self.path.to_owned(), what }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
        match self.file.read_exact(bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged("it ends before its end"))
            }
            read => read.map_err(io_error(self.path, "read the backup")),
        }
    }

    fn frame(&mut self) -> Result<Vec<u8>, Error> {
        let mut head = [0; 8];
        self.fill(&mut head)?;
        let [length, checksum] =
            [0, 4].map(|at| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
        if length as usize > MOST_FRAME_BYTES {
            return Err(self.damaged("a frame has an impossible length"));
        }
        let mut frame = vec![0; length as usize];
        self.fill(&mut frame)?;
        if frame_checksum(self.number, &frame) != checksum {
            return Err(self.damaged("a checksum is wrong"));
        }
        self.number += 1;
        Ok(frame)
    }

    /// The entries of a frame; says whether the last one is the end.
    fn entries(&mut self, frame: &[u8], sink: &mut impl Sink) -> Result<bool, Error> {
        let mut rest = frame;
        while !rest.is_empty() {
            let (entry, after) = entry(rest).ok_or_else(|| self.damaged("an entry is not one"))?;
            rest = after;
            if self.large.is_some() != matches!(entry, Entry::Piece { .. }) {
                return Err(self.damaged("pieces of a value are missing"));
            }
            match entry {
                Entry::End { records } if rest.is_empty() && records == self.copied.records => {
                    return Ok(true);
                }
                Entry::End { .. } => return Err(self.damaged("records are missing")),
                Entry::Namespace { name, order } => {
                    self.copied.namespaces += 1;
                    sink.namespace(name, order)?;
                }
                Entry::Record { key, value } => self.record(key, value, sink)?,
                Entry::Large { key, bytes } => {
                    self.large = Some(Large { key: key.to_vec(), value: Vec::new(), missing_bytes: bytes });
                }
                Entry::Piece { bytes } => self.piece(bytes, sink)?,
            }
        }
        Ok(false)
    }

    fn record(&mut self, key: &[u8], value: &[u8], sink: &mut impl Sink) -> Result<(), Error> {
        self.copied.records += 1;
        self.copied.bytes += (key.len() + value.len()) as u64;
        sink.record(key, value)
    }

    /// A piece of the value that is not whole yet.
    fn piece(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<(), Error> {
        let Some(mut large) = self.large.take() else { return Ok(()) };
        let Some(missing) = large.missing_bytes.checked_sub(bytes.len() as u64).filter(|_| !bytes.is_empty())
        else {
            return Err(self.damaged("a piece of a value has an impossible length"));
        };
        large.missing_bytes = missing;
        large.value.extend_from_slice(bytes);
        if missing == 0 {
            return self.record(&large.key, &large.value, sink);
        }
        self.large = Some(large);
        Ok(())
    }
}

enum Entry<'a> {
    Namespace { name: &'a str, order: Order },
    Record { key: &'a [u8], value: &'a [u8] },
    Large { key: &'a [u8], bytes: u64 },
    Piece { bytes: &'a [u8] },
    End { records: u64 },
}

fn entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    match *kind {
        END => {
            let (records, rest) = rest.split_first_chunk()?;
            Some((Entry::End { records: u64::from_le_bytes(*records) }, rest))
        }
        NAMESPACE => {
            let ([order, length], rest) = rest.split_first_chunk()?;
            let (name, rest) = rest.split_at_checked(usize::from(*length))?;
            let order = match order {
                0 => Order::Hashed,
                1 => Order::Ordered,
                _ => return None,
            };
            Some((Entry::Namespace { name: std::str::from_utf8(name).ok()?, order }, rest))
        }
        RECORD => {
            let (key_bytes, rest) = rest.split_first_chunk()?;
            let (value_bytes, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_bytes)))?;
            let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value_bytes) as usize)?;
            Some((Entry::Record { key, value }, rest))
        }
        LARGE => {
            let (key_bytes, rest) = rest.split_first_chunk()?;
            let (bytes, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*key_bytes)))?;
            Some((Entry::Large { key, bytes: u64::from_le_bytes(*bytes) }, rest))
        }
        PIECE => {
            let (length, rest) = rest.split_first_chunk()?;
            let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            Some((Entry::Piece { bytes }, rest))
        }
        _ => None,
    }
}
