//! Write amplification as theory has it, for drives with many blocks.
//!
//! `a` is the flash that holds data over the logical capacity: 1 and the over-provisioning. All models have the flash in steady
//! state and collect a block as soon as one is needed.

/// How a share of the units is written.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Its part of all units.
    pub units: f64,
    /// Its part of all writes.
    pub writes: f64,
}

/// Uniform overwrites.
pub const UNIFORM: [Class; 1] = [Class { units: 1.0, writes: 1.0 }];

/// Halvings of an interval: as many as a float has bits.
const HALVINGS: u32 = 60;

/// Where a function that grows passes zero.
fn root(mut low: f64, mut high: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        if function(middle) < 0.0 { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// Blocks are collected in the order in which they were filled. A unit is rewritten by collection if nobody overwrote it while
/// `a / A` times the logical capacity was written, so class c is written `w / (1 - exp(-w a / (u A)))` times for each host's write.
/// With one class this is `A = a / (a + W(-a exp(-a)))`, W being Lambert's function, which is also the limit of greedy
/// collection of uniform overwrites (Desnoyers, SYSTOR 2012; Xiang and Kurkoski, 2012).
pub fn fifo(a: f64, classes: &[Class]) -> f64 {
    let written = |amplification: f64| {
        let of_class =
            |class: &Class| class.writes / -(-class.writes * a / (class.units * amplification)).exp_m1();
        classes.iter().map(of_class).sum::<f64>()
    };
    root(1.0, 1e6, |amplification| amplification - written(amplification))
}

/// Greedy collection of uniform overwrites, for blocks of `units` units. The smaller they are, the more they differ, and the less
/// is moved.
pub fn greedy(a: f64, units: u32) -> f64 {
    d_choices(a, units, 1 << 16)
}

/// The block with the fewest valid units of `d` random ones that hold garbage, under uniform overwrites: the fixed point of the
/// mean-field model (Van Houdt, SIGMETRICS 2013), for blocks of `units` units.
///
/// Let M(i) be the share of blocks with at most i valid units. For each block that is collected, `(M(i) - M(i-1)) c i` blocks lose
/// their ith valid unit. In steady state those are as many as are collected with fewer, `1 - (1 - M(i-1) / M(units-1))^d`; c
/// follows from the mean number of valid units. The paper's model also draws blocks without garbage.
pub fn d_choices(a: f64, units: u32, d: u32) -> f64 {
    let mean_valid = f64::from(units) / a;
    // the more is overwritten while a block is collected, the fewer units are valid
    let c = root(1.0 / f64::from(units), 1e3, |c| mean_valid - mean_units(c, units, d));
    a / c
}

/// The mean number of valid units of a block.
fn mean_units(c: f64, units: u32, d: u32) -> f64 {
    let with_garbage = 1.0 - 1.0 / (c * f64::from(units));
    let mut share = with_garbage;
    let mut mean = 1.0 - share;
    for i in (1..units).rev() {
        let above = share;
        let rate = c * f64::from(i);
        let collected = |below: f64| 1.0 - (1.0 - below / with_garbage).powi(d as i32);
        share = root(0.0, above, |below| below + collected(below) / rate - above);
        mean += 1.0 - share;
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(ours: f64, expected: f64) -> bool {
        (ours / expected - 1.0).abs() < 0.003
    }

    #[test]
    fn fifo_is_the_closed_form() {
        for (a, expected) in [(1.07, 7.82), (1.125, 4.68), (1.28, 2.48), (1.5, 1.72)] {
            assert!(is_near(fifo(a, &UNIFORM), expected), "{}", fifo(a, &UNIFORM));
        }
        // two classes that are written alike are one
        let alike = [Class { units: 0.3, writes: 0.3 }, Class { units: 0.7, writes: 0.7 }];
        assert!(is_near(fifo(1.07, &alike), fifo(1.07, &UNIFORM)));
    }

    #[test]
    fn of_large_blocks_one_choice_is_random_and_many_are_greedy() {
        for a in [1.07, 1.28, 1.5] {
            let one = d_choices(a, 4096, 1);
            assert!((one / (a / (a - 1.0)) - 1.0).abs() < 0.01, "{one}");
            let (greedy, limit) = (greedy(a, 4096), fifo(a, &UNIFORM));
            assert!((greedy / limit - 1.0).abs() < 0.01, "{greedy} {limit}");
        }
    }

    /// A block of one unit has either garbage and nothing else, or none.
    #[test]
    fn blocks_of_one_unit_move_nothing() {
        assert!(is_near(greedy(1.1, 1), 1.0), "{}", greedy(1.1, 1));
    }
}
