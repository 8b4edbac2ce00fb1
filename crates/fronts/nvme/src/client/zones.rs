//! Commands of a namespace with zones.

use std::io;

use zerocopy::{FromBytes, IntoBytes};

use super::{Client, Completed, block_command, broken, command};
use crate::namespaces::ZONES_NAMESPACE;
use crate::wire::command::Submission;
use crate::wire::opcode::zoned as opcode;
use crate::wire::zones::{REPORT_ZONES, ReportHeader, ZoneDescriptor};

/// What a report says: how many zones match, and those that it has room for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Zones {
    /// Zones that match.
    pub count: u64,
    /// Their descriptors, in order.
    pub listed: Vec<ZoneDescriptor>,
}

/// An NVM command on blocks of the namespace with zones.
pub fn zoned(opcode: u8, first: u64, count: u32) -> Submission {
    Submission { namespace: ZONES_NAMESPACE.into(), ..block_command(opcode, first, count) }
}

/// Zone Append of so many blocks to the zone that begins at a block.
pub fn zone_append(first: u64, count: u32) -> Submission {
    zoned(opcode::ZONE_APPEND, first, count)
}

/// Zone Management Send of an action, for the zone that begins at a block, or for all.
pub fn zone_send(action: u8, first: Option<u64>) -> Submission {
    let (at, is_all) = (first.unwrap_or(0), u32::from(first.is_none()));
    let dword10 = [at as u32, (at >> 32) as u32, 0, u32::from(action) | is_all << 8, 0, 0];
    command(opcode::ZONE_MANAGEMENT_SEND, ZONES_NAMESPACE, dword10)
}

/// Zone Management Receive: a report of so many bytes, of zones from a block on, with the field that selects states.
pub fn zone_report(first: u64, states: u8, is_partial: bool, bytes: u32) -> Submission {
    let dword13 = u32::from(REPORT_ZONES) | u32::from(states) << 8 | u32::from(is_partial) << 16;
    let dword10 = [first as u32, (first >> 32) as u32, bytes / 4 - 1, dword13, 0, 0];
    command(opcode::ZONE_MANAGEMENT_RECEIVE, ZONES_NAMESPACE, dword10)
}

impl Zones {
    /// Reads a report.
    pub fn of(report: &Completed) -> io::Result<Zones> {
        let (header, rest) =
            ReportHeader::ref_from_prefix(&report.data).map_err(|_| broken("a report of zones"))?;
        let whole = rest.len() / size_of::<ZoneDescriptor>() * size_of::<ZoneDescriptor>();
        let all = <[ZoneDescriptor]>::ref_from_bytes(&rest[..whole]).map_err(|_| broken("zones"))?;
        let listed = all.iter().take_while(|zone| zone.as_bytes().iter().any(|byte| *byte != 0));
        Ok(Zones { count: header.zones.get(), listed: listed.copied().collect() })
    }
}

impl Client {
    /// All zones.
    pub fn zones(&mut self, count: u32) -> io::Result<Zones> {
        let bytes = (size_of::<ReportHeader>() + count as usize * size_of::<ZoneDescriptor>()) as u32;
        let report = self.read_command(zone_report(0, 0, false, bytes), bytes)?;
        match report.code {
            0 => Zones::of(&report),
            code => Err(broken(format!("a report of zones ended with {code:#x}"))),
        }
    }
}
