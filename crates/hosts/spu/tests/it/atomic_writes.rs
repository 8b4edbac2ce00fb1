//! Atomic-Writes under power cuts: hazards 20 to 22, and the canaries that show that the torture notices them.
//!
//! Clients commit transactions over cells in stripes of all processors. Each client has cells of its own, which share units
//! with those of others. Power fails at a flash operation drawn from a seed, also during recovery. Then every client's cells
//! must hold its last acknowledged transaction, or the one in progress, completely. Acknowledged commits are repeated, and
//! old messages arrive late. `SPU_SEEDS=200` runs more seeds, `SPU_SEED=17` one.

use crate::common;

use std::ops::Range;

use common::{KERNEL, OPEN, ask, fail_each_step, nothing_fails, profile, seeds, ssd_of};
use tantalum::{FailingStep, Outcome as Fate, PowerLoss, StepFault};
use tantalum_image::SplitMix64;
use tantalum_spu::atomic_writes::{
    AtomicWrites, AtomicWritesError, Outcome, SLOTS, Transaction, last_region,
};
use tantalum_spu::{BlockClient, EndpointId, Event, ProcessId, Rights, SpuError, Ssd, answer, shipped};

const CLIENTS: usize = 4;
const CELLS: usize = 12;
const CELL_BYTES: u64 = 600;

struct Client {
    process: ProcessId,
    endpoint: EndpointId,
    /// The number of the last transaction, as its slot counts.
    number: u64,
    /// What the cells hold; 0 at first.
    cells: Vec<u64>,
    under_way: Option<UnderWay>,
    /// A transaction that ended long ago.
    old: Option<Transaction>,
    previous: Option<Transaction>,
}

struct UnderWay {
    transaction: Transaction,
    changes: Vec<(usize, u64)>,
}

struct Torture {
    ssd: Ssd,
    kernel: EndpointId,
    module: &'static [u8],
    atomic: Option<AtomicWrites>,
    clients: Vec<Client>,
    random: SplitMix64,
    committed: u64,
    cuts: u64,
}

fn cell_range(client: usize, cell: usize) -> Range<u64> {
    // four clients' cells share each stripe, and some share units; cells are in stripes of all processors
    let start = cell as u64 * 8192 + client as u64 * 1000;
    start..start + CELL_BYTES
}

fn cell_data(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(CELL_BYTES as usize / 8)
}

impl Torture {
    fn new(seed: u64, module: &'static [u8]) -> Torture {
        let mut random = SplitMix64(seed);
        let drives = ["tlc-nvme", "openssd-barefoot", "tlc-nvme-plp", "willow"];
        let mut ssd = ssd_of(&profile(drives[random.below(4) as usize]));
        let kernel = ssd.endpoint(KERNEL).unwrap();
        let clients = (0..CLIENTS).map(|_| {
            let process = ssd.process();
            let endpoint = ssd.endpoint(process).unwrap();
            Client {
                process,
                endpoint,
                number: 0,
                cells: vec![0; CELLS],
                under_way: None,
                old: None,
                previous: None,
            }
        });
        let clients = clients.collect();
        let mut torture =
            Torture { ssd, kernel, module, atomic: None, clients, random, committed: 0, cuts: 0 };
        torture.set_up().unwrap();
        torture
    }

    /// What the host's driver does when the drive has power.
    fn set_up(&mut self) -> Result<(), AtomicWritesError> {
        let region = last_region(self.ssd.stripes());
        let atomic = AtomicWrites::install_module(&mut self.ssd, self.kernel, region, self.module)?;
        for (slot, client) in self.clients.iter_mut().enumerate() {
            atomic.assign(&mut self.ssd, self.kernel, slot as u32, client.process)?;
            for cell in 0..CELLS {
                self.ssd.grant(client.process, cell_range(slot, cell), Rights::READ | Rights::WRITE)?;
            }
            (client.old, client.previous) = (None, None);
        }
        self.atomic = Some(atomic);
        Ok(())
    }

    fn begin(&mut self, index: usize) -> Result<(), SpuError> {
        let client = &mut self.clients[index];
        client.number += SLOTS;
        let number = client.number + index as u64;
        let mut cells: Vec<usize> = (0..CELLS).collect();
        for at in 0..CELLS {
            cells.swap(at, at + self.random.below((CELLS - at) as u64) as usize);
        }
        cells.truncate(1 + self.random.below(6) as usize);
        if self.random.below(4) == 0 {
            // two of one processor, in units that others store to: the one once came home without the other
            let cell = self.random.below(4) as usize;
            cells = vec![cell, cell + 8];
        }
        let changes: Vec<(usize, u64)> = cells.into_iter().map(|cell| (cell, number)).collect();
        let writes: Vec<(u64, Vec<u8>)> =
            changes.iter().map(|&(cell, value)| (cell_range(index, cell).start, cell_data(value))).collect();
        let (atomic, now_ns) = (self.atomic.expect("it is installed"), self.ssd.now_ns());
        let at_ns = now_ns + self.random.below(100_000);
        let begin = if self.random.below(2) == 0 { Transaction::begin } else { Transaction::begin_batch };
        let transaction = begin(&mut self.ssd, atomic, client.endpoint, number, &writes, at_ns).map_err(
            |error| match error {
                AtomicWritesError::Sending(error) => error,
                error => panic!("{error}"),
            },
        )?;
        client.under_way = Some(UnderWay { transaction, changes });
        Ok(())
    }

    /// Runs transactions until power fails, or for a number of commits. Returns whether power failed, or what went
    /// wrong.
    fn run(&mut self, commits: u64) -> Result<bool, String> {
        match self.run_until(commits) {
            Ok(None) => Ok(false),
            Ok(Some(error)) => Err(error),
            Err(SpuError::PowerLost) => Ok(true),
            Err(error) => Err(error.to_string()),
        }
    }

    fn run_until(&mut self, commits: u64) -> Result<Option<String>, SpuError> {
        let until = self.committed + commits;
        for client in 0..CLIENTS {
            self.begin(client)?;
        }
        while self.committed < until {
            let Some(event) = self.ssd.next_event() else {
                panic!("nothing is under way, and transactions are open")
            };
            let endpoint = match &event {
                Event::PowerLost { .. } => return Err(SpuError::PowerLost),
                Event::Answer { endpoint, .. } | Event::Permission { endpoint, .. } => *endpoint,
                other => return Ok(Some(format!("{other:?}"))),
            };
            let Some(index) = self.clients.iter().position(|client| client.endpoint == endpoint) else {
                continue;
            };
            let client = &mut self.clients[index];
            let Some(under_way) = &mut client.under_way else { continue };
            if let Some(outcome) = under_way.transaction.take(&mut self.ssd, &event)? {
                if outcome != Outcome::Committed {
                    return Ok(Some(format!("client {index}: {outcome:?}, {:?}", under_way.changes)));
                }
                self.ended(index)?;
            }
        }
        Ok(None)
    }

    fn ended(&mut self, index: usize) -> Result<(), SpuError> {
        self.committed += 1;
        let now_ns = self.ssd.now_ns();
        let client = &mut self.clients[index];
        let UnderWay { mut transaction, changes } = client.under_way.take().expect("it ended");
        for (cell, value) in changes {
            client.cells[cell] = value;
        }
        if self.random.below(4) == 0 {
            // the answer was lost, and the host asks again
            transaction.repeat_commit(&mut self.ssd, now_ns)?;
        }
        if let Some(old) = &mut client.old
            && self.random.below(3) == 0
        {
            // messages of an earlier transaction arrive late
            old.repeat_writes(&mut self.ssd, now_ns)?;
            old.repeat_commit(&mut self.ssd, now_ns + 50_000)?;
        }
        client.old = client.previous.replace(transaction);
        self.begin(index)
    }

    /// Power comes back, with further cuts in recovery.
    fn recover(&mut self) {
        loop {
            self.cuts += 1;
            {
                let mut device = self.ssd.drive().lock();
                let again = self.random.below(3) == 0;
                device.cut_after(again.then(|| 1 + self.random.below(40)));
                let mut loss = PowerLoss::seeded(self.random.next_u64());
                if device.power_on(&mut loss).is_err() {
                    continue;
                }
            }
            self.ssd.power_on().unwrap();
            while self.ssd.next_event().is_some() {}
            match self.set_up() {
                Ok(()) => break,
                Err(AtomicWritesError::Sending(SpuError::PowerLost)) => {}
                Err(AtomicWritesError::Install(_)) if !self.ssd.drive().lock().has_power() => {}
                Err(error) => panic!("{error}"),
            }
            while self.ssd.next_event().is_some() {}
        }
        self.ssd.drive().lock().cut_after(None);
    }

    /// What is wrong with the cells, if anything is.
    fn check(&mut self) -> Result<(), String> {
        self.check_cells(|found, old, new| found == old || found == new)
    }

    /// What is wrong with the cells if transactions under way are not completed: each of theirs is the old or the new one.
    fn check_without_recovery(&mut self) -> Result<(), String> {
        self.check_cells(|found, old, new| {
            (0..CELLS).all(|cell| found[cell] == old[cell] || found[cell] == new[cell])
        })
    }

    /// What each client finds must be possible, given its cells before and after the transaction that was under way.
    fn check_cells(&mut self, is_possible: impl Fn(&[u64], &[u64], &[u64]) -> bool) -> Result<(), String> {
        let program = self.ssd.install(KERNEL, shipped::BASE_IO, OPEN).unwrap();
        let reader = BlockClient::new(self.kernel, program);
        for index in 0..CLIENTS {
            let mut found = Vec::new();
            for cell in 0..CELLS {
                let mut data = vec![0; CELL_BYTES as usize];
                reader.read(&mut self.ssd, cell_range(index, cell).start, &mut data).unwrap();
                let value = u64::from_le_bytes(data[..8].try_into().unwrap());
                if data != cell_data(value) {
                    return Err(format!("client {index}: cell {cell} is torn"));
                }
                found.push(value);
            }
            let client = &mut self.clients[index];
            let mut with_last = client.cells.clone();
            for (cell, value) in client.under_way.take().map_or_else(Vec::new, |last| last.changes) {
                with_last[cell] = value;
            }
            if !is_possible(&found, &client.cells, &with_last) {
                let (old, new) = (&client.cells, &with_last);
                return Err(format!("client {index}: found {found:?}, neither {old:?} nor {new:?}"));
            }
            client.cells = found;
        }
        self.ssd.uninstall(program).unwrap();
        Ok(())
    }
}

/// Several rounds on one drive. Returns the transactions committed and the cuts.
fn torture(seed: u64, module: &'static [u8]) -> Result<(u64, u64), String> {
    let mut torture = Torture::new(seed, module);
    for _ in 0..4 {
        let operations = 1 + torture.random.below(250);
        torture.ssd.drive().lock().cut_after(Some(operations));
        if !torture.run(40).map_err(|error| format!("seed {seed}: {error}"))? {
            torture.ssd.cut_power();
            while torture.ssd.next_event().is_some() {}
        }
        torture.recover();
        torture.check().map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok((torture.committed, torture.cuts))
}

#[test]
fn transactions_are_all_or_nothing_over_power_cuts() {
    let (mut committed, mut cuts) = (0, 0);
    for seed in seeds(12) {
        match torture(seed, shipped::ATOMIC_WRITES) {
            Ok((of_this, cuts_here)) => (committed, cuts) = (committed + of_this, cuts + cuts_here),
            Err(error) => panic!("{error}"),
        }
    }
    println!("{committed} transactions, {cuts} cuts");
    assert!(committed > 0 && cuts > 0);
}

/// Power fails at each flash operation of one workload in turn, and each operation in flight is done or not.
#[test]
fn a_cut_at_every_flash_operation_of_a_commit_leaves_all_or_nothing() {
    for operation in 1.. {
        for fate in [Fate::NotStarted, Fate::Completed] {
            let mut torture = Torture::new(3, shipped::ATOMIC_WRITES);
            torture.ssd.drive().lock().cut_after(Some(operation));
            let is_cut = torture.run(6).unwrap();
            if !is_cut {
                assert!(operation > 20, "only {operation} operations");
                return;
            }
            torture.ssd.drive().lock().power_on(&mut PowerLoss::all(fate)).unwrap();
            torture.ssd.power_on().unwrap();
            while torture.ssd.next_event().is_some() {}
            torture.set_up().unwrap();
            torture.check().unwrap_or_else(|error| panic!("operation {operation}, {fate:?}: {error}"));
        }
    }
}

impl Torture {
    /// Runs transactions while a step inside a command fails. One that is aborted is nothing; one in doubt ends the run.
    /// Returns how many were aborted, and whether one is in doubt.
    fn run_with_failure(&mut self, commits: u64) -> Result<(u32, bool), SpuError> {
        let until = self.committed + commits;
        let mut aborted = 0;
        for client in 0..CLIENTS {
            self.begin(client)?;
        }
        while self.committed < until {
            let event = self.ssd.next_event().expect("transactions are open");
            let (Event::Answer { endpoint, .. } | Event::Permission { endpoint, .. }) = event else {
                continue;
            };
            let Some(index) = self.clients.iter().position(|client| client.endpoint == endpoint) else {
                continue;
            };
            let Some(under_way) = &mut self.clients[index].under_way else { continue };
            match under_way.transaction.take(&mut self.ssd, &event)? {
                None => {}
                Some(Outcome::Committed) => self.ended(index)?,
                Some(Outcome::Aborted(_)) => {
                    aborted += 1;
                    self.clients[index].under_way = None;
                    if nothing_fails(&self.ssd) && self.ssd.drive().lock().refuses_changes().is_some() {
                        return Ok((aborted, true));
                    }
                    self.begin(index)?;
                }
                Some(Outcome::InDoubt(_)) => return Ok((aborted, true)),
            }
        }
        Ok((aborted, false))
    }
}

/// A step inside a command of the drive fails, in any phase. What the transaction says of itself is true.
#[test]
fn whichever_step_of_the_drive_fails_a_commit_is_all_or_nothing() {
    let (mut failed, mut aborted, mut in_doubt) = (0, 0, 0);
    for seed in 0..4 {
        failed += fail_each_step(|fault| {
            let mut torture = Torture::new(seed, shipped::ATOMIC_WRITES);
            torture.ssd.drive().lock().fail_step(Some(fault)).unwrap();
            let (of_this, doubt) = torture.run_with_failure(6).unwrap();
            let came = nothing_fails(&torture.ssd);
            (aborted, in_doubt) = (aborted + of_this, in_doubt + u32::from(doubt));
            torture.ssd.cut_power();
            while torture.ssd.next_event().is_some() {}
            torture.recover();
            torture.check().unwrap_or_else(|error| panic!("seed {seed}, {fault:?}: {error}"));
            came || of_this > 0
        });
    }
    println!("{failed} steps failed, {aborted} transactions were aborted, {in_doubt} were in doubt");
    assert!(failed > 60 && aborted > 20 && in_doubt > 5, "{failed}, {aborted}, {in_doubt}");
}

/// A drive whose programs fail from then on becomes read-only. It cannot bring home what was decided and not answered, so
/// installing is refused; what was answered as committed is there.
#[test]
fn on_a_drive_that_has_become_read_only_what_was_committed_is_home() {
    let (mut committed, mut refused) = (0, 0);
    for seed in 0..4 {
        for after in 0..40 {
            let mut torture = Torture::new(seed, shipped::ATOMIC_WRITES);
            let fault = StepFault { step: FailingStep::Program, after, lasts: true };
            torture.ssd.drive().lock().fail_step(Some(fault)).unwrap();
            torture.run_with_failure(20).unwrap();
            nothing_fails(&torture.ssd);
            let is_read_only = torture.ssd.drive().lock().is_read_only();
            torture.ssd.cut_power();
            while torture.ssd.next_event().is_some() {}
            torture.ssd.drive().lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            torture.ssd.power_on().unwrap();
            while torture.ssd.next_event().is_some() {}
            let checked = match torture.set_up() {
                Ok(()) => torture.check(),
                Err(AtomicWritesError::Refused { status: answer::DRIVE, .. }) if is_read_only => {
                    refused += 1;
                    torture.check_without_recovery()
                }
                Err(error) => panic!("seed {seed}, {fault:?}: {error}"),
            };
            checked.unwrap_or_else(|error| panic!("seed {seed}, {fault:?}: {error}"));
            committed += torture.committed;
        }
    }
    println!("{committed} transactions committed, {refused} installations refused");
    assert!(committed > 100 && refused > 5, "{committed}, {refused}");
}

const CANARIES: [(&str, &[u8]); 4] = [
    (
        "the decision is stored before what it rests on is durable",
        include_bytes!("../canaries/unflushed.wasm"),
    ),
    (
        "recovery takes what is prepared for committed",
        include_bytes!("../canaries/prepared_is_committed.wasm"),
    ),
    ("the second phase begins before the decision is stored", include_bytes!("../canaries/undecided.wasm")),
    ("slots forget what they finished", include_bytes!("../canaries/forgetful.wasm")),
];

/// Each program here is Atomic-Writes without one of its guards.
#[test]
fn the_torture_notices_each_guard_that_is_missing() {
    for (what, module) in CANARIES {
        let noticed = (0..60).find_map(|seed| torture(seed, module).err());
        let error = noticed.unwrap_or_else(|| panic!("not noticed in 60 seeds: {what}"));
        println!("{what}: {error}");
    }
}

#[test]
fn a_process_reaches_no_transaction_of_another() {
    let mut torture = Torture::new(1, shipped::ATOMIC_WRITES);
    torture.begin(0).unwrap();
    let mut transaction = torture.clients[0].under_way.take().unwrap().transaction;
    let number = torture.clients[0].number;
    let (mallory, program) = (torture.clients[1].endpoint, torture.atomic.unwrap().program());
    let ssd = &mut torture.ssd;
    let body = [number.to_le_bytes(), transaction.participants().to_le_bytes()].concat();
    let mut outcome = None;
    for handler in [1, 3, 4, 5, 8, 9, 10, 11, 16, 17, 18, 19] {
        for spu in 0..8 {
            let (status, others) = ask(ssd, mallory, spu, (program, handler), &body);
            assert!(status != 0 && status != 1, "handler {handler} answered {status}");
            for event in others {
                outcome = outcome.or(transaction.take(ssd, &event).unwrap());
            }
        }
    }
    while let Some(event) = ssd.next_event() {
        outcome = outcome.or(transaction.take(ssd, &event).unwrap());
    }
    assert_eq!(outcome, Some(Outcome::Committed));
}
