//! How fast a drive is served: commands over loopback connections, compared with the limit in the same run. The limit is
//! the same server and the same hosts without a drive: it answers with the same number of bytes.
//!
//! Machine time is noisy, so drive and limit are measured in turns, and the median round counts.

mod case;
mod load;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tantalum::{Command, Device, DeviceError, Lpn, Profile, Status, UNIT_BYTES};
use tantalum_drive::{Answers, Drive, Pacing, Queue};

use crate::client::{Client, Names, Options};
use crate::server::Server;
use crate::subsystem::{Settings as Naming, Subsystem};
pub use case::{CASES, Case};
use load::Load;
pub use load::Measured;

const NAME: &str = "nqn.2014-08.org.nvmexpress:tantalum-bench";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive.
    pub profile: Profile,
    /// A file for measuring an image as well; it must not exist, and is removed afterwards.
    pub image: Option<PathBuf>,
    /// Whether hosts see the drive's latencies.
    pub pacing: Pacing,
    /// The duration of a round.
    pub round: Duration,
    /// Rounds of each case.
    pub rounds: usize,
}

/// A case on a drive, and its limit.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The commands.
    pub case: Case,
    /// The drive.
    pub served: Measured,
    /// The server without a drive ([`Subsystem::without_drive`]).
    pub limit: Measured,
    /// Commands per second as a fraction of the limit: the median of the rounds' ratios.
    pub of_limit: f64,
    /// The drive's own latency in device time, if hosts see it: the median of single reads, in microseconds.
    pub drive_us: Option<f64>,
}

/// All cases on one drive.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Where the drive is: `memory` or `file`.
    pub drive: &'static str,
    /// Its cases.
    pub rows: Vec<Row>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The drive could not be created.
    #[error("the drive could not be created: {0}")]
    Device(#[from] DeviceError),
    /// The drive failed.
    #[error("the drive failed: {0}")]
    Drive(Status),
    /// A connection failed.
    #[error("a connection failed: {0}")]
    Network(#[from] io::Error),
    /// It was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Removes the file used for this.
struct Removed<'a>(&'a PathBuf);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}

/// Measures all cases. `tell` is called with each before it is measured, and returns whether to continue.
pub fn bench(
    settings: &Settings,
    tell: &mut impl FnMut(&str, &Case) -> bool,
) -> Result<Vec<Outcome>, BenchError> {
    let limit = server_of(Device::in_memory(&settings.profile)?, Pacing::None, true)?;
    let in_memory = Device::in_memory(&settings.profile)?;
    let mut outcomes = vec![measure("memory", in_memory, &limit, settings, tell)?];
    if let Some(image) = &settings.image {
        let device = Device::create(image, &settings.profile)?;
        let _removed = Removed(image);
        outcomes.push(measure("file", device, &limit, settings, tell)?);
    }
    Ok(outcomes)
}

fn server_of(device: Device, pacing: Pacing, is_limit: bool) -> io::Result<Server> {
    let answers = Answers::new(pacing, device.time_ns())?;
    let naming = Naming {
        name: NAME.to_owned(),
        serial: "BENCH".to_owned(),
        identity: 1,
        block_bytes: UNIT_BYTES as u32,
        advertised: None,
    };
    let subsystem = Subsystem::new(naming, Queue::new(Drive::new(device), answers));
    let subsystem = subsystem.map_err(io::Error::other)?;
    let subsystem = if is_limit { subsystem.without_drive() } else { subsystem };
    Server::start(Arc::new(subsystem), SocketAddr::from(([127, 0, 0, 1], 0)))
}

fn measure(
    name: &'static str,
    mut device: Device,
    limit: &Server,
    settings: &Settings,
    tell: &mut impl FnMut(&str, &Case) -> bool,
) -> Result<Outcome, BenchError> {
    fill(&mut device).map_err(BenchError::Drive)?;
    let drive_us = match settings.pacing {
        Pacing::Real => Some(read_us(&mut device).map_err(BenchError::Drive)?),
        Pacing::None => None,
    };
    let units = device.limits().capacity_units;
    let server = server_of(device, settings.pacing, false)?;
    let mut rows = Vec::new();
    for case in CASES {
        if !tell(name, &case) {
            return Err(BenchError::Interrupted);
        }
        let drive_us = drive_us.filter(|_| case.depth == 1 && !case.is_write);
        rows.push(rounds(case, [server.address(), limit.address()], units, settings, drive_us)?);
    }
    Ok(Outcome { drive: name, rows })
}

/// Writes every unit once: unmapped units are read too fast.
fn fill(device: &mut Device) -> Result<(), Status> {
    let (units, at_once) = (device.limits().capacity_units as u32, 128);
    let data: Vec<u8> = (0..at_once as usize * UNIT_BYTES).map(|at| (at / 7) as u8).collect();
    for lpn in (0..units).step_by(at_once as usize) {
        let now_ns = device.time_ns();
        let bytes = at_once.min(units - lpn) as usize * UNIT_BYTES;
        device.submit(
            Command::Write { lpn: Lpn(lpn), data: &data[..bytes], fua: false, handle: None },
            now_ns,
        )?;
    }
    let now_ns = device.time_ns();
    device.submit(Command::Flush, now_ns).map(drop)
}

/// The median latency of single random reads in device time, in microseconds.
fn read_us(device: &mut Device) -> Result<f64, Status> {
    let units = device.limits().capacity_units;
    let mut data = vec![0; UNIT_BYTES];
    let mut latencies = Vec::new();
    for number in 0..2000 {
        let now_ns = device.time_ns();
        let lpn = Lpn((tantalum_image::mix(number) % units) as u32);
        let completion = device.submit(Command::Read { lpn, data: &mut data }, now_ns)?;
        latencies.push(completion.done_ns - now_ns);
    }
    Ok(load::median_us(&mut latencies))
}

/// Drive and limit in turns.
fn rounds(
    case: Case,
    addresses: [SocketAddr; 2],
    units: u64,
    settings: &Settings,
    drive_us: Option<f64>,
) -> Result<Row, BenchError> {
    let mut loads = Vec::new();
    for address in addresses {
        loads.push(attach(address, &case, units)?);
    }
    let mut measured = [Vec::new(), Vec::new()];
    for _ in 0..settings.rounds.max(1) {
        for (load, measured) in loads.iter_mut().zip(&mut measured) {
            measured.push(load.run(settings.round)?);
        }
    }
    let [served, limit] = measured;
    assert_eq!(served.len(), limit.len(), "rounds of {} with the drive, and without", case.name);
    let quotient = |(served, limit): (&Measured, &Measured)| served.per_second / limit.per_second;
    let mut quotients: Vec<f64> = served.iter().zip(&limit).map(quotient).collect();
    quotients.sort_by(f64::total_cmp);
    let of_limit = quotients[quotients.len() / 2];
    Ok(Row { case, served: Measured::middle(served), limit: Measured::middle(limit), of_limit, drive_us })
}

/// A host with its connections.
fn attach(address: SocketAddr, case: &Case, units: u64) -> io::Result<Load> {
    let names = Names {
        subsystem: NAME.to_owned(),
        host: "nqn.2014-08.org.nvmexpress:host".to_owned(),
        host_id: [1; 16],
    };
    // as Linux does: no flow control, so that a read's data also signal success
    let options = Options { no_flow_control: true, together: true, ..Options::default() };
    let (admin, controller) = Client::admin(address, options, &names, 0)?;
    let mut queues = Vec::new();
    for queue in 1..=case.connections {
        queues.push(Client::io(address, options, &names, controller, queue)?);
    }
    Ok(Load::new(admin, queues, *case, units))
}
