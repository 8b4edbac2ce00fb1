//! DuraSSD's table 4: TPC-C with and without write barriers, on MariaDB in place of the paper's commercial database.
//!
//! As in [`super::durassd_server`], barriers differ in the drive. Doublewrite is off: the paper's server has none.
//!
//! A batch of the page cleaner has at most [`BATCH_PAGES`], as it is a small part of the paper's buffer. By default it is
//! larger than a scaled buffer: then pages that all clients need are latched, with barriers for many seconds.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde::Deserialize;
use tantalum_report::{Bar, Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::clients::{Client, Measured, drive};
use tantalum_workloads::tpcc::{DATABASE, KINDS, Tables, TpccClient, is_consistent, load};

use super::Run;
use super::durassd_server::{drive_with_barriers, profile};
use super::linkbench_rig::{CaseResult, observed};
use super::mounted_mariadb::{LogPlace, MountedMariaDb, Start};
use super::printed::{self, PrintedClaim};
use super::rig::aged_image;
use super::server_binds::ServerBinds;
use crate::error::ExperimentError;
use crate::servers::{MariaDb, MariaDbOptions, MountOptions, PlainFolder, ServerFolder};

/// The paper's set-up: 1,000 warehouses, a buffer of 2 GB. Clients and transactions are chosen; it names none.
const WAREHOUSES: u64 = 1000;
const BUFFER_BYTES: u64 = 2 << 30;
const CLIENTS: u64 = 16;
const OPERATIONS_EACH: u64 = 30_000;
/// With barriers one in so many: each page waits milliseconds for a flush, and all of them would take a quarter of an
/// hour.
const ONE_WITH_BARRIERS_OF: u64 = 8;
const LEAST_OPERATIONS_EACH: u64 = 10;
const WARM_UP: f64 = 0.25;

const BYTES_PER_WAREHOUSE: u64 = 120_000_000;
const SERVER_BYTES: u64 = 192 << 20;
const LOADING_BUFFER_BYTES: u64 = 512 << 20;

/// MariaDB's least. By its default of 2,000 a batch is 1.5 % of the paper's buffer of 131,072 pages; 100 pages are a
/// tenth of one of 16 MiB.
const BATCH_PAGES: u64 = 100;

const PAGES: [(&str, u32); 3] = [("16 KiB", 16_384), ("8 KiB", 8192), ("4 KiB", 4096)];

/// What the paper prints.
static PRINTED: LazyLock<Printed> = LazyLock::new(|| printed::parse("tpcc.toml", include_str!("tpcc.toml")));

/// What `tpcc.toml` says of table 4.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    table_4: Table4,
}

/// New-Orders per minute, by page size.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table4 {
    source: String,
    barrier_on: [f64; PAGES.len()],
    barrier_off: [f64; PAGES.len()],
    barrier: PrintedClaim,
    small_pages_barrier_on: PrintedClaim,
    small_pages_barrier_off: PrintedClaim,
}

/// Table 4: tpmC by barrier and page size.
pub(super) fn table_4(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.table_4;
    let lines = [("barrier on", true, printed.barrier_on), ("barrier off", false, printed.barrier_off)];
    MariaDb::require()?;
    let folder = PlainFolder::new()?;
    let cases = run.monitor.bar("cases", (lines.len() * PAGES.len()) as u64);
    for (_, page_bytes) in PAGES {
        load_database(run, &folder, page_bytes)?;
    }
    let (mut rows, mut written, mut binds) = (Vec::new(), Vec::new(), ServerBinds::default());
    for (name, barrier, paper) in lines {
        let results = measure_pages(run, &folder, barrier, &cases)?;
        let of = |figure: fn(&CaseResult) -> f64| results.iter().map(figure).collect();
        let ours = of(|result| new_orders_a_minute(&result.measured));
        rows.push(Row { name: name.to_owned(), ours, paper: Some(paper.into()) });
        let ours =
            of(|result| result.counters.host_units_written as f64 / result.measured.operations() as f64);
        written.push(Row { name: name.to_owned(), ours, paper: None });
        for ((page, _), result) in PAGES.iter().zip(&results) {
            binds.add(&format!("{name}, {page}"), result);
        }
    }
    let figures = by_page("TPC-C without think time", "New-Orders per minute", rows);
    let written = by_page("written to the data's drive (4 KiB)", "for each transaction", written);
    let mut outcome = outcome(run)?;
    outcome.claims = claims(figures.row("barrier on"), figures.row("barrier off"));
    outcome.figures = vec![figures, written];
    outcome.figures.extend(binds.figures(&profile(run, true)?));
    Ok(outcome)
}

fn by_page(title: &str, unit: &'static str, rows: Vec<Row>) -> Figures {
    let columns = PAGES.map(|(name, _)| name.to_owned()).into();
    Figures { title: title.to_owned(), unit, columns, rows }
}

fn claims(on: &[f64], off: &[f64]) -> Vec<PaperClaim> {
    let printed = &PRINTED.table_4;
    vec![
        printed.barrier.beside(Span::factors(off, on)),
        printed.small_pages_barrier_on.beside(Span::factors(&on[2..], &on[..1])),
        printed.small_pages_barrier_off.beside(Span::factors(&off[2..], &off[..1])),
    ]
}

fn outcome(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let profile = profile(run, false)?;
    let setup = vec![
        drive_with_barriers(&profile),
        format!(
            "MariaDB without doublewrite, log on {}, {} warehouses with {:.3} of the standard's rows, {CLIENTS} clients, {} transactions each, {} with barriers",
            LogPlace::SecondDrive.described(),
            warehouses(run),
            share_of_rows(run),
            operations_each(run, false),
            operations_each(run, true)
        ),
    ];
    let source = &PRINTED.table_4.source;
    Ok(Outcome::new("TPC-C by barrier and page size", source, Time::Real, setup))
}

/// The results of each page size, on a drive with barriers or without.
fn measure_pages(
    run: &Run<'_>,
    folder: &PlainFolder,
    barrier: bool,
    cases: &Bar,
) -> Result<Vec<CaseResult>, ExperimentError> {
    let profile = profile(run, barrier)?;
    let aged = folder.folder().join(format!("aged-{barrier}.img"));
    let room_bytes = run.scaled(WAREHOUSES * BYTES_PER_WAREHOUSE, 0) * 5 / 4 + SERVER_BYTES;
    aged_image(run, &profile, &aged, room_bytes)?;
    let mut results = Vec::new();
    for (_, page_bytes) in PAGES {
        results.push(measure(run, folder, &aged, page_bytes, operations_each(run, barrier))?);
        cases.advance(1)?;
    }
    Ok(results)
}

fn operations_each(run: &Run<'_>, barrier: bool) -> u64 {
    let part = if barrier { ONE_WITH_BARRIERS_OF } else { 1 };
    run.scaled(OPERATIONS_EACH / part, LEAST_OPERATIONS_EACH)
}

/// At least one for each client: with the paper's 1,000 they rarely wait for each other's rows.
fn warehouses(run: &Run<'_>) -> u64 {
    run.scaled(WAREHOUSES, CLIENTS)
}

/// The fraction of the standard's rows in a warehouse, so that all of them together have the size that the scale
/// requires.
fn share_of_rows(run: &Run<'_>) -> f64 {
    (WAREHOUSES as f64 * run.scale / warehouses(run) as f64).min(1.0)
}

fn tables(run: &Run<'_>) -> Tables {
    Tables::new(warehouses(run), share_of_rows(run))
}

fn loaded(folder: &PlainFolder, page_bytes: u32) -> PathBuf {
    folder.folder().join(format!("loaded-{page_bytes}"))
}

fn load_database(run: &Run<'_>, folder: &PlainFolder, page_bytes: u32) -> Result<(), ExperimentError> {
    let data = loaded(folder, page_bytes);
    let options = MariaDbOptions {
        page_bytes,
        buffer_bytes: LOADING_BUFFER_BYTES,
        doublewrite: false,
        log_folder: None,
        durable: false,
        batch_pages: None,
    };
    MariaDb::install(&data, &options)?;
    let server = MariaDb::start(&data, folder.folder(), &options)?;
    load(&mut server.connect(None)?, tables(run), run.seed, run.monitor)?;
    server.stop_while(|| run.monitor.check().is_ok());
    run.monitor.check()?;
    Ok(())
}

/// The transactions that tpmC counts.
fn new_orders_a_minute(measured: &Measured) -> f64 {
    measured.latencies[0].len() as f64 * 60.0 / measured.seconds
}

/// A server with this page size.
fn options(run: &Run<'_>, page_bytes: u32) -> MariaDbOptions {
    MariaDbOptions {
        page_bytes,
        buffer_bytes: run.scaled(BUFFER_BYTES, 0),
        doublewrite: false,
        log_folder: None,
        durable: true,
        batch_pages: Some(BATCH_PAGES),
    }
}

/// The transactions of one page size.
fn measure(
    run: &Run<'_>,
    folder: &PlainFolder,
    aged: &Path,
    page_bytes: u32,
    each: u64,
) -> Result<CaseResult, ExperimentError> {
    let mount =
        MountOptions { real_time: true, remap_duplicates: false, atomic_writes: false, sync_writes: true };
    let loaded = loaded(folder, page_bytes);
    let from = Start { folder: folder.folder(), aged, loaded: &loaded, log: LogPlace::SecondDrive, mount };
    let options = options(run, page_bytes);
    let mounted = MountedMariaDb::start(run, from, options)?;
    let server = &mounted.server;
    let tables = tables(run);
    let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> = Vec::new();
    for number in 0..CLIENTS {
        let seed = run.seed.wrapping_mul(1_000_003).wrapping_add(number);
        let connection = server.connect(Some(DATABASE))?;
        clients.push(Box::new(TpccClient::new(connection, number % tables.warehouses + 1, tables, seed)));
    }
    let warm_up = (each as f64 * WARM_UP) as u64;
    let bar = |label, each| run.monitor.bar(label, CLIENTS * each);
    drive(&mut clients, warm_up, KINDS, &bar("warming up", warm_up), || mounted.kill())?;
    let result = observed(&mounted, || {
        let measured = drive(&mut clients, each, KINDS, &bar("TPC-C", each), || mounted.kill())?;
        Ok(measured.divided_by(run.slower))
    })?;
    drop(clients);
    let consistent = is_consistent(&mut server.connect(Some(DATABASE))?)?;
    mounted.end()?;
    if !consistent {
        return Err(ExperimentError::Inconsistent { what: "TPC-C's tables (clause 3.3.2)" });
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
