//! Seeded random numbers that are the same in every version of this program, so that a seed that showed a fault shows it
//! again.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
#[derive(Clone, Default, Debug)]
pub struct SplitMix64(pub u64);

const INCREMENT: u64 = 0x9E37_79B9_7F4A_7C15;

impl SplitMix64 {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(INCREMENT);
        number
    }

    /// The next number, below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }
}

/// What SplitMix64 draws with the seed `value`: similar seeds give very different numbers.
pub fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(INCREMENT);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the authors' own program for the seed 1234567.
    #[test]
    fn the_numbers_are_those_of_everybody_s() {
        let mut random = SplitMix64(1_234_567);
        let drawn = [(); 3].map(|()| random.next_u64());
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
