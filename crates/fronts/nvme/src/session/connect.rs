//! Fabrics commands: Connect, properties, Disconnect (Base, section 6).

use std::mem::offset_of;
use std::sync::Arc;

use zerocopy::FromBytes;

use super::fabrics_command::FabricsCommand;
use super::{Queue, Session};
use crate::authentication::proof::Parties;
use crate::authentication::{Admission, Exchange};
use crate::controller::{Change, Controller, ControllerKind, Peer, QUEUE_ENTRIES, QueueRefusal};
use crate::failure::Failure;
use crate::io::durable;
use crate::mailbox::Answer;
use crate::qualified_name::is_qualified_name;
use crate::wire::fabrics::{ANY_CONTROLLER, Connect, ConnectData, DISCOVERY_NQN, property};
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

impl Session {
    pub(super) fn fabrics(&mut self, command: FabricsCommand, data: &[u8]) -> Result<Answer, Failure> {
        match command {
            FabricsCommand::Connect(fields) => self.connect(&fields, data),
            FabricsCommand::Get { offset, is_long } => {
                let value = self.own_controller()?.property(offset, is_long);
                value.map(Answer::result).ok_or(Failure::INVALID_FIELD)
            }
            FabricsCommand::Set { offset, value } => self.set_property(offset, value),
            FabricsCommand::Disconnect => Ok(Answer::default()),
            FabricsCommand::Send(_) => self.take_message(data),
            FabricsCommand::Receive(bytes) => self.give_message(bytes),
        }
    }

    fn own_controller(&self) -> Result<&Arc<Controller>, Failure> {
        self.queue.as_ref().map(|queue| &queue.controller).ok_or(Failure::SEQUENCE)
    }

    fn set_property(&mut self, offset: u32, value: u64) -> Result<Answer, Failure> {
        if offset != property::CONFIGURATION {
            return Err(Failure::INVALID_FIELD);
        }
        let controller = self.own_controller()?;
        match controller.configure(value as u32) {
            Change::None => {}
            Change::Shutdown => {
                durable(&self.subsystem)?;
                controller.shutdown_done();
            }
        }
        Ok(Answer::default())
    }

    /// The connection becomes a queue (Base, section 6.3). The answer has the controller's number, and whether the
    /// host must authenticate.
    fn connect(&mut self, fields: &Connect, data: &[u8]) -> Result<Answer, Failure> {
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
            Some(name) if name == self.subsystem.settings.name => ControllerKind::Io,
            _ => return Err(bad_data(offset_of!(ConnectData, subsystem_name))),
        };
        let host = host_of(data)?;
        let exchange = self.admit_host(kind, &host.name)?;
        let controller = match queue {
            0 => self.connect_admin(kind, fields, data, host)?,
            queue => self.connect_io(kind, queue, data, &host)?,
        };
        assert!(
            self.queue.is_none() && self.pending.len() == 1,
            "a connection of {} commands becomes queue {queue} of controller {}",
            self.pending.len(),
            controller.id
        );
        controller.hear();
        let id = controller.id;
        let has_flow_control = fields.attributes & 1 << 2 == 0;
        // the Connect itself is the first command of the queue
        let must_authenticate = u64::from(exchange.is_some());
        let entries = entries + 1;
        self.queue = Some(Queue { controller, id: queue, entries, head: 1, has_flow_control, exchange });
        Ok(Answer::result(u64::from(id) | must_authenticate << AUTHENTICATE))
    }

    /// Whether a host may connect, and how it must authenticate. Where subsystems are is not secret: discovery requires only an
    /// allowed name.
    fn admit_host(&self, kind: ControllerKind, host: &str) -> Result<Option<Exchange>, Failure> {
        match self.subsystem.hosts.admit(host) {
            Admission::Refused => Err(Failure::CONNECT_HOST),
            Admission::WithProof(secrets) if kind == ControllerKind::Io => {
                let subsystem = self.subsystem.settings.name.clone();
                Ok(Some(Exchange::new(Parties { host: host.to_owned(), subsystem }, secrets)))
            }
            Admission::WithProof(_) | Admission::Free => Ok(None),
        }
    }

    fn connect_admin(
        &self,
        kind: ControllerKind,
        fields: &Connect,
        data: &ConnectData,
        host: Peer,
    ) -> Result<Arc<Controller>, Failure> {
        // controllers are created when hosts connect
        if data.controller.get() != ANY_CONTROLLER {
            return Err(bad_data(offset_of!(ConnectData, controller)));
        }
        let (keep_alive_ms, mailbox) = (fields.keep_alive_ms.get(), Arc::clone(&self.mailbox));
        let controller = self.subsystem.connect(kind, host, keep_alive_ms, mailbox);
        controller.ok_or(Failure::CONTROLLER_BUSY)
    }

    fn connect_io(
        &self,
        kind: ControllerKind,
        queue: u16,
        data: &ConnectData,
        host: &Peer,
    ) -> Result<Arc<Controller>, Failure> {
        let controller = self.subsystem.controller(data.controller.get());
        let controller = controller.filter(|controller| controller.kind == kind);
        let controller = controller.ok_or_else(|| bad_data(offset_of!(ConnectData, controller)))?;
        if controller.host.name != host.name {
            return Err(bad_data(offset_of!(ConnectData, host_name)));
        }
        if controller.host.id != host.id {
            return Err(bad_data(offset_of!(ConnectData, host)));
        }
        match controller.add_queue(queue, Arc::clone(&self.mailbox)) {
            Ok(()) => Ok(controller),
            Err(QueueRefusal::Sequence) => Err(Failure::SEQUENCE),
            Err(QueueRefusal::Number) => Err(bad_field(offset_of!(Connect, queue))),
        }
    }
}
