//! Whole units whose bytes move between a program and the image past the volume, while the volume continues.

use crate::common;

use common::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Fetches, Fills, UNIT_BYTES};
use tantalum_volume::{FileId, Volume};

const UNIT: u64 = UNIT_BYTES as u64;

/// Units of the file.
const UNITS: u64 = 600;

/// A volume in a file, and its folder.
fn volume_in_a_file() -> (Volume, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::create(&folder.path().join("drive"), device(16).profile()).unwrap();
    (Volume::format(device, SMALL_CACHE).unwrap(), folder)
}

fn unit(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

fn bytes_of(stamps: &[u64]) -> Vec<u8> {
    stamps.iter().flat_map(|stamp| unit(*stamp)).collect()
}

/// What waits to be fetched, and what must come.
struct Read {
    fetches: Fetches,
    buffer: Vec<u8>,
    expected: Vec<u64>,
}

/// What was filled and waits to be written.
struct Write {
    fills: Fills,
    first: usize,
    stamps: Vec<u64>,
}

struct Host {
    volume: Volume,
    file: FileId,
    model: Vec<u64>,
    random: Xoshiro256PlusPlus,
    reads: Vec<Read>,
    writes: Vec<Write>,
    next_stamp: u64,
}

impl Host {
    fn range(&mut self) -> (usize, usize) {
        let units = if self.random.random_ratio(1, 8) { self.random.random_range(1..100) } else { 1 };
        (self.random.random_range(0..UNITS as usize - units), units)
    }

    /// Some stamps come twice: they become shares, and what was filled for them is not needed.
    fn stamps(&mut self, units: usize) -> Vec<u64> {
        let one = |host: &mut Host| {
            host.next_stamp += u64::from(host.random.random_ratio(7, 8));
            host.next_stamp
        };
        (0..units).map(|_| one(self)).collect()
    }

    fn begin_read(&mut self) {
        let (first, units) = self.range();
        let mut buffer = vec![0xee; units * UNIT_BYTES];
        let mut fetches = self.volume.device().fetches().expect("the drive is in a file");
        let offset = first as u64 * UNIT;
        let bytes = self.volume.read_direct_later(self.file, offset, &mut buffer, &mut fetches).unwrap();
        assert_eq!(bytes, buffer.len());
        self.reads.push(Read { fetches, buffer, expected: self.model[first..first + units].to_vec() });
    }

    fn end_read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.reads.len());
        let Read { fetches, mut buffer, expected } = self.reads.swap_remove(index);
        assert!(fetches.fetch(&mut buffer), "all is as it was written");
        assert!(buffer == bytes_of(&expected), "a read gives what was there when it began");
    }

    fn begin_write(&mut self) {
        let (first, units) = self.range();
        let stamps = self.stamps(units);
        let mut fills = self.volume.device().fills(units).unwrap().expect("the drive is in a file");
        fills.fill(&bytes_of(&stamps)).unwrap();
        self.writes.push(Write { fills, first, stamps });
    }

    fn end_write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let index = self.random.random_range(0..self.writes.len());
        let Write { mut fills, first, stamps } = self.writes.swap_remove(index);
        let data = bytes_of(&stamps);
        self.volume.write_direct_filled(self.file, first as u64 * UNIT, &data, &mut fills).unwrap();
        self.volume.device().skip_fills(&mut fills, usize::MAX);
        self.model[first..first + stamps.len()].copy_from_slice(&stamps);
    }

    fn write(&mut self) {
        let (first, units) = self.range();
        let stamps = self.stamps(units);
        let (offset, data) = (first as u64 * UNIT, bytes_of(&stamps));
        match self.random.random_range(0..2) {
            0 => self.volume.write_direct(self.file, offset, &data).unwrap(),
            _ => self.volume.write(self.file, offset, &data).unwrap(),
        }
        self.model[first..first + units].copy_from_slice(&stamps);
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..20 => self.begin_read(),
            20..40 => self.end_read(),
            40..62 => self.begin_write(),
            62..84 => self.end_write(),
            84..98 => self.write(),
            _ => self.volume.sync(self.file).unwrap(),
        }
    }
}

/// Seeded. The drive is small, so that what is given up is soon taken again.
#[test]
fn bytes_that_move_past_the_volume_are_the_right_ones_whatever_it_does_meanwhile() {
    let (mut volume, folder) = volume_in_a_file();
    volume.set_remap_duplicates(true);
    let file = volume.create("file").unwrap();
    volume.set_size(file, UNITS * UNIT).unwrap();
    let mut host = Host {
        volume,
        file,
        model: vec![0; UNITS as usize],
        random: Xoshiro256PlusPlus::seed_from_u64(5),
        reads: Vec::new(),
        writes: Vec::new(),
        next_stamp: 1,
    };
    (0..6_000).for_each(|_| host.step());
    while !host.reads.is_empty() {
        host.end_read();
    }
    while !host.writes.is_empty() {
        host.end_write();
    }
    let Host { mut volume, model, .. } = host;
    let erased = volume.device().smart().counters.blocks_erased;
    assert!(erased > 100, "{erased} blocks were erased: nothing was given up");
    assert!(volume.statistics().units_remapped > 0, "nothing was shared");
    volume.device().audit();
    volume.sync_all().unwrap();
    let device = volume.unmount().unwrap().into_device().unwrap();
    let now_ns = device.time_ns();
    device.shutdown(now_ns).unwrap();
    let device = Device::open(&folder.path().join("drive")).unwrap();
    let mut volume = Volume::mount(device, SMALL_CACHE).unwrap();
    let mut found = vec![0; (UNITS * UNIT) as usize];
    volume.read_direct(file, 0, &mut found).unwrap();
    assert!(found == bytes_of(&model), "it is all there when the image is opened again");
}

#[test]
fn a_read_that_comes_later_ends_where_the_file_ends_and_has_zeros_in_holes() {
    let (mut volume, _folder) = volume_in_a_file();
    let file = volume.create("file").unwrap();
    volume.write_direct(file, 0, &bytes_of(&[1, 2])).unwrap();
    volume.write(file, 3 * UNIT, &unit(4)[..100]).unwrap();
    let mut buffer = vec![0xee; 8 * UNIT_BYTES];
    let mut fetches = volume.device().fetches().unwrap();
    let bytes = volume.read_direct_later(file, 0, &mut buffer, &mut fetches).unwrap();
    assert_eq!(bytes, 3 * UNIT_BYTES + 100);
    assert!(fetches.fetch(&mut buffer));
    let mut expected = bytes_of(&[1, 2, 0, 4]);
    expected.truncate(bytes);
    assert!(buffer[..bytes] == expected);
}
