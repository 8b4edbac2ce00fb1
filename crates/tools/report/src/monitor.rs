//! Progress, and requests to stop.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{
    HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle,
};

use crate::error::Interrupted;

/// Where there is no terminal, a line is printed this often.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Shows an experiment's progress on standard error (bars on a terminal, otherwise an occasional line), and tells it when
/// to stop. Clones share one monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    bars: MultiProgress,
    prints_lines: bool,
    cancelled: Arc<AtomicBool>,
}

impl Monitor {
    /// Shows progress; stops when `cancelled` becomes true.
    pub fn new(cancelled: Arc<AtomicBool>) -> Monitor {
        Monitor { bars: MultiProgress::new(), prints_lines: !io::stderr().is_terminal(), cancelled }
    }

    /// Shows nothing and never stops.
    pub fn silent() -> Monitor {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        Monitor { bars, prints_lines: false, cancelled: Arc::default() }
    }

    /// A monitor that shows nothing and stops when this one does, for parts of a task whose progress is shown as a whole.
    pub fn quiet(&self) -> Monitor {
        Monitor { cancelled: Arc::clone(&self.cancelled), ..Monitor::silent() }
    }

    /// A new bar of `steps` steps. It vanishes when it is dropped.
    pub fn bar(&self, label: impl Into<String>, steps: u64) -> Bar {
        let style = ProgressStyle::with_template("{prefix:>12} [{bar:40}] {percent:>3} % {left}{msg}")
            .expect("the template is valid")
            .with_key("left", left)
            .progress_chars("=> ");
        let bar = self.bars.add(ProgressBar::new(steps).with_style(style).with_prefix(label.into()));
        bar.tick();
        let lines = self.prints_lines.then(Lines::new);
        Bar { bar, lines, cancelled: Arc::clone(&self.cancelled) }
    }

    /// Fails if the experiment should stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        check(&self.cancelled)
    }
}

/// The time left at the pace so far; empty before the first step.
fn left(state: &ProgressState, text: &mut dyn Write) {
    if state.pos() > 0 {
        let _ = write!(text, "{} left ", HumanDuration(state.eta()));
    }
}

/// The progress of one part of an experiment.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    lines: Option<Lines>,
    cancelled: Arc<AtomicBool>,
}

impl Bar {
    /// Some steps were done. Fails if the experiment should stop.
    pub fn advance(&self, steps: u64) -> Result<(), Interrupted> {
        self.bar.inc(steps);
        self.check()
    }

    /// This many steps are done in total. Fails if the experiment should stop.
    pub fn reach(&self, steps: u64) -> Result<(), Interrupted> {
        self.bar.set_position(steps);
        self.check()
    }

    /// Fails if the experiment should stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.lines.as_ref().is_some_and(|lines| lines.are_due(Instant::now())) {
            eprintln!("{}", line(&self.bar));
        }
        check(&self.cancelled)
    }

    /// The text next to the bar.
    pub fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// When the last line was printed; initially, when the work began.
#[derive(Debug)]
struct Lines(Mutex<Instant>);

impl Lines {
    fn new() -> Lines {
        Lines(Mutex::new(Instant::now()))
    }

    /// Whether a line is due. A thread that would have to wait for another skips the check.
    fn are_due(&self, now: Instant) -> bool {
        let Ok(mut last) = self.0.try_lock() else { return false };
        let are_due = now.duration_since(*last) >= LINE_EVERY;
        if are_due {
            *last = now;
        }
        are_due
    }
}

/// The bar as a line of text.
fn line(bar: &ProgressBar) -> String {
    let percent = (100 * bar.position()).checked_div(bar.length().unwrap_or(0)).unwrap_or(0);
    let left = match bar.position() {
        0 => String::new(),
        _ => format!(", {} left", HumanDuration(bar.eta())),
    };
    let message = bar.message();
    let message = if message.is_empty() { message } else { format!(", {message}") };
    format!("{}: {percent} %{left}{message}", bar.prefix())
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
        assert!(matches!(monitor.quiet().check(), Err(Interrupted)), "a quiet monitor stops with the other");
    }

    #[test]
    fn without_a_terminal_a_line_is_printed_now_and_then() {
        let lines = Lines::new();
        let began = *lines.0.lock().unwrap();
        let due: Vec<bool> =
            [1, 29, 30, 31, 59, 60].map(|seconds| lines.are_due(began + Duration::from_secs(seconds))).into();
        assert_eq!(due, [false, false, true, false, false, true]);
        let bar = Monitor::silent().bar("crash", 8);
        bar.bar.set_position(2);
        bar.say("5 cuts".to_owned());
        let line = line(&bar.bar);
        assert!(line.starts_with("crash: 25 %, ") && line.ends_with(" left, 5 cuts"), "{line}");
    }
}
