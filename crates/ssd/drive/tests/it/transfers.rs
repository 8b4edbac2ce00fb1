//! Reads and writes that are issued together, beside a model: whatever they touch, in whatever order, within the drive and
//! beyond it. What was damaged in an image is an error, and never other bytes.

use std::fs;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Lpn, Status, UNIT_BYTES};
use tantalum_drive::{Drive, Transfer};

use crate::common::{small, unit};

const CAPACITY_MIB: u64 = 16;

/// One of the transfers of a batch.
struct Planned {
    lpn: u32,
    write: bool,
    data: Vec<u8>,
}

/// A drive, and what its units hold: a number, or 0 if a unit was never written.
struct Checked {
    drive: Drive,
    units: Vec<u64>,
    random: Xoshiro256PlusPlus,
    last: u64,
    /// Units whose bytes are damaged in the image.
    damaged: Vec<usize>,
    refused: u32,
    unreadable: u32,
}

impl Checked {
    fn new(device: Device, seed: u64) -> Checked {
        let units = vec![0; device.limits().capacity_units as usize];
        Checked {
            drive: Drive::new(device),
            units,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            last: 0,
            damaged: Vec::new(),
            refused: 0,
            unreadable: 0,
        }
    }

    fn plan(&mut self, writes: bool) -> Planned {
        let capacity = self.units.len() as u32;
        let lpn = match self.random.random_range(0..8) {
            0 => 0,
            1 => capacity - self.random.random_range(1..40),
            2 => capacity + self.random.random_range(0..3),
            3 if writes => u32::MAX - self.random.random_range(0..3),
            _ => self.random.random_range(0..200),
        };
        let count = match self.random.random_range(0..4) {
            0 => 1,
            1 => self.random.random_range(0..4),
            _ => self.random.random_range(1..45),
        };
        let write = writes && self.random.random();
        let mut data = vec![0xee; count * UNIT_BYTES];
        if write {
            for part in data.chunks_exact_mut(UNIT_BYTES) {
                self.last += 1;
                part.copy_from_slice(&unit(self.last));
            }
        }
        Planned { lpn, write, data }
    }

    fn contents(number: u64) -> Vec<u8> {
        if number == 0 { vec![0; UNIT_BYTES] } else { unit(number) }
    }

    /// Issues a few transfers together, and checks each in its order.
    fn batch(&mut self, writes: bool) {
        let mut planned: Vec<Planned> =
            (0..self.random.random_range(1..24)).map(|_| self.plan(writes)).collect();
        let mut transfers: Vec<Transfer<'_>> = planned
            .iter_mut()
            .map(|Planned { lpn, write, data }| match write {
                true => Transfer::write(Lpn(*lpn), data, false),
                false => Transfer::read(Lpn(*lpn), data),
            })
            .collect();
        let at_ns = self.drive.lock().time_ns();
        self.drive.transfer(&mut transfers, at_ns);
        let ended: Vec<Result<_, Status>> = transfers.into_iter().map(Transfer::ended).collect();
        for (Planned { lpn, write, data }, ended) in planned.into_iter().zip(ended) {
            let (first, count) = (lpn as usize, data.len() / UNIT_BYTES);
            if count == 0 || first + count > self.units.len() {
                assert!(ended.is_err(), "{count} units from {lpn} on");
                self.refused += 1;
                continue;
            }
            if let Err(status) = ended {
                let is_damaged = self.damaged.iter().any(|unit| (first..first + count).contains(unit));
                assert!(is_damaged && !write, "{count} units from {lpn} on: {status}");
                self.unreadable += 1;
                continue;
            }
            for (at, part) in (first..).zip(data.chunks_exact(UNIT_BYTES)) {
                if write {
                    self.units[at] = u64::from_le_bytes(part[..8].try_into().unwrap());
                } else {
                    assert!(!self.damaged.contains(&at), "unit {at} is damaged, and was read");
                    assert!(part == Checked::contents(self.units[at]), "unit {at}");
                }
            }
        }
    }
}

#[test]
fn transfers_that_are_issued_together_do_what_they_would_one_by_one() {
    for seed in 0..6 {
        let mut checked = Checked::new(Device::in_memory(&small("tlc-nvme", CAPACITY_MIB)).unwrap(), seed);
        (0..150).for_each(|_| checked.batch(true));
        assert!(checked.refused > 100, "{} were refused", checked.refused);
    }
}

/// Damages the bytes of a unit wherever they are in an image. Returns whether they are there.
fn damage(image: &Path, number: u64) -> bool {
    let mut bytes = fs::read(image).unwrap();
    let places: Vec<usize> = (0..bytes.len())
        .step_by(UNIT_BYTES)
        .filter(|at| bytes.get(*at..*at + UNIT_BYTES) == Some(&unit(number)[..]))
        .collect();
    places.iter().for_each(|at| bytes[at + 3000] ^= 4);
    fs::write(image, bytes).unwrap();
    !places.is_empty()
}

#[test]
fn what_is_damaged_in_an_image_is_an_error_among_transfers_that_are_issued_together() {
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        let device = Device::create(&image, &small("tlc-nvme", CAPACITY_MIB)).unwrap();
        let mut checked = Checked::new(device, seed);
        (0..150).for_each(|_| checked.batch(true));
        let Checked { drive, units, random, last, .. } = checked;
        let at_ns = drive.lock().time_ns();
        drive.into_device().expect("nobody else uses the drive").shutdown(at_ns).unwrap();
        let written: Vec<usize> = (0..200).filter(|at| units[*at] != 0).collect();
        let damaged: Vec<usize> =
            written.iter().step_by(40).copied().filter(|at| damage(&image, units[*at])).collect();
        assert!(damaged.len() > 2, "{damaged:?}");
        let drive = Drive::new(Device::open(&image).unwrap());
        let mut checked = Checked { drive, units, random, last, damaged, refused: 0, unreadable: 0 };
        (0..100).for_each(|_| checked.batch(false));
        assert!(checked.unreadable > 50, "{} were unreadable", checked.unreadable);
    }
}
