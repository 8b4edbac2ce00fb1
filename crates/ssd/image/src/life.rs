//! The life of the process that works on an image, counted in stores to its file, so that a test can end it between any
//! two.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// No end is set.
const ENDLESS: u64 = u64::MAX;
/// The life is over.
const OVER: u64 = u64::MAX - 1;

/// A life that can be ended instead of a real process: the image is then what `kill -9` leaves, and every operation on
/// it fails as without power. See [`crate::TestHost`].
#[derive(Clone, Debug)]
pub struct Life(Arc<AtomicU64>);

impl Default for Life {
    fn default() -> Life {
        Life(Arc::new(AtomicU64::new(ENDLESS)))
    }
}

impl Life {
    /// The next `stores` stores are made, and the one after them partly or not at all. `None` means no end; this also
    /// revives an ended life, for the next time the image is opened.
    pub fn end_after(&self, stores: Option<u64>) {
        self.0.store(stores.map_or(ENDLESS, |stores| stores.min(OVER - 1)), Ordering::Relaxed);
    }

    /// Ends the life now.
    pub fn end(&self) {
        self.0.store(OVER, Ordering::Relaxed);
    }

    /// Stores left; `None` if no end is set.
    pub fn stores_left(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|left| *left < OVER)
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OVER
    }

    /// How many bytes of a store are made if the process ends in it.
    ///
    /// # Errors
    /// [`Ended`] with the number of bytes that must be stored nevertheless.
    pub(super) fn store(&self, at: u64, bytes: usize) -> Result<(), Ended> {
        match self.0.load(Ordering::Relaxed) {
            ENDLESS => Ok(()),
            OVER => Err(Ended { stored: 0 }),
            0 => {
                self.end();
                // any part may be there, and tests should see many of them
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
pub(crate) struct Ended {
    /// Bytes of the last store that reach the file.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_life_stores_nothing_until_it_is_revived() {
        let life = Life::default();
        assert!(!life.is_over());
        life.end_after(Some(1));
        assert_eq!(life.stores_left(), Some(1));
        life.store(0, 16).unwrap();
        assert!(life.store(16, 16).unwrap_err().stored <= 16, "the last may be made in part");
        assert!(life.is_over());
        for at in [32, 48] {
            assert_eq!(life.store(at, 16).unwrap_err().stored, 0);
        }
        life.end_after(None);
        assert!(!life.is_over());
        life.store(64, 16).unwrap();
    }
}
