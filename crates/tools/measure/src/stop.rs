//! Ctrl-C, which means different things at different times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tantalum_report::Monitor;

/// What pressing Ctrl-C means. While a program runs or a mount is watched, the first press ends that, and the results so
/// far are reported; the second one kills the program. Otherwise it ends the current work: the remaining replays are
/// skipped. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a program runs or a mount is watched.
    measures: AtomicBool,
    presses: AtomicU32,
    cancelled: Arc<AtomicBool>,
}

impl Stop {
    /// Ctrl-C was pressed. False if it was pressed before and that has had no effect yet.
    pub fn press(&self) -> bool {
        if self.0.measures.load(Ordering::Relaxed) {
            self.0.presses.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        !self.0.cancelled.swap(true, Ordering::Relaxed)
    }

    /// Shows progress, and is cancelled by a press while nothing is measured.
    pub fn monitor(&self) -> Monitor {
        Monitor::new(Arc::clone(&self.0.cancelled))
    }

    /// The measurement begins or ends.
    pub(crate) fn set_measures(&self, measures: bool) {
        self.0.measures.store(measures, Ordering::Relaxed);
    }

    /// How often Ctrl-C was pressed while something was measured.
    pub(crate) fn presses(&self) -> u32 {
        self.0.presses.load(Ordering::Relaxed)
    }
}
