//! One run: clients at work on a drive, and what the drive may hold after a cut.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rand::RngExt;
use tantalum::{Command, Counters, Generation, Lpn, PowerLoss, TxId, UNIT_BYTES};
use tantalum_drive::Request;

use super::case::Case;
use super::coverage::Coverage;
use super::host::Host;
use super::kinds::{Kind, Weights};
use super::namespaces::Namespaces;
use super::pending::{Pending, Spot, What};
use super::setup::Setup;
use crate::device::answers::New;
use crate::device::batches::Batches;
use crate::device::draw::Generator;
use crate::device::history::{Order, Stamp};
use crate::device::host::unit_of;
use crate::device::lists::ListHost;
use crate::device::oracle::Oracle;
use crate::device::random::generator;
use crate::device::records::Records;
use crate::device::run::cold_stamp;
use crate::device::stop::Stop;
use crate::device::tally::{Reached, Tally};
use crate::device::tide::Tide;
use crate::weights::Kinds;

/// Logs that a client has in use.
const LOGS: usize = 2;

/// Recent contents that plain writes repeat.
const RECENT: usize = 40;

/// One client.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Commands that it may have in flight.
    pub depth: usize,
    /// Open transactions with what they have written.
    pub transactions: Vec<(TxId, New)>,
    /// Logs that it writes to.
    pub logs: Vec<Generation>,
}

impl Client {
    /// A log was begun for it. An older one is left unfinished.
    pub fn take_log(&mut self, generation: Generation) {
        self.logs.push(generation);
        if self.logs.len() > LOGS {
            self.logs.remove(0);
        }
    }

    /// A write in a transaction was refused: it has what it had before.
    pub fn unwrite(&mut self, tx: TxId, lpn: Lpn, before: Option<Stamp>) {
        for (_, writes) in self.transactions.iter_mut().filter(|(other, _)| *other == tx) {
            match before {
                Some(stamp) => drop(writes.insert(lpn, stamp)),
                None => drop(writes.remove(&lpn)),
            }
        }
    }
}

/// Clients at work.
pub(super) struct Run {
    seed: u64,
    pub setup: Setup,
    weights: Weights,
    pub host: Host,
    pub oracle: Oracle,
    pub records: Records,
    pub batches: Batches,
    pub lists: ListHost,
    /// Whether the drive keeps lists of files.
    pub has_lists: bool,
    pub spaces: Namespaces,
    /// What fills the drive now, if it becomes full.
    pub tide: Tide,
    pub clients: Vec<Client>,
    /// By their numbers, which are in the order of submission.
    pub pending: BTreeMap<u64, Pending>,
    /// What refused commands would have changed, until that is looked at.
    pub doubted: BTreeSet<Spot>,
    /// Refused commands that may have been done in part, until that is looked at.
    pub parts: Vec<(Order, New)>,
    /// The events so far: submissions and answers. It is the oracle's time.
    pub tick: u64,
    next_stamp: Stamp,
    /// What plain writes have written lately.
    recent: Vec<Stamp>,
    /// Units that no client uses.
    pub cold: Range<u32>,
    /// Whether the contents of DRAM survive.
    pub protected: bool,
    /// Whether a write is durable when it is done.
    pub durable_writes: bool,
    /// Whether something has been made durable since the last clean shutdown began: then recovery must not find that
    /// the drive was shut down.
    pub worked: bool,
    pub tally: Tally,
    pub coverage: Coverage,
    units_per_page: u64,
    /// The drive's counters when power came on, and the units remapped until then.
    counters: Counters,
    remapped: u64,
}

impl Run {
    /// A new drive, with its cold units filled, and its clients.
    pub fn new(case: &Case) -> Result<Run, Stop> {
        let setup = case.setup;
        let (mut host, cold) = (Host::new(setup, case.seed)?, setup.cold());
        fill(&mut host, cold.clone())?;
        host.install_programs()?;
        // until then it was sound
        host.let_fail(0)?;
        host.trace = case.plan.trace;
        let (counters, has_lists) = {
            let device = host.drive().lock();
            (device.smart().counters, device.limits().files > 0)
        };
        let mut rng = generator(&[case.seed, DEPTHS]);
        let client = |_| Client { depth: rng.random_range(1..9), ..Client::default() };
        Ok(Run {
            seed: case.seed,
            weights: case.plan.weights.clone(),
            host,
            oracle: Oracle::default(),
            records: Records::default(),
            batches: Batches::default(),
            lists: ListHost::default(),
            has_lists,
            spaces: Namespaces::new(setup.kind.own_logs, setup.is_full()),
            tide: Tide::at(0),
            clients: (0..setup.clients).map(client).collect(),
            pending: BTreeMap::new(),
            doubted: BTreeSet::new(),
            parts: Vec::new(),
            tick: 0,
            next_stamp: 2,
            recent: Vec::new(),
            cold,
            protected: setup.is_protected(),
            durable_writes: setup.has_durable_writes(),
            worked: true,
            tally: Tally::default(),
            coverage: Coverage::default(),
            units_per_page: u64::from(setup.kind.page_bytes) / UNIT_BYTES as u64,
            counters,
            remapped: 0,
            setup,
        })
    }

    /// Turn number `index` of the seed: which client acts, and how, depends on the number and on what is open.
    pub fn turn(&mut self, index: u64) -> Result<(), Stop> {
        let mut rng = generator(&[self.seed, index]);
        let client = rng.random_range(0..self.clients.len());
        while self.in_flight_of(client) >= self.clients[client].depth {
            self.wait(Host::wait_for_one)?;
        }
        self.tally.reached.commands += 1;
        self.tide = Tide::at(index);
        let kind = self.weights.pick(&mut rng);
        self.act(client, kind, &mut rng)?;
        self.wait(|host| host.pause(&mut rng))?;
        self.oracle.forget_before(self.tick);
        self.records.forget_before(self.tick);
        self.lists.forget_before(self.tick);
        self.batches.forget_before(self.tick);
        if let Some(programs) = &mut self.host.programs {
            let (committed, aborted) = programs.take_ended();
            self.coverage.program_commits += committed;
            self.coverage.program_aborts += aborted;
        }
        Ok(())
    }

    fn in_flight_of(&self, client: usize) -> usize {
        self.pending.values().filter(|pending| pending.client == client).count()
    }

    /// Waits in some way, and takes the answers that arrive meanwhile.
    pub fn wait(&mut self, wait: impl FnOnce(&mut Host) -> Result<(), Stop>) -> Result<(), Stop> {
        let waited = wait(&mut self.host);
        if waited.is_ok() { self.settle() } else { waited }
    }

    /// Everybody waits for all answers.
    pub fn wait_for_all(&mut self) -> Result<(), Stop> {
        while !self.pending.is_empty() {
            self.wait(Host::wait_for_one)?;
        }
        Ok(())
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// Submits a command of a client.
    pub fn submit(&mut self, client: usize, kind: Kind, what: What, request: Request) -> Result<(), Stop> {
        self.tell(client, kind, &what);
        self.note_conflicts(client, &what);
        let number = self.host.submit(client, request);
        self.submitted(client, kind, [(number, what)])
    }

    /// Commands were submitted: with their numbers.
    pub fn submitted(
        &mut self,
        client: usize,
        kind: Kind,
        commands: impl IntoIterator<Item = (u64, What)>,
    ) -> Result<(), Stop> {
        let lost = !self.host.has_power();
        for (number, what) in commands {
            self.tick += 1;
            self.coverage.command(name_of(kind), self.host.way_of(client));
            self.pending.insert(number, Pending { client, what, lost });
        }
        if lost {
            return Err(Stop::PowerLost);
        }
        self.host.deliver_due();
        self.settle()
    }

    pub fn tell(&self, client: usize, kind: Kind, what: &What) {
        if self.host.trace {
            let (now_ns, way) = (self.host.now_ns, self.host.way_of(client));
            eprintln!("{now_ns:>12} client {client} ({way}) {}: {what:?}", name_of(kind));
        }
    }

    /// Counts a command that meets a change of another client in flight.
    pub fn note_conflicts(&mut self, client: usize, what: &What) {
        let mut touched = what.changes();
        touched.extend(what.reads());
        let others = self.pending.values().filter(|pending| pending.client != client);
        let meets = others.into_iter().any(|pending| !pending.what.changes().is_disjoint(&touched));
        self.coverage.conflicts += u64::from(meets);
    }

    /// A value that no other unit had.
    pub fn stamp(&mut self) -> Stamp {
        self.next_stamp += 2;
        self.next_stamp
    }

    /// New values for these units.
    pub fn stamped(&mut self, lpns: impl IntoIterator<Item = Lpn>) -> New {
        lpns.into_iter().map(|lpn| (lpn, self.stamp())).collect()
    }

    /// Values for these units, some of which repeat recent ones if the drive shares such writes.
    pub fn perhaps_repeated(&mut self, lpns: Range<u32>, rng: &mut Generator) -> New {
        let mut new = New::new();
        let run = rng.random_ratio(1, 3).then(|| rng.random_range(0..RECENT));
        for (place, lpn) in lpns.enumerate() {
            let at = run.map_or_else(|| rng.random_range(0..RECENT), |first| first + place);
            let repeats = self.setup.remaps && (run.is_some() || rng.random_ratio(1, 3));
            let known = self.recent.len().checked_sub(at + 1).map(|at| self.recent[at]);
            let stamp = known.filter(|_| repeats).unwrap_or_else(|| self.stamp());
            new.insert(Lpn(lpn), stamp);
        }
        self.recent.extend(new.values());
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
        new
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// Counts what the drive has done since power came on, before it fails or is shut down.
    pub fn count_work(&mut self) {
        let Some((now, remapped)) = self.counts() else { return };
        self.tally.reached.add(&Reached::of(&now.since(&self.counters), self.units_per_page));
        self.coverage.remapped += remapped - self.remapped;
        (self.counters, self.remapped) = (now, remapped);
    }

    fn counts(&self) -> Option<(Counters, u64)> {
        let device = self.host.opened()?.lock();
        Some((device.smart().counters, device.duplicates().remapped))
    }

    /// Power has gone: counts what was in flight, and ends all waits.
    pub fn lose_power(&mut self, place: &'static str) -> Result<(), Stop> {
        self.end_waits()?;
        match self.worked {
            true => self.tally.cuts += 1,
            false => self.tally.shutdown_cuts += 1,
        }
        self.coverage.cut(if self.worked { place } else { "in a clean shutdown" });
        let programs = self.host.programs.as_ref().map_or(0, |programs| programs.under_way());
        let in_flight = self.pending.len() as u64 + programs;
        self.coverage.in_flight_at_cuts += in_flight;
        self.coverage.most_in_flight = self.coverage.most_in_flight.max(in_flight);
        let first = self.pending.values().next().map(|pending| pending.client);
        let several = self.pending.values().any(|pending| Some(pending.client) != first);
        self.coverage.cuts_with_several_clients += u64::from(several);
        self.coverage.cuts_in_conflicts += u64::from(self.is_in_conflict());
        if self.host.trace {
            eprintln!("{:>12} POWER LOST {place}; {in_flight} in flight", self.host.now_ns);
        }
        self.pending.clear();
        Ok(())
    }

    /// Whether commands of several clients in flight change the same unit or record.
    fn is_in_conflict(&self) -> bool {
        let mut by_spot = BTreeMap::new();
        self.pending.values().any(|pending| {
            let spots = pending.what.changes();
            spots.into_iter().any(|spot| *by_spot.entry(spot).or_insert(pending.client) != pending.client)
        })
    }

    /// Power comes back. If it is lost in recovery ([`Stop::PowerLost`]), call this again.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        let report = self.host.power_on(loss)?;
        self.host.let_fail(self.tally.cuts)?;
        self.tally.torn_pages_seen += report.torn_pages;
        if self.worked && report.clean {
            let detail = "recovery takes the drive for one that was shut down; it had been written to";
            return Err(Stop::broken("D5", detail));
        }
        self.host.install_programs()?;
        self.tally.dirty_recoveries += u64::from(self.worked);
        self.worked |= !report.clean;
        self.begin_anew();
        Ok(())
    }

    /// The drive has power again: what was open is not.
    pub fn begin_anew(&mut self) {
        for client in &mut self.clients {
            client.transactions.clear();
            client.logs.clear();
        }
        (self.counters, self.remapped) = self.counts().unwrap_or_default();
    }
}

/// Selects the random numbers of the clients' depths.
const DEPTHS: u64 = 6 << 32;

fn name_of(kind: Kind) -> &'static str {
    Kind::ALL.iter().find(|(other, ..)| *other == kind).expect("every kind is listed").1
}

/// Fills the cold units, and waits until they are on flash.
fn fill(host: &mut Host, cold: Range<u32>) -> Result<(), Stop> {
    for lpn in cold {
        let data = unit_of(cold_stamp(lpn));
        let written = host.ask(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None })?;
        host.now_ns = host.now_ns.max(written.done_ns);
    }
    let flushed = host.ask(Command::Flush)?;
    host.now_ns = host.now_ns.max(flushed.done_ns);
    host.drive().lock().audit();
    Ok(())
}
