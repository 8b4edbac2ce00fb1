//! A volume that a step mounts, and that is unmounted however the step ends.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::context::Context;
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// A mounted volume.
pub struct Mounted<'a> {
    context: &'a Context,
    pub image: PathBuf,
    pub folder: PathBuf,
    is_mounted: bool,
    /// The process that has it mounted, by its number.
    pub process: String,
}

impl<'a> Mounted<'a> {
    /// Creates a drive in `folder` and mounts it there.
    pub fn create(
        context: &'a Context,
        folder: &Path,
        capacity: &str,
        options: &[&str],
    ) -> Result<Mounted<'a>, Failure> {
        let image = folder.join("drive.tant");
        let mounted_on = folder.join("mnt");
        std::fs::create_dir_all(&mounted_on)?;
        let mut mounted =
            Mounted { context, image, folder: mounted_on, is_mounted: false, process: String::new() };
        let all: Vec<&str> = ["--create", "--capacity", capacity].iter().chain(options).copied().collect();
        mounted.mount(&all)?;
        Ok(mounted)
    }

    /// Mounts it, in the background.
    pub fn mount(&mut self, options: &[&str]) -> Result<(), Failure> {
        let said = Shell::new(&self.context.tantalum)
            .args(["mount"])
            .args([&self.image, &self.folder])
            .args(["--background"])
            .args(options)
            .run()?;
        let process = said.split(" process ").nth(1).and_then(|rest| rest.split_whitespace().next());
        self.process = process.unwrap_or_default().trim_end_matches([',', ';']).to_owned();
        self.is_mounted = true;
        Ok(())
    }

    /// Unmounts it, and waits until the image is closed.
    pub fn unmount(&mut self) -> Result<(), Failure> {
        Shell::new(&self.context.tantalum).args(["unmount"]).args([&self.folder]).run()?;
        self.is_mounted = false;
        Ok(())
    }

    /// Unmounts it, which must exit with 2 because the volume cannot be closed. Returns its standard error.
    pub fn unmount_badly(&mut self) -> Result<String, Failure> {
        let output = Shell::new(&self.context.tantalum).args(["unmount"]).args([&self.folder]).output()?;
        self.is_mounted = false;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_clear = said.starts_with("error: ") && said.lines().count() == 1;
        ensure(output.status.code() == Some(2) && is_clear, || {
            format!("unmount ended with {} and said {said:?}", output.status)
        })?;
        Ok(said)
    }

    /// Something else has unmounted it.
    pub fn is_unmounted(&mut self) {
        self.is_mounted = false;
    }

    /// The contents of the log beside the image.
    pub fn log(&self) -> Result<String, Failure> {
        let mut path = self.image.clone().into_os_string();
        path.push(".log");
        Ok(std::fs::read_to_string(path)?)
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
