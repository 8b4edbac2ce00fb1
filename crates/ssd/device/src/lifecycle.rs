//! Creating, opening and shutting down a drive; power loss and power on.

use std::path::Path;

use tantalum_ftl::{
    FormatError, Ftl, FtlConfig, FtlError, Layout, LayoutError, NvmPlan, RecoveryReport, protected_bytes,
};
use tantalum_nand::{
    Access, Faults, Geometry, HostError, HostSync, InFlight, LostProgram, MediumError, Nand, NandError,
    Nanoseconds, Operation, Outcome, StepFault, TestHost,
};

use crate::controller::{Device, Power};
use crate::engine::Engine;
use crate::power::PowerLoss;
use crate::profile::{InvalidField, Plp, Profile, ProfileError};
use crate::status::Status;

/// Why a drive could not be created or opened.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The profile, given or kept in the image.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A profile with a value that no drive can have.
    #[error("profile: {0}")]
    Invalid(#[from] InvalidField),
    /// The medium or its image failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// An operation of the medium failed.
    #[error(transparent)]
    Nand(#[from] NandError),
    /// The FTL failed: a profile that cannot be laid out, or damaged flash.
    #[error(transparent)]
    Ftl(#[from] FormatError),
    /// A repaired drive could not be shut down.
    #[error("the drive could not be shut down: {0}")]
    Shutdown(Status),
    /// A check was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl DeviceError {
    /// How the host failed, if that is the reason.
    pub fn host(&self) -> Option<&HostError> {
        let nand = match self {
            DeviceError::Medium(MediumError::Nand(error)) | DeviceError::Nand(error) => error,
            DeviceError::Ftl(FormatError::Ftl(FtlError::Nand(error))) => error,
            _ => return None,
        };
        match nand {
            NandError::Host(error) => Some(error),
            _ => None,
        }
    }
}

/// Seed of the factory bad blocks, which are the same in every drive of a profile.
const FACTORY_SEED: u64 = 0x7A17_A10B;

impl Device {
    /// A new drive whose flash is in host memory. [`Device::try_clone`] can copy it.
    pub fn in_memory(profile: &Profile) -> Result<Device, DeviceError> {
        profile.validate()?;
        let geometry = profile.geometry().map_err(LayoutError::from).map_err(FormatError::from)?;
        let mut nand = Nand::in_memory(geometry, profile.timing())?;
        if let Some(shape) = profile.nvm_shape() {
            nand = nand.with_nvm(shape)?;
        }
        Device::format(nand, profile)
    }

    /// A new drive in an image file (sparse). The file must not exist. If that fails, it still does not.
    pub fn create(path: &Path, profile: &Profile) -> Result<Device, DeviceError> {
        Device::create_with(path, profile, None)
    }

    /// Creates an image file as [`Device::create`] does, on a host that a test lets fail.
    pub fn create_on(path: &Path, profile: &Profile, host: &TestHost) -> Result<Device, DeviceError> {
        Device::create_with(path, profile, Some(host))
    }

    fn create_with(path: &Path, profile: &Profile, host: Option<&TestHost>) -> Result<Device, DeviceError> {
        // a drive that cannot be laid out leaves no file behind
        let (geometry, config, layout) = Device::planned(profile)?;
        let protected = match profile.power.plp {
            Plp::None | Plp::Nvm => 0,
            Plp::Capacitor => protected_bytes(&geometry, layout.dump_blocks, &config),
        };
        let (timing, nvm) = (profile.timing(), profile.nvm_shape());
        let nand = Nand::create_with(path, geometry, timing, &profile.to_toml(), protected, nvm, host)?;
        Device::format(nand, profile).inspect_err(|_| {
            // a drive without its format is no drive, and the error matters more than a file that stays
            let _ = std::fs::remove_file(path);
        })
    }

    /// Fails if no drive of this profile can be made, as [`Device::create`] would, and makes none.
    pub fn check_profile(profile: &Profile) -> Result<(), DeviceError> {
        Device::planned(profile).map(drop)
    }

    /// The flash of a profile, and what it is used for.
    fn planned(profile: &Profile) -> Result<(Geometry, FtlConfig, Layout), DeviceError> {
        profile.validate()?;
        let geometry = profile.geometry().map_err(LayoutError::from).map_err(FormatError::from)?;
        let config = profile.ftl_config();
        let layout =
            Layout::plan(&geometry, &config, profile.flash.factory_bad_blocks).map_err(FormatError::from)?;
        NvmPlan::plan(&geometry, &config, &layout).map_err(FormatError::from)?;
        Ok((geometry, config, layout))
    }

    fn format(mut nand: Nand, profile: &Profile) -> Result<Device, DeviceError> {
        nand.retire_factory_bad(profile.flash.factory_bad_blocks, FACTORY_SEED)?;
        nand.set_scheduling(profile.scheduling());
        let ftl = Ftl::format(nand, profile.ftl_config())?;
        let mut device = Device::without_power(profile.clone());
        device.come_up(ftl, RecoveryReport { clean: true, ..RecoveryReport::default() });
        Ok(device)
    }

    /// Opens an image: locks it against other processes, and recovers.
    pub fn open(path: &Path) -> Result<Device, DeviceError> {
        Device::open_as(path, Access::Write)
    }

    /// Opens an image as [`Device::open`] does. With [`Access::Overlay`] the file is only read: everything that the
    /// drive writes, including recovery, stays in memory and vanishes with it.
    pub fn open_as(path: &Path, access: Access) -> Result<Device, DeviceError> {
        Device::of_image(path, Nand::open_as(path, access)?)
    }

    /// Opens an image as [`Device::open_as`] does. If the host cannot store what opening changes, for instance because its
    /// disk is full, the drive is opened as with [`Access::Overlay`], and the second value says why. Once its client has
    /// recovered too, what the drive has must only be read: [`Device::refuse_changes`].
    pub fn open_or_read(path: &Path, access: Access) -> Result<(Device, Option<Status>), DeviceError> {
        Device::or_read(access, |access| Device::open_as(path, access), DeviceError::host)
    }

    /// Opens an image as [`Device::open_or_read`] does, on a host that a test lets fail.
    pub fn open_or_read_on(
        path: &Path,
        access: Access,
        host: &TestHost,
    ) -> Result<(Device, Option<Status>), DeviceError> {
        Device::or_read(access, |access| Device::open_on(path, access, host), DeviceError::host)
    }

    /// Opens a drive together with its client, to be read only if the host cannot store changes (see
    /// [`Device::open_or_read`]): `open` opens both, and `host` says how the host failed, if that is why
    /// it could not.
    ///
    /// # Errors
    /// Those of `open`. What cannot be opened to be read either has the first error.
    pub fn or_read<T, E>(
        access: Access,
        mut open: impl FnMut(Access) -> Result<T, E>,
        host: impl Fn(&E) -> Option<&HostError>,
    ) -> Result<(T, Option<Status>), E> {
        let error = match open(access) {
            Err(error) if access != Access::Overlay => error,
            opened => return Ok((opened?, None)),
        };
        let Some(why) = host(&error).cloned() else { return Err(error) };
        let opened = open(Access::Overlay).map_err(|_| error)?;
        Ok((opened, Some(Status::WriteProtected(why))))
    }

    /// Opens an image as [`Device::open_as`] does, on a host that a test lets fail at any call on the file, or on which it
    /// ends the process between any two stores, also during recovery. From the end of the process on, commands that change
    /// something fail with [`Status::PowerLost`], and the image is what a killed process leaves.
    pub fn open_on(path: &Path, access: Access, host: &TestHost) -> Result<Device, DeviceError> {
        Device::of_image(path, Nand::open_on(path, access, host)?)
    }

    fn of_image(path: &Path, mut nand: Nand) -> Result<Device, DeviceError> {
        let profile = Profile::from_toml(nand.description(), &path.display().to_string())?;
        nand.set_scheduling(profile.scheduling());
        let (ftl, report) = Ftl::recover(nand, profile.ftl_config(), 0).map_err(|(_, error)| error)?;
        let mut device = Device::without_power(profile);
        device.come_up(ftl, report);
        Ok(device)
    }

    pub(crate) fn come_up(&mut self, mut ftl: Ftl, report: RecoveryReport) {
        self.ready_ns = ftl.nand().idle_ns();
        ftl.nand_mut().advance(self.ready_ns);
        self.link.restart(self.ready_ns);
        self.recovery = report;
        self.settled_read_only = ftl.is_read_only();
        self.doubt = None;
        self.power_ons += 1;
        self.power = Power::On(Box::new(Engine::new(ftl, &self.profile)));
    }

    /// Shuts down cleanly: flushes, takes a checkpoint, closes the image.
    pub fn shutdown(mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        self.close(at_ns)?;
        self.close_image()
    }

    /// What a drive that was shut down leaves in its image beside what a killed one does. One that must only be read leaves
    /// nothing.
    fn close_image(&mut self) -> Result<(), Status> {
        match self.refuses_changes() {
            Some(_) => Ok(()),
            None => self.engine_mut()?.ftl.nand_mut().leave_summary().map_err(Status::from),
        }
    }

    /// Shuts down cleanly as [`Device::shutdown`] does, for a device that is shared with others: closes the image, and
    /// fails every later command. If that fails, the device is still there, and has the image open.
    pub fn put_away(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        self.close(at_ns)?;
        self.close_image()?;
        self.let_go();
        Ok(())
    }

    /// Closes the image as it is, as dropping the device does, for one that is shared with others. Every later command fails.
    pub fn let_go(&mut self) {
        self.power = Power::Off(None);
    }

    /// Shuts down cleanly and stays without power until [`Device::power_on`]. If power is lost meanwhile, the shutdown
    /// was not clean.
    pub fn power_off(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let closed_ns = self.close(at_ns)?;
        if let Power::On(engine) = std::mem::replace(&mut self.power, Power::Off(None)) {
            let mut nand = engine.ftl.into_nand();
            nand.advance(closed_ns);
            self.power = Power::Off(Some(Box::new(nand)));
        }
        Ok(())
    }

    fn close(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        if !self.has_power() {
            return Err(Status::PowerLost);
        }
        match self.check_doubt() {
            // nothing was changed
            Err(Status::WriteProtected(_)) => Ok(self.time_ns().max(at_ns)),
            Err(status) => Err(status),
            Ok(()) => self.engine_mut()?.close(at_ns),
        }
    }

    // -- surviving the loss of the machine ----------------------------------------------------------------------

    /// Gathers what changed in the image since the last call. Once the returned sync has run, these changes survive the
    /// loss of the machine; then call [`Device::sync_end`]. None if nothing changed, and for a drive that was not
    /// opened with [`Access::Ordered`]. Changes made in between belong to the next sync. If the sync fails, the drive
    /// must be reopened.
    pub fn sync_begin(&mut self) -> Result<Option<HostSync>, Status> {
        self.engine_mut()?.ftl.nand_mut().sync_begin().map_err(Status::from)
    }

    /// The sync that [`Device::sync_begin`] returned has run.
    pub fn sync_end(&mut self) -> Result<(), Status> {
        self.engine_mut()?.ftl.nand_mut().sync_end().map_err(Status::from)
    }

    /// Makes everything durable in place, beside what [`Device::sync_begin`] does; no sync may be under way. Nothing for a
    /// drive that was not opened with [`Access::Ordered`]. If it fails, the drive must be reopened.
    pub fn sync_in_place(&mut self) -> Result<(), Status> {
        self.engine_mut()?.ftl.nand_mut().sync_in_place().map_err(Status::from)
    }

    // -- media faults and the end of life -----------------------------------------------------------------------

    /// From now on, until the image is reopened, flash operations fail according to `faults` (M6).
    ///
    /// # Errors
    /// [`Status::PowerLost`] without power.
    pub fn set_faults(&mut self, faults: Faults) -> Result<(), Status> {
        self.engine_mut()?.ftl.nand_mut().set_faults(faults);
        Ok(())
    }

    /// From now on a step inside a command fails; `None` disarms it. For tests of what a command leaves that fails in the
    /// middle. [`Device::step_has_failed`] says whether it did.
    ///
    /// # Errors
    /// [`Status::PowerLost`] without power.
    pub fn fail_step(&mut self, fault: Option<StepFault>) -> Result<(), Status> {
        self.engine_mut()?.ftl.nand_mut().fail_step(fault);
        Ok(())
    }

    /// Whether the step of [`Device::fail_step`] has failed; false without power.
    pub fn step_has_failed(&self) -> bool {
        self.ftl().is_some_and(|ftl| ftl.nand().step_has_failed())
    }

    /// Whether too few good blocks are left for writes; false without power.
    pub fn is_read_only(&self) -> bool {
        self.ftl().is_some_and(|ftl| ftl.is_read_only())
    }

    /// Arms a power cut: the Nth program or erase from now finds no power (1 is the next). `None` disarms it. While
    /// power is off, this arms a cut for the next recovery.
    pub fn cut_after(&mut self, flash_operations: Option<u64>) {
        match &mut self.power {
            Power::On(engine) if engine.ftl.nand().has_power() => {
                engine.ftl.nand_mut().cut_after(flash_operations);
            }
            _ => self.next_cut = flash_operations,
        }
    }

    /// Whether the drive has power and accepts commands.
    pub fn has_power(&self) -> bool {
        self.ftl().is_some_and(|ftl| ftl.nand().has_power())
    }

    /// Power fails at `at_ns`, but not before the last command.
    pub fn cut_power(&mut self, at_ns: Nanoseconds) {
        if let Power::On(engine) = &mut self.power {
            engine.ftl.nand_mut().power_fail(at_ns);
        }
    }

    /// When power failed, if it has not come back.
    pub fn power_lost_ns(&self) -> Option<Nanoseconds> {
        self.nand()?.cut_ns()
    }

    /// Programs and erases issued so far, for enumerating cut points.
    pub fn flash_operations(&self) -> u64 {
        self.nand().map_or(0, Nand::operations)
    }

    /// After power failed: the operations that had started and were not done, in the order of issue. [`PowerLoss`]
    /// decides their outcome.
    pub fn in_flight(&self) -> Vec<InFlight> {
        self.nand().map_or_else(Vec::new, |nand| nand.in_flight().collect())
    }

    fn nand(&self) -> Option<&Nand> {
        match &self.power {
            Power::On(engine) => Some(engine.ftl.nand()),
            Power::Off(nand) => nand.as_deref(),
        }
    }

    /// Power has failed and does not come back in this process. `loss` decides the outcome of operations in flight, and a
    /// capacitor dumps what waited in DRAM. The image is then closed in the state that such a power cut leaves; opening
    /// it recovers.
    pub fn settle_power_loss(&mut self, loss: &mut PowerLoss) -> Result<(), DeviceError> {
        if let Power::On(engine) = std::mem::replace(&mut self.power, Power::Off(None)) {
            self.settle(*engine, loss)?;
        }
        Ok(())
    }

    /// Power comes back after a cut. `loss` decides the outcome of operations in flight; a capacitor has dumped what
    /// waited in DRAM. If power fails again during recovery, call this again.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<RecoveryReport, DeviceError> {
        let nand = match std::mem::replace(&mut self.power, Power::Off(None)) {
            Power::On(engine) => self.settle(*engine, loss)?,
            Power::Off(Some(mut nand)) => {
                settle_nand(&mut nand, loss)?;
                *nand
            }
            Power::Off(None) => {
                // a power_on that failed for another reason left nothing to continue with
                return Err(FormatError::Ftl(FtlError::Nand(NandError::PowerLost)).into());
            }
        };
        self.recover(nand)
    }

    fn recover(&mut self, mut nand: Nand) -> Result<RecoveryReport, DeviceError> {
        nand.lose_dram();
        nand.cut_after(self.next_cut.take());
        // reads that were in flight before are over as well, and power may have failed later
        let at_ns = nand.idle_ns().max(nand.programs_done_ns()).max(nand.now_ns());
        match Ftl::recover(nand, self.profile.ftl_config(), at_ns) {
            Ok((ftl, mut report)) => {
                report.units_restored += std::mem::take(&mut self.dumped_units);
                self.come_up(ftl, report);
                Ok(report)
            }
            Err((nand, error)) => {
                self.power = Power::Off(Some(nand));
                Err(error.into())
            }
        }
    }

    /// Settles the operations in flight, and lets the capacitor do its work.
    fn settle(&mut self, mut engine: Engine, loss: &mut PowerLoss) -> Result<Nand, DeviceError> {
        let nand = engine.ftl.nand_mut();
        let cut_ns = nand.cut_ns().unwrap_or(nand.programs_done_ns());
        // the capacitor lasts for the whole dump
        nand.cut_after(None);
        let (last, lost) = settle_nand(nand, loss)?;
        let (nand, dumped_units) = engine.lose_power(last, lost, cut_ns).map_err(FormatError::from)?;
        self.dumped_units = dumped_units;
        Ok(nand)
    }
}

/// Settles the operations in flight. Returns the operation at which power failed, and the lost programs.
fn settle_nand(
    nand: &mut Nand,
    loss: &mut PowerLoss,
) -> Result<(Option<Operation>, Vec<LostProgram>), DeviceError> {
    let last = nand.in_flight().last().map(|in_flight| in_flight.operation);
    let fates: Vec<Outcome> = nand.in_flight().map(|in_flight| loss.outcome(&in_flight)).collect();
    let mut fates = fates.into_iter();
    let lost = nand.resolve(
        &mut |_| fates.next().expect("the medium asks for each operation in flight, in order"),
        &mut || loss.random(),
    )?;
    assert!(
        fates.len() == 0,
        "{} operations were in flight, but the medium did not ask for them",
        fates.len()
    );
    Ok((last, lost))
}
