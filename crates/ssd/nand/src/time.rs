//! When operations take place.
//!
//! - A plane does one read, program or erase at a time. A channel does one transfer at a time. `schedule` decides their
//!   order; if planes are first come, first served, data cross their channel when they are ready (`bus`).
//! - A program's data first cross the channel into the plane's cache register, which may overlap the plane's previous
//!   operation. An operation's interval is the plane's: until the array starts, nothing has changed on flash.
//! - The page read last stays in the plane's register until the plane does something else; reading it again costs only
//!   the transfer.

use crate::bookings::{Booking, RecentBookings};
use crate::bus::Bus;
use crate::line::Line;
use crate::schedule::{Interval, OperationKind, Priority, Scheduling, Subject, Transfer, When};
use tantalum_image::Timing;
use tantalum_image::{BlockId, ChannelId, Geometry, Nanoseconds, PageId, PlaneId};

/// How long planes and channels have worked since the medium was made or opened: sums over all of them, in nanoseconds. A
/// power cut that undoes an operation does not take back its time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Busy {
    /// Planes: reads that hosts wait for, and those of firmware.
    pub reads_ns: Nanoseconds,
    /// Programs for hosts, and those of the journal.
    pub programs_ns: Nanoseconds,
    /// Reads and programs of garbage collection and checkpoints.
    pub background_ns: Nanoseconds,
    /// Erases.
    pub erases_ns: Nanoseconds,
    /// Transfers over channels.
    pub transfers_ns: Nanoseconds,
}

impl Busy {
    #[inline]
    fn add(&mut self, subject: Subject, priority: Priority, duration_ns: Nanoseconds) {
        let sum_ns = match (subject.kind(), priority) {
            (OperationKind::Erase, _) => &mut self.erases_ns,
            (_, Priority::Background) => &mut self.background_ns,
            (OperationKind::Read, _) => &mut self.reads_ns,
            (OperationKind::Program, _) => &mut self.programs_ns,
        };
        *sum_ns += duration_ns;
    }
}

/// What an operation occupies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub plane: PlaneId,
    pub channel: ChannelId,
}

#[derive(Clone, Default, Debug)]
struct Channel {
    /// Bookings by priority.
    line: Line<Transfer>,
    /// First come, first served.
    bus: Bus,
}

#[derive(Clone, Default, Debug)]
struct Plane {
    line: Line<Subject>,
    register: Register,
}

/// What a plane read last.
#[derive(Clone, Copy, Default, Debug)]
struct Register {
    page: Option<(PageId, BlockId)>,
    /// When it arrives from the array.
    filled_ns: Nanoseconds,
    /// Later reads no longer find it there.
    until_ns: Nanoseconds,
}

/// Planes and channels, and what has been booked on them.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    timing: Timing,
    scheduling: Scheduling,
    planes: Vec<Plane>,
    channels: Vec<Channel>,
    programs_done_ns: Nanoseconds,
    /// When the programs that hosts wait for are done.
    host_programs_done_ns: Nanoseconds,
    /// The host's time.
    now_ns: Nanoseconds,
    busy: Busy,
    /// When what was booked on each block is done; empty under `Fifo`.
    blocks_done_ns: Vec<Nanoseconds>,
    /// Only while somebody traces commands.
    recent: Option<Box<RecentBookings>>,
}

impl Resources {
    pub fn new(geometry: &Geometry, timing: Timing) -> Resources {
        Resources {
            timing,
            scheduling: Scheduling::default(),
            planes: vec![Plane::default(); geometry.planes() as usize],
            channels: vec![Channel::default(); geometry.channels as usize],
            programs_done_ns: 0,
            host_programs_done_ns: 0,
            now_ns: 0,
            busy: Busy::default(),
            blocks_done_ns: Vec::new(),
            recent: None,
        }
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Sets how operations on these blocks follow each other. Nothing may have been booked.
    pub fn set_scheduling(&mut self, scheduling: Scheduling, blocks: u32) {
        self.scheduling = scheduling;
        let blocks = if scheduling == Scheduling::Fifo { 0 } else { blocks as usize };
        self.blocks_done_ns = vec![0; blocks];
    }

    /// What is over at this time may be forgotten from now on.
    pub fn advance(&mut self, now_ns: Nanoseconds) {
        self.now_ns = now_ns;
    }

    /// The host's time.
    pub fn now_ns(&self) -> Nanoseconds {
        self.now_ns
    }

    pub fn programs_done_ns(&self) -> Nanoseconds {
        self.programs_done_ns
    }

    pub fn host_programs_done_ns(&self) -> Nanoseconds {
        match self.scheduling {
            Scheduling::Fifo => self.programs_done_ns,
            _ => self.host_programs_done_ns,
        }
    }

    pub fn programmed_ns(&self, plane: PlaneId, page: PageId, block: BlockId) -> Nanoseconds {
        match self.scheduling {
            Scheduling::Fifo => self.programs_done_ns,
            _ => self.needed_ns(plane, Subject::read(page, block)),
        }
    }

    pub fn released_ns(&self, then_ns: Nanoseconds) -> Nanoseconds {
        match self.scheduling {
            Scheduling::Fifo => self.programs_done_ns,
            _ => then_ns,
        }
    }

    pub fn wait_is_free(&self, then_ns: Nanoseconds) -> bool {
        self.scheduling == Scheduling::Fifo || then_ns <= self.now_ns
    }

    pub fn hold(&mut self, block: BlockId, until_ns: Nanoseconds) {
        if let Some(done_ns) = self.blocks_done_ns.get_mut(block.index()) {
            *done_ns = until_ns.max(*done_ns);
        }
    }

    pub fn busy(&self) -> Busy {
        self.busy
    }

    pub fn keep_bookings(&mut self) {
        self.recent.get_or_insert_default();
    }

    pub fn bookings(&self) -> impl DoubleEndedIterator<Item = &Booking> {
        self.recent.iter().flat_map(|recent| recent.all())
    }

    /// When everything booked on a plane is done.
    pub fn plane_idle_ns(&self, plane: PlaneId) -> Nanoseconds {
        self.planes[plane.index()].line.free_ns()
    }

    /// When a plane could begin a host's program, on `block` if that is given; `None` if not before `limit_ns`.
    #[inline]
    pub fn plane_ready_before(
        &self,
        plane: PlaneId,
        block: Option<BlockId>,
        earliest_ns: Nanoseconds,
        limit_ns: Nanoseconds,
    ) -> Option<Nanoseconds> {
        let earliest_ns = earliest_ns.max(block.map_or(0, |block| self.block_done_ns(block)));
        if earliest_ns >= limit_ns {
            return None;
        }
        let line = &self.planes[plane.index()].line;
        let ready_ns = line.ready_ns(self.scheduling, self.timing.program_ns, earliest_ns);
        (ready_ns < limit_ns).then_some(ready_ns)
    }

    /// Whether the changes of a block are done at a time. Always true under `Fifo`, where reads wait in order of
    /// arrival.
    #[inline]
    pub fn is_block_done(&self, block: BlockId, at_ns: Nanoseconds) -> bool {
        self.block_done_ns(block) <= at_ns
    }

    /// When what was booked on a block is done; 0 under `Fifo`.
    #[inline]
    fn block_done_ns(&self, block: BlockId) -> Nanoseconds {
        self.blocks_done_ns.get(block.index()).copied().unwrap_or(0)
    }

    /// When everything that an operation on a plane needs is done.
    #[inline]
    fn needed_ns(&self, plane: PlaneId, subject: Subject) -> Nanoseconds {
        match subject.kind() {
            OperationKind::Program | OperationKind::Erase => self.block_done_ns(subject.block()),
            OperationKind::Read if self.block_done_ns(subject.block()) <= self.now_ns => 0,
            OperationKind::Read => self.planes[plane.index()].line.needed_ns(subject),
        }
    }

    #[inline]
    fn transfer(
        &mut self,
        channel: ChannelId,
        bytes: u32,
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        let duration_ns = self.timing.transfer_ns(bytes);
        self.busy.transfers_ns += duration_ns;
        let Channel { line, bus } = &mut self.channels[channel.index()];
        if self.scheduling == Scheduling::Fifo {
            return bus.carry(earliest_ns, duration_ns, self.now_ns);
        }
        let when = When { now_ns: self.now_ns, earliest_ns, needed_ns: 0 };
        line.book(self.scheduling, priority, Transfer, duration_ns, when).end_ns
    }

    /// Books a program or an erase.
    #[inline]
    fn change(
        &mut self,
        plane: PlaneId,
        subject: Subject,
        priority: Priority,
        duration_ns: Nanoseconds,
        earliest_ns: Nanoseconds,
    ) -> Interval {
        match self.recent {
            None => self.book_change(plane, subject, priority, duration_ns, earliest_ns),
            Some(_) => self.keep_change(plane, subject, priority, duration_ns, earliest_ns),
        }
    }

    // apart, so that what is kept costs nothing if nothing is
    #[cold]
    fn keep_change(
        &mut self,
        plane: PlaneId,
        subject: Subject,
        priority: Priority,
        duration_ns: Nanoseconds,
        earliest_ns: Nanoseconds,
    ) -> Interval {
        let interval = self.book_change(plane, subject, priority, duration_ns, earliest_ns);
        self.keep(plane, subject, priority, interval)
    }

    fn keep(&mut self, plane: PlaneId, subject: Subject, priority: Priority, interval: Interval) -> Interval {
        if let Some(recent) = &mut self.recent {
            recent.add(plane, subject, priority, interval);
        }
        interval
    }

    #[inline(always)]
    fn book_change(
        &mut self,
        plane: PlaneId,
        subject: Subject,
        priority: Priority,
        duration_ns: Nanoseconds,
        earliest_ns: Nanoseconds,
    ) -> Interval {
        let when = When { now_ns: self.now_ns, earliest_ns, needed_ns: self.needed_ns(plane, subject) };
        let Plane { line, register } = &mut self.planes[plane.index()];
        let interval = line.book(self.scheduling, priority, subject, duration_ns, when);
        self.busy.add(subject, priority, duration_ns);
        if let Some(block) = subject.changed()
            && let Some(done_ns) = self.blocks_done_ns.get_mut(block.index())
        {
            debug_assert!(
                *done_ns <= interval.start_ns,
                "{subject:?} takes {interval:?}, but its block is not done before {done_ns} ns"
            );
            *done_ns = interval.end_ns;
        }
        // A page of another block stays for reads that go ahead.
        match register.page {
            Some((_, block)) if self.scheduling != Scheduling::Fifo && subject.block() != block => {
                register.until_ns = register.until_ns.min(interval.start_ns);
            }
            _ => register.page = None,
        }
        interval
    }

    /// Programs a page; `bytes` cross the channel.
    #[inline]
    pub fn program(
        &mut self,
        place: Route,
        (page, block): (PageId, BlockId),
        bytes: u32,
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Interval {
        let arrived_ns = self.transfer(place.channel, bytes, priority, earliest_ns);
        let subject = Subject::program(page, block);
        let interval = self.change(place.plane, subject, priority, self.timing.program_ns, arrived_ns);
        self.programs_done_ns = self.programs_done_ns.max(interval.end_ns);
        interval
    }

    /// Hosts wait for a program that is done at this time.
    #[inline]
    pub fn is_awaited(&mut self, done_ns: Nanoseconds) {
        self.host_programs_done_ns = self.host_programs_done_ns.max(done_ns);
    }

    /// A store to memory beside the flash is done at this time.
    pub fn done(&mut self, at_ns: Nanoseconds) {
        self.programs_done_ns = self.programs_done_ns.max(at_ns);
        self.host_programs_done_ns = self.host_programs_done_ns.max(at_ns);
    }

    pub fn erase(&mut self, plane: PlaneId, block: BlockId, earliest_ns: Nanoseconds) -> Interval {
        let subject = Subject::erase(block);
        self.change(plane, subject, Priority::Host, self.timing.erase_ns, earliest_ns)
    }

    /// Reads a page; `bytes` cross the channel. Returns when they have.
    #[inline]
    pub fn read(
        &mut self,
        place: Route,
        (page, block): (PageId, BlockId),
        bytes: u32,
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        let ready_ns = self.fill_register(place.plane, (page, block), priority, earliest_ns);
        if bytes == 0 { ready_ns } else { self.transfer(place.channel, bytes, priority, ready_ns) }
    }

    /// Brings a page into its plane's register. Returns when it is there.
    #[inline]
    fn fill_register(
        &mut self,
        plane: PlaneId,
        (page, block): (PageId, BlockId),
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        let Register { page: held, filled_ns, until_ns } = self.planes[plane.index()].register;
        if held == Some((page, block)) && earliest_ns <= until_ns {
            return earliest_ns.max(filled_ns);
        }
        match self.recent {
            None => self.book_read(plane, (page, block), priority, earliest_ns).end_ns,
            Some(_) => self.keep_read(plane, (page, block), priority, earliest_ns),
        }
    }

    #[cold]
    fn keep_read(
        &mut self,
        plane: PlaneId,
        (page, block): (PageId, BlockId),
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Nanoseconds {
        let interval = self.book_read(plane, (page, block), priority, earliest_ns);
        self.keep(plane, Subject::read(page, block), priority, interval).end_ns
    }

    #[inline(always)]
    fn book_read(
        &mut self,
        plane: PlaneId,
        (page, block): (PageId, BlockId),
        priority: Priority,
        earliest_ns: Nanoseconds,
    ) -> Interval {
        let subject = Subject::read(page, block);
        let when = When { now_ns: self.now_ns, earliest_ns, needed_ns: self.needed_ns(plane, subject) };
        let Plane { line, register } = &mut self.planes[plane.index()];
        let interval = line.book(self.scheduling, priority, subject, self.timing.read_ns, when);
        let filled_ns = interval.end_ns;
        self.busy.add(subject, priority, self.timing.read_ns);
        // What waited continues as soon as the page has arrived.
        let until_ns = if line.free_ns() > filled_ns { filled_ns } else { Nanoseconds::MAX };
        *register = Register { page: Some((page, block)), filled_ns, until_ns };
        interval
    }

    /// Power came back at `at_ns`: nothing is in flight.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        self.now_ns = self.now_ns.max(at_ns);
        for plane in &mut self.planes {
            plane.line.restart(at_ns);
            plane.register = Register::default();
        }
        for Channel { line, bus } in &mut self.channels {
            line.restart(at_ns);
            bus.restart(at_ns);
        }
        if let Some(recent) = &mut self.recent {
            recent.clear();
        }
        self.blocks_done_ns.fill(0);
        self.programs_done_ns = self.programs_done_ns.min(at_ns);
        self.host_programs_done_ns = self.host_programs_done_ns.min(at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{GEOMETRY, TIMING};

    fn resources() -> Resources {
        Resources::new(&GEOMETRY, TIMING)
    }

    /// Planes 0 and 2 are on channel 0, plane 1 on channel 1.
    fn place(plane: u32) -> Route {
        Route { plane: PlaneId(plane), channel: ChannelId(plane % 2) }
    }

    fn program(resources: &mut Resources, plane: u32, bytes: u32, at_ns: Nanoseconds) -> Interval {
        resources.program(place(plane), (PageId(9), BlockId(9)), bytes, Priority::Host, at_ns)
    }

    fn read(resources: &mut Resources, page: u32, bytes: u32, at_ns: Nanoseconds) -> Nanoseconds {
        resources.read(place(0), (PageId(page), BlockId(1)), bytes, Priority::Read, at_ns)
    }

    #[test]
    fn planes_work_at_the_same_time_and_share_their_channel() {
        let mut resources = resources();
        assert_eq!(program(&mut resources, 0, 8192, 0), Interval { start_ns: 20, end_ns: 1_020 });
        assert_eq!(program(&mut resources, 2, 8192, 0), Interval { start_ns: 40, end_ns: 1_040 });
        assert_eq!(program(&mut resources, 1, 4096, 0), Interval { start_ns: 10, end_ns: 1_010 });
        assert_eq!(resources.programs_done_ns(), 1_040);
    }

    #[test]
    fn a_transfer_overlaps_the_program_before_it() {
        let mut resources = resources();
        program(&mut resources, 0, 8192, 0);
        assert_eq!(program(&mut resources, 0, 8192, 0), Interval { start_ns: 1_020, end_ns: 2_020 });
        assert_eq!(resources.erase(PlaneId(0), BlockId(0), 5), Interval { start_ns: 2_020, end_ns: 12_020 });
        assert_eq!(resources.plane_idle_ns(PlaneId(0)), 12_020);
    }

    #[test]
    fn a_read_that_waits_for_its_plane_does_not_hold_up_its_channel() {
        let mut resources = resources();
        resources.erase(PlaneId(0), BlockId(0), 0);
        assert_eq!(read(&mut resources, 3, 4096, 0), 10_110, "behind the erase");
        let beside = resources.read(place(2), (PageId(5), BlockId(2)), 4096, Priority::Read, 0);
        assert_eq!(beside, 110, "another plane of the channel");
        assert_eq!(program(&mut resources, 2, 8192, 0), Interval { start_ns: 100, end_ns: 1_100 });
    }

    #[test]
    fn the_page_in_the_register_is_read_once() {
        let mut resources = resources();
        assert_eq!(read(&mut resources, 3, 4096, 0), 110);
        assert_eq!(read(&mut resources, 3, 4096, 0), 120);
        assert_eq!(read(&mut resources, 4, 0, 0), 200);
        assert_eq!(read(&mut resources, 4, 4096, 0), 210);
        resources.erase(PlaneId(0), BlockId(0), 0);
        assert_eq!(read(&mut resources, 4, 0, 0), 10_300);
    }

    #[test]
    fn a_register_keeps_its_page_while_reads_go_ahead_until_something_else_begins() {
        let mut resources = resources();
        resources.set_scheduling(Scheduling::ReadFirst, GEOMETRY.blocks());
        program(&mut resources, 0, 8192, 0);
        program(&mut resources, 0, 8192, 0);
        assert_eq!(read(&mut resources, 3, 4096, 500), 1_130, "behind the first program");
        assert_eq!(read(&mut resources, 3, 4096, 500), 1_140, "a command that reads it whole");
        assert_eq!(read(&mut resources, 3, 4096, 1_200), 2_130, "the second program has begun");
        assert_eq!(read(&mut resources, 3, 4096, 9_000), 9_110, "the program was in the register");
        assert_eq!(read(&mut resources, 3, 4096, 9_200), 9_210, "nothing else since");
    }

    #[test]
    fn what_planes_and_channels_do_is_added_up_by_what_it_is_for() {
        let mut resources = resources();
        program(&mut resources, 0, 8192, 0);
        resources.program(place(1), (PageId(9), BlockId(9)), 4096, Priority::Background, 0);
        resources.erase(PlaneId(0), BlockId(0), 0);
        read(&mut resources, 3, 4096, 0);
        read(&mut resources, 3, 4096, 0);
        let Busy { reads_ns, programs_ns, background_ns, erases_ns, transfers_ns } = resources.busy();
        assert_eq!((programs_ns, background_ns, erases_ns), (1_000, 1_000, 10_000));
        assert_eq!((reads_ns, transfers_ns), (100, 20 + 10 + 10 + 10), "the second is in the register");
    }

    #[test]
    fn after_a_restart_nothing_is_going_on() {
        let mut resources = resources();
        program(&mut resources, 0, 8192, 0);
        resources.erase(PlaneId(1), BlockId(0), 0);
        resources.restart(500);
        assert_eq!(resources.plane_idle_ns(PlaneId(0)), 500);
        assert_eq!(resources.plane_idle_ns(PlaneId(1)), 500);
        assert_eq!(resources.plane_idle_ns(PlaneId(3)), 0);
        assert_eq!(resources.programs_done_ns(), 500);
    }
}
