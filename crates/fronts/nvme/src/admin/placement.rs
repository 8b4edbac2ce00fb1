//! Flexible data placement of the only endurance group: log pages and features (Base 2.1, sections 5.1.12.1.28 to 31, 5.1.25.1.20 and
//! 21).
//!
//! Whether a drive has it, and with how many handles, is decided by its profile, so there is one configuration, which is enabled.

use tantalum::{FdpProfile, Isolation, UNIT_BYTES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::context::Context;
use super::namespaces::wait;
use crate::controller::Controller;
use crate::failure::Failure;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::namespaces::{Recorded, SLOTS, event_kinds};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::identify::empty;
use crate::wire::log_page::id;
use crate::wire::placement as wire;

/// The number of the endurance group, which is the whole drive.
pub const ENDURANCE_GROUP: u16 = 1;

/// The log pages of a drive with handles.
pub const PAGES: [u8; 4] =
    [id::PLACEMENT_CONFIGURATIONS, id::HANDLE_USAGE, id::PLACEMENT_STATISTICS, id::PLACEMENT_EVENTS];

/// Bytes of the log page of events.
const EVENTS_BYTES: usize = 4096;

/// Refuses a log page of another endurance group.
pub fn check_group(command: &Submission) -> Result<(), Failure> {
    let is_there = command.dword(11) >> 16 == u32::from(ENDURANCE_GROUP);
    if is_there { Ok(()) } else { Err(Failure::INVALID_FIELD) }
}

fn profile(subsystem: &Subsystem) -> Result<FdpProfile, Failure> {
    subsystem.placement.ok_or(Failure::INVALID_FIELD)
}

// -- log pages --------------------------------------------------------------------------------------------------

/// One of [`PAGES`].
pub fn page(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let subsystem = context.subsystem;
    let fdp = subsystem.placement.ok_or(Failure::INVALID_LOG_PAGE)?;
    check_group(command)?;
    match command.dword(10) as u8 {
        id::PLACEMENT_CONFIGURATIONS => Ok(configurations(subsystem, fdp)),
        id::HANDLE_USAGE => Ok(usage(subsystem, fdp)),
        id::PLACEMENT_STATISTICS => Ok(statistics(subsystem)),
        _ => {
            // bit 0 of what is specific to the log page
            let are_of_hosts = command.bit(10, 8);
            let (recorded, now_ns) =
                subsystem.namespaces.placement_events(subsystem.queue.drive(), are_of_hosts);
            let now_ns = subsystem.queue.answers().now_ns().unwrap_or(0).max(now_ns);
            Ok(events(context.controller, &recorded, now_ns))
        }
    }
}

fn configurations(subsystem: &Subsystem, fdp: FdpProfile) -> Vec<u8> {
    let kinds = fdp.handles as usize * size_of::<wire::HandleKind>();
    let bytes = size_of::<wire::Configuration>() + kinds;
    let mut header: wire::Configurations = empty();
    header.bytes = ((size_of::<wire::Configurations>() + bytes) as u32).into();
    let mut told: wire::Configuration = empty();
    told.bytes = (bytes as u16).into();
    told.attributes = 1 << 7 | u8::from(subsystem.has_volatile_cache()) << 4;
    told.groups = 1.into();
    told.handles = (fdp.handles as u16).into();
    told.identifiers = (fdp.handles as u16 - 1).into();
    told.namespaces = (SLOTS as u32).into();
    let units = subsystem.queue.drive().lock().reclaim_unit_units();
    told.unit_bytes = (units * UNIT_BYTES as u64).into();
    let mut kind: wire::HandleKind = empty();
    kind.isolation = match fdp.isolation {
        Isolation::Initially => 1,
        Isolation::Persistently => 2,
    };
    let kinds = kind.as_bytes().repeat(fdp.handles as usize);
    [header.as_bytes(), told.as_bytes(), &kinds].concat()
}

fn usage(subsystem: &Subsystem, fdp: FdpProfile) -> Vec<u8> {
    let mut header: wire::Usages = empty();
    header.handles = (fdp.handles as u16).into();
    let mut usages = vec![empty::<wire::Usage>(); fdp.handles as usize];
    subsystem.namespaces.with_table(|table| {
        for (_, entry) in table.entries() {
            let attributes = if entry.handles.are_chosen() { 2 } else { 1 };
            for handle in entry.handles.list() {
                usages[handle.index()].attributes = attributes;
            }
        }
    });
    [header.as_bytes(), usages.as_bytes()].concat()
}

fn statistics(subsystem: &Subsystem) -> Vec<u8> {
    let device = subsystem.queue.drive().lock();
    let counters = device.smart().counters;
    let geometry = device.profile().geometry().expect("a drive has a shape");
    let block_units = u64::from(geometry.units_per_block());
    let bytes = |units: u64| -> [U64; 2] {
        let bytes = u128::from(units) * UNIT_BYTES as u128;
        [(bytes as u64).into(), ((bytes >> 64) as u64).into()]
    };
    let mut log: wire::Statistics = empty();
    // (NVM 1.1, section 4.1.4.6)
    log.host_bytes = bytes(counters.host_units_written + counters.host_units_without_data);
    log.media_bytes = bytes(counters.flash_units.total());
    log.erased_bytes = bytes(counters.blocks_erased * block_units);
    log.as_bytes().to_vec()
}

/// Events, with the time of the controller that reads them when each was so long ago by the drive's time.
fn events(controller: &Controller, recorded: &[Recorded], now_ns: u64) -> Vec<u8> {
    let (milliseconds, is_set) = controller.timestamp();
    let mut header: wire::Events = empty();
    header.count = (recorded.len() as u32).into();
    let mut log = header.as_bytes().to_vec();
    for recorded in recorded {
        let ago_ms = now_ns.saturating_sub(recorded.at_ns) / 1_000_000;
        let mut told: wire::Event = empty();
        told.kind = recorded.kind;
        told.timestamp[..6].copy_from_slice(&milliseconds.saturating_sub(ago_ms).to_le_bytes()[..6]);
        told.timestamp[6] = u8::from(is_set) << 1;
        if let Some((namespace, identifier)) = recorded.cause {
            (told.namespace, told.identifier) = (namespace.into(), identifier.into());
            told.flags |= 1 | 1 << 1;
        }
        if let Some(handle) = recorded.handle {
            told.handle = u16::from(handle.0).into();
            told.flags |= 1 << 2;
        }
        // where they were is not told
        told.moved.blocks = u16::try_from(recorded.blocks).unwrap_or(u16::MAX).into();
        log.extend(told.as_bytes());
    }
    log.resize(EVENTS_BYTES, 0);
    log
}

// -- features ---------------------------------------------------------------------------------------------------

/// The endurance group that a command about flexible data placement names.
fn check_feature_group(command: &Submission) -> Result<(), Failure> {
    let is_there = command.dword(11) & 0xffff == u32::from(ENDURANCE_GROUP);
    if is_there { Ok(()) } else { Err(Failure::INVALID_FIELD) }
}

/// Get Features: enabled, with the first configuration.
pub fn get(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    profile(context.subsystem)?;
    check_feature_group(command)?;
    Ok(Answer::result(1))
}

/// Set Features: what is so may be set again, and nothing can be changed, least of all while there are namespaces.
pub fn set(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let namespaces = &context.subsystem.namespaces;
    profile(context.subsystem)?;
    check_feature_group(command)?;
    let (is_enabled, configuration) = (command.bit(12, 0), command.dword(12) >> 8 & 0xff);
    match (is_enabled, configuration) {
        (true, 0) => Ok(Answer::default()),
        _ if !namespaces.numbers().is_empty() => Err(Failure::SEQUENCE),
        (true, _) => Err(Failure::INVALID_FIELD),
        (false, _) => Err(Failure::NOT_CHANGEABLE),
    }
}

/// How many types of events a command about events has data for.
fn kinds_of(command: &Submission) -> u32 {
    command.dword(11) >> 16 & 0xff
}

/// The data of Set Features about events: their types.
pub fn events_sent(command: &Submission) -> Transfer {
    match kinds_of(command) {
        0 => Transfer::None,
        kinds => Transfer::FromHost(kinds),
    }
}

/// The data of Get Features about events: their types, and whether they are recorded.
pub fn events_given(command: &Submission) -> Result<Transfer, Failure> {
    match kinds_of(command) {
        0 => Err(Failure::INVALID_FIELD),
        kinds => Ok(Transfer::ToHost(kinds * 2)),
    }
}

/// Get Features: which events are recorded for a placement handle of a namespace; by default none is.
pub fn get_events(context: &Context<'_>, command: &Submission, is_current: bool) -> Result<Answer, Failure> {
    let fdp = profile(context.subsystem)?;
    let (number, handle) = (command.namespace.get(), command.dword(11) as u16);
    let recorded = context.subsystem.namespaces.recorded_events(number, handle, fdp.isolation)?;
    let given = kinds_of(command).min(event_kinds(fdp.isolation).count() as u32);
    let told = recorded.into_iter().take(given as usize);
    let mut data: Vec<u8> =
        told.flat_map(|(kind, is_recorded)| [kind, u8::from(is_recorded && is_current)]).collect();
    data.resize(kinds_of(command) as usize * 2, 0);
    Ok(Answer { result: given.into(), ..Answer::data(data) })
}

/// Set Features: whether events of these types are recorded for a placement handle of a namespace.
pub fn set_events(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    let subsystem = context.subsystem;
    profile(subsystem)?;
    let (number, handle) = (command.namespace.get(), command.dword(11) as u16);
    if data.is_empty() {
        return Err(Failure::INVALID_FIELD);
    }
    let (queue, ticket) = (&subsystem.queue, subsystem.queue.answers().ticket());
    let namespaces = &subsystem.namespaces;
    let set = namespaces.set_recorded_events(queue, (number, handle), data, command.bit(12, 0))?;
    wait(subsystem, ticket, set.done_ns)?;
    Ok(Answer::default())
}
