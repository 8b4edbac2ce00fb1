//! A drive, served by the `tantalum` command.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use tantalum::Counters;

use super::ServerError;
use super::images_in_use::InUse;
use super::program::run;

/// A served drive. Dropped, it is stopped.
#[derive(Debug)]
pub struct Served {
    program: PathBuf,
    image: PathBuf,
    /// Where it listens on the loopback interface.
    pub port: String,
    /// The subsystem's name.
    pub name: String,
    in_use: InUse,
}

impl Served {
    /// Creates an image and serves it, as fast as this machine can. `program` is the `tantalum` command.
    pub fn create(
        program: &Path,
        image: &Path,
        capacity_bytes: u64,
        remap_duplicates: bool,
    ) -> Result<Served, ServerError> {
        let mut command = Command::new(program);
        command.arg("serve").arg(image).args(["--create", "--capacity", &capacity_bytes.to_string()]);
        command.args(["--time", "none", "--listen", "127.0.0.1:0", "--background"]);
        if remap_duplicates {
            command.arg("--remap-duplicates");
        }
        let said = run("tantalum serve", &mut command)?;
        let said = String::from_utf8_lossy(&said);
        let word = |flag: &str| said.split(flag).nth(1)?.split_whitespace().next();
        let (Some(port), Some(name)) = (word(" -s "), word(" -n ")) else {
            let status = "it did not say where it listens".to_owned();
            let program = "tantalum serve".to_owned();
            return Err(ServerError::Failed { program, status, message: said.into_owned() });
        };
        let (port, name) = (port.to_owned(), name.to_owned());
        let in_use = InUse::note(image);
        Ok(Served { program: program.to_owned(), image: image.to_owned(), port, name, in_use })
    }

    /// This drive is being worked on from now on, so it is the one shown to observers.
    pub fn begin_work(&self) {
        self.in_use.begin_work();
    }

    /// What the drive has done so far.
    pub fn counters(&self) -> Result<Counters, ServerError> {
        let json = self.tell("stat", &["--json"])?;
        let report: serde_json::Value =
            serde_json::from_slice(&json).map_err(|_| ServerError::Counters { field: "JSON" })?;
        Counters::deserialize(&report["smart"]).map_err(|_| ServerError::Counters { field: "smart" })
    }

    fn tell(&self, command: &'static str, options: &[&str]) -> Result<Vec<u8>, ServerError> {
        run(
            &format!("tantalum {command}"),
            Command::new(&self.program).arg(command).arg(&self.image).args(options),
        )
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.tell("stop", &[]);
    }
}
