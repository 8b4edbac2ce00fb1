//! A host that knows what every unit may read as, on a small drive whose medium fails.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    CacheMode, Command, Device, Faults, Lpn, Plp, PowerLoss, Profile, ShareRange, Status, TxId, UNIT_BYTES,
    result_of,
};

/// Units that the host works on.
const UNITS: u32 = 256;

/// A small drive with many spare blocks; every third has a capacitor, pages have one to four units.
pub fn profile(seed: u64) -> Profile {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 1 << 20;
    profile.over_provisioning_percent = 400.0;
    profile.flash.channels = 1;
    profile.flash.planes_per_die = 2;
    profile.flash.pages_per_block = 8;
    profile.flash.page_bytes = 4096 << (seed % 2);
    profile.cache.bytes = 16 * 8192;
    profile.limits.atomic_units = 32;
    if seed % 3 == 2 {
        profile.power.plp = Plp::Capacitor;
        profile.cache.mode = CacheMode::Durable;
        profile.power.dump_bytes = 48 * 8192;
    }
    profile
}

/// What a unit may read as: versions, by number; 0 is zeros.
#[derive(Clone, Default)]
struct Known {
    now: u64,
    may: BTreeSet<u64>,
    lost: bool,
}

pub struct MediaHost {
    pub device: Device,
    /// Reads that reported a lost unit.
    pub lost_reads: u64,
    pub cuts: u64,
    rng: Xoshiro256PlusPlus,
    known: Vec<Known>,
    stamp: u64,
    may_lose: bool,
}

impl MediaHost {
    pub fn new(profile: &Profile, seed: u64, faults: Faults) -> MediaHost {
        let mut device = Device::in_memory(profile).unwrap();
        device.set_faults(faults).unwrap();
        let known = vec![Known { may: BTreeSet::from([0]), ..Known::default() }; UNITS as usize];
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let may_lose = faults.read_failure_ppm > 0;
        MediaHost { device, lost_reads: 0, cuts: 0, rng, known, stamp: 0, may_lose }
    }

    pub fn units(&self) -> u32 {
        UNITS
    }

    /// From now on reads may find units lost.
    pub fn note_lost(&mut self, lpn: u32) {
        self.known[lpn as usize].lost = true;
        self.may_lose = true;
    }

    fn draw(&mut self, limit: u32) -> u32 {
        self.rng.random_range(0..limit)
    }

    fn submit(&mut self, command: Command<'_>) -> Result<tantalum::Completion, Status> {
        self.device.submit(command, self.device.time_ns())
    }

    fn is_protected(&self) -> bool {
        self.device.profile().power.plp == Plp::Capacitor
    }

    // -- what is known ----------------------------------------------------------------------------------------

    fn data_of(stamp: u64, lpn: u32) -> [u8; UNIT_BYTES] {
        let mut data = [0; UNIT_BYTES];
        if stamp > 0 {
            data.fill((stamp * 7 + u64::from(lpn)) as u8);
            data[..8].copy_from_slice(&stamp.to_le_bytes());
        }
        data
    }

    /// A command writes these stamps to units; its result decides what they may read as.
    fn changed(&mut self, new: &[(u32, u64)], ended: Result<tantalum::Completion, Status>, durable: bool) {
        match ended {
            Ok(_) => {
                for &(lpn, stamp) in new {
                    let known = &mut self.known[lpn as usize];
                    (known.now, known.lost) = (stamp, false);
                    if durable {
                        known.may.clear();
                    }
                    known.may.insert(stamp);
                }
            }
            Err(Status::ReadOnly | Status::CapacityExceeded) if self.device.has_power() => {
                self.refused(new);
            }
            Err(status) => panic!("{status}"),
        }
    }

    /// Refused for lack of flash: a write of several units may have been done in part.
    fn refused(&mut self, new: &[(u32, u64)]) {
        for &(lpn, stamp) in new {
            self.known[lpn as usize].may.insert(stamp);
            if let Some(found) = self.read(lpn) {
                self.known[lpn as usize].now = found;
            }
        }
    }

    fn flushed(&mut self) {
        for known in &mut self.known {
            known.may = BTreeSet::from([known.now]);
        }
    }

    // -- commands -----------------------------------------------------------------------------------------------

    pub fn write(&mut self, lpn: u32) {
        self.stamp += 1;
        let (stamp, fua) = (self.stamp, self.draw(4) == 0);
        let data = MediaHost::data_of(stamp, lpn);
        let ended = self.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua, handle: None });
        let durable = fua || self.is_protected();
        self.changed(&[(lpn, stamp)], ended, durable);
    }

    pub fn write_random(&mut self) {
        let lpn = self.draw(UNITS);
        self.write(lpn);
    }

    pub fn write_random_but(&mut self, spared: u32) {
        let lpn = (spared + 1 + self.draw(UNITS - 1)) % UNITS;
        self.write(lpn);
    }

    fn flush(&mut self) {
        match self.submit(Command::Flush) {
            Ok(_) => self.flushed(),
            Err(Status::ReadOnly | Status::CapacityExceeded) => {}
            Err(status) => panic!("{status}"),
        }
    }

    fn trim(&mut self) {
        let lpn = self.draw(UNITS - 4);
        let units = 1 + self.draw(4);
        let new: Vec<(u32, u64)> = (lpn..lpn + units).map(|lpn| (lpn, 0)).collect();
        let ended = self.submit(Command::Trim { lpn: Lpn(lpn), units });
        let durable = self.is_protected();
        self.changed(&new, ended, durable);
    }

    fn share(&mut self) {
        let (src, dst) = (self.draw(UNITS / 2), UNITS / 2 + self.draw(UNITS / 2));
        let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
        let from = self.known[src as usize].clone();
        let ended = match self.draw(3) {
            0 => {
                let ended = self.submit(Command::Remap { src: Lpn(src), dst: Lpn(dst), units: 1 });
                if ended.is_ok() {
                    self.changed(&[(src, 0)], ended.clone(), true);
                }
                ended
            }
            _ => self.submit(Command::Share { ranges: &ranges, deferred: false }),
        };
        match ended {
            Err(Status::Unmapped { .. } | Status::OverLimit { .. }) => {}
            ended => {
                let shared = ended.is_ok();
                self.changed(&[(dst, from.now)], ended, true);
                if shared {
                    self.known[dst as usize].lost = from.lost;
                    // what a share names is on flash before the record is
                    if self.known[src as usize].now == from.now {
                        self.known[src as usize].may.insert(from.now);
                    }
                }
            }
        }
    }

    fn distinct(&mut self, count: u32) -> Vec<(u32, u64)> {
        let lpns: BTreeSet<u32> = (0..count).map(|_| self.draw(UNITS)).collect();
        self.stamp += 1;
        lpns.into_iter().map(|lpn| (lpn, self.stamp)).collect()
    }

    fn atomic(&mut self) {
        let count = 1 + self.draw(12);
        let new = self.distinct(count);
        let data: Vec<_> = new.iter().map(|(lpn, stamp)| MediaHost::data_of(*stamp, *lpn)).collect();
        let writes: Vec<(Lpn, &[u8])> =
            new.iter().zip(&data).map(|((lpn, _), data)| (Lpn(*lpn), &data[..])).collect();
        let ended = self.submit(Command::WriteAtomic { writes: &writes });
        self.changed(&new, ended, true);
    }

    fn transaction(&mut self) {
        let tx = match result_of(|tx| self.submit(Command::Begin { tx })) {
            Ok(tx) => tx,
            Err(Status::ReadOnly | Status::CapacityExceeded) => return,
            Err(status) => panic!("{status}"),
        };
        let count = 1 + self.draw(6);
        let new = self.distinct(count);
        if !self.write_in(tx, &new) || self.draw(4) == 0 {
            self.submit(Command::Abort { tx }).unwrap();
            return;
        }
        // another write comes between
        let between = new[0].0;
        self.write(between);
        let ended = self.submit(Command::Commit { tx });
        let refused = ended.is_err();
        self.changed(&new, ended, true);
        if refused {
            let _ = self.submit(Command::Abort { tx });
        }
    }

    fn write_in(&mut self, tx: TxId, new: &[(u32, u64)]) -> bool {
        new.iter().all(|&(lpn, stamp)| {
            let data = MediaHost::data_of(stamp, lpn);
            match self.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &data }) {
                Ok(_) => true,
                Err(Status::ReadOnly | Status::CapacityExceeded) => false,
                Err(status) => panic!("{status}"),
            }
        })
    }

    /// Power fails between two commands, with operations in flight.
    pub fn cut(&mut self) {
        self.cuts += 1;
        let seed = self.rng.random();
        self.device.cut_power(self.device.time_ns());
        self.device.power_on(&mut PowerLoss::seeded(seed)).unwrap();
        self.device.audit();
        for lpn in 0..UNITS {
            match self.read(lpn) {
                Some(found) => {
                    let known = &mut self.known[lpn as usize];
                    assert!(!known.lost, "unit {lpn} was lost, and reads {found} after a cut");
                    (known.now, known.may) = (found, BTreeSet::from([found]));
                }
                None => self.known[lpn as usize].may = BTreeSet::from([self.known[lpn as usize].now]),
            }
        }
    }

    /// A command drawn at random.
    pub fn step(&mut self) {
        match self.draw(100) {
            0..50 => self.write_random(),
            50..58 => self.trim(),
            58..68 => self.share(),
            68..78 => self.atomic(),
            78..86 => self.transaction(),
            86..92 => self.flush(),
            92..99 => {
                let lpn = self.draw(UNITS);
                self.check(lpn);
            }
            _ => self.cut(),
        }
    }

    // -- reading ------------------------------------------------------------------------------------------------

    /// The stamp a unit reads as, if allowed; `None` if it is lost.
    pub fn read(&mut self, lpn: u32) -> Option<u64> {
        let mut data = [0; UNIT_BYTES];
        match self.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }) {
            Ok(_) => {
                let stamp = u64::from_le_bytes(data[..8].try_into().unwrap());
                let known = &self.known[lpn as usize];
                // a share brings data to another unit: the stamp identifies it, the filling is the first writer's
                assert!(
                    known.may.contains(&stamp) || stamp == known.now,
                    "unit {lpn} reads {stamp}; it may be {:?}, it was {} (lost: {})",
                    known.may,
                    known.now,
                    known.lost
                );
                assert!(stamp == 0 || data[8..].iter().all(|byte| *byte == data[8]), "unit {lpn} is torn");
                Some(stamp)
            }
            Err(Status::Unreadable { .. }) => {
                assert!(self.may_lose, "unit {lpn} is lost, and no read was to fail");
                self.lost_reads += 1;
                self.known[lpn as usize].lost = true;
                None
            }
            Err(status) => panic!("unit {lpn}: {status}"),
        }
    }

    fn check(&mut self, lpn: u32) {
        let was_lost = self.known[lpn as usize].lost;
        let now = self.known[lpn as usize].now;
        if let Some(found) = self.read(lpn) {
            assert_eq!(found, now, "unit {lpn}");
            assert!(!was_lost, "unit {lpn} was lost, and reads {found}");
        }
    }

    /// Reads all units.
    pub fn compare(&mut self) {
        self.device.audit();
        (0..UNITS).for_each(|lpn| self.check(lpn));
    }
}
