//! Willow's figure 4: TPC-B on a storage manager with ARIES over Base-IO and over Direct-IO, and with MARS over Atomic-Writes
//! (Jin's thesis, section 5.3); and what is left of the gain on flash with a capacitor.
//!
//! After each run the store is recovered, and every balance has to agree with the history.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::Profile;
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
const TRANSFERS: u64 = 32_000;

/// Branches at scale 1: several for each client, as TPC-B wants.
const BRANCHES: u64 = 64;

/// Accounts of a branch: a twentieth of the standard's.
const ACCOUNTS: u64 = 5_000;

/// The part of the tables that the buffer pool holds, in percent: chosen, so that pages are read and replaced.
const POOL_PERCENT: u64 = 50;

/// The drives: the paper's, and flash that acknowledges only what survives.
const DRIVES: [(&str, u64); 2] = [("willow", 128 << 20), ("tlc-nvme-plp", 512 << 20)];

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
fn measure(run: &Run<'_>, profile: &Profile, scheme: Scheme, clients: usize) -> Result<Ran, ExperimentError> {
    let size = size(run, clients);
    let mut store = Store::create(profile, scheme, size, clients)?;
    let ran = store.run(size.transfers_per_client, 0, run.seed)?;
    let acknowledged = store.lines().to_vec();
    store.recover()?;
    if store.lines() != acknowledged {
        let what = format!("{acknowledged:?} transfers were acknowledged, and {:?} are there", store.lines());
        return Err(StoreError::Inconsistent(what).into());
    }
    Ok(ran)
}

fn per_second(ran: &Ran) -> f64 {
    ran.transfers.iter().sum::<u64>() as f64 * 1e9 / ran.elapsed_ns as f64
}

/// What was busy, in percent of the time.
fn busy(ran: &Ran) -> Vec<f64> {
    let shares =
        [ran.host, ran.processors[0], ran.processors[1], ran.ring, ran.link[0], ran.link[1], ran.memory];
    shares.iter().map(|share| share * 100.0).collect()
}

/// The throughput on one drive, and what was busy with most clients.
fn on_drive(run: &Run<'_>, profile: &Profile) -> Result<[Figures; 2], ExperimentError> {
    let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut throughput = Figures {
        title: format!("{}: transfers by clients", profile.name),
        unit: "per second",
        columns: CLIENTS.iter().map(|clients| clients.to_string()).collect(),
        rows: Vec::new(),
    };
    let mut shares = Figures {
        title: format!("{}: busy with {} clients", profile.name, CLIENTS[CLIENTS.len() - 1]),
        unit: "percent of the time",
        columns: columns(&[
            "host",
            "processors",
            "busiest",
            "ring",
            "link to drive",
            "link to host",
            "memory",
        ]),
        rows: Vec::new(),
    };
    for scheme in Scheme::ALL {
        let name = format!("{}, {}", profile.name, scheme.name());
        let bar = run.monitor.bar(name, CLIENTS.len() as u64);
        let mut ours = Vec::new();
        for clients in CLIENTS {
            let ran = measure(run, profile, scheme, clients)?;
            ours.push(per_second(&ran));
            if clients == CLIENTS[CLIENTS.len() - 1] {
                shares.rows.push(Row { name: scheme.name().to_owned(), ours: busy(&ran), paper: None });
            }
            bar.advance(1)?;
        }
        throughput.rows.push(Row { name: scheme.name().to_owned(), ours, paper: None });
    }
    Ok([throughput, shares])
}

/// Figure 4.
pub(super) fn figure_4(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.figure_4;
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
            "ARIES: a log of {}, pages of 4 KiB; MARS: Atomic-Writes with 16 slots",
            bytes(size.log_bytes)
        ),
    ];
    let mut figures = Vec::new();
    for (name, capacity_bytes) in DRIVES {
        let profile = profile(name, capacity_bytes)?;
        setup.push(drive_of(&profile));
        figures.extend(on_drive(run, &profile)?);
    }
    let most = |over: Scheme| {
        let throughput = &figures[0];
        let factors = Span::factors(throughput.row(Scheme::Mars.name()), throughput.row(over.name()));
        Span::one(factors.high)
    };
    let claims =
        vec![printed.base.beside(most(Scheme::AriesBase)), printed.direct.beside(most(Scheme::AriesDirect))];
    let title = "TPC-B: ARIES over Base-IO and Direct-IO, MARS over Atomic-Writes";
    let mut outcome = Outcome::new(title, &printed.source, Time::Virtual, setup);
    outcome.figures = figures;
    outcome.claims = claims;
    Ok(outcome)
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
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
