//! The drives made in this process. An experiment creates its own: to look at them, call [`new_drives`] before it begins.

use std::fmt;
use std::sync::OnceLock;

use parking_lot::Mutex;

use crate::guard::WeakDrive;

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

/// Without anybody who asks, each new drive costs only a look at this.
static MADE: OnceLock<Mutex<Made>> = OnceLock::new();

/// From now on the drives made in this process are listed.
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
    pub fn newest(self) -> Option<(u64, WeakDrive)> {
        let made = self.0.lock();
        let newest = made.drives.iter().rev().find(|(_, drive)| drive.is_there());
        newest.map(|(number, drive)| (*number, drive.clone()))
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
    fn a_weak_reference_does_not_keep_the_drive() {
        let drive = drive();
        let weak = drive.downgrade();
        assert!(weak.with(|device| device.has_power()).unwrap());
        assert!(drive.into_device().is_ok());
        assert!(weak.with(|device| device.has_power()).is_none());
    }

    #[test]
    fn the_newest_drive_is_the_last_one_that_is_still_there() {
        let made = new_drives();
        let (first, second) = (drive(), drive());
        let (number, newest) = made.newest().unwrap();
        // other tests make drives too
        let (later, _copy) = (made.newest().unwrap().0, second.try_clone().unwrap());
        assert!(later >= number && made.newest().unwrap().0 > later);
        drop((first, second, newest));
    }
}
