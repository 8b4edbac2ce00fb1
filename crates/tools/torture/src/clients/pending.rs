//! Commands in flight, and what their answers mean for the oracle.
//!
//! The oracle's time is a count of events. A command has changed what the running drive holds when it was submitted, and
//! is known to be done when its answer arrives.

use std::collections::BTreeSet;

use tantalum::{Generation, Lpn, NamespaceId, Status, TxId, UNIT_BYTES};
use tantalum_drive::{Output, Reply};

use super::host::Arrival;
use super::namespaces::Made;
use super::run::Run;
use crate::device::answers::New;
use crate::device::hints::Log;
use crate::device::history::{Order, Stamp};
use crate::device::host::{metadata_of, stamp_of};
use crate::device::record_host::{NewRecords, value_of};
use crate::device::records::{RecordId, Thing};
use crate::device::stop::Stop;

/// What a command does, and what is right for it.
#[derive(Debug)]
pub(super) enum What {
    /// Gives units new values. `shared` is when a share was submitted that makes pages written before it durable.
    Units {
        order: Order,
        new: New,
        durable: bool,
        shared: Option<u64>,
    },
    /// Writes a page of a hinted log, which was in this state before.
    Page {
        order: Order,
        new: New,
        durable: bool,
        generation: Generation,
        before: Box<Log>,
    },
    /// Writes units and appends them to the list of a file.
    Append {
        order: Order,
        new: New,
    },
    /// Clears lists.
    ClearLists {
        order: Order,
    },
    /// Writes units and puts records in one step.
    Batch {
        order: Order,
        new: New,
        put: Order,
        records: NewRecords,
    },
    /// Puts and deletes records in one step.
    Put {
        put: Order,
        records: NewRecords,
    },
    /// Deletes a record; whether there is one.
    Delete {
        put: Order,
        place: RecordId,
        exists: bool,
    },
    /// Makes durable what was answered before it was submitted.
    Flush {
        given: u64,
    },
    /// Reads units that hold one of these.
    Read {
        expected: Vec<(Lpn, Vec<Stamp>)>,
    },
    /// Reads a unit with its metadata.
    ReadWithMetadata {
        lpn: Lpn,
        expected: Stamp,
    },
    /// Reads a record.
    Get {
        place: RecordId,
        expected: Stamp,
    },
    /// Lists the keys of a namespace.
    List {
        namespace: NamespaceId,
        expected: BTreeSet<tantalum::Key>,
    },
    Begin,
    /// Writes a unit in a transaction.
    TxWrite {
        tx: TxId,
        lpn: Lpn,
        before: Option<Stamp>,
    },
    /// Reads a unit as a transaction sees it.
    TxRead {
        expected: Stamp,
    },
    /// Commits what a transaction wrote.
    Commit {
        order: Order,
        new: New,
        tx: TxId,
    },
    Abort,
    BeginLog,
    /// Creates a namespace for a place, with this many logs.
    Create {
        slot: usize,
        logs: u32,
    },
    /// Deletes the namespace of a place.
    DeleteNamespace {
        put: Order,
        slot: usize,
        made: Made,
    },
    /// Is refused.
    Refused,
}

/// A unit or record that a command changes or reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Spot {
    Unit(Lpn),
    Record(Thing),
}

/// A command in flight.
#[derive(Debug)]
pub(super) struct Pending {
    pub client: usize,
    pub what: What,
    /// Power was lost before the drive had accepted it.
    pub lost: bool,
}

impl What {
    /// What it changes.
    pub fn changes(&self) -> BTreeSet<Spot> {
        let units = |new: &New| new.keys().copied().map(Spot::Unit).collect::<BTreeSet<_>>();
        let records = |records: &NewRecords| {
            records.keys().map(|place| Spot::Record(Thing::Record(*place))).collect::<BTreeSet<_>>()
        };
        match self {
            What::Units { new, .. }
            | What::Page { new, .. }
            | What::Append { new, .. }
            | What::Commit { new, .. } => units(new),
            What::Batch { new, records: put, .. } => units(new).into_iter().chain(records(put)).collect(),
            What::Put { records: put, .. } => records(put),
            What::Delete { place, .. } => BTreeSet::from([Spot::Record(Thing::Record(*place))]),
            What::DeleteNamespace { made, .. } => {
                BTreeSet::from([Spot::Record(Thing::Namespace(made.namespace))])
            }
            _ => BTreeSet::new(),
        }
    }

    /// What it reads.
    pub fn reads(&self) -> BTreeSet<Spot> {
        match self {
            What::Read { expected } => expected.iter().map(|(lpn, _)| Spot::Unit(*lpn)).collect(),
            What::ReadWithMetadata { lpn, .. } => BTreeSet::from([Spot::Unit(*lpn)]),
            What::Get { place, .. } => BTreeSet::from([Spot::Record(Thing::Record(*place))]),
            _ => BTreeSet::new(),
        }
    }
}

fn wrong(detail: String) -> Stop {
    Stop::broken("running drive", detail)
}

impl Run {
    /// Takes the answers that have arrived, in their order.
    pub fn settle(&mut self) -> Result<(), Stop> {
        for arrival in self.host.arrivals() {
            self.arrived(arrival)?;
        }
        self.check_doubted()
    }

    fn arrived(&mut self, arrival: Arrival) -> Result<(), Stop> {
        let Arrival { number, ended, .. } = arrival;
        let none = || Stop::broken("answers", format!("command {number} was answered twice"));
        let pending = self.pending.remove(&number).ok_or_else(none)?;
        self.tick += 1;
        if self.host.trace {
            let how = ended.as_ref().map_or_else(|status| status.to_string(), |_| "done".to_owned());
            eprintln!("{:>12}   {number}: {how}", self.host.now_ns);
        }
        match ended {
            Ok(reply) => self.done(pending, Some(&reply)),
            Err(Status::PowerLost) => {
                Err(Stop::broken("answers", "a command finds no power while the drive has it"))
            }
            Err(status) => self.refused(number, pending, &status),
        }
    }

    /// Power has gone. What had been answered by then is known; the rest was in flight.
    pub fn end_waits(&mut self) -> Result<(), Stop> {
        let lost_ns = self.host.lost_ns();
        for arrival in self.host.arrivals() {
            match (&arrival.ended, self.pending.get(&arrival.number)) {
                (Err(Status::PowerLost), Some(_)) => {}
                _ => self.arrived(arrival)?,
            }
        }
        for Arrival { number, ended, done_ns } in self.host.end_waits() {
            let Some(pending) = self.pending.remove(&number) else { continue };
            self.coverage.answers_lost += 1;
            match ended {
                Ok(_) => {
                    let detail = format!("command {number} was answered after power had gone");
                    return Err(Stop::broken("answers", detail));
                }
                // nobody heard of it, but it was done before power went
                Err(Status::PowerLost) if !pending.lost && lost_ns.is_some_and(|ns| done_ns <= ns) => {
                    self.tick += 1;
                    self.done(pending, None)?;
                }
                Err(Status::PowerLost) => drop(self.pending.insert(number, pending)),
                Err(status) => self.refused(number, pending, &status)?,
            }
        }
        self.check_doubted()
    }

    /// A command is done. Without a reply nobody heard the answer.
    fn done(&mut self, pending: Pending, reply: Option<&Reply>) -> Result<(), Stop> {
        let (tick, client) = (self.tick, pending.client);
        match pending.what {
            What::Units { order, durable, shared, .. } => {
                self.oracle.acknowledge(order, tick, durable);
                if let Some(given) = shared.filter(|_| durable) {
                    self.oracle.hints.share(given, tick);
                }
            }
            What::Page { order, durable, .. } => self.oracle.acknowledge(order, tick, durable),
            What::Commit { order, .. } => self.oracle.acknowledge(order, tick, true),
            What::Append { order, .. } => {
                self.oracle.acknowledge(order, tick, true);
                self.lists.acknowledge(order, tick);
            }
            What::ClearLists { order } => self.lists.acknowledge(order, tick),
            What::Batch { order, put, .. } => {
                self.batches.acknowledge(order, tick);
                self.records.acknowledge(put, tick);
                self.oracle.acknowledge(order, tick, true);
            }
            What::Put { put, .. } => self.records.acknowledge(put, tick),
            What::Delete { put, place, exists } => {
                self.records.acknowledge(put, tick);
                if !exists {
                    return Err(wrong(format!("{place:?} was deleted, and was not there")));
                }
            }
            What::DeleteNamespace { put, .. } => self.records.acknowledge(put, tick),
            // with a capacitor everything is durable already
            What::Flush { given } if !self.protected => self.oracle.flush(given, tick),
            What::Flush { .. } => {}
            What::Refused => return Err(wrong("what must be refused was taken".to_owned())),
            told => {
                if let Some(reply) = reply {
                    self.told(client, told, reply)?;
                }
            }
        }
        Ok(())
    }

    /// A client learns what its answer says.
    fn told(&mut self, client: usize, what: What, reply: &Reply) -> Result<(), Stop> {
        self.tally.promises_checked += 1;
        match (what, &reply.output) {
            (What::Read { expected }, Output::Data(data)) => {
                for ((lpn, expected), unit) in expected.iter().zip(data.chunks(UNIT_BYTES)) {
                    let found = stamp_of(unit, &format!("unit {lpn}"))?;
                    if !expected.contains(&found) {
                        return Err(wrong(format!("unit {lpn} reads {found}, it holds {expected:?}")));
                    }
                }
            }
            (What::ReadWithMetadata { lpn, expected }, Output::Unit(data, metadata)) => {
                let found = stamp_of(data, &format!("unit {lpn}"))?;
                if found != expected || *metadata != metadata_of(expected) {
                    let detail = format!("unit {lpn} reads {found} with {metadata:?}, it holds {expected}");
                    return Err(wrong(detail));
                }
            }
            (What::TxRead { expected }, Output::Data(data)) => {
                let found = stamp_of(data, "a unit as a transaction sees it")?;
                if found != expected {
                    return Err(wrong(format!("a transaction reads {found}, not {expected}")));
                }
            }
            (What::Get { place, expected }, Output::Data(value)) => {
                if value_of(place, expected).as_ref() != Some(value) {
                    let bytes = value.len();
                    return Err(wrong(format!("{place:?} has {bytes} other bytes than those of {expected}")));
                }
            }
            (What::List { namespace, expected }, Output::Keys(keys)) => {
                let found: BTreeSet<_> = keys.iter().copied().collect();
                if found != expected || keys.len() != found.len() {
                    let detail = format!("namespace {namespace} lists {keys:?}, not {expected:?}");
                    return Err(wrong(detail));
                }
            }
            (What::Begin, Output::Transaction(tx)) => {
                self.clients[client].transactions.push((*tx, New::new()));
            }
            (What::BeginLog, Output::Log(generation)) => {
                self.oracle.hints.begin(*generation, self.tick);
                self.clients[client].take_log(*generation);
            }
            (What::Create { slot, logs }, &Output::Namespace(namespace)) => {
                self.records.made(namespace, Some(self.tick));
                self.spaces.created(slot, Made { namespace, logs });
            }
            (_, Output::Nothing) => {}
            (what, output) => return Err(wrong(format!("{what:?} is answered with {output:?}"))),
        }
        Ok(())
    }
}
