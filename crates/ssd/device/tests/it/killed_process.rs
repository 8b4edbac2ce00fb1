//! A drive with a capacitor whose process ends without a shutdown: everything acknowledged is there when the image is
//! reopened. Dropping a device is such an end.

use crate::small_drive;

use std::collections::BTreeMap;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use small_drive::small_drive;
use tantalum::{Command, Completion, Device, Lpn, Plp, Profile, ShareRange, Status, UNIT_BYTES, result_of};

const UNITS: u32 = 512;

fn profile() -> Profile {
    small_drive("durassd", u64::from(UNITS) * UNIT_BYTES as u64, 400.0, Plp::Capacitor)
}

fn unit(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

struct Host {
    device: Device,
    now_ns: u64,
    random: Xoshiro256PlusPlus,
    model: BTreeMap<u32, u64>,
    next_stamp: u64,
}

impl Host {
    fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.device.submit(command, self.now_ns)?;
        self.now_ns = self.now_ns.max(completion.done_ns);
        Ok(completion)
    }

    fn stamp(&mut self) -> u64 {
        self.next_stamp += 1;
        self.next_stamp
    }

    fn lpn(&mut self) -> u32 {
        self.random.random_range(0..UNITS / 2)
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..60 => {
                let (lpn, stamp) = (self.lpn(), self.stamp());
                self.submit(Command::Write { lpn: Lpn(lpn), data: &unit(stamp), fua: false, handle: None })
                    .unwrap();
                self.model.insert(lpn, stamp);
            }
            60..70 => {
                let lpn = self.lpn();
                self.submit(Command::Trim { lpn: Lpn(lpn), units: 1 }).unwrap();
                self.model.remove(&lpn);
            }
            70..80 => {
                let (dst, src) = (self.lpn(), self.lpn());
                let Some(&stamp) = self.model.get(&src).filter(|_| dst != src) else { return };
                let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
                let deferred = self.random.random_ratio(1, 2);
                self.submit(Command::Share { ranges: &ranges, deferred }).unwrap();
                self.model.insert(dst, stamp);
            }
            80..88 => {
                let (first, stamp) = (self.lpn(), self.stamp());
                let data = unit(stamp);
                let writes: Vec<(Lpn, &[u8])> = (first..first + 5).map(|lpn| (Lpn(lpn), &data[..])).collect();
                self.submit(Command::WriteAtomic { writes: &writes }).unwrap();
                self.model.extend((first..first + 5).map(|lpn| (lpn, stamp)));
            }
            88..96 => {
                let tx = result_of(|tx| self.submit(Command::Begin { tx })).unwrap();
                let (first, stamp) = (self.lpn(), self.stamp());
                for lpn in first..first + 3 {
                    self.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &unit(stamp) }).unwrap();
                }
                if self.random.random_ratio(3, 4) {
                    self.submit(Command::Commit { tx }).unwrap();
                    self.model.extend((first..first + 3).map(|lpn| (lpn, stamp)));
                } else {
                    self.submit(Command::Abort { tx }).unwrap();
                }
            }
            _ => drop(self.submit(Command::Flush).unwrap()),
        }
    }

    /// The process ends; another one opens the image.
    fn killed(mut self, image: &Path, seed: u64) -> Host {
        drop(self.device);
        self.device = Device::open(image).unwrap();
        self.now_ns = 0;
        self.device.audit();
        let mut data = vec![0; UNIT_BYTES];
        for lpn in 0..UNITS {
            self.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }).unwrap();
            let expected = self.model.get(&lpn).copied().unwrap_or(0);
            assert_eq!(data, unit(expected), "seed {seed}: unit {lpn}, expected {expected}");
        }
        self
    }
}

#[test]
fn everything_acknowledged_is_there_after_a_kill() {
    let mut restored = 0;
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        let device = Device::create(&image, &profile()).unwrap();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut host = Host { device, now_ns: 0, random, model: BTreeMap::new(), next_stamp: 0 };
        for _ in 0..12 {
            for _ in 0..host.random.random_range(0..200) {
                host.step();
            }
            host = host.killed(&image, seed);
            restored += host.device.recovery().units_restored;
        }
    }
    assert!(restored > 100, "only {restored} units had waited in the cache");
}

#[test]
fn nothing_is_restored_after_a_clean_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let mut device = Device::create(&image, &profile()).unwrap();
    device.submit(Command::Write { lpn: Lpn(3), data: &unit(9), fua: false, handle: None }, 0).unwrap();
    device.shutdown(1_000_000).unwrap();
    let device = Device::open(&image).unwrap();
    assert!(device.recovery().clean);
    assert_eq!(device.recovery().units_restored, 0);
}
