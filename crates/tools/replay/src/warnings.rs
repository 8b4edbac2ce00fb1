//! What a reader must know to interpret the figures of a replay.

use tantalum::{CacheMode, Counters};
use tantalum_report::figure_text;
use tantalum_report::table::{bytes, grouped};
use tantalum_workloads::bench::Condition;
use tantalum_workloads::unit_bytes;

use crate::settings::Settings;
use crate::survey::Survey;
use crate::tally::Tally;

/// The share of reads of units without data from which it is worth a warning.
const WORTH_SAYING: f64 = 0.01;

/// All warnings; `steady` says whether garbage collection was steady when the replay of an aged drive began.
pub(crate) fn warnings(
    settings: &Settings,
    survey: &Survey,
    tally: &Tally,
    counters: &Counters,
    steady: Option<bool>,
) -> Vec<String> {
    let not_steady = || "garbage collection was not yet steady when the replay began".to_owned();
    let all = [
        survey.note.clone(),
        left_out(survey.left_out),
        late(survey.late),
        (steady == Some(false)).then(not_steady),
        cached(settings, counters),
        without_data(tally),
    ];
    all.into_iter().flatten().collect()
}

fn left_out(entries: u64) -> Option<String> {
    (entries > 0).then(|| {
        format!(
            "{} entries of the trace were left out: they do not say what was read or written",
            grouped(entries)
        )
    })
}

fn late((requests, most_ns): (u64, u64)) -> Option<String> {
    (requests > 0).then(|| {
        format!(
            "{} requests of the trace are far out of order and were issued late, by {} s at most",
            grouped(requests),
            figure_text(most_ns as f64 / 1e9)
        )
    })
}

/// A cache that absorbs writes hides what flash would do.
fn cached(settings: &Settings, counters: &Counters) -> Option<String> {
    let cache = &settings.profile.cache;
    let (written, programmed) =
        (unit_bytes(counters.host_units_written), unit_bytes(counters.flash_units.total()));
    if written == 0 || cache.mode == CacheMode::Off {
        return None;
    }
    let why = if written <= cache.bytes {
        format!("the trace writes {}, and the drive's cache holds all of it", bytes(written))
    } else if programmed < written {
        format!("the drive's cache absorbed {} of {} written", bytes(written - programmed), bytes(written))
    } else {
        return None;
    };
    let aged = if settings.condition == Condition::Aged { "" } else { " with --aged," };
    Some(format!(
        "{why} ({}): neither latencies nor write amplification are those of a drive in long use; replay a longer trace,{aged} or \
         with a profile with a smaller cache",
        bytes(cache.bytes)
    ))
}

/// Reads that no flash answers are faster than any drive in use.
fn without_data(tally: &Tally) -> Option<String> {
    let share = tally.units_without_data as f64 / tally.units_read.max(1) as f64;
    (share >= WORTH_SAYING).then(|| {
        format!(
            "{} of {} units read had never been written, so no flash was read for them; --fill or --aged writes every unit \
             first",
            grouped(tally.units_without_data),
            grouped(tally.units_read)
        )
    })
}
