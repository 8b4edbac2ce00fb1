//! Lets `tantalum watch` look at the drives of an experiment: those in this process, and those that it has mounted or served
//! for servers.
//!
//! An experiment creates drives as it needs them, often several at a time. The newest one is shown; a mounted or served one
//! takes precedence over those in this process. In this process only a drive in a [`tantalum_drive::Drive`] can be seen,
//! not a device that an experiment uses directly.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use tantalum::RecoveryReport;
use tantalum_control::{self as control, Control, End, Look, Socket, Subject, socket_path};
use tantalum_drive::{NewDrives, new_drives};
use tantalum_papers::servers::newest_image;

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
pub struct Offer {
    _socket: Option<Socket>,
}

struct Offered {
    name: PathBuf,
    drives: NewDrives,
    /// A connection to the process that uses the image last looked at, with the image's number.
    elsewhere: Mutex<Option<(u64, Control)>>,
    end: End,
}

impl OfferOptions {
    /// Offers the drives created from now on, if requested.
    pub fn offer(&self) -> Result<Offer, Failure> {
        let Some(name) = &self.watch else { return Ok(Offer { _socket: None }) };
        let refused = |why: String| Failure::Offer { socket: socket_path(name), why };
        let offered = Offered {
            name: name.clone(),
            drives: new_drives(),
            elsewhere: Mutex::default(),
            end: End::default(),
        };
        let socket = control::serve(Arc::new(offered)).map_err(|error| refused(error.to_string()))?;
        Ok(Offer { _socket: Some(socket) })
    }
}

impl Offered {
    /// The experiment, and which of its drives: a page starts over for another one.
    fn named(&self, which: &str) -> PathBuf {
        let mut name = self.name.clone().into_os_string();
        name.push(format!(", {which}"));
        name.into()
    }

    fn look_here(&self) -> Result<serde_json::Value, String> {
        let newest = self.drives.newest();
        let (number, drive) = newest.ok_or("the experiment has no drive at the moment")?;
        let look = Look::at(&drive, self.named(&format!("drive {number}")), None);
        let look = look.ok_or("the experiment has just given up its drive")?;
        Ok(serde_json::to_value(look).expect("a look is plain data"))
    }

    /// The connection is kept: the process that uses the image counts writes by file as long as it exists.
    fn look_elsewhere(&self, number: u64, image: &Path) -> Result<serde_json::Value, String> {
        let mut elsewhere = self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner);
        let known = elsewhere.take().filter(|(known, _)| *known == number);
        let mut control = match known {
            Some((_, control)) => control,
            None => Control::connect(image).map_err(|error| error.to_string())?,
        };
        let mut look: serde_json::Value = control.look().map_err(|error| error.to_string())?;
        let file = image.file_name().unwrap_or_default().to_string_lossy();
        look["image"] = self.named(&format!("image {number} ({file})")).to_string_lossy().into();
        *elsewhere = Some((number, control));
        Ok(look)
    }

    fn leave(&self) {
        *self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Subject for Offered {
    fn image(&self) -> &Path {
        &self.name
    }

    fn look(&self) -> Result<serde_json::Value, String> {
        match newest_image() {
            Some((number, image)) => self.look_elsewhere(number, &image),
            None => {
                self.leave();
                self.look_here()
            }
        }
    }

    fn end_watch(&self) {
        self.leave();
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
