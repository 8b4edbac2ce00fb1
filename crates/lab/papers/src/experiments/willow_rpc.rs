//! The cost of requests to programs: round trips, rates, bandwidth, and the check of a permission (Jin's thesis, sections
//! 5.1.6 and 5.2), in virtual time.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{Device, Nanoseconds, Profile};
use tantalum_drive::Drive;
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_spu::{
    BlockClient, EndpointId, Event, InstallOptions, ProcessId, ProgramId, Rights, SpuId, Ssd, answer, shipped,
};

use super::printed;
use super::{Run, drive_of};
use crate::error::ExperimentError;

const OPEN: InstallOptions = InstallOptions { is_open: true, region: None };
const CAPACITY_BYTES: u64 = 256 << 20;
/// Requests for each figure at scale 1.
const REQUESTS: u64 = 20_000;
const PROCESSORS: [u32; 5] = [1, 2, 4, 8, 16];
const ENDPOINTS: [usize; 4] = [1, 8, 16, 64];
const BODIES: [usize; 5] = [0, 512, 4096, 16_384, 65_536];
const EXTENTS: [u64; 5] = [1, 16, 128, 512, 768];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("willow_rpc.toml", include_str!("willow_rpc.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    check: Check,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Check {
    source: String,
    worst_us: f64,
}

fn profile(processors: u32) -> Result<Profile, ExperimentError> {
    let mut profile = Profile { capacity_bytes: CAPACITY_BYTES, ..Profile::load("willow")? };
    profile.spu.count = processors;
    Ok(profile)
}

/// A drive with echo, and endpoints of the kernel. Everything sent for the installation has arrived.
fn with_echo(processors: u32, count: usize) -> Result<(Ssd, ProgramId, Vec<EndpointId>), ExperimentError> {
    let mut ssd = Ssd::new(Drive::new(Device::in_memory(&profile(processors)?)?));
    let program = ssd.install(ProcessId::KERNEL, shipped::ECHO, OPEN)?;
    let endpoints = (0..count).map(|_| ssd.endpoint(ProcessId::KERNEL)).collect::<Result<_, _>>()?;
    while ssd.next_event().is_some() {}
    Ok((ssd, program, endpoints))
}

/// Each endpoint has one request in flight until `requests` are answered; requests go to the processors in turn. Returns how
/// long it took.
fn closed_loop(
    ssd: &mut Ssd,
    program: ProgramId,
    endpoints: &[EndpointId],
    body: usize,
    requests: u64,
) -> Result<Nanoseconds, ExperimentError> {
    let (begun_ns, processors, mut sent) = (ssd.now_ns(), u64::from(ssd.processors()), 0);
    let mut send = |ssd: &mut Ssd, endpoint, at_ns| {
        let spu = SpuId((sent % processors) as u32);
        sent += 1;
        ssd.send(endpoint, spu, (program, 0), vec![0; body], at_ns)
    };
    for &endpoint in endpoints {
        send(ssd, endpoint, begun_ns)?;
    }
    let mut answered = 0;
    while let Some(event) = ssd.next_event() {
        let Event::Answer { endpoint, status, at_ns, .. } = event else { continue };
        // a request that found no room is resent, and counts when it is answered
        answered += u64::from(status == answer::OK);
        if answered + endpoints.len() as u64 <= requests {
            send(ssd, endpoint, at_ns)?;
        }
    }
    Ok(ssd.now_ns() - begun_ns)
}

fn table(title: &str, unit: &'static str, columns: Vec<String>) -> Figures {
    Figures { title: title.to_owned(), unit, columns, rows: Vec::new() }
}

fn names<T: ToString>(of: &[T]) -> Vec<String> {
    of.iter().map(ToString::to_string).collect()
}

fn row(name: impl ToString, ours: Vec<f64>) -> Row {
    Row { name: name.to_string(), ours, paper: None }
}

/// Requests without a body: how long one endpoint waits, and the rate of several endpoints.
fn requests(run: &Run<'_>) -> Result<[Figures; 2], ExperimentError> {
    let wanted = run.scaled(REQUESTS, 1000);
    let mut round_trip =
        table("round trip of a request without a body, by processors", "us", names(&PROCESSORS));
    let mut rates = table("requests by endpoints", "million per second", names(&ENDPOINTS));
    let mut one = Vec::new();
    for processors in PROCESSORS {
        let mut ours = Vec::new();
        for count in ENDPOINTS {
            let (mut ssd, program, endpoints) = with_echo(processors, count)?;
            let ns = closed_loop(&mut ssd, program, &endpoints, 0, wanted)? as f64;
            if count == 1 {
                one.push(ns / wanted as f64 / 1e3);
            }
            ours.push(wanted as f64 * 1e3 / ns);
        }
        rates.rows.push(row(format!("{processors} processors"), ours));
    }
    round_trip.rows.push(row("one endpoint", one));
    Ok([round_trip, rates])
}

/// Requests with a body.
fn bandwidth(run: &Run<'_>) -> Result<Figures, ExperimentError> {
    let wanted = run.scaled(REQUESTS, 1000) / 4;
    let columns = BODIES[1..].iter().map(|body| bytes(*body as u64)).collect();
    let mut figures = table("bandwidth to the drive by bytes of a body, 16 endpoints", "MB/s", columns);
    for processors in [1, 8] {
        let mut ours = Vec::new();
        for body in &BODIES[1..] {
            let (mut ssd, program, endpoints) = with_echo(processors, 16)?;
            let ns = closed_loop(&mut ssd, program, &endpoints, *body, wanted)? as f64;
            ours.push(wanted as f64 * *body as f64 * 1e3 / ns);
        }
        figures.rows.push(row(format!("{processors} processors"), ours));
    }
    Ok(figures)
}

/// What a read of 4 KiB costs a processor, by the number of the process's extents, compared with the same read by the kernel,
/// whose rights are not looked up.
fn permission_check() -> Result<Figures, ExperimentError> {
    let printed = &PRINTED.check;
    let mut figures =
        table("check of a permission, by extents in the processor's table", "us", names(&EXTENTS));
    let mut ours = Vec::new();
    for extents in EXTENTS {
        let mut ssd = Ssd::new(Drive::new(Device::in_memory(&profile(8)?)?));
        let program = ssd.install(ProcessId::KERNEL, shipped::DIRECT_IO, OPEN)?;
        let process = ssd.process();
        let (user, kernel) = (ssd.endpoint(process)?, ssd.endpoint(ProcessId::KERNEL)?);
        let row = ssd.stripes().row_bytes();
        for extent in 0..extents {
            ssd.grant(process, extent * row..extent * row + 4096, Rights::READ)?;
        }
        while ssd.next_event().is_some() {}
        let mut read = |endpoint| {
            let before_ns = ssd.busy_ns(SpuId(0));
            // each extent once, so that the mean is over all places in the table
            for extent in 0..extents {
                BlockClient::new(endpoint, program).read(&mut ssd, extent * row, &mut [0; 4096])?;
            }
            while ssd.next_event().is_some() {}
            Ok::<_, ExperimentError>((ssd.busy_ns(SpuId(0)) - before_ns) as f64 / extents as f64)
        };
        let (checked, unchecked) = (read(user)?, read(kernel)?);
        ours.push((checked - unchecked) / 1e3);
    }
    let paper = Some(vec![printed.worst_us; EXTENTS.len()]);
    figures.rows.push(Row { name: "a check; the thesis: at most".to_owned(), ours, paper });
    Ok(figures)
}

/// Round trips, rates, bandwidth, and the check of a permission.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let setup = vec![
        drive_of(&profile(8)?),
        format!("{} requests for each figure; no time of the host", run.scaled(REQUESTS, 1000)),
    ];
    let title = "requests to programs: round trip, rate, bandwidth, permission check";
    let mut outcome = Outcome::new(title, &PRINTED.check.source, Time::Virtual, setup);
    outcome.figures.extend(requests(run)?);
    outcome.figures.push(bandwidth(run)?);
    outcome.figures.push(permission_check()?);
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn a_check_takes_at_most_what_the_thesis_measured_and_processors_share_the_work() {
        let monitor = Monitor::silent();
        let settings = Run { scale: 0.1, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = run(&settings).unwrap();
        let [round_trip, rates, bandwidth, check] = &outcome.figures[..] else { panic!("{outcome:?}") };
        assert!(round_trip.rows[0].ours.iter().all(|us| (0.3..2.0).contains(us)), "{round_trip:?}");
        let most = |processors: &str| rates.row(processors).iter().copied().fold(0.0, f64::max);
        assert!(most("8 processors") > 4.0 * most("1 processors"), "{rates:?}");
        assert!(bandwidth.row("8 processors").iter().all(|rate| *rate < 2000.0), "{bandwidth:?}");
        let check = &check.rows[0];
        assert!(check.ours.iter().all(|us| *us > 0.0 && *us <= PRINTED.check.worst_us), "{check:?}");
        assert!(check.ours[4] > check.ours[0], "{check:?}");
    }
}
