//! OLTP: readers, database writers that write after a number of reads, and a log writer.
//!
//! Readers post for each read to the log writer and to every database writer, which wait for a number of posts before
//! they write again. The number of posts that may run ahead of them is limited.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Nanoseconds, UNIT_BYTES};
use tantalum_filesystem::{FileId, FileSystem, Outcome};

use super::files::{create, write};
use crate::closed_loop::Turn;

/// Data files.
pub(super) const FILES: usize = 10;

/// Bytes of a data file, and of the log.
pub(super) const FILE_BYTES: u64 = 10 << 20;

/// Reads and writes of data.
const IO_BYTES: u64 = 2 << 10;

/// Writes of the log.
const LOG_BYTES: u64 = 256 << 10;

/// Writes of a database writer before it waits.
const WRITES: u32 = 100;

const WRITERS: usize = 10;
const READERS: usize = 200;

/// A log writer, database writers, readers.
pub(super) const THREADS: u32 = (1 + WRITERS + READERS) as u32;

/// Posts that a database writer waits for, and by how many they may run ahead.
const WRITER_POSTS: u64 = 1000;
const WRITER_AHEAD: u64 = 2000;

/// Posts that the log writer waits for, and by how many database writers may run ahead of it.
const LOG_POSTS: u64 = 3200;
const LOG_AHEAD: u64 = 1000;

/// Work of a reader and of a writer between operations: `usermode` and `hog` of the definition, at a nanosecond each.
const READER_NS: Nanoseconds = 200_000;
const WRITER_NS: Nanoseconds = 10_000;

/// How long a thread that waits for others sleeps before it checks again.
const LOOK_NS: Nanoseconds = 100_000;

/// A thread that writes.
#[derive(Clone, Copy, Default)]
struct Writer {
    /// The number of times that it has begun to wait.
    waits: u64,
    /// Writes until it waits.
    left: u32,
    /// What it wrote and has to sync.
    written: Option<FileId>,
    next_file: usize,
}

/// The processes.
pub(super) struct Oltp {
    data: Vec<FileId>,
    file_bytes: u64,
    log: FileId,
    writers: Vec<Writer>,
    posts: u64,
    random: Xoshiro256PlusPlus,
}

impl Oltp {
    /// Creates data files and log, `scale` times as large as in the definition.
    pub fn prepare(fs: &mut dyn FileSystem, scale: f64, random: &mut Xoshiro256PlusPlus) -> Outcome<Oltp> {
        let file_bytes = ((FILE_BYTES as f64 * scale) as u64).next_multiple_of(LOG_BYTES).max(LOG_BYTES);
        let mut data = Vec::new();
        for number in 0..FILES {
            let file = create(fs, format!("data{number}").as_bytes())?;
            write(fs, file, 0, file_bytes)?;
            data.push(file);
        }
        let log = create(fs, b"log")?;
        write(fs, log, 0, file_bytes)?;
        let writers = vec![Writer { left: 1, ..Writer::default() }; 1 + WRITERS];
        Ok(Oltp { data, file_bytes, log, writers, posts: 0, random: random.clone() })
    }

    /// A thread's next operation. Host times are added to the time at which the file system is done.
    pub fn turn(&mut self, fs: &mut dyn FileSystem, thread: usize) -> Outcome<Turn> {
        if thread <= WRITERS { self.write(fs, thread) } else { self.read(fs, thread) }
    }

    fn read(&mut self, fs: &mut dyn FileSystem, thread: usize) -> Outcome<Turn> {
        let allowed = |(index, writer): (usize, &Writer)| match index {
            0 => LOG_AHEAD + LOG_POSTS * writer.waits,
            _ => WRITER_AHEAD + WRITER_POSTS * writer.waits,
        };
        if self.writers.iter().enumerate().map(allowed).any(|allowed| self.posts >= allowed) {
            return Ok(Turn::Next(LOOK_NS));
        }
        let file = self.data[thread % FILES];
        let offset = self.place(IO_BYTES);
        fs.read(file, offset, &mut [0; IO_BYTES as usize], None)?;
        self.posts += 1;
        Ok(Turn::Done(READER_NS))
    }

    fn write(&mut self, fs: &mut dyn FileSystem, thread: usize) -> Outcome<Turn> {
        let (bytes, posts, writes, hog_ns) = match thread {
            0 => (LOG_BYTES, LOG_POSTS, 1, 0),
            _ => (IO_BYTES, WRITER_POSTS, WRITES, WRITER_NS),
        };
        let writer = self.writers[thread];
        if let Some(file) = writer.written {
            fs.sync_data(file)?;
            let writer = &mut self.writers[thread];
            (writer.written, writer.left) = (None, writer.left - 1);
            if writer.left == 0 {
                writer.waits += 1;
            }
            return Ok(Turn::Done(if writer.left == 0 { hog_ns } else { 0 }));
        }
        if writer.left == 0 {
            if self.posts < posts * writer.waits {
                return Ok(Turn::Next(LOOK_NS));
            }
            self.writers[thread].left = writes;
        }
        let file = if thread == 0 { self.log } else { self.data[(thread + writer.next_file) % FILES] };
        let offset = self.place(bytes);
        write(fs, file, offset, bytes)?;
        fs.write_out(file)?;
        let writer = &mut self.writers[thread];
        (writer.written, writer.next_file) = (Some(file), writer.next_file + 1);
        Ok(Turn::Next(0))
    }

    fn place(&mut self, bytes: u64) -> u64 {
        const _: () = assert!(LOG_BYTES.is_multiple_of(UNIT_BYTES as u64));
        self.random.random_range(0..self.file_bytes / bytes) * bytes
    }
}
