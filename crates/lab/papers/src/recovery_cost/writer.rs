//! A host that writes units at random, cuts power and sees the drive recover.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, Lpn, PowerLoss, Profile, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::Bar;
use tantalum_workloads::WrongData;
use tantalum_workloads::queue::CommandQueue;

use super::outcome::Recovery;
use crate::error::ExperimentError;

/// Commands between two checks for cancellation.
const COMMANDS_PER_STEP: u64 = 4096;

/// Units that are checked after a recovery.
const UNITS_CHECKED: u32 = 64;

/// The host. Each unit that it writes begins with its own number.
pub(super) struct Writer {
    pub drive: Drive,
    units: u32,
    queue: CommandQueue,
    random: Xoshiro256PlusPlus,
    power_loss: PowerLoss,
    data: Vec<u8>,
}

impl Writer {
    /// A host of a new drive in memory.
    pub fn new(profile: &Profile, seed: u64) -> Result<Writer, ExperimentError> {
        let device = Device::in_memory(profile)?;
        Ok(Writer {
            units: device.limits().capacity_units as u32,
            queue: CommandQueue::new(device.time_ns()),
            drive: Drive::new(device),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            power_loss: PowerLoss::seeded(seed),
            data: vec![0x5A; UNIT_BYTES],
        })
    }

    /// Writes every `stride`th unit of the drive, in order.
    pub fn fill(&mut self, stride: u32, bar: &Bar) -> Result<(), ExperimentError> {
        for (lpn, number) in (0..self.units).step_by(stride as usize).zip(0_u64..) {
            self.write(Lpn(lpn))?;
            step(number, bar)?;
        }
        Ok(())
    }

    /// Writes this many units at random places.
    pub fn overwrite(&mut self, units: u64, bar: &Bar) -> Result<(), ExperimentError> {
        for number in 0..units {
            self.overwrite_one()?;
            step(number, bar)?;
        }
        Ok(())
    }

    /// Writes one unit, anywhere.
    pub fn overwrite_one(&mut self) -> Result<(), ExperimentError> {
        let lpn = Lpn(self.random.random_range(0..self.units));
        self.write(lpn)
    }

    fn write(&mut self, lpn: Lpn) -> Result<(), ExperimentError> {
        self.data[..8].copy_from_slice(&u64::from(lpn.0).to_le_bytes());
        let command = Command::Write { lpn, data: &self.data, fua: false, handle: None };
        let completion = self.drive.lock().submit(command, self.queue.issue_ns())?;
        self.queue.completes(completion.done_ns);
        Ok(())
    }

    /// Shuts the drive down and starts it again: a checkpoint stands, and nothing was written since.
    pub fn restart(&mut self) -> Result<(), ExperimentError> {
        self.drive.lock().power_off(self.queue.drained_ns())?;
        self.drive.lock().power_on(&mut self.power_loss)?;
        self.queue = CommandQueue::new(self.drive.lock().time_ns());
        Ok(())
    }

    /// Cuts power with nothing flushed, and has the drive recover. Units written a while ago must be there: every
    /// `stride`th was written.
    pub fn cut_and_recover(&mut self, stride: u32) -> Result<Recovery, ExperimentError> {
        self.drive.lock().cut_power(self.queue.drained_ns());
        let start = Instant::now();
        let report = self.drive.lock().power_on(&mut self.power_loss)?;
        let wall_seconds = start.elapsed().as_secs_f64();
        self.queue = CommandQueue::new(self.drive.lock().time_ns());
        for _ in 0..UNITS_CHECKED {
            let lpn = self.random.random_range(0..self.units.div_ceil(stride)) * stride;
            self.check(Lpn(lpn))?;
        }
        Ok(Recovery {
            pages_scanned: report.pages_scanned,
            pages_read: report.pages_read,
            assertions: report.assertions,
            checkpoint_units: report.checkpoint_units,
            read_ns: report.read_ns,
            device_ns: report.device_ns,
            wall_seconds,
        })
    }

    fn check(&mut self, lpn: Lpn) -> Result<(), ExperimentError> {
        let command = Command::Read { lpn, data: &mut self.data };
        let completion = self.drive.lock().submit(command, self.queue.issue_ns())?;
        self.queue.completes(completion.done_ns);
        let found = u64::from_le_bytes(self.data[..8].try_into().expect("eight bytes"));
        if found == u64::from(lpn.0) { Ok(()) } else { Err(WrongData { lpn, found }.into()) }
    }
}

fn step(number: u64, bar: &Bar) -> Result<(), ExperimentError> {
    if (number + 1).is_multiple_of(COMMANDS_PER_STEP) {
        bar.advance(COMMANDS_PER_STEP)?;
    }
    Ok(())
}
