//! Ctrl-C: the first one asks the experiment to stop and clean up; the second one does not wait.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantalum_report::Monitor;

/// The exit code of a command that was interrupted: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// A monitor that Ctrl-C cancels.
pub fn monitor() -> Monitor {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    let on_interrupt = move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED);
        }
    };
    // Without a handler Ctrl-C ends the process, and no report has been started in its place.
    let _ = ctrlc::set_handler(on_interrupt);
    Monitor::new(cancelled)
}
