//! One replay, from a trace and a drive to the result.

use tantalum::{Command, Handle, HandleState, Nanoseconds, Smart};
use tantalum_drive::Drive;
use tantalum_report::{Bar, Monitor};
use tantalum_workloads::bench::conditioned;
use tantalum_workloads::binds::Beginning;
use tantalum_workloads::handle_costs;

use crate::error::ReplayError;
use crate::host::Host;
use crate::job::Job;
use crate::load::{Feed, Load};
use crate::outcome::{Ended, Outcome, Replayed, outcome};
use crate::placement::Placement;
use crate::settings::{Pace, Settings};
use crate::survey::{Survey, survey};
use crate::tally::Tally;
use crate::trace::{Input, Operation, Request, Trace, TraceError};

/// Requests between two checks for cancellation, and between two moments at which others may look at the drive.
const REQUESTS_PER_STEP: u64 = 1024;

/// Replays a trace. If the drive or the user ends it early, the outcome covers what was done.
pub fn replay(settings: &Settings, monitor: &Monitor) -> Result<Outcome, ReplayError> {
    settings.validate()?;
    let mut survey = survey(&settings.load, settings.profile.capacity_bytes, monitor)?;
    let pace = settings.pace(survey.has_times)?;
    let placement = Placement::of(&mut survey, settings.scale, settings.profile.capacity_bytes);
    let (device, aged) = conditioned(&settings.profile, settings.condition, settings.seed, monitor)?;
    let (before, handles) = (device.smart(), device.handles());
    let beginning = Beginning::of(&device);
    let start_ns = device.time_ns();
    let tally = Tally::new(survey.requests, start_ns);
    let mut run = Run {
        drive: Drive::new(device),
        host: Host::new(tally, matches!(pace, Pace::Closed { .. })),
        settings,
        placement: &placement,
        survey: &survey,
        left: survey.requests,
        handles: handles.len() as u32,
    };
    let bar = monitor.bar("replaying", survey.requests);
    let ended = match run.all(pace, start_ns, &bar) {
        Ok(()) => Ended::Complete,
        Err(error) if error.ends_replay() => Ended::Early(error),
        Err(error) => return Err(error),
    };
    let phase = beginning.until(&run.drive.lock());
    let (after, now, tally) = run.close(&ended)?;
    let handles = handle_costs(&handles, &now);
    let replayed = Replayed { pace, aged, before, after, handles, tally, phase, ended };
    Ok(outcome(settings, &survey, &placement, replayed))
}

/// Fails if the replay cannot begin: a setting that cannot be used, or a trace whose beginning cannot be read. What later
/// lines say is found by [`replay`].
pub fn check(settings: &Settings) -> Result<(), ReplayError> {
    settings.validate()?;
    if let Load::Trace(source) = &settings.load {
        let mut trace = Trace::open(source, &Input::open(&source.path, &Monitor::silent())?)?;
        if trace.next()?.is_none() {
            return Err(ReplayError::NoRequests { path: source.path.clone() });
        }
        settings.pace(trace.has_times())?;
    }
    Ok(())
}

struct Run<'a> {
    drive: Drive,
    host: Host,
    settings: &'a Settings,
    placement: &'a Placement,
    survey: &'a Survey,
    /// Requests that the first reading found and this one has not found yet.
    left: u64,
    /// The drive's reclaim unit handles.
    handles: u32,
}

impl Run<'_> {
    fn all(&mut self, pace: Pace, start_ns: Nanoseconds, bar: &Bar) -> Result<(), ReplayError> {
        let capacity_bytes = self.settings.profile.capacity_bytes;
        let mut feed = Feed::open(&self.settings.load, self.survey.input.as_ref(), capacity_bytes)?;
        match pace {
            Pace::Open { speed } => self.open_loop(&mut feed, speed, start_ns, bar)?,
            Pace::Closed { queue_depth } => self.closed_loop(&mut feed, queue_depth, start_ns, bar)?,
        }
        let mut device = self.drive.lock();
        while self.host.next_ns().is_some() {
            self.host.step(&mut device)?;
        }
        Ok(())
    }

    /// Issues each request at its time.
    fn open_loop(
        &mut self,
        feed: &mut Feed,
        speed: f64,
        start_ns: Nanoseconds,
        bar: &Bar,
    ) -> Result<(), ReplayError> {
        let drive = self.drive.clone();
        let mut device = drive.lock();
        while let Some(request) = self.next(feed, bar)? {
            if self.is_between_steps() {
                drop(device);
                device = drive.lock();
            }
            let since_ns = request.at_ns - self.survey.first_ns;
            let since_ns = if speed == 1.0 { since_ns } else { (since_ns as f64 / speed) as Nanoseconds };
            let at_ns = start_ns.saturating_add(since_ns);
            while self.host.next_ns().is_some_and(|next_ns| next_ns <= at_ns) {
                self.host.step(&mut device)?;
            }
            if let Some(job) = self.job(&request, at_ns)? {
                self.host.ask(&mut device, job)?;
            }
        }
        Ok(())
    }

    /// Issues each request when there is room for it. Waits in a trace without times are kept.
    fn closed_loop(
        &mut self,
        feed: &mut Feed,
        queue_depth: u32,
        start_ns: Nanoseconds,
        bar: &Bar,
    ) -> Result<(), ReplayError> {
        let (mut free, mut now_ns) = (queue_depth, start_ns);
        let drive = self.drive.clone();
        let mut device = drive.lock();
        while let Some(request) = self.next(feed, bar)? {
            if self.is_between_steps() {
                drop(device);
                device = drive.lock();
            }
            if !self.survey.has_times {
                now_ns = now_ns.max(start_ns.saturating_add(request.at_ns - self.survey.first_ns));
            }
            while self.host.next_ns().is_some_and(|next_ns| free == 0 || next_ns <= now_ns) {
                now_ns = now_ns.max(self.host.next_ns().unwrap_or(now_ns));
                free += u32::from(self.host.step(&mut device)?);
            }
            if let Some(job) = self.job(&request, now_ns)? {
                free -= 1;
                self.host.ask(&mut device, job)?;
            }
        }
        Ok(())
    }

    fn next(&mut self, feed: &mut Feed, bar: &Bar) -> Result<Option<Request>, ReplayError> {
        if self.left == 0 {
            return Ok(None);
        }
        let request = feed.next().map_err(|error| match error {
            ReplayError::Trace(TraceError::Line { line, .. } | TraceError::Record { record: line, .. }) => {
                ReplayError::Changed { line }
            }
            error => error,
        })?;
        let request = request.ok_or(ReplayError::Changed { line: 0 })?;
        let known = request.volume < self.survey.volumes.len() as u32;
        if !known || request.at_ns < self.survey.first_ns {
            return Err(ReplayError::Changed { line: request.line });
        }
        self.left -= 1;
        if self.is_between_steps() {
            bar.advance(REQUESTS_PER_STEP)?;
        }
        Ok(Some(request))
    }

    fn is_between_steps(&self) -> bool {
        (self.survey.requests - self.left).is_multiple_of(REQUESTS_PER_STEP)
    }

    /// The request for the drive; `None` if it has no effect.
    fn job(&mut self, request: &Request, asked_ns: Nanoseconds) -> Result<Option<Job>, ReplayError> {
        let mut pieces = Vec::new();
        self.placement.place(request, &mut pieces).map_err(|beyond| ReplayError::BeyondCapacity {
            path: self.settings.load.path().to_owned(),
            line: request.line,
            end_bytes: beyond.end_bytes,
            capacity_bytes: self.settings.profile.capacity_bytes,
        })?;
        if pieces.is_empty() && request.operation != Operation::Flush {
            self.host.tally.empty += 1;
            return Ok(None);
        }
        let Request { line, operation, .. } = *request;
        let bytes = pieces.iter().map(|piece| piece.bytes).sum();
        // those of a volume lie apart from those of the next ones
        let handle = request.volume.checked_rem(self.handles).map(|handle| Handle(handle as u8));
        Ok(Some(Job { line, operation, asked_ns, bytes, pieces, handle }))
    }

    /// Flushes the cache, so that what waits there is counted. A drive that refused a command may refuse this too.
    fn close(self, ended: &Ended) -> Result<(Smart, Vec<HandleState>, Tally), ReplayError> {
        let mut device = self.drive.lock();
        let at_ns = device.time_ns().max(device.issued_ns());
        match device.submit(Command::Flush, at_ns) {
            Err(status) if matches!(ended, Ended::Complete) => Err(ReplayError::Refused { line: 0, status }),
            _ => Ok((device.smart(), device.handles(), self.host.tally)),
        }
    }
}
