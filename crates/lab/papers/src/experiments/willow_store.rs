//! Willow's figure 4: TPC-B on a storage manager with ARIES over Base-IO and over Direct-IO, and with MARS over Atomic-Writes
//! (Jin's thesis, section 5.3); and how much of the gain remains on flash with a capacitor.
//!
//! After each run the store is recovered, and every balance must agree with the history. Smaller stores lose power
//! repeatedly, also during recovery; then every acknowledged transfer must be there, and each of the others completely or not
//! at all.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{PowerLoss, Profile};
use tantalum_image::SplitMix64;
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_store::host::{ENDPOINT, KERNEL, LOG_RECORD_NS, RECORD_NS, TRANSACTION_NS};
use tantalum_store::{Ran, Scheme, Size, Store, StoreError};

use super::printed::{self, PrintedClaim};
use super::{Run, drive_of};
use crate::error::ExperimentError;

/// Clients of each run.
const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];

/// Transfers of each run at scale 1, by all clients together.
const TRANSFERS: u64 = 16_000;

/// Branches at scale 1: several for each client, as TPC-B requires.
const BRANCHES: u64 = 64;

/// Accounts of a branch: a twentieth of the standard's.
const ACCOUNTS: u64 = 5_000;

/// The part of the tables that the buffer pool holds, in percent: chosen, so that pages are read and replaced.
const POOL_PERCENT: u64 = 50;

/// The drives: the paper's, and flash that acknowledges only what survives.
const DRIVES: [(&str, u64); 2] = [("willow", 128 << 20), ("tlc-nvme-plp", 512 << 20)];

/// The factor by which the store's work takes longer than in `tantalum_store::host`. Shore, without its log, locks, latches
/// and buffer pool, took 80 us for a transaction of TPC-C (Harizopoulos et al., SIGMOD 2008), five times the total of ours.
const HOST_TIMES: [u64; 4] = [1, 2, 5, 10];

/// The stores that lose power: few pages in the pool, so that pages with changes that are not committed are written, and a
/// short log, so that it wraps.
const CUT_SIZE: Size = Size {
    branches: 3,
    accounts_per_branch: 400,
    transfers_per_client: 2000,
    frames: 20,
    log_bytes: 64 << 10,
};
const CUT_BYTES: u64 = 64 << 20;
const CUT_CLIENTS: usize = 4;
const CUT_ROUNDS: u64 = 12;
/// Transfers of each client between cuts, of which 15 percent are rolled back.
const BETWEEN_CUTS: u64 = 150;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("willow_store.toml", include_str!("willow_store.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_4: Figure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    source: String,
    base: PrintedClaim,
    direct: PrintedClaim,
}

fn size(run: &Run<'_>, clients: usize) -> Size {
    let branches = run.scaled(BRANCHES, 16);
    // forty records in a page
    let pages = branches * ACCOUNTS / 40;
    Size {
        branches,
        accounts_per_branch: ACCOUNTS,
        transfers_per_client: transfers(run) / clients as u64,
        frames: (pages * POOL_PERCENT / 100) as usize,
        log_bytes: 4 << 20,
    }
}

fn transfers(run: &Run<'_>) -> u64 {
    run.scaled(TRANSFERS, 1600)
}

fn profile(name: &str, capacity_bytes: u64) -> Result<Profile, ExperimentError> {
    Ok(Profile { capacity_bytes, ..Profile::load(name)? })
}

/// One run, with its checks.
fn measure(
    run: &Run<'_>,
    profile: &Profile,
    scheme: Scheme,
    clients: usize,
    host_times: u64,
) -> Result<Ran, ExperimentError> {
    let size = size(run, clients);
    let mut store = Store::create(profile, scheme, size, clients)?;
    store.slow_down(host_times);
    let ran = store.run(size.transfers_per_client, 0, run.seed)?;
    let acknowledged = store.lines().to_vec();
    store.recover()?;
    if store.lines() != acknowledged {
        let what = format!("{acknowledged:?} transfers were acknowledged, and {:?} are there", store.lines());
        return Err(StoreError::Inconsistent(what).into());
    }
    Ok(ran)
}

fn total(ran: &Ran) -> f64 {
    ran.transfers.iter().sum::<u64>() as f64
}

fn per_second(ran: &Ran) -> f64 {
    total(ran) * 1e9 / ran.elapsed_ns as f64
}

fn table(title: String, unit: &'static str, columns: &[&str]) -> Figures {
    Figures {
        title,
        unit,
        columns: columns.iter().map(|name| (*name).to_owned()).collect(),
        rows: Vec::new(),
    }
}

fn row(scheme: Scheme, ours: Vec<f64>) -> Row {
    Row { name: scheme.name().to_owned(), ours, paper: None }
}

/// How busy each part was, in percent of the time.
fn busy(ran: &Ran) -> Vec<f64> {
    let shares =
        [ran.host, ran.processors[0], ran.processors[1], ran.ring, ran.link[0], ran.link[1], ran.memory];
    shares.iter().map(|share| share * 100.0).collect()
}

/// The drive's work for a transfer.
fn each(ran: &Ran, processors: u32) -> Vec<f64> {
    let of = |count: u64| count as f64 / total(ran);
    let processors_us = ran.processors[0] * f64::from(processors) * of(ran.elapsed_ns) / 1e3;
    vec![of(ran.requests), processors_us, of(ran.pages_read), of(ran.pages_written), of(ran.log_writes)]
}

/// The throughput on one drive; and what was busy with most clients, and what a transfer took then.
fn on_drive(run: &Run<'_>, profile: &Profile) -> Result<[Figures; 3], ExperimentError> {
    let most = CLIENTS[CLIENTS.len() - 1];
    let name = &profile.name;
    let clients = CLIENTS.map(|clients| clients.to_string());
    let columns: Vec<&str> = clients.iter().map(String::as_str).collect();
    let mut throughput = table(format!("{name}: transfers by clients"), "per second", &columns);
    let mut shares = table(
        format!("{name}: what binds: busy with {most} clients"),
        "percent of the time",
        &["host", "processors", "busiest", "ring", "link to drive", "link to host", "memory"],
    );
    let mut costs = table(
        format!("{name}: of each transfer with {most} clients"),
        "requests, us, pages, writes",
        &["requests", "processors, us", "pages read", "pages written", "log writes"],
    );
    for scheme in Scheme::ALL {
        let bar = run.monitor.bar(format!("{name}, {}", scheme.name()), CLIENTS.len() as u64);
        let mut ours = Vec::new();
        for clients in CLIENTS {
            let ran = measure(run, profile, scheme, clients, 1)?;
            ours.push(per_second(&ran));
            if clients == most {
                shares.rows.push(row(scheme, busy(&ran)));
                costs.rows.push(row(scheme, each(&ran, profile.spu.count)));
            }
            bar.advance(1)?;
        }
        throughput.rows.push(row(scheme, ours));
    }
    Ok([throughput, shares, costs])
}

/// The throughput with most clients, when the store's own work takes longer.
fn by_host(run: &Run<'_>, profile: &Profile) -> Result<Figures, ExperimentError> {
    let most = CLIENTS[CLIENTS.len() - 1];
    let times = HOST_TIMES.map(|times| format!("x{times}"));
    let columns: Vec<&str> = times.iter().map(String::as_str).collect();
    let title = format!("{}: transfers with {most} clients, by the time of the host's work", profile.name);
    let mut throughput = table(title, "per second", &columns);
    for scheme in Scheme::ALL {
        let bar = run.monitor.bar(format!("slower hosts, {}", scheme.name()), HOST_TIMES.len() as u64);
        let mut ours = Vec::new();
        for times in HOST_TIMES {
            ours.push(per_second(&measure(run, profile, scheme, most, times)?));
            bar.advance(1)?;
        }
        throughput.rows.push(row(scheme, ours));
    }
    Ok(throughput)
}

// -- power cuts -------------------------------------------------------------------------------------------------

/// Cuts, cuts of recovery, transfers that are there at the end, and how many of these had not been acknowledged.
fn cut_rounds(run: &Run<'_>, profile: &Profile, scheme: Scheme) -> Result<Vec<f64>, ExperimentError> {
    // each store to memory counts; programs and erases of flash are few
    let operations = if profile.spu.memory.is_some() { 12_000 } else { 60 };
    let mut random = SplitMix64(run.seed);
    let mut small = Profile { capacity_bytes: CUT_BYTES, ..profile.clone() };
    if small.power.dump_bytes > 0 {
        // a larger cache would keep a small store's pages from flash, and nothing would be cut
        (small.cache.bytes, small.power.dump_bytes) = (128 << 10, 2 << 20);
    }
    let mut store = Store::create(&small, scheme, CUT_SIZE, CUT_CLIENTS)?;
    let (mut cuts, mut again, mut untold) = (0_u64, 0_u64, 0_u64);
    for round in 0..run.scaled(CUT_ROUNDS, 3) {
        store.cut_after(Some(1 + random.below(operations)));
        let ran = store.run(BETWEEN_CUTS, 15, run.seed.wrapping_mul(100) + round)?;
        cuts += u64::from(ran.lost_power);
        let in_recovery = random.below(2) == 0;
        store.cut_after(in_recovery.then(|| 1 + random.below(operations / 30)));
        let told = store.lines().to_vec();
        while !store.power_on(&mut PowerLoss::seeded(random.next_u64()))? {
            again += 1;
        }
        store.cut_after(None);
        for (client, (&found, &told)) in store.lines().iter().zip(&told).enumerate() {
            if !(told..=told + 1).contains(&found) {
                let what =
                    format!("round {round}: client {client} was told of {told} transfers, and has {found}");
                return Err(StoreError::Inconsistent(what).into());
            }
            untold += found - told;
        }
    }
    let there: u64 = store.lines().iter().sum();
    Ok([cuts, again, there, untold].map(|count| count as f64).to_vec())
}

fn over_cuts(run: &Run<'_>, profiles: &[Profile]) -> Result<Figures, ExperimentError> {
    let columns = ["cuts", "cuts of recovery", "transfers there", "not acknowledged"];
    let mut figures = table("after power cuts, checked".to_owned(), "count", &columns);
    for profile in profiles {
        for scheme in Scheme::ALL {
            let name = format!("{}, {}", profile.name, scheme.name());
            figures.rows.push(Row { name, ours: cut_rounds(run, profile, scheme)?, paper: None });
            run.monitor.check()?;
        }
    }
    Ok(figures)
}

/// Figure 4.
pub(super) fn figure_4(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.figure_4;
    let profiles = DRIVES
        .iter()
        .map(|&(name, capacity_bytes)| profile(name, capacity_bytes))
        .collect::<Result<Vec<_>, _>>()?;
    let mut figures = Vec::new();
    for profile in &profiles {
        figures.extend(on_drive(run, profile)?);
    }
    figures.push(by_host(run, &profiles[0])?);
    figures.push(over_cuts(run, &profiles)?);
    let most = |over: Scheme| {
        let throughput = &figures[0];
        let factors = Span::factors(throughput.row(Scheme::Mars.name()), throughput.row(over.name()));
        Span::one(factors.high)
    };
    let claims =
        vec![printed.base.beside(most(Scheme::AriesBase)), printed.direct.beside(most(Scheme::AriesDirect))];
    let title = "TPC-B: ARIES over Base-IO and Direct-IO, MARS over Atomic-Writes";
    let mut outcome = Outcome::new(title, &printed.source, Time::Virtual, setup(run, &profiles));
    outcome.figures = figures;
    outcome.claims = claims;
    Ok(outcome)
}

fn setup(run: &Run<'_>, profiles: &[Profile]) -> Vec<String> {
    let size = size(run, 1);
    let mut setup = vec![
        format!(
            "{} branches with {} accounts each; the pool holds {POOL_PERCENT} % of the pages; {} transfers a run",
            size.branches,
            size.accounts_per_branch,
            transfers(run)
        ),
        format!(
            "host (chosen): {TRANSACTION_NS} ns a transaction, {RECORD_NS} ns a record, {LOG_RECORD_NS} ns a log record; a request {} ns through the kernel, {} ns from the process; a processor for each client",
            KERNEL.submit_ns + KERNEL.complete_ns,
            ENDPOINT.submit_ns + ENDPOINT.complete_ns
        ),
        format!(
            "ARIES: a log of {}, pages of 4 KiB; MARS: Atomic-Writes with 16 slots, a request for each processor that has writes of a transfer",
            bytes(size.log_bytes)
        ),
    ];
    setup.extend(profiles.iter().map(drive_of));
    setup
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn every_scheme_scales_with_clients_and_nothing_is_busier_than_always() {
        let monitor = Monitor::silent();
        let run = Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = figure_4(&run).unwrap();
        for row in &outcome.figures[0].rows {
            assert!(row.ours[4] > 2.0 * row.ours[0], "{row:?}");
        }
        for share in outcome.figures[1].rows.iter().flat_map(|row| &row.ours) {
            assert!((0.0..=100.0).contains(share), "{:?}", outcome.figures[1]);
        }
        let cuts = outcome.figures.last().unwrap();
        assert!(cuts.rows.iter().map(|row| row.ours[0]).sum::<f64>() > 6.0, "{cuts:?}");
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
