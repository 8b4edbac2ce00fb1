//! The path between host and drive: protocol and firmware handle a fixed number of commands at a time, then data
//! cross the link.

use tantalum_nand::Nanoseconds;

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
    link_free_ns: Nanoseconds,
    usage: PathUsage,
}

impl Link {
    /// An idle link.
    pub fn new(profile: &Profile) -> Link {
        Link {
            bytes_per_second: profile.link.bytes_per_second,
            command_ns: profile.link.command_ns,
            cores_free_ns: vec![0; profile.firmware.cores as usize],
            link_free_ns: 0,
            usage: PathUsage::default(),
        }
    }

    /// When the core that is free first has decoded a command issued at `at_ns`, and done `work_ns` for it.
    #[inline]
    pub fn command(&mut self, at_ns: Nanoseconds, work_ns: Nanoseconds) -> Nanoseconds {
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

    /// What firmware and link have done.
    pub fn usage(&self) -> PathUsage {
        self.usage
    }
}

impl Port for Link {
    #[inline]
    fn transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds {
        let duration_ns = (bytes as u64 * 1_000_000_000).div_ceil(self.bytes_per_second);
        let begin_ns = self.link_free_ns.max(ready_ns);
        self.link_free_ns = begin_ns + duration_ns;
        self.usage.link_ns += duration_ns;
        self.usage.link_waited_ns += begin_ns - ready_ns;
        self.link_free_ns
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
}
