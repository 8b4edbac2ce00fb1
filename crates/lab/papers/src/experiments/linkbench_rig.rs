//! LinkBench on MariaDB on a mounted drive: the basis of SHARE's and DuraSSD's figures.
//!
//! The drive is aged once and the database loaded once for each page size, on the machine's own disk; each case gets a
//! copy of both. A case stops its server and unmounts its drive, however it ends.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tantalum::{Counters, Profile};
use tantalum_report::Bar;
use tantalum_report::table::bytes;
use tantalum_workloads::WorkloadError;
use tantalum_workloads::clients::{Client, Measured, drive};
use tantalum_workloads::linkbench::{self, DATABASE, Graph, LinkBenchClient};

use super::Run;
use super::innodb::{Innodb, InnodbCase};
use super::mounted_mariadb::{Drives, LogPlace, MountedMariaDb, Start};
use super::rig::aged_image;
use crate::error::ExperimentError;
use crate::servers::{MariaDb, MariaDbOptions, MountOptions, PlainFolder, ServerFolder};

/// Bytes that the database takes for each node: LinkBench says that a million nodes take a gigabyte.
const BYTES_PER_NODE: u64 = 1000;

/// Loading is done with a large buffer, and without syncing each commit.
const LOADING_BUFFER_BYTES: u64 = 512 << 20;

/// Log, temporary files and system tables besides the data.
const SERVER_BYTES: u64 = 192 << 20;

/// The maximum size of another partition of all tables: files grow by 4 MiB at a time.
const BYTES_PER_PARTITION: u64 = 3 * (8 << 20);

/// The sizes.
#[derive(Clone, Debug)]
pub(super) struct Size {
    /// The database.
    pub database_bytes: u64,
    /// Partitions of each table. Clients that change the same index make each other wait.
    pub partitions: u32,
    /// Where InnoDB's log is.
    pub log: LogPlace,
    /// Clients at once.
    pub clients: u64,
    /// Operations of each client before the measurement.
    pub warm_up_each: u64,
    /// Operations of each client in the measurement.
    pub operations_each: u64,
}

impl Size {
    /// The server and its work, in the words of a set-up.
    pub fn described(&self) -> String {
        format!(
            "MariaDB, log on {}, database of about {} in {} partitions, {} clients, {} operations each after {} of warm-up",
            self.log.described(),
            bytes(self.database_bytes),
            self.partitions,
            self.clients,
            self.operations_each,
            self.warm_up_each
        )
    }
}

/// The mode of InnoDB's doublewrite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Doublewrite {
    /// On, and written twice.
    On,
    /// On, and the drive shares the second write with the first.
    Remapped,
    /// Off.
    Off,
}

/// One set-up of the server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Case {
    pub page_bytes: u32,
    pub buffer_bytes: u64,
    pub doublewrite: Doublewrite,
}

/// The results of one case.
#[derive(Clone, Debug)]
pub(super) struct CaseResult {
    pub measured: Measured,
    pub counters: Counters,
    pub innodb: Innodb,
    pub drives: Drives,
}

impl CaseResult {
    /// What its clients waited for inside the server.
    pub(super) fn inside(&self, case: &str) -> InnodbCase {
        (case.to_owned(), self.innodb, self.measured.operations(), self.drives.data.elapsed_ns)
    }
}

/// What a server and its drives did while something was measured.
pub(super) fn observed(
    mounted: &MountedMariaDb,
    measure: impl FnOnce() -> Result<Measured, ExperimentError>,
) -> Result<CaseResult, ExperimentError> {
    let MountedMariaDb { server, mount, .. } = mounted;
    let (counters, innodb, usage) = (mount.counters()?, Innodb::of(server)?, mounted.usage()?);
    let measured = measure()?;
    Ok(CaseResult {
        measured,
        counters: mount.counters()?.since(&counters),
        innodb: Innodb::of(server)?.since(&innodb),
        drives: mounted.usage()?.since(&usage),
    })
}

/// Aged drives and loaded databases, for any number of cases.
pub(super) struct Rig<'a> {
    run: &'a Run<'a>,
    size: Size,
    graph: Graph,
    folder: PlainFolder,
    aged: BTreeMap<String, PathBuf>,
    loaded: BTreeMap<u32, PathBuf>,
    cases: Bar,
}

impl<'a> Rig<'a> {
    /// A rig that runs this many cases.
    pub(super) fn new(run: &'a Run<'a>, size: Size, cases: usize) -> Result<Rig<'a>, ExperimentError> {
        MariaDb::require()?;
        Ok(Rig {
            cases: run.monitor.bar("cases", cases as u64),
            graph: Graph::new((size.database_bytes / BYTES_PER_NODE).max(1000)),
            run,
            size,
            folder: PlainFolder::new()?,
            aged: BTreeMap::new(),
            loaded: BTreeMap::new(),
        })
    }

    /// Runs LinkBench in one case on a copy of the drive.
    pub(super) fn measure(&mut self, profile: &Profile, case: Case) -> Result<CaseResult, ExperimentError> {
        let (data, aged) = (self.load(case.page_bytes)?, self.age(profile)?);
        let mount = MountOptions {
            real_time: true,
            remap_duplicates: case.doublewrite == Doublewrite::Remapped,
            atomic_writes: false,
            sync_writes: false,
        };
        let options = MariaDbOptions {
            page_bytes: case.page_bytes,
            buffer_bytes: case.buffer_bytes,
            doublewrite: case.doublewrite != Doublewrite::Off,
            log_folder: None,
            durable: true,
            batch_pages: None,
        };
        let folder = self.folder.folder();
        let from = Start { folder, aged: &aged, loaded: &data, log: self.size.log, mount };
        let mounted = MountedMariaDb::start(self.run, from, options)?;
        let result = self.drive(&mounted)?;
        mounted.end()?;
        self.cases.advance(1)?;
        Ok(result)
    }

    fn drive(&self, mounted: &MountedMariaDb) -> Result<CaseResult, ExperimentError> {
        let server = &mounted.server;
        let kinds = linkbench::NAMES.len();
        let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> = Vec::new();
        for number in 0..self.size.clients {
            let connection = server.connect(Some(DATABASE))?;
            let seed = self.run.seed.wrapping_mul(1_000_003).wrapping_add(number);
            clients.push(Box::new(LinkBenchClient::new(connection, self.graph, seed)));
        }
        let bar = |label, each| self.run.monitor.bar(label, self.size.clients * each);
        let (warm_up, measured) = (self.size.warm_up_each, self.size.operations_each);
        drive(&mut clients, warm_up, kinds, &bar("warming up", warm_up), || mounted.kill())?;
        observed(mounted, || {
            let measured =
                drive(&mut clients, measured, kinds, &bar("LinkBench", measured), || mounted.kill())?;
            Ok(measured.divided_by(self.run.slower))
        })
    }

    /// A stopped server's data with the graph, in pages of this size.
    fn load(&mut self, page_bytes: u32) -> Result<PathBuf, ExperimentError> {
        if let Some(data) = self.loaded.get(&page_bytes) {
            return Ok(data.clone());
        }
        let data = self.folder.folder().join(format!("loaded-{page_bytes}"));
        let buffer_bytes = LOADING_BUFFER_BYTES;
        let options = MariaDbOptions {
            page_bytes,
            buffer_bytes,
            doublewrite: false,
            log_folder: None,
            durable: false,
            batch_pages: None,
        };
        MariaDb::install(&data, &options)?;
        let server = MariaDb::start(&data, self.folder.folder(), &options)?;
        let (partitions, seed) = (self.size.partitions, self.run.seed);
        linkbench::load(&mut server.connect(None)?, self.graph, partitions, seed, self.run.monitor)?;
        server.stop_while(|| self.run.monitor.check().is_ok());
        self.run.monitor.check()?;
        self.loaded.insert(page_bytes, data.clone());
        Ok(data)
    }

    /// The image of a drive after long use, with room for the server's files.
    fn age(&mut self, profile: &Profile) -> Result<PathBuf, ExperimentError> {
        let key = format!("{:?}-{}", profile.cache.mode, profile.limits.atomic_write_units);
        if let Some(image) = self.aged.get(&key) {
            return Ok(image.clone());
        }
        let image = self.folder.folder().join(format!("aged-{key}.img"));
        let partitions_bytes = u64::from(self.size.partitions - 1) * BYTES_PER_PARTITION;
        let room_bytes = self.size.database_bytes * 5 / 4 + SERVER_BYTES + partitions_bytes;
        aged_image(self.run, profile, &image, room_bytes)?;
        self.aged.insert(key, image.clone());
        Ok(image)
    }
}
