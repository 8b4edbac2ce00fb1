//! DuraSSD's figures 5 and 6 and table 3: LinkBench on MariaDB, with and without write barriers and doublewrite.
//!
//! The paper turns the file system's barriers off, which is safe on its drive. Here the drive differs instead: with
//! barriers on, its cache is volatile and a flush drains it; with barriers off, it is the paper's drive, on which a
//! flush costs nothing.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{CacheMode, Plp, Profile};
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::clients::Measured;

use super::linkbench_rig::{Case, CaseResult, Doublewrite, Rig, Size};
use super::mounted_mariadb::LogPlace;
use super::printed::{self, PrintedClaim};
use super::server_binds::ServerBinds;
use super::share::{LatencyTable, column_of, latencies};
use super::{Run, smaller};
use crate::error::ExperimentError;

/// The paper's set-up: 480 GB of drive, 100 GB of database, 128 clients. The paper has 50,000 operations for each
/// client; half of that already takes minutes per figure.
const CAPACITY_BYTES: u64 = 480_000_000_000;
const DATABASE_BYTES: u64 = 100_000_000_000;
const CLIENTS: u64 = 128;
const OPERATIONS_EACH: u64 = 25_000;

/// However small the database is: fewer would take only seconds, and the server's earlier work would decide the result.
const LEAST_OPERATIONS_EACH: u64 = 100;

/// The buffer of figure 5 and table 3.
const BUFFER_BYTES: u64 = 10 << 30;

/// The paper has 32 (4.3.1), of tables a thousand times as large: smaller files than some megabytes would be mostly
/// empty.
const PARTITIONS: u32 = 4;

/// Operations of the warm-up for each measured one.
const WARM_UP: f64 = 0.25;

const PAGES: [(&str, u32); 3] = [("16 KiB", 16_384), ("8 KiB", 8192), ("4 KiB", 4096)];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("durassd_server.toml", include_str!("durassd_server.toml")));

/// Of two figures and a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_5: Figure5,
    figure_6: Figure6,
    table_3: Table3,
}

/// Factors of throughput.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure5 {
    source: String,
    barrier_doublewrite_on: PrintedClaim,
    barrier_doublewrite_off: PrintedClaim,
    doublewrite_barrier_on: PrintedClaim,
    doublewrite_barrier_off: PrintedClaim,
    best_over_worst: PrintedClaim,
}

/// A factor of throughput.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure6 {
    source: String,
    small_pages: PrintedClaim,
}

/// Latencies in ms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table3 {
    source: String,
    default: LatencyTable,
    best: LatencyTable,
    mean: PrintedClaim,
    p99: PrintedClaim,
    longest: PrintedClaim,
}

/// Figure 5: throughput by barrier, doublewrite and page size.
pub(super) fn figure_5(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const LINES: [(&str, bool, Doublewrite); 4] = [
        ("on / on", true, Doublewrite::On),
        ("on / off", true, Doublewrite::Off),
        ("off / on", false, Doublewrite::On),
        ("off / off", false, Doublewrite::Off),
    ];
    let mut rig = Rig::new(run, size(run), LINES.len() * PAGES.len())?;
    let (mut rows, mut binds) = (Vec::new(), ServerBinds::default());
    for (name, barrier, doublewrite) in LINES {
        let profile = profile(run, barrier)?;
        let mut results = Vec::new();
        for (page, page_bytes) in PAGES {
            let case = Case { page_bytes, buffer_bytes: run.scaled(BUFFER_BYTES, 0), doublewrite };
            let result = rig.measure(&profile, case)?;
            binds.add(&format!("{name}, {page}"), &result);
            results.push(result.measured);
        }
        let ours = results.iter().map(Measured::per_second).collect();
        rows.push(Row { name: name.to_owned(), ours, paper: None });
    }
    let figures = Figures {
        title: "throughput by write barrier / doublewrite".to_owned(),
        unit: "operations/s",
        columns: PAGES.map(|(name, _)| name.to_owned()).into(),
        rows,
    };
    let printed = &PRINTED.figure_5;
    let mut outcome = outcome(run, "LinkBench by barrier, doublewrite and page size", &printed.source)?;
    outcome.claims = printed.beside(&figures);
    outcome.figures = vec![figures];
    outcome.figures.extend(binds.figures(&profile(run, true)?));
    Ok(outcome)
}

impl Figure5 {
    /// What the paper claims, next to our throughput.
    fn beside(&self, figures: &Figures) -> Vec<PaperClaim> {
        let at_4_kib = |of: &str, over: &str| Span::factors(&figures.row(of)[2..], &figures.row(over)[2..]);
        let best = Span::one(figures.row("off / off")[2] / figures.row("on / on")[0]);
        vec![
            self.barrier_doublewrite_on.beside(at_4_kib("off / on", "on / on")),
            self.barrier_doublewrite_off.beside(at_4_kib("off / off", "on / off")),
            self.doublewrite_barrier_on.beside(at_4_kib("on / off", "on / on")),
            self.doublewrite_barrier_off.beside(at_4_kib("off / off", "off / on")),
            self.best_over_worst.beside(best),
        ]
    }
}

/// Figure 6: buffer misses and throughput by buffer and page size, barrier and doublewrite off.
pub(super) fn figure_6(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const BUFFERS_GIB: [u64; 5] = [2, 4, 6, 8, 10];
    let (profile, mut rig) =
        (profile(run, false)?, Rig::new(run, size(run), PAGES.len() * BUFFERS_GIB.len())?);
    let (mut misses, mut rates, mut binds) = (Vec::new(), Vec::new(), ServerBinds::default());
    for (name, page_bytes) in PAGES {
        let mut results = Vec::new();
        for gib in BUFFERS_GIB {
            let case =
                Case { page_bytes, buffer_bytes: run.scaled(gib << 30, 0), doublewrite: Doublewrite::Off };
            let result = rig.measure(&profile, case)?;
            binds.add(&format!("{name}, {gib} GiB"), &result);
            results.push(result);
        }
        let row = |figure: fn(&CaseResult) -> f64| Row {
            name: name.to_owned(),
            ours: results.iter().map(figure).collect(),
            paper: None,
        };
        misses.push(row(|result| {
            100.0 * result.innodb.page_reads as f64 / result.innodb.page_requests.max(1) as f64
        }));
        rates.push(row(|result| result.measured.per_second()));
    }
    let figures = |title: &str, unit, rows| Figures {
        title: title.to_owned(),
        unit,
        columns: BUFFERS_GIB.map(|gib| format!("{gib} GiB")).into(),
        rows,
    };
    let rates = figures("throughput by buffer size at scale 1", "operations/s", rates);
    let printed = &PRINTED.figure_6;
    let mut outcome = outcome(run, "LinkBench by buffer and page size", &printed.source)?;
    let gain = Span::factors(&rates.row("4 KiB")[4..], &rates.row("16 KiB")[4..]);
    outcome.claims = vec![printed.small_pages.beside(gain)];
    outcome.figures = vec![figures("buffer misses by buffer size at scale 1", "percent", misses), rates];
    outcome.figures.extend(binds.figures(&profile));
    Ok(outcome)
}

/// Table 3: latencies of the default and of the best set-up.
pub(super) fn table_3(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.table_3;
    let mut rig = Rig::new(run, size(run), 2)?;
    let buffer_bytes = run.scaled(BUFFER_BYTES, 0);
    let mut measure = |barrier, page_bytes, doublewrite| {
        rig.measure(&profile(run, barrier)?, Case { page_bytes, buffer_bytes, doublewrite })
    };
    let default = measure(true, 16_384, Doublewrite::On)?;
    let best = measure(false, 4096, Doublewrite::Off)?;
    let mut binds = ServerBinds::default();
    binds.add("on / on, 16 KiB", &default);
    binds.add("off / off, 4 KiB", &best);
    let default = latencies("on / on, 16 KiB", &default, &printed.default);
    let best = latencies("off / off, 4 KiB", &best, &printed.best);
    let ratio = |column| Span::factors(&column_of(&default, column), &column_of(&best, column));
    let mut outcome = outcome(run, "latencies of LinkBench", &printed.source)?;
    outcome.claims =
        vec![printed.mean.beside(ratio(0)), printed.p99.beside(ratio(4)), printed.longest.beside(ratio(5))];
    outcome.figures = vec![default, best];
    outcome.figures.extend(binds.figures(&profile(run, false)?));
    Ok(outcome)
}

pub(super) fn profile(run: &Run<'_>, barrier: bool) -> Result<Profile, ExperimentError> {
    // besides the scaled database, the server's own files need space
    let capacity_bytes = ((512 << 20) + run.scaled(CAPACITY_BYTES, 0)).next_multiple_of(1 << 20);
    let mut profile = smaller(Profile::load("durassd")?, capacity_bytes)?;
    if barrier {
        profile.cache.mode = CacheMode::Volatile;
        profile.power.plp = Plp::None;
        profile.power.dump_bytes = 0;
    } else {
        // without barriers the kernel sends no flush, so none goes alone
        profile.firmware.queued_flush = true;
        // the dump's blocks come on top: negligible on the paper's drive, but a part of the spare space on a scaled one
        profile.over_provisioning_percent +=
            100.0 * profile.power.dump_bytes as f64 / profile.capacity_bytes as f64;
    }
    profile.validate()?;
    Ok(profile)
}

/// The drive without barriers and with them, in the words of a set-up.
pub(super) fn drive_with_barriers(profile: &Profile) -> String {
    let capacity = bytes(profile.capacity_bytes);
    format!("drive {}, {capacity}, aged; with barriers on, its cache is volatile", profile.name)
}

fn size(run: &Run<'_>) -> Size {
    let operations_each = run.scaled(OPERATIONS_EACH, LEAST_OPERATIONS_EACH);
    Size {
        database_bytes: run.scaled(DATABASE_BYTES, 1_000_000),
        partitions: PARTITIONS,
        // DuraSSD, 4.2
        log: LogPlace::SecondDrive,
        clients: CLIENTS,
        warm_up_each: (operations_each as f64 * WARM_UP) as u64,
        operations_each,
    }
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let (profile, size) = (profile(run, false)?, size(run));
    let setup = vec![drive_with_barriers(&profile), size.described()];
    Ok(Outcome::new(title, source, Time::Real, setup))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
