//! A store on a drive: creation, power cuts, recovery, checks. It runs clients in `run.rs`.

use tantalum::{CacheMode, Device, Plp, PowerLoss, Profile};
use tantalum_drive::Drive;
use tantalum_spu::atomic_writes::{AtomicWrites, SLOTS, last_region};
use tantalum_spu::{BlockClient, EndpointId, InstallOptions, ProcessId, ProgramId, Rights, Ssd, shipped};

use crate::error::StoreError;
use crate::host::{ENDPOINT, KERNEL};
use crate::recovery::{self, Recovery, Tail};
use crate::scheme::Scheme;
use crate::tables::{Layout, PAGE_BYTES, Size};
use crate::world::Path;

/// Tasks that write changed pages.
pub(crate) const CLEANERS: usize = 4;

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };

/// The programs installed since power came on.
#[derive(Clone, Copy)]
pub(crate) struct Programs {
    base: ProgramId,
    direct: ProgramId,
    pub atomic: Option<AtomicWrites>,
}

/// A store.
pub struct Store {
    /// `None` while clients run.
    pub(crate) ssd: Option<Ssd>,
    scheme: Scheme,
    pub(crate) layout: Layout,
    process: ProcessId,
    kernel: EndpointId,
    /// One for each client, then those of the log, the checkpoints and the cleaners.
    endpoints: Vec<EndpointId>,
    pub(crate) programs: Programs,
    /// Where the log continues; `None` before recovery.
    pub(crate) tail: Option<Tail>,
    /// Lines of history that each client has written.
    pub(crate) lines: Vec<u64>,
    /// Of these, the lines of each of a client's histories.
    pub(crate) histories: Vec<Vec<u64>>,
    pub(crate) host_times: u64,
}

/// All lines of each client.
pub(crate) fn lines_of(histories: &[Vec<u64>]) -> Vec<u64> {
    histories.iter().map(|lines| lines.iter().sum()).collect()
}

impl Store {
    /// A store on a new drive in memory, with its tables.
    pub fn create(
        profile: &Profile,
        scheme: Scheme,
        size: Size,
        clients: usize,
    ) -> Result<Store, StoreError> {
        check(profile, clients)?;
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
            lines: vec![0; clients],
            histories: Vec::new(),
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

    /// Recovers what a cut, or the end of a run, left. A new store is like one after a cut before anything happened.
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

    /// How requests of the task with endpoint `index` reach the drive.
    pub(crate) fn path(&self, index: usize) -> Path {
        let endpoint = self.endpoints[index];
        match self.scheme {
            Scheme::AriesBase => Path { endpoint, program: self.programs.base, cost: KERNEL },
            Scheme::AriesDirect | Scheme::Mars => {
                Path { endpoint, program: self.programs.direct, cost: ENDPOINT }
            }
        }
    }

    /// In future runs, the store's work takes this many times what `host.rs` says.
    pub fn slow_down(&mut self, host_times: u64) {
        self.host_times = host_times;
    }

    // -- power --------------------------------------------------------------------------------------------------

    /// The drive finds no power at the Nth program, erase or store from now, or in the next recovery if it has no
    /// power.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        let ssd = self.ssd.as_ref().expect("the store does not run");
        ssd.drive().lock().cut_after(operations);
    }

    /// Power comes back: programs are installed again, and the store is recovered. False if power failed again meanwhile.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<bool, StoreError> {
        let ssd = self.ssd.as_mut().expect("the store does not run");
        if ssd.drive().lock().has_power() {
            // only the host restarts
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

    /// Recovers; false if power fails meanwhile.
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

    /// Lines of history acknowledged to each client; after recovery, the existing ones.
    pub fn lines(&self) -> &[u64] {
        &self.lines
    }
}

/// Installs the programs. This also recovers Atomic-Writes.
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

/// Refuses clients without a slot, and a drive that loses what it acknowledged.
fn check(profile: &Profile, clients: usize) -> Result<(), StoreError> {
    if !(1..=SLOTS as usize).contains(&clients) {
        return Err(StoreError::Clients { clients, most: SLOTS as usize });
    }
    let durable = profile.power.plp == Plp::Capacitor && profile.cache.mode != CacheMode::Volatile;
    if profile.spu.memory.is_none() && !durable {
        return Err(StoreError::Volatile { profile: profile.name.clone() });
    }
    Ok(())
}
