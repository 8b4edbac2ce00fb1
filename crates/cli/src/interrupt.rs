//! Ctrl-C: the first one asks the experiment to stop and clean up; a later one does not wait.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tantalum_report::Monitor;

use crate::output;

/// The exit code of a command that was interrupted: 128 and the number of SIGINT, as a shell has it.
pub const INTERRUPTED: u8 = 130;

/// What is said when a program and its mount are not waited for.
const LEFT: &str = "ended at once: the program may still run, and its folder in the folder for temporary files may still be \
    mounted: `grep tantalum /proc/mounts` lists such mounts, and `fusermount3 -uz DIR` ends one";

/// A monitor that Ctrl-C cancels. The second one ends the process.
pub fn monitor() -> Monitor {
    monitor_that_waits(1, None)
}

/// A monitor that Ctrl-C cancels, for work that has programs and a mount to end: only the fourth one does not wait for that.
pub fn patient_monitor() -> Monitor {
    monitor_that_waits(3, Some(LEFT))
}

fn monitor_that_waits(presses: u32, left: Option<&'static str>) -> Monitor {
    let cancelled = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&cancelled);
    let mut pressed = 0;
    let on_interrupt = move || {
        pressed += 1;
        flag.store(true, Ordering::Relaxed);
        if pressed > presses {
            if let Some(left) = left {
                output::complain(left);
            }
            process::exit(INTERRUPTED.into());
        }
    };
    // Without a handler Ctrl-C ends the process, and no report has been started in its place.
    let _ = ctrlc::set_handler(on_interrupt);
    Monitor::new(cancelled)
}
