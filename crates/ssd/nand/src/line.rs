//! The operations booked on a plane or a channel, and when the next one can begin. The caller was told when each ends,
//! so that no longer changes.
//!
//! An operation that waits for something it needs leaves a gap, which operations that are ready take.

use crate::gaps::{Gap, Gaps};
use crate::schedule::{Interval, PRIORITIES, Priority, Scheduling, When, Work};
use crate::timeline::Timeline;
use tantalum_image::Nanoseconds;

/// An operation whose end the caller was told.
#[derive(Clone, Copy, Debug)]
struct Booking<W> {
    start_ns: Nanoseconds,
    work: W,
    interrupted: u32,
}

impl<W: Work> Booking<W> {
    /// The cost of interrupting it for a read; `None` if that is impossible or gains no time.
    fn interruption_ns(
        &self,
        end_ns: Nanoseconds,
        scheduling: Scheduling,
        priority: Priority,
        work: W,
        at_ns: Nanoseconds,
    ) -> Option<Nanoseconds> {
        let Scheduling::Suspend { cost_ns, times } = scheduling else { return None };
        let is_read = priority == Priority::Read && W::INTERRUPTS;
        let gains = at_ns + cost_ns < end_ns;
        (is_read && gains && self.interrupted < times && !work.needs(self.work)).then_some(cost_ns)
    }
}

/// When an operation can have the plane.
#[derive(Clone, Copy, Debug)]
struct Opening {
    start_ns: Nanoseconds,
    /// What it interrupts, if anything: the queue, the index, and the cost that delays this operation's start.
    interrupts: Option<(usize, usize, Nanoseconds)>,
}

/// Operations of one priority that may not be over, in order of time. The first and the last answer most questions.
#[derive(Clone, Debug)]
struct Queue<W> {
    booked: Timeline<Booking<W>>,
    /// Ends at 0 if the queue is empty.
    first: Interval,
    last_end_ns: Nanoseconds,
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        Queue { booked: Timeline::default(), first: Interval::default(), last_end_ns: 0 }
    }
}

impl<W: Work> Queue<W> {
    #[inline]
    fn push(&mut self, booking: Booking<W>, end_ns: Nanoseconds) {
        let start_ns = booking.start_ns;
        if self.booked.is_empty() {
            (self.first, self.last_end_ns) = (Interval { start_ns, end_ns }, end_ns);
        }
        if start_ns < self.last_end_ns && !self.booked.is_empty() {
            return self.insert(booking, end_ns);
        }
        self.last_end_ns = end_ns;
        self.booked.push(booking, end_ns);
    }

    /// Adds an operation that took a gap.
    fn insert(&mut self, booking: Booking<W>, end_ns: Nanoseconds) {
        // by their ends: of two that begin together, the first takes no time
        let index = self.booked.index_after(booking.start_ns);
        debug_assert!(
            self.booked.get(index).is_none_or(|(next, _)| end_ns <= next.start_ns),
            "{booking:?}, until {end_ns} ns, overlaps one of its priority, booking before: {:?}",
            self.booked.get(index)
        );
        self.booked.insert(index, booking, end_ns);
        self.first = self.first_told();
    }

    /// Forgets operations that are over.
    #[inline]
    fn forget(&mut self, now_ns: Nanoseconds) {
        while self.first.end_ns <= now_ns && !self.booked.is_empty() {
            self.booked.forget_first();
            self.first = self.first_told();
        }
        debug_assert!(
            self.first_told() == self.first
                && self.booked.ends_ns().last().is_none_or(|end_ns| *end_ns == self.last_end_ns),
            "the first of {:?} is not {:?}, or the last does not end at {} ns",
            self.booked,
            self.first,
            self.last_end_ns
        );
    }

    #[inline]
    fn first_told(&self) -> Interval {
        let first = self.booked.get(0);
        first.map_or(Interval::default(), |(booking, end_ns)| Interval { start_ns: booking.start_ns, end_ns })
    }

    fn clear(&mut self) {
        *self = Queue::default();
    }

    /// The operation that is under way at a time.
    #[inline]
    fn index_under_way(&self, at_ns: Nanoseconds) -> Option<usize> {
        if at_ns < self.first.end_ns {
            return (self.first.start_ns < at_ns).then_some(0);
        }
        if self.last_end_ns <= at_ns {
            return None;
        }
        let index = self.booked.index_after(at_ns);
        (self.booked.entries().get(index)?.start_ns < at_ns).then_some(index)
    }
}

/// The operations of a plane or a channel.
#[derive(Clone, Debug)]
pub(crate) struct Line<W> {
    /// By priority: when everything booked that would not give way to an operation is over.
    free_ns: [Nanoseconds; PRIORITIES],
    /// By priority: gaps before that time.
    gaps: [Gaps; PRIORITIES],
    /// Operations that may not be over, by priority (without reads), each in order of time. Empty under `Fifo`.
    queues: [Queue<W>; Priority::YIELDING],
}

impl<W> Default for Line<W> {
    fn default() -> Line<W> {
        Line { free_ns: Default::default(), gaps: Default::default(), queues: Default::default() }
    }
}

impl<W: Work> Line<W> {
    /// When everything booked is over.
    #[inline]
    pub fn free_ns(&self) -> Nanoseconds {
        self.free_ns[Priority::Background as usize]
    }

    /// When a host's program could begin.
    #[inline]
    pub fn ready_ns(
        &self,
        scheduling: Scheduling,
        program_ns: Nanoseconds,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        let free_ns = self.free_ns();
        match scheduling {
            Scheduling::Fifo => earliest_ns.max(free_ns),
            _ if free_ns <= earliest_ns => earliest_ns,
            _ => self.opening(scheduling, Priority::Host, None, program_ns, earliest_ns).start_ns,
        }
    }

    /// Books an operation.
    #[inline]
    pub fn book(
        &mut self,
        scheduling: Scheduling,
        priority: Priority,
        work: W,
        duration_ns: Nanoseconds,
        when: When,
    ) -> Interval {
        if scheduling == Scheduling::Fifo {
            let start_ns = when.earliest_ns.max(self.free_ns());
            let end_ns = start_ns + duration_ns;
            self.free_ns = [end_ns; PRIORITIES];
            return Interval { start_ns, end_ns };
        }
        self.book_by_priority(scheduling, priority, work, duration_ns, when)
    }

    fn book_by_priority(
        &mut self,
        scheduling: Scheduling,
        priority: Priority,
        work: W,
        duration_ns: Nanoseconds,
        When { now_ns, earliest_ns, needed_ns }: When,
    ) -> Interval {
        self.queues.iter_mut().for_each(|queue| queue.forget(now_ns));
        let ready_ns = earliest_ns.max(needed_ns);
        let opening = match self.free_ns() <= ready_ns {
            true => Opening { start_ns: ready_ns, interrupts: None },
            false => self.opening(scheduling, priority, Some(work), duration_ns, ready_ns),
        };
        debug_assert!(
            ready_ns <= opening.start_ns,
            "{work:?} begins at {} ns, but is ready at {ready_ns} ns",
            opening.start_ns
        );
        let mut taken = Interval { start_ns: opening.start_ns, end_ns: opening.start_ns + duration_ns };
        self.note(priority, taken, work, opening.interrupts);
        let interval = taken;
        if let Some((_, _, cost_ns)) = opening.interrupts {
            taken.start_ns -= cost_ns;
        }
        self.occupy(priority, taken, now_ns);
        if priority == Priority::Background {
            // nothing gives way to it, so the gaps that it did not take were too short
            self.gaps[priority as usize].are_too_short(ready_ns, duration_ns, opening.start_ns);
        }
        interval
    }

    /// When an operation can first have the plane: in a gap that is long enough, or after everything that would not
    /// give way to it.
    #[inline]
    fn opening(
        &self,
        scheduling: Scheduling,
        priority: Priority,
        work: Option<W>,
        duration_ns: Nanoseconds,
        ready_ns: Nanoseconds,
    ) -> Opening {
        for gap in self.gaps[priority as usize].long_enough(ready_ns, duration_ns) {
            let opening = self.opening_from(scheduling, priority, work, gap.start_ns, ready_ns);
            if opening.start_ns + duration_ns <= gap.end_ns {
                return opening;
            }
        }
        self.opening_from(scheduling, priority, work, self.free_ns[priority as usize], ready_ns)
    }

    /// When an operation can first have the plane, if nothing as urgent is booked from `from_ns` on.
    #[inline]
    fn opening_from(
        &self,
        scheduling: Scheduling,
        priority: Priority,
        work: Option<W>,
        from_ns: Nanoseconds,
        ready_ns: Nanoseconds,
    ) -> Opening {
        // something as urgent ends at `from_ns`, and displaced whatever began before it
        if ready_ns < from_ns {
            return Opening { start_ns: from_ns, interrupts: None };
        }
        let Some((queue, index)) = self.index_under_way(priority, ready_ns) else {
            return Opening { start_ns: ready_ns, interrupts: None };
        };
        let (booking, end_ns) = self.queues[queue].booked.get(index).expect("it is under way");
        let cost_ns =
            work.and_then(|work| booking.interruption_ns(end_ns, scheduling, priority, work, ready_ns));
        match cost_ns {
            Some(cost_ns) => {
                Opening { start_ns: ready_ns + cost_ns, interrupts: Some((queue, index, cost_ns)) }
            }
            None => Opening { start_ns: end_ns, interrupts: None },
        }
    }

    /// When everything that an operation needs on a plane is done. It searches everything booked, so ask only if
    /// something on the operation's block is not done.
    pub fn needed_ns(&self, work: W) -> Nanoseconds {
        let booking =
            self.queues.iter().flat_map(|queue| queue.booked.entries().iter().zip(queue.booked.ends_ns()));
        let needed = booking.filter(|(booking, _)| work.needs(booking.work));
        needed.map(|(_, end_ns)| *end_ns).max().unwrap_or(0)
    }

    /// Power came back at `at_ns`: nothing is in flight.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        self.free_ns = [self.free_ns().min(at_ns); PRIORITIES];
        self.queues.iter_mut().for_each(Queue::clear);
        self.gaps.iter_mut().for_each(Gaps::clear);
    }

    /// Remembers an operation, unless it is a read: nothing goes ahead of reads.
    #[inline]
    fn note(
        &mut self,
        priority: Priority,
        interval: Interval,
        work: W,
        interrupts: Option<(usize, usize, Nanoseconds)>,
    ) {
        if let Some((queue, index, _)) = interrupts {
            self.queues[queue].booked.entry_mut(index).interrupted += 1;
        }
        if let Some(queue) = priority.yielding() {
            let booking = Booking { start_ns: interval.start_ns, work, interrupted: 0 };
            self.queues[queue].push(booking, interval.end_ns);
        }
    }

    /// The operation under way at a time, among those that give way until they begin: the most urgent one, which
    /// displaced the others. Ask only for a time when nothing as urgent is under way.
    fn index_under_way(&self, priority: Priority, at_ns: Nanoseconds) -> Option<(usize, usize)> {
        debug_assert!(
            priority.yielding().is_none_or(|own| self.queues[own].index_under_way(at_ns).is_none()),
            "something as urgent as {priority:?} is under way at {at_ns} ns"
        );
        // the queue of the next priority has this one's number
        let mut queues = self.queues.iter().enumerate().skip(priority as usize);
        queues.find_map(|(queue, booking)| Some((queue, booking.index_under_way(at_ns)?)))
    }

    /// Takes the plane from later bookings that are not more urgent. Less urgent ones start later by the time that the
    /// plane was not idle. A gap that would be too short for this operation is not worth remembering.
    #[inline]
    fn occupy(&mut self, priority: Priority, taken: Interval, now_ns: Nanoseconds) {
        let Interval { start_ns, end_ns } = taken;
        let duration_ns = end_ns - start_ns;
        let first = priority as usize;
        for (free_ns, gaps) in self.free_ns[first..].iter_mut().zip(&mut self.gaps[first..]) {
            if *free_ns <= start_ns {
                let gap = Gap { start_ns: now_ns.max(*free_ns), end_ns: start_ns };
                if gap.start_ns + duration_ns <= gap.end_ns {
                    gaps.push(gap, now_ns);
                }
                *free_ns = end_ns;
            } else {
                let idle_ns = gaps.take(start_ns, end_ns, now_ns);
                *free_ns = end_ns.max(*free_ns + duration_ns - idle_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Subject;
    use tantalum_image::SplitMix64;
    use tantalum_image::{BlockId, PageId};

    const SUSPEND: Scheduling = Scheduling::Suspend { cost_ns: 20, times: 2 };
    const BLOCK: BlockId = BlockId(1);
    const OTHER: BlockId = BlockId(2);

    struct Plane {
        line: Line<Subject>,
        scheduling: Scheduling,
    }

    impl Plane {
        fn new(scheduling: Scheduling) -> Plane {
            Plane { line: Line::default(), scheduling }
        }

        fn book(&mut self, priority: Priority, subject: Subject, duration_ns: u64, at_ns: u64) -> (u64, u64) {
            let when = When { now_ns: 0, earliest_ns: at_ns, needed_ns: self.line.needed_ns(subject) };
            let Interval { start_ns, end_ns } =
                self.line.book(self.scheduling, priority, subject, duration_ns, when);
            (start_ns, end_ns)
        }

        fn program(&mut self, page: u32, at_ns: u64) -> (u64, u64) {
            self.book(Priority::Host, Subject::program(PageId(page), BLOCK), 1000, at_ns)
        }

        fn copy(&mut self, page: u32, at_ns: u64) -> (u64, u64) {
            self.book(Priority::Background, Subject::program(PageId(page), OTHER), 1000, at_ns)
        }

        fn read(&mut self, page: u32, at_ns: u64) -> (u64, u64) {
            self.book(Priority::Read, Subject::read(PageId(page), BlockId(9)), 100, at_ns)
        }
    }

    #[test]
    fn first_come_is_first_served() {
        let mut plane = Plane::new(Scheduling::Fifo);
        assert_eq!(plane.copy(0, 0), (0, 1000));
        assert_eq!(plane.program(1, 10), (1000, 2000));
        assert_eq!(plane.read(90, 20), (2000, 2100));
    }

    #[test]
    fn a_read_goes_ahead_of_what_has_not_begun_and_later_programs_pay() {
        let mut plane = Plane::new(Scheduling::ReadFirst);
        assert_eq!(plane.program(1, 0), (0, 1000));
        assert_eq!(plane.program(2, 0), (1000, 2000));
        assert_eq!(plane.read(90, 500), (1000, 1100), "behind the one under way");
        assert_eq!(plane.read(91, 500), (1100, 1200), "behind the read before it");
        assert_eq!(plane.program(3, 500), (2200, 3200), "behind all, and what went ahead");
        assert_eq!(plane.read(92, 5000), (5000, 5100), "an idle plane");
        assert_eq!(plane.program(4, 0), (3200, 4200), "it was idle before that");
    }

    #[test]
    fn a_hosts_program_goes_ahead_of_copies_that_have_not_begun() {
        let mut plane = Plane::new(Scheduling::ReadFirst);
        assert_eq!(
            [plane.copy(1, 0), plane.copy(2, 0), plane.copy(3, 0)].map(|booking| booking.1),
            [1000, 2000, 3000]
        );
        assert_eq!(plane.program(11, 100), (1000, 2000));
        assert_eq!(plane.copy(4, 100), (4000, 5000), "copies pay");
        assert_eq!(plane.line.ready_ns(plane.scheduling, 1000, 100), 2000);
        assert_eq!(plane.line.free_ns(), 5000);
    }

    #[test]
    fn nothing_goes_ahead_of_what_it_needs() {
        let mut plane = Plane::new(SUSPEND);
        assert_eq!(plane.copy(1, 0), (0, 1000));
        let erased = plane.book(Priority::Background, Subject::erase(BLOCK), 5000, 0);
        assert_eq!(erased, (1000, 6000));
        assert_eq!(plane.program(1, 0), (6000, 7000), "the block's erase");
        assert_eq!(plane.read(1, 0).0, 7000, "the page's program");
        assert_eq!(plane.read(90, 7000).0, 7100, "reads follow each other");
        assert_eq!(plane.read(91, 0).0, 0, "and do not wait for one that cannot begin");
        let mut plane = Plane::new(SUSPEND);
        plane.program(1, 0);
        assert_eq!(plane.read(1, 500).0, 1000, "a program is not interrupted for what it programs");
    }

    #[test]
    fn a_read_interrupts_what_is_under_way_so_many_times() {
        let mut plane = Plane::new(SUSPEND);
        assert_eq!(plane.program(1, 0), (0, 1000));
        assert_eq!(plane.read(90, 100), (120, 220));
        assert_eq!(plane.read(91, 300), (320, 420));
        assert_eq!(plane.read(92, 500), (1000, 1100), "twice is enough");
        assert_eq!(plane.program(2, 500), (1340, 2340), "three reads and two interruptions");
        assert_eq!(plane.read(93, 2330), (2340, 2440), "it is nearly done");
    }

    /// An erase waits for the copies that freed its block. Until then the plane has time for others.
    #[test]
    fn what_cannot_begin_leaves_its_plane_to_others() {
        let mut plane = Plane::new(Scheduling::ReadFirst);
        let erased = plane.book(Priority::Host, Subject::erase(OTHER), 5000, 50_000);
        assert_eq!(erased, (50_000, 55_000));
        assert_eq!(plane.line.ready_ns(plane.scheduling, 1000, 10), 10);
        assert_eq!(plane.program(1, 10), (10, 1010));
        assert_eq!(plane.copy(2, 0), (55_000, 56_000), "on the block that is erased");
        let copied = plane.book(Priority::Background, Subject::program(PageId(3), BlockId(3)), 1000, 0);
        assert_eq!(copied, (1010, 2010), "behind the program");
        assert_eq!(plane.program(4, 1500), (2010, 3010), "the copy is under way");
        assert_eq!(plane.program(5, 49_500), (55_000, 56_000), "no room before the erase");
        assert_eq!(plane.line.free_ns(), 57_000, "the copy behind the erase pays for the last program only");
    }

    /// Compared with a plane that is booked nanosecond by nanosecond.
    #[test]
    fn an_operation_takes_the_first_time_that_is_long_enough() {
        for (seed, priority) in (0..400).zip([Priority::Host, Priority::Background].into_iter().cycle()) {
            let mut random = SplitMix64(seed);
            let mut plane = Plane::new(Scheduling::ReadFirst);
            let (mut taken, mut now_ns) = (vec![false; 60_000], 0);
            for step in 0..200 {
                now_ns += random.below(20);
                let ready_ns = now_ns + random.below(2) * random.below(3000);
                let is_free = |start: &usize| taken[*start..*start + 30].iter().all(|taken| !taken);
                let expected = (ready_ns as usize..).find(is_free).unwrap();
                taken[expected..expected + 30].fill(true);
                let (when, subject) = (
                    When { now_ns, earliest_ns: ready_ns, needed_ns: 0 },
                    Subject::program(PageId(step), BLOCK),
                );
                let asked_ns = plane.line.ready_ns(plane.scheduling, 30, ready_ns);
                let booked = plane.line.book(plane.scheduling, priority, subject, 30, when);
                assert_eq!(booked.start_ns, expected as u64, "seed {seed}, operation {step}, {priority:?}");
                assert!(asked_ns == booked.start_ns || priority != Priority::Host);
            }
        }
    }

    #[test]
    fn the_plane_is_never_promised_more_time_than_there_is() {
        let mut plane = Plane::new(SUSPEND);
        let mut at_ns = 0;
        let mut busy_ns = 0;
        for round in 0..10_000_u32 {
            at_ns += u64::from(round % 7) * 90;
            busy_ns += match round % 3 {
                0 => plane.read(1_000_000 + round, at_ns).1 - plane.read(2_000_000 + round, at_ns).0 + 200,
                1 => plane.program(round, at_ns).1.min(1000),
                _ => plane.copy(round, at_ns).1.min(1000),
            };
        }
        assert!(plane.line.free_ns() >= busy_ns - 10_000, "{} {busy_ns}", plane.line.free_ns());
    }

    #[test]
    fn after_a_restart_nothing_is_going_on() {
        let mut plane = Plane::new(SUSPEND);
        plane.program(1, 0);
        plane.copy(2, 0);
        plane.line.restart(500);
        assert_eq!((plane.line.free_ns(), plane.read(1, 0)), (500, (500, 600)));
    }
}
