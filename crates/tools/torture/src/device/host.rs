//! The host: a drive, the clock of its one client, and values that show whether a unit is whole.
//!
//! A host that waits submits a command when the previous one is done. A host with a queue has up to [`QUEUE`] commands
//! in flight, so power may fail when some are done and others are not.
//!
//! A drive in an image is not cut but killed: then stores to the file are counted, not flash operations, and everything
//! answered is done.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Completion, Device, DeviceError, Fills, Handle, HostError, Lpn, METADATA_BYTES, Metadata,
    PowerLoss, Profile, RecoveryReport, Status, UNIT_BYTES,
};

use super::drive::{DriveKind, Medium};
use super::history::{LOST, Stamp};
use super::image_file::ImageFile;
use super::stop::Stop;
use super::trace;

/// Commands that may be in flight.
const QUEUE: usize = 24;

/// A unit that holds a stamp.
pub(crate) fn unit_of(stamp: Stamp) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

/// The stamp of a unit; by D2 it is one whole version.
pub(crate) fn stamp_of(unit: &[u8], what: &str) -> Result<Stamp, Stop> {
    let (first, _) = unit.split_first_chunk::<8>().expect("a unit has 4096 bytes");
    if unit.chunks(8).any(|word| word != first) {
        return Err(Stop::broken("D2", format!("{what} is torn")));
    }
    Ok(Stamp::from_le_bytes(*first))
}

/// Metadata of a unit: odd stamps were written with metadata, even ones without.
pub(crate) fn metadata_of(stamp: Stamp) -> Metadata {
    let mut metadata = [0; METADATA_BYTES];
    if !stamp.is_multiple_of(2) {
        metadata.chunks_mut(8).for_each(|word| word.copy_from_slice(&stamp.rotate_left(17).to_le_bytes()));
    }
    metadata
}

/// What a host does with an image that must survive the loss of the machine.
fn sync(device: &mut Device) -> Result<(), Status> {
    let failed = |error: std::io::Error| {
        let (path, action) = (std::path::PathBuf::new(), "sync the image");
        Status::Host(HostError { path, action, kind: error.kind(), reason: error.to_string() })
    };
    if let Some(sync) = device.sync_begin()? {
        sync.run().map_err(failed)?;
        device.sync_end()?;
    }
    Ok(())
}

fn in_memory(profile: &Profile) -> Result<Device, Stop> {
    Device::in_memory(profile).map_err(|error| Stop::broken("refused", error.to_string()))
}

/// A drive with its client's clock.
pub(super) struct Host {
    pub device: Device,
    pub now_ns: u64,
    pub queues: bool,
    /// Whether its actions are printed on standard error.
    pub trace: bool,
    /// When the commands in flight are done.
    under_way: Vec<u64>,
    /// The operation at which power is lost, counted since the drive was created.
    cut_operation: Option<u64>,
    /// When power is lost.
    cut_ns: Option<u64>,
    /// Operations at which power could not go.
    spared: u64,
    /// Where the drive is, if it is not in memory.
    image: Option<ImageFile>,
}

impl Host {
    /// Checks the maps. No call on the image's file fails meanwhile: this is no command, and could not say so.
    pub fn audit(&self) {
        match self.image.as_ref().filter(|image| image.is_failing()) {
            Some(image) => image.without_failures(|| self.device.audit()),
            None => self.device.audit(),
        }
    }

    /// A host with a new drive.
    pub fn new(drive: &DriveKind, seed: u64) -> Result<Host, Stop> {
        let profile = drive.profile(seed);
        let (image, device) = match drive.medium {
            Medium::Image => ImageFile::create(&profile).map(|(image, device)| (Some(image), device))?,
            Medium::FailingHost => {
                let (image, device) = ImageFile::create_on_failing_host(&profile, seed)?;
                (Some(image), device)
            }
            Medium::Memory => (None, in_memory(&profile)?),
        };
        device.audit();
        Ok(Host {
            device,
            now_ns: 0,
            queues: drive.queues,
            trace: false,
            under_way: Vec::new(),
            cut_operation: None,
            cut_ns: None,
            spared: 0,
            image,
        })
    }

    /// A copy of the host and its drive.
    pub fn fork(&self) -> Host {
        let device = self.device.try_clone().expect("a drive in memory that was not lost can be copied");
        Host {
            device,
            now_ns: self.now_ns,
            queues: self.queues,
            trace: self.trace,
            under_way: self.under_way.clone(),
            cut_operation: self.cut_operation,
            cut_ns: self.cut_ns,
            spared: self.spared,
            image: None,
        }
    }

    /// Whether the drive accepts commands.
    pub fn has_power(&self) -> bool {
        self.device.has_power() && !self.is_killed()
    }

    /// Whether power is lost by killing the process.
    pub fn is_killed(&self) -> bool {
        self.image.as_ref().is_some_and(ImageFile::is_over)
    }

    /// Submits a command without waiting for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        if self.under_way.len() >= QUEUE {
            let first_ns = self.under_way.iter().copied().min().expect("some are under way");
            self.wait_until(first_ns)?;
        }
        if self.is_killed() {
            return Err(Status::PowerLost);
        }
        let told = self.trace.then(|| trace::of(&command)).flatten();
        let answer = self.device.submit(command, self.now_ns);
        if let Some(told) = told {
            trace::answer(self.now_ns, &told, &answer);
        }
        let answer = self.synced(answer);
        if self.is_killed() {
            return Err(Status::PowerLost);
        }
        let completion = answer?;
        if completion.done_ns > self.now_ns {
            self.under_way.push(completion.done_ns);
        }
        Ok(completion)
    }

    /// A handle begins its next reclaim unit.
    pub fn update_handle(&mut self, handle: Handle) -> Result<Completion, Status> {
        if self.is_killed() {
            return Err(Status::PowerLost);
        }
        let answer = self.device.update_handle(handle, self.now_ns);
        let answer = self.synced(answer);
        if self.is_killed() { Err(Status::PowerLost) } else { answer }
    }

    /// Makes what a command changed survive the loss of the machine, if the image can. Notes whether the host failed, if it is to.
    fn synced<T>(&mut self, answer: Result<T, Status>) -> Result<T, Status> {
        let Some(image) = &mut self.image else { return answer };
        let mut answer = answer;
        if answer.is_ok() && image.is_synced() {
            let synced =
                sync(&mut self.device).and_then(|()| image.give_space_back(&mut self.device, self.now_ns));
            answer = answer.and_then(|answer| synced.map(|()| answer));
        }
        image.has_failed |= image.is_failing() && matches!(answer, Err(Status::Host(_)));
        answer
    }

    /// What the drive holds after the host has failed, or nothing if that is not to be checked.
    pub fn read_after_failure(&mut self, lpn: Lpn) -> Option<Vec<u8>> {
        let mut unit = vec![0; UNIT_BYTES];
        self.image.as_ref().filter(|image| image.has_failed)?;
        let read = self.device.submit(Command::Read { lpn, data: &mut unit }, self.now_ns);
        read.ok().map(|_| unit)
    }

    /// The process that has the image open ends, and perhaps the machine. Then looks at the drive as it opens while the
    /// host's disk is full.
    pub fn look_without_room(
        &mut self,
        look: impl FnOnce(Result<Device, DeviceError>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let Some(image) = &mut self.image else { return Ok(()) };
        let nothing = in_memory(self.device.profile())?;
        let device = std::mem::replace(&mut self.device, nothing);
        image.leave(device)?;
        let armed = image.fill_disk();
        let looked = look(image.open());
        image.free_disk(armed);
        looked
    }

    /// Submits a command and waits until it is done.
    pub fn submit_and_wait(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.submit(command)?;
        self.wait_until(completion.done_ns)?;
        Ok(completion)
    }

    /// Buffers filled with units, for half of the writes, if the drive is in an image and has some. The process may be
    /// killed before they are given to the drive.
    pub fn filled(&mut self, data: &[u8], rng: &mut Xoshiro256PlusPlus) -> Result<Option<Fills>, Stop> {
        let Some(image) = self.image.as_mut().filter(|image| !image.is_over()) else {
            return Ok(None);
        };
        if rng.random_ratio(1, 2) {
            return Ok(None);
        }
        let mut fills = self.device.fills(data.len() / UNIT_BYTES)?;
        if let Some(fills) = &mut fills {
            fills.fill(data).map_err(|error| {
                image.has_failed = image.is_failing();
                if image.is_over() { Stop::PowerLost } else { Stop::machine(&error) }
            })?;
        }
        if image.host.life.stores_left().is_some() && rng.random_ratio(1, 64) {
            image.host.life.end();
        }
        Ok(fills)
    }

    /// Lets time pass. Power may be lost meanwhile.
    pub fn wait_until(&mut self, ns: u64) -> Result<(), Status> {
        if let Some(cut_ns) = self.cut_ns.filter(|cut_ns| *cut_ns < ns) {
            match &self.image {
                Some(image) => image.host.life.end(),
                None => self.device.cut_power(cut_ns.max(self.now_ns)),
            }
            return Err(Status::PowerLost);
        }
        self.now_ns = self.now_ns.max(ns);
        self.under_way.retain(|done_ns| *done_ns > self.now_ns);
        Ok(())
    }

    /// Waits for all commands.
    pub fn wait(&mut self) -> Result<(), Status> {
        self.wait_until(self.under_way.iter().copied().max().unwrap_or(self.now_ns))
    }

    /// Between two commands, a host without a queue waits, and another one does so now and then, or for some time.
    pub fn pause(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Status> {
        match rng.random_range(0..8) {
            _ if !self.queues => self.wait(),
            0 => self.wait(),
            1 | 2 => {
                let longest_ns = self.under_way.iter().copied().max().unwrap_or(self.now_ns);
                self.wait_until(rng.random_range(self.now_ns..=longest_ns))
            }
            _ => Ok(()),
        }
    }

    /// Reads a unit, and checks that its metadata are those that were written with it.
    pub fn read(&mut self, lpn: Lpn) -> Result<Stamp, Stop> {
        let (mut unit, mut metadata) = ([0; UNIT_BYTES], [0; METADATA_BYTES]);
        match self.submit(Command::ReadWithMetadata { lpn, data: &mut unit, metadata: &mut metadata }) {
            Err(Status::Unreadable { .. }) => {
                // from then on the loss stays, whatever happens to the power
                self.wait_until(self.device.time_ns())?;
                return Ok(LOST);
            }
            read => drop(read?),
        }
        let stamp = stamp_of(&unit, &format!("unit {lpn}"))?;
        if metadata != metadata_of(stamp) {
            let detail = format!("unit {lpn} holds {stamp} with the metadata {metadata:?}");
            return Err(Stop::broken("D2", detail));
        }
        Ok(stamp)
    }

    /// Reads a unit whose metadata do not match.
    pub fn read_data(&mut self, lpn: Lpn) -> Result<Stamp, Stop> {
        let mut unit = [0; UNIT_BYTES];
        self.submit(Command::Read { lpn, data: &mut unit })?;
        stamp_of(&unit, &format!("unit {lpn}"))
    }

    /// Power is lost at the Nth program or erase from now, even one of a clean shutdown or of the opening after it; or the
    /// process is killed after that many stores. `None` disarms.
    pub fn cut_after(&mut self, operations: Option<u64>) {
        if let Some(image) = &mut self.image {
            return image.end_after(operations);
        }
        self.cut_operation = operations.map(|operations| self.device.flash_operations() + operations);
        self.device.cut_after(operations);
    }

    /// Calls a function with the cut disarmed.
    pub fn uncut<T>(&mut self, action: impl FnOnce(&mut Host) -> T) -> T {
        if self.is_killed() {
            return action(self);
        }
        let (left, before) = (self.operations_left(), self.device.flash_operations());
        let cut_ns = self.cut_ns.take();
        match &mut self.image {
            Some(image) => image.end_after(None),
            None => self.device.cut_after(None),
        }
        let done = action(self);
        self.spared += self.device.flash_operations() - before;
        self.cut_after(left);
        self.cut_ns = cut_ns;
        done
    }

    /// Programs and erases so far at which power could have been lost.
    pub fn operations(&self) -> u64 {
        self.device.flash_operations() - self.spared
    }

    fn operations_left(&self) -> Option<u64> {
        if let Some(image) = &self.image {
            return image.operations_left();
        }
        self.cut_operation.map(|cut_at| cut_at.saturating_sub(self.device.flash_operations()).max(1))
    }

    /// Power is lost after this time, in the command then in flight. `None` disarms.
    pub fn cut_at(&mut self, from_now_ns: Option<u64>) {
        self.cut_ns = from_now_ns.map(|from_now_ns| self.now_ns + from_now_ns);
    }

    /// Whether a time at which power is lost is set.
    pub fn is_to_be_cut(&self) -> bool {
        self.cut_ns.is_some()
    }

    /// Power comes back after a cut. [`Stop::PowerLost`] if it failed again.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<RecoveryReport, Stop> {
        self.under_way.clear();
        let powered_on = match &self.image {
            Some(_) => self.reopen(),
            None => self.device.power_on(loss),
        };
        if self.trace {
            trace::power_on(&powered_on);
        }
        match powered_on {
            // the drive could only be opened to be read
            Ok(_) if self.device.refuses_changes().is_some() && self.has_failing_host() => {
                Err(Stop::PowerLost)
            }
            Ok(report) => {
                self.now_ns = self.now_ns.max(self.device.time_ns());
                Ok(report)
            }
            Err(_) if self.is_killed() => Err(Stop::PowerLost),
            Err(error) if error.host().is_some() && self.has_failing_host() => Err(Stop::PowerLost),
            // an operation that was cut is still in flight
            Err(_) if !self.device.in_flight().is_empty() => Err(Stop::PowerLost),
            Err(error) => Err(Stop::not_recovered(&error)),
        }
    }

    fn has_failing_host(&self) -> bool {
        self.image.as_ref().is_some_and(ImageFile::is_failing)
    }

    /// A new process opens the image.
    fn reopen(&mut self) -> Result<RecoveryReport, DeviceError> {
        let image = self.image.as_ref().expect("who has one reopens it");
        // the old one releases its lock
        self.device = Device::in_memory(self.device.profile())?;
        self.device = image.open()?;
        Ok(*self.device.recovery())
    }

    /// When power was lost: nothing that was due later is certain. For a killed process, time means nothing.
    pub fn cut_ns(&self) -> u64 {
        match &self.image {
            Some(_) => self.under_way.iter().copied().max().unwrap_or(0).max(self.now_ns),
            None => self.device.power_lost_ns().unwrap_or(self.now_ns),
        }
    }

    /// A clean shutdown and power on again, or why the drive could not be shut down.
    pub fn power_cycle(&mut self) -> Result<Result<RecoveryReport, Status>, Stop> {
        self.wait()?;
        let off = self.device.power_off(self.now_ns);
        match self.synced(off) {
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            _ if self.is_killed() => return Err(Stop::PowerLost),
            Err(status) => return Ok(Err(status)),
            Ok(()) => {}
        }
        let left = self.operations_left();
        self.cut_after(left);
        self.power_on(&mut PowerLoss::seeded(0)).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{CacheMode, FlashScheduling, HostFailure, HostFault, Plp};

    use super::super::drive::{Flash, Handles};
    use super::*;
    use crate::device::stop::Broken;

    /// The machine's disk was full, and "power was lost where it was not cut" was told as a broken promise.
    #[test]
    fn a_machine_that_fails_by_itself_is_no_cut() {
        let drive = DriveKind {
            page_bytes: 4096,
            cache: CacheMode::Off,
            plp: Plp::None,
            own_logs: false,
            swaps: false,
            queues: false,
            full: false,
            flash: Flash::Sound,
            medium: Medium::Image,
            scheduling: FlashScheduling::Fifo,
            atomic_write_units: 1,
            handles: Handles::None,
        };
        let mut host = Host::new(&drive, 0).unwrap_or_else(|_| panic!("there is room for an image"));
        let image = host.image.as_ref().unwrap();
        image.host.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true });
        let data = [1; UNIT_BYTES];
        let failed = host
            .submit_and_wait(Command::Write { lpn: Lpn(5), data: &data, fua: true, handle: None })
            .unwrap_err();
        assert!(matches!(failed, Status::Host(_)), "{failed}");
        assert!(matches!(Stop::from(failed), Stop::Broken(Broken { by_machine: true, .. })));
        assert!(!host.is_killed());
    }
}
