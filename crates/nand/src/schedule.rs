//! Who goes first on a plane or a channel.
//!
//! An end that was told stays told. What goes ahead of an operation is paid for by those that are booked after it: they
//! start later by as much. So the told intervals of two operations of different priority may overlap; those of one priority,
//! of one block, and of a page's program and its read never do.

use std::collections::VecDeque;

use crate::geometry::{BlockId, Nanoseconds, PageId};

/// How the operations of a plane follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fifo,
    /// By [`Priority`]: a read goes ahead of programs and erases that have not begun, and so do the host's programs of
    /// those of garbage collection.
    ReadFirst,
    /// The same, and a read interrupts a program or an erase that has begun, and that at most `times` times. Each costs it
    /// `cost_ns` more, which the read waits for.
    Suspend {
        /// Of an interruption.
        cost_ns: Nanoseconds,
        /// The most interruptions of one operation.
        times: u32,
    },
}

/// Whose operation it is; the most urgent is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// A read that a host waits for.
    Read,
    /// What a host's command programs, and erases: a block is erased when it is needed.
    Host,
    /// Garbage collection and checkpoints.
    Background,
}

const PRIORITIES: usize = 3;

impl Priority {
    /// Those that others may go ahead of, the most urgent first: all but reads.
    const YIELDING: usize = PRIORITIES - 1;

    /// Its index among those; none for a read.
    fn yielding(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }
}

/// What an operation is about. Two words, so that it is handed over in registers: what is stored in pieces and loaded whole
/// waits until the stores of the page that was just copied have drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Subject {
    kind: Kind,
    /// The page in the upper half, its block in the lower one.
    place: u64,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A page is read.
    Read,
    /// A page is programmed.
    Program,
    /// A block is erased.
    Erase,
    /// Bytes cross a channel.
    Transfer,
}

impl Subject {
    pub const TRANSFER: Subject = Subject { kind: Kind::Transfer, place: 0 };

    #[inline]
    pub fn read(page: PageId, block: BlockId) -> Subject {
        Subject { kind: Kind::Read, place: u64::from(page.0) << 32 | u64::from(block.0) }
    }

    #[inline]
    pub fn program(page: PageId, block: BlockId) -> Subject {
        Subject { kind: Kind::Program, ..Subject::read(page, block) }
    }

    #[inline]
    pub fn erase(block: BlockId) -> Subject {
        Subject { kind: Kind::Erase, place: block.0.into() }
    }

    #[inline]
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// The block that it reads or changes; of a transfer, none that counts.
    #[inline]
    pub fn block(self) -> BlockId {
        BlockId(self.place as u32)
    }

    /// Whether it reads or changes a block.
    #[inline]
    pub fn is_about(self, block: BlockId) -> bool {
        self.kind != Kind::Transfer && self.block() == block
    }

    /// The block that it changes.
    #[inline]
    pub fn changed(self) -> Option<BlockId> {
        matches!(self.kind, Kind::Program | Kind::Erase).then(|| self.block())
    }

    /// Whether this cannot begin before another operation on the plane is done.
    fn needs(self, other: Subject) -> bool {
        match (self.kind, other.kind) {
            (Kind::Transfer, _) | (_, Kind::Read | Kind::Transfer) => false,
            (Kind::Read, Kind::Program) => self.place >> 32 == other.place >> 32,
            _ => self.block() == other.block(),
        }
    }
}

/// When an operation has the plane or channel: from `start_ns` until just before `end_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interval {
    pub start_ns: Nanoseconds,
    pub end_ns: Nanoseconds,
}

/// An operation whose end was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    interval: Interval,
    subject: Subject,
    interrupted: u32,
}

impl Told {
    /// Interrupts it for a read, if that is possible and gains time. Returns what it costs.
    fn interrupt(
        &mut self,
        scheduling: Scheduling,
        priority: Priority,
        subject: Subject,
        at_ns: Nanoseconds,
    ) -> Option<Nanoseconds> {
        let Scheduling::Suspend { cost_ns, times } = scheduling else { return None };
        let is_read = priority == Priority::Read && subject.kind != Kind::Transfer;
        let gains = at_ns + cost_ns < self.interval.end_ns;
        if !is_read || !gains || self.interrupted == times || subject.needs(self.subject) {
            return None;
        }
        self.interrupted += 1;
        Some(cost_ns)
    }
}

/// Operations of one priority that may not be over, in the order of time. Most questions are answered by the intervals of the
/// first and the last.
#[derive(Clone, Default, Debug)]
struct Queue {
    told: VecDeque<Told>,
    /// Over at 0 if there is none.
    first: Interval,
    last_end_ns: Nanoseconds,
}

impl Queue {
    #[inline]
    fn push(&mut self, told: Told) {
        if self.told.is_empty() {
            self.first = told.interval;
        }
        self.last_end_ns = told.interval.end_ns;
        self.told.push_back(told);
    }

    /// Forgets what is over.
    #[inline]
    fn forget(&mut self, now_ns: Nanoseconds) {
        while self.first.end_ns <= now_ns && !self.told.is_empty() {
            self.told.pop_front();
            self.first = self.told.front().map_or(Interval::default(), |told| told.interval);
        }
    }

    fn clear(&mut self) {
        *self = Queue::default();
    }

    /// The operation that has begun by a time and is not over.
    #[inline]
    fn index_under_way(&self, at_ns: Nanoseconds) -> Option<usize> {
        if at_ns < self.first.end_ns {
            return (self.first.start_ns < at_ns).then_some(0);
        }
        if self.last_end_ns <= at_ns {
            return None;
        }
        let index = self.told.partition_point(|told| told.interval.end_ns <= at_ns);
        (self.told.get(index)?.interval.start_ns < at_ns).then_some(index)
    }
}

/// When an operation may begin.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct When {
    /// The host's time: nothing is booked, and power does not go, before it.
    pub now_ns: Nanoseconds,
    /// It is asked for from this time on.
    pub earliest_ns: Nanoseconds,
    /// What it needs is done at this time. See [`Line::needed_ns`].
    pub needed_ns: Nanoseconds,
}

/// The operations of a plane or a channel.
#[derive(Clone, Default, Debug)]
pub(crate) struct Line {
    /// By priority: when an operation can begin for all that has been booked and would not give way to it.
    free_ns: [Nanoseconds; PRIORITIES],
    /// Those that may not be over, by priority except reads, each in the order of time. Empty if it is first come, first
    /// served.
    queues: [Queue; Priority::YIELDING],
}

impl Line {
    /// When all that was booked is over.
    #[inline]
    pub fn free_ns(&self) -> Nanoseconds {
        self.free_ns[Priority::Background as usize]
    }

    /// When an operation could begin.
    #[inline]
    pub fn ready_ns(
        &self,
        scheduling: Scheduling,
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        match scheduling {
            Scheduling::Fifo => earliest_ns.max(self.free_ns()),
            _ => {
                let free_ns = self.free_ns[priority as usize];
                match self.index_under_way(priority, earliest_ns) {
                    Some((queue, index)) => self.queues[queue].told[index].interval.end_ns,
                    None => earliest_ns.max(free_ns),
                }
            }
        }
    }

    /// Books an operation.
    #[inline]
    pub fn book(
        &mut self,
        scheduling: Scheduling,
        priority: Priority,
        subject: Subject,
        duration_ns: Nanoseconds,
        when: When,
    ) -> Interval {
        if scheduling == Scheduling::Fifo {
            let start_ns = when.earliest_ns.max(self.free_ns());
            let end_ns = start_ns + duration_ns;
            self.free_ns = [end_ns; PRIORITIES];
            return Interval { start_ns, end_ns };
        }
        self.book_by_priority(scheduling, priority, subject, duration_ns, when)
    }

    fn book_by_priority(
        &mut self,
        scheduling: Scheduling,
        priority: Priority,
        subject: Subject,
        duration_ns: Nanoseconds,
        When { now_ns, earliest_ns, needed_ns }: When,
    ) -> Interval {
        self.queues.iter_mut().for_each(|queue| queue.forget(now_ns));
        if self.free_ns() <= earliest_ns {
            return self.book_idle(priority, subject, duration_ns, earliest_ns);
        }
        let mut start_ns = earliest_ns.max(self.free_ns[priority as usize]);
        let mut interruption_ns = 0;
        if let Some(index) = self.index_under_way(priority, earliest_ns) {
            let told = &mut self.queues[index.0].told[index.1];
            match told.interrupt(scheduling, priority, subject, earliest_ns) {
                Some(cost_ns) => (start_ns, interruption_ns) = (earliest_ns + cost_ns, cost_ns),
                None => start_ns = told.interval.end_ns,
            }
        }
        start_ns = start_ns.max(needed_ns);
        let interval = Interval { start_ns, end_ns: start_ns + duration_ns };
        self.displace(priority, interval, duration_ns + interruption_ns);
        self.note(priority, interval, subject);
        interval
    }

    /// When everything on a plane that an operation needs is done. It looks at all that has been booked, so ask only if
    /// something on the operation's block is not done.
    pub fn needed_ns(&self, subject: Subject) -> Nanoseconds {
        let told = self.queues.iter().flat_map(|queue| &queue.told);
        let needed = told.filter(|told| subject.needs(told.subject));
        needed.map(|told| told.interval.end_ns).max().unwrap_or(0)
    }

    /// Power came back at `at_ns`: nothing is in flight.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        self.free_ns = [self.free_ns().min(at_ns); PRIORITIES];
        self.queues.iter_mut().for_each(Queue::clear);
    }

    /// Books an operation while nothing else is going on.
    #[inline]
    fn book_idle(
        &mut self,
        priority: Priority,
        subject: Subject,
        duration_ns: Nanoseconds,
        start_ns: Nanoseconds,
    ) -> Interval {
        let interval = Interval { start_ns, end_ns: start_ns + duration_ns };
        self.free_ns[priority as usize..].fill(interval.end_ns);
        self.note(priority, interval, subject);
        interval
    }

    /// Nothing goes ahead of reads, so they are not kept.
    #[inline]
    fn note(&mut self, priority: Priority, interval: Interval, subject: Subject) {
        if let Some(queue) = priority.yielding() {
            self.queues[queue].push(Told { interval, subject, interrupted: 0 });
        }
    }

    /// The operation that has begun by a time, among those that would give way if it had not: the most urgent, as the others
    /// were displaced by it. None has while something as urgent is still going on.
    fn index_under_way(&self, priority: Priority, at_ns: Nanoseconds) -> Option<(usize, usize)> {
        if at_ns < self.free_ns[priority as usize] {
            return None;
        }
        // the queue of the next priority has this one's number
        let mut queues = self.queues.iter().enumerate().skip(priority as usize);
        queues.find_map(|(queue, told)| Some((queue, told.index_under_way(at_ns)?)))
    }

    /// Whatever is booked later and is not more urgent starts behind an operation; what is less urgent, by as much later as
    /// it takes.
    fn displace(&mut self, priority: Priority, interval: Interval, duration_ns: Nanoseconds) {
        for free_ns in &mut self.free_ns[priority as usize..] {
            *free_ns = interval.end_ns.max(match *free_ns > interval.start_ns {
                true => *free_ns + duration_ns,
                false => 0,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUSPEND: Scheduling = Scheduling::Suspend { cost_ns: 20, times: 2 };
    const BLOCK: BlockId = BlockId(1);
    const OTHER: BlockId = BlockId(2);

    struct Plane {
        line: Line,
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
        assert_eq!(plane.program(4, 0), (5100, 6100));
    }

    #[test]
    fn a_hosts_program_goes_ahead_of_copies_that_have_not_begun() {
        let mut plane = Plane::new(Scheduling::ReadFirst);
        assert_eq!(
            [plane.copy(1, 0), plane.copy(2, 0), plane.copy(3, 0)].map(|told| told.1),
            [1000, 2000, 3000]
        );
        assert_eq!(plane.program(11, 100), (1000, 2000));
        assert_eq!(plane.copy(4, 100), (4000, 5000), "copies pay");
        assert_eq!(plane.line.ready_ns(plane.scheduling, Priority::Host, 0), 2000);
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
        assert_eq!(plane.read(90, 0).0, 7100, "reads follow each other");
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
