//! A host that knows what must be there after a break. Each has units of its own; the bytes of a unit name it, and the number of
//! the write, which grows. A unit must hold, untorn, a write that is not older than the promised one.

use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_image::mix;
use tantalum_nvme::client::{Client, block_command};
use tantalum_nvme::wire::opcode::nvm;

use super::UNIT;

/// Units of each host.
pub const UNITS: u64 = 300;

pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The bytes of a unit: its name, the number of the write, and what follows from both.
pub fn bytes_of(unit: u64, write: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(UNIT);
    bytes.extend(unit.to_le_bytes());
    bytes.extend(write.to_le_bytes());
    while bytes.len() < UNIT {
        bytes.extend(mix(unit << 40 ^ write << 12 ^ bytes.len() as u64).to_le_bytes());
    }
    bytes
}

/// What a host knows about its units.
pub struct Witness {
    first: u64,
    /// The number of the oldest write that each unit may have.
    durable: Vec<u64>,
    /// The number of the last write submitted for each unit.
    given: Vec<u64>,
    pub last_write: u64,
    rng: Xoshiro256PlusPlus,
    /// Whether what was acknowledged is durable: the drive does not lose power.
    pub keeps_power: bool,
    /// Rounds after which [`Witness::work`] ends.
    pub most_rounds: u64,
}

impl Witness {
    pub fn new(number: u64, seed: u64) -> Witness {
        Witness {
            first: number * UNITS,
            durable: vec![0; UNITS as usize],
            given: vec![0; UNITS as usize],
            last_write: 0,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed << 8 | number),
            keeps_power: false,
            most_rounds: u64::MAX,
        }
    }

    /// Checks all units: after a break what is there is durable.
    pub fn look(&mut self, io: &mut Client) -> std::io::Result<()> {
        for at in 0..UNITS {
            let unit = self.first + at;
            let read = io.read_command(block_command(nvm::READ, unit, 1), UNIT as u32)?;
            if read.code != 0 {
                return Err(std::io::ErrorKind::Other.into());
            }
            let write = u64::from_le_bytes(read.data[8..16].try_into().unwrap());
            let (durable, given) = (self.durable[at as usize], self.given[at as usize]);
            assert!(
                (durable..=given).contains(&write),
                "unit {unit} has write {write}; {durable} was durable, {given} the last given"
            );
            assert!(write == 0 || read.data == bytes_of(unit, write), "unit {unit} is torn");
            self.durable[at as usize] = write;
        }
        Ok(())
    }

    /// Reads all units while the drive takes no more changes: each is as new as what is durable, or refused with `refusal`.
    /// Returns how many were read.
    pub fn read(&self, io: &mut Client, refusal: u16) -> u64 {
        let mut found = 0;
        for at in 0..UNITS {
            let unit = self.first + at;
            let read = io.read_command(block_command(nvm::READ, unit, 1), UNIT as u32).unwrap();
            if read.code != 0 {
                assert_eq!(read.code, refusal, "unit {unit}");
                continue;
            }
            found += 1;
            let write = u64::from_le_bytes(read.data[8..16].try_into().unwrap());
            let known = self.durable[at as usize]..=self.given[at as usize];
            assert!(known.contains(&write), "unit {unit} has write {write} of {known:?}");
            assert!(write == 0 || read.data == bytes_of(unit, write), "unit {unit} is torn");
        }
        found
    }

    /// Writes and flushes until something fails, or the last round is done.
    pub fn work(&mut self, io: &mut Client, rounds: &AtomicU64) -> std::io::Result<()> {
        while rounds.load(Ordering::Relaxed) < self.most_rounds {
            let mut written = Vec::new();
            for _ in 0..self.rng.random_range(1..6) {
                let at = self.rng.random_range(0..UNITS - 16);
                let count = self.rng.random_range(1..16_u64);
                self.last_write += 1;
                let mut data = Vec::new();
                for unit in at..at + count {
                    self.given[unit as usize] = self.last_write;
                    data.extend(bytes_of(self.first + unit, self.last_write));
                }
                let mut write = block_command(nvm::WRITE, self.first + at, count as u32);
                let is_forced = self.rng.random_ratio(1, 4);
                if is_forced {
                    write.dword10[2] = ((count as u32 - 1) | (1 << 30)).into();
                }
                succeeded(io.write_command(write, &data)?.code)?;
                let units = at..at + count;
                if is_forced || self.keeps_power {
                    units.for_each(|unit| self.durable[unit as usize] = self.last_write);
                } else {
                    written.push((units, self.last_write));
                }
            }
            succeeded(io.command(block_command(nvm::FLUSH, 0, 1))?.code)?;
            for (units, write) in written {
                units.for_each(|unit| {
                    let durable = &mut self.durable[unit as usize];
                    *durable = write.max(*durable);
                });
            }
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn succeeded(code: u16) -> std::io::Result<()> {
    if code == 0 { Ok(()) } else { Err(std::io::Error::other(format!("status {code:#x}"))) }
}
