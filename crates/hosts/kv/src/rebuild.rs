//! Rebuilt stores: from a backup, or from a store that gets another capacity or returns space.

use std::path::Path;

use tantalum::{Access, Device, Profile};

use crate::backup;
use crate::copy::{Copied, Loader, copy};
use crate::error::Error;
use crate::files::{make_new, replace};
use crate::options::{Options, Sync};
use crate::store::Store;

impl Options {
    /// Creates a store from a backup, in an image that must not exist. The image appears when it is complete. A damaged
    /// backup gives [`Error::Backup`] and leaves no image.
    pub fn restore(self, backup: impl AsRef<Path>, image: impl AsRef<Path>) -> Result<Copied, Error> {
        let (backup, image) = (backup.as_ref(), image.as_ref());
        if image.exists() {
            return Err(Error::Exists { path: image.to_owned() });
        }
        let profile = self.new_profile()?;
        let mut copied = Copied::default();
        let is_new = make_new(image, |unfinished| {
            copied = self.fill(unfinished, &profile, |loader| backup::read(backup, loader))?;
            Ok(())
        })?;
        if is_new { Ok(copied) } else { Err(Error::Exists { path: image.to_owned() }) }
    }

    /// Copies a store into a new image, which replaces the old one when it is complete: with another `capacity_bytes`,
    /// if that is set, and otherwise to return space, more than [`Store::compact`] does. A drive cannot change its capacity
    /// in place. The store must not be open; nothing is lost if this is interrupted at any point. The disk must have room
    /// for both images.
    pub fn rebuild(self, image: impl AsRef<Path>) -> Result<Copied, Error> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let image = image.as_ref();
        let as_it_is = Options { capacity_bytes: None, ..self.clone() };
        // a host without room for what opening changes can still be read from
        let device = Device::open_or_read(image, as_it_is.access())?.0;
        let mut profile = match self.profile {
            Some(_) => self.new_profile()?,
            None => device.profile().clone(),
        };
        profile.capacity_bytes = self.capacity_bytes.unwrap_or(device.profile().capacity_bytes);
        // it stays open until the new image has replaced it, so that nobody else changes it
        let old = Store::over(device, as_it_is)?;
        let mut copied = Copied::default();
        replace(image, |unfinished| {
            copied = self.fill(unfinished, &profile, |loader| copy(&old.snapshot()?, loader))?;
            Ok(())
        })?;
        Ok(copied)
    }

    /// Creates an image and fills it.
    fn fill(
        &self,
        path: &Path,
        profile: &Profile,
        load: impl FnOnce(&mut Loader<'_>) -> Result<Copied, Error>,
    ) -> Result<Copied, Error> {
        let device = Device::create(path, profile)?;
        let now_ns = device.time_ns();
        device.shutdown(now_ns)?;
        let device = Device::open_as(path, Access::Write)?;
        let options = Options { capacity_bytes: None, sync: Sync::None, read_only: false, ..self.clone() };
        let store = Store::over(device, options)?;
        let mut loader = Loader::new(&store);
        let copied = load(&mut loader)?;
        loader.finish()?;
        drop(loader);
        store.close()?;
        Ok(copied)
    }
}
