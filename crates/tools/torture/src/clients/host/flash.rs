//! How the flash of the drive fails.

use tantalum::Faults;

use super::Host;
use crate::device::stop::Stop;

impl Host {
    /// Lets the flash fail, if it does, in another way for each process that has an image open.
    pub fn let_fail(&mut self, process: u64) -> Result<(), Stop> {
        let faults = self.setup.faults(self.seed);
        if process == 0 || self.image.is_some() {
            self.drive().lock().set_faults(Faults { seed: faults.seed ^ process << 32, ..faults })?;
        }
        Ok(())
    }

    /// Whether the drive takes no more changes.
    pub fn is_worn_out(&self) -> bool {
        self.setup.wears() && self.opened().is_some_and(|drive| drive.lock().smart().read_only)
    }
}
