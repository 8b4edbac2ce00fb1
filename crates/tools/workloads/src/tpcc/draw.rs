//! TPC-C's random numbers (2.1.5, 2.1.6, 4.3.2).

use rand::{Rng, RngExt};

use super::{CUSTOMERS, ITEMS, NAMES, Tables};

/// The run's constants of the uneven distribution: any value is allowed (2.1.6.1).
const C_LAST: u64 = 157;
const C_CUSTOMER: u64 = 412;
const C_ITEM: u64 = 3849;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// One of the standard's uneven distributions.
struct Uneven {
    /// The standard's A.
    mask: u64,
    constant: u64,
    /// The range that it is defined for.
    full: u64,
}

const LAST: Uneven = Uneven { mask: 255, constant: C_LAST, full: NAMES };
const CUSTOMER: Uneven = Uneven { mask: 1023, constant: C_CUSTOMER, full: CUSTOMERS };
const ITEM: Uneven = Uneven { mask: 8191, constant: C_ITEM, full: ITEMS };

impl Uneven {
    /// One of this many numbers, starting at `low`: the standard's NURand. For a smaller range than the standard's, the
    /// mask is smaller too.
    fn draw(&self, random: &mut impl Rng, low: u64, count: u64) -> u64 {
        let bits = ((self.mask + 1) * count / self.full).max(1).ilog2();
        let mixed = random.random_range(0..1 << bits) | random.random_range(low..low + count);
        (mixed + self.constant) % count + low
    }
}

pub(super) fn customer(random: &mut impl Rng, tables: &Tables) -> u64 {
    CUSTOMER.draw(random, 1, tables.customers)
}

pub(super) fn item(random: &mut impl Rng, tables: &Tables) -> u64 {
    ITEM.draw(random, 1, tables.items)
}

/// A customer's last name, as transactions ask for it.
pub(super) fn asked_last_name(random: &mut impl Rng, tables: &Tables) -> String {
    last_name(LAST.draw(random, 0, tables.names()))
}

/// The last name of the customer of that number (4.3.3.1).
pub(super) fn last_name_of(customer: u64, random: &mut impl Rng, tables: &Tables) -> String {
    if customer <= tables.names() { last_name(customer - 1) } else { asked_last_name(random, tables) }
}

fn last_name(number: u64) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn uneven_numbers_stay_in_range_and_are_uneven_for_fewer_rows_too() {
        const DRAWS: u32 = 1_000_000;
        for (share, least) in [(1.0, 700_000), (1.0 / 16.0, 570_000), (0.001, 300_000)] {
            let (tables, mut random) = (Tables::new(1, share), Xoshiro256PlusPlus::seed_from_u64(11));
            let mut seen = vec![0u32; tables.items as usize + 1];
            for _ in 0..DRAWS {
                seen[item(&mut random, &tables) as usize] += 1;
            }
            assert_eq!(seen[0], 0);
            // with an even distribution, the most popular tenth would have a tenth
            seen.sort_unstable_by(|a, b| b.cmp(a));
            let popular: u32 = seen[..tables.items as usize / 10].iter().sum();
            assert!(popular > least, "{tables:?}: {popular}");
            assert!((0..10_000).all(|_| (1..=tables.customers).contains(&customer(&mut random, &tables))));
        }
    }

    #[test]
    fn every_name_that_is_asked_for_is_a_customers() {
        let (tables, mut random) = (Tables::new(1, 1.0 / 16.0), Xoshiro256PlusPlus::seed_from_u64(3));
        let names: Vec<String> =
            (1..=tables.customers).map(|customer| last_name_of(customer, &mut random, &tables)).collect();
        assert!((0..10_000).all(|_| names.contains(&asked_last_name(&mut random, &tables))));
    }

    #[test]
    fn names_are_made_of_syllables() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }
}
