//! YCSB's core workloads A to F (Cooper et al., SoCC 2010): which operations are done how often, and on which records.
//!
//! Keys follow Zipf's distribution with the exponent 0.99, spread over the records, or prefer the latest (D). This is
//! the only place that defines this: `MariaDbClient` executes the operations over MariaDB's protocol, `kaml` turns
//! them into accesses to records, and the comparison of embedded stores does them on each store.

#[cfg(feature = "servers")]
mod mariadb;

use rand::Rng;

#[cfg(feature = "servers")]
pub use mariadb::{DATABASE, MariaDbClient, load};

use crate::distributions::{Mix, Shuffle, Zipf};

const EXPONENT: f64 = 0.99;

/// The operation on a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// The record is read.
    Read,
    /// It is written without reading it.
    Update,
    /// A new record is inserted.
    Insert,
    /// It and some of its successors are read.
    Scan,
    /// It is read, and then written.
    ReadModifyWrite,
}

impl Operation {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Operation; 5] =
        [Operation::Read, Operation::Update, Operation::Insert, Operation::Scan, Operation::ReadModifyWrite];
}

/// One of the six.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Workload {
    /// Reads and updates, half each.
    A,
    /// 95 % reads, 5 % updates.
    B,
    /// Reads.
    C,
    /// 95 % reads of the latest, 5 % inserts.
    D,
    /// 95 % scans, 5 % inserts.
    E,
    /// Reads and read-modify-writes, half each.
    F,
}

impl Workload {
    /// All workloads.
    pub const ALL: [Workload; 6] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::E, Workload::F];

    /// Its letter, in lower case.
    pub fn letter(self) -> char {
        match self {
            Workload::A => 'a',
            Workload::B => 'b',
            Workload::C => 'c',
            Workload::D => 'd',
            Workload::E => 'e',
            Workload::F => 'f',
        }
    }

    /// Percent of each operation, in the order of [`Operation::ALL`].
    fn shares(self) -> [f64; Operation::ALL.len()] {
        match self {
            Workload::A => [50.0, 50.0, 0.0, 0.0, 0.0],
            Workload::B => [95.0, 5.0, 0.0, 0.0, 0.0],
            Workload::C => [100.0, 0.0, 0.0, 0.0, 0.0],
            Workload::D => [95.0, 0.0, 5.0, 0.0, 0.0],
            Workload::E => [0.0, 0.0, 5.0, 95.0, 0.0],
            Workload::F => [50.0, 0.0, 0.0, 0.0, 50.0],
        }
    }
}

/// Draws operations and records. Clients share one, or have one each.
#[derive(Clone, Debug)]
pub struct Draws {
    workload: Workload,
    mix: Mix,
    zipf: Zipf,
    shuffle: Shuffle,
}

impl Draws {
    /// Draws from a table that was loaded with this many records; at least one.
    pub fn new(workload: Workload, loaded: u64) -> Draws {
        Draws {
            workload,
            mix: Mix::new(workload.shares()),
            zipf: Zipf::new(loaded, EXPONENT),
            shuffle: Shuffle::new(loaded),
        }
    }

    /// The next operation.
    pub fn operation(&self, random: &mut impl Rng) -> Operation {
        Operation::ALL[self.mix.draw(random)]
    }

    /// The record of an operation other than an insert, from 0; `records` exist at this time.
    pub fn record(&self, records: u64, random: &mut impl Rng) -> u64 {
        let rank = self.zipf.draw(random);
        match self.workload {
            Workload::D => records.saturating_sub(rank),
            _ => self.shuffle.of(rank) - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn workloads_have_their_shares() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        for workload in Workload::ALL {
            assert_eq!(workload.shares().iter().sum::<f64>(), 100.0);
            let draws = Draws::new(workload, 1000);
            let mut seen = [0.0; Operation::ALL.len()];
            (0..50_000).for_each(|_| seen[draws.operation(&mut random) as usize] += 0.002);
            for (seen, share) in seen.iter().zip(workload.shares()) {
                assert!((seen - share).abs() < 1.0, "{workload:?}: {seen} instead of {share}");
            }
        }
    }

    #[test]
    fn few_records_are_chosen_often_and_all_are_there() {
        let (mut random, draws) = (Xoshiro256PlusPlus::seed_from_u64(1), Draws::new(Workload::A, 1000));
        let mut counts = [0; 1000];
        (0..100_000).for_each(|_| counts[draws.record(1000, &mut random) as usize] += 1);
        counts.sort_unstable();
        let tenth: u32 = counts[900..].iter().sum();
        assert!(
            (50_000..90_000).contains(&tenth),
            "a tenth of the records is chosen {tenth} times of 100,000"
        );
        assert!(counts[0] > 0, "a record is never chosen");
    }

    #[test]
    fn the_latest_records_are_the_most_popular_in_d() {
        let (mut random, draws) = (Xoshiro256PlusPlus::seed_from_u64(1), Draws::new(Workload::D, 1000));
        let latest = (0..1000).filter(|_| draws.record(5000, &mut random) >= 4900).count();
        assert!(latest > 500, "{latest} of 1000 are among the latest 100");
        assert!((0..1000).all(|_| draws.record(1000, &mut random) < 1000));
    }
}
