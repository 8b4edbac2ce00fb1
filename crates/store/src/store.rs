//! A store on a drive: made, run with clients, cut off from power, recovered, checked.

use std::cell::RefCell;
use std::rc::Rc;

use tantalum::{CacheMode, Device, Plp, PowerLoss, Profile, SplitMix64};
use tantalum_drive::Drive;
use tantalum_spu::atomic_writes::{AtomicWrites, SLOTS, last_region};
use tantalum_spu::{BlockClient, EndpointId, InstallOptions, ProcessId, Rights, Ssd, shipped};

use crate::checkpoint;
use crate::error::StoreError;
use crate::host::{ENDPOINT, KERNEL};
use crate::log::Log;
use crate::pool::Pool;
use crate::ran::{Meter, Ran};
use crate::recovery::{self, Recovery, Tail};
use crate::tables::{Layout, PAGE_BYTES, Size};
use crate::transfer::{Aries, Mars, Work};
use crate::world::{Host, Path, Task};

/// Tasks that write changed pages.
const CLEANERS: usize = 4;

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

/// What makes transactions atomic and durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// ARIES over Base-IO, through the kernel.
    AriesBase,
    /// ARIES over Direct-IO, from the process.
    AriesDirect,
    /// MARS over Atomic-Writes; pages are read with Direct-IO.
    Mars,
}

impl Scheme {
    /// All of them.
    pub const ALL: [Scheme; 3] = [Scheme::AriesBase, Scheme::AriesDirect, Scheme::Mars];

    /// What it is called in tables.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::AriesBase => "ARIES, Base-IO",
            Scheme::AriesDirect => "ARIES, Direct-IO",
            Scheme::Mars => "MARS, Atomic-Writes",
        }
    }
}

/// What the programs are, since power came on.
#[derive(Clone, Copy)]
struct Programs {
    base: tantalum_spu::ProgramId,
    direct: tantalum_spu::ProgramId,
    atomic: Option<AtomicWrites>,
}

/// A store.
pub struct Store {
    ssd: Option<Ssd>,
    scheme: Scheme,
    layout: Layout,
    process: ProcessId,
    kernel: EndpointId,
    /// Of each client, then of the log, the checkpoints and the cleaners.
    endpoints: Vec<EndpointId>,
    programs: Programs,
    tail: Option<Tail>,
    /// Lines that each client has written to each of its histories.
    histories: Vec<Vec<u64>>,
    /// All of each client's.
    lines: Vec<u64>,
    host_times: u64,
}

impl Store {
    /// A store on a new drive in memory, with its tables.
    pub fn create(
        profile: &Profile,
        scheme: Scheme,
        size: Size,
        clients: usize,
    ) -> Result<Store, StoreError> {
        if !(1..=SLOTS as usize).contains(&clients) {
            return Err(StoreError::Clients { clients, most: SLOTS as usize });
        }
        let durable = profile.power.plp == Plp::Capacitor && profile.cache.mode != CacheMode::Volatile;
        if profile.spu.memory.is_none() && !durable {
            return Err(StoreError::Volatile { profile: profile.name.clone() });
        }
        let mut ssd = Ssd::new(Drive::new(Device::in_memory(profile)?));
        let layout = Layout::new(size, clients, ssd.processors());
        let room = last_region(ssd.stripes());
        if layout.bytes() > room {
            let needed = layout.bytes() + AtomicWrites::region_bytes(ssd.stripes());
            return Err(StoreError::TooSmall { needed, capacity: profile.capacity_bytes });
        }
        let kernel = ssd.endpoint(ProcessId::KERNEL)?;
        let process = ssd.process();
        let owner = if scheme == Scheme::AriesBase { ProcessId::KERNEL } else { process };
        let endpoints = (0..clients + 2 + CLEANERS).map(|_| ssd.endpoint(owner)).collect::<Result<_, _>>()?;
        let programs = install(&mut ssd, kernel, process, scheme, &layout)?;
        let mut store = Store {
            ssd: Some(ssd),
            scheme,
            layout,
            process,
            kernel,
            endpoints,
            programs,
            tail: None,
            histories: Vec::new(),
            lines: vec![0; clients],
            host_times: 1,
        };
        store.load()?;
        store.recover()?;
        Ok(store)
    }

    fn load(&mut self) -> Result<(), StoreError> {
        /// Pages in one write.
        const AT_ONCE: u64 = 64;
        let client = BlockClient::new(self.kernel, self.programs.base);
        let ssd = self.ssd.as_mut().expect("the store does not run");
        let pages = self.layout.pages();
        for first in pages.clone().step_by(AT_ONCE as usize) {
            let bytes: Vec<u8> =
                (first..(first + AT_ONCE).min(pages.end)).flat_map(|page| self.layout.fresh(page)).collect();
            client.write(ssd, first * PAGE_BYTES as u64, &bytes)?;
        }
        if self.scheme != Scheme::Mars {
            recovery::begin_log(ssd, client, self.layout.size.log_bytes)?;
        }
        Ok(())
    }

    /// Recovers what a cut left, or the end of a run. A new store is one after a cut in which nothing happened.
    pub fn recover(&mut self) -> Result<(), StoreError> {
        if self.scheme != Scheme::Mars {
            let client = self.client();
            let ssd = self.ssd.as_mut().expect("the store does not run");
            let (tail, _) = Recovery::run(ssd, client, self.layout.size.log_bytes)?;
            self.tail = Some(tail);
        } else {
            self.tail = Some(Tail { low: 0, end: 0, begun: Vec::new(), next_transaction: 1 });
        }
        self.histories = self.check()?;
        self.lines = lines_of(&self.histories);
        Ok(())
    }

    fn client(&self) -> BlockClient {
        match self.scheme {
            Scheme::AriesBase => BlockClient::new(self.endpoints[0], self.programs.base),
            Scheme::AriesDirect | Scheme::Mars => BlockClient::new(self.endpoints[0], self.programs.direct),
        }
    }

    fn path(&self, index: usize) -> Path {
        let endpoint = self.endpoints[index];
        match self.scheme {
            Scheme::AriesBase => Path { endpoint, program: self.programs.base, cost: KERNEL },
            Scheme::AriesDirect | Scheme::Mars => {
                Path { endpoint, program: self.programs.direct, cost: ENDPOINT }
            }
        }
    }

    /// The store's work takes this many times what `host.rs` says: in runs from now on.
    pub fn slow_down(&mut self, host_times: u64) {
        self.host_times = host_times;
    }

    // -- running ------------------------------------------------------------------------------------------------

    /// Lets each client do so many transfers, of which it rolls some back. Ends early if power is lost. Then the host has lost
    /// what it had in memory, and the next run begins with recovery.
    pub fn run(&mut self, transfers: u64, rolled_back_percent: u64, seed: u64) -> Result<Ran, StoreError> {
        if self.tail.is_none() {
            self.recover()?;
        }
        let host = Host::new(self.ssd.take().expect("the store does not run"), self.host_times);
        let result = self.run_on(&host, transfers, rolled_back_percent, seed);
        self.ssd = Some(host.into_ssd());
        result
    }

    fn run_on(
        &mut self,
        host: &Host,
        transfers: u64,
        rolled_back_percent: u64,
        seed: u64,
    ) -> Result<Ran, StoreError> {
        let size = self.layout.size;
        let tail = self.tail.take().expect("the store was recovered");
        let log = Rc::new(Log::new(host.clone(), size.log_bytes, tail.low, tail.end, tail.begun));
        let pool = Rc::new(Pool::new(host.clone(), Rc::clone(&log), size.frames));
        let aries = Rc::new(Aries::new(
            host.clone(),
            Rc::clone(&log),
            Rc::clone(&pool),
            self.layout,
            tail.next_transaction,
        ));
        let mars = self.programs.atomic.map(|atomic| {
            let (host, pool, layout) = (host.clone(), Rc::clone(&pool), self.layout);
            Rc::new(Mars { host, pool, locks: Default::default(), layout, atomic })
        });
        let acknowledged: Vec<_> =
            self.histories.iter().map(|lines| Rc::new(RefCell::new(lines.clone()))).collect();
        let mut tasks: Vec<Task> = Vec::new();
        for (client, histories) in acknowledged.iter().enumerate() {
            let (path, aries, mars) = (self.path(client), Rc::clone(&aries), mars.clone());
            let (histories, mut number) = (Rc::clone(histories), self.lines[client]);
            let mut random = SplitMix64(seed.wrapping_mul(1000) + client as u64);
            tasks.push(Box::pin(async move {
                for _ in 0..transfers.min(size.transfers_per_client - number) {
                    let transfer = aries.layout.draw(&mut random);
                    let is_rolled_back = random.below(100) < rolled_back_percent;
                    let history = aries.layout.history_of(&transfer);
                    let line = aries.layout.line(client, history, histories.borrow()[history]);
                    let work = Work { path, client, number, line, transfer, is_rolled_back };
                    match &mars {
                        Some(mars) => mars.transfer(work).await?,
                        None => aries.transfer(work).await?,
                    }
                    number += u64::from(!is_rolled_back);
                    histories.borrow_mut()[history] += u64::from(!is_rolled_back);
                }
                Ok(())
            }));
        }
        host.run(vec![self.warm(&pool, seed)], Vec::new())?;
        let before = Meter::read(host);
        let helpers = if mars.is_none() { self.helpers(&aries) } else { Vec::new() };
        let ran = host.run(tasks, helpers);
        let counts =
            [pool.pages_read.get(), pool.pages_written.get(), log.writes.get(), aries.checkpoints.get()];
        self.histories = acknowledged.iter().map(|histories| histories.borrow().clone()).collect();
        let done = lines_of(&self.histories);
        let transfers = done.iter().zip(&self.lines).map(|(now, before)| now - before).collect();
        self.lines = done;
        ran?;
        Ok(before.until(host, transfers, counts))
    }

    /// A task that fills the pool with pages, so that what is measured does not begin with an empty one.
    fn warm(&self, pool: &Rc<Pool>, seed: u64) -> Task {
        let (pool, path, pages, limit) =
            (Rc::clone(pool), self.path(0), self.layout.pages_of_records(), self.layout.size.frames);
        Box::pin(async move {
            let mut random = SplitMix64(seed);
            for _ in 0..limit {
                pool.fetch(path, pages.start + random.below(pages.end - pages.start)).await?;
            }
            pool.pages_read.set(0);
            Ok(())
        })
    }

    fn helpers(&self, aries: &Rc<Aries>) -> Vec<Task> {
        let clients = self.lines.len();
        let (log, path) = (Rc::clone(&aries.log), self.path(clients));
        let checkpoints = checkpoint::take_in_background(
            Rc::clone(aries),
            self.path(clients + 1),
            self.layout.size.log_bytes,
        );
        let mut helpers: Vec<Task> =
            vec![Box::pin(async move { log.write_in_background(path).await }), Box::pin(checkpoints)];
        for cleaner in 0..CLEANERS {
            helpers
                .push(Box::pin(Rc::clone(&aries.pool).clean_in_background(self.path(clients + 2 + cleaner))));
        }
        helpers
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// The drive finds no power at the Nth program, erase or store from now; for the next recovery while it has none.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        let ssd = self.ssd.as_ref().expect("the store does not run");
        ssd.drive().lock().cut_after(operations);
    }

    /// Power comes back: programs are installed again, and the store is recovered. False if power went again on the way.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<bool, StoreError> {
        let ssd = self.ssd.as_mut().expect("the store does not run");
        if ssd.drive().lock().has_power() {
            // the host alone begins anew
            return self.recovered();
        }
        // programs may not have noticed yet
        ssd.cut_power();
        while ssd.next_event().is_some() {}
        let came = ssd.drive().lock().power_on(loss);
        if came.is_err() && !ssd.drive().lock().has_power() {
            return Ok(false);
        }
        came?;
        ssd.power_on()?;
        match install(ssd, self.kernel, self.process, self.scheme, &self.layout) {
            Ok(programs) => self.programs = programs,
            Err(_) if !self.has_power() => return Ok(false),
            Err(error) => return Err(error),
        }
        self.recovered()
    }

    /// Recovers; false if power goes on the way.
    fn recovered(&mut self) -> Result<bool, StoreError> {
        match self.recover() {
            Err(_) if !self.has_power() => Ok(false),
            recovered => recovered.map(|()| true),
        }
    }

    fn has_power(&self) -> bool {
        self.ssd.as_ref().expect("the store does not run").drive().lock().has_power()
    }

    /// Checks that every balance agrees with the history. Returns the lines of each client's histories.
    fn check(&mut self) -> Result<Vec<Vec<u64>>, StoreError> {
        let client = BlockClient::new(self.kernel, self.programs.base);
        let ssd = self.ssd.as_mut().expect("the store does not run");
        let pages = self.layout.pages();
        let mut tables = vec![0; ((pages.end - pages.start) as usize) * PAGE_BYTES];
        for (at, part) in (0..).step_by(64 * PAGE_BYTES).zip(tables.chunks_mut(64 * PAGE_BYTES)) {
            client.read(ssd, pages.start * PAGE_BYTES as u64 + at, part)?;
        }
        let page = |page: u64| &tables[(page - pages.start) as usize * PAGE_BYTES..][..PAGE_BYTES];
        self.layout.check(page).map_err(StoreError::Inconsistent)
    }

    /// Lines of history that were acknowledged to each client; after recovery, those that are there.
    pub fn lines(&self) -> &[u64] {
        &self.lines
    }
}

fn lines_of(histories: &[Vec<u64>]) -> Vec<u64> {
    histories.iter().map(|lines| lines.iter().sum()).collect()
}

/// Installs the programs. Atomic-Writes recovers with that.
fn install(
    ssd: &mut Ssd,
    kernel: EndpointId,
    process: ProcessId,
    scheme: Scheme,
    layout: &Layout,
) -> Result<Programs, StoreError> {
    let base = ssd.install(ProcessId::KERNEL, shipped::BASE_IO, OPEN)?;
    let direct = ssd.install(ProcessId::KERNEL, shipped::DIRECT_IO, OPEN)?;
    let mut atomic = None;
    if scheme == Scheme::Mars {
        let installed = AtomicWrites::install(ssd, kernel, last_region(ssd.stripes()))?;
        for slot in 0..SLOTS as u32 {
            installed.assign(ssd, kernel, slot, process)?;
        }
        atomic = Some(installed);
    }
    ssd.grant(process, 0..layout.bytes(), Rights::READ | Rights::WRITE)?;
    while ssd.next_event().is_some() {}
    Ok(Programs { base, direct, atomic })
}
