//! The host: a drive, the clock of its one client, and values that show whether a unit is whole.

use tantalum::{CacheMode, Command, Completion, Device, Lpn, PowerLoss, RecoveryReport, Status, UNIT_BYTES};

use super::stop::Stop;

/// A value is a stamp; 0 is what an unmapped unit reads as.
pub(super) type Stamp = u64;

/// A unit that holds a stamp.
pub(super) fn unit_of(stamp: Stamp) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

/// The stamp of a unit; D2 says that it is one whole version.
pub(super) fn stamp_of(unit: &[u8], what: &str) -> Result<Stamp, Stop> {
    let (first, _) = unit.split_first_chunk::<8>().expect("a unit has 4096 bytes");
    if unit.chunks(8).any(|word| word != first) {
        return Err(Stop::broken("D2", format!("{what} is torn")));
    }
    Ok(Stamp::from_le_bytes(*first))
}

/// A drive with its client's clock.
pub(super) struct Host {
    pub device: Device,
    pub now_ns: u64,
    /// Whether the next command is given before a write is done.
    queues: bool,
    /// Whether all that was acknowledged has been made durable since this was last looked at.
    pub flushed: bool,
    /// The operation at which power goes, counted since the drive was made.
    cut_operation: Option<u64>,
    /// When power goes.
    cut_ns: Option<u64>,
}

impl Host {
    pub fn new(device: Device, queues: bool) -> Host {
        Host { device, now_ns: 0, queues, flushed: false, cut_operation: None, cut_ns: None }
    }

    /// The same host with a copy of the drive.
    pub fn fork(&self) -> Host {
        let device = self.device.try_clone().expect("a drive in memory that was not lost can be copied");
        Host {
            device,
            now_ns: self.now_ns,
            queues: self.queues,
            flushed: self.flushed,
            cut_operation: self.cut_operation,
            cut_ns: self.cut_ns,
        }
    }

    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let flush = matches!(command, Command::Flush);
        // What a write promises is kept all the same: nothing before a flush, or the drive has it before power goes.
        let is_cached = self.device.profile().cache.mode != CacheMode::Off;
        let goes_on = self.queues && is_cached && matches!(command, Command::Write { fua: false, .. });
        let completion = self.device.submit(command, self.now_ns)?;
        if let Some(cut_ns) = self.cut_ns.filter(|cut_ns| completion.done_ns > *cut_ns) {
            // it was under way, and nobody was told that it is done
            self.device.cut_power(cut_ns);
            return Err(Status::PowerLost);
        }
        if !goes_on {
            self.now_ns = self.now_ns.max(completion.done_ns);
        }
        self.flushed |= flush;
        Ok(completion)
    }

    pub fn read(&mut self, lpn: Lpn) -> Result<Stamp, Stop> {
        let mut unit = [0; UNIT_BYTES];
        self.submit(Command::Read { lpn, data: &mut unit })?;
        stamp_of(&unit, &format!("unit {lpn}"))
    }

    /// Power goes at the Nth program or erase from now, also if it is one of a clean shutdown's or of the opening
    /// after it. None disarms.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        self.cut_operation = operations.map(|operations| self.device.flash_operations() + operations);
        self.device.cut_after(operations);
    }

    /// Power goes so long from now, in the command that is under way then. None disarms.
    pub fn cut_at(&mut self, from_now_ns: Option<u64>) {
        self.cut_ns = from_now_ns.map(|from_now_ns| self.now_ns + from_now_ns);
    }

    /// Whether a time at which power goes is set.
    pub fn is_to_be_cut(&self) -> bool {
        self.cut_ns.is_some()
    }

    /// Power comes on again after a cut. [`Stop::PowerLost`] if it went once more.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<RecoveryReport, Stop> {
        match self.device.power_on(loss) {
            Ok(report) => Ok(report),
            // an operation that was cut is still under way
            Err(_) if !self.device.in_flight().is_empty() => Err(Stop::PowerLost),
            Err(error) => Err(Stop::broken("D5", format!("recovery fails: {error}"))),
        }
    }

    /// A clean shutdown, and power on again.
    pub fn power_cycle(&mut self) -> Result<RecoveryReport, Stop> {
        self.device.power_off(self.now_ns)?;
        self.flushed = true;
        let left = self.cut_operation.map(|cut_at| cut_at - self.device.flash_operations());
        self.device.cut_after(left);
        self.power_on(&mut PowerLoss::seeded(0))
    }
}
