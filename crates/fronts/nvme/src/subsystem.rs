//! The subsystem: one drive, its controllers, and what all of them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tantalum::{Device, FdpProfile, Plp};
use tantalum_drive::Queue;
use tantalum_record::blocks::{BlockEvent, BlockTape};

use crate::addresses::Advertised;
use crate::admin::{sanitize_status, smart};
use crate::authentication::Hosts;
use crate::budget::SharedBudget;
use crate::controller::{Controller, ControllerKind, Peer};
use crate::errors::ErrorLog;
use crate::events::{ACCESS_NOTICES, ZONE_NOTICES, critical_warning, warning};
use crate::history::History;
use crate::history::events::Happened;
use crate::mailbox::Mailbox;
use crate::namespaces::{Namespaces, Pending, Table, TableError};
use crate::ports::{NoPort, PortAccess, Ports};
use crate::programs::Programs;

/// Maximum number of controllers.
const MOST_CONTROLLERS: usize = 1024;

/// Numbers of controllers from here on are reserved (Base, section 3.1.1).
const RESERVED_IDS: u16 = 0xfff0;

const _: () = assert!(MOST_CONTROLLERS < RESERVED_IDS as usize, "there is a number for each controller");

/// A subsystem's names, the size of its blocks, and where it is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name (NQN).
    pub name: String,
    /// Its serial number, of up to 20 characters.
    pub serial: String,
    /// The basis of its namespaces' identifiers: the same for the same image.
    pub identity: u64,
    /// Bytes of a logical block of a drive that was never divided or formatted: 4096 or 512.
    pub block_bytes: u32,
    /// The address that discovery tells; `None` for the one at which a host has come.
    pub advertised: Option<Advertised>,
}

/// One drive, as hosts see it.
pub struct Subsystem {
    /// Its names.
    pub settings: Settings,
    /// Who may connect.
    pub hosts: Hosts,
    /// The way into the drive.
    pub queue: Queue,
    /// Its namespaces.
    pub namespaces: Namespaces,
    /// Who executes commands about programs in the drive; without, there are none.
    pub programs: Option<Arc<dyn Programs>>,
    /// Takes what hosts do to blocks, if that is recorded.
    pub tape: Option<Arc<BlockTape>>,
    /// Where it listens.
    pub ports: Ports,
    /// Commands that failed.
    pub errors: ErrorLog,
    /// Whether I/O commands are answered without reaching a drive, to measure everything but the drive.
    pub is_without_drive: bool,
    /// Counters since its creation.
    pub counts: Counts,
    /// Its reclaim unit handles, if the drive has some.
    pub placement: Option<FdpProfile>,
    /// What the drive remembers of itself.
    pub history: History,
    /// Bytes of data that commands of all connections hold.
    pub budget: Arc<SharedBudget>,
    has_volatile_cache: bool,
    /// Whether every write is on flash before it completes.
    is_write_through: AtomicBool,
    controllers: Mutex<Controllers>,
    made: Instant,
}

/// Counters of commands.
#[derive(Default)]
pub struct Counts {
    /// Commands that read.
    pub reads: AtomicU64,
    /// Commands that write.
    pub writes: AtomicU64,
}

#[derive(Default)]
struct Controllers {
    by_id: FxHashMap<u16, Arc<Controller>>,
    last_id: u16,
}

impl Subsystem {
    /// Notices that only some drives give: of their ports, of their zones.
    pub fn notices(&self) -> u32 {
        let of_ports = if self.ports.are_several() { ACCESS_NOTICES } else { 0 };
        let of_zones = if self.namespaces.have_zones() { ZONE_NOTICES } else { 0 };
        of_ports | of_zones
    }

    /// A subsystem of the drive that a queue leads to, for any host.
    pub fn new(settings: Settings, queue: Queue) -> Result<Subsystem, TableError> {
        let namespaces = Namespaces::load(queue.drive(), settings.block_bytes)?;
        let has_sanitized = namespaces.resume(&queue);
        let has_volatile_cache = has_volatile_cache(&queue.drive().lock());
        let placement = queue.drive().lock().profile().fdp;
        let subsystem = Subsystem {
            settings,
            hosts: Hosts::default(),
            queue,
            namespaces,
            programs: None,
            tape: None,
            ports: Ports::default(),
            errors: ErrorLog::default(),
            is_without_drive: false,
            counts: Counts::default(),
            placement,
            budget: Arc::default(),
            has_volatile_cache,
            is_write_through: AtomicBool::new(false),
            controllers: Mutex::default(),
            made: Instant::now(),
            history: History::default(),
        };
        subsystem.begin_history(has_sanitized)?;
        Ok(subsystem)
    }

    /// The drive has power again, and no connection exists.
    pub fn power_on(self: &Arc<Self>) -> Result<(), TableError> {
        self.set_write_through(false);
        if let Some(tape) = &self.tape {
            tape.take(&BlockEvent::Other("a power loss"));
        }
        self.namespaces.reload(self.queue.drive(), self.settings.block_bytes)?;
        let has_sanitized = self.namespaces.resume(&self.queue);
        self.begin_history(has_sanitized)?;
        self.history.tests.resume(self);
        Ok(())
    }

    /// Reads what the drive remembers of itself, and adds that it has power, and whether a Sanitize has ended that a power loss had
    /// interrupted.
    fn begin_history(&self, has_sanitized: bool) -> Result<(), TableError> {
        self.history.events.load(self)?;
        self.history.tests.load(self)?;
        let health = smart(self);
        self.history.events.add(self, None, &Happened::PowerOn(&health));
        if has_sanitized {
            self.add_sanitized();
        }
        Ok(())
    }

    fn add_sanitized(&self) {
        let status = sanitize_status(self.namespaces.sanitize());
        let happened = Happened::SanitizeDone(status.progress.get(), status.status.get());
        self.history.events.add(self, None, &happened);
    }

    /// Lets only these hosts connect.
    pub fn for_hosts(self, hosts: Hosts) -> Subsystem {
        Subsystem { hosts, ..self }
    }

    /// A subsystem that also takes commands about programs in the drive.
    pub fn with_programs(self, programs: Arc<dyn Programs>) -> Subsystem {
        Subsystem { programs: Some(programs), ..self }
    }

    /// Answers I/O commands at once without the drive, reads with arbitrary bytes: the limit that benchmarks compare with.
    pub fn without_drive(self) -> Subsystem {
        Subsystem { is_without_drive: true, ..self }
    }

    /// Whether written data may be lost with power until they are flushed.
    pub fn has_volatile_cache(&self) -> bool {
        self.has_volatile_cache
    }

    /// Whether every write is on flash before it completes.
    pub fn is_write_through(&self) -> bool {
        self.is_write_through.load(Ordering::Relaxed)
    }

    /// Sets whether writes may wait in the cache.
    pub fn set_write_through(&self, is_write_through: bool) {
        self.is_write_through.store(is_write_through, Ordering::Relaxed);
    }

    /// How long this subsystem has existed, in seconds.
    pub fn age_seconds(&self) -> u64 {
        self.made.elapsed().as_secs()
    }

    /// A controller for a host that has come through a port. `None` if there are too many.
    pub fn connect(
        &self,
        kind: ControllerKind,
        host: Peer,
        keep_alive_ms: u32,
        admin: Arc<Mailbox>,
        port: u16,
    ) -> Option<Arc<Controller>> {
        let warnings = critical_warning(&self.queue.drive().lock());
        self.namespaces.with_table(|table| {
            let mut controllers = self.controllers.lock();
            if controllers.by_id.len() >= MOST_CONTROLLERS {
                return None;
            }
            let id = controllers.free_id();
            let has_command_sets = self.namespaces.have_other_sets();
            let mut controller =
                Controller::new(id, kind, host, keep_alive_ms, admin, warnings, has_command_sets);
            controller.port = port;
            controllers.attach_known(&controller, table);
            let controller = Arc::new(controller);
            let other = controllers.by_id.insert(id, Arc::clone(&controller));
            assert!(other.is_none(), "controller {id} is in use, and a host got the same number");
            Some(controller)
        })
    }

    /// Sets how well hosts reach the namespaces through a port, and tells those that have come through it.
    pub fn set_access(&self, port: u16, access: PortAccess) -> Result<(), NoPort> {
        if self.ports.set(port, access)? {
            let concerned = self.io_controllers().into_iter().filter(|controller| controller.port == port);
            concerned.for_each(|controller| controller.tell_access());
        }
        Ok(())
    }

    /// The controllers of hosts with namespaces, in the order of their numbers.
    pub fn io_controllers(&self) -> Vec<Arc<Controller>> {
        let controllers = self.controllers.lock();
        let of_io = controllers.by_id.values().filter(|controller| controller.kind == ControllerKind::Io);
        let mut list: Vec<_> = of_io.cloned().collect();
        list.sort_unstable_by_key(|controller| controller.id);
        list
    }

    /// The controller with this number.
    pub fn controller(&self, id: u16) -> Option<Arc<Controller>> {
        self.controllers.lock().by_id.get(&id).cloned()
    }

    /// Removes a controller: all its connections end.
    pub fn disconnect(&self, controller: &Controller) {
        let removed = self.controllers.lock().by_id.remove(&controller.id);
        assert!(
            removed.is_some_and(|removed| std::ptr::eq(&*removed, controller)),
            "the admin queue of controller {} ends, but another controller has its number, or none",
            controller.id
        );
        controller.end();
        self.history.reset(controller.id);
        if let Some(programs) = &self.programs {
            programs.end(controller);
        }
    }

    /// Checks the drive's health, and reports new warnings to hosts. Does nothing while the drive has no power.
    pub fn look(&self) {
        let warnings = {
            let device = self.queue.drive().lock();
            if !device.has_power() {
                return;
            }
            critical_warning(&device)
        };
        let mut concerned = self.io_controllers();
        concerned.retain(|controller| controller.warnings() != warnings);
        if concerned.iter().any(|controller| warnings & !controller.warnings() != 0) {
            self.history.telemetry.note(self, &format!("critical warning {warnings:#x}"));
        }
        for controller in concerned {
            let is_read_only_now = warnings & !controller.warnings() & warning::READ_ONLY != 0;
            if is_read_only_now && self.namespaces.have_zones() {
                controller.tell_zones();
            }
            controller.warn(warnings, &self.namespaces.view(&controller).numbers());
        }
    }

    /// Executes the Sanitize that has begun, while its host goes on.
    pub fn sanitize(self: &Arc<Self>) {
        let subsystem = Arc::clone(self);
        let spawned =
            std::thread::Builder::new().name("sanitize".to_owned()).spawn(move || subsystem.run_sanitize());
        if spawned.is_err() {
            self.run_sanitize();
        }
    }

    /// Programs in the drive end, as when it loses power.
    fn run_sanitize(&self) {
        self.programs.iter().for_each(|programs| programs.stop());
        if self.namespaces.run_sanitize(&self.queue) {
            self.add_sanitized();
            self.programs.iter().for_each(|programs| programs.power_on());
            self.io_controllers().iter().for_each(|controller| controller.tell_sanitized());
        }
    }

    /// The number of controllers.
    pub fn controllers(&self) -> usize {
        self.controllers.lock().by_id.len()
    }
}

impl Controllers {
    /// Attaches the namespaces that the controller's host has. One that is not to be shared stays with another controller.
    fn attach_known(&self, controller: &Controller, table: &Table) {
        let elsewhere = self.by_id.values().fold(0, |all, other| all | other.attached());
        for (slot, entry) in table.entries() {
            let is_free = entry.is_shared || elsewhere >> slot & 1 == 0;
            let is_there = is_free && entry.pending != Pending::Delete;
            if controller.kind == ControllerKind::Io && is_there && entry.attached.has(&controller.host.id) {
                controller.set_attached(slot, true);
            }
        }
    }

    /// A free number that was not used recently.
    fn free_id(&mut self) -> u16 {
        loop {
            self.last_id = if self.last_id + 1 >= RESERVED_IDS { 1 } else { self.last_id + 1 };
            assert!(
                (1..RESERVED_IDS).contains(&self.last_id),
                "controllers have no number {:#x}",
                self.last_id
            );
            if !self.by_id.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }
}

/// Without power-loss protection, data wait in the cache, or at least changes of the map do.
fn has_volatile_cache(device: &Device) -> bool {
    device.profile().power.plp != Plp::Capacitor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::Attached;

    /// Its slot may belong to another namespace by the time that the deletion is over, which failed in the middle.
    #[test]
    fn a_namespace_that_is_being_deleted_is_attached_to_no_host_that_comes() {
        let attached = |change: fn(&mut Table)| {
            let mut table = Table::undivided(100, 0);
            change(&mut table);
            let host = Peer { id: [1; 16], name: "host".to_owned() };
            let admin = Arc::new(Mailbox::new(|| ()));
            let controller = Controller::new(1, ControllerKind::Io, host, 0, admin, 0, false);
            Controllers::default().attach_known(&controller, &table);
            controller.has_attached(0)
        };
        assert!(attached(|_| {}));
        assert!(attached(|table| {
            table.entry_mut(0).unwrap().pending = Pending::Format { format: 0, erases: false };
        }));
        assert!(!attached(|table| table.entry_mut(0).unwrap().pending = Pending::Delete));
        assert!(!attached(|table| table.entry_mut(0).unwrap().attached = Attached::default()));
    }
}
