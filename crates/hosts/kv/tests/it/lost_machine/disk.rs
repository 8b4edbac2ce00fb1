//! A disk that has lost its machine: it has what was synced, and any version of each sector written since.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a disk writes atomically.
const SECTOR: u64 = 512;
const SECTORS_PER_PAGE: u64 = 8;

type Sector = [u8; SECTOR as usize];

/// What a process did.
pub enum Event {
    Write {
        at: u64,
        data: Vec<u8>,
    },
    Sync,
    /// Space that went back to the host: to the disk this is as if zeros were written.
    Hole {
        at: u64,
        bytes: u64,
    },
    Mark(Vec<u8>),
}

/// Reads what `trace.c` recorded.
pub fn events(trace: &Path) -> Vec<Event> {
    let mut bytes = Vec::new();
    File::open(trace).unwrap().read_to_end(&mut bytes).unwrap();
    let (mut rest, mut events) = (&bytes[..], Vec::new());
    while rest.len() >= 32 {
        let number = |place: usize| u64::from_le_bytes(rest[place * 8..place * 8 + 8].try_into().unwrap());
        let (what, at, length) = (number(0), number(1), number(2) as usize);
        let data = rest[32..32 + length].to_vec();
        rest = &rest[32 + length..];
        events.push(match what {
            1 => Event::Write { at, data },
            2 => Event::Sync,
            4 => Event::Hole { at, bytes: u64::from_le_bytes(data.try_into().unwrap()) },
            _ => Event::Mark(data),
        });
    }
    assert!(rest.is_empty(), "the trace ends within a note");
    events
}

pub struct Disk {
    /// The image as the process found it.
    base_path: PathBuf,
    base: File,
    synced: BTreeMap<u64, Sector>,
    /// Versions of each sector since the last sync, each with the number of the write that made it.
    written: BTreeMap<u64, Vec<(usize, Sector)>>,
    writes: usize,
}

impl Disk {
    pub fn new(base: &Path) -> Disk {
        Disk {
            base_path: base.to_owned(),
            base: File::open(base).unwrap(),
            synced: BTreeMap::new(),
            written: BTreeMap::new(),
            writes: 0,
        }
    }

    pub fn write(&mut self, at: u64, data: &[u8]) {
        self.writes += 1;
        let mut done = 0;
        while done < data.len() {
            let (number, offset) = ((at + done as u64) / SECTOR, ((at + done as u64) % SECTOR) as usize);
            let bytes = (SECTOR as usize - offset).min(data.len() - done);
            let mut sector = self.newest(number);
            sector[offset..offset + bytes].copy_from_slice(&data[done..done + bytes]);
            self.written.entry(number).or_default().push((self.writes, sector));
            done += bytes;
        }
    }

    fn newest(&self, number: u64) -> Sector {
        let written = self.written.get(&number).map(|versions| versions[versions.len() - 1].1);
        written.or_else(|| self.synced.get(&number).copied()).unwrap_or_else(|| {
            let mut sector = [0; SECTOR as usize];
            // beyond the end of the file there are zeros
            let _ = self.base.read_at(&mut sector, number * SECTOR).unwrap();
            sector
        })
    }

    pub fn sync(&mut self) {
        let written = std::mem::take(&mut self.written);
        let newest = written.into_iter().map(|(number, versions)| (number, versions[versions.len() - 1].1));
        self.synced.extend(newest);
        self.writes = 0;
    }

    /// Creates the file that a killed process leaves: the machine still has everything written.
    pub fn keep(&self, path: &Path) {
        self.leave(path, |_, _| usize::MAX);
    }

    /// Creates the file that is left when the machine is lost now.
    pub fn lose(&self, path: &Path, random: &mut Xoshiro256PlusPlus) {
        // how much arrived, whether pages stay whole, and whether the disk kept an order
        let (arrived, by_page) = (random.random_range(0..=4), random.random_range(0..2) == 0);
        let in_order = (random.random_range(0..4) == 0).then(|| random.random_range(0..=self.writes));
        self.leave(path, |number, last| {
            if let Some(until) = in_order {
                return until;
            }
            let is_of_page =
                last.is_some_and(|(last, _)| last / SECTORS_PER_PAGE == number / SECTORS_PER_PAGE);
            if let Some((_, until)) = last.filter(|_| by_page && is_of_page) {
                return until;
            }
            let some = random.random_range(0..=self.writes);
            if random.random_range(0..4) < arrived { self.writes } else { some * (some % 2) }
        });
    }

    /// Makes the file in which each sector has what the writes up to one of them made of it. `until` is given a sector,
    /// and what it said of the one before.
    fn leave(&self, path: &Path, mut until: impl FnMut(u64, Option<(u64, usize)>) -> usize) {
        std::fs::copy(&self.base_path, path).unwrap();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let put = |number: u64, sector: &Sector| file.write_all_at(sector, number * SECTOR).unwrap();
        self.synced.iter().for_each(|(number, sector)| put(*number, sector));
        let mut last = None;
        for (number, versions) in &self.written {
            let until = until(*number, last);
            last = Some((*number, until));
            if let Some((_, sector)) = versions.iter().rev().find(|(write, _)| *write <= until) {
                put(*number, sector);
            }
        }
    }
}
