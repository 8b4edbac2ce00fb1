//! Latencies and rates beside what follows from the drive's parts.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, Lpn, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_report::Figures;
use tantalum_workloads::bench;
use tantalum_workloads::binds::{Beginning, Phase};
use tantalum_workloads::closed_loop::{Served, Turn, serve};

use super::{Checks, Run, check, smaller, table};
use crate::error::ExperimentError;

/// The drive of the first checks: no cache, one unit a page, first come, first served, so that nothing hides a part.
const DRIVE: &str = "femu-2021";

/// The drives whose steady rates are checked. A cache absorbs little of random overwrites.
const DRIVES: [&str; 3] = [DRIVE, "tlc-nvme", "durassd"];

const CAPACITY_BYTES: u64 = 512 << 20;

/// Operations of each check.
const OPERATIONS: u64 = 200_000;

/// Clients that keep all planes busy.
const MANY: u32 = 512;

/// All tables.
pub(super) fn figures(run: &Run<'_>) -> Result<Vec<Figures>, ExperimentError> {
    let mut rates = Vec::new();
    let mut in_flight = Vec::new();
    for name in DRIVES {
        let profile = profile(run, name)?;
        let drive = Aged::new(run, &profile)?;
        if name == DRIVE {
            in_flight = drive.littles_law()?;
        }
        rates.extend(drive.rates()?);
    }
    Ok(vec![
        table("latency of a command alone", "us", depth_one(&profile(run, DRIVE)?)?),
        table("commands in flight (Little's law)", "commands", in_flight),
        table("steady rates", "operations/s", rates),
    ])
}

fn profile(run: &Run<'_>, name: &str) -> Result<Profile, ExperimentError> {
    let capacity_bytes = run.scaled(CAPACITY_BYTES, 256 << 20).next_multiple_of(1 << 20);
    smaller(Profile::load(name)?, capacity_bytes)
}

/// Commands alone on the drive: the sum of their parts.
fn depth_one(profile: &Profile) -> Result<Checks, ExperimentError> {
    let mut device = Device::in_memory(profile)?;
    let mut data = [7; UNIT_BYTES];
    let mut alone = |command: Command<'_>| -> Result<Nanoseconds, ExperimentError> {
        // long after everything before
        let at_ns = device.time_ns() + 1_000_000_000;
        Ok(device.submit(command, at_ns)?.done_ns - at_ns)
    };
    let write_ns = alone(Command::Write { lpn: Lpn(1), data: &data, fua: true, handle: None })?;
    let read_ns = alone(Command::Read { lpn: Lpn(1), data: &mut data })?;
    let unwritten_ns = alone(Command::Read { lpn: Lpn(2), data: &mut data })?;
    let path_ns = profile.link.command_ns + transfer_ns(profile.link.bytes_per_second);
    let channel_ns = transfer_ns(profile.flash.channel_bytes_per_second);
    let us = |expected_ns: Nanoseconds, ours_ns: Nanoseconds| {
        check(expected_ns as f64 / 1000.0, ours_ns as f64 / 1000.0)
    };
    Ok(vec![
        (
            "read: firmware, flash, channel, link".to_owned(),
            us(path_ns + profile.flash.read_ns + channel_ns, read_ns),
        ),
        ("read of nothing: firmware, link".to_owned(), us(path_ns, unwritten_ns)),
        (
            "write: firmware, link, channel, program".to_owned(),
            us(path_ns + channel_ns + profile.flash.program_ns, write_ns),
        ),
    ])
}

fn transfer_ns(bytes_per_second: u64) -> Nanoseconds {
    (UNIT_BYTES as u64 * 1_000_000_000).div_ceil(bytes_per_second)
}

/// A drive whose garbage collection is steady.
struct Aged<'a> {
    run: &'a Run<'a>,
    profile: &'a Profile,
    device: Device,
}

/// What clients do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

impl<'a> Aged<'a> {
    fn new(run: &'a Run<'a>, profile: &'a Profile) -> Result<Aged<'a>, ExperimentError> {
        let device = bench::aged(profile, profile.capacity_units() as u32, run.seed, run.monitor)?;
        Ok(Aged { run, profile, device })
    }

    fn operations(&self) -> u64 {
        self.run.scaled(OPERATIONS, 4000)
    }

    /// Clients with a command each, at random, on a copy of the drive.
    fn serve(&self, kind: Kind, clients: u32) -> Result<(Served, Device), ExperimentError> {
        let mut device = self.device.try_clone().expect("its flash is in memory");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.run.seed);
        let units = self.profile.capacity_units() as u32;
        let mut data = [7; UNIT_BYTES];
        let bar = self.run.monitor.bar(format!("{clients} clients"), self.operations());
        let start_ns = device.time_ns();
        let served = serve(clients, self.operations(), start_ns, &bar, |_, at_ns| {
            let lpn = Lpn(random.random_range(0..units));
            let command = match kind {
                Kind::Read => Command::Read { lpn, data: &mut data },
                Kind::Write => Command::Write { lpn, data: &data, fua: false, handle: None },
            };
            Ok::<_, ExperimentError>(Turn::Done(device.submit(command, at_ns)?.done_ns))
        })?;
        Ok((served, device))
    }

    /// Commands in flight are their rate times their mean latency.
    fn littles_law(&self) -> Result<Checks, ExperimentError> {
        let mut rows = Vec::new();
        for (kind, name) in [(Kind::Read, "reads"), (Kind::Write, "overwrites")] {
            for clients in [1, 4, 32, 256] {
                let (served, _) = self.serve(kind, clients)?;
                let in_flight = served.per_second * served.mean_us / 1e6;
                rows.push((format!("{clients} {name}"), check(f64::from(clients), in_flight)));
            }
        }
        Ok(rows)
    }

    /// What planes, channels or the link can do at most.
    fn rates(&self) -> Result<Checks, ExperimentError> {
        let Profile { name, flash, link, firmware, .. } = self.profile;
        let planes = f64::from(flash.channels * flash.dies_per_channel * flash.planes_per_die);
        let per_second = |at_once: f64, ns: Nanoseconds| at_once * 1e9 / ns as f64;
        let (reads, _) = self.serve(Kind::Read, MANY)?;
        let slowest = [
            per_second(planes, flash.read_ns),
            per_second(f64::from(flash.channels), transfer_ns(flash.channel_bytes_per_second)),
            per_second(1.0, transfer_ns(link.bytes_per_second)),
            per_second(f64::from(firmware.cores), link.command_ns),
        ];
        let slowest = slowest.into_iter().fold(f64::MAX, f64::min);
        let before = Beginning::of(&self.device);
        let (writes, device) = self.serve(Kind::Write, MANY)?;
        let Phase { usage, .. } = before.until(&device);
        let busy_ns = usage.plane_reads_ns
            + usage.plane_programs_ns
            + usage.plane_background_ns
            + usage.plane_erases_ns;
        let each_ns = busy_ns as f64 / self.operations() as f64;
        let rows = [
            (format!("{name}: reads, the slowest part's"), check(slowest, reads.per_second)),
            (
                format!("{name}: overwrites, planes over their work"),
                check(planes * 1e9 / each_ns, writes.per_second),
            ),
        ];
        Ok(rows.into())
    }
}
