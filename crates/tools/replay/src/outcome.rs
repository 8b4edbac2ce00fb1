//! The result of a replay.

use serde::Serialize;
use tantalum::{Counters, Effective, Smart};
use tantalum_report::{Figures, LatencyUs};
use tantalum_workloads::bench::Condition;
use tantalum_workloads::binds::{self, Phase};
use tantalum_workloads::{HandleCost, Life};

use crate::error::ReplayError;
use crate::load::Load;
use crate::placement::Placement;
use crate::settings::{Pace, Settings};
use crate::survey::Survey;
use crate::tally::{Done, RequestKind, Tally};
use crate::trace::Format;
use crate::warnings::warnings;

/// Maximum number of volumes named.
const NAMED: usize = 8;

/// The result of a replay. Everything but `path` follows from the trace and the settings, on any machine.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// `"replay"`.
    pub command: &'static str,
    /// The trace.
    pub trace: TraceAbout,
    /// The drive.
    pub drive: DriveAbout,
    /// How the trace's requests were issued to the drive.
    pub replay: ReplayAbout,
    /// Why the replay is not complete, if it is not.
    pub incomplete: Option<String>,
    /// What a reader must know to interpret the figures, and what to do about it.
    pub warnings: Vec<String>,
    /// The drive's time from the first request to the end of the last, in seconds.
    pub seconds: f64,
    /// Completed requests by kind; kinds that the trace does not have are left out.
    pub requests: Vec<Requests>,
    /// Requests that do not fit the drive's units.
    pub unaligned: Unaligned,
    /// What the drive did, with a flush at the end.
    pub counters: Counters,
    /// Units to flash for each unit to the drive; `None` if nothing was written.
    pub amplification: Option<f64>,
    /// What was written with each reclaim unit handle, on a drive that has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<HandleCost>,
    /// Erases of the drive's blocks.
    pub wear: Wear,
    /// The drive's lifetime at this rate.
    pub life: Life,
    /// How busy the drive's parts were, and what commands waited for.
    pub binds: Vec<Figures>,
    /// Bytes of reads and writes over time: the end of each interval of equally many requests, in seconds, and its
    /// bytes.
    pub over_time: Vec<(f64, u64)>,
    #[serde(skip)]
    pub(crate) latencies: Vec<(RequestKind, hdrhistogram::Histogram<u64>)>,
    #[serde(skip)]
    ended: Option<std::sync::Arc<ReplayError>>,
}

/// The trace.
#[derive(Clone, Debug, Serialize)]
pub struct TraceAbout {
    /// Its file, or the pattern's name.
    pub path: String,
    /// Its format; `None` for a pattern.
    pub format: Option<Format>,
    /// Its requests on the volumes replayed.
    pub requests: u64,
    /// The number of these volumes.
    pub volumes: u64,
    /// Their names, or the first of them.
    pub volume_names: Vec<String>,
    /// Entries that do not say what was read or written, and were left out.
    pub left_out: u64,
    /// From its first to its last request, in seconds; `None` if it has no times.
    pub seconds: Option<f64>,
    /// Requests so far out of order that they were issued late.
    pub late: u64,
    /// The largest delay, in seconds.
    pub latest_seconds: f64,
}

/// The drive and its past.
#[derive(Clone, Debug, Serialize)]
pub struct DriveAbout {
    /// The profile's name.
    pub profile: String,
    /// Logical capacity.
    pub capacity_bytes: u64,
    /// Flash beyond it, as asked for.
    pub over_provisioning_percent: f64,
    /// Over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Rated erases of a block.
    pub endurance_cycles: u32,
    /// Its condition before the replay.
    pub condition: Condition,
    /// The write amplification of an aged drive before the replay.
    pub aged_amplification: Option<f64>,
    /// Whether this had become steady.
    pub steady: Option<bool>,
    /// The seed for ageing it.
    pub seed: u64,
}

/// How requests were issued to the drive.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayAbout {
    /// Open loop: how many times faster than in the trace.
    pub speed: Option<f64>,
    /// Closed loop: the number in flight.
    pub queue_depth: Option<u32>,
    /// What was done with addresses.
    pub addresses: String,
}

/// Requests of a kind.
#[derive(Clone, Debug, Serialize)]
pub struct Requests {
    /// What the requests do.
    pub kind: RequestKind,
    /// The number completed.
    pub count: u64,
    /// Bytes of the completed requests.
    pub bytes: u64,
    /// From issue to completion, in microseconds of drive time.
    pub latency_us: LatencyUs,
    /// The 99.9th percentile.
    pub p999_us: f64,
}

/// Requests that do not fit the drive's units of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Unaligned {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Units that the drive read because a write covers them in part.
    pub units_read_to_write: u64,
    /// Deallocation, of which only whole units count.
    pub trims: u64,
    /// Requests without effect: empty, or deallocating what the trace never touches. They were not issued to the drive.
    pub empty: u64,
}

/// Erases of blocks.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Wear {
    /// Mean erases of a block before the replay.
    pub mean_before: f64,
    /// Mean erases of a block after the replay.
    pub mean_after: f64,
    /// Erases of the least worn block after.
    pub least_after: u32,
    /// Erases of the most worn block after.
    pub most_after: u32,
}

/// How a replay ended.
#[derive(Debug)]
pub(crate) enum Ended {
    Complete,
    Early(ReplayError),
}

/// What was observed.
pub(crate) struct Replayed {
    pub pace: Pace,
    pub aged: Option<(f64, bool)>,
    pub before: Smart,
    pub after: Smart,
    pub handles: Vec<HandleCost>,
    pub tally: Tally,
    pub phase: Phase,
    pub ended: Ended,
}

impl Outcome {
    /// Why the replay ended early, if it did.
    pub fn ended_early(&self) -> Option<&ReplayError> {
        self.ended.as_deref()
    }

    /// Units to flash over units to the drive, for one cause.
    pub(crate) fn share(&self, units: u64) -> Option<f64> {
        let written = self.counters.host_units_written;
        (written > 0).then(|| units as f64 / written as f64)
    }
}

pub(crate) fn outcome(
    settings: &Settings,
    survey: &Survey,
    placement: &Placement,
    replayed: Replayed,
) -> Outcome {
    let Replayed { pace, aged, before, after, handles, tally, phase, ended } = replayed;
    let profile = &settings.profile;
    let counters = after.counters.since(&before.counters);
    let seconds = (tally.end_ns - tally.start_ns) as f64 / 1e9;
    let ended = match ended {
        Ended::Complete => None,
        Ended::Early(error) => Some(std::sync::Arc::new(error)),
    };
    let done = |kind: &RequestKind| tally.kinds[*kind as usize].requests > 0;
    let kinds: Vec<RequestKind> = RequestKind::ALL.into_iter().filter(done).collect();
    Outcome {
        command: "replay",
        trace: trace_about(settings, survey),
        drive: drive_about(settings, aged),
        replay: replay_about(pace, placement),
        warnings: warnings(settings, survey, &tally, &counters, aged.map(|(_, steady)| steady)),
        incomplete: ended.as_ref().map(|error| early(error, tally.requests(), survey.requests)),
        seconds,
        requests: kinds.iter().map(|kind| requests(*kind, &tally.kinds[*kind as usize])).collect(),
        unaligned: unaligned(&tally),
        amplification: (counters.host_units_written > 0)
            .then(|| counters.flash_units.total() as f64 / counters.host_units_written as f64),
        handles,
        wear: wear(&before, &after),
        life: Life::of(profile, before.erase_count_mean, &counters, seconds),
        binds: binds::figures(profile, &[("replay".to_owned(), phase)]),
        over_time: tally.over_time.iter().map(|(ns, bytes)| (*ns as f64 / 1e9, *bytes)).collect(),
        latencies: kinds.iter().map(|kind| (*kind, tally.kinds[*kind as usize].latencies.clone())).collect(),
        counters,
        ended,
    }
}

fn unaligned(tally: &Tally) -> Unaligned {
    Unaligned {
        reads: tally.unaligned[0],
        writes: tally.unaligned[1],
        units_read_to_write: tally.units_read_to_write,
        trims: tally.unaligned_trims,
        empty: tally.empty,
    }
}

fn wear(before: &Smart, after: &Smart) -> Wear {
    Wear {
        mean_before: before.erase_count_mean,
        mean_after: after.erase_count_mean,
        least_after: after.erase_count_min,
        most_after: after.erase_count_max,
    }
}

fn early(error: &ReplayError, done: u64, requests: u64) -> String {
    let why = match error {
        ReplayError::Interrupted(_) => "Ctrl-C ended it".to_owned(),
        error => error.to_string(),
    };
    format!("{why}; {done} of {requests} requests are done")
}

fn trace_about(settings: &Settings, survey: &Survey) -> TraceAbout {
    let names = survey.volumes.iter().take(NAMED).map(|volume| volume.name.clone());
    TraceAbout {
        path: match &settings.load {
            Load::Trace(source) => source.path.display().to_string(),
            Load::Synthetic(synthetic) => synthetic.pattern.name().to_owned(),
        },
        format: survey.format,
        requests: survey.requests,
        volumes: survey.volumes.len() as u64,
        volume_names: names.collect(),
        left_out: survey.left_out,
        seconds: survey.has_times.then(|| (survey.last_ns - survey.first_ns) as f64 / 1e9),
        late: survey.late.0,
        latest_seconds: survey.late.1 as f64 / 1e9,
    }
}

fn drive_about(settings: &Settings, aged: Option<(f64, bool)>) -> DriveAbout {
    let profile = &settings.profile;
    DriveAbout {
        profile: profile.name.clone(),
        capacity_bytes: profile.capacity_bytes,
        over_provisioning_percent: profile.over_provisioning_percent,
        effective: Effective::of(profile),
        endurance_cycles: profile.flash.endurance_cycles,
        condition: settings.condition,
        aged_amplification: aged.map(|(amplification, _)| amplification),
        steady: aged.map(|(_, steady)| steady),
        seed: settings.seed,
    }
}

fn replay_about(pace: Pace, placement: &Placement) -> ReplayAbout {
    let (speed, queue_depth) = match pace {
        Pace::Open { speed } => (Some(speed), None),
        Pace::Closed { queue_depth } => (None, Some(queue_depth)),
    };
    ReplayAbout { speed, queue_depth, addresses: placement.about().to_owned() }
}

fn requests(kind: RequestKind, done: &Done) -> Requests {
    Requests {
        kind,
        count: done.requests,
        bytes: done.bytes,
        latency_us: LatencyUs::of(&done.latencies),
        p999_us: done.latencies.value_at_quantile(0.999) as f64 / 1000.0,
    }
}
