//! A drive after long use: nearly full, with steady garbage collection.
//!
//! A file of other data fills the space that the workload's database does not use, except for a share that stays free. It
//! is then overwritten at random, unit by unit, until write amplification is steady. A fresh drive has no garbage to
//! collect, which would flatter modes that write more (hazard 13).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use tantalum::{Command, Lpn, UNIT_BYTES};
use tantalum_report::table::bytes;
use tantalum_report::{Bar, Monitor};
use tantalum_volume::Volume;

use crate::capacity::{smallest_capacity, units_in_use};
use crate::error::{TooSmall, WorkloadError};
use crate::queue::CommandQueue;
use crate::steady_state::{MOST_WINDOWS, SteadyState, WINDOWS_PER_CAPACITY};

/// The share of the capacity that stays free, in percent.
const FREE_PERCENT: u64 = 10;

/// The minimum that stays free: room for a log and a journal.
const LEAST_FREE_UNITS: u64 = 8192;

/// The least capacity of which no more than [`FREE_PERCENT`] stays free, in whole MiB.
const WELL_FILLED_BYTES: u64 =
    ((LEAST_FREE_UNITS * 100).div_ceil(FREE_PERCENT) * UNIT_BYTES as u64).next_multiple_of(1 << 20);

/// Units in one command that fills the file.
const FILL_UNITS: usize = 256;

/// Commands between two checks for an interruption.
const COMMANDS_PER_STEP: u64 = 1024;

const OTHER_DATA: &str = "other-data";

/// How a drive was aged.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Ageing {
    /// Bytes of other data besides the database.
    pub other_data_bytes: u64,
    /// Units of them that were overwritten at random.
    pub units_overwritten: u64,
    /// The write amplification at the end.
    pub write_amplification: f64,
    /// Whether it had become steady.
    pub steady: bool,
}

/// Fills the volume and overwrites until garbage collection is steady.
pub fn age(volume: &mut Volume, seed: u64, monitor: &Monitor) -> Result<Ageing, WorkloadError> {
    age_with(volume, left_free, seed, monitor).map_err(|error| match error {
        // a drive that has just enough room is hardly filled, and collects nothing
        WorkloadError::TooSmall(small) => {
            let enough_bytes = small.enough_bytes.map(|enough| enough.max(WELL_FILLED_BYTES));
            TooSmall { enough_bytes, ..small }.into()
        }
        other => other,
    })
}

/// Units that [`age`] leaves free on a drive with this many units.
pub fn left_free(capacity_units: u64) -> u64 {
    (capacity_units * FREE_PERCENT / 100).max(LEAST_FREE_UNITS)
}

/// One line if [`age`] leaves a larger share of a drive of this capacity free than of others, because the drive is small: by
/// how much, why, and the capacity from which it does not. Such a drive collects much less garbage.
pub fn small_fill(capacity_bytes: u64) -> Option<String> {
    let units = capacity_bytes / UNIT_BYTES as u64;
    if units == 0 || units * FREE_PERCENT / 100 >= LEAST_FREE_UNITS {
        return None;
    }
    let filled_percent = 100 - (LEAST_FREE_UNITS * 100).div_ceil(units).min(100);
    Some(format!(
        "at most {filled_percent} % of the drive are filled before it is aged, where {} % are of a larger one, because {} stay \
         free for a log; it collects less garbage; use --capacity {}M or more",
        100 - FREE_PERCENT,
        bytes(LEAST_FREE_UNITS * UNIT_BYTES as u64),
        WELL_FILLED_BYTES >> 20
    ))
}

/// Fills the volume with other data in order, and leaves this many units free. Returns the number of bytes written.
pub fn fill_leaving(
    volume: &mut Volume,
    free: u64,
    seed: u64,
    monitor: &Monitor,
) -> Result<u64, WorkloadError> {
    let units = units_of_other_data(volume, share_of(volume, free))?;
    let bar = monitor.bar("filling", units);
    fill(volume, units, &mut Xoshiro256PlusPlus::seed_from_u64(seed), &bar)?;
    Ok(units * UNIT_BYTES as u64)
}

/// Ages the volume as [`age`] does, and leaves `free` units of the drive free.
pub fn age_leaving(
    volume: &mut Volume,
    free: u64,
    seed: u64,
    monitor: &Monitor,
) -> Result<Ageing, WorkloadError> {
    let free_of = share_of(volume, free);
    age_with(volume, free_of, seed, monitor)
}

fn age_with(
    volume: &mut Volume,
    free_of: impl Fn(u64) -> u64,
    seed: u64,
    monitor: &Monitor,
) -> Result<Ageing, WorkloadError> {
    let units = units_of_other_data(volume, free_of)?;
    let window_units = (units / WINDOWS_PER_CAPACITY).max(1);
    let bar = monitor.bar("ageing", units + MOST_WINDOWS * window_units);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let lpns = fill(volume, units, &mut random, &bar)?;
    let mut state = SteadyState::new(volume.device().smart().counters);
    while !state.is_steady() && state.windows() < MOST_WINDOWS {
        overwrite(volume, &lpns, window_units, &mut random, &bar)?;
        let amplification = state.end_window(volume.device().smart().counters);
        bar.say(format!("write amplification {amplification:.2}"));
    }
    volume.submit(Command::Flush)?;
    Ok(Ageing {
        other_data_bytes: units * UNIT_BYTES as u64,
        units_overwritten: state.windows() * window_units,
        write_amplification: state.write_amplification(),
        steady: state.is_steady(),
    })
}

/// The units to leave free on a drive of any capacity: the same share as `free` is on this one.
fn share_of(volume: &Volume, free: u64) -> impl Fn(u64) -> u64 + use<> {
    let own_units = volume.device().limits().capacity_units;
    move |units| (u128::from(free) * u128::from(units) / u128::from(own_units)) as u64
}

fn units_of_other_data(volume: &Volume, free_of: impl Fn(u64) -> u64) -> Result<u64, WorkloadError> {
    let capacity_units = volume.device().limits().capacity_units;
    let free = free_of(capacity_units);
    let units = volume.free_units().saturating_sub(free);
    if units > 0 {
        return Ok(units);
    }
    let what = format!("{} units are free, and {free} are to stay free", volume.free_units());
    let enough_bytes = smallest_capacity(units_in_use(volume), free_of);
    Err(TooSmall { capacity_bytes: capacity_units * UNIT_BYTES as u64, what, enough_bytes }.into())
}

/// Writes the file of other data in order. Returns the places of its units.
fn fill(
    volume: &mut Volume,
    units: u64,
    random: &mut Xoshiro256PlusPlus,
    bar: &Bar,
) -> Result<Vec<Lpn>, WorkloadError> {
    let size = units * UNIT_BYTES as u64;
    let file = volume.create(OTHER_DATA)?;
    volume.reserve(file, size)?;
    let place = |unit| volume.lpn(file, unit).expect("a reserved unit has a place");
    let lpns: Vec<Lpn> = (0..units).map(place).collect();
    let mut data = vec![0; FILL_UNITS * UNIT_BYTES];
    let mut queue = CommandQueue::new(volume.now_ns());
    for run in lpns.chunk_by(|a, b| a.0 + 1 == b.0) {
        for piece in run.chunks(FILL_UNITS) {
            random.fill(&mut data[..64]);
            let command = Command::Write {
                lpn: piece[0],
                data: &data[..piece.len() * UNIT_BYTES],
                fua: false,
                handle: None,
            };
            submit(volume, &mut queue, command)?;
            bar.advance(piece.len() as u64)?;
        }
    }
    volume.wait_until(queue.drained_ns());
    volume.set_size(file, size)?;
    volume.sync(file)?;
    volume.sync_names()?;
    Ok(lpns)
}

fn overwrite(
    volume: &mut Volume,
    lpns: &[Lpn],
    commands: u64,
    random: &mut Xoshiro256PlusPlus,
    bar: &Bar,
) -> Result<(), WorkloadError> {
    let mut data = vec![0; UNIT_BYTES];
    let mut queue = CommandQueue::new(volume.now_ns());
    for number in 0..commands {
        random.fill(&mut data[..16]);
        let lpn = lpns[random.random_range(0..lpns.len())];
        submit(volume, &mut queue, Command::Write { lpn, data: &data, fua: false, handle: None })?;
        if number % COMMANDS_PER_STEP == 0 {
            bar.advance(COMMANDS_PER_STEP.min(commands - number))?;
        }
    }
    volume.wait_until(queue.drained_ns());
    Ok(())
}

fn submit(volume: &mut Volume, queue: &mut CommandQueue, command: Command<'_>) -> Result<(), WorkloadError> {
    volume.wait_until(queue.issue_ns());
    queue.completes(volume.submit_queued(command)?.done_ns);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_drives_that_are_filled_less_than_others_are_noted() {
        let note = small_fill(64 << 20).unwrap();
        assert!(
            note.starts_with("at most 50 % of the drive are filled before it is aged, where 90 % are"),
            "{note}"
        );
        assert!(note.contains("32 MiB stay free") && note.ends_with("use --capacity 320M or more"), "{note}");
        assert!(small_fill(319 << 20).is_some() && small_fill(8 << 20).unwrap().contains("0 %"));
        assert_eq!(small_fill(320 << 20), None);
    }
}
