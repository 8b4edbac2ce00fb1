//! The commands to measure.

use serde::Serialize;

/// Commands to measure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Whether it writes.
    pub is_write: bool,
    /// Whether access is sequential.
    pub is_sequential: bool,
    /// Units of a command.
    pub units: u32,
    /// Connections, each with an I/O queue.
    pub connections: u16,
    /// Commands in flight on each.
    pub depth: usize,
}

const fn random(name: &'static str, is_write: bool, connections: u16, depth: usize) -> Case {
    Case { name, is_write, is_sequential: false, units: 1, connections, depth }
}

const fn sequential(name: &'static str, is_write: bool) -> Case {
    Case { name, is_write, is_sequential: true, units: 32, connections: 1, depth: 8 }
}

/// All cases.
pub const CASES: [Case; 8] = [
    random("4 KiB reads, 1", false, 1, 1),
    random("4 KiB reads, 32", false, 1, 32),
    random("4 KiB reads, 4 x 32", false, 4, 32),
    random("4 KiB writes, 1", true, 1, 1),
    random("4 KiB writes, 32", true, 1, 32),
    random("4 KiB writes, 4 x 32", true, 4, 32),
    sequential("128 KiB reads, 8", false),
    sequential("128 KiB writes, 8", true),
];
