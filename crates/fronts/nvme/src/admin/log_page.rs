//! Get Log Page (Base, section 5.16).

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tantalum::{COMMANDS, Effect, Smart, UNIT_BYTES};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::context::Context;
use super::features::{self, is_of_group, is_of_namespace};
use super::placement;
use super::{sanitize, zones};
use crate::controller::{ControllerKind, QUEUE_ENTRIES};
use crate::events::critical_warning;
use crate::failure::Failure;
use crate::io::TRANSFER_BYTES;
use crate::namespaces::{ALL_NAMESPACES, Table};
use crate::ports::{GROUP, Port, PortAccess};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::identify::{command_set, empty};
use crate::wire::log_page::{
    self as page, DiscoveryEntry, DiscoveryHeader, effect, id, requirement, security,
};
use crate::wire::opcode::{admin, key_value, nvm, program, vendor, zoned};
use crate::wire::text;

/// Log pages of a controller with namespaces.
const PAGES: [u8; 14] = [
    id::SUPPORTED,
    id::ERRORS,
    id::SMART,
    id::FIRMWARE,
    id::CHANGED_NAMESPACES,
    id::EFFECTS,
    id::SELF_TEST,
    id::TELEMETRY_HOST,
    id::TELEMETRY_CONTROLLER,
    id::ENDURANCE_GROUP,
    id::PERSISTENT_EVENTS,
    id::FEATURES,
    id::RESERVATIONS,
    id::SANITIZE,
];

/// I/O commands on blocks besides those of the drive for vendors, and whether they change some.
const NVM_COMMANDS: [(u8, bool); 13] = [
    (nvm::FLUSH, false),
    (nvm::WRITE, true),
    (nvm::READ, false),
    (nvm::WRITE_UNCORRECTABLE, true),
    (nvm::COMPARE, false),
    (nvm::WRITE_ZEROES, true),
    (nvm::DATASET_MANAGEMENT, true),
    (nvm::VERIFY, false),
    (nvm::COPY, true),
    (nvm::RESERVATION_REGISTER, false),
    (nvm::RESERVATION_REPORT, false),
    (nvm::RESERVATION_ACQUIRE, false),
    (nvm::RESERVATION_RELEASE, false),
];

/// I/O commands about reclaim unit handles, on a drive that has some.
const HANDLE_COMMANDS: [(u8, bool); 2] =
    [(nvm::IO_MANAGEMENT_RECEIVE, false), (nvm::IO_MANAGEMENT_SEND, false)];

/// Commands about programs in the drive, and whether they change anything.
const PROGRAM_COMMANDS: [(u8, bool); 9] = [
    (program::OPEN, false),
    (program::CLOSE, false),
    (program::INSTALL, false),
    (program::UNINSTALL, false),
    (program::GRANT, false),
    (program::ALLOW_CALLS, false),
    (program::SEND, true),
    (program::RECEIVE, false),
    (program::OUTPUT, false),
];

/// I/O commands on records besides those of the drive for vendors, and whether they change some.
const KEY_VALUE_COMMANDS: [(u8, bool); 6] = [
    (nvm::FLUSH, false),
    (key_value::STORE, true),
    (key_value::RETRIEVE, false),
    (key_value::LIST, false),
    (key_value::DELETE, true),
    (key_value::EXIST, false),
];

/// I/O commands of the namespace with zones, and whether they change something.
const ZONE_COMMANDS: [(u8, bool); 10] = [
    (nvm::FLUSH, false),
    (nvm::WRITE, true),
    (nvm::READ, false),
    (nvm::COMPARE, false),
    (nvm::WRITE_ZEROES, true),
    (nvm::DATASET_MANAGEMENT, false),
    (nvm::VERIFY, false),
    (zoned::ZONE_MANAGEMENT_SEND, true),
    (zoned::ZONE_MANAGEMENT_RECEIVE, false),
    (zoned::ZONE_APPEND, true),
];

/// The composite temperature in kelvin: 40 degrees Celsius. The simulated drive has no heat of its own.
const TEMPERATURE: u16 = 313;

/// The number of bytes requested.
pub fn bytes_of(command: &Submission) -> Result<u32, Failure> {
    let dwords = u64::from(command.dword(11) & 0xffff) << 16 | u64::from(command.dword(10) >> 16);
    let bytes = (dwords + 1) * 4;
    if bytes > TRANSFER_BYTES.into() { Err(Failure::INVALID_FIELD) } else { Ok(bytes as u32) }
}

/// Answers the command: the page from an offset, and zeros after its end.
pub fn answer(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let bytes = bytes_of(command)? as usize;
    let offset = u64::from(command.dword(13)) << 32 | u64::from(command.dword(12));
    let page = page(context, command)?;
    if !offset.is_multiple_of(4) || offset > page.len() as u64 {
        return Err(Failure::INVALID_FIELD);
    }
    assert!(page.len().is_multiple_of(4), "log page {:#x} has {} bytes", command.dword(10) as u8, page.len());
    let mut data = page[offset as usize..].to_vec();
    data.resize(bytes, 0);
    let retains_event = command.bit(10, 15);
    if !retains_event {
        context.controller.was_read(command.dword(10) as u8);
        if command.dword(10) as u8 == id::TELEMETRY_CONTROLLER {
            context.subsystem.history.telemetry.was_read();
        }
    }
    Ok(data)
}

fn page(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let (page, subsystem) = (command.dword(10) as u8, context.subsystem);
    if context.controller.kind == ControllerKind::Discovery {
        return match page {
            id::SUPPORTED => Ok(supported(&[id::SUPPORTED, id::DISCOVERY])),
            id::DISCOVERY => Ok(discovery(context)),
            _ => Err(Failure::INVALID_LOG_PAGE),
        };
    }
    let history = &subsystem.history;
    match page {
        id::SUPPORTED => Ok(supported(&pages(subsystem))),
        id::ERRORS => Ok(subsystem.errors.page()),
        id::SMART if !matches!(command.namespace.get(), 0 | ALL_NAMESPACES) => Err(Failure::INVALID_FIELD),
        id::SMART => Ok(smart(subsystem)),
        id::FIRMWARE => Ok(firmware()),
        id::CHANGED_NAMESPACES => Ok(changed_namespaces(context)),
        id::EFFECTS => {
            commands(context, command).map(|commands| effects(&commands, subsystem.placement.is_some()))
        }
        id::SELF_TEST => Ok(history.tests.log()),
        id::TELEMETRY_HOST => {
            if specific(command) & 1 == 1 {
                history.telemetry.ask(subsystem);
            }
            Ok(history.telemetry.asked())
        }
        id::TELEMETRY_CONTROLLER => Ok(history.telemetry.kept()),
        id::PERSISTENT_EVENTS => history.events.read(subsystem, context.controller.id, specific(command) & 3),
        id::FEATURES => Ok(feature_effects(subsystem)),
        // bit 0 of what is specific to the log page: without the namespaces
        id::ACCESS if subsystem.ports.are_several() => Ok(access(context, specific(command) & 1 == 1)),
        id::ENDURANCE_GROUP => placement::check_group(command).map(|()| endurance_group(subsystem)),
        page if placement::PAGES.contains(&page) => placement::page(context, command),
        id::CHANGED_ZONES if subsystem.namespaces.have_zones() => zones::changed_zones(context, command),
        id::RESERVATIONS => Ok(context.controller.with_reservations(|notices| notices.page())),
        id::SANITIZE => Ok(sanitize::status(subsystem.namespaces.sanitize()).as_bytes().to_vec()),
        _ => Err(Failure::INVALID_LOG_PAGE),
    }
}

/// The log pages of controllers with namespaces.
fn pages(subsystem: &Subsystem) -> Vec<u8> {
    let of_handles: &[u8] = if subsystem.placement.is_some() { &placement::PAGES } else { &[] };
    let of_ports: &[u8] = if subsystem.ports.are_several() { &[id::ACCESS] } else { &[] };
    let of_zones: &[u8] = if subsystem.namespaces.have_zones() { &[id::CHANGED_ZONES] } else { &[] };
    PAGES.iter().chain(of_ports).chain(of_handles).chain(of_zones).copied().collect()
}

/// How the controller's namespaces are reached through its port. All are one group.
fn access(context: &Context<'_>, is_without_namespaces: bool) -> Vec<u8> {
    let port = context.subsystem.ports.port(context.controller.port);
    let (access, changes) = port.map_or((PortAccess::Optimized, 0), |port| (port.access, port.changes));
    let numbers = if is_without_namespaces { Vec::new() } else { context.view.numbers() };
    let mut header: page::Accesses = empty();
    (header.changes, header.groups) = (changes.into(), 1.into());
    let mut group: page::GroupAccess = empty();
    group.group = GROUP.into();
    group.namespaces = (numbers.len() as u32).into();
    group.changes = changes.into();
    group.access = access as u8;
    let numbers: Vec<u8> = numbers.into_iter().flat_map(u32::to_le_bytes).collect();
    [header.as_bytes(), group.as_bytes(), &numbers].concat()
}

/// What a command asks of this page alone (`LSP`).
fn specific(command: &Submission) -> u8 {
    (command.dword(10) >> 8 & 0x7f) as u8
}

/// Those that changed for the controller; if they are more than the log has room for, it says only that.
fn changed_namespaces(context: &Context<'_>) -> Vec<u8> {
    let changed = context.controller.changed_namespaces();
    let told = if changed.len() > 1024 { &[ALL_NAMESPACES][..] } else { &changed };
    let mut log: Vec<u8> = told.iter().flat_map(|number| number.to_le_bytes()).collect();
    log.resize(4096, 0);
    log
}

/// Four bytes for each page; bit 0 is set if it exists.
fn supported(pages: &[u8]) -> Vec<u8> {
    let mut log = vec![0; 1024];
    for &page in pages {
        log[usize::from(page) * 4] = 1;
    }
    log
}

/// The drive's health.
pub fn smart(subsystem: &Subsystem) -> Vec<u8> {
    let (smart, critical_warning, endurance) = {
        let device = subsystem.queue.drive().lock();
        (device.smart(), critical_warning(&device), device.profile().flash.endurance_cycles)
    };
    let counters = &smart.counters;
    let mut log: page::Smart = empty();
    log.critical_warning = critical_warning;
    // the drive is one endurance group, whose warnings have the same bits
    log.group_warning = critical_warning;
    log.temperature = TEMPERATURE.into();
    log.available_spare = smart.available_spare_percent;
    log.spare_threshold = smart.available_spare_threshold_percent;
    log.percentage_used = percentage_used(&smart, endurance);
    let thousands = |units: u64| -> [U64; 2] { low((units * (UNIT_BYTES as u64 / 512)).div_ceil(1000)) };
    log.data_read = thousands(counters.host_units_read);
    log.data_written = thousands(counters.host_units_written);
    log.host_reads = low(subsystem.counts.reads.load(Ordering::Relaxed));
    log.host_writes = low(subsystem.counts.writes.load(Ordering::Relaxed));
    // the drive counts no clean restarts: an image that was closed goes on where it was
    log.power_cycles = low(counters.unsafe_shutdowns + 1);
    log.power_on_hours = low(subsystem.age_seconds() / 3600);
    log.unsafe_shutdowns = low(counters.unsafe_shutdowns);
    log.media_errors = low(counters.uncorrectable_reads);
    log.error_entries = low(subsystem.errors.count());
    log.as_bytes().to_vec()
}

fn percentage_used(smart: &Smart, endurance: u32) -> u8 {
    (smart.erase_count_mean * 100.0 / f64::from(endurance.max(1))).min(255.0) as u8
}

/// The only endurance group: the whole drive.
fn endurance_group(subsystem: &Subsystem) -> Vec<u8> {
    let unallocated = subsystem.namespaces.with_table(Table::free);
    let device = subsystem.queue.drive().lock();
    let (smart, profile) = (device.smart(), device.profile());
    let counters = &smart.counters;
    let geometry = profile.geometry().expect("a drive has a shape");
    let billions = |units: u64| low((u128::from(units) * UNIT_BYTES as u128).div_ceil(1_000_000_000) as u64);
    let bytes = |units: u64| low(units * UNIT_BYTES as u64);
    let flash_units = u64::from(geometry.blocks()) * u64::from(geometry.units_per_block());
    let mut log: page::EnduranceGroup = empty();
    log.critical_warning = critical_warning(&device);
    log.available_spare = smart.available_spare_percent;
    log.spare_threshold = smart.available_spare_threshold_percent;
    log.percentage_used = percentage_used(&smart, profile.flash.endurance_cycles);
    log.endurance = billions(flash_units * u64::from(profile.flash.endurance_cycles));
    log.data_read = billions(counters.host_units_read);
    log.data_written = billions(counters.host_units_written);
    log.media_written = billions(counters.flash_units.total());
    log.host_reads = low(subsystem.counts.reads.load(Ordering::Relaxed));
    log.host_writes = low(subsystem.counts.writes.load(Ordering::Relaxed));
    log.media_errors = low(counters.uncorrectable_reads);
    log.error_entries = low(subsystem.errors.count());
    log.capacity = bytes(device.limits().capacity_units);
    log.unallocated = bytes(unallocated.into());
    log.as_bytes().to_vec()
}

fn low(value: u64) -> [U64; 2] {
    [value.into(), 0.into()]
}

/// One slot, which is active.
fn firmware() -> Vec<u8> {
    let mut log = vec![0; 512];
    log[0] = 1;
    log[8..16].copy_from_slice(&text::<8>(env!("CARGO_PKG_VERSION"), b' '));
    log
}

/// The I/O commands of the command set that is asked for, and whether they change something. A host that selected only that
/// of blocks names none.
fn commands(context: &Context<'_>, command: &Submission) -> Result<Vec<(u8, bool)>, Failure> {
    let set = match context.controller.selects_command_sets() {
        true => (command.dword(14) >> 24) as u8,
        false => command_set::NVM,
    };
    let programs: &[(u8, bool)] = if context.subsystem.programs.is_some() { &PROGRAM_COMMANDS } else { &[] };
    let of_handles: &[(u8, bool)] = match (set, context.subsystem.placement) {
        (command_set::NVM, Some(_)) => &HANDLE_COMMANDS,
        _ => &[],
    };
    let (standard, programs, takes_records): (&[(u8, bool)], _, _) = match set {
        command_set::NVM => (&NVM_COMMANDS, programs, false),
        command_set::KEY_VALUE => (&KEY_VALUE_COMMANDS, &[][..], true),
        command_set::ZONED if context.subsystem.namespaces.have_zones() => return Ok(ZONE_COMMANDS.to_vec()),
        _ => return Err(Failure::COMMAND_SET),
    };
    let vendor =
        COMMANDS.iter().filter_map(|info| Some((info.vendor_opcode?, info.effect == Effect::Changes)));
    // one of the commands for vendors is for a namespace with records
    let vendor = vendor.filter(|(opcode, _)| (*opcode == vendor::PUT) == takes_records);
    Ok(standard.iter().chain(of_handles).chain(programs).copied().chain(vendor).collect())
}

/// Four bytes for each admin command, then for each I/O command.
fn effects(commands: &[(u8, bool)], has_directives: bool) -> Vec<u8> {
    let mut log = vec![0; 4096];
    let mut tell = |at: usize, effects: u32| log[at * 4..at * 4 + 4].copy_from_slice(&effects.to_le_bytes());
    for opcode in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
        admin::SELF_TEST,
    ] {
        tell(opcode.into(), effect::SUPPORTED);
    }
    if has_directives {
        tell(admin::DIRECTIVE_SEND.into(), effect::SUPPORTED);
        tell(admin::DIRECTIVE_RECEIVE.into(), effect::SUPPORTED);
    }
    // nobody else sends commands to the namespace meanwhile
    let formats = effect::CHANGES_CONTENT | effect::CHANGES_CAPABILITIES | effect::ALONE;
    tell(admin::FORMAT.into(), effect::SUPPORTED | formats);
    tell(admin::SANITIZE.into(), effect::SUPPORTED | effect::CHANGES_CONTENT | effect::ALONE_OF_ALL);
    for opcode in [admin::NAMESPACE_MANAGEMENT, admin::NAMESPACE_ATTACHMENT] {
        tell(opcode.into(), effect::SUPPORTED | effect::CHANGES_INVENTORY);
    }
    debug_assert!(
        commands
            .iter()
            .enumerate()
            .all(|(at, (code, _))| commands[..at].iter().all(|(other, _)| other != code)),
        "an opcode has two effects: {commands:?}"
    );
    for &(opcode, changes) in commands {
        let changes = if changes { effect::CHANGES_CONTENT } else { 0 };
        tell(256 + usize::from(opcode), effect::SUPPORTED | changes);
    }
    log
}

/// Four bytes for each feature.
fn feature_effects(subsystem: &Subsystem) -> Vec<u8> {
    let mut log = vec![0; 1024];
    for feature in features::features(subsystem) {
        let scope = match feature {
            feature if is_of_namespace(feature) => effect::OF_NAMESPACE,
            feature if is_of_group(feature) => effect::OF_GROUP,
            _ => effect::OF_CONTROLLER,
        };
        let effects = effect::SUPPORTED | scope;
        log[usize::from(feature) * 4..usize::from(feature) * 4 + 4].copy_from_slice(&effects.to_le_bytes());
    }
    log
}

/// The address at which a host that has come through `reached` reaches a port. One that stands for all of this machine's addresses has
/// that of the host's own port; an IPv4 address of a socket for IPv6 is told as such.
fn told_of(subsystem: &Subsystem, port: &Port, reached: SocketAddr) -> SocketAddr {
    let number = port.address.port();
    let advertised = subsystem.settings.advertised.map(|advertised| advertised.with_port(number));
    let ip = if port.address.ip().is_unspecified() { reached.ip() } else { port.address.ip() };
    advertised.unwrap_or_else(|| SocketAddr::new(ip.to_canonical(), number))
}

/// The only subsystem, at each of its ports.
fn discovery(context: &Context<'_>) -> Vec<u8> {
    let subsystem = context.subsystem;
    let entries = context.address.map(|reached| {
        let ports = subsystem.ports.all();
        ports
            .iter()
            .map(|port| discovery_entry(subsystem, port.port, told_of(subsystem, port, reached)))
            .collect()
    });
    let entries: Vec<DiscoveryEntry> = entries.unwrap_or_default();
    let mut header: DiscoveryHeader = empty();
    header.generation = 1.into();
    header.entries = (entries.len() as u64).into();
    [header.as_bytes(), entries.as_bytes()].concat()
}

fn discovery_entry(subsystem: &Subsystem, port: u16, address: SocketAddr) -> DiscoveryEntry {
    let mut entry: DiscoveryEntry = empty();
    entry.transport = 3;
    entry.family = if address.is_ipv4() { 1 } else { 2 };
    entry.kind = 2;
    entry.requirements = requirement::NO_FLOW_CONTROL;
    if let Some(tls) = subsystem.hosts.tls() {
        entry.requirements |=
            if tls.is_required() { requirement::SECURE } else { requirement::SECURE_IF_WANTED };
        entry.transport_specific[0] = security::TLS_1_3;
    }
    entry.port = port.into();
    entry.controller = 0xffff.into();
    entry.admin_entries = QUEUE_ENTRIES.into();
    entry.service = text(&address.port().to_string(), b' ');
    entry.address = text(&address.ip().to_string(), b' ');
    entry.subsystem_name = text(&subsystem.settings.name, 0);
    entry
}
