//! Namespace Management and Namespace Attachment (Base, sections 5.23 and 5.22), and Format NVM (5.14).

use std::sync::Arc;

use tantalum::Nanoseconds;
use tantalum_drive::Ticket;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::context::Context;
use crate::controller::Controller;
use crate::failure::Failure;
use crate::history::events::Happened;
use crate::history::self_test::Outcome;
use crate::io::Transfer;
use crate::mailbox::Answer;
use crate::namespaces::{ALL_NAMESPACES, Entry, FORMATS, NewNamespace, Pending, Table};
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::identify::command_set;

/// Bytes of the data of both commands.
const DATA_BYTES: u32 = 4096;
/// Controllers in one list.
const LISTED: usize = 2047;

const CREATE: u32 = 0;
const DELETE: u32 = 1;
const ATTACH: u32 = 0;
const DETACH: u32 = 1;

/// What a host says about a new namespace.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Created {
    blocks: U64,
    capacity: U64,
    reserved: [u8; 10],
    /// Bits 3:0 and 6:5: the format; bit 4: metadata in line.
    format: u8,
    reserved2: [u8; 2],
    protection: u8,
    /// Bit 0: to be shared (`NMIC`).
    sharing: u8,
    reserved3: [u8; 61],
    access_group: U32,
    reserved4: [u8; 4],
    set: U16,
    endurance_group: U16,
    reserved5: [u8; 288],
    /// Placement handles (`NPHNDLS`); 0 leaves the choice of one reclaim unit handle to the drive.
    placement_handles: U16,
    reserved6: [u8; 118],
    /// The reclaim unit handle of each.
    handles: [U16; 128],
    reserved7: [u8; 3328],
}

const _: () = assert!(size_of::<Created>() == DATA_BYTES as usize, "it is as long as its data");

fn selection(command: &Submission) -> u32 {
    command.dword(10) & 0xf
}

/// The data of Namespace Management.
pub fn managed(command: &Submission) -> Transfer {
    if selection(command) == CREATE { Transfer::FromHost(DATA_BYTES) } else { Transfer::None }
}

/// The data of Namespace Attachment.
pub fn attached() -> Transfer {
    Transfer::FromHost(DATA_BYTES)
}

/// Namespace Management.
pub fn manage(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    match selection(command) {
        CREATE => create(context, command, data),
        DELETE => delete(context, command.namespace.get()),
        _ => Err(Failure::INVALID_FIELD),
    }
}

fn create(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    let subsystem = context.subsystem;
    if command.dword(11) >> 24 != u32::from(command_set::NVM) {
        return Err(Failure::COMMAND_SET_UNSUPPORTED);
    }
    let asked = Created::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
    let asks_more = asked.protection != 0
        || asked.format & 1 << 4 != 0
        || asked.access_group.get() != 0
        || asked.set.get() > 1
        || asked.endurance_group.get() > 1;
    if asks_more {
        return Err(Failure::INVALID_FIELD);
    }
    if asked.capacity.get() != asked.blocks.get() {
        return Err(Failure::NO_THIN_PROVISIONING);
    }
    let handles = match usize::from(asked.placement_handles.get()) {
        0 => None,
        // the standard wants the field ignored
        _ if subsystem.placement.is_none() => None,
        count => Some(asked.handles.get(..count).ok_or(Failure::PLACEMENT_HANDLES)?),
    };
    let new = NewNamespace {
        blocks: asked.blocks.get(),
        format: asked.format & 0xf | asked.format >> 1 & 0x30,
        is_shared: asked.sharing & 1 == 1,
        handles: handles.map(|handles| handles.iter().map(|handle| handle.get()).collect()),
    };
    let ticket = subsystem.queue.answers().ticket();
    let created = subsystem.namespaces.create(&subsystem.queue, &new)?;
    let table = subsystem.namespaces.table();
    if let Some((_, entry)) = table.find(created.result) {
        let happened = Happened::Created(entry);
        subsystem.history.events.add(subsystem, Some(context.controller.id), &happened);
    }
    wait(subsystem, ticket, created.done_ns)?;
    Ok(Answer::result(created.result.into()))
}

fn delete(context: &Context<'_>, number: u32) -> Result<Answer, Failure> {
    let subsystem = context.subsystem;
    let namespaces = &subsystem.namespaces;
    let is_there = namespaces.with_table(|table| table.find(number).is_some());
    if number != ALL_NAMESPACES && !is_there {
        let is_of_drive = namespaces.is_of_drive(number);
        return Err(if is_of_drive { Failure::INVALID_FIELD } else { Failure::INVALID_NAMESPACE });
    }
    let is_named = |entry: &Entry| number == ALL_NAMESPACES || entry.number == number;
    let pending = |entry: &Entry| if is_named(entry) { Pending::Delete } else { entry.pending };
    namespaces.check_reserved(&context.controller.host.id, number)?;
    end_tests(subsystem, number, Outcome::NamespaceGone);
    let ticket = subsystem.queue.answers().ticket();
    let deleted = namespaces.clear(
        &subsystem.queue,
        |_| Ok(()),
        pending,
        |gone| {
            for controller in subsystem.io_controllers() {
                let had = gone.iter().filter(|(slot, _)| controller.has_attached(*slot));
                let numbers: Vec<u32> = had.map(|(_, number)| *number).collect();
                gone.iter().for_each(|(slot, _)| controller.set_attached(*slot, false));
                controller.tell_changed(&numbers);
            }
        },
    )?;
    subsystem.history.events.add(subsystem, Some(context.controller.id), &Happened::Deleted(number));
    wait(subsystem, ticket, deleted.done_ns)?;
    Ok(Answer::default())
}

/// Format NVM: of one namespace or all, without an erase (0) or with one of all that is old on flash (1).
pub fn format(context: &Context<'_>, command: &Submission) -> Result<Answer, Failure> {
    let (subsystem, number) = (context.subsystem, command.namespace.get());
    let dword = command.dword(10);
    let format = (dword & 0xf | dword >> 8 & 0x30) as u8;
    let (metadata_and_protection, erase) = (dword >> 4 & 0x1f, dword >> 9 & 7);
    if metadata_and_protection != 0 || usize::from(format) >= FORMATS.len() {
        return Err(Failure::INVALID_FORMAT);
    }
    if erase > 1 {
        return Err(Failure::INVALID_FIELD);
    }
    let namespaces = &subsystem.namespaces;
    if number != ALL_NAMESPACES && context.view.blocks(number).is_none() {
        let is_of_drive = namespaces.is_of_drive(number);
        return Err(if is_of_drive { Failure::INVALID_FORMAT } else { Failure::INVALID_NAMESPACE });
    }
    let is_named = |entry: &Entry| number == ALL_NAMESPACES || entry.number == number;
    let check = |table: &Table| table.check_format(format, is_named);
    let pending = |entry: &Entry| match is_named(entry) {
        true => Pending::Format { format, erases: erase == 1 },
        false => entry.pending,
    };
    // what is refused has not begun
    subsystem.ports.check(context.controller.port)?;
    namespaces.sanitize().check()?;
    namespaces.check_reserved(&context.controller.host.id, number)?;
    let (events, controller) = (&subsystem.history.events, Some(context.controller.id));
    events.add(subsystem, controller, &Happened::FormatBegun(number, dword));
    end_tests(subsystem, number, Outcome::Formatted);
    let ticket = subsystem.queue.answers().ticket();
    let formatted = namespaces.clear(&subsystem.queue, check, pending, |cleared| {
        for controller in subsystem.io_controllers() {
            let has = cleared.iter().filter(|(slot, _)| controller.has_attached(*slot));
            let numbers: Vec<u32> = has.map(|(_, number)| *number).collect();
            controller.tell_changed(&numbers);
        }
    });
    let status = formatted.as_ref().err().map_or(0, |failure| failure.field());
    events.add(subsystem, controller, &Happened::FormatDone(number, status));
    wait(subsystem, ticket, formatted?.done_ns)?;
    Ok(Answer::default())
}

/// A self-test of these namespaces ends.
fn end_tests(subsystem: &Subsystem, number: u32, outcome: Outcome) {
    subsystem.history.tests.end(outcome, |_, tested, _| {
        tested != 0 && (tested == number || tested == ALL_NAMESPACES || number == ALL_NAMESPACES)
    });
}

/// Namespace Attachment.
pub fn attach(context: &Context<'_>, command: &Submission, data: &[u8]) -> Result<Answer, Failure> {
    let (subsystem, number) = (context.subsystem, command.namespace.get());
    let is_attach = match selection(command) {
        ATTACH => true,
        DETACH => false,
        _ => return Err(Failure::INVALID_FIELD),
    };
    let listed = listed(subsystem, data)?;
    // every controller has those with records or zones
    if subsystem.namespaces.is_of_drive(number) {
        return Err(if is_attach { Failure::ALREADY_ATTACHED } else { Failure::INVALID_FIELD });
    }
    let ticket = subsystem.queue.answers().ticket();
    let change = |slot: usize, entry: &mut Entry| match is_attach {
        true => attach_to(subsystem, &listed, slot, entry),
        false => detach_from(subsystem, &listed, slot, entry),
    };
    let changed = subsystem.namespaces.attach(&subsystem.queue, number, change, |slot| {
        for controller in &listed {
            controller.set_attached(slot, is_attach);
            controller.tell_changed(&[number]);
        }
    })?;
    wait(subsystem, ticket, changed.done_ns)?;
    Ok(Answer::default())
}

/// The controllers that a list names: in ascending order, and each of them exists.
fn listed(subsystem: &Subsystem, data: &[u8]) -> Result<Vec<Arc<Controller>>, Failure> {
    let words = <[U16]>::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
    let (count, ids) = words.split_first().ok_or(Failure::INVALID_FIELD)?;
    let count = usize::from(count.get());
    let ids = ids.get(..count).filter(|_| (1..=LISTED).contains(&count)).ok_or(Failure::CONTROLLER_LIST)?;
    if !ids.is_sorted_by(|id, next| id.get() < next.get()) {
        return Err(Failure::CONTROLLER_LIST);
    }
    let there = subsystem.io_controllers();
    let find = |id: &U16| there.iter().find(|controller| controller.id == id.get()).cloned();
    ids.iter().map(|id| find(id).ok_or(Failure::CONTROLLER_LIST)).collect()
}

fn attach_to(
    subsystem: &Subsystem,
    listed: &[Arc<Controller>],
    slot: usize,
    entry: &mut Entry,
) -> Result<(), Failure> {
    let has_it = |controller: &Arc<Controller>| controller.has_attached(slot);
    if listed.iter().any(has_it) {
        return Err(Failure::ALREADY_ATTACHED);
    }
    if !entry.is_shared && (listed.len() > 1 || subsystem.io_controllers().iter().any(has_it)) {
        return Err(Failure::IS_PRIVATE);
    }
    let all = listed.iter().all(|controller| entry.attached.set(&controller.host.id, true));
    if all { Ok(()) } else { Err(Failure::TOO_MANY_HOSTS) }
}

/// A host forgets the namespace with the last of its controllers that had it.
fn detach_from(
    subsystem: &Subsystem,
    listed: &[Arc<Controller>],
    slot: usize,
    entry: &mut Entry,
) -> Result<(), Failure> {
    let has_it = |controller: &Arc<Controller>| controller.has_attached(slot);
    if !listed.iter().all(has_it) {
        return Err(Failure::NOT_ATTACHED);
    }
    let kept: Vec<Arc<Controller>> = subsystem.io_controllers().into_iter().filter(has_it).collect();
    let is_kept = |host: &[u8; 16]| {
        let of_host = kept.iter().filter(|controller| controller.host.id == *host);
        of_host.clone().any(|controller| listed.iter().all(|gone| gone.id != controller.id))
    };
    let hosts = listed.iter().map(|controller| &controller.host.id).filter(|host| !is_kept(host));
    let all = hosts.into_iter().all(|host| entry.attached.set(host, false));
    if all { Ok(()) } else { Err(Failure::TOO_MANY_HOSTS) }
}

/// Waits until a change is durable for its host.
pub fn wait(subsystem: &Subsystem, ticket: Ticket, done_ns: Nanoseconds) -> Result<(), Failure> {
    let answers = subsystem.queue.answers();
    loop {
        let wait = answers.wait(done_ns);
        if wait.is_zero() {
            break;
        }
        std::thread::sleep(wait);
    }
    match answers.delivery(ticket, done_ns) {
        tantalum_drive::Delivery::InTime => Ok(()),
        tantalum_drive::Delivery::PowerLost => Err(Failure::POWER_LOSS),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn fields_are_where_the_standard_has_them() {
        assert_eq!((offset_of!(Created, format), offset_of!(Created, sharing)), (26, 30));
        assert_eq!((offset_of!(Created, access_group), offset_of!(Created, set)), (92, 100));
        assert_eq!((offset_of!(Created, placement_handles), offset_of!(Created, handles)), (392, 512));
    }
}
