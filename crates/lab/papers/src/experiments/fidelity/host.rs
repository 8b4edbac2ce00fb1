//! A host that overwrites units.

use tantalum::{Command, Device, Lpn, UNIT_BYTES};
use tantalum_report::Bar;
use tantalum_workloads::queue::CommandQueue;

use crate::error::ExperimentError;

/// Commands between two checks for an interruption.
const STEP: u64 = 4096;

/// A host that keeps a queue of commands in flight.
pub(super) struct Host<'a> {
    pub device: &'a mut Device,
    queue: CommandQueue,
}

impl Host<'_> {
    /// With an empty queue.
    pub fn new(device: &mut Device) -> Host<'_> {
        let queue = CommandQueue::new(device.time_ns());
        Host { device, queue }
    }

    /// Writes this many units.
    pub fn write(
        &mut self,
        units: u64,
        mut next: impl FnMut() -> Lpn,
        bar: &Bar,
    ) -> Result<(), ExperimentError> {
        let data = [0x5a; UNIT_BYTES];
        for number in 1..=units {
            let command = Command::Write { lpn: next(), data: &data, fua: false, handle: None };
            let done_ns = self.device.submit(command, self.queue.issue_ns())?.done_ns;
            self.queue.completes(done_ns);
            if number % STEP == 0 || number == units {
                bar.advance((number - 1) % STEP + 1)?;
            }
        }
        Ok(())
    }
}
