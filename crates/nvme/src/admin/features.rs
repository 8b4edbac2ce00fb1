//! Get Features and Set Features (Base, section 5.27.1).

use super::context::Context;
use crate::controller::{IO_QUEUES, Kind, State};
use crate::events::CONFIGURABLE;
use crate::failure::Failure;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::wire::command::Submission;
use crate::wire::feature as id;

/// The features that exist.
pub const FEATURES: [u8; 11] = [
    id::ARBITRATION,
    id::POWER,
    id::TEMPERATURE,
    id::ERROR_RECOVERY,
    id::WRITE_CACHE,
    id::QUEUES,
    id::ATOMICITY,
    id::EVENTS,
    id::KEEP_ALIVE,
    id::HOST_BEHAVIOUR,
    id::HOST,
];

/// Features that can be set.
pub const CHANGEABLE: [u8; 7] = [
    id::ARBITRATION,
    id::WRITE_CACHE,
    id::QUEUES,
    id::ATOMICITY,
    id::EVENTS,
    id::KEEP_ALIVE,
    id::HOST_BEHAVIOUR,
];

const HOST_BEHAVIOUR_BYTES: u32 = 512;

/// The temperature threshold: that at which the drive would warn, in kelvin.
const THRESHOLD: u64 = 343;

fn feature(command: &Submission) -> u8 {
    command.dword(10) as u8
}

/// The data that Set Features moves.
pub fn sent(command: &Submission) -> Transfer {
    match feature(command) {
        id::HOST_BEHAVIOUR => Transfer::FromHost(HOST_BEHAVIOUR_BYTES),
        _ => Transfer::None,
    }
}

/// The data that Get Features moves.
pub fn given(command: &Submission) -> Transfer {
    // its capabilities instead of its setting
    if selection(command) == 3 {
        return Transfer::None;
    }
    match feature(command) {
        id::HOST_BEHAVIOUR => Transfer::ToHost(HOST_BEHAVIOUR_BYTES),
        id::HOST => Transfer::ToHost(16),
        _ => Transfer::None,
    }
}

/// 0 the current value, 1 the default, 2 the saved one, 3 the capabilities.
fn selection(command: &Submission) -> u32 {
    command.dword(10) >> 8 & 7
}

fn is_known(context: &Context<'_>, feature: u8) -> bool {
    match context.controller.kind {
        Kind::Io => FEATURES.contains(&feature),
        Kind::Discovery => matches!(feature, id::EVENTS | id::KEEP_ALIVE),
    }
}

/// Get Features.
pub fn get(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let feature = feature(command);
    if !is_known(context, feature) || selection(command) > 3 {
        return Err(Failure::INVALID_FIELD);
    }
    if selection(command) == 3 {
        // bit 2: it can be changed
        return Ok(Answer::result(u64::from(CHANGEABLE.contains(&feature)) << 2));
    }
    let is_current = selection(command) == 0;
    let state = context.controller.state.lock();
    let set = |default: u32| match is_current {
        true => u64::from(state.features.get(&feature).copied().unwrap_or(default)),
        false => default.into(),
    };
    let result = match feature {
        id::WRITE_CACHE => {
            let subsystem = context.subsystem;
            u64::from(subsystem.has_volatile_cache() && !(is_current && subsystem.is_write_through()))
        }
        id::QUEUES => queues(state.io_queues.unwrap_or(IO_QUEUES)),
        id::TEMPERATURE => THRESHOLD,
        id::KEEP_ALIVE if is_current => state.keep_alive_ms.into(),
        // the identifier has 16 bytes, which is the extended form
        id::HOST if !command.bit(11, 0) => return Err(Failure::INVALID_FIELD),
        id::HOST => return Ok(Answer::data(context.controller.host.to_vec())),
        id::HOST_BEHAVIOUR => {
            let mut data = vec![0; HOST_BEHAVIOUR_BYTES as usize];
            data[..3].copy_from_slice(&(set(0) as u32).to_le_bytes()[..3]);
            return Ok(Answer::data(data));
        }
        _ => set(0),
    };
    Ok(Answer::result(result))
}

/// Submission and completion queues, each less one.
fn queues(granted: u16) -> u64 {
    let least = u64::from(granted.max(1) - 1);
    least << 16 | least
}

/// Set Features.
pub fn set(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    let (feature, value) = (feature(command), command.dword(11));
    if !is_known(context, feature) {
        return Err(Failure::INVALID_FIELD);
    }
    // nothing is kept across a reset
    if command.bit(10, 31) {
        return Err(Failure::NOT_SAVEABLE);
    }
    let mut state = context.controller.state.lock();
    match feature {
        id::WRITE_CACHE => {
            if !context.subsystem.has_volatile_cache() {
                return Err(Failure::INVALID_FIELD);
            }
            context.subsystem.set_write_through(value & 1 == 0);
        }
        id::QUEUES => return grant_queues(&mut state, value),
        id::KEEP_ALIVE => state.keep_alive_ms = value,
        id::HOST_BEHAVIOUR => {
            let behaviour = u32::from_le_bytes([data[0], data[1], data[2], 0]);
            state.features.insert(feature, behaviour);
        }
        id::POWER if value & 0x1f == 0 => {}
        id::POWER => return Err(Failure::INVALID_FIELD),
        // events that are never sent cannot be requested
        id::EVENTS if value & !CONFIGURABLE != 0 => return Err(Failure::INVALID_FIELD),
        id::ARBITRATION | id::ATOMICITY | id::EVENTS => {
            state.features.insert(feature, value);
        }
        _ => return Err(Failure::NOT_CHANGEABLE),
    }
    Ok(Answer::default())
}

/// Grants I/O queues: as many submission queues as completion queues.
fn grant_queues(state: &mut State, value: u32) -> Result<Answer, Failure> {
    let (submission, completion) = (value & 0xffff, value >> 16);
    if submission == 0xffff || completion == 0xffff {
        return Err(Failure::INVALID_FIELD);
    }
    if state.has_io_connections() {
        return Err(Failure::SEQUENCE);
    }
    let asked = submission.min(completion) as u16 + 1;
    let granted = asked.min(IO_QUEUES);
    state.io_queues = Some(granted);
    Ok(Answer::result(queues(granted)))
}
