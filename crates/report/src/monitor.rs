//! Progress, and requests to stop.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::error::Interrupted;

/// Shows how far an experiment is, on standard error if that is a terminal, and tells it when to stop. Clones are
/// the same monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    bars: MultiProgress,
    cancelled: Arc<AtomicBool>,
}

impl Monitor {
    /// Shows progress; stops when `cancelled` becomes true.
    pub fn new(cancelled: Arc<AtomicBool>) -> Monitor {
        Monitor { bars: MultiProgress::new(), cancelled }
    }

    /// Shows nothing and never stops.
    pub fn silent() -> Monitor {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        Monitor { bars, cancelled: Arc::default() }
    }

    /// A new bar of `steps` steps. It vanishes when it is dropped.
    pub fn bar(&self, label: impl Into<String>, steps: u64) -> Bar {
        let style = ProgressStyle::with_template("{prefix:>12} [{bar:40}] {percent:>3} % {left}{msg}")
            .expect("the template is valid")
            .with_key("left", left)
            .progress_chars("=> ");
        let bar = self.bars.add(ProgressBar::new(steps).with_style(style).with_prefix(label.into()));
        bar.tick();
        Bar { bar, cancelled: Arc::clone(&self.cancelled) }
    }

    /// Fails if the experiment should stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        check(&self.cancelled)
    }
}

/// How long it will take at the pace so far; nothing before the first step.
fn left(state: &ProgressState, text: &mut dyn Write) {
    if state.pos() > 0 {
        let _ = write!(text, "{} left ", HumanDuration(state.eta()));
    }
}

/// The progress of one part of an experiment.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    cancelled: Arc<AtomicBool>,
}

impl Bar {
    /// Some steps were done. Fails if the experiment should stop.
    pub fn advance(&self, steps: u64) -> Result<(), Interrupted> {
        self.bar.inc(steps);
        check(&self.cancelled)
    }

    /// This many steps are done in total. Fails if the experiment should stop.
    pub fn reach(&self, steps: u64) -> Result<(), Interrupted> {
        self.bar.set_position(steps);
        check(&self.cancelled)
    }

    /// Fails if the experiment should stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        check(&self.cancelled)
    }

    /// What stands beside the bar.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn check(cancelled: &AtomicBool) -> Result<(), Interrupted> {
    if cancelled.load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelling_stops_the_next_step() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let monitor = Monitor::new(Arc::clone(&cancelled));
        let bar = monitor.bar("work", 10);
        assert!(bar.advance(1).is_ok());
        cancelled.store(true, Ordering::Relaxed);
        assert!(matches!(bar.advance(1), Err(Interrupted)));
        assert!(matches!(monitor.check(), Err(Interrupted)));
    }
}
