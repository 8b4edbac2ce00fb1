//! The path between host and drive: protocol and firmware handle a fixed number of commands at a time, in the order in
//! which they are given. Data cross the link when they are ready, in either direction one transfer at a time: a read that
//! waits for its plane does not hold up the data of later commands.

use tantalum_nand::{Bus, Nanoseconds};

use crate::engine::Port;
use crate::profile::Profile;
use crate::usage::PathUsage;

/// When firmware and link are free.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_second: u64,
    command_ns: Nanoseconds,
    /// When each core of the firmware is free.
    cores_free_ns: Vec<Nanoseconds>,
    bus: Bus,
    /// When the last command was issued; no data are ready earlier.
    issued_ns: Nanoseconds,
    usage: PathUsage,
    last: Crossing,
}

/// The last transfer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Crossing {
    /// When its data were ready.
    pub ready_ns: Nanoseconds,
    /// When they had crossed.
    pub crossed_ns: Nanoseconds,
}

impl Link {
    /// An idle link.
    pub fn new(profile: &Profile) -> Link {
        Link {
            bytes_per_second: profile.link.bytes_per_second,
            command_ns: profile.link.command_ns,
            cores_free_ns: vec![0; profile.firmware.cores as usize],
            bus: Bus::default(),
            issued_ns: 0,
            usage: PathUsage::default(),
            last: Crossing::default(),
        }
    }

    /// When the first free core has decoded a command issued at `at_ns` and done `work_ns` of work for it.
    #[inline]
    pub fn command(&mut self, at_ns: Nanoseconds, work_ns: Nanoseconds) -> Nanoseconds {
        self.issued_ns = at_ns;
        let free_ns = self.cores_free_ns.iter_mut().min().expect("a firmware has at least one core");
        let (begin_ns, duration_ns) = ((*free_ns).max(at_ns), self.command_ns + work_ns);
        *free_ns = begin_ns + duration_ns;
        self.usage.firmware_ns += duration_ns;
        self.usage.firmware_waited_ns += begin_ns - at_ns;
        *free_ns
    }

    /// No command is decoded before this time.
    pub fn hold(&mut self, until_ns: Nanoseconds) {
        for free_ns in &mut self.cores_free_ns {
            *free_ns = (*free_ns).max(until_ns);
        }
    }

    /// Power came back at `at_ns`: nothing is crossing.
    pub fn restart(&mut self, at_ns: Nanoseconds) {
        self.bus.restart(at_ns);
        for free_ns in &mut self.cores_free_ns {
            *free_ns = (*free_ns).min(at_ns);
        }
    }

    /// The last transfer since this was called; none if there was none.
    pub fn take_last(&mut self) -> Option<Crossing> {
        Some(std::mem::take(&mut self.last)).filter(|last| last.crossed_ns > 0)
    }

    /// What firmware and link have done.
    pub fn usage(&self) -> PathUsage {
        self.usage
    }
}

impl Port for Link {
    #[inline]
    fn transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds {
        debug_assert!(
            self.issued_ns <= ready_ns,
            "data are ready at {ready_ns} ns, but the command was issued at {} ns",
            self.issued_ns
        );
        let duration_ns = (bytes as u64 * 1_000_000_000).div_ceil(self.bytes_per_second);
        let crossed_ns = self.bus.carry(ready_ns, duration_ns, self.issued_ns);
        self.usage.link_ns += duration_ns;
        self.usage.link_waited_ns += crossed_ns - ready_ns - duration_ns;
        self.last = Crossing { ready_ns, crossed_ns };
        crossed_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(cores: u32) -> Link {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        (profile.link.command_ns, profile.link.bytes_per_second) = (100, 1_000_000_000);
        profile.firmware.cores = cores;
        Link::new(&profile)
    }

    #[test]
    fn commands_wait_for_a_core_and_data_for_the_link() {
        let mut one = link(1);
        assert_eq!([one.command(0, 0), one.command(0, 50), one.command(1000, 0)], [100, 250, 1100]);
        let mut two = link(2);
        assert_eq!([two.command(0, 0), two.command(0, 50), two.command(0, 0)], [100, 150, 200]);
        assert_eq!([two.transfer(200, 4000), two.transfer(300, 1000)], [4200, 5200]);
        two.hold(10_000);
        assert_eq!(two.command(300, 0), 10_100);
        let usage = two.usage();
        assert_eq!((usage.firmware_ns, usage.firmware_waited_ns), (450, 100 + 9700));
        assert_eq!((usage.link_ns, usage.link_waited_ns), (5000, 3900));
    }

    #[test]
    fn data_that_are_ready_pass_those_of_a_read_that_waits() {
        let mut link = link(1);
        let (read_ns, write_ns) = (link.command(0, 0), link.command(0, 0));
        assert_eq!(link.transfer(read_ns + 10_000, 1000), 11_100);
        assert_eq!([link.transfer(write_ns, 4000), link.transfer(write_ns, 4000)], [4200, 8200]);
        assert_eq!(link.transfer(write_ns, 4000), 13_200, "1,900 ns before the read's, the rest behind them");
        assert_eq!(link.usage().link_waited_ns, 4000 + (13_200 - 4200));
        let next_ns = link.command(9000, 0);
        assert_eq!([next_ns, link.transfer(next_ns, 1000)], [9100, 14_200]);
    }

    #[test]
    fn what_was_to_cross_when_power_went_does_not() {
        let mut link = link(1);
        link.transfer(90_000, 1000);
        link.hold(80_000);
        link.restart(5000);
        let start_ns = link.command(5000, 0);
        assert_eq!([start_ns, link.transfer(start_ns, 1000)], [5100, 6100]);
        assert_eq!(link.usage().link_waited_ns, 0);
    }
}
