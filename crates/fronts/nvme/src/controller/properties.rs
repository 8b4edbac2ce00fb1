//! The properties of a controller: what it can do, its configuration, and its status (Base, section 3.1.3).

use crate::wire::command::{Completion, Submission};
use crate::wire::fabrics::property;

/// Maximum number of entries of a queue (`MQES` is one less).
pub const QUEUE_ENTRIES: u16 = 128;
/// The supported version of the Base Specification: 2.0.
pub const VERSION: u32 = 0x0002_0000;
/// Time limit for becoming ready and for shutting down, in units of 500 ms.
const READY_TIMEOUT: u64 = 30;

const ENABLE: u32 = 1;
const COMMAND_SET: u32 = 7 << 4;
/// Memory pages of more than 4 KiB, or an arbitration other than round robin: neither exists.
const PAGES_AND_ARBITRATION: u32 = 0x7f << 7;
const SHUTDOWN: u32 = 3 << 14;
const ENTRY_BYTES: u32 = 0xff << 16;
const READY: u32 = 1;
/// The controller was enabled with a configuration that it does not support (`CFS`).
const FATAL: u32 = 1 << 1;
const SHUTDOWN_STATUS: u32 = 3 << 2;
const SHUTDOWN_DONE: u32 = 2 << 2;

/// The bit of `CAP` that offers other command sets beside that of blocks.
const SEVERAL_COMMAND_SETS: u32 = 37 + 6;
/// "All supported I/O command sets" in the configuration.
const ALL_COMMAND_SETS: u32 = 6 << 4;
/// Sizes of queue entries as powers of two: 64 bytes of a command, 16 of a completion.
const STANDARD_ENTRY_BYTES: u32 = 6 << 16 | 4 << 20;

const _: () = assert!(
    STANDARD_ENTRY_BYTES & !ENTRY_BYTES == 0 && ALL_COMMAND_SETS & !COMMAND_SET == 0,
    "what is offered fits into the fields of the configuration"
);
const _: () = assert!(
    1 << (STANDARD_ENTRY_BYTES >> 16 & 0xf) == size_of::<Submission>()
        && 1 << (STANDARD_ENTRY_BYTES >> 20) == size_of::<Completion>(),
    "entries of queues have the sizes of commands and completions"
);

/// The configuration that enables a controller for the NVM command set.
pub const ENABLED: u32 = ENABLE | STANDARD_ENTRY_BYTES;

/// The configuration that enables a controller with these capabilities (`CAP`) for all of its command sets, as Linux does.
pub fn enabled_for(capabilities: u64) -> u32 {
    if capabilities >> SEVERAL_COMMAND_SETS & 1 == 1 { ENABLED | ALL_COMMAND_SETS } else { ENABLED }
}

/// The kind of controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerKind {
    /// It has namespaces.
    Io,
    /// It reports where subsystems are.
    Discovery,
}

/// The properties of a controller.
#[derive(Debug)]
pub(super) struct Properties {
    kind: ControllerKind,
    /// Whether the host may select other command sets than that of blocks.
    has_command_sets: bool,
    /// `CC`.
    configuration: u32,
    /// `CSTS`.
    status: u32,
}

impl Properties {
    /// Those of a controller that is not enabled. `has_command_sets` says whether there are namespaces of a command set other than
    /// that of blocks.
    pub fn new(kind: ControllerKind, has_command_sets: bool) -> Properties {
        let has_command_sets = has_command_sets && kind == ControllerKind::Io;
        Properties { kind, has_command_sets, configuration: 0, status: 0 }
    }

    /// Whether it accepts commands other than Fabrics commands.
    pub fn is_ready(&self) -> bool {
        self.status & READY != 0
    }

    /// The value of a property; `None` if there is no such property of this size.
    pub fn get(&self, offset: u32, is_long: bool) -> Option<u64> {
        let value = match (offset, is_long) {
            (property::CAPABILITIES, true) => capabilities(self.has_command_sets),
            (property::VERSION, false) => VERSION.into(),
            (property::CONFIGURATION, false) => self.configuration.into(),
            (property::STATUS, false) => self.status.into(),
            (property::SUBSYSTEM_RESET, false) => 0,
            (property::READY_TIMEOUTS, false) => READY_TIMEOUT << 16 | READY_TIMEOUT,
            _ => return None,
        };
        assert!(
            is_long || value <= u32::MAX.into(),
            "property {offset:#x} has four bytes, but is {value:#x}"
        );
        Some(value)
    }

    /// Sets the configuration, which may enable or reset the controller. Returns whether it announces a shutdown.
    pub fn configure(&mut self, value: u32) -> bool {
        let before = std::mem::replace(&mut self.configuration, value);
        match (before & ENABLE != 0, value & ENABLE != 0) {
            (false, true) => self.status = if self.supports(value) { READY } else { FATAL },
            (true, false) => self.status = 0,
            _ => {}
        }
        assert_ne!(self.status & (READY | FATAL), READY | FATAL, "a controller is ready, and failed");
        value & SHUTDOWN != 0 && before & SHUTDOWN == 0
    }

    /// Whether it can be enabled like this (Base, section 3.1.3.5). The sizes of the entries of I/O queues do not matter
    /// to a discovery controller, which has none.
    fn supports(&self, configuration: u32) -> bool {
        let is_set = match configuration & COMMAND_SET {
            0 => true,
            ALL_COMMAND_SETS => self.has_command_sets,
            _ => false,
        };
        let has_sizes =
            configuration & ENTRY_BYTES == STANDARD_ENTRY_BYTES || self.kind == ControllerKind::Discovery;
        is_set && has_sizes && configuration & PAGES_AND_ARBITRATION == 0
    }

    /// Whether the host selected all command sets.
    pub fn selects_command_sets(&self) -> bool {
        self.configuration & COMMAND_SET == ALL_COMMAND_SETS
    }

    /// The shutdown that was announced is complete.
    pub fn shutdown_done(&mut self) {
        self.status = self.status & !SHUTDOWN_STATUS | SHUTDOWN_DONE;
    }
}

/// `CAP`: queues contiguous, the timeout, the NVM command set and perhaps others, memory pages of 4 KiB, ready with media.
fn capabilities(has_command_sets: bool) -> u64 {
    let entries = u64::from(QUEUE_ENTRIES - 1);
    let command_sets = 1 << 37 | u64::from(has_command_sets) << SEVERAL_COMMAND_SETS;
    entries | 1 << 16 | READY_TIMEOUT << 24 | command_sets | 1 << 59
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_supported_leaves_a_controller_that_is_not_ready() {
        let of = Properties::new;
        let (mut blocks, mut records) = (of(ControllerKind::Io, false), of(ControllerKind::Io, true));
        let mut discovery = of(ControllerKind::Discovery, true);
        // bit 0 of the status: ready; bit 1: fatal
        for (configuration, of_blocks, of_records, of_discovery) in [
            (0x46_0001, 1, 1, 1),
            (0x46_0061, 2, 1, 2), // all command sets
            (0x46_0011, 2, 2, 2), // a command set that does not exist
            (0x46_0071, 2, 2, 2), // no I/O commands at all
            (0x00_0001, 2, 2, 1), // entries of one byte
            (0x45_0001, 2, 2, 1), // commands of 32 bytes
            (0x36_0001, 2, 2, 1), // completions of 8 bytes
            (0x46_0281, 2, 2, 2), // pages of 128 KiB
            (0x46_0801, 2, 2, 2), // weighted arbitration
        ] {
            for (properties, status) in
                [(&mut blocks, of_blocks), (&mut records, of_records), (&mut discovery, of_discovery)]
            {
                assert!(!properties.configure(configuration));
                assert_eq!(properties.get(property::STATUS, false), Some(status), "{configuration:#x}");
                assert_eq!(properties.get(property::CONFIGURATION, false), Some(configuration.into()));
                assert_eq!(properties.is_ready(), status == 1);
                properties.configure(0);
                assert_eq!(properties.get(property::STATUS, false), Some(0));
            }
        }
    }

    #[test]
    fn several_command_sets_are_offered_only_if_there_are_namespaces_of_them() {
        let offered = |kind, has_command_sets| {
            let properties = Properties::new(kind, has_command_sets);
            properties.get(property::CAPABILITIES, true).unwrap() >> 37 & 0xff
        };
        assert_eq!(offered(ControllerKind::Io, true), 1 | 1 << 6);
        assert_eq!(offered(ControllerKind::Io, false), 1);
        assert_eq!(offered(ControllerKind::Discovery, true), 1);
    }

    #[test]
    fn properties_have_one_size() {
        let properties = Properties::new(ControllerKind::Io, true);
        assert_eq!(properties.get(property::CAPABILITIES, false), None);
        assert_eq!(properties.get(property::VERSION, true), None);
        assert_eq!(properties.get(0x1000, false), None);
        assert_eq!(properties.get(property::CAPABILITIES, true).unwrap() & 0xffff, 127);
    }
}
