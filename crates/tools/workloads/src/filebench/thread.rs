//! A thread of a personality of whole files.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_filesystem::{FileId, FileSystem, Outcome};

use super::file_set::FileSet;
use super::files::{IO_BYTES, write};
use crate::closed_loop::Turn;

/// The most bytes that an append adds: `meanappendsize`, up to which filebench draws evenly.
const APPEND_BYTES: usize = 16 << 10;

/// An operation, as filebench counts them. Those on one file use what the thread has open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    Create,
    Open,
    Close,
    WriteWhole,
    ReadWhole,
    Append,
    AppendLog,
    Sync,
    Delete,
    Stat,
}

use Step::{Append, AppendLog, Close, Create, Delete, Open, ReadWhole, Stat, Sync, WriteWhole};

pub(super) const FILESERVER: &[Step] =
    &[Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat];

pub(super) const VARMAIL: &[Step] =
    &[Delete, Create, Append, Sync, Close, Open, ReadWhole, Append, Sync, Close, Open, ReadWhole, Close];

pub(super) const WEBSERVER: &[Step] = &[
    Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
    ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
    ReadWhole, Close, Open, ReadWhole, Close, AppendLog,
];

/// One thread.
pub(super) struct Thread {
    steps: &'static [Step],
    next: usize,
    random: Xoshiro256PlusPlus,
    open: Option<usize>,
    /// The file was sent to the drive and is synced in the next turn.
    is_sent: bool,
}

impl Thread {
    pub fn new(steps: &'static [Step], seed: u64) -> Thread {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Thread { steps, next: 0, random, open: None, is_sent: false }
    }

    /// Does the thread's next operation, or the first part of one that waits for the drive in between.
    pub fn step(&mut self, fs: &mut dyn FileSystem, set: &mut FileSet, log: Option<FileId>) -> Outcome<Turn> {
        let step = self.steps[self.next];
        if let (Sync, false, Some(entry)) = (step, self.is_sent, self.open) {
            fs.write_out(set.file(entry))?;
            self.is_sent = true;
            return Ok(Turn::Next(0));
        }
        self.is_sent = false;
        self.next = (self.next + 1) % self.steps.len();
        match step {
            Create => self.open = set.create(fs, &mut self.random)?,
            Open => self.open = set.pick(&mut self.random),
            Close => self.open.take().into_iter().for_each(|entry| set.release(entry)),
            Delete => drop(set.delete(fs, &mut self.random)?),
            AppendLog => self.append(fs, log.expect("a webserver has a log"))?,
            Stat => {
                if let Some(entry) = set.pick(&mut self.random) {
                    fs.metadata(set.file(entry))?;
                    set.release(entry);
                }
            }
            WriteWhole | ReadWhole | Append | Sync => self.use_open(fs, set, step)?,
        }
        Ok(Turn::Done(0))
    }

    fn use_open(&mut self, fs: &mut dyn FileSystem, set: &FileSet, step: Step) -> Outcome<()> {
        let Some(entry) = self.open else { return Ok(()) };
        let file = set.file(entry);
        match step {
            WriteWhole => write(fs, file, 0, set.bytes(entry)),
            ReadWhole => read_whole(fs, file),
            Append => self.append(fs, file),
            _ => fs.sync(file),
        }
    }

    fn append(&mut self, fs: &mut dyn FileSystem, file: FileId) -> Outcome<()> {
        let bytes = self.random.random_range(1..=APPEND_BYTES as u64);
        let size = fs.metadata(file)?.size;
        write(fs, file, size, bytes)
    }
}

fn read_whole(fs: &mut dyn FileSystem, file: FileId) -> Outcome<()> {
    let mut data = vec![0; IO_BYTES];
    let mut offset = 0;
    loop {
        let bytes = fs.read(file, offset, &mut data, None)?;
        offset += bytes as u64;
        if bytes < data.len() {
            return Ok(());
        }
    }
}
