//! A drive's image, mounted by the `tantalum` command.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, umount2};
use serde::Deserialize;
use tantalum::{Counters, Usage};
use tantalum_filesystem::LogStatistics;

use super::images_in_use::InUse;
use super::program::run;
use super::{ServerError, ServerFolder};

/// How an image is mounted.
#[derive(Clone, Copy, Debug)]
pub struct MountOptions {
    /// Whether programs see the drive's latencies.
    pub real_time: bool,
    /// Whether a block that repeats a recent write is shared instead of written.
    pub remap_duplicates: bool,
    /// Whether each write of whole units is all or nothing.
    pub atomic_writes: bool,
    /// Whether a flush follows each write.
    pub sync_writes: bool,
}

/// A mounted image. Dropped, it is unmounted.
#[derive(Debug)]
pub struct Mount {
    program: PathBuf,
    folder: PathBuf,
    is_mounted: bool,
    _in_use: InUse,
}

impl Mount {
    /// Mounts an existing image with a volume. `program` is the `tantalum` command.
    pub fn new(
        program: &Path,
        image: &Path,
        folder: &Path,
        options: MountOptions,
    ) -> Result<Mount, ServerError> {
        std::fs::create_dir_all(folder).map_err(ServerError::file(folder))?;
        let mut command = Command::new(program);
        command.arg("mount").arg(image).arg(folder).arg("--background");
        command.args(["--time", if options.real_time { "real" } else { "none" }]);
        if !options.remap_duplicates {
            command.arg("--no-remap-duplicates");
        }
        if options.atomic_writes {
            command.arg("--atomic-writes");
        }
        if options.sync_writes {
            command.arg("--sync-writes");
        }
        run("tantalum mount", &mut command)?;
        let _in_use = InUse::note(image);
        Ok(Mount { program: program.to_owned(), folder: folder.to_owned(), is_mounted: true, _in_use })
    }

    /// Cuts power at a flash operation from now on, or at once.
    pub fn cut(&self, after_flash_operations: Option<u64>, seed: u64) -> Result<(), ServerError> {
        let mut command = Command::new(&self.program);
        command.arg("cut").arg(&self.folder).args(["--seed", &seed.to_string()]);
        if let Some(operations) = after_flash_operations {
            command.args(["--after-flash-ops", &operations.to_string()]);
        }
        run("tantalum cut", &mut command).map(drop)
    }

    /// Whether the drive has power.
    pub fn has_power(&self) -> Result<bool, ServerError> {
        let report = self.report()?;
        report["has_power"].as_bool().ok_or(ServerError::Counters { field: "has_power" })
    }

    /// Fails all requests that wait for the drive, now and from now on: not even a killed program ends before they are
    /// answered. Only root may do this; for others the requests take as long as the drive does.
    pub fn abort(&self) {
        // The folder is in use, so it stays mounted; but FUSE treats the attempt as a request to give up.
        let _ = umount2(&self.folder, MntFlags::MNT_FORCE);
    }

    /// What the drive's parts have done, and the drive's time in seconds.
    pub fn usage(&self) -> Result<(Usage, f64), ServerError> {
        let report = self.report()?;
        let usage =
            Usage::deserialize(&report["usage"]).map_err(|_| ServerError::Counters { field: "usage" })?;
        let seconds = report["device_seconds"].as_f64();
        Ok((usage, seconds.ok_or(ServerError::Counters { field: "device_seconds" })?))
    }

    /// What its log-structured file system and the drive below have done so far, once everything is durable.
    pub fn log_statistics(&self) -> Result<(LogStatistics, Counters), ServerError> {
        let sync = || File::open(&self.folder)?.sync_all();
        sync().map_err(ServerError::file(&self.folder))?;
        let report = self.report()?;
        let log = LogStatistics::deserialize(&report["volume"]["log"]);
        let counters = Counters::deserialize(&report["smart"]);
        Ok((
            log.map_err(|_| ServerError::Counters { field: "volume.log" })?,
            counters.map_err(|_| ServerError::Counters { field: "smart" })?,
        ))
    }

    /// Unmounts and waits until the image is closed.
    pub fn unmount(mut self) -> Result<(), ServerError> {
        // A mount that cannot be unmounted properly is taken down when it is dropped.
        self.try_unmount()?;
        self.is_mounted = false;
        Ok(())
    }

    fn try_unmount(&self) -> Result<(), ServerError> {
        run("tantalum unmount", Command::new(&self.program).arg("unmount").arg(&self.folder)).map(drop)
    }

    fn report(&self) -> Result<serde_json::Value, ServerError> {
        let mut command = Command::new(&self.program);
        let json = run("tantalum stat", command.arg("stat").arg(&self.folder).arg("--json"))?;
        serde_json::from_slice(&json).map_err(|_| ServerError::Counters { field: "JSON" })
    }
}

impl ServerFolder for Mount {
    fn folder(&self) -> &Path {
        &self.folder
    }

    fn counters(&self) -> Result<Counters, ServerError> {
        Counters::deserialize(&self.report()?["smart"]).map_err(|_| ServerError::Counters { field: "smart" })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted
            && self.try_unmount().is_err()
            && umount2(&self.folder, MntFlags::MNT_DETACH).is_err()
        {
            // an ordinary user's
            let mut helper = Command::new("fusermount3");
            let _ = helper.args(["-u", "-z", "-q", "--"]).arg(&self.folder).status();
        }
    }
}
