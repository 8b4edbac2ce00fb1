//! A drive that several clients share.

use std::fmt;
use std::sync::Arc;

use tantalum::Device;

use crate::duplicates::Duplicates;
use crate::guard::{DeviceGuard, Shared, WeakDrive};
use crate::made;

/// A device and its clients' common time. A clone is the same drive.
#[derive(Clone)]
pub struct Drive {
    shared: Arc<Shared>,
    /// Counts the clones. A [`WeakDrive`] holds `shared` for a moment without being one.
    clones: Arc<()>,
}

impl Drive {
    /// A drive without clients.
    pub fn new(device: Device) -> Drive {
        Drive::with(device, None)
    }

    fn with(device: Device, duplicates: Option<Box<Duplicates>>) -> Drive {
        let drive = Drive { shared: Arc::new(Shared::new(device, duplicates)), clones: Arc::default() };
        made::note_new(drive.downgrade());
        drive
    }

    /// Locks the device: for a command, or for anything else that a device does. Waits until no other thread holds it.
    ///
    /// # Panics
    /// If this thread already holds the device: it would wait for itself forever.
    pub fn lock(&self) -> DeviceGuard<'_> {
        self.shared.lock()
    }

    /// The device, if this is the only clone of the drive; the drive otherwise.
    pub fn into_device(self) -> Result<Device, Drive> {
        let Drive { mut shared, clones } = self;
        if let Err(clones) = Arc::try_unwrap(clones) {
            return Err(Drive { shared, clones });
        }
        loop {
            match Arc::try_unwrap(shared) {
                Ok(shared) => return Ok(shared.into_device()),
                // an answer is being delivered
                Err(busy) => shared = busy,
            }
            std::thread::yield_now();
        }
    }

    /// A separate drive with a copy of the device and no clients. None if the device cannot be copied.
    pub fn try_clone(&self) -> Option<Drive> {
        let locked = self.lock();
        Some(Drive::with(locked.try_clone()?, locked.state.duplicates.clone()))
    }

    /// Calls `tell` whenever power is lost, until it returns false. It must not lock the device.
    pub fn on_power_loss(&self, tell: impl Fn() -> bool + Send + 'static) {
        self.lock().state.tell_of_power_loss(Box::new(tell));
    }

    /// A reference for looking at the drive, which does not keep it alive.
    pub fn downgrade(&self) -> WeakDrive {
        WeakDrive::of(&self.shared)
    }
}

impl fmt::Debug for Drive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive").finish_non_exhaustive()
    }
}
