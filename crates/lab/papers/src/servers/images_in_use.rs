//! The images that other processes use for this one's servers: an experiment's drives, for observers.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static IMAGES: Mutex<Images> = Mutex::new(Images { count: 0, in_use: Vec::new() });

struct Images {
    count: u64,
    /// With their numbers, the newest last.
    in_use: Vec<(u64, PathBuf)>,
}

/// The newest image that is mounted or served, and its number, counted from 1.
pub fn newest_image() -> Option<(u64, PathBuf)> {
    images().in_use.last().cloned()
}

/// An image is in use until this is dropped.
#[derive(Debug)]
pub(super) struct InUse(u64);

impl InUse {
    /// Notes that the image is in use, as the newest.
    pub(super) fn note(image: &Path) -> InUse {
        let mut images = images();
        images.count += 1;
        let number = images.count;
        images.in_use.push((number, image.to_owned()));
        InUse(number)
    }

    /// It counts as the newest from now on, because it is being worked on.
    pub(super) fn begin_work(&self) {
        images().in_use.sort_by_key(|(number, _)| *number == self.0);
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        images().in_use.retain(|(number, _)| *number != self.0);
    }
}

/// The list is intact even if a thread panicked.
fn images() -> MutexGuard<'static, Images> {
    IMAGES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests mount nothing, so they do not change the list.
    #[test]
    fn the_newest_image_is_the_last_one_in_use_or_the_one_that_is_worked_on() {
        let newest = || newest_image().map(|(_, image)| image);
        let first = InUse::note(Path::new("a"));
        let second = InUse::note(Path::new("b"));
        assert_eq!(newest(), Some("b".into()));
        first.begin_work();
        assert_eq!(newest(), Some("a".into()));
        drop(first);
        assert_eq!(newest(), Some("b".into()));
        drop(second);
        assert_eq!(newest(), None);
    }
}
