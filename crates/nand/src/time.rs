//! When operations take place: planes and channels as resources with a next-free time.
//!
//! - A plane does one read, program or erase at a time. A channel does one transfer at a time.
//! - A program's data first cross the channel into the plane's cache register, which may overlap the plane's previous
//!   operation. An operation's interval is the plane's: until the array starts, nothing has changed on flash.
//! - The page read last stays in the plane's register until the plane does something else; reading it again costs only
//!   the transfer.

use crate::error::MediumError;
use crate::geometry::{ChannelId, Geometry, Nanoseconds, PageId, PlaneId};

/// Duration of each part of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Page from the array into the register, ns.
    pub read_ns: Nanoseconds,
    /// Page from the register into the array, ns.
    pub program_ns: Nanoseconds,
    /// Erase of a block, ns.
    pub erase_ns: Nanoseconds,
    /// Rate of one channel, bytes per second.
    pub channel_bytes_per_second: u64,
}

/// The longest time of one array operation: 1000 s, so that sums of times do not overflow.
const MAX_OPERATION_NS: Nanoseconds = 1_000_000_000_000;

impl Timing {
    /// Checks that the times can be added up.
    pub fn validate(&self) -> Result<(), MediumError> {
        let bounded = |field, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(MediumError::Timing { field, value, least, most })
            }
        };
        bounded("read_ns", self.read_ns, 0, MAX_OPERATION_NS)?;
        bounded("program_ns", self.program_ns, 0, MAX_OPERATION_NS)?;
        bounded("erase_ns", self.erase_ns, 0, MAX_OPERATION_NS)?;
        bounded("channel_bytes_per_second", self.channel_bytes_per_second, 1, u64::MAX)
    }

    /// Time of moving `bytes` over a channel, rounded up.
    fn transfer_ns(&self, bytes: u32) -> Nanoseconds {
        (u64::from(bytes) * 1_000_000_000).div_ceil(self.channel_bytes_per_second)
    }
}

/// What an operation occupies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub plane: PlaneId,
    pub channel: ChannelId,
}

/// When an operation has the plane: from `start_ns` until just before `end_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Interval {
    pub start_ns: Nanoseconds,
    pub end_ns: Nanoseconds,
}

#[derive(Clone, Copy, Default, Debug)]
struct Plane {
    free_ns: Nanoseconds,
    register: Option<PageId>,
}

/// Planes and channels with their next-free times.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    timing: Timing,
    planes: Vec<Plane>,
    channels_free_ns: Vec<Nanoseconds>,
    programs_done_ns: Nanoseconds,
}

impl Resources {
    pub fn new(geometry: &Geometry, timing: Timing) -> Resources {
        Resources {
            timing,
            planes: vec![Plane::default(); geometry.planes() as usize],
            channels_free_ns: vec![0; geometry.channels as usize],
            programs_done_ns: 0,
        }
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    pub fn programs_done_ns(&self) -> Nanoseconds {
        self.programs_done_ns
    }

    pub fn plane_idle_ns(&self, plane: PlaneId) -> Nanoseconds {
        self.planes[plane.index()].free_ns
    }

    fn transfer(&mut self, channel: ChannelId, bytes: u32, earliest_ns: Nanoseconds) -> Nanoseconds {
        let free_ns = &mut self.channels_free_ns[channel.index()];
        *free_ns = earliest_ns.max(*free_ns) + self.timing.transfer_ns(bytes);
        *free_ns
    }

    fn change(&mut self, plane: PlaneId, duration_ns: Nanoseconds, earliest_ns: Nanoseconds) -> Interval {
        let plane = &mut self.planes[plane.index()];
        let start_ns = earliest_ns.max(plane.free_ns);
        let end_ns = start_ns + duration_ns;
        *plane = Plane { free_ns: end_ns, register: None };
        Interval { start_ns, end_ns }
    }

    /// A program of a page; `bytes` cross the channel.
    pub fn program(&mut self, place: Place, bytes: u32, earliest_ns: Nanoseconds) -> Interval {
        let arrived_ns = self.transfer(place.channel, bytes, earliest_ns);
        let interval = self.change(place.plane, self.timing.program_ns, arrived_ns);
        self.programs_done_ns = self.programs_done_ns.max(interval.end_ns);
        interval
    }

    /// A store to memory beside the flash is done at this time.
    pub fn done(&mut self, at_ns: Nanoseconds) {
        self.programs_done_ns = self.programs_done_ns.max(at_ns);
    }

    pub fn erase(&mut self, plane: PlaneId, earliest_ns: Nanoseconds) -> Interval {
        self.change(plane, self.timing.erase_ns, earliest_ns)
    }

    /// A read of a page; `bytes` cross the channel. Returns when they have.
    pub fn read(&mut self, place: Place, page: PageId, bytes: u32, earliest_ns: Nanoseconds) -> Nanoseconds {
        let plane = &mut self.planes[place.plane.index()];
        let mut ready_ns = earliest_ns.max(plane.free_ns);
        if plane.register != Some(page) {
            ready_ns += self.timing.read_ns;
            *plane = Plane { free_ns: ready_ns, register: Some(page) };
        }
        if bytes == 0 { ready_ns } else { self.transfer(place.channel, bytes, ready_ns) }
    }

    /// Power came back at `at_ns`: nothing is in flight.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        for plane in &mut self.planes {
            *plane = Plane { free_ns: plane.free_ns.min(at_ns), register: None };
        }
        for free_ns in &mut self.channels_free_ns {
            *free_ns = at_ns.min(*free_ns);
        }
        self.programs_done_ns = self.programs_done_ns.min(at_ns);
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
    fn place(plane: u32) -> Place {
        Place { plane: PlaneId(plane), channel: ChannelId(plane % 2) }
    }

    #[test]
    fn planes_work_at_the_same_time_and_share_their_channel() {
        let mut resources = resources();
        assert_eq!(resources.program(place(0), 8192, 0), Interval { start_ns: 20, end_ns: 1_020 });
        assert_eq!(resources.program(place(2), 8192, 0), Interval { start_ns: 40, end_ns: 1_040 });
        assert_eq!(resources.program(place(1), 4096, 0), Interval { start_ns: 10, end_ns: 1_010 });
        assert_eq!(resources.programs_done_ns(), 1_040);
    }

    #[test]
    fn a_transfer_overlaps_the_program_before_it() {
        let mut resources = resources();
        resources.program(place(0), 8192, 0);
        assert_eq!(resources.program(place(0), 8192, 0), Interval { start_ns: 1_020, end_ns: 2_020 });
        assert_eq!(resources.erase(PlaneId(0), 5), Interval { start_ns: 2_020, end_ns: 12_020 });
        assert_eq!(resources.plane_idle_ns(PlaneId(0)), 12_020);
    }

    #[test]
    fn the_page_in_the_register_is_read_once() {
        let mut resources = resources();
        assert_eq!(resources.read(place(0), PageId(3), 4096, 0), 110);
        assert_eq!(resources.read(place(0), PageId(3), 4096, 0), 120);
        assert_eq!(resources.read(place(0), PageId(4), 0, 0), 200);
        assert_eq!(resources.read(place(0), PageId(4), 4096, 0), 210);
        resources.erase(PlaneId(0), 0);
        assert_eq!(resources.read(place(0), PageId(4), 0, 0), 10_300);
    }

    #[test]
    fn after_a_restart_nothing_is_going_on() {
        let mut resources = resources();
        resources.program(place(0), 8192, 0);
        resources.erase(PlaneId(1), 0);
        resources.restart(500);
        assert_eq!(resources.plane_idle_ns(PlaneId(0)), 500);
        assert_eq!(resources.plane_idle_ns(PlaneId(1)), 500);
        assert_eq!(resources.plane_idle_ns(PlaneId(3)), 0);
        assert_eq!(resources.programs_done_ns(), 500);
    }

    #[test]
    fn impossible_times_are_refused_with_their_bounds() {
        let slow = Timing { erase_ns: MAX_OPERATION_NS + 1, ..TIMING };
        assert_eq!(
            slow.validate().unwrap_err().to_string(),
            "erase_ns is 1000000000001; it must be between 0 and 1000000000000"
        );
        let still = Timing { channel_bytes_per_second: 0, ..TIMING };
        assert!(matches!(
            still.validate(),
            Err(MediumError::Timing { field: "channel_bytes_per_second", .. })
        ));
    }
}
