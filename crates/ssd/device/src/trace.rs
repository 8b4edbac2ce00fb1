//! One event for each command as it ends, for whoever has installed a subscriber of the crate `tracing`: what the command was,
//! and what it waited for, in virtual time. Without a subscriber a command only looks whether there is one.
//!
//! The parts of a command's time add up to its latency, unless its units were transferred one by one. What its last operation
//! of flash waited for is told apart by what that operation's plane was booked for meanwhile, also by earlier commands; if
//! reads go ahead or suspend others, bookings may overlap.

use tantalum_ftl::{BlockUse, Counters, Ftl};
use tantalum_nand::{Booking, Nanoseconds, OperationKind, PlaneId};
use tracing::Level;

use crate::command::{Command, CommandInfo, Completion};
use crate::controller::{Device, Origin};
use crate::engine::Engine;
use crate::latency::Kind;
use crate::link::Crossing;
use crate::status::Status;
use crate::usage::PathUsage;

/// The target of the events.
pub const TRACE_TARGET: &str = "tantalum::command";

/// Whether anybody wants the events.
#[inline]
pub(crate) fn is_on() -> bool {
    tracing::enabled!(target: TRACE_TARGET, Level::DEBUG)
}

/// What has to be known before a command is executed.
struct Before {
    text: String,
    info: &'static CommandInfo,
    namespace: Option<u32>,
    /// Whether its data only go to the drive's DRAM.
    lands_in_dram: bool,
    /// The earliest time at which firmware begins with it.
    from_ns: Nanoseconds,
    path: PathUsage,
    counters: Counters,
    booked: Option<Booking>,
}

/// The parts of a command's time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Parts {
    /// Until firmware is free, or until the commands before it are done, if it goes alone.
    queue_ns: Nanoseconds,
    /// Firmware's own work.
    firmware_ns: Nanoseconds,
    /// Until room in the drive's capacity is guaranteed.
    room_ns: Nanoseconds,
    /// On the link, and until it is free.
    link_ns: Nanoseconds,
    /// Until DRAM has room for the data.
    dram_ns: Nanoseconds,
    /// Until the data have been read, or are on flash.
    flash_ns: Nanoseconds,
    /// The rest.
    other_ns: Nanoseconds,
}

/// What a plane did during a command's time on flash or until there was room in DRAM, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct PlaneTime {
    collection_ns: Nanoseconds,
    checkpoint_ns: Nanoseconds,
    erase_ns: Nanoseconds,
    journal_ns: Nanoseconds,
    program_ns: Nanoseconds,
    read_ns: Nanoseconds,
}

impl Device {
    /// Executes a command, and says so.
    #[cold]
    pub(crate) fn submit_traced(
        &mut self,
        command: &mut Command<'_>,
        origin: Origin,
        at_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        let before = self.before(command, origin);
        let done = self.submit_untraced(command, origin, at_ns);
        match &done {
            Ok(completion) => self.tell(&before, origin, at_ns, completion.done_ns),
            Err(status) => tracing::event!(
                target: TRACE_TARGET,
                Level::DEBUG,
                command = %before.text,
                kind = name_of(before.info.kind),
                client = client_of(origin),
                namespace = before.namespace,
                at_ns,
                failed = %status,
            ),
        }
        done
    }

    fn before(&mut self, command: &Command<'_>, origin: Origin) -> Before {
        let from_ns = match origin {
            Origin::Host => self.begins_ns(command.info().kind),
            Origin::Inside => self.ready_ns,
        };
        let _ = self.link.take_last();
        let (path, text) = (self.link.usage(), command.to_string());
        let (mut booked, mut lands_in_dram, mut counters) = (None, false, Counters::default());
        if let Ok(engine) = self.engine_mut() {
            engine.ftl.nand_mut().keep_bookings();
            booked = engine.ftl.nand().bookings().next_back().copied();
            lands_in_dram = lands_in_dram_of(engine, command);
            counters = *engine.ftl.counters();
        }
        let namespace = namespace_of(command);
        Before { text, info: command.info(), namespace, lands_in_dram, from_ns, path, counters, booked }
    }

    fn tell(&mut self, before: &Before, origin: Origin, at_ns: Nanoseconds, done_ns: Nanoseconds) {
        let path = self.link.usage();
        let firmware_ns = path.firmware_ns - before.path.firmware_ns;
        let waited_ns = path.firmware_waited_ns - before.path.firmware_waited_ns;
        let queue_ns = before.from_ns.saturating_sub(at_ns) + waited_ns;
        let crossing = self.link.take_last().filter(|_| origin == Origin::Host);
        let start_ns = at_ns + queue_ns + firmware_ns;
        let (parts, from_ns, until_ns) = before.parts(crossing, start_ns, done_ns);
        let parts = Parts { queue_ns, firmware_ns, ..parts };
        let Some(ftl) = self.ftl() else { return };
        let last = last_booking(ftl, before.booked, from_ns, until_ns);
        let did = last.map(|last| plane_time(ftl, last.plane, from_ns, until_ns));
        let since = ftl.counters().since(&before.counters);
        emit(before, origin, (at_ns, done_ns), &parts, (last.map(|last| last.plane), did), &since);
    }
}

impl Before {
    /// The parts after `start_ns`; and the time of flash, or until there was room in DRAM: from when and until when.
    fn parts(
        &self,
        crossing: Option<Crossing>,
        start_ns: Nanoseconds,
        done_ns: Nanoseconds,
    ) -> (Parts, Nanoseconds, Nanoseconds) {
        let mut parts = Parts::default();
        let (from_ns, until_ns) = match crossing {
            Some(Crossing { ready_ns, crossed_ns }) if matches!(self.info.kind, Kind::Read | Kind::Get) => {
                parts.link_ns = crossed_ns - ready_ns;
                parts.other_ns = done_ns.saturating_sub(crossed_ns);
                (start_ns, ready_ns)
            }
            Some(Crossing { ready_ns, crossed_ns }) => {
                parts.room_ns = ready_ns.saturating_sub(start_ns);
                parts.link_ns = crossed_ns - ready_ns;
                (crossed_ns, done_ns)
            }
            None => (start_ns, done_ns),
        };
        let wait_ns = until_ns.saturating_sub(from_ns);
        if self.lands_in_dram {
            parts.dram_ns = wait_ns
        } else {
            parts.flash_ns = wait_ns
        }
        (parts, from_ns, until_ns)
    }
}

/// Whether a command is done when DRAM has its data.
fn lands_in_dram_of(engine: &Engine, command: &Command<'_>) -> bool {
    match command {
        Command::Write { fua, .. } | Command::WriteWithMetadata { fua, .. } => !engine.goes_through(*fua),
        Command::WriteFilled { .. } | Command::WriteHinted { .. } => !engine.goes_through(false),
        Command::KvPut { .. } | Command::KvDelete { .. } => engine.ftl.has_plp(),
        _ => false,
    }
}

fn namespace_of(command: &Command<'_>) -> Option<u32> {
    match command {
        Command::KvGet { namespace, .. }
        | Command::KvExists { namespace, .. }
        | Command::KvDelete { namespace, .. }
        | Command::KvList { namespace, .. }
        | Command::DeleteNamespace { namespace } => Some(namespace.0),
        Command::KvPut { records } => records.first().map(|record| record.namespace.0),
        _ => None,
    }
}

/// The operation that ended a wait: the one whose end it was, or else the last of the command's own.
fn last_booking(
    ftl: &Ftl,
    before: Option<Booking>,
    from_ns: Nanoseconds,
    until_ns: Nanoseconds,
) -> Option<Booking> {
    let all = || ftl.nand().bookings().rev();
    let in_time = |booking: &&Booking| from_ns < booking.end_ns && booking.end_ns <= until_ns;
    let exact = all().filter(in_time).find(|booking| booking.end_ns == until_ns);
    let own = all().take_while(|booking| Some(**booking) != before).filter(in_time);
    exact.or_else(|| own.max_by_key(|booking| booking.end_ns)).copied()
}

fn plane_time(ftl: &Ftl, plane: PlaneId, from_ns: Nanoseconds, until_ns: Nanoseconds) -> PlaneTime {
    let mut time = PlaneTime::default();
    for booking in ftl.nand().bookings().filter(|booking| booking.plane == plane) {
        let sum_ns = match (booking.operation, booking.in_background, ftl.block_use(booking.block)) {
            (OperationKind::Erase, ..) => &mut time.erase_ns,
            (_, true, BlockUse::Checkpoint) => &mut time.checkpoint_ns,
            (_, true, _) => &mut time.collection_ns,
            (OperationKind::Program, _, BlockUse::Journal) => &mut time.journal_ns,
            (OperationKind::Program, ..) => &mut time.program_ns,
            (OperationKind::Read, ..) => &mut time.read_ns,
        };
        *sum_ns += booking.end_ns.min(until_ns).saturating_sub(booking.start_ns.max(from_ns));
    }
    time
}

fn emit(
    before: &Before,
    origin: Origin,
    (at_ns, done_ns): (Nanoseconds, Nanoseconds),
    parts: &Parts,
    (plane, did): (Option<PlaneId>, Option<PlaneTime>),
    since: &Counters,
) {
    let did = did.unwrap_or_default();
    tracing::event!(
        target: TRACE_TARGET,
        Level::DEBUG,
        command = %before.text,
        kind = name_of(before.info.kind),
        client = client_of(origin),
        namespace = before.namespace,
        at_ns,
        latency_ns = done_ns - at_ns,
        queue_ns = some(parts.queue_ns),
        firmware_ns = some(parts.firmware_ns),
        room_ns = some(parts.room_ns),
        link_ns = some(parts.link_ns),
        dram_ns = some(parts.dram_ns),
        flash_ns = some(parts.flash_ns),
        other_ns = some(parts.other_ns),
        plane = plane.map(|plane| plane.0),
        collection_ns = some(did.collection_ns),
        checkpoint_ns = some(did.checkpoint_ns),
        erase_ns = some(did.erase_ns),
        journal_ns = some(did.journal_ns),
        program_ns = some(did.program_ns),
        read_ns = some(did.read_ns),
        collected = some(since.collections),
        erased = some(since.blocks_erased),
        checkpoints = some(since.checkpoints),
    );
}

/// Zeros are left out.
fn some(figure: u64) -> Option<u64> {
    (figure > 0).then_some(figure)
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Put => "put",
        Kind::Get => "get",
        Kind::Flush => "flush",
        Kind::Map => "map",
    }
}

fn client_of(origin: Origin) -> &'static str {
    match origin {
        Origin::Host => "host",
        Origin::Inside => "inside",
    }
}
