//! KAML's figures 9 and 10 with RocksDB as the store that logs and then writes, in real time (Jin's thesis, sections 3.3.4
//! and 3.3.5).
//!
//! - Both stores are on drives of the same profile, equally aged and full, in an image file: RocksDB in a folder of the
//!   mounted volume, our store directly. Loading is not slowed down; only then does the drive show its latencies.
//! - Both have the same memory: RocksDB half of it for blocks and half for two memtables, and none of the system's cache.
//! - Every commit is durable when it returns: RocksDB syncs its log, our drive has a capacitor.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tantalum::{Device, Profile};
use tantalum_drive::Clock;
use tantalum_kv::{Store, Sync};
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::bench;
use tantalum_workloads::clients::{Measured, drive};
use tantalum_workloads::kaml::Load;

use super::kaml_clients::{Engine, Records, clients, rocks_key};
use super::kaml_store::{
    CLIENTS, LOADED_AT_ONCE, OLTP, OTHER_PERCENT, PRINTED, TRANSACTIONS, YCSB, YCSB_CACHED_PERCENT,
    cache_bytes, load_records, other_units, profile,
};
use super::rig::{aged_image, copy_image, slowed};
use super::{Run, drive_of};
use crate::error::ExperimentError;
use crate::rocks::{Rocks, RocksOptions};
use crate::servers::{Mount, MountOptions, PlainFolder, ServerFolder};

/// The maximum size of a memtable: RocksDB's default.
const MOST_TABLE_BYTES: u64 = 64 << 20;

/// Clients at once, in two turns.
const TURNS: [u64; 2] = [1, CLIENTS as u64];

/// Which store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoreKind {
    RocksDb,
    Records,
}

/// Aged drives, for any number of cases.
struct Rig<'a> {
    run: &'a Run<'a>,
    folder: PlainFolder,
    aged_volume: PathBuf,
    aged_records: PathBuf,
}

/// The load on a store.
#[derive(Clone, Copy, Debug)]
struct Case {
    load: Load,
    units: u64,
    cached_percent: u64,
    clients: u64,
}

impl<'a> Rig<'a> {
    fn new(run: &'a Run<'a>, profile: &Profile) -> Result<Rig<'a>, ExperimentError> {
        let folder = PlainFolder::new()?;
        let path = |name| folder.folder().join(name);
        let (aged_volume, aged_records) = (path("aged-volume.img"), path("aged-records.img"));
        aged_image(run, profile, &aged_volume, profile.capacity_bytes * (100 - OTHER_PERCENT) / 100)?;
        let device = Device::create(&aged_records, &slowed(profile, run.slower))?;
        let device = bench::aged_on(device, other_units(profile), run.seed, run.monitor)?;
        let now_ns = device.time_ns();
        device.shutdown(now_ns)?;
        Ok(Rig { run, folder, aged_volume, aged_records })
    }

    /// Runs a case on a copy of its drive.
    fn measure(&self, kind: StoreKind, case: Case) -> Result<Measured, ExperimentError> {
        let measured = match kind {
            StoreKind::RocksDb => self.rocks(case),
            StoreKind::Records => self.records(case),
        };
        Ok(measured?.divided_by(self.run.slower))
    }

    fn copy(&self, aged: &Path, name: &str) -> Result<PathBuf, ExperimentError> {
        let image = self.folder.folder().join(name);
        copy_image(self.run, aged, &image).map_err(ExperimentError::file(&image))??;
        Ok(image)
    }

    fn records(&self, case: Case) -> Result<Measured, ExperimentError> {
        let image = self.copy(&self.aged_records, "records.img")?;
        let tables = case.load.tables(case.units);
        let cache_bytes = cache_bytes(&tables, case.cached_percent) as usize;
        // the mount's image is not synced either
        let store = Store::options().cache_bytes(cache_bytes).sync(Sync::None).open(&image)?;
        let namespaces = load_records(self.run, &tables, &store)?;
        let clock = Clock::real_from(store.with_drive(|drive| drive.time_ns())?);
        self.drive(Arc::new(Records { store, namespaces, clock }), case, || ())
    }

    fn rocks(&self, case: Case) -> Result<Measured, ExperimentError> {
        let image = self.copy(&self.aged_volume, "volume.img")?;
        let folder = self.folder.folder().join("mount");
        let mount = |real_time| -> Result<Mount, ExperimentError> {
            let options =
                MountOptions { real_time, remap_duplicates: false, atomic_writes: false, sync_writes: false };
            Ok(Mount::new(self.run.program, &image, &folder, options)?)
        };
        let memory = cache_bytes(&case.load.tables(case.units), case.cached_percent);
        let options = RocksOptions {
            synced: false,
            block_cache_bytes: memory / 2,
            table_bytes: Some((memory / 4).min(MOST_TABLE_BYTES)),
            direct: true,
        };
        let at_once = mount(false)?;
        self.load_rocks(&Rocks::open(&folder.join("rocksdb"), options)?, case)?;
        at_once.unmount()?;
        let in_time = mount(true)?;
        let rocks = Rocks::open(&folder.join("rocksdb"), RocksOptions { synced: true, ..options })?;
        rocks.read_all()?;
        let measured = self.drive(Arc::new(rocks), case, || in_time.abort())?;
        in_time.unmount()?;
        Ok(measured)
    }

    fn load_rocks(&self, rocks: &Rocks, case: Case) -> Result<(), ExperimentError> {
        for (number, table) in case.load.tables(case.units).iter().enumerate() {
            let value = vec![number as u8; table.value_bytes];
            for first in (0..table.records).step_by(LOADED_AT_ONCE) {
                let keys = first..(first + LOADED_AT_ONCE as u64).min(table.records);
                rocks.write(keys.map(|key| (rocks_key(number, key), &value)))?;
                self.run.monitor.check()?;
            }
        }
        Ok(rocks.flush_tables()?)
    }

    fn drive(
        &self,
        engine: Arc<dyn Engine>,
        case: Case,
        kill: impl Fn(),
    ) -> Result<Measured, ExperimentError> {
        let mut clients = clients(&engine, case.load, case.units, case.clients, self.run.seed);
        let each = transactions(self.run) / case.clients;
        let bar = |label: &str, each| {
            self.run.monitor.bar(format!("{}, {label}", case.load.name()), case.clients * each)
        };
        drive(&mut clients, each / 2, 1, &bar("warm-up", each / 2), &kill)?;
        drive(&mut clients, each, 1, &bar("measured", each), &kill)
    }
}

fn transactions(run: &Run<'_>) -> u64 {
    run.scaled(TRANSACTIONS, 80)
}

fn clients_of(count: u64) -> String {
    format!("{count} client{}", if count == 1 { "" } else { "s" })
}

/// Rates by load, and how busy the machine was, for each store and number of clients.
fn measure_all(
    run: &Run<'_>,
    loads: &[(Load, u64)],
    cached_percent: u64,
) -> Result<(Vec<Row>, Vec<Row>), ExperimentError> {
    let rig = Rig::new(run, &profile(run)?)?;
    let kinds = [(StoreKind::RocksDb, "RocksDB"), (StoreKind::Records, "records")];
    let bar = run.monitor.bar("cases", (loads.len() * kinds.len() * TURNS.len()) as u64);
    let row = |name: &str, count| Row {
        name: format!("{name}, {}", clients_of(count)),
        ours: Vec::new(),
        paper: None,
    };
    let mut rates: Vec<Row> =
        TURNS.iter().flat_map(|&count| kinds.map(|(_, name)| row(name, count))).collect();
    let mut busy = rates.clone();
    for &(load, units) in loads {
        for (turn, clients) in TURNS.into_iter().enumerate() {
            for (place, (kind, _)) in kinds.into_iter().enumerate() {
                let case = Case { load, units: run.scaled(units, 2), cached_percent, clients };
                let measured = rig.measure(kind, case)?;
                rates[turn * kinds.len() + place].ours.push(measured.per_second());
                busy[turn * kinds.len() + place].ours.push(measured.busy_percent);
                bar.advance(1)?;
            }
        }
    }
    Ok((rates, busy))
}

/// The rates, the ratios within this run next to the paper's, and how busy the machine was.
fn outcome(
    run: &Run<'_>,
    (title, source): (&'static str, &'static str),
    loads: &[(Load, u64)],
    cached_percent: u64,
) -> Result<Outcome, ExperimentError> {
    let (rates, busy) = measure_all(run, loads, cached_percent)?;
    let columns: Vec<String> = loads.iter().map(|(load, _)| load.name()).collect();
    let ratios = |turn: usize| {
        let pairs = rates[2 * turn + 1].ours.iter().zip(&rates[2 * turn].ours);
        let ours = pairs.map(|(records, rocks)| records / rocks).collect();
        Row { name: clients_of(TURNS[turn]), ours, paper: None }
    };
    let table = |title: &str, unit, rows: Vec<Row>| Figures {
        title: title.to_owned(),
        unit,
        columns: columns.clone(),
        rows,
    };
    let setup = vec![
        format!("{}; {OTHER_PERCENT} % of it is other data, aged", drive_of(&profile(run)?)),
        format!(
            "{} transactions for each figure after half as many; memory for {}; RocksDB on a mount, our store by itself",
            grouped(transactions(run)),
            if cached_percent == 100 {
                "all records".to_owned()
            } else {
                format!("{cached_percent} % of the records")
            }
        ),
    ];
    let mut outcome = Outcome::new(title, source, Time::Real, setup);
    let busy_rows = busy.into_iter().map(|row| (row.name, row.ours));
    outcome.figures = vec![
        table("transactions per second", "1/s", rates.clone()),
        table("records over RocksDB", "times", vec![ratios(0), ratios(1)]),
        Figures::of_processors(&columns, busy_rows),
    ];
    Ok(outcome)
}

/// Figure 9: OLTP.
pub(super) fn figure_9(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.figure_9;
    let titles = ("OLTP over records and over RocksDB", printed.source.as_str());
    let mut outcome = outcome(run, titles, &OLTP, 100)?;
    let ratios = &outcome.figures[1].rows[1].ours;
    let claims = OLTP.iter().zip(printed.factors()).zip(ratios).map(|((&(load, _), paper), &ours)| {
        let what = format!("{}: records over RocksDB, {}", load.name(), clients_of(CLIENTS as u64));
        PaperClaim::factor(what, paper, Span::one(ours))
    });
    outcome.claims = claims.collect();
    Ok(outcome)
}

/// Figure 10: YCSB, of which two fifths are cached.
pub(super) fn figure_10(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.figure_10;
    let titles = ("YCSB over records and over RocksDB", printed.source.as_str());
    let mut outcome = outcome(run, titles, &YCSB, YCSB_CACHED_PERCENT)?;
    let ratios = &outcome.figures[1].rows[1].ours;
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let what = format!("records over RocksDB, {}", clients_of(CLIENTS as u64));
    outcome.claims = vec![
        PaperClaim::factor(what, printed.over_log, Span::factors(ratios, &[1.0; YCSB.len()])),
        PaperClaim::factor("the same, on average", printed.average, Span::one(mean)),
    ];
    Ok(outcome)
}
