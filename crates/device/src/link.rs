//! The path between host and drive: protocol and firmware handle one command at a time, then data cross the link.

use tantalum_nand::Nanoseconds;

use crate::engine::Port;
use crate::profile::LinkProfile;

/// When firmware and link are free.
#[derive(Clone, Debug)]
pub struct Link {
    bytes_per_second: u64,
    command_ns: Nanoseconds,
    firmware_free_ns: Nanoseconds,
    link_free_ns: Nanoseconds,
}

impl Link {
    /// An idle link.
    pub fn new(profile: &LinkProfile) -> Link {
        Link {
            bytes_per_second: profile.bytes_per_second,
            command_ns: profile.command_ns,
            firmware_free_ns: 0,
            link_free_ns: 0,
        }
    }

    /// When the firmware has decoded a command issued at `at_ns`.
    #[inline]
    pub fn command(&mut self, at_ns: Nanoseconds) -> Nanoseconds {
        self.firmware_free_ns = self.firmware_free_ns.max(at_ns) + self.command_ns;
        self.firmware_free_ns
    }
}

impl Port for Link {
    #[inline]
    fn transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds {
        let duration = (bytes as u64 * 1_000_000_000).div_ceil(self.bytes_per_second);
        self.link_free_ns = self.link_free_ns.max(ready_ns) + duration;
        self.link_free_ns
    }
}
