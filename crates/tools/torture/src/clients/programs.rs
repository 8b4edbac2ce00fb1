//! Programs in the drive, as its clients: Base-IO, and transactions of Atomic-Writes over cells in stripes of all
//! processors.
//!
//! Each client of the torture has cells of its own, which share units with those of the others, and at most one
//! transaction in progress. After a cut its cells hold its last acknowledged transaction, or the one in progress,
//! completely (the commit is durable when it is answered).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use tantalum::UNIT_BYTES;
use tantalum_drive::Drive;
use tantalum_spu::atomic_writes::{AtomicWrites, AtomicWritesError, Outcome, SLOTS, Transaction};
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallOptions, ProcessId, Rights, STRIPE_BYTES, SpuError, Ssd, shipped,
};

use super::setup::CELLS;
use crate::device::draw::Generator;
use crate::device::stop::Stop;

/// Cells of each client, one in each stripe.
const CELLS_OF_EACH: usize = 8;
const CELL_BYTES: usize = 600;
/// From one client's cell to the next one's: some share a unit.
const CELL_STEP: usize = 1000;

/// The answer of Atomic-Writes to the commit of a transaction that it has aborted.
const ABORTED: i32 = 1;

/// Its answer as long as the slot works on something else.
const BUSY: i32 = 2;

/// What a client of Atomic-Writes knows, whatever happens to the power or to its process.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// The number of its last transaction, as its slot counts.
    number: u64,
    /// What the cells hold; 0 at first.
    cells: Vec<u64>,
    /// What the transaction in progress changes, until it is known how that ended.
    changes: Vec<(usize, u64)>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { number: 0, cells: vec![0; CELLS_OF_EACH], changes: Vec::new() }
    }
}

/// A client of Atomic-Writes.
#[derive(Debug)]
struct Owner {
    process: ProcessId,
    endpoint: EndpointId,
    memory: Memory,
    under_way: Option<Transaction>,
}

/// The processors with what is installed there.
pub(super) struct Programs {
    ssd: Arc<Mutex<Ssd>>,
    kernel: EndpointId,
    base_io: BlockClient,
    atomic: AtomicWrites,
    owners: Vec<Owner>,
    /// Events that arrive later: a blocking client of Base-IO lets the processors run ahead of the other clients.
    later: VecDeque<Event>,
    /// Transactions committed since the last call of [`Programs::take_ended`].
    committed: u64,
    /// Transactions aborted since then.
    aborted: u64,
}

fn lock(ssd: &Mutex<Ssd>) -> MutexGuard<'_, Ssd> {
    ssd.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(error: &dyn std::error::Error) -> Stop {
    Stop::broken("program", error.to_string())
}

/// Power may have gone: then programs cannot be installed, asked or answered.
fn of_error(error: AtomicWritesError, ssd: &Ssd) -> Stop {
    match error {
        AtomicWritesError::Sending(SpuError::PowerLost) => Stop::PowerLost,
        _ if !ssd.drive().lock().has_power() => Stop::PowerLost,
        error => broken(&error),
    }
}

/// Where a client's cell is, in bytes.
fn cell_start(client: usize, cell: usize) -> u64 {
    u64::from(CELLS.start) * UNIT_BYTES as u64 + cell as u64 * STRIPE_BYTES + (client * CELL_STEP) as u64
}

fn cell_data(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(CELL_BYTES / 8)
}

impl Memory {
    /// The transaction in progress has happened.
    fn commit(&mut self) {
        for (cell, value) in std::mem::take(&mut self.changes) {
            self.cells[cell] = value;
        }
    }
}

impl Programs {
    /// Starts the processors of a drive, for clients with these memories.
    pub fn new(drive: &Drive, memories: &[Memory], now_ns: u64) -> Result<Programs, Stop> {
        let mut ssd = Ssd::new(drive.clone());
        ssd.wait_until(now_ns);
        let kernel = ssd.endpoint(ProcessId::KERNEL).map_err(|error| broken(&error))?;
        let owner = |memory: &Memory| {
            let process = ssd.process();
            let endpoint = ssd.endpoint(process).map_err(|error| broken(&error))?;
            Ok(Owner { process, endpoint, memory: memory.clone(), under_way: None })
        };
        let mut owners = memories.iter().map(owner).collect::<Result<Vec<_>, Stop>>()?;
        let (base_io, atomic) = set_up(&mut ssd, kernel, &mut owners)?;
        let ssd = Arc::new(Mutex::new(ssd));
        Ok(Programs {
            ssd,
            kernel,
            base_io,
            atomic,
            owners,
            later: VecDeque::new(),
            committed: 0,
            aborted: 0,
        })
    }

    /// What the clients know.
    pub fn memories(&self) -> Vec<Memory> {
        self.owners.iter().map(|owner| owner.memory.clone()).collect()
    }

    /// The drive has power again, and its host installs everything anew.
    pub fn power_on(&mut self, now_ns: u64) -> Result<(), Stop> {
        let mut ssd = lock(&self.ssd);
        ssd.power_on().map_err(|error| match error {
            SpuError::PowerLost => Stop::PowerLost,
            error => broken(&error),
        })?;
        while ssd.next_event().is_some() {}
        ssd.wait_until(now_ns);
        self.owners.iter_mut().for_each(|owner| owner.under_way = None);
        self.later.clear();
        (self.base_io, self.atomic) = set_up(&mut ssd, self.kernel, &mut self.owners)?;
        Ok(())
    }

    /// The processors.
    pub fn ssd(&self) -> Arc<Mutex<Ssd>> {
        Arc::clone(&self.ssd)
    }

    /// The kernel's client of Base-IO.
    pub fn base_io(&self) -> BlockClient {
        self.base_io
    }

    /// The time of the last event in the drive.
    pub fn now_ns(&self) -> u64 {
        lock(&self.ssd).now_ns()
    }

    /// Transactions committed and aborted since the last call.
    pub fn take_ended(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.committed), std::mem::take(&mut self.aborted))
    }

    /// Transactions in progress.
    pub fn under_way(&self) -> u64 {
        self.owners.iter().filter(|owner| owner.under_way.is_some()).count() as u64
    }

    /// Begins a transaction of a client, unless one is in progress or in doubt.
    pub fn begin(&mut self, client: usize, rng: &mut Generator, now_ns: u64) -> Result<(), Stop> {
        let mut ssd = lock(&self.ssd);
        let owner = &mut self.owners[client];
        if owner.under_way.is_some() || !owner.memory.changes.is_empty() {
            return Ok(());
        }
        owner.memory.number += SLOTS;
        let number = owner.memory.number + client as u64;
        let mut cells: Vec<usize> = (0..CELLS_OF_EACH).collect();
        for at in 0..CELLS_OF_EACH {
            cells.swap(at, rng.random_range(at..CELLS_OF_EACH));
        }
        cells.truncate(rng.random_range(1..=CELLS_OF_EACH / 2));
        let changes: Vec<(usize, u64)> = cells.into_iter().map(|cell| (cell, number)).collect();
        let writes: Vec<(u64, Vec<u8>)> =
            changes.iter().map(|(cell, value)| (cell_start(client, *cell), cell_data(*value))).collect();
        let begin = if rng.random_ratio(1, 2) { Transaction::begin } else { Transaction::begin_batch };
        owner.memory.changes = changes;
        let begun = begin(&mut ssd, self.atomic, owner.endpoint, number, &writes, now_ns);
        owner.under_way = Some(begun.map_err(|error| of_error(error, &ssd))?);
        Ok(())
    }

    /// Executes what the processors have to do up to a time.
    pub fn run_until(&mut self, ns: u64) -> Result<(), Stop> {
        let ssd = Arc::clone(&self.ssd);
        let mut ssd = lock(&ssd);
        while let Some(event) = self.next_event(&mut ssd, ns) {
            let endpoint = match &event {
                Event::PowerLost { .. } => return Err(Stop::PowerLost),
                Event::Answer { endpoint, .. } | Event::Permission { endpoint, .. } => *endpoint,
                Event::Request { .. } => continue,
                ended @ Event::Ended { .. } => return Err(Stop::broken("program", ended.to_string())),
            };
            let Some(owner) = self.owners.iter_mut().find(|owner| owner.endpoint == endpoint) else {
                continue;
            };
            let Some(transaction) = &mut owner.under_way else { continue };
            let outcome = transaction.take(&mut ssd, &event).map_err(|error| match error {
                SpuError::PowerLost => Stop::PowerLost,
                error => broken(&error),
            })?;
            match outcome {
                None => {}
                Some(Outcome::Committed) => {
                    self.committed += 1;
                    owner.under_way = None;
                    owner.memory.commit();
                }
                // the store of a participant waited for garbage collection for more than `WAIT_NS`, or the slot was busy with
                // the transaction before for all attempts: nothing remains of it
                Some(Outcome::Aborted(ABORTED | BUSY)) => {
                    self.aborted += 1;
                    owner.under_way = None;
                    owner.memory.changes.clear();
                }
                // the next comparison shows which
                Some(Outcome::InDoubt(_)) => owner.under_way = None,
                Some(other @ Outcome::Aborted(_)) => {
                    return Err(Stop::broken("program", format!("a transaction ended: {other:?}")));
                }
            }
        }
        // time passes for the processors as well
        ssd.wait_until(ns);
        Ok(())
    }

    /// The next event that has arrived by a time.
    fn next_event(&mut self, ssd: &mut Ssd, ns: u64) -> Option<Event> {
        if self.later.front().is_some_and(|event| event.at_ns() <= ns) {
            return self.later.pop_front();
        }
        loop {
            match ssd.next_event_until(ns)? {
                event if event.at_ns() <= ns || matches!(event, Event::PowerLost { .. }) => {
                    return Some(event);
                }
                event => self.later.push_back(event),
            }
        }
    }

    /// Compares the cells with what they may hold; `units` are those of [`CELLS`], in order. Returns what was checked.
    pub fn compare(&mut self, units: &[u8]) -> Result<u64, Stop> {
        for (client, owner) in self.owners.iter_mut().enumerate() {
            let mut found = Vec::new();
            for cell in 0..CELLS_OF_EACH {
                let start = (cell_start(client, cell) - cell_start(0, 0)) as usize;
                let data = &units[start..start + CELL_BYTES];
                let value = data.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
                if data != cell_data(value) {
                    return Err(Stop::broken("D3", format!("cell {cell} of client {client} is torn")));
                }
                found.push(value);
            }
            let before = owner.memory.cells.clone();
            owner.memory.commit();
            let after = std::mem::replace(&mut owner.memory.cells, found.clone());
            if found != before && found != after {
                let detail = format!("client {client}'s cells hold {found:?}, not {before:?} or {after:?}");
                return Err(Stop::broken("D3", detail));
            }
        }
        Ok(self.owners.len() as u64)
    }
}

/// Installs both programs, which recover, and gives each client its rights.
fn set_up(
    ssd: &mut Ssd,
    kernel: EndpointId,
    owners: &mut [Owner],
) -> Result<(BlockClient, AtomicWrites), Stop> {
    let atomic = AtomicWrites::install(ssd, kernel, 0).map_err(|error| of_error(error, ssd))?;
    for (client, owner) in owners.iter().enumerate() {
        atomic.assign(ssd, kernel, client as u32, owner.process).map_err(|error| of_error(error, ssd))?;
        for cell in 0..CELLS_OF_EACH {
            let start = cell_start(client, cell);
            ssd.grant(owner.process, start..start + CELL_BYTES as u64, Rights::READ | Rights::WRITE)
                .map_err(|error| of_error(error.into(), ssd))?;
        }
    }
    let open = InstallOptions { is_open: true, region: None };
    let base_io = ssd
        .install(ProcessId::KERNEL, shipped::BASE_IO, open)
        .map_err(|error| of_error(error.into(), ssd))?;
    Ok((BlockClient::new(kernel, base_io), atomic))
}

#[cfg(test)]
mod tests {
    use tantalum::{CacheMode, Device, Plp};

    use super::*;
    use crate::clients::SetupChoice;
    use crate::device::random::generator;

    /// A blocking client of Base-IO let the processors run ahead, and the answer to another client's commit was taken before
    /// its time. Then power went before that time, in a third client's command, and the commit seemed to be lost.
    #[test]
    fn a_commit_is_answered_when_its_answer_arrives() {
        let (plp, cache) = (Some(Plp::None), Some(CacheMode::Volatile));
        let choice = SetupChoice { plp, cache, programs: Some(true), ..SetupChoice::default() };
        let profile = choice.setups(1)[0].profile(1);
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let mut programs = Programs::new(&drive, &vec![Memory::default(); 2], 0).unwrap();
        let now_ns = programs.now_ns();
        programs.begin(0, &mut generator(&[1]), now_ns).unwrap();
        let (ssd, base_io) = (programs.ssd(), programs.base_io());
        let ahead_ns = now_ns + 50_000_000;
        while programs.now_ns() < ahead_ns && programs.later.is_empty() {
            base_io
                .write(&mut lock(&ssd), u64::from(CELLS.end) * UNIT_BYTES as u64, &[7; UNIT_BYTES])
                .unwrap();
            programs.run_until(now_ns).unwrap();
        }
        assert!(programs.later.front().is_some_and(|event| event.at_ns() > now_ns));
        assert_eq!((programs.take_ended(), programs.under_way()), ((0, 0), 1));
        programs.run_until(programs.now_ns() + ahead_ns).unwrap();
        assert_eq!((programs.take_ended(), programs.under_way()), ((1, 0), 0));
    }
}
