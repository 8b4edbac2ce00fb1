//! Get Features and Set Features (Base, section 5.27.1).

use super::context::Context;
use super::namespaces::wait;
use super::placement;
use crate::controller::{Controller, ControllerKind, QueueRefusal};
use crate::events::CONFIGURABLE;
use crate::failure::Failure;
use crate::history::events::Happened;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::namespaces::{ALL_NAMESPACES, Persistence};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::feature as id;

/// All features.
const FEATURES: [u8; 17] = [
    id::ARBITRATION,
    id::POWER,
    id::TEMPERATURE,
    id::ERROR_RECOVERY,
    id::WRITE_CACHE,
    id::QUEUES,
    id::ATOMICITY,
    id::EVENTS,
    id::TIMESTAMP,
    id::KEEP_ALIVE,
    id::HOST_BEHAVIOUR,
    id::COMMAND_SETS,
    id::DATA_PLACEMENT,
    id::PLACEMENT_EVENTS,
    id::HOST,
    id::RESERVATION_MASK,
    id::RESERVATION_PERSISTENCE,
];

/// Features that can be set.
const CHANGEABLE: [u8; 13] = [
    id::ARBITRATION,
    id::ERROR_RECOVERY,
    id::WRITE_CACHE,
    id::QUEUES,
    id::ATOMICITY,
    id::EVENTS,
    id::TIMESTAMP,
    id::KEEP_ALIVE,
    id::HOST_BEHAVIOUR,
    id::COMMAND_SETS,
    id::PLACEMENT_EVENTS,
    id::RESERVATION_MASK,
    id::RESERVATION_PERSISTENCE,
];

const HOST_BEHAVIOUR_BYTES: u32 = 512;
const TIMESTAMP_BYTES: u32 = 8;

/// The temperature threshold: that at which the drive would warn, in kelvin.
const THRESHOLD: u64 = 343;

/// Fields of Error Recovery: `TLER` and `DULBE`.
const ERROR_RECOVERY: u32 = 0x1_ffff;

fn feature(command: &Submission) -> u8 {
    command.dword(10) as u8
}

/// The data that Set Features moves.
pub fn sent(command: &Submission) -> Transfer {
    match feature(command) {
        id::HOST_BEHAVIOUR => Transfer::FromHost(HOST_BEHAVIOUR_BYTES),
        id::TIMESTAMP => Transfer::FromHost(TIMESTAMP_BYTES),
        id::PLACEMENT_EVENTS => placement::events_sent(command),
        _ => Transfer::None,
    }
}

/// The data that Get Features moves.
pub fn given(command: &Submission) -> Result<Transfer, Failure> {
    // its capabilities instead of its setting
    if selection(command) == 3 {
        return Ok(Transfer::None);
    }
    match feature(command) {
        id::HOST_BEHAVIOUR => Ok(Transfer::ToHost(HOST_BEHAVIOUR_BYTES)),
        id::TIMESTAMP => Ok(Transfer::ToHost(TIMESTAMP_BYTES)),
        id::PLACEMENT_EVENTS => placement::events_given(command),
        // over fabrics the identifier has 16 bytes, which is the extended form; there is no short one (`EXHID` is 0)
        id::HOST if !command.bit(11, 0) => Err(Failure::INVALID_FIELD),
        id::HOST => Ok(Transfer::ToHost(16)),
        _ => Ok(Transfer::None),
    }
}

/// 0 the current value, 1 the default, 2 the saved one, 3 the capabilities.
fn selection(command: &Submission) -> u32 {
    command.dword(10) >> 8 & 7
}

/// The features of a subsystem's controllers. A drive without a volatile cache has none to switch off, one without reclaim unit
/// handles places no data, and one with blocks alone has no command sets to choose from.
pub fn features(subsystem: &Subsystem) -> impl Iterator<Item = u8> {
    let (has_cache, has_handles) = (subsystem.has_volatile_cache(), subsystem.placement.is_some());
    let has_sets = subsystem.namespaces.have_other_sets();
    FEATURES.into_iter().filter(move |&feature| match feature {
        id::WRITE_CACHE => has_cache,
        id::COMMAND_SETS => has_sets,
        id::DATA_PLACEMENT | id::PLACEMENT_EVENTS => has_handles,
        _ => true,
    })
}

/// Whether a feature is that of a namespace.
pub fn is_of_namespace(feature: u8) -> bool {
    matches!(
        feature,
        id::ERROR_RECOVERY | id::PLACEMENT_EVENTS | id::RESERVATION_MASK | id::RESERVATION_PERSISTENCE
    )
}

/// Whether a feature is that of an endurance group; all others are the controller's.
pub fn is_of_group(feature: u8) -> bool {
    feature == id::DATA_PLACEMENT
}

/// Whether the drive keeps what is set, so that a host may ask it to. It keeps nothing else, but reservations, which have a feature of
/// their own for that.
fn is_saved(feature: u8) -> bool {
    matches!(feature, id::DATA_PLACEMENT | id::PLACEMENT_EVENTS)
}

fn check_known(context: &Context<'_>, feature: u8) -> Result<(), Failure> {
    let is_known = match context.controller.kind {
        ControllerKind::Io => features(context.subsystem).any(|known| known == feature),
        ControllerKind::Discovery => matches!(feature, id::EVENTS | id::KEEP_ALIVE),
    };
    if is_known { Ok(()) } else { Err(Failure::INVALID_FIELD) }
}

/// Whether the command names an existing namespace; none and all are no name.
fn names_namespace(context: &Context<'_>, command: &Submission) -> Result<bool, Failure> {
    match command.namespace.get() {
        0 | ALL_NAMESPACES => Ok(false),
        number if context.view.numbers().contains(&number) => Ok(true),
        _ => Err(Failure::INVALID_NAMESPACE),
    }
}

/// Get Features.
pub fn get(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let feature = feature(command);
    check_known(context, feature)?;
    if selection(command) > 3 {
        return Err(Failure::INVALID_FIELD);
    }
    // a feature of the controller has the same value for each of its namespaces
    let names_namespace = names_namespace(context, command)?;
    if selection(command) == 3 {
        // bit 0: it can be saved; bit 1: it is a namespace's; bit 2: it can be changed
        let (is_changeable, is_of_namespace) = (CHANGEABLE.contains(&feature), is_of_namespace(feature));
        let is_saved = u64::from(is_saved(feature));
        return Ok(Answer::result(
            is_saved | u64::from(is_of_namespace) << 1 | u64::from(is_changeable) << 2,
        ));
    }
    if is_of_namespace(feature) && !names_namespace {
        // (Base, sections 5.27.1.24 and 5.27.1.25)
        let is_of_reservations = matches!(feature, id::RESERVATION_MASK | id::RESERVATION_PERSISTENCE);
        let is_all = is_of_reservations && command.namespace.get() == ALL_NAMESPACES;
        return Err(if is_all { Failure::INVALID_FIELD } else { Failure::INVALID_NAMESPACE });
    }
    let is_current = selection(command) == 0 || selection(command) == 2 && is_saved(feature);
    let controller = context.controller;
    let set = |default: u32| match is_current {
        true => u64::from(controller.feature(feature).unwrap_or(default)),
        false => default.into(),
    };
    let result = match feature {
        id::ERROR_RECOVERY if is_current => {
            let set = context.subsystem.namespaces.error_recovery(command.namespace.get());
            // namespaces with records have none
            u64::from(set.unwrap_or(0))
        }
        id::RESERVATION_MASK if is_current => {
            let number = command.namespace.get();
            controller.with_reservations(|notices| notices.mask(number)).into()
        }
        id::RESERVATION_PERSISTENCE if is_current => {
            let target = context.view.blocks(command.namespace.get());
            let persists = |target| context.subsystem.namespaces.reservation(target).persists;
            target.is_some_and(persists).into()
        }
        id::WRITE_CACHE => u64::from(!(is_current && context.subsystem.is_write_through())),
        id::QUEUES => queues(controller.io_queues()),
        id::TEMPERATURE => THRESHOLD,
        id::KEEP_ALIVE if is_current => controller.keep_alive_ms().into(),
        id::TIMESTAMP => return Ok(Answer::data(timestamp(controller, is_current))),
        id::DATA_PLACEMENT => return placement::get(context, command),
        id::PLACEMENT_EVENTS if !names_namespace => return Err(Failure::INVALID_NAMESPACE),
        id::PLACEMENT_EVENTS => return placement::get_events(context, command, is_current),
        id::HOST => return Ok(Answer::data(controller.host.id.to_vec())),
        id::HOST_BEHAVIOUR => {
            let mut data = vec![0; HOST_BEHAVIOUR_BYTES as usize];
            let behaviour = (set(0) as u32).to_le_bytes();
            data[..3].copy_from_slice(&behaviour[..3]);
            data[4] = behaviour[3];
            return Ok(Answer::data(data));
        }
        _ => set(0),
    };
    Ok(Answer::result(result))
}

/// Milliseconds since 1970 in six bytes, and in bits 3:1 of the next one whether a host has set them; otherwise since the controller
/// was made (Base, section 5.27.1.11).
fn timestamp(controller: &Controller, is_current: bool) -> Vec<u8> {
    let (milliseconds, is_set) = if is_current { controller.timestamp() } else { (0, false) };
    let mut data = milliseconds.to_le_bytes()[..6].to_vec();
    data.extend([u8::from(is_set) << 1, 0]);
    data
}

/// Submission and completion queues, each less one.
fn queues(granted: u16) -> u64 {
    let least = u64::from(granted.max(1) - 1);
    least << 16 | least
}

/// Set Features.
pub fn set(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    let (feature, value) = (feature(command), command.dword(11));
    check_known(context, feature)?;
    let names_namespace = names_namespace(context, command)?;
    if names_namespace && !is_of_namespace(feature) {
        return Err(Failure::NOT_OF_NAMESPACE);
    }
    if command.bit(10, 31) && !is_saved(feature) {
        return Err(Failure::NOT_SAVEABLE);
    }
    let controller = context.controller;
    match feature {
        id::ERROR_RECOVERY => set_error_recovery(context, command.namespace.get(), value)?,
        id::RESERVATION_MASK => {
            let numbers = named(context, command.namespace.get())?;
            // each of the three kinds of notices
            let mask = value & 0b1110;
            controller.with_reservations(|notices| {
                numbers.iter().for_each(|number| notices.set_mask(*number, mask))
            });
        }
        id::RESERVATION_PERSISTENCE => {
            let target = context.view.blocks(command.namespace.get()).ok_or(Failure::INVALID_FIELD)?;
            let persists = Persistence::Becomes(value & 1 == 1);
            let (namespaces, queue) = (&context.subsystem.namespaces, &context.subsystem.queue);
            let ticket = queue.answers().ticket();
            let changed = namespaces.reserve(queue, target, |reservation| {
                reservation.persist(persists);
                Ok(())
            })?;
            wait(context.subsystem, ticket, changed.done_ns)?;
        }
        id::WRITE_CACHE => context.subsystem.set_write_through(value & 1 == 0),
        id::QUEUES => return grant_queues(controller, value),
        id::KEEP_ALIVE => controller.set_keep_alive_ms(value),
        id::HOST_BEHAVIOUR => {
            // formats of copy descriptors that only an enabled host may use
            if u16::from_le_bytes([data[4], data[5]]) & !(1 << id::COPY_ACROSS) != 0 {
                return Err(Failure::INVALID_FIELD);
            }
            let behaviour = u32::from_le_bytes([data[0], data[1], data[2], data[4]]);
            controller.set_feature(feature, behaviour);
        }
        id::TIMESTAMP => {
            let milliseconds = [data[0], data[1], data[2], data[3], data[4], data[5], 0, 0];
            let (before_ms, milliseconds) = (controller.timestamp().0, u64::from_le_bytes(milliseconds));
            controller.set_timestamp(milliseconds);
            let events = &context.subsystem.history.events;
            events.set_clock(milliseconds);
            events.add(context.subsystem, Some(controller.id), &Happened::Timestamp(before_ms));
        }
        id::DATA_PLACEMENT => return placement::set(context, command),
        id::PLACEMENT_EVENTS if !names_namespace => return Err(Failure::INVALID_NAMESPACE),
        id::PLACEMENT_EVENTS => return placement::set_events(context, command, data),
        // the only combination is that of all
        id::COMMAND_SETS if value & 0x1ff == 0 => {}
        id::COMMAND_SETS => return Err(Failure::COMMAND_SET_COMBINATION),
        id::POWER if value & 0x1f == 0 => {}
        id::POWER => return Err(Failure::INVALID_FIELD),
        // events that are never sent cannot be requested
        id::EVENTS if value & !configurable(context.subsystem) != 0 => return Err(Failure::INVALID_FIELD),
        id::ARBITRATION | id::ATOMICITY | id::EVENTS => {
            controller.set_feature(feature, value);
        }
        _ => return Err(Failure::NOT_CHANGEABLE),
    }
    Ok(Answer::default())
}

/// Valid values of the feature of events.
fn configurable(subsystem: &Subsystem) -> u32 {
    CONFIGURABLE | subsystem.notices()
}

/// The namespaces with blocks for which a feature is set.
fn named(context: &Context<'_>, number: u32) -> Result<Vec<u32>, Failure> {
    match number {
        0 => Err(Failure::INVALID_NAMESPACE),
        ALL_NAMESPACES => Ok(context.view.of_blocks()),
        number if context.view.blocks(number).is_some() => Ok(vec![number]),
        // one with records
        _ => Err(Failure::INVALID_FIELD),
    }
}

/// Sets Error Recovery of a namespace with blocks, or of all that the controller has: a limit of retries, of which the drive makes none,
/// and whether reads of deallocated blocks fail (NVM, section 4.1.3.2).
fn set_error_recovery(context: &Context<'_>, number: u32, value: u32) -> Result<(), Failure> {
    let numbers = named(context, number)?;
    if value & !ERROR_RECOVERY != 0 {
        return Err(Failure::INVALID_FIELD);
    }
    context.subsystem.namespaces.set_error_recovery(&numbers, value);
    Ok(())
}

/// Grants I/O queues: as many submission queues as completion queues.
fn grant_queues(controller: &Controller, value: u32) -> Result<Answer, Failure> {
    let (submission, completion) = (value & 0xffff, value >> 16);
    if submission == 0xffff || completion == 0xffff {
        return Err(Failure::INVALID_FIELD);
    }
    match controller.grant_io_queues(submission.min(completion) as u16 + 1) {
        Ok(granted) => Ok(Answer::result(queues(granted))),
        Err(QueueRefusal::Sequence | QueueRefusal::Number) => Err(Failure::SEQUENCE),
    }
}
