//! LinkBench on MariaDB on a mounted drive: what the figures of SHARE and DuraSSD are made of.
//!
//! The drive is aged once and the database loaded once for each page size, on the machine's own disk; each case gets
//! a copy of both. A case ends with its server stopped and its drive unmounted, however it ends.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use tantalum::Profile;

use super::Run;
use super::rig::aged_image;
use crate::error::LabError;
use crate::servers::{
    Counters, MariaDb, MariaDbOptions, Mount, MountOptions, Place, PlainFolder, ServerError, copy_tree,
};
use crate::table::bytes;
use crate::workloads::clients::{Client, Measured, drive};
use crate::workloads::linkbench::{self, DATABASE, Graph, LinkBenchClient};

/// Bytes that the database takes for each node: LinkBench says that a million takes a gigabyte.
const BYTES_PER_NODE: u64 = 1000;

/// Loading is done with a large buffer, and without syncing each commit.
const LOADING_BUFFER_BYTES: u64 = 512 << 20;

/// Log, temporary files and system tables beside the data.
const SERVER_BYTES: u64 = 192 << 20;

/// How large everything is.
#[derive(Clone, Debug)]
pub(super) struct Size {
    /// The database.
    pub database_bytes: u64,
    /// Whether InnoDB's log is on the machine's own disk instead of the drive.
    pub log_apart: bool,
    /// Clients at once.
    pub clients: u64,
    /// Operations that each does before the measurement.
    pub warm_up_each: u64,
    /// Operations that each does in it.
    pub operations_each: u64,
}

impl Size {
    /// The server and its work, in the words of a set-up.
    pub fn described(&self) -> String {
        format!(
            "MariaDB{}, database of about {}, {} clients, {} operations each after {} of warm-up",
            if self.log_apart { ", log on the machine's own disk" } else { "" },
            bytes(self.database_bytes),
            self.clients,
            self.operations_each,
            self.warm_up_each
        )
    }
}

/// What becomes of InnoDB's doublewrite.
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

/// What one case gave.
#[derive(Clone, Debug)]
pub(super) struct CaseResult {
    pub measured: Measured,
    pub counters: Counters,
    /// Pages that InnoDB asked for and those that it had to read.
    pub page_requests: u64,
    pub page_reads: u64,
}

/// Aged drives and loaded databases, for as many cases as one likes.
pub(super) struct Rig<'a> {
    run: &'a Run<'a>,
    size: Size,
    graph: Graph,
    folder: PlainFolder,
    aged: BTreeMap<String, PathBuf>,
    loaded: BTreeMap<u32, PathBuf>,
}

impl<'a> Rig<'a> {
    pub(super) fn new(run: &'a Run<'a>, size: Size) -> Result<Rig<'a>, LabError> {
        MariaDb::require()?;
        Ok(Rig {
            graph: Graph::new((size.database_bytes / BYTES_PER_NODE).max(1000)),
            run,
            size,
            folder: PlainFolder::new()?,
            aged: BTreeMap::new(),
            loaded: BTreeMap::new(),
        })
    }

    /// Runs LinkBench in one case on a copy of the drive.
    pub(super) fn measure(&mut self, profile: &Profile, case: Case) -> Result<CaseResult, LabError> {
        self.run.monitor.check()?;
        let (data, aged) = (self.load(case.page_bytes)?, self.age(profile)?);
        let image = self.folder.folder().join("drive.img");
        fs::copy(&aged, &image).map_err(LabError::file(&image))?;
        let result = self.measure_on(&image, &data, case);
        let _ = fs::remove_file(&image);
        result
    }

    fn measure_on(
        &self,
        image: &std::path::Path,
        data: &std::path::Path,
        case: Case,
    ) -> Result<CaseResult, LabError> {
        let options = MountOptions {
            real_time: true,
            remap_duplicates: case.doublewrite == Doublewrite::Remapped,
            atomic_writes: false,
        };
        let mount = Mount::new(self.run.program, image, &self.folder.folder().join("mount"), options)?;
        let mounted = mount.folder().join("data");
        copy_tree(data, &mounted)?;
        let log_folder = self.folder.folder().join("log");
        if self.size.log_apart {
            MariaDb::move_log(&mounted, &log_folder)?;
        }
        let options = MariaDbOptions {
            page_bytes: case.page_bytes,
            buffer_bytes: case.buffer_bytes,
            doublewrite: case.doublewrite != Doublewrite::Off,
            log_folder: self.size.log_apart.then(|| log_folder.clone()),
            durable: true,
        };
        let server = MariaDb::start(&mounted, self.folder.folder(), &options)?;
        let result = self.drive(&server, &mount);
        server.stop();
        let unmounted = mount.unmount();
        let result = result?;
        unmounted?;
        Ok(result)
    }

    fn drive(&self, server: &MariaDb, mount: &Mount) -> Result<CaseResult, LabError> {
        let kinds = linkbench::NAMES.len();
        let mut clients: Vec<Box<dyn Client>> = Vec::new();
        for number in 0..self.size.clients {
            let connection = server.connect(Some(DATABASE))?;
            let seed = self.run.seed.wrapping_mul(1_000_003).wrapping_add(number);
            clients.push(Box::new(LinkBenchClient::new(connection, self.graph, seed)));
        }
        let bar = |label, each| self.run.monitor.bar(label, self.size.clients * each);
        let (warm_up, measured) = (self.size.warm_up_each, self.size.operations_each);
        drive(&mut clients, warm_up, kinds, &bar("warming up", warm_up))?;
        let (before, pages_before) = (mount.counters()?, pages(server)?);
        let measured = drive(&mut clients, measured, kinds, &bar("LinkBench", measured))?;
        let (after, pages_after) = (mount.counters()?, pages(server)?);
        Ok(CaseResult {
            measured,
            counters: after.since(&before),
            page_requests: pages_after.0 - pages_before.0,
            page_reads: pages_after.1 - pages_before.1,
        })
    }

    /// A stopped server's data with the graph in pages of that size.
    fn load(&mut self, page_bytes: u32) -> Result<PathBuf, LabError> {
        if let Some(data) = self.loaded.get(&page_bytes) {
            return Ok(data.clone());
        }
        let data = self.folder.folder().join(format!("loaded-{page_bytes}"));
        let buffer_bytes = LOADING_BUFFER_BYTES;
        let options =
            MariaDbOptions { page_bytes, buffer_bytes, doublewrite: false, log_folder: None, durable: false };
        MariaDb::install(&data, &options)?;
        let server = MariaDb::start(&data, self.folder.folder(), &options)?;
        let loaded = server.connect(None).map_err(LabError::from).and_then(|mut connection| {
            linkbench::load(&mut connection, self.graph, self.run.seed, self.run.monitor)
        });
        server.stop();
        loaded?;
        self.loaded.insert(page_bytes, data.clone());
        Ok(data)
    }

    /// The image of a drive after long use, with room for the server's files.
    fn age(&mut self, profile: &Profile) -> Result<PathBuf, LabError> {
        let key = format!("{:?}", profile.cache.mode);
        if let Some(image) = self.aged.get(&key) {
            return Ok(image.clone());
        }
        let image = self.folder.folder().join(format!("aged-{key}.img"));
        let room_bytes = self.size.database_bytes * 5 / 4 + SERVER_BYTES;
        aged_image(self.run, profile, &image, room_bytes)?;
        self.aged.insert(key, image.clone());
        Ok(image)
    }
}

/// Pages that InnoDB asked its buffer for, and those of them that it had to read.
fn pages(server: &MariaDb) -> Result<(u64, u64), LabError> {
    use mysql::prelude::Queryable;
    let mut connection = server.connect(None)?;
    let mut status = |name: &str| -> Result<u64, ServerError> {
        let query = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row: Option<(String, u64)> = connection.query_first(query)?;
        Ok(row.map_or(0, |(_, value)| value))
    };
    Ok((status("Innodb_buffer_pool_read_requests")?, status("Innodb_buffer_pool_reads")?))
}
