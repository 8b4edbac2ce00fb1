//! A drive in an image, whose process is killed between any two stores to the file, or whose host fails.

use std::path::PathBuf;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Access, Device, DeviceError, HostFailure, HostFault, Mapping, Portion, Profile, Slack, Status, TestHost,
};
use tantalum_report::temporary_folder;
use tempfile::TempDir;

use super::stop::Stop;

/// An image in a folder that is removed with this value.
pub(crate) struct ImageFile {
    path: PathBuf,
    /// The host, with the life of the process that has it open.
    pub host: TestHost,
    access: Access,
    /// If the host fails: how.
    failing: Option<Xoshiro256PlusPlus>,
    /// The host has failed a command.
    pub has_failed: bool,
    _folder: TempDir,
}

impl ImageFile {
    /// A new image of a drive, and the drive in it, whose process will be killed.
    pub fn create(profile: &Profile) -> Result<(ImageFile, Device), Stop> {
        ImageFile::create_with(profile, Mapping::Allowed, Access::Write, None)
    }

    /// A new image on a host that will fail, and the drive in it. Seeds differ in how the image is opened and mapped.
    pub fn create_on_failing_host(profile: &Profile, seed: u64) -> Result<(ImageFile, Device), Stop> {
        let (mapping, access) = match seed % 6 {
            0 | 2 | 4 => (Mapping::Allowed, Access::Ordered),
            1 | 3 => (Mapping::Allowed, Access::Write),
            _ => (Mapping::Never, Access::Write),
        };
        let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        ImageFile::create_with(profile, mapping, access, Some(rng))
    }

    fn create_with(
        profile: &Profile,
        mapping: Mapping,
        access: Access,
        mut failing: Option<Xoshiro256PlusPlus>,
    ) -> Result<(ImageFile, Device), Stop> {
        let folder = temporary_folder("tantalum-crash-").map_err(|error| Stop::machine(&error.error))?;
        let path = folder.path().join("tortured.tant");
        drop(Device::create(&path, profile).map_err(|error| Stop::machine(&error))?);
        let host = TestHost::new(mapping, failing.as_mut().map_or(0, |rng| rng.random()));
        let image = ImageFile { path, host, access, failing, has_failed: false, _folder: folder };
        let device = image.open().map_err(|error| Stop::machine(&error))?;
        Ok((image, device))
    }

    /// Opens the image, after the process that had it open has ended. If the host fails, perhaps only to be read.
    pub fn open(&self) -> Result<Device, DeviceError> {
        let (mut device, why) = Device::open_or_read_on(&self.path, self.access, &self.host)?;
        if let Some(why) = why {
            device.refuse_changes(why);
        }
        Ok(device)
    }

    /// Whether what was synced survives the loss of the machine.
    pub fn is_synced(&self) -> bool {
        self.access == Access::Ordered
    }

    /// Whether its host fails.
    pub fn is_failing(&self) -> bool {
        self.failing.is_some()
    }

    /// Whether its process can do nothing more.
    pub fn is_over(&self) -> bool {
        self.host.life.is_over() || self.has_failed
    }

    /// The process is killed after so many stores, or a call after so many others fails. `None` disarms.
    pub fn end_after(&mut self, operations: Option<u64>) {
        self.has_failed = false;
        let Some(rng) = &mut self.failing else { return self.host.life.end_after(operations) };
        self.host.life.end_after(None);
        match operations {
            None => self.host.faults.heal(),
            Some(after) => self.host.faults.fail(HostFault {
                after,
                failure: if rng.random_ratio(1, 2) { HostFailure::Io } else { HostFailure::NoSpace },
                lasts: rng.random_ratio(1, 2),
            }),
        }
    }

    /// What is left until then.
    pub fn operations_left(&self) -> Option<u64> {
        match self.failing {
            None => self.host.life.stores_left(),
            Some(_) => self.host.faults.armed().map(|fault| fault.after),
        }
    }

    /// Ends the use of the image: the drive is dropped, which may store what is left, or its process is killed. The machine
    /// may be lost, too, if the image must survive that.
    pub fn leave(&mut self, device: Device) -> Result<(), Stop> {
        let Some(rng) = &mut self.failing else { return Ok(()) };
        if rng.random_ratio(1, 2) {
            self.host.life.end();
        }
        drop(device);
        self.host.life.end_after(None);
        if self.access == Access::Ordered && rng.random_ratio(1, 2) {
            let lost = self.host.faults.lose_machine(&self.path);
            lost.map_err(|error| Stop::machine(&error))?;
        }
        Ok(())
    }

    /// Now and then space goes back to the host, as much as can or some of it.
    pub fn give_space_back(&mut self, device: &mut Device, now_ns: u64) -> Result<(), Status> {
        let Some(rng) = &mut self.failing else { return Ok(()) };
        if rng.random_ratio(3, 4) {
            return Ok(());
        }
        let slack = Slack { garbage_percent: rng.random_range(0..2) * 25, units: rng.random_range(0..4) };
        let portion = Portion { blocks: rng.random_range(0..4), holes: rng.random_range(0..4) };
        device.give_space_back(slack, portion, now_ns)?;
        if rng.random_ratio(1, 8) { device.sync_in_place() } else { Ok(()) }
    }

    /// Calls a function during which the host does not fail.
    pub fn without_failures(&self, work: impl FnOnce()) {
        let armed = self.host.faults.armed();
        self.host.faults.heal();
        work();
        self.arm(armed);
    }

    /// Fills the host's disk. Returns what was armed.
    pub fn fill_disk(&self) -> Option<HostFault> {
        let armed = self.host.faults.armed();
        self.host.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true });
        armed
    }

    /// The disk has room again, and what was armed is.
    pub fn free_disk(&self, armed: Option<HostFault>) {
        self.arm(armed);
    }

    fn arm(&self, armed: Option<HostFault>) {
        match armed {
            None => self.host.faults.heal(),
            Some(fault) => self.host.faults.fail(fault),
        }
    }
}
