//! YCSB's workloads on MariaDB: the gain in each from remapping the doublewrite's second write.
//!
//! Not a figure of a paper: SHARE and DuraSSD run YCSB on Couchbase.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tantalum::Profile;
use tantalum_report::table::{bytes, grouped};
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::clients::{Client, drive};
use tantalum_workloads::ycsb::{DATABASE, MariaDbClient, Operation, Workload, load};

use super::Run;
use super::linkbench_rig::{CaseResult, observed};
use super::mounted_mariadb::{LogPlace, MountedMariaDb, Start};
use super::rig::aged_image;
use super::server_binds::ServerBinds;
use super::share::drive_with_room;
use crate::error::ExperimentError;
use crate::servers::{MariaDb, MariaDbOptions, MountOptions, PlainFolder, ServerFolder};

/// At scale 1: SHARE's drive and a gigabyte of records.
const RECORDS: u64 = 800_000;
const BYTES_PER_RECORD: u64 = 1300;
const BUFFER_BYTES: u64 = 50 << 20;
const CLIENTS: u64 = 16;
const OPERATIONS_EACH: u64 = 10_000;
const SERVER_BYTES: u64 = 192 << 20;

const LOADING: MariaDbOptions = MariaDbOptions {
    page_bytes: 4096,
    buffer_bytes: 512 << 20,
    doublewrite: false,
    log_folder: None,
    durable: false,
    batch_pages: None,
};

const LINES: [(&str, bool); 2] = [("doublewrite on", false), ("remapped", true)];

/// Throughput of each workload; the six run one after the other on one database.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    MariaDb::require()?;
    let records = run.scaled(RECORDS, 1000);
    let room_bytes = records * BYTES_PER_RECORD * 5 / 4 + SERVER_BYTES;
    let profile = drive_with_room(run, room_bytes)?;
    let folder = PlainFolder::new()?;
    let aged = folder.folder().join("aged.img");
    aged_image(run, &profile, &aged, room_bytes)?;
    let loaded = loaded_database(run, &folder, records)?;
    let (mut rows, mut binds) = (Vec::new(), ServerBinds::default());
    let cases = run.monitor.bar("cases", LINES.len() as u64);
    for (name, remap_duplicates) in LINES {
        let mount =
            MountOptions { real_time: true, remap_duplicates, atomic_writes: false, sync_writes: false };
        let from =
            Start { folder: folder.folder(), aged: &aged, loaded: &loaded, log: LogPlace::Drive, mount };
        let buffer_bytes = run.scaled(BUFFER_BYTES, 0);
        let options = MariaDbOptions { buffer_bytes, doublewrite: true, durable: true, ..LOADING };
        let mounted = MountedMariaDb::start(run, from, options)?;
        let results = measure(run, &mounted, records)?;
        mounted.end()?;
        for (workload, result) in Workload::ALL.iter().zip(&results) {
            binds.add(&format!("{name}, {}", letter(*workload)), result);
        }
        let ours = results.iter().map(|result| result.measured.per_second()).collect();
        cases.advance(1)?;
        rows.push(Row { name: name.to_owned(), ours, paper: None });
    }
    let setup = setup_of(run, &profile, records);
    let mut outcome = Outcome::new("YCSB on MariaDB", "no paper's figure", Time::Real, setup);
    outcome.figures.push(Figures {
        title: "throughput by workload".to_owned(),
        unit: "operations/s",
        columns: Workload::ALL.map(letter).into(),
        rows,
    });
    outcome.figures.extend(binds.figures(&profile));
    Ok(outcome)
}

/// A stopped server's folder with the records in it.
fn loaded_database(run: &Run<'_>, folder: &PlainFolder, records: u64) -> Result<PathBuf, ExperimentError> {
    let loaded = folder.folder().join("loaded");
    MariaDb::install(&loaded, &LOADING)?;
    let server = MariaDb::start(&loaded, folder.folder(), &LOADING)?;
    load(&mut server.connect(None)?, records, run.seed, run.monitor)?;
    server.stop_while(|| run.monitor.check().is_ok());
    run.monitor.check()?;
    Ok(loaded)
}

/// The set-up of the measurement.
fn setup_of(run: &Run<'_>, profile: &Profile, records: u64) -> Vec<String> {
    vec![
        format!("drive {}, {}, aged", profile.name, bytes(profile.capacity_bytes)),
        format!(
            "MariaDB, pages of 4 KiB, {} records of 1 KB, {CLIENTS} clients, {} operations each",
            grouped(records),
            run.scaled(OPERATIONS_EACH, 10)
        ),
    ]
}

fn letter(workload: Workload) -> String {
    workload.letter().to_ascii_uppercase().to_string()
}

/// What each workload had, one after the other.
fn measure(run: &Run<'_>, mounted: &MountedMariaDb, loaded: u64) -> Result<Vec<CaseResult>, ExperimentError> {
    let (records, each) = (Arc::new(AtomicU64::new(loaded)), run.scaled(OPERATIONS_EACH, 10));
    let mut results = Vec::new();
    for workload in Workload::ALL {
        let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> = Vec::new();
        for number in 0..CLIENTS {
            let seed = run.seed.wrapping_mul(1_000_003).wrapping_add(number);
            let connection = mounted.server.connect(Some(DATABASE))?;
            clients.push(Box::new(MariaDbClient::new(
                connection,
                workload,
                loaded,
                Arc::clone(&records),
                seed,
            )));
        }
        let bar = run.monitor.bar(format!("YCSB {}", letter(workload)), CLIENTS * each);
        results.push(observed(mounted, || {
            let measured = drive(&mut clients, each, Operation::ALL.len(), &bar, || mounted.kill())?;
            Ok(measured.divided_by(run.slower))
        })?);
    }
    Ok(results)
}
