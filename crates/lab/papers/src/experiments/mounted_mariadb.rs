//! MariaDB on copies of an aged drive.

use std::path::{Path, PathBuf};

use tantalum::Usage;

use super::Run;
use super::binds::Phase;
use super::rig::copy_image;
use crate::error::ExperimentError;
use crate::servers::{MariaDb, MariaDbOptions, Mount, MountOptions, copy_tree};

/// Where InnoDB's log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LogPlace {
    /// With the data.
    Drive,
    /// On a second drive like the first.
    SecondDrive,
    /// On the machine's own disk.
    Machine,
}

impl LogPlace {
    /// In the words of a set-up.
    pub(super) fn described(self) -> &'static str {
        match self {
            LogPlace::Drive => "the same drive",
            LogPlace::SecondDrive => "a second such drive",
            LogPlace::Machine => "the machine's own disk",
        }
    }
}

/// The starting point of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start<'a> {
    /// The folder of all of this.
    pub folder: &'a Path,
    /// The image of a drive with a file system, aged or not, and a stopped server's data.
    pub aged: &'a Path,
    pub loaded: &'a Path,
    pub log: LogPlace,
    pub mount: MountOptions,
}

/// Readings of a server's drives: usage and seconds.
#[derive(Clone, Debug)]
pub(super) struct DrivesUsage {
    data: (Usage, f64),
    log: Option<(Usage, f64)>,
}

impl DrivesUsage {
    /// What they did since an earlier reading: the drive of the data, and that of the log.
    pub(super) fn since(&self, before: &DrivesUsage) -> Drives {
        let log = before.log.as_ref().zip(self.log.as_ref());
        Drives {
            data: Phase::between(&before.data, &self.data),
            log: log.map(|(before, after)| Phase::between(before, after)),
        }
    }
}

/// What a server's drives did in some time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drives {
    pub data: Phase,
    pub log: Option<Phase>,
}

impl Drives {
    /// Each with a name, for a table.
    pub(super) fn named(&self, case: &str) -> impl Iterator<Item = (String, Phase)> {
        let log = self.log.map(|phase| (format!("{case}, log"), phase));
        std::iter::once((case.to_owned(), self.data)).chain(log)
    }
}

/// MariaDB on a copy of an aged drive with a copy of its data. Dropping it kills it and unmounts its drives.
#[derive(Debug)]
pub(super) struct MountedMariaDb {
    // in the order in which they must end
    pub server: MariaDb,
    pub mount: Mount,
    log_mount: Option<Mount>,
}

impl MountedMariaDb {
    /// Copies, mounts and starts.
    pub(super) fn start(
        run: &Run<'_>,
        from: Start<'_>,
        mut options: MariaDbOptions,
    ) -> Result<MountedMariaDb, ExperimentError> {
        let drive = DriveCopy::copy(run, from, "drive")?;
        let log_drive = match from.log {
            LogPlace::SecondDrive => Some(DriveCopy::copy(run, from, "log-drive")?),
            LogPlace::Drive | LogPlace::Machine => None,
        };
        options.log_folder = match from.log {
            LogPlace::Drive => None,
            LogPlace::SecondDrive => log_drive.as_ref().map(|drive| drive.folder.join("log")),
            LogPlace::Machine => Some(from.folder.join("log")),
        };
        let data = drive.folder.join("data");
        // Copying the files is not measured, so the drives answer at once.
        let mount_all = |options| -> Result<(Mount, Option<Mount>), ExperimentError> {
            // the server itself syncs its log once for each group of commits
            let of_log = MountOptions { sync_writes: false, ..options };
            let log_mount = log_drive.as_ref().map(|drive| drive.mount(run, of_log)).transpose()?;
            Ok((drive.mount(run, options)?, log_mount))
        };
        let at_once = mount_all(MountOptions { real_time: false, ..from.mount })?;
        copy_tree(from.loaded, &data)?;
        if let Some(folder) = &options.log_folder {
            MariaDb::move_log(&data, folder)?;
        }
        unmount_all(at_once)?;
        let (mount, log_mount) = mount_all(from.mount)?;
        run.monitor.check()?;
        let server = MariaDb::start(&data, from.folder, &options)?;
        Ok(MountedMariaDb { server, mount, log_mount })
    }

    /// What its drives have done: that of the data, and that of the log if the log has a separate one.
    pub(super) fn usage(&self) -> Result<DrivesUsage, ExperimentError> {
        let log = self.log_mount.as_ref().map(Mount::usage).transpose()?;
        Ok(DrivesUsage { data: self.mount.usage()?, log })
    }

    /// Ends the server at once, and with it anything that waits for its drives.
    pub(super) fn kill(&self) {
        self.server.kill();
        self.mount.abort();
        self.log_mount.iter().for_each(Mount::abort);
    }

    /// Ends it. The data are no longer needed, so the server gets no time to write them all.
    pub(super) fn end(self) -> Result<(), ExperimentError> {
        drop(self.server);
        unmount_all((self.mount, self.log_mount))
    }
}

fn unmount_all((mount, log_mount): (Mount, Option<Mount>)) -> Result<(), ExperimentError> {
    mount.unmount()?;
    log_mount.map_or(Ok(()), |mount| Ok(mount.unmount()?))
}

/// A copy of the aged drive.
struct DriveCopy {
    image: PathBuf,
    folder: PathBuf,
}

impl DriveCopy {
    fn copy(run: &Run<'_>, from: Start<'_>, name: &str) -> Result<DriveCopy, ExperimentError> {
        run.monitor.check()?;
        let image = from.folder.join(format!("{name}.img"));
        copy_image(run, from.aged, &image).map_err(ExperimentError::file(&image))??;
        Ok(DriveCopy { image, folder: from.folder.join(name) })
    }

    fn mount(&self, run: &Run<'_>, options: MountOptions) -> Result<Mount, ExperimentError> {
        run.monitor.check()?;
        Ok(Mount::new(run.program, &self.image, &self.folder, options)?)
    }
}
