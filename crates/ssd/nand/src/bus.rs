//! When data cross a path that carries one piece at a time: a channel, or the link to the host.
//!
//! - Data cross when they are ready. Data that are ready later, because their plane is still busy, do not hold up data
//!   that are ready now, even if they were booked first: others take the gap until then.
//! - A transfer that is too long for a gap crosses in pieces, as packets and frames do.
//! - Once the caller was told when a transfer ends, that does not change.

use crate::gaps::{Gap, Gaps};
use tantalum_image::Nanoseconds;

/// A path, and what has been booked on it.
#[derive(Clone, Default, Debug)]
pub struct Bus {
    /// When the last transfer is over.
    free_ns: Nanoseconds,
    /// Gaps before that.
    gaps: Gaps,
}

impl Bus {
    /// Carries data that are ready at `ready_ns` and take `duration_ns`. Returns when the last of them have crossed.
    /// Gaps before `now_ns` may be forgotten from now on.
    #[inline]
    pub fn carry(
        &mut self,
        ready_ns: Nanoseconds,
        duration_ns: Nanoseconds,
        now_ns: Nanoseconds,
    ) -> Nanoseconds {
        if ready_ns < self.free_ns {
            let end_ns = self.carry_in_gaps(ready_ns, duration_ns, now_ns);
            debug_assert!(
                ready_ns + duration_ns <= end_ns,
                "{duration_ns} ns of data, ready at {ready_ns} ns, have crossed at {end_ns} ns"
            );
            return end_ns;
        }
        self.gaps.push(Gap { start_ns: self.free_ns.max(now_ns), end_ns: ready_ns }, now_ns);
        self.free_ns = ready_ns + duration_ns;
        self.free_ns
    }

    fn carry_in_gaps(
        &mut self,
        ready_ns: Nanoseconds,
        duration_ns: Nanoseconds,
        now_ns: Nanoseconds,
    ) -> Nanoseconds {
        if duration_ns == 0 {
            return ready_ns;
        }
        let (end_ns, missing_ns) = self.gaps.take_first(ready_ns, duration_ns, now_ns);
        if missing_ns == 0 {
            return end_ns;
        }
        self.free_ns += missing_ns;
        self.free_ns
    }

    /// Power came back at `at_ns`: nothing is under way.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        self.free_ns = self.free_ns.min(at_ns);
        self.gaps.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tantalum_image::SplitMix64;

    #[test]
    fn data_that_are_ready_do_not_wait_for_data_that_are_not() {
        let mut bus = Bus::default();
        assert_eq!(bus.carry(5_000, 10, 0), 5_010, "a plane still works on these");
        assert_eq!(bus.carry(100, 10, 0), 110);
        assert_eq!(bus.carry(100, 10, 0), 120, "the path is taken");
        assert_eq!(bus.carry(50, 10, 0), 60, "in the gap before");
        assert_eq!(bus.carry(5_000, 10, 0), 5_020);
        assert_eq!(bus.carry(5_030, 10, 0), 5_040);
        assert_eq!(bus.carry(5_015, 10, 0), 5_030, "exactly in the gap");
    }

    #[test]
    fn a_transfer_takes_several_gaps_if_one_is_too_short() {
        let mut bus = Bus::default();
        for ready_ns in [100, 200, 300] {
            assert_eq!(bus.carry(ready_ns, 10, 0), ready_ns + 10);
        }
        assert_eq!(bus.carry(150, 200, 0), 370, "50 before 200, 90 before 300, 60 after 310");
        assert_eq!(bus.carry(105, 30, 0), 140);
        assert_eq!(bus.carry(105, 30, 0), 390, "10 before 150, nothing more before the end");
    }

    #[test]
    fn nothing_to_carry_waits_for_nothing() {
        let mut bus = Bus::default();
        assert_eq!(bus.carry(100, 50, 0), 150);
        assert_eq!(bus.carry(120, 0, 0), 120);
        assert_eq!(bus.carry(200, 0, 0), 200);
        assert_eq!(bus.carry(10, 150, 0), 210, "90 before 100, 50 before 200");
    }

    #[test]
    fn the_past_is_no_gap() {
        let mut bus = Bus::default();
        for number in 1..=10 {
            bus.carry(number * 1000, 10, number * 1000 - 5);
        }
        let gaps = |bus: &Bus| bus.gaps.after(0).collect::<Vec<Gap>>();
        assert_eq!(gaps(&bus), [Gap { start_ns: 9995, end_ns: 10_000 }]);
        bus.restart(5000);
        assert_eq!(bus.carry(5000, 10, 5000), 5010);
        assert_eq!(gaps(&bus), []);
    }

    /// Compared with a path that is booked nanosecond by nanosecond.
    #[test]
    fn each_nanosecond_carries_one_transfer_and_the_first_free_one_is_taken() {
        for seed in 0..200 {
            let mut random = SplitMix64(seed);
            let (mut bus, mut taken, mut now_ns) = (Bus::default(), vec![false; 40_000], 0);
            for step in 0..300 {
                now_ns += random.below(20);
                let ready_ns = now_ns + random.below(2) * random.below(1000);
                let duration_ns = random.below(30);
                let free = (ready_ns as usize..).filter(|at| !taken[*at]);
                let nanoseconds: Vec<usize> = free.take(duration_ns as usize).collect();
                let expected_ns = nanoseconds.last().map_or(ready_ns, |last| *last as u64 + 1);
                nanoseconds.into_iter().for_each(|at| taken[at] = true);
                let done_ns = bus.carry(ready_ns, duration_ns, now_ns);
                assert_eq!(done_ns, expected_ns, "seed {seed}, transfer {step}");
            }
        }
    }
}
