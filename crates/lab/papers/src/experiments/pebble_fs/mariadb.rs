//! Figures 9 (b, c) and 10: TPC-C and LinkBench on MariaDB, on a mount of each file system, in real time.
//!
//! The database is loaded once on the machine's own disk; each case gets a new file system and a copy of the database. As
//! in the thesis, the whole database fits into the server's buffer, the log is with the data, and doublewrite is on.
//! Writes are counted between two moments at which everything is durable, and then the file system's check must find
//! nothing.

use std::path::{Path, PathBuf};

use tantalum::{Access, Counters, Device, Profile};
use tantalum_filesystem::LogStatistics;
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::clients::{Client, Measured, drive};
use tantalum_workloads::linkbench::{self, Graph, LinkBenchClient};
use tantalum_workloads::tpcc::{self, Tables, TpccClient};

use super::super::mounted_mariadb::{LogPlace, MountedMariaDb, Start};
use super::super::rig::slowed;
use super::super::{Run, drive_of};
use super::{CACHE_BYTES, KINDS, PRINTED, claims, indexings};
use crate::error::ExperimentError;
use crate::servers::{MariaDb, MariaDbOptions, MountOptions, PlainFolder, ServerFolder};

/// The thesis's TPCC-10: ten warehouses, about 800 MB. LinkBench gets the same here; the thesis has 10 GB.
const DATABASE_BYTES: u64 = 800_000_000;
const WAREHOUSES: u64 = 10;
const BYTES_PER_NODE: u64 = 1000;

/// Chosen; the thesis does not say.
const CLIENTS: u64 = 16;
const OPERATIONS_EACH: [u64; 2] = [10_000, 20_000];
const LEAST_OPERATIONS_EACH: u64 = 50;

/// Operations of the warm-up, as a share of the measured ones.
const WARM_UP: f64 = 0.25;

const PAGE_BYTES: u32 = 16_384;

/// Log, temporary files and system tables besides the data.
const SERVER_BYTES: u64 = 256 << 20;

const LOADING_BUFFER_BYTES: u64 = 512 << 20;

const MOUNT: MountOptions =
    MountOptions { real_time: true, remap_duplicates: false, atomic_writes: false, sync_writes: false };

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Load {
    Tpcc,
    LinkBench,
}

const LOADS: [(Load, &str); 2] = [(Load::Tpcc, "TPC-C"), (Load::LinkBench, "LinkBench")];

/// One case.
struct Done {
    measured: Measured,
    log: LogStatistics,
    counters: Counters,
}

/// Figures 9 (b, c) and 10.
pub fn servers(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    MariaDb::require()?;
    let folder = PlainFolder::new()?;
    for (load, _) in LOADS {
        load_database(run, &folder, load)?;
    }
    let ways: usize = KINDS.iter().map(|(kind, _)| indexings(*kind).len()).sum();
    let cases = run.monitor.bar("cases", (LOADS.len() * ways) as u64);
    let mut all = Vec::new();
    for (kind, kind_name) in KINDS {
        for &(indexing, name) in indexings(kind) {
            let new = folder.folder().join(format!("new-{kind:?}-{indexing:?}.img"));
            make(run, &new, kind, indexing)?;
            let mut done = Vec::new();
            for (load, _) in LOADS {
                done.push(measure(run, &folder, load, &new)?);
                cases.advance(1)?;
            }
            all.push((format!("{kind_name}, {name}"), done));
        }
    }
    let source = &PRINTED.servers.source;
    let about = "fs_write under TPC-C and LinkBench on MariaDB";
    let mut outcome = Outcome::new(about, source, Time::Real, setup(run)?);
    outcome.figures = figures(&all);
    outcome.claims = claims(&PRINTED.servers, &outcome.figures[1]);
    Ok(outcome)
}

type Case = (String, Vec<Done>);

/// Throughput and file write amplification come first.
fn figures(all: &[Case]) -> Vec<Figures> {
    let contents = |done: &Done| done.log.content_units_written.max(1) as f64;
    let listed = |done: &Done| {
        let syncs = done.log.syncs_listed + done.log.syncs_indexed;
        100.0 * done.log.syncs_listed as f64 / syncs.max(1) as f64
    };
    vec![
        table("throughput", "operations/s", all, |done| done.measured.per_second()),
        table("file write amplification", "x", all, |done| {
            done.log.file_write_amplification().unwrap_or_default()
        }),
        table("flash programmed over contents", "x", all, |done| {
            done.counters.flash_units.total() as f64 / contents(done)
        }),
        table("contents written", "4 KiB", all, contents),
        table("syncs that wrote contents alone", "%", all, listed),
        table("checkpoints", "", all, |done| done.log.checkpoints as f64),
        table("copied by the cleaner", "4 KiB", all, |done| done.log.units_copied as f64),
        table("processors busy meanwhile", "%", all, |done| done.measured.busy_percent),
    ]
}

fn table(title: &str, unit: &'static str, all: &[Case], figure: impl Fn(&Done) -> f64) -> Figures {
    let row = |(name, done): &Case| Row {
        name: name.clone(),
        ours: done.iter().map(&figure).collect(),
        paper: None,
    };
    let columns = LOADS.map(|(_, name)| name.to_owned()).into();
    Figures { title: title.to_owned(), unit, columns, rows: all.iter().map(row).collect() }
}

fn database_bytes(run: &Run<'_>) -> u64 {
    run.scaled(DATABASE_BYTES, 10_000_000)
}

fn tables(run: &Run<'_>) -> Tables {
    Tables::new(WAREHOUSES, run.scale.min(1.0))
}

fn graph(run: &Run<'_>) -> Graph {
    Graph::new((database_bytes(run) / BYTES_PER_NODE).max(1000))
}

fn operations_each(run: &Run<'_>, load: Load) -> u64 {
    run.scaled(OPERATIONS_EACH[load as usize], LEAST_OPERATIONS_EACH)
}

/// Twice what the server takes, so that cleaning does not dominate the measurement.
fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("pebblessd")?;
    let least = 2 * (database_bytes(run) * 3 / 2 + SERVER_BYTES);
    profile.capacity_bytes = least.next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

fn setup(run: &Run<'_>) -> Result<Vec<String>, ExperimentError> {
    let [tpcc, linkbench] = LOADS.map(|(load, _)| operations_each(run, load));
    let database = bytes(database_bytes(run));
    let described = format!(
        "MariaDB with doublewrite, pages of 16 KiB, a buffer of twice the database, the log on the same drive; TPC-C with \
         {WAREHOUSES} warehouses, LinkBench with {} nodes, each about {database}; {CLIENTS} clients with {tpcc} and \
         {linkbench} operations each after {:.0} % of that as warm-up",
        database_bytes(run) / BYTES_PER_NODE,
        100.0 * WARM_UP
    );
    Ok(vec![drive_of(&profile(run)?), described])
}

fn options(run: &Run<'_>, is_loading: bool) -> MariaDbOptions {
    MariaDbOptions {
        page_bytes: PAGE_BYTES,
        buffer_bytes: if is_loading { LOADING_BUFFER_BYTES } else { 2 * database_bytes(run) },
        doublewrite: !is_loading,
        log_folder: None,
        durable: !is_loading,
        batch_pages: None,
    }
}

fn loaded(folder: &PlainFolder, load: Load) -> PathBuf {
    folder.folder().join(format!("loaded-{load:?}"))
}

/// A stopped server's data.
fn load_database(run: &Run<'_>, folder: &PlainFolder, load: Load) -> Result<(), ExperimentError> {
    let (data, options) = (loaded(folder, load), options(run, true));
    MariaDb::install(&data, &options)?;
    let server = MariaDb::start(&data, folder.folder(), &options)?;
    let mut connection = server.connect(None)?;
    match load {
        Load::Tpcc => tpcc::load(&mut connection, tables(run), run.seed, run.monitor)?,
        Load::LinkBench => linkbench::load(&mut connection, graph(run), 1, run.seed, run.monitor)?,
    }
    drop(connection);
    server.stop_while(|| run.monitor.check().is_ok());
    run.monitor.check()?;
    Ok(())
}

/// A new file system on a drive as slow as the experiment requires.
fn make(run: &Run<'_>, image: &Path, kind: LfsKind, indexing: Indexing) -> Result<(), ExperimentError> {
    let device = Device::create(image, &slowed(&profile(run)?, run.slower))?;
    let fs = LogFs::format_indexed(device, kind, Cleaning::Copy, indexing, CACHE_BYTES)?;
    let client = fs.unmount().map_err(|failed| failed.1)?;
    let device = client.into_device().expect("nobody shares the drive");
    let now_ns = device.time_ns();
    Ok(device.shutdown(now_ns)?)
}

/// A workload on a copy of a new file system.
fn measure(run: &Run<'_>, folder: &PlainFolder, load: Load, new: &Path) -> Result<Done, ExperimentError> {
    let (data, log) = (loaded(folder, load), LogPlace::Drive);
    let from = Start { folder: folder.folder(), aged: new, loaded: &data, log, mount: MOUNT };
    let mounted = MountedMariaDb::start(run, from, options(run, false))?;
    let done = work(run, &mounted, load)?;
    mounted.end()?;
    check(&folder.folder().join("drive.img"))?;
    Ok(done)
}

/// Warms up and measures.
fn work(run: &Run<'_>, mounted: &MountedMariaDb, load: Load) -> Result<Done, ExperimentError> {
    let mut clients = clients(run, mounted, load)?;
    let kinds = match load {
        Load::Tpcc => tpcc::KINDS,
        Load::LinkBench => linkbench::NAMES.len(),
    };
    let each = operations_each(run, load);
    let warm_up = (each as f64 * WARM_UP) as u64;
    let bar = |label, each| run.monitor.bar(label, CLIENTS * each);
    drive(&mut clients, warm_up, kinds, &bar("warming up", warm_up), || mounted.kill())?;
    let (log, counters) = mounted.mount.log_statistics()?;
    let label = LOADS[load as usize].1;
    let measured = drive(&mut clients, each, kinds, &bar(label, each), || mounted.kill())?;
    let (log_after, counters_after) = mounted.mount.log_statistics()?;
    drop(clients);
    if load == Load::Tpcc && !tpcc::is_consistent(&mut mounted.server.connect(Some(tpcc::DATABASE))?)? {
        return Err(ExperimentError::Inconsistent { what: "TPC-C's tables (clause 3.3.2)" });
    }
    Ok(Done {
        measured: measured.divided_by(run.slower),
        log: log_after.since(&log),
        counters: counters_after.since(&counters),
    })
}

type Clients = Vec<Box<dyn Client<Error = WorkloadError>>>;

fn clients(run: &Run<'_>, mounted: &MountedMariaDb, load: Load) -> Result<Clients, ExperimentError> {
    let mut clients: Clients = Vec::new();
    for number in 0..CLIENTS {
        let seed = run.seed.wrapping_mul(1_000_003).wrapping_add(number);
        clients.push(match load {
            Load::Tpcc => {
                let connection = mounted.server.connect(Some(tpcc::DATABASE))?;
                Box::new(TpccClient::new(connection, number % WAREHOUSES + 1, tables(run), seed))
            }
            Load::LinkBench => {
                let connection = mounted.server.connect(Some(linkbench::DATABASE))?;
                Box::new(LinkBenchClient::new(connection, graph(run), seed))
            }
        });
    }
    Ok(clients)
}

/// The file system that the server left must be whole.
fn check(image: &Path) -> Result<(), ExperimentError> {
    let mut fs = LogFs::mount(Device::open_as(image, Access::Overlay)?, CACHE_BYTES)?;
    match fs.check()?.first() {
        Some(finding) => Err(ExperimentError::WrongFiles { what: finding.to_string() }),
        None => Ok(()),
    }
}
