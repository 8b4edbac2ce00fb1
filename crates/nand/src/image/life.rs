//! How long the process that works on an image lives, in stores to its file: so that a test ends it between any two.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No end is set.
const ENDLESS: u64 = u64::MAX;
/// It is over.
const OVER: u64 = u64::MAX - 1;

/// A life that may be ended in place of a process's: the image is then what `kill -9` leaves, and everything on it fails
/// as without power. See [`crate::Nand::open_for`].
#[derive(Clone, Debug)]
pub struct Life(Arc<AtomicU64>);

impl Default for Life {
    fn default() -> Life {
        Life(Arc::new(AtomicU64::new(ENDLESS)))
    }
}

impl Life {
    /// The next so many stores are made, and the one after them in part or not at all. None for a life without end, also
    /// after one that was over: for the next time that the image is opened.
    pub fn end_after(&self, stores: Option<u64>) {
        self.0.store(stores.map_or(ENDLESS, |stores| stores.min(OVER - 1)), Ordering::Relaxed);
    }

    /// It ends now.
    pub fn end(&self) {
        self.0.store(OVER, Ordering::Relaxed);
    }

    /// Stores that it has left; none if it has no end.
    pub fn stores_left(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|left| *left < OVER)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OVER
    }

    /// Of a store of so many bytes, those that are made if the process ends in it.
    ///
    /// # Errors
    /// [`Ended`] with how many bytes are to be stored all the same.
    pub(super) fn store(&self, at: u64, bytes: usize) -> Result<(), Ended> {
        match self.0.load(Ordering::Relaxed) {
            ENDLESS => Ok(()),
            OVER => Err(Ended { stored: 0 }),
            0 => {
                self.end();
                // any part may be there, and tests are to see many
                let drawn = (at / 16).wrapping_add(bytes as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                Err(Ended { stored: (drawn % (bytes as u64 + 1)) as usize })
            }
            left => {
                self.0.store(left - 1, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

/// The process has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// Bytes of the last store that are in the file.
    pub stored: usize,
}

impl Ended {
    /// Whether this is why a store failed.
    pub fn is_why(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|source| source.is::<Ended>())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process was ended")
    }
}

impl std::error::Error for Ended {}

impl From<Ended> for io::Error {
    fn from(ended: Ended) -> io::Error {
        io::Error::other(ended)
    }
}
