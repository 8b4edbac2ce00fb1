//! `tantalum stat`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use tantalum::{Access, Device};
use tantalum_fuse::control::{Control, ControlError};
use tantalum_fuse::image_mounted_on;
use tantalum_fuse::report::{Latency, Report};
use tantalum_report::table::{Align, Table, bytes, grouped};
use tantalum_volume::Volume;

use crate::failure::Failure;
use crate::output;

/// Bytes of the page cache of a volume that is only looked at.
const CACHE_BYTES: u64 = 1 << 20;

/// How often the view is drawn anew.
const INTERVAL: Duration = Duration::from_secs(1);

/// Moves to the screen's upper left corner and clears what is there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `tantalum stat`.
#[derive(Args, Debug)]
pub struct StatOptions {
    /// The folder on which a volume is mounted, or an image file
    pub target: PathBuf,

    /// Show it anew every second, with what happened in between, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Shows the counters.
pub fn run(options: &StatOptions) -> Result<(), Failure> {
    let image = image_mounted_on(&options.target).unwrap_or_else(|| options.target.clone());
    match Control::connect(&image) {
        Ok(mut control) if options.watch => watch(&mut control),
        Ok(mut control) => show(options, &control.stat()?),
        Err(error) if options.watch || image != options.target => Err(error.into()),
        Err(ControlError::NotMounted { .. }) => show(options, &unmounted(&image)?),
        Err(error) => Err(error.into()),
    }
}

fn show(options: &StatOptions, report: &Report) -> Result<(), Failure> {
    match options.json {
        true => output::print_json(report),
        false => output::print(&text(report, None)),
    }
}

/// The image is only read: what recovery does stays in memory.
fn unmounted(image: &Path) -> Result<Report, Failure> {
    let path = image.to_path_buf();
    let device = Device::open_as(image, Access::Overlay);
    let mut device = device.map_err(|error| Failure::Image { path: path.clone(), error })?;
    let failed = |error| Failure::Volume { path: path.clone(), error };
    if !Volume::is_formatted(&mut device).map_err(failed)? {
        return Err(Failure::NoVolume { path });
    }
    let volume = Volume::mount(device, CACHE_BYTES).map_err(failed)?;
    Ok(Report::of(&volume, path))
}

fn watch(control: &mut Control) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    // If there is no handler to be had Ctrl-C ends the process, which is what it asks for.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let mut before = None;
    while !ended.load(Ordering::Relaxed) {
        let report = control.stat()?;
        output::print(&format!("{CLEAR}{}", text(&report, before.as_ref())))?;
        before = Some(report);
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// What is shown. With an earlier report also what happened since then.
fn text(report: &Report, before: Option<&Report>) -> String {
    let state = match (&report.mounted_on, report.has_power) {
        (Some(folder), true) => format!("mounted on {}", folder.display()),
        (Some(folder), false) => format!("mounted on {}, without power", folder.display()),
        (None, _) => "not mounted".to_owned(),
    };
    let stopped = report.stopped.as_ref().map_or_else(String::new, |error| {
        format!("stopped: {error}; every request fails until it is unmounted and mounted again\n")
    });
    let capacity = bytes(report.capacity_units * tantalum::UNIT_BYTES as u64);
    let mut shown =
        format!("{}: {} of {capacity}, {state}\n{stopped}\n", report.image.display(), report.profile);
    shown.push_str(&counters(report, before).render());
    shown.push('\n');
    shown.push_str(&latencies(report).render());
    shown
}

fn counters(report: &Report, before: Option<&Report>) -> Table {
    let mut columns = vec![("", Align::Left), ("so far", Align::Right)];
    if before.is_some() {
        columns.push(("this second", Align::Right));
    }
    let mut table = Table::new(&columns);
    let earlier = before.map(counts);
    for (at, (name, now)) in counts(report).into_iter().enumerate() {
        let mut row = vec![name, grouped(now)];
        row.extend(earlier.as_ref().map(|earlier| grouped(now.saturating_sub(earlier[at].1))));
        table.push(row);
    }
    for (name, value) in levels(report) {
        let mut row = vec![name.to_owned(), value];
        row.extend(before.map(|_| String::new()));
        table.push(row);
    }
    table
}

/// What only grows: the drive's counters, with what was programmed by cause, and the volume's.
fn counts(report: &Report) -> Vec<(String, u64)> {
    let counters = &report.smart.counters;
    let named = |(name, count): (&str, u64)| (name.to_owned(), count);
    let mut counts = vec![named(("flash units programmed", counters.flash_units.total()))];
    counts.extend(counters.flash_units.each().map(|(name, units)| (format!("  {name}"), units)));
    counts.extend(counters.each().map(named));
    counts.push(named(("duplicates remapped", report.volume.units_remapped)));
    counts.push(named(("writes without duplicate", report.volume.units_without_duplicate)));
    counts
}

/// What goes up and down.
fn levels(report: &Report) -> [(&'static str, String); 5] {
    let unit = tantalum::UNIT_BYTES as u64;
    let smart = &report.smart;
    [
        ("write amplification", format!("{:.2}", report.write_amplification)),
        (
            "erases of a block",
            format!(
                "{} to {}, mean {:.1} of {}",
                smart.erase_count_min,
                smart.erase_count_max,
                smart.erase_count_mean,
                grouped(report.endurance_cycles.into())
            ),
        ),
        ("bad blocks", grouped(smart.bad_blocks.into())),
        (
            "free space",
            format!("{} of {}", bytes(report.volume.free_units * unit), bytes(report.volume.units * unit)),
        ),
        ("files", grouped(report.volume.files)),
    ]
}

fn latencies(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("latency", Align::Left),
        ("commands", Align::Right),
        ("mean us", Align::Right),
        ("p50 us", Align::Right),
        ("p99 us", Align::Right),
        ("p99.9 us", Align::Right),
        ("max us", Align::Right),
    ]);
    let latency = &report.latency;
    let kinds =
        [("read", latency.read), ("write", latency.write), ("flush", latency.flush), ("map", latency.map)];
    for (name, latency) in kinds {
        table.push(latency_row(name, &latency));
    }
    table
}

fn latency_row(name: &str, latency: &Latency) -> Vec<String> {
    let microseconds = |ns: u64| grouped(ns / 1000);
    vec![
        name.to_owned(),
        grouped(latency.count),
        microseconds(latency.mean_ns as u64),
        microseconds(latency.p50_ns),
        microseconds(latency.p99_ns),
        microseconds(latency.p999_ns),
        microseconds(latency.max_ns),
    ]
}
