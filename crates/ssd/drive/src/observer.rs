//! Looking at a drive without being its client: an observer does not keep the drive alive, and delays its clients only
//! briefly.
//!
//! An experiment creates its own drives. To look at them, call [`new_drives`] before it begins.

use std::fmt;
use std::path::PathBuf;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::locked::WeakDrive;
use crate::look::Look;
use crate::pacing::Pacing;

/// Looks at a drive, for as long as somebody else has it.
pub struct Observer(WeakDrive);

/// The drives made in this process since somebody asked for them.
#[derive(Clone, Copy)]
pub struct NewDrives(&'static Mutex<Made>);

#[derive(Default)]
struct Made {
    count: u64,
    /// With their numbers, the newest last. Drives that no longer exist are dropped from the list when another one is
    /// made.
    drives: Vec<(u64, WeakDrive)>,
}

/// Without observers, each new drive costs only a look at this.
static MADE: OnceLock<Mutex<Made>> = OnceLock::new();

/// From now on the drives made in this process can be observed.
pub fn new_drives() -> NewDrives {
    NewDrives(MADE.get_or_init(Mutex::default))
}

/// A drive was made.
pub(crate) fn note_new(drive: WeakDrive) {
    if let Some(made) = MADE.get() {
        let mut made = made.lock();
        made.drives.retain(|(_, drive)| drive.is_there());
        made.count += 1;
        let number = made.count;
        made.drives.push((number, drive));
    }
}

impl NewDrives {
    /// The newest drive that still exists, and its number, counted from 1.
    pub fn newest(self) -> Option<(u64, Observer)> {
        let made = self.0.lock();
        let newest = made.drives.iter().rev().find(|(_, drive)| drive.is_there());
        newest.map(|(number, drive)| (*number, Observer(drive.clone())))
    }
}

impl Observer {
    /// The drive at a glance; the caller supplies `image` and how it is used. `None` if nobody has it any more.
    pub fn look(&self, image: PathBuf, time: Option<Pacing>) -> Option<Look> {
        Look::at(&self.0, image, time)
    }

    pub(crate) fn of(drive: WeakDrive) -> Observer {
        Observer(drive)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").finish_non_exhaustive()
    }
}

impl fmt::Debug for NewDrives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewDrives").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};

    use super::*;
    use crate::drive::Drive;

    fn drive() -> Drive {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("openssd-barefoot").unwrap() };
        Drive::new(Device::in_memory(&profile).unwrap())
    }

    /// A mount could not be closed cleanly while somebody watched it.
    #[test]
    fn an_observer_does_not_keep_the_drive() {
        let drive = drive();
        let observer = drive.observer();
        assert!(observer.look(PathBuf::new(), None).is_some());
        assert!(drive.into_device().is_ok());
        assert!(observer.look(PathBuf::new(), None).is_none());
    }

    #[test]
    fn the_newest_drive_is_the_last_one_that_is_still_there() {
        let made = new_drives();
        let (first, second) = (drive(), drive());
        let (number, observer) = made.newest().unwrap();
        // other tests make drives too
        let (later, _copy) = (made.newest().unwrap().0, second.try_clone().unwrap());
        assert!(later >= number && made.newest().unwrap().0 > later);
        drop((first, second, observer));
    }
}
