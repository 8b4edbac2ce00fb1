//! Identify (Base, section 5.17).

use tantalum::{Device, UNIT_BYTES};

use super::context::Context;
use super::placement::ENDURANCE_GROUP;
use super::{sanitize, zones};
use crate::blocks::BlockSpace;
use crate::controller::{ControllerKind, QUEUE_ENTRIES, VERSION};
use crate::errors::ERROR_ENTRIES;
use crate::events::{NAMESPACE_NOTICES, TELEMETRY_NOTICES};
use crate::failure::Failure;
use crate::history::events::LOG_SIZE;
use crate::history::self_test::EXTENDED_MINUTES;
use crate::identity::uuid_of_namespace;
use crate::io::{COPY_BLOCKS_BYTES, COPY_RANGES, TRANSFER_BYTES, TRANSFER_LIMIT_LOG2};
use crate::limits::{ABORTS, EVENT_REQUESTS};
use crate::namespaces::{ALL_NAMESPACES, Entry, FORMATS, Namespaces, ZONES_NAMESPACE, ZoneSpace};
use crate::ports::{GROUP, PortAccess, TRANSITION_SECONDS};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::fabrics::DISCOVERY_NQN;
use crate::wire::feature::COPY_ACROSS;
use crate::wire::identify::{
    BlockFormat, CommonNamespace, Controller, IDENTIFY_BYTES, KeyValueNamespace, Namespace, NvmController,
    bytes_of, cns, command_set, descriptor, empty,
};
use crate::wire::pdu::ADMIN_CAPSULE_BYTES;
use crate::wire::text;

const _: () = assert!(
    ERROR_ENTRIES <= 1 << 8 && ABORTS <= 1 << 8 && EVENT_REQUESTS <= 1 << 8 && COPY_RANGES <= 1 << 8,
    "limits are told in one byte, less one"
);
const _: () = assert!(COPY_BLOCKS_BYTES / 512 <= u16::MAX as u32, "the largest copy is told in 16 bits");
const _: () = assert!(ADMIN_CAPSULE_BYTES.is_multiple_of(16), "capsules are told in units of 16 bytes");

/// Controllers in one list.
const CONTROLLERS_OF_LIST: usize = 2047;

/// Reservations that outlive power losses, of all six kinds; an ignored key need not be the host's (`RESCAP`).
const RESERVATIONS: u8 = 0xff;

/// Granularity of the keep-alive timer, in units of 100 ms.
const KEEP_ALIVE_GRANULARITY: u16 = 10;

/// Answers the command.
pub fn answer(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let structure = command.dword(10) as u8;
    if context.controller.kind == ControllerKind::Discovery && structure != cns::CONTROLLER {
        return Err(Failure::INVALID_FIELD);
    }
    let told = match structure {
        cns::CONTROLLER => bytes_of(&controller(context)),
        cns::CONTROLLER_OF_SET => controller_of_set(context, command)?,
        cns::COMMAND_SETS => command_sets(&context.subsystem.namespaces),
        cns::ACTIVE_NAMESPACES
        | cns::ACTIVE_NAMESPACES_OF_SET
        | cns::ALLOCATED_NAMESPACES
        | cns::ALLOCATED_NAMESPACES_OF_SET => namespace_list(context, command)?,
        cns::ENDURANCE_GROUPS => endurance_groups(command),
        cns::CONTROLLERS_OF_NAMESPACE | cns::CONTROLLERS => controller_list(context, command)?,
        cns::NAMESPACE
        | cns::ALLOCATED_NAMESPACE
        | cns::NAMESPACE_OF_SET
        | cns::NAMESPACE_OF_ALL_SETS
        | cns::NAMESPACE_DESCRIPTORS => namespace(context, command)?,
        _ => return Err(Failure::INVALID_FIELD),
    };
    assert_eq!(told.len(), IDENTIFY_BYTES, "structure {structure:#x} has another length than all others");
    Ok(told)
}

/// The command set that the command names.
fn set_of(command: &Submission) -> u8 {
    (command.dword(11) >> 24) as u8
}

fn controller_of_set(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    match set_of(command) {
        command_set::NVM => Ok(bytes_of(&nvm_controller())),
        command_set::KEY_VALUE if context.subsystem.namespaces.have_records() => Ok(vec![0; IDENTIFY_BYTES]),
        command_set::ZONED if context.subsystem.namespaces.have_zones() => {
            Ok(bytes_of(&zones::zoned_controller()))
        }
        _ => Err(Failure::INVALID_FIELD),
    }
}

/// A list of namespaces above the one that the command names: those that the controller has, or all.
fn namespace_list(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let (structure, namespaces) = (command.dword(10) as u8, &context.subsystem.namespaces);
    let is_of_set = matches!(structure, cns::ACTIVE_NAMESPACES_OF_SET | cns::ALLOCATED_NAMESPACES_OF_SET);
    let is_active = matches!(structure, cns::ACTIVE_NAMESPACES | cns::ACTIVE_NAMESPACES_OF_SET);
    let all = if is_active { context.view.numbers() } else { namespaces.numbers() };
    let listed: Vec<u32> = match (is_of_set, set_of(command)) {
        (false, _) => all,
        (true, set) if namespaces.has_set(set) => {
            all.into_iter().filter(|number| namespaces.set_of(*number) == set).collect()
        }
        _ => return Err(Failure::INVALID_FIELD),
    };
    let above = command.namespace.get();
    if above >= ALL_NAMESPACES - 1 {
        return Err(Failure::INVALID_NAMESPACE);
    }
    let listed = listed.into_iter().filter(|&number| number > above).take(IDENTIFY_BYTES / 4);
    let mut list: Vec<u8> = listed.flat_map(u32::to_le_bytes).collect();
    list.resize(IDENTIFY_BYTES, 0);
    Ok(list)
}

/// A list of endurance groups from the one on that the command names. Their number comes first.
fn endurance_groups(command: &Submission) -> Vec<u8> {
    let from = command.dword(11) & 0xffff;
    let listed: &[u16] = if from <= ENDURANCE_GROUP.into() { &[1, ENDURANCE_GROUP] } else { &[0] };
    let mut list: Vec<u8> = listed.iter().copied().flat_map(u16::to_le_bytes).collect();
    list.resize(IDENTIFY_BYTES, 0);
    list
}

/// A list of controllers from the one on that the command names: those that have its namespace, or all. Their number comes first.
fn controller_list(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let (subsystem, number) = (context.subsystem, command.namespace.get());
    let slot = match command.dword(10) as u8 {
        cns::CONTROLLERS => None,
        _ if subsystem.namespaces.is_of_drive(number) => None,
        _ => {
            let slot = subsystem.namespaces.with_table(|table| table.find(number).map(|(slot, _)| slot));
            Some(slot.ok_or(Failure::INVALID_NAMESPACE)?)
        }
    };
    let from = (command.dword(10) >> 16) as u16;
    let controllers = subsystem.io_controllers().into_iter().filter(|controller| controller.id >= from);
    let listed = controllers.filter(|there| slot.is_none_or(|slot| there.has_attached(slot)));
    let ids: Vec<u16> = listed.map(|controller| controller.id).take(CONTROLLERS_OF_LIST).collect();
    let mut list = (ids.len() as u16).to_le_bytes().to_vec();
    list.extend(ids.into_iter().flat_map(u16::to_le_bytes));
    list.resize(IDENTIFY_BYTES, 0);
    Ok(list)
}

/// A structure of one namespace. One that could exist but does not, or that the controller does not have, has zeros.
fn namespace(context: &Context<'_>, command: &Submission) -> Result<Vec<u8>, Failure> {
    let (subsystem, number) = (context.subsystem, command.namespace.get());
    let (structure, set) = (command.dword(10) as u8, set_of(command));
    if structure == cns::NAMESPACE_OF_SET
        && set > command_set::KEY_VALUE
        && !subsystem.namespaces.has_set(set)
    {
        return Err(Failure::INVALID_FIELD);
    }
    if let Some(zones) = subsystem.namespaces.zones_of(number) {
        return match structure {
            cns::NAMESPACE_OF_SET if set == command_set::ZONED => {
                Ok(bytes_of(&zones::zoned_namespace(zones)))
            }
            // blocks of zones have nothing that is not in the structure of blocks
            cns::NAMESPACE_OF_SET if set == command_set::NVM => Ok(vec![0; IDENTIFY_BYTES]),
            cns::NAMESPACE_OF_SET => Err(Failure::COMMAND_SET),
            cns::NAMESPACE_OF_ALL_SETS => Ok(bytes_of(&common_namespace(subsystem, true, false))),
            cns::NAMESPACE_DESCRIPTORS => Ok(descriptors(subsystem, number.into(), command_set::ZONED)),
            _ => Ok(bytes_of(&zones::block_namespace(subsystem, zones))),
        };
    }
    if subsystem.namespaces.key_value(number).is_some() {
        return match structure {
            cns::NAMESPACE_OF_SET if set == command_set::KEY_VALUE => {
                Ok(bytes_of(&key_value_namespace(subsystem, number)))
            }
            cns::NAMESPACE_OF_ALL_SETS => Ok(bytes_of(&common_namespace(subsystem, true, false))),
            cns::NAMESPACE_DESCRIPTORS => Ok(descriptors(subsystem, number.into(), command_set::KEY_VALUE)),
            _ => Err(Failure::COMMAND_SET),
        };
    }
    // what all namespaces have in common
    if number == ALL_NAMESPACES && structure == cns::NAMESPACE {
        return Ok(bytes_of(&any_block_namespace(&subsystem.queue.drive().lock(), &BlockSpace::NONE)));
    }
    let is_active = context.view.blocks(number).is_some();
    let is_told = is_active || structure == cns::ALLOCATED_NAMESPACE;
    let entry = subsystem.namespaces.with_table(|table| table.find(number).map(|(_, entry)| entry.clone()));
    let Some(entry) = entry.filter(|_| is_told) else {
        let is_possible = (1..=subsystem.namespaces.highest()).contains(&number);
        let is_empty = is_possible && structure != cns::NAMESPACE_DESCRIPTORS;
        return if is_empty { Ok(vec![0; IDENTIFY_BYTES]) } else { Err(Failure::INVALID_NAMESPACE) };
    };
    match structure {
        cns::NAMESPACE_OF_SET if set != command_set::NVM => Err(Failure::COMMAND_SET),
        cns::NAMESPACE_OF_SET => Ok(vec![0; IDENTIFY_BYTES]),
        cns::NAMESPACE_OF_ALL_SETS => Ok(bytes_of(&common_namespace(subsystem, entry.is_shared, true))),
        cns::NAMESPACE_DESCRIPTORS => Ok(descriptors(subsystem, entry.identity(), command_set::NVM)),
        _ => Ok(bytes_of(&block_namespace(subsystem, &entry))),
    }
}

fn controller(context: &Context<'_>) -> Controller {
    let (subsystem, controller) = (context.subsystem, context.controller);
    let settings = &subsystem.settings;
    let mut told: Controller = empty();
    told.serial = text(&settings.serial, b' ');
    told.model = text("Tantalum", b' ');
    told.firmware = text(env!("CARGO_PKG_VERSION"), b' ');
    told.transfer_limit = TRANSFER_LIMIT_LOG2;
    told.id = controller.id.into();
    told.version = VERSION.into();
    told.event_limit = EVENT_REQUESTS as u8 - 1;
    told.error_entries = (ERROR_ENTRIES - 1) as u8;
    told.keep_alive = KEEP_ALIVE_GRANULARITY.into();
    told.commands = QUEUE_ENTRIES.into();
    // SGLs are supported; they may be longer than the data; an address may be an offset; transport data blocks
    told.sgl = (1 | 1 << 18 | 1 << 20 | 1 << 21).into();
    // host identifiers of 128 bits; traffic keeps a controller alive as well
    told.attributes = (1 | 1 << 6).into();
    // log pages may be read from an offset
    told.log_attributes = 1 << 2;
    if controller.kind == ControllerKind::Discovery {
        told.kind = 2;
        told.subsystem_name = text(DISCOVERY_NQN, 0);
        return told;
    }
    tell_of_io(&mut told, subsystem);
    told
}

/// Fields that only a controller with namespaces reports.
fn tell_of_io(told: &mut Controller, subsystem: &Subsystem) {
    tell_of_namespaces(told, subsystem);
    told.kind = 1;
    told.subsystem_name = text(&subsystem.settings.name, 0);
    // several controllers
    told.sharing = 1 << 1;
    if subsystem.ports.are_several() {
        tell_of_ports(told);
    }
    // changes of namespaces' attributes are reported, and that the drive has kept telemetry
    told.events = (NAMESPACE_NOTICES | TELEMETRY_NOTICES | subsystem.notices()).into();
    // the log of commands and their effects is supported
    told.log_attributes |= 1 << 1;
    // one slot, read-only
    told.firmware_updates = 1 << 1 | 1;
    told.abort_limit = ABORTS as u8 - 1;
    told.temperatures = [343.into(), 353.into()];
    told.sanitize = sanitize::CAPABILITIES.into();
    // Format, Namespace Management and Attachment, Device Self-test, and Directives where one is of use
    let has_handles = subsystem.placement.is_some();
    told.admin_commands = (1 << 1 | 1 << 3 | 1 << 4 | u16::from(has_handles) << 5).into();
    told.self_test_minutes = EXTENDED_MINUTES.into();
    told.self_test = 1;
    // telemetry, and the persistent event log
    told.log_attributes |= 1 << 3 | 1 << 4;
    told.event_log = LOG_SIZE.into();
    // endurance groups, and flexible data placement
    told.attributes = (told.attributes.get() | 1 << 4 | u32::from(has_handles) << 19).into();
    told.endurance_groups = ENDURANCE_GROUP.into();
    told.submission_bytes = 6 << 4 | 6;
    told.completion_bytes = 4 << 4 | 4;
    // Compare, Write Uncorrectable, Dataset Management, Write Zeroes, saved features, reservations, Timestamp, Verify, Copy
    told.io_commands = (1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8).into();
    // Compare and Write
    told.fused = 1.into();
    told.copy_formats = (1 | 1 << COPY_ACROSS).into();
    // a flush may name all namespaces
    told.write_cache = 3 << 1 | u8::from(subsystem.has_volatile_cache());
    told.vendor_io = 1;
    told.command_capsule = ((64 + ADMIN_CAPSULE_BYTES as u32) / 16).into();
    told.response_capsule = 1.into();
    told.sgl_descriptors = 1;
}

/// What a subsystem with several ports tells of them.
fn tell_of_ports(told: &mut Controller) {
    // several ports, and the access to namespaces is told
    told.sharing |= 1 | 1 << 3;
    told.transition_seconds = TRANSITION_SECONDS;
    let possible = PortAccess::ALL.iter().fold(0, |all, access| all | 1 << (*access as u8 - 1).min(4));
    // namespaces stay in their group
    told.access = possible | 1 << 6;
    told.highest_access_group = GROUP.into();
    told.access_groups = 1.into();
}

/// The group of all namespaces, if hosts are told of groups.
fn access_group(subsystem: &Subsystem) -> u32 {
    if subsystem.ports.are_several() { GROUP } else { 0 }
}

/// Capacity, and what all namespaces have in common.
fn tell_of_namespaces(told: &mut Controller, subsystem: &Subsystem) {
    let (namespaces, table) = (&subsystem.namespaces, subsystem.namespaces.table());
    let device = subsystem.queue.drive().lock();
    let zones = namespaces.zones_of(ZONES_NAMESPACE).map_or(0, ZoneSpace::capacity);
    told.capacity[0] = ((device.limits().capacity_units + zones) * UNIT_BYTES as u64).into();
    told.unallocated[0] = (u64::from(table.largest_free()) * UNIT_BYTES as u64).into();
    told.namespaces = namespaces.highest().into();
    told.most_namespaces = namespaces.most().into();
    // one block, if writes across units are not atomic; otherwise those of the namespace with the largest blocks, which has the fewest
    let of_namespaces = table.entries().map(|(_, entry)| entry.space());
    let largest = of_namespaces.max_by_key(|space| space.block_bytes).unwrap_or(BlockSpace::NONE);
    let whole = largest.written_whole(device.limits().atomic_write_units);
    let blocks = if whole.boundary == 0 { less_one(whole.blocks) } else { 0 };
    told.atomic = blocks.into();
    told.atomic_power_fail = blocks.into();
    told.atomic_compare = blocks.into();
}

/// What all block namespaces with blocks of this size have in common.
fn any_block_namespace(device: &Device, space: &BlockSpace) -> Namespace {
    let mut told: Namespace = empty();
    // the atomic fields are valid, reads of deallocated blocks can fail, and the preferred sizes are valid
    told.features = 1 << 1 | 1 << 2 | 1 << 4;
    // deallocated blocks read as zeros, and Write Zeroes deallocates
    told.deallocate = 1 | 1 << 3;
    told.endurance_group = ENDURANCE_GROUP.into();
    told.reservations = RESERVATIONS;
    let unit = (space.per_unit() - 1) as u16;
    let whole = space.written_whole(device.limits().atomic_write_units);
    told.atomic = [less_one(whole.blocks).into(); 3];
    let boundary = less_one(whole.boundary.max(1));
    told.boundary = [boundary.into(), 0.into(), boundary.into()];
    let (page, stripe) = written_best(device, space);
    told.preferred = [page, page, unit, unit].map(Into::into);
    told.optimal_write = stripe.into();
    let copy_blocks = COPY_BLOCKS_BYTES / space.block_bytes;
    told.copy_range = (copy_blocks as u16).into();
    told.copy_blocks = copy_blocks.into();
    told.copy_ranges = (COPY_RANGES - 1) as u8;
    told.attributes = is_write_protected(device).into();
    told.formats = FORMATS.len() as u8 - 1;
    for (format, block_bytes) in told.block_formats.iter_mut().zip(FORMATS) {
        // blocks that are parts of units are slower
        let performance = u8::from(block_bytes < UNIT_BYTES as u32);
        let block_bytes_log2 = block_bytes.trailing_zeros() as u8;
        *format = BlockFormat { block_bytes_log2, performance, ..BlockFormat::default() };
    }
    told
}

fn block_namespace(subsystem: &Subsystem, entry: &Entry) -> Namespace {
    let (space, identity) = (entry.space(), entry.identity());
    let mut told = any_block_namespace(&subsystem.queue.drive().lock(), &space);
    told.access_group = access_group(subsystem).into();
    told.size = space.blocks.into();
    told.capacity = space.blocks.into();
    told.used = space.blocks.into();
    told.bytes[0] = (u64::from(entry.units) * UNIT_BYTES as u64).into();
    told.format = entry.format;
    told.sharing = entry.is_shared.into();
    told.guid = guid(subsystem, identity);
    told.eui64 = eui64(subsystem, identity);
    told
}

/// A number of blocks as the standard tells it.
fn less_one(blocks: u32) -> u16 {
    (blocks - 1) as u16
}

/// What the flash is written with best, in blocks less one: a whole page, and a page on every plane, as far as one command
/// can write it.
fn written_best(device: &Device, space: &BlockSpace) -> (u16, u16) {
    let geometry = device.profile().geometry().expect("a drive has a shape");
    let page_bytes = geometry.units_per_page() * UNIT_BYTES as u32;
    let pages = geometry.planes().min(TRANSFER_BYTES / page_bytes).max(1);
    let blocks = |bytes: u32| (bytes / space.block_bytes - 1) as u16;
    (blocks(page_bytes), blocks(pages * page_bytes))
}

fn common_namespace(subsystem: &Subsystem, is_shared: bool, has_blocks: bool) -> CommonNamespace {
    let device = subsystem.queue.drive().lock();
    let mut told: CommonNamespace = empty();
    told.access_group = access_group(subsystem).into();
    told.sharing = is_shared.into();
    told.reservations = if has_blocks { RESERVATIONS } else { 0 };
    told.attributes = is_write_protected(&device).into();
    told.endurance_group = if has_blocks { ENDURANCE_GROUP } else { group_of_records(subsystem) }.into();
    told.status = is_ready(&device).into();
    told
}

/// Whether the drive refuses every change: it is worn out, or its host failed.
pub(super) fn is_write_protected(device: &Device) -> bool {
    device.is_read_only() || device.refuses_changes().is_some()
}

fn is_ready(device: &Device) -> bool {
    device.has_power()
}

fn nvm_controller() -> NvmController {
    let mut told: NvmController = empty();
    // the number of the largest blocks that a command can name
    let largest = FORMATS.iter().max().copied().unwrap_or(0);
    let most = ((u64::from(largest) << 16) / UNIT_BYTES as u64).trailing_zeros() as u8;
    told.limits = [most, most, most];
    told
}

/// A namespace with records: its size is what blocks leave free on the drive, in bytes.
fn key_value_namespace(subsystem: &Subsystem, namespace: u32) -> KeyValueNamespace {
    let device = subsystem.queue.drive().lock();
    let limits = device.limits();
    let mut told: KeyValueNamespace = empty();
    told.access_group = access_group(subsystem).into();
    told.size = (limits.capacity_units * UNIT_BYTES as u64).into();
    told.sharing = 1;
    told.attributes = is_write_protected(&device).into();
    told.endurance_group = group_of_records(subsystem).into();
    told.guid = guid(subsystem, namespace.into());
    told.eui64 = eui64(subsystem, namespace.into());
    told.formats[0].key_bytes = (limits.key_value.key_bytes as u16).into();
    told.formats[0].value_bytes = TRANSFER_BYTES.min(limits.key_value.value_bytes as u32).into();
    told
}

/// The endurance group of namespaces with records. Those of a group in which flexible data placement is enabled have placement handles,
/// which are not defined for records (Key Value 1.1): there they tell of no group.
fn group_of_records(subsystem: &Subsystem) -> u16 {
    if subsystem.placement.is_some() { 0 } else { ENDURANCE_GROUP }
}

/// A locally administered identifier: the image's identity and the namespace's.
pub(super) fn eui64(subsystem: &Subsystem, namespace: u64) -> [u8; 8] {
    let mut id = (subsystem.settings.identity ^ namespace).to_be_bytes();
    id[0] = id[0] & !1 | 2;
    id
}

pub(super) fn guid(subsystem: &Subsystem, namespace: u64) -> [u8; 16] {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&tantalum_image::mix(subsystem.settings.identity).to_be_bytes());
    id[8..].copy_from_slice(&eui64(subsystem, namespace));
    id
}

/// Type, length, two reserved bytes, and the value.
fn descriptors(subsystem: &Subsystem, namespace: u64, set: u8) -> Vec<u8> {
    let mut list = Vec::with_capacity(IDENTIFY_BYTES);
    let mut add = |kind: u8, value: &[u8]| {
        list.extend([kind, value.len() as u8, 0, 0]);
        list.extend(value);
    };
    add(descriptor::EUI64, &eui64(subsystem, namespace));
    add(descriptor::GUID, &guid(subsystem, namespace));
    add(descriptor::UUID, &uuid_of_namespace(subsystem.settings.identity, namespace));
    add(descriptor::COMMAND_SET, &[set]);
    assert!(list.len() <= IDENTIFY_BYTES, "descriptors of namespace {namespace} take {} bytes", list.len());
    list.resize(IDENTIFY_BYTES, 0);
    list
}

/// Combinations of command sets: only one, with all that have namespaces.
fn command_sets(namespaces: &Namespaces) -> Vec<u8> {
    let mut vectors = vec![0; IDENTIFY_BYTES];
    vectors[0] = [command_set::NVM, command_set::KEY_VALUE, command_set::ZONED]
        .into_iter()
        .filter(|set| namespaces.has_set(*set))
        .fold(0, |all, set| all | 1 << set);
    vectors
}
