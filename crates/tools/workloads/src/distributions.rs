//! Random distributions of the benchmarks.

use rand::{Rng, RngExt};

/// Terms of the zeta function that are summed one by one; the rest is an integral.
const SUMMED: u64 = 10_000;

/// Zipf's distribution over 1 to `n`, the exponent below 1: rank k with a probability of k^-exponent.
///
/// Drawn as in Gray et al., "Quickly Generating Billion-Record Synthetic Databases" (SIGMOD 1994), which both LinkBench
/// and YCSB use.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    n: u64,
    exponent: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks 1 to `n`, from 1; the exponent is at least 0 and below 1.
    pub fn new(n: u64, exponent: f64) -> Zipf {
        assert!(n > 0 && (0.0..1.0).contains(&exponent), "{n} ranks, exponent {exponent}");
        let zeta_of_n = zeta(n, exponent);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - exponent)) / (1.0 - zeta(2, exponent) / zeta_of_n);
        Zipf { n, exponent, zeta: zeta_of_n, eta }
    }

    /// A rank, from 1.
    pub fn draw(&self, random: &mut impl Rng) -> u64 {
        let share: f64 = random.random();
        let scaled = share * self.zeta;
        if scaled < 1.0 {
            return 1;
        }
        if self.n > 1 && scaled < 1.0 + 0.5f64.powf(self.exponent) {
            return 2;
        }
        let rank = (self.eta * share - self.eta + 1.0).powf(1.0 / (1.0 - self.exponent));
        1 + ((self.n as f64 * rank) as u64).min(self.n - 1)
    }
}

fn zeta(n: u64, exponent: f64) -> f64 {
    let summed: f64 = (1..=n.min(SUMMED)).map(|rank| (rank as f64).powf(-exponent)).sum();
    if n <= SUMMED {
        return summed;
    }
    let integral = |to: f64| to.powf(1.0 - exponent) / (1.0 - exponent);
    summed + integral(n as f64 + 0.5) - integral(SUMMED as f64 + 0.5)
}

/// Permutes the numbers 1 to `n` so that neighbours end up far apart.
#[derive(Clone, Copy, Debug)]
pub struct Shuffle {
    n: u64,
    factor: u64,
}

impl Shuffle {
    /// One of the numbers 1 to `n`.
    pub fn new(n: u64) -> Shuffle {
        let common = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // near the golden section of n, and without a common factor
        let near = (n as f64 * 0.618_034) as u64;
        let factor = (near.max(1)..).find(|factor| common(*factor, n) == 1).expect("a prime comes");
        Shuffle { n, factor }
    }

    /// The image of a number from 1 to `n`.
    pub fn of(&self, number: u64) -> u64 {
        1 + ((u128::from(number) * u128::from(self.factor)) % u128::from(self.n)) as u64
    }
}

/// The number of trials up to the first success, each with that probability: 1, 2, and so on.
pub fn geometric(random: &mut impl Rng, probability: f64, most: u64) -> u64 {
    let share: f64 = random.random();
    (1 + ((1.0 - share).ln() / (1.0 - probability).ln()) as u64).min(most)
}

/// A log-normal number with this median and this standard deviation of the logarithm.
pub fn log_normal(random: &mut impl Rng, median: f64, deviation: f64) -> f64 {
    let (first, second): (f64, f64) = (random.random(), random.random());
    let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    median * (deviation * normal).exp()
}

/// Which of several kinds, each with its weight.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Sums of the weights up to each kind.
    sums: Vec<f64>,
}

impl Mix {
    /// Kinds with these weights, which need not add up to 1.
    pub fn new(weights: impl IntoIterator<Item = f64>) -> Mix {
        let sums = weights.into_iter().scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        });
        Mix { sums: sums.collect() }
    }

    /// The number of a kind, from 0.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        let total = *self.sums.last().expect("there is a kind");
        let at = random.random::<f64>() * total;
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1)
    }
}

/// Printable bytes without quotes or backslashes, which can be part of a statement.
pub fn text(random: &mut impl Rng, bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    (0..bytes).map(|_| char::from(LETTERS[random.random_range(0..LETTERS.len())])).collect()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    const DRAWS: usize = 200_000;

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(7)
    }

    #[test]
    fn zipf_has_its_probabilities() {
        let mut random = random();
        for (n, exponent) in [(1000, 0.8), (1000, 0.606), (50_000, 0.99)] {
            let zipf = Zipf::new(n, exponent);
            let mut seen = vec![0u32; n as usize + 1];
            (0..DRAWS).for_each(|_| seen[zipf.draw(&mut random) as usize] += 1);
            assert_eq!(seen[0], 0);
            let sum: f64 = (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum();
            let expected = |ranks: std::ops::RangeInclusive<u64>| {
                ranks.map(|rank| (rank as f64).powf(-exponent)).sum::<f64>() / sum
            };
            let share = |ranks: std::ops::RangeInclusive<u64>| {
                ranks.map(|rank| f64::from(seen[rank as usize])).sum::<f64>() / DRAWS as f64
            };
            for ranks in [1..=1, 2..=2, 1..=n / 10, 1..=n / 2] {
                let (expected, share) = (expected(ranks.clone()), share(ranks.clone()));
                assert!((share - expected).abs() < 0.02, "{n} {exponent} {ranks:?}: {share} {expected}");
            }
        }
    }

    #[test]
    fn a_long_zeta_is_right_without_all_its_terms() {
        let all: f64 = (1..=100_000u64).map(|rank| (rank as f64).powf(-0.8)).sum();
        assert!((zeta(100_000, 0.8) / all - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_shuffle_leaves_nobody_out() {
        for n in [1, 2, 10, 1000, 4096] {
            let shuffle = Shuffle::new(n);
            let mut seen: Vec<u64> = (1..=n).map(|number| shuffle.of(number)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(1..=n), "{n}");
        }
    }

    #[test]
    fn geometric_and_log_normal_have_their_means() {
        let mut random = random();
        let mean: f64 =
            (0..DRAWS).map(|_| geometric(&mut random, 0.382, 128) as f64).sum::<f64>() / DRAWS as f64;
        assert!((mean - 1.0 / 0.382).abs() < 0.05, "{mean}");
        let mut sizes: Vec<f64> = (0..DRAWS).map(|_| log_normal(&mut random, 128.0, 1.0)).collect();
        sizes.sort_by(f64::total_cmp);
        assert!((sizes[DRAWS / 2] / 128.0 - 1.0).abs() < 0.03, "{}", sizes[DRAWS / 2]);
    }

    #[test]
    fn a_mix_has_its_shares() {
        let (mut random, mix) = (random(), Mix::new([50.0, 0.0, 30.0, 20.0]));
        let mut seen = [0.0; 4];
        (0..DRAWS).for_each(|_| seen[mix.draw(&mut random)] += 100.0 / DRAWS as f64);
        for (seen, expected) in seen.iter().zip([50.0, 0.0, 30.0, 20.0]) {
            assert!((seen - expected).abs() < 0.5, "{seen} {expected}");
        }
    }
}
