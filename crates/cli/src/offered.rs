//! Lets `tantalum watch` look at the drives of an experiment, which are in this process.
//!
//! An experiment makes drives as it needs them, often several at a time. The newest one is shown. Only a drive in a
//! [`tantalum_drive::Drive`] can be seen, not a device that an experiment has for itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tantalum::RecoveryReport;
use tantalum_drive::control::{self, Control, End, Subject, socket_path};
use tantalum_drive::{NewDrives, Observer, new_drives};

use crate::failure::Failure;

/// An option of commands that run experiments.
#[derive(Args, Debug)]
pub struct OfferOptions {
    /// Let `tantalum watch NAME` show the drives of this run while it is in progress, through the socket NAME.sock
    #[arg(long, value_name = "NAME")]
    pub watch: Option<PathBuf>,
}

/// Drives are offered until this is dropped.
#[must_use]
pub struct Offer(Option<PathBuf>);

struct Offered {
    name: PathBuf,
    drives: NewDrives,
    end: End,
}

impl OfferOptions {
    /// Offers the drives that are made from now on, if that is wanted.
    pub fn offer(&self) -> Result<Offer, Failure> {
        let Some(name) = &self.watch else { return Ok(Offer(None)) };
        let refused = |why: String| Failure::Offer { socket: socket_path(name), why };
        if Control::connect(name).is_ok() {
            return Err(refused("another process answers there".to_owned()));
        }
        let offered = Offered { name: name.clone(), drives: new_drives(), end: End::default() };
        control::serve(Arc::new(offered)).map_err(|error| refused(error.to_string()))?;
        Ok(Offer(Some(socket_path(name))))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(socket) = &self.0 {
            let _ = std::fs::remove_file(socket);
        }
    }
}

impl Offered {
    fn newest(&self) -> Result<(u64, Observer), String> {
        self.drives.newest().ok_or_else(|| "the experiment has no drive at the moment".to_owned())
    }
}

impl Subject for Offered {
    fn image(&self) -> &Path {
        &self.name
    }

    fn look(&self) -> Result<serde_json::Value, String> {
        let (number, observer) = self.newest()?;
        let mut name = self.name.clone().into_os_string();
        name.push(format!(", drive {number}"));
        let look = observer.look(name.into(), None).ok_or("the experiment has just given up its drive")?;
        Ok(serde_json::to_value(look).expect("a look is plain data"))
    }

    fn stat(&self) -> Result<serde_json::Value, String> {
        Err("an experiment prints its own figures; look at its drive with `tantalum watch`".to_owned())
    }

    fn recover(&self) -> Result<RecoveryReport, String> {
        Err("an experiment's drive recovers when the experiment wants it".to_owned())
    }

    fn cut(&self, _after_flash_operations: Option<u64>, _seed: u64) -> Result<bool, String> {
        Err("an experiment cuts power itself".to_owned())
    }

    fn stop(&self) -> Result<(), String> {
        Err("it is an experiment; end it with Ctrl-C".to_owned())
    }

    fn end(&self) -> &End {
        &self.end
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};
    use tantalum_drive::Drive;
    use tantalum_drive::look::Look;

    use super::*;

    #[test]
    fn the_newest_drive_is_offered_and_only_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("run");
        let options = OfferOptions { watch: Some(name.clone()) };
        let offer = options.offer().unwrap();
        assert!(matches!(options.offer(), Err(Failure::Offer { .. })), "the socket is taken");
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("openssd-barefoot").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let mut control = Control::connect(&name).unwrap();
        let look: Look = control.look().unwrap();
        assert!(look.image.to_string_lossy().contains("run, drive "), "{:?}", look.image);
        assert_eq!((look.profile.as_str(), look.time), ("openssd-barefoot", None));
        assert!(control.cut(None, 1).is_err() && drive.lock().has_power());
        drop(offer);
        assert!(Control::connect(&name).is_err());
    }
}
