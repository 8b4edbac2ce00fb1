//! Connect: a connection becomes a queue (Base, section 6.3).

use std::mem::offset_of;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::queue::Queue;
use crate::authentication::proof::Parties;
use crate::authentication::{Admission, Exchange, Secured};
use crate::controller::{Controller, ControllerKind, Peer, QUEUE_ENTRIES, QueueRefusal};
use crate::failure::Failure;
use crate::mailbox::{Answer, Mailbox};
use crate::qualified_name::is_qualified_name;
use crate::subsystem::Subsystem;
use crate::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, DISCOVERY_NQN};
use crate::wire::text_of;

/// Positions of Connect's fields in a command.
const FIELDS: u16 = 40;

/// The bit in the answer of Connect that requires an authentication (`ATR`).
const AUTHENTICATE: u32 = 17;

/// Refuses a Connect for a field of the command.
fn bad_field(offset: usize) -> Failure {
    Failure::connect_parameter(false, FIELDS + offset as u16)
}

/// Refuses a Connect for a field of its data.
fn bad_data(offset: usize) -> Failure {
    Failure::connect_parameter(true, offset as u16)
}

/// The host that connects (Base, sections 4.5 and 6.3): an identifier of zero would be no identifier.
fn host_of(data: &ConnectData) -> Result<Peer, Failure> {
    let name = text_of(&data.host_name).filter(|name| is_qualified_name(name));
    let name = name.ok_or_else(|| bad_data(offset_of!(ConnectData, host_name)))?.to_owned();
    match data.host {
        id if id == [0; 16] => Err(bad_data(offset_of!(ConnectData, host))),
        id => Ok(Peer { id, name }),
    }
}

/// The queue that a connection becomes, which others reach through this mailbox. One with TLS is that of the host and the subsystem of its
/// key (TCP, section 3.6.1.3). The answer has the controller's number, and
/// whether the host must authenticate.
pub fn connect(
    subsystem: &Subsystem,
    port: u16,
    mailbox: &Arc<Mailbox>,
    secured: Option<&Secured>,
    fields: &Connect,
    data: &[u8],
) -> Result<(Queue, Answer), Failure> {
    let data = ConnectData::ref_from_bytes(data).map_err(|_| Failure::INVALID_FIELD)?;
    if fields.format.get() != 0 {
        return Err(Failure::CONNECT_FORMAT);
    }
    let (queue, entries) = (fields.queue.get(), fields.entries.get());
    if entries == 0 || entries > QUEUE_ENTRIES - 1 {
        return Err(bad_field(offset_of!(Connect, entries)));
    }
    let kind = match text_of(&data.subsystem_name) {
        Some(DISCOVERY_NQN) => ControllerKind::Discovery,
        Some(name) if name == subsystem.settings.name => ControllerKind::Io,
        _ => return Err(bad_data(offset_of!(ConnectData, subsystem_name))),
    };
    let host = host_of(data)?;
    if secured.is_some_and(|secured| Some(&secured.subsystem[..]) != text_of(&data.subsystem_name)) {
        return Err(bad_data(offset_of!(ConnectData, subsystem_name)));
    }
    if secured.is_some_and(|secured| secured.host != host.name) {
        return Err(Failure::CONNECT_HOST);
    }
    let exchange = admit(subsystem, kind, &host.name)?;
    let mailbox = Arc::clone(mailbox);
    let controller = match queue {
        0 => connect_admin(subsystem, (mailbox, port), kind, fields, data, host)?,
        queue => connect_io(subsystem, (mailbox, port), kind, queue, data, &host)?,
    };
    let id = controller.id;
    let has_flow_control = fields.attributes & 1 << 2 == 0;
    let must_authenticate = u64::from(exchange.is_some());
    let queue = Queue::new(controller, queue, entries + 1, has_flow_control, exchange);
    Ok((queue, Answer::result(u64::from(id) | must_authenticate << AUTHENTICATE)))
}

/// Whether a host may connect, and how it must authenticate. Where subsystems are is not secret: discovery requires only an
/// allowed name.
fn admit(subsystem: &Subsystem, kind: ControllerKind, host: &str) -> Result<Option<Exchange>, Failure> {
    match subsystem.hosts.admit(host) {
        Admission::Refused => Err(Failure::CONNECT_HOST),
        Admission::WithProof(secrets) if kind == ControllerKind::Io => {
            let subsystem = subsystem.settings.name.clone();
            Ok(Some(Exchange::new(Parties { host: host.to_owned(), subsystem }, secrets)))
        }
        Admission::WithProof(_) | Admission::Free => Ok(None),
    }
}

fn connect_admin(
    subsystem: &Subsystem,
    (mailbox, port): (Arc<Mailbox>, u16),
    kind: ControllerKind,
    fields: &Connect,
    data: &ConnectData,
    host: Peer,
) -> Result<Arc<Controller>, Failure> {
    // controllers are created when hosts connect
    if data.controller.get() != ANY_CONTROLLER {
        return Err(bad_data(offset_of!(ConnectData, controller)));
    }
    let controller = subsystem.connect(kind, host, fields.keep_alive_ms.get(), mailbox, port);
    controller.ok_or(Failure::CONTROLLER_BUSY)
}

fn connect_io(
    subsystem: &Subsystem,
    (mailbox, port): (Arc<Mailbox>, u16),
    kind: ControllerKind,
    queue: u16,
    data: &ConnectData,
    host: &Peer,
) -> Result<Arc<Controller>, Failure> {
    let controller = subsystem.controller(data.controller.get());
    // all of a controller's queues come through one port
    let controller = controller.filter(|controller| controller.kind == kind && controller.port == port);
    let controller = controller.ok_or_else(|| bad_data(offset_of!(ConnectData, controller)))?;
    if controller.host.name != host.name {
        return Err(bad_data(offset_of!(ConnectData, host_name)));
    }
    if controller.host.id != host.id {
        return Err(bad_data(offset_of!(ConnectData, host)));
    }
    match controller.add_queue(queue, mailbox) {
        Ok(()) => Ok(controller),
        Err(QueueRefusal::Sequence) => Err(Failure::SEQUENCE),
        Err(QueueRefusal::Number) => Err(bad_field(offset_of!(Connect, queue))),
    }
}
