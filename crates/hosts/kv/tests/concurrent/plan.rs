//! The work of the threads. It is drawn from a seed, and can be reduced.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub type Random = Xoshiro256PlusPlus;

/// Keys of most operations: few, so that transactions meet.
pub const KEYS: u32 = 60;

/// Keys with large values, which fill the drive.
pub const LARGE: u32 = 70;

/// Keys that a large transaction changes at once.
pub const BULK: u32 = 1100;

/// One end of a range: a key's number, and 0: the key is in it, 1: it is not, 2: no end.
pub type End = (u32, u8);

#[derive(Clone, Debug)]
pub enum Op {
    Read(u32),
    ReadForUpdate(u32),
    Put(u32, usize),
    Delete(u32),
    PutLarge(u32, usize),
    DeleteLarge(u32),
    PutBulk,
    DeleteBulk,
    Scan {
        from: End,
        to: End,
        backwards: bool,
        limit: usize,
        for_update: bool,
    },
    /// All keys that begin with the first bytes of this one.
    Prefix(u32, usize),
}

#[derive(Clone, Debug)]
pub struct Planned {
    pub ops: Vec<Op>,
    pub commits: bool,
}

/// Until power fails, or the store is closed and reopened.
#[derive(Clone, Debug)]
pub struct Life {
    /// Flash operations until power fails.
    pub cut_after: Option<u64>,
    pub threads: Vec<Vec<Planned>>,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub lives: Vec<Life>,
}

/// The key of a number: prefixes of each other, the least and greatest bytes, up to 1,024 of them.
pub fn key(number: u32) -> Vec<u8> {
    let count = number as usize / 4;
    match number % 4 {
        0 => vec![0xff; 1 + count * 68],
        1 => vec![0; 1 + count * 68],
        2 => [&[b'x'; 1020][..], &(count as u32).to_be_bytes()].concat(),
        _ => format!("key {count}").into_bytes(),
    }
}

pub fn large_key(number: u32) -> Vec<u8> {
    format!("large/{number}").into_bytes()
}

pub fn bulk_key(number: u32) -> Vec<u8> {
    format!("bulk/{number:05}").into_bytes()
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut random = Random::seed_from_u64(seed);
        // one in four fills its drive
        let fills = seed % 4 == 3;
        let life = |number: u64, random: &mut Random| Life {
            // a drive is not filled in a short life
            cut_after: (number < if fills { 1 } else { 3 }).then(|| random.random_range(20..400)),
            threads: (0..4).map(|_| (0..60).map(|_| planned(fills, random)).collect()).collect(),
        };
        Plan { seed, lives: (0..4).map(|number| life(number, &mut random)).collect() }
    }

    pub fn transactions(&self) -> usize {
        self.lives.iter().flat_map(|life| &life.threads).map(Vec::len).sum()
    }
}

fn planned(fills: bool, random: &mut Random) -> Planned {
    let count = match random.random_range(0..12) {
        0 => random.random_range(20..60),
        _ => random.random_range(1..6),
    };
    Planned { ops: (0..count).map(|_| op(fills, random)).collect(), commits: random.random_range(0..10) > 0 }
}

fn op(fills: bool, random: &mut Random) -> Op {
    let number = random.random_range(0..KEYS);
    match random.random_range(0..100) {
        0..18 => Op::Read(number),
        18..24 => Op::ReadForUpdate(number),
        24..50 => Op::Put(number, [20, 300, 5000][random.random_range(0..3)]),
        50..58 if fills => Op::PutLarge(random.random_range(0..LARGE), random.random_range(200_000..700_000)),
        50..66 => Op::Delete(number),
        66..67 if fills => Op::DeleteLarge(random.random_range(0..LARGE)),
        70..71 => Op::PutBulk,
        71..72 => Op::DeleteBulk,
        72..82 => Op::Prefix(number, random.random_range(0..4)),
        _ => {
            let mut end = || (random.random_range(0..KEYS), random.random_range(0..3));
            let (from, to) = (end(), end());
            let limit = [1, 5, 40, usize::MAX][random.random_range(0..4)];
            let (backwards, for_update) = (random.random(), random.random_range(0..4) == 0);
            Op::Scan { from, to, backwards, limit, for_update }
        }
    }
}
