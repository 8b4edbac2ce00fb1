//! What a connection is attached to: nothing at first, and after a Connect a queue of a controller. With the connection the
//! queue ends, and with an admin queue its controller.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connect::connect;
use super::fabrics_command::FabricsCommand;
use super::queue::Queue;
use crate::admin::Context;
use crate::authentication::Secured;
use crate::controller::{Change, Controller};
use crate::failure::Failure;
use crate::io::durable;
use crate::mailbox::{Answer, Mailbox};
use crate::namespaces::View;
use crate::programs::Caller;
use crate::subsystem::Subsystem;
use crate::wire::command::Submission;
use crate::wire::fabrics::property;

/// A connection that is not an authenticated queue after this time is ended.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// What a connection is attached to.
pub struct Attachment {
    subsystem: Arc<Subsystem>,
    mailbox: Arc<Mailbox>,
    /// The address that the host reached.
    address: Option<SocketAddr>,
    /// The port through which the host has come.
    port: u16,
    /// Between whom it is secured, if it has TLS.
    secured: Option<Secured>,
    began: Instant,
    queue: Option<Queue>,
    /// The namespaces that its controller has, as far as this connection knows.
    view: View,
}

impl Attachment {
    /// A connection to a subsystem, through `address`, which other threads reach through the mailbox.
    pub fn new(subsystem: Arc<Subsystem>, mailbox: Arc<Mailbox>, address: Option<SocketAddr>) -> Attachment {
        let (began, view) = (Instant::now(), View::empty());
        Attachment { subsystem, mailbox, address, port: 1, secured: None, began, queue: None, view }
    }

    /// The host has come through the port with this number.
    pub fn through(&mut self, port: u16) {
        self.port = port;
    }

    /// The port through which the host has come.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Refuses an I/O command of a namespace, or of all, if none reaches it now.
    #[inline]
    pub fn check_io(&self, number: u32) -> Result<(), Failure> {
        self.subsystem.ports.check(self.port)?;
        self.view.check(number)
    }

    /// The connection has TLS, with a key that only these have.
    pub fn secure(&mut self, secured: Secured) {
        assert!(self.queue.is_none(), "a connection that is a queue has TLS from now on");
        self.secured = Some(secured);
    }

    /// The queue, if it is one.
    pub fn queue(&self) -> Option<&Queue> {
        self.queue.as_ref()
    }

    /// Commands that may be under way at once.
    pub fn entries(&self) -> usize {
        self.queue().map_or(1, Queue::entries)
    }

    /// A command has come.
    pub fn advance(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.advance();
        }
        self.refresh();
    }

    /// Looks again at which namespaces its controller has, if they may have changed.
    pub fn refresh(&mut self) {
        if let Some(queue) = &self.queue
            && self.view.version() != self.subsystem.namespaces.version()
        {
            self.view = self.subsystem.namespaces.view(queue.controller());
        }
    }

    /// The namespaces that its controller had at the last look.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The queue's head, as completions report it.
    pub fn head(&self) -> u16 {
        self.queue().map_or(0, Queue::head)
    }

    /// Whether a command that succeeded, and whose host has received its data, needs no completion: the host does not wait for the
    /// queue's head, and nothing else is in it.
    pub fn needs_no_completion(&self, result: u64) -> bool {
        result == 0 && self.queue().is_some_and(|queue| !queue.has_flow_control())
    }

    /// Whether the host failed to prove its identity.
    pub fn has_refused(&self) -> bool {
        self.queue().is_some_and(Queue::has_refused)
    }

    /// How long it may continue without hearing from the host; `None` if unlimited.
    pub fn idle_timeout(&self) -> Option<Duration> {
        match self.queue() {
            Some(queue) if queue.is_authenticated() => queue.alive_for(),
            _ => Some(CONNECT_TIME.saturating_sub(self.began.elapsed())),
        }
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// What an admin command depends on.
    pub fn context(&self) -> Result<Context<'_>, Failure> {
        let controller = self.controller()?;
        Ok(Context { subsystem: &self.subsystem, controller, view: &self.view, address: self.address })
    }

    /// The sender of a command about programs.
    pub fn caller(&self, id: u16) -> Option<Caller<'_>> {
        let controller = self.controller().ok()?;
        Some(Caller { subsystem: &self.subsystem, controller, mailbox: &self.mailbox, id })
    }

    /// The connection of a queue of the same controller.
    pub fn neighbour(&self, queue: u16) -> Option<Arc<Mailbox>> {
        self.controller().ok()?.connection(queue)
    }

    /// Refuses a command that this queue does not accept, because its host has not authenticated.
    pub fn check_authentication(&self, command: &Submission) -> Result<(), Failure> {
        self.queue().map_or(Ok(()), |queue| queue.check_authentication(command))
    }

    /// Executes a Fabrics command with the data that came from the host (Base, section 6).
    pub fn execute(&mut self, command: FabricsCommand, data: &[u8]) -> Result<Answer, Failure> {
        match command {
            FabricsCommand::Connect(fields) => {
                assert!(self.queue.is_none(), "a connection that is a queue connects again");
                let (queue, answer) =
                    connect(&self.subsystem, self.port, &self.mailbox, self.secured.as_ref(), &fields, data)?;
                self.queue = Some(queue);
                Ok(answer)
            }
            FabricsCommand::Get { offset, is_long } => {
                let value = self.controller()?.property(offset, is_long);
                value.map(Answer::result).ok_or(Failure::INVALID_FIELD)
            }
            FabricsCommand::Set { offset, value } => self.set_property(offset, value),
            FabricsCommand::Disconnect => Ok(Answer::default()),
            FabricsCommand::Send(_) => self.queue_mut()?.take_message(data),
            FabricsCommand::Receive(bytes) => self.queue_mut()?.give_message(bytes),
        }
    }

    fn controller(&self) -> Result<&Arc<Controller>, Failure> {
        self.queue().map(Queue::controller).ok_or(Failure::SEQUENCE)
    }

    fn queue_mut(&mut self) -> Result<&mut Queue, Failure> {
        self.queue.as_mut().ok_or(Failure::SEQUENCE)
    }

    fn set_property(&self, offset: u32, value: u64) -> Result<Answer, Failure> {
        if offset != property::CONFIGURATION {
            return Err(Failure::INVALID_FIELD);
        }
        let controller = self.controller()?;
        let was_ready = controller.is_ready();
        let change = controller.configure(value as u32);
        if was_ready && !controller.is_ready() {
            self.subsystem.history.reset(controller.id);
        }
        match change {
            Change::None => {}
            Change::Shutdown => {
                durable(&self.subsystem)?;
                controller.shutdown_done();
            }
        }
        Ok(Answer::default())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        match &self.queue {
            Some(queue) if queue.id() == 0 => self.subsystem.disconnect(queue.controller()),
            Some(queue) => queue.leave(&self.mailbox),
            None => {}
        }
    }
}
