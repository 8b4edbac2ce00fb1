//! TPC-C's random numbers (2.1.5, 2.1.6, 4.3.2).

use rand::{Rng, RngExt};

use super::{CUSTOMERS, ITEMS};

/// The run's constants of the uneven distribution: any value will do (2.1.6.1).
const C_LAST: u64 = 157;
const C_CUSTOMER: u64 = 412;
const C_ITEM: u64 = 3849;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// An uneven number from `low` to `high`: NURand of the standard.
fn uneven(random: &mut impl Rng, mask: u64, constant: u64, low: u64, high: u64) -> u64 {
    let mixed = random.random_range(0..=mask) | random.random_range(low..=high);
    (mixed + constant) % (high - low + 1) + low
}

pub(super) fn customer(random: &mut impl Rng) -> u64 {
    uneven(random, 1023, C_CUSTOMER, 1, CUSTOMERS)
}

pub(super) fn item(random: &mut impl Rng) -> u64 {
    uneven(random, 8191, C_ITEM, 1, ITEMS)
}

/// A customer's last name, as transactions ask for it.
pub(super) fn asked_last_name(random: &mut impl Rng) -> String {
    last_name(uneven(random, 255, C_LAST, 0, 999))
}

/// The last name of the customer of that number (4.3.3.1).
pub(super) fn last_name_of(customer: u64, random: &mut impl Rng) -> String {
    if customer <= 1000 { last_name(customer - 1) } else { asked_last_name(random) }
}

fn last_name(number: u64) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn uneven_numbers_stay_in_range_and_are_uneven() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
        let mut seen = vec![0u32; ITEMS as usize + 1];
        for _ in 0..1_000_000 {
            seen[item(&mut random) as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        // evenly, the most popular tenth would have a tenth
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let popular: u32 = seen[..ITEMS as usize / 10].iter().sum();
        assert!(popular > 300_000, "{popular}");
        assert!((0..10_000).all(|_| (1..=CUSTOMERS).contains(&customer(&mut random))));
    }

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }
}
