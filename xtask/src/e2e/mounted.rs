//! A volume that a step mounts, and that is unmounted whatever becomes of the step.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Context;
use super::failure::Failure;
use super::shell::Shell;

/// A mounted volume.
pub struct Mounted<'a> {
    context: &'a Context,
    pub image: PathBuf,
    pub folder: PathBuf,
    is_mounted: bool,
}

impl<'a> Mounted<'a> {
    /// Makes a drive in `folder` and mounts it there.
    pub fn create(
        context: &'a Context,
        folder: &Path,
        capacity: &str,
        options: &[&str],
    ) -> Result<Mounted<'a>, Failure> {
        let image = folder.join("drive.tant");
        let mounted_on = folder.join("mnt");
        std::fs::create_dir_all(&mounted_on)?;
        let mut mounted = Mounted { context, image, folder: mounted_on, is_mounted: false };
        let all: Vec<&str> = ["--create", "--capacity", capacity].iter().chain(options).copied().collect();
        mounted.mount(&all)?;
        Ok(mounted)
    }

    /// Mounts it, in the background.
    pub fn mount(&mut self, options: &[&str]) -> Result<(), Failure> {
        Shell::new(&self.context.tantalum)
            .args(["mount"])
            .args([&self.image, &self.folder])
            .args(["--background"])
            .args(options)
            .run()?;
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts it, and waits until the image is closed.
    pub fn unmount(&mut self) -> Result<(), Failure> {
        Shell::new(&self.context.tantalum).args(["unmount"]).args([&self.folder]).run()?;
        self.is_mounted = false;
        Ok(())
    }

    /// Unmounts and mounts.
    pub fn remount(&mut self, options: &[&str]) -> Result<(), Failure> {
        self.unmount()?;
        self.mount(options)
    }

    /// `tantalum stat --json`.
    pub fn stat(&self) -> Result<Value, Failure> {
        let printed =
            Shell::new(&self.context.tantalum).args(["stat", "--json"]).args([&self.folder]).run()?;
        Ok(serde_json::from_str(&printed)?)
    }

    /// `tantalum cut`.
    pub fn cut(&self, options: &[&str]) -> Result<String, Failure> {
        Shell::new(&self.context.tantalum).args(["cut"]).args([&self.folder]).args(options).run()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        if self.is_mounted && self.unmount().is_err() {
            // A step that failed may have left files open.
            let _ = Shell::new("umount").args(["--lazy"]).args([&self.folder]).run();
        }
    }
}
