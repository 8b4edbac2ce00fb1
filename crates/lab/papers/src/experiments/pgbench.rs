//! SHARE's experiment with PostgreSQL: full-page writes on and off.
//!
//! The paper turns them off to see what a drive with atomic page writes would gain. Off is safe only if a page is never
//! torn: units of 4 KiB are not torn here, but PostgreSQL's pages have two of them.

use std::fs;
use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::Profile;
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::clients::{Client, drive};
use tantalum_workloads::tpcb;

use super::binds::{self, Phase};
use super::printed::{self, PrintedClaim};
use super::rig::aged_image;
use super::share::drive_with_room;
use super::{Run, drive_of};
use crate::error::ExperimentError;
use crate::servers::{
    Mount, MountOptions, PlainFolder, Postgresql, PostgresqlOptions, ServerFolder, copy_tree,
};

/// The set-up at scale 1: SHARE names only pgbench; here on its drive, with a database as large as for LinkBench.
const BRANCHES: u64 = 100;
const BYTES_PER_BRANCH: u64 = 15_000_000;
const BUFFER_BYTES: u64 = 50 << 20;
const CLIENTS: u64 = 16;
const OPERATIONS_EACH: u64 = 10_000;
const WARM_UP: f64 = 0.25;

/// Checkpoints are frequent enough that pages are constantly changed for the first time after one, as in a long run.
const CHECKPOINT_SECONDS: u32 = 30;

/// The log's files and the system's tables besides the data.
const SERVER_BYTES: u64 = 512 << 20;

/// The rows of the figure. PostgreSQL's pages are two units: it can omit writing them whole to its log only if the
/// mount writes them all or nothing.
#[derive(Clone, Copy)]
struct Line {
    name: &'static str,
    full_page_writes: bool,
    atomic_writes: bool,
}

const LINES: [Line; 3] = [
    Line { name: "full_page_writes on", full_page_writes: true, atomic_writes: false },
    Line { name: "full_page_writes off, atomic writes", full_page_writes: false, atomic_writes: true },
    Line { name: "full_page_writes off (unsafe)", full_page_writes: false, atomic_writes: false },
];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("pgbench.toml", include_str!("pgbench.toml")));

/// What `pgbench.toml` says of full-page writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    source: String,
    atomic: PrintedClaim,
    not_atomic: PrintedClaim,
}

/// Throughput, and what reaches the drive.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    Postgresql::require()?;
    let branches = run.scaled(BRANCHES, 1);
    let room_bytes = branches * BYTES_PER_BRANCH * 3 / 2 + SERVER_BYTES;
    let profile = drive_with_room(run, room_bytes)?;
    let folder = PlainFolder::new()?;
    let aged = folder.folder().join("aged.img");
    aged_image(run, &profile, &aged, room_bytes)?;
    let loaded = folder.folder().join("loaded");
    load(&loaded, &folder, branches)?;
    let (mut rows, mut phases, mut busy) = (Vec::new(), Vec::new(), Vec::new());
    let cases = run.monitor.bar("cases", LINES.len() as u64);
    for line in LINES {
        let image = folder.folder().join("drive.img");
        fs::copy(&aged, &image).map_err(ExperimentError::file(&image))?;
        let (ours, busy_percent, phase) = measure(run, &folder, &image, &loaded, line, branches)?;
        cases.advance(1)?;
        rows.push(Row { name: line.name.to_owned(), ours: ours.into(), paper: None });
        busy.push((line.name.to_owned(), vec![busy_percent]));
        phases.push((line.name.to_owned(), phase));
    }
    let figures = Figures {
        title: "TPC-B".to_owned(),
        unit: "host and flash writes are units of 4 KiB for each transaction",
        columns: ["transactions/s", "host writes", "flash writes"].map(str::to_owned).into(),
        rows,
    };
    let [on, atomic, off] = LINES.map(|line| figures.row(line.name)[0]);
    let setup = setup(run, &profile, branches);
    let mut outcome = Outcome::new("PostgreSQL's full-page writes", &PRINTED.source, Time::Real, setup);
    outcome.claims =
        vec![PRINTED.atomic.beside(Span::one(atomic / on)), PRINTED.not_atomic.beside(Span::one(off / on))];
    outcome.figures = vec![figures];
    outcome.figures.extend(binds::figures(&profile, &phases));
    outcome.figures.push(Figures::of_processors(&["busy".to_owned()], busy));
    Ok(outcome)
}

fn setup(run: &Run<'_>, profile: &Profile, branches: u64) -> Vec<String> {
    vec![
        format!("{}, aged", drive_of(profile)),
        format!(
            "PostgreSQL, {branches} branches of TPC-B, {CLIENTS} clients, {} transactions each, a checkpoint every {CHECKPOINT_SECONDS} s",
            run.scaled(OPERATIONS_EACH, 10)
        ),
    ]
}

fn options(full_page_writes: bool) -> PostgresqlOptions {
    PostgresqlOptions { buffer_bytes: BUFFER_BYTES, full_page_writes, checkpoint_seconds: CHECKPOINT_SECONDS }
}

fn load(data: &std::path::Path, folder: &PlainFolder, branches: u64) -> Result<(), ExperimentError> {
    Postgresql::install(data)?;
    let server = Postgresql::start(data, folder.folder(), &options(false))?;
    tpcb::load(&mut server.connect("postgres")?, branches as i64)?;
    server.stop();
    Ok(())
}

/// Mounts an image, and starts a server on a copy of the loaded database there.
fn start(
    run: &Run<'_>,
    folder: &PlainFolder,
    image: &std::path::Path,
    loaded: &std::path::Path,
    line: Line,
) -> Result<(Mount, Postgresql), ExperimentError> {
    let mount_options = MountOptions {
        real_time: true,
        remap_duplicates: true,
        atomic_writes: line.atomic_writes,
        sync_writes: false,
    };
    let mount = |options| Mount::new(run.program, image, &folder.folder().join("mount"), options);
    // Copying the files is not measured, so the drive answers at once.
    let at_once = mount(MountOptions { real_time: false, ..mount_options })?;
    copy_tree(loaded, &at_once.folder().join("data"))?;
    at_once.unmount()?;
    run.monitor.check()?;
    let mount = mount(mount_options)?;
    let data = mount.folder().join("data");
    let buffer_bytes = run.scaled(BUFFER_BYTES, 2 << 20);
    let options = PostgresqlOptions { buffer_bytes, ..options(line.full_page_writes) };
    let server = Postgresql::start(&data, folder.folder(), &options)?;
    Ok((mount, server))
}

/// The clients of a server whose tables have this many branches.
fn clients(
    run: &Run<'_>,
    server: &Postgresql,
    branches: u64,
) -> Result<Vec<Box<dyn Client<Error = WorkloadError>>>, ExperimentError> {
    let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> = Vec::new();
    for number in 0..CLIENTS {
        let seed = run.seed.wrapping_mul(1_000_003).wrapping_add(number);
        clients.push(Box::new(tpcb::TpcbClient::new(server.connect("postgres")?, branches as i64, seed)?));
    }
    Ok(clients)
}

fn measure(
    run: &Run<'_>,
    folder: &PlainFolder,
    image: &std::path::Path,
    loaded: &std::path::Path,
    line: Line,
    branches: u64,
) -> Result<([f64; 3], f64, Phase), ExperimentError> {
    let (mount, server) = start(run, folder, image, loaded, line)?;
    let mut clients = clients(run, &server, branches)?;
    let each = run.scaled(OPERATIONS_EACH, 10);
    let warm_up = (each as f64 * WARM_UP) as u64;
    let bar = |label, each| run.monitor.bar(label, CLIENTS * each);
    let kill = || {
        server.kill();
        mount.abort();
    };
    drive(&mut clients, warm_up, 1, &bar("warming up", warm_up), kill)?;
    let (before, usage_before) = (mount.counters()?, mount.usage()?);
    let measured = drive(&mut clients, each, 1, &bar("TPC-B", each), kill)?.divided_by(run.slower);
    let (counters, phase) =
        (mount.counters()?.since(&before), Phase::between(&usage_before, &mount.usage()?));
    let consistent = tpcb::is_consistent(&mut server.connect("postgres")?)?;
    drop(clients);
    server.stop();
    mount.unmount()?;
    if !consistent {
        return Err(ExperimentError::Inconsistent { what: "TPC-B's balances and its history" });
    }
    let per_transaction = |units: u64| units as f64 / measured.operations() as f64;
    let figures = [
        measured.per_second(),
        per_transaction(counters.host_units_written),
        per_transaction(counters.flash_units.total()),
    ];
    Ok((figures, measured.busy_percent, phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
