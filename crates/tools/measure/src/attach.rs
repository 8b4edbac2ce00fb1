//! Watching a mount.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use tantalum_control::{Control, ControlError, EndWatch};
use tantalum_fuse::report::{Marked, Report};
use tantalum_fuse::{MountPointError, image_mounted_on};

use crate::error::MeasureError;
use crate::evaluate::{Observed, Subject, evaluate};
use crate::measurement::Measurement;
use crate::recording::Recording;
use crate::stop::Stop;

/// How often the mount is polled.
const LOOK: Duration = Duration::from_millis(100);

/// What is reported while a mount is watched.
#[derive(Clone, Copy, Debug)]
pub struct Watched {
    /// Since when.
    pub seconds: f64,
    /// Units sent to the drive.
    pub host_units: u64,
    /// Units that went to flash.
    pub flash_units: u64,
    /// Flush commands.
    pub flushes: u64,
}

/// A mount that is being recorded.
pub(crate) struct Attached {
    control: Control,
    end: Option<EndWatch>,
    begun: Marked,
    since: Instant,
    /// The last report, in case there is no further one.
    last: Option<Report>,
}

impl Attached {
    /// Starts to record, with the existing files.
    pub fn start(image: &Path, recording: &Recording) -> Result<Control, MeasureError> {
        let mut control = Control::connect(image)?;
        control.record(recording.path())?;
        Ok(control)
    }

    /// Sets the first mark.
    pub fn begin(mut control: Control, image: &Path) -> Result<Attached, MeasureError> {
        let end = Control::connect(image).and_then(Control::watch_end).ok();
        let begun = control.mark()?;
        Ok(Attached { control, end, begun, since: Instant::now(), last: None })
    }

    /// What the mount has done so far. Fails when it has ended.
    pub fn look(&mut self) -> Result<Watched, ControlError> {
        let report: Report = self.control.stat()?;
        let counters = report.drive.smart.counters.since(&self.begun.report.drive.smart.counters);
        self.last = Some(report);
        Ok(Watched {
            seconds: self.since.elapsed().as_secs_f64(),
            host_units: counters.host_units_written,
            flash_units: counters.flash_units.total(),
            flushes: counters.flushes,
        })
    }

    /// Sets the second mark, and ends the recording: when this returns, there may be another one. If the mount has ended, its
    /// last report is the end.
    pub fn finish(mut self, recording: Recording) -> Result<Observed, MeasureError> {
        let seconds = self.since.elapsed().as_secs_f64();
        let (ended, incomplete) = match self.control.mark::<Marked>() {
            Ok(ended) => (ended.report, None),
            Err(ControlError::Refused { message, .. }) => {
                let why = format!("the drive's counters are those of a moment before the end: {message}");
                (self.last.unwrap_or_else(|| self.begun.report.clone()), Some(why))
            }
            Err(error) => {
                // the recording is whole when the mount has ended
                let _ = self.end.map(EndWatch::wait);
                let why = "it was unmounted; the drive's counters are those of a moment before".to_owned();
                (self.last.ok_or(error)?, Some(why))
            }
        };
        self.control.close();
        Ok(Observed { recording, begun: self.begun, ended, seconds, incomplete })
    }
}

/// Watches what is mounted on a folder, until Ctrl-C or for a given time, and reports what was done.
pub fn attach(
    folder: &Path,
    most: Option<Duration>,
    replays: bool,
    stop: &Stop,
    mut tell: impl FnMut(Watched),
) -> Result<Measurement, MeasureError> {
    let not_mounted = || MountPointError::NotMounted { path: PathBuf::from(folder) };
    let image = image_mounted_on(folder).ok_or_else(not_mounted)?;
    let recording = Recording::new()?;
    let mut attached = Attached::begin(Attached::start(&image, &recording)?, &image)?;
    stop.set_measures(true);
    tell(attached.look()?);
    while stop.presses() == 0 && most.is_none_or(|most| attached.since.elapsed() < most) {
        let left = most.map_or(LOOK, |most| most.saturating_sub(attached.since.elapsed()).min(LOOK));
        thread::sleep(left);
        match attached.look() {
            Ok(watched) => tell(watched),
            Err(_) => break,
        }
    }
    stop.set_measures(false);
    let observed = attached.finish(recording)?;
    let subject = Subject { name: &folder.display().to_string(), exit_code: None, aged: None };
    evaluate(&observed, subject, replays, stop)
}
