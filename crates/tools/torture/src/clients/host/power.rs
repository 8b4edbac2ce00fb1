//! How power is lost, and comes back: to a drive in memory, or to an image that a new process opens.

use tantalum::{DeviceError, PowerLoss, RecoveryReport, Status};
use tantalum_drive::Drive;

use super::{Arrival, Host};
use crate::device::stop::Stop;

/// How power is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::clients) enum Loss {
    /// The drive loses power.
    Power,
    /// The process that has the image open is killed.
    Kill,
}

impl Host {
    /// Power is lost in this way from now on, if the drive is in an image.
    pub fn lose_by(&mut self, loss: Loss) {
        self.loss = if self.image.is_some() { loss } else { Loss::Power };
    }

    /// Whether power is lost by killing the process.
    pub fn dies(&self) -> bool {
        self.loss == Loss::Kill
    }

    /// Power is lost at the Nth program or erase from now, even one of a clean shutdown or of the opening after it; or the
    /// process is killed after that many stores. `None` disarms.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        let stores = operations.filter(|_| self.loss == Loss::Kill);
        match &self.image {
            Some(image) if self.has_power() => image.host.life.end_after(stores),
            _ => self.next_end = stores,
        }
        if self.loss == Loss::Kill {
            return;
        }
        self.cut_operation = None;
        if let Some(drive) = &self.drive {
            let mut device = drive.lock();
            self.cut_operation = operations.map(|operations| device.flash_operations() + operations);
            device.cut_after(operations);
        }
    }

    /// Power is lost after this time. `None` disarms.
    pub fn cut_at(&mut self, from_now_ns: Option<u64>) {
        self.cut_ns = from_now_ns.map(|from_now_ns| self.now_ns + from_now_ns);
    }

    /// Whether a time at which power is lost is set.
    pub fn is_to_be_cut(&self) -> bool {
        self.cut_ns.is_some()
    }

    /// When power was lost; none if the process was killed, for which time means nothing.
    pub fn lost_ns(&self) -> Option<u64> {
        let drive = self.drive.as_ref().filter(|_| !self.is_killed())?;
        drive.lock().power_lost_ns()
    }

    /// Power has gone: ends all waits, and returns what the clients were told about them.
    pub fn end_waits(&mut self) -> Vec<Arrival> {
        if !self.is_killed() {
            self.ways.iter().for_each(|way| while way.queue.answers().deliver_next().is_some() {});
        }
        self.arrivals()
    }

    /// Power comes back after a cut. [`Stop::PowerLost`] if it failed again.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<RecoveryReport, Stop> {
        let powered_on = match &self.image {
            Some(_) => self.reopen(loss),
            None => self.drive().lock().power_on(loss),
        };
        if self.trace {
            crate::device::trace::power_on(&powered_on);
        }
        let report = powered_on.map_err(|error| {
            let in_flight = |drive: &Drive| !drive.lock().in_flight().is_empty();
            match self.is_killed() || self.drive.as_ref().is_some_and(in_flight) {
                true => Stop::PowerLost,
                false => Stop::not_recovered(&error),
            }
        })?;
        if self.image.is_none() {
            let device_ns = self.drive().lock().time_ns();
            self.now_ns = self.now_ns.max(device_ns);
            // what a client knew of the drive ended with the power
            self.open_ways()?;
        }
        Ok(report)
    }

    /// A new process opens the image.
    fn reopen(&mut self, loss: &mut PowerLoss) -> Result<RecoveryReport, DeviceError> {
        self.ways.clear();
        if let Some(programs) = self.programs.take() {
            self.memories = programs.memories();
        }
        if let Some(drive) = self.drive.take() {
            let mut device = drive.into_device().expect("nobody else has it");
            if !self.is_killed() && !device.has_power() {
                device.settle_power_loss(loss)?;
            }
        }
        let image = self.image.as_ref().expect("who has one reopens it");
        if self.is_killed() || self.next_end.is_some() {
            image.host.life.end_after(self.next_end.take());
        }
        let device = image.open()?;
        let report = *device.recovery();
        self.attach(device).map_err(|_| DeviceError::Shutdown(Status::PowerLost))?;
        Ok(report)
    }

    /// A clean shutdown and power on again. The drive's reason if it refuses to shut down.
    pub fn power_cycle(&mut self) -> Result<Result<RecoveryReport, Status>, Stop> {
        let closed = match &self.image {
            Some(_) => self.drive().lock().put_away(self.now_ns),
            None => self.drive().lock().power_off(self.now_ns),
        };
        if self.is_killed() {
            return Err(Stop::PowerLost);
        }
        match closed {
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            Err(status) => return Ok(Err(status)),
            Ok(_) => {}
        }
        match self.cut_operation.take() {
            Some(cut_at) if self.image.is_none() => {
                let done = self.drive().lock().flash_operations();
                self.cut_after(Some(cut_at.saturating_sub(done).max(1)));
            }
            _ => {}
        }
        self.power_on(&mut PowerLoss::seeded(0)).map(Ok)
    }
}
