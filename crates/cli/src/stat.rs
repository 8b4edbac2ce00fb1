//! `tantalum stat`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use tantalum::{Access, Device};
use tantalum_control::Latency;
use tantalum_control::{Control, ControlError};
use tantalum_filesystem::LogStatistics;
use tantalum_fuse::image_mounted_on;
use tantalum_fuse::report::Report as Mounted;
use tantalum_report::table::{Align, Table, bytes, grouped};

use crate::baseline;
use crate::failure::Failure;
use crate::file_system::{self, Use};
use crate::info::line_of;
use crate::info_zones;
use crate::life::LoadOptions;
use crate::mount::stopped;
use crate::output;
use crate::stat_report::{Before, Report, shown, since, since_reset};

/// Bytes of the page cache of a volume that is only inspected.
const CACHE_BYTES: u64 = 1 << 20;

/// How often the view is refreshed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Moves to the screen's upper left corner and clears what is there.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// `tantalum stat`.
#[derive(Args, Debug)]
pub struct StatOptions {
    /// The folder on which a volume is mounted, or an image file, served or not
    pub target: PathBuf,

    /// Refresh every second until Ctrl-C, and show the changes in that second. With --json, print one object a second, each on
    /// its line
    #[arg(long)]
    pub watch: bool,

    /// Also show changes since an earlier `tantalum stat --json`, whose output is in this file, instead of since the last
    /// reset. Refused if the drive has lost power since: then its counters are those of its last checkpoint
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub since: Option<PathBuf>,

    /// Start counting changes from now on, for later calls. The state is kept in IMAGE.stat; the drive's own counters continue
    #[arg(long, conflicts_with_all = ["watch", "since", "json"])]
    pub reset: bool,

    #[command(flatten)]
    pub load: LoadOptions,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Shows the counters.
pub fn run(options: &StatOptions) -> Result<(), Failure> {
    let mounted = image_mounted_on(&options.target);
    let is_mounted = mounted.is_some();
    if !is_mounted && options.target.is_dir() {
        return Err(Failure::NotMounted { path: options.target.clone() });
    }
    let image = mounted.unwrap_or_else(|| options.target.clone());
    match Control::connect(&image) {
        Ok(mut control) if options.watch => watch(&mut control, options),
        Ok(mut control) => show(options, &image, control.stat()?),
        Err(ControlError::NotInUse { .. }) if is_mounted => {
            Err(Failure::MountDied { image, folder: options.target.clone() })
        }
        Err(error) if options.watch => Err(error.into()),
        Err(ControlError::NotInUse { .. }) => show(options, &image, unmounted(&image)?),
        Err(error) => Err(error.into()),
    }
}

fn show(options: &StatOptions, image: &Path, report: Report) -> Result<(), Failure> {
    if options.reset {
        baseline::keep(image, &report)?;
        return output::print(&format!("{}: changes are counted from now on\n", image.display()));
    }
    let before = match &options.since {
        Some(earlier) => Some(since(earlier, &report)?),
        None => since_reset(image, &report),
    };
    match options.json {
        true => output::print_json(&shown(&report, before.as_ref(), &options.load)),
        false => output::print(&text(&report, before.as_ref(), &options.load)),
    }
}

/// The image is only read: recovery stays in memory.
fn unmounted(image: &Path) -> Result<Report, Failure> {
    let path = image.to_path_buf();
    let device = Device::open_as(image, Access::Overlay);
    let mut device = device.map_err(|error| Failure::Image { path: path.clone(), error })?;
    let Some(kind) = file_system::recognise(&path, &mut device)? else {
        return Err(Failure::NothingToShow { path });
    };
    let how = Use { cache_bytes: CACHE_BYTES, remap_duplicates: false, snapshot: None };
    let mounted = file_system::mount(kind, &path, device, how)?;
    Ok(Report::Mounted(Box::new(Mounted::of(&*mounted, path))))
}

fn watch(control: &mut Control, options: &StatOptions) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    // Without a handler Ctrl-C ends the process, which is what it asks for.
    let _ = ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed));
    let mut before: Option<Before> = None;
    while !ended.load(Ordering::Relaxed) {
        let report: Report = control.stat()?;
        // power may have failed and returned
        before = before.filter(|before| report.went_back(&before.report).is_none());
        if options.json {
            output::print_json_line(&shown(&report, before.as_ref(), &options.load))?;
        } else {
            output::print(&format!("{CLEAR}{}", text(&report, before.as_ref(), &options.load)))?;
        }
        before = Some(Before { report, since: "this second" });
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

/// The view. With an earlier report, also the changes since then.
fn text(report: &Report, before: Option<&Before>, load: &LoadOptions) -> String {
    let drive = report.drive();
    let capacity = bytes(drive.capacity_units * tantalum::UNIT_BYTES as u64);
    let power = if drive.has_power { "" } else { ", without power" };
    let mut shown = format!("{}: {} of {capacity}, ", drive.image.display(), drive.profile);
    match report {
        Report::Mounted(report) => {
            let state = match &report.mounted_on {
                Some(folder) => format!("mounted on {}{power}", folder.display()),
                None => "not mounted".to_owned(),
            };
            shown.push_str(&format!("{state}\n"));
            if let Some(error) = &report.stopped {
                let what = stopped(drive.has_power);
                shown
                    .push_str(&format!("stopped: {error}; {what} until it is unmounted and mounted again\n"));
            }
        }
        Report::Served(report) => {
            let served = &report.served;
            shown.push_str(&format!("served at {}{power}\n{}\n", served.address, served.name));
            for port in served.ports.iter().filter(|_| served.ports.len() > 1) {
                shown.push_str(&format!("port {} at {}: {}\n", port.port, port.address, port.access));
            }
            for namespace in &served.block_namespaces {
                shown.push_str(&format!("namespace {}\n", line_of(namespace)));
            }
        }
    }
    shown.push('\n');
    shown.push_str(&counters(report, before).render());
    shown.push('\n');
    if let Some(handles) = handles(report, before) {
        shown.push_str(&handles.render());
        shown.push('\n');
    }
    shown.push_str(&life(report, before, load));
    shown.push('\n');
    shown.push_str(&latencies(report).render());
    shown
}

fn counters(report: &Report, before: Option<&Before>) -> Table {
    let mut columns = vec![("", Align::Left), ("so far", Align::Right)];
    columns.extend(before.map(|before| (before.since, Align::Right)));
    let mut table = Table::new(&columns);
    // The earlier report may be from another use of the image, which counts other things.
    let earlier: Option<BTreeMap<_, _>> = before.map(|before| counts(&before.report).into_iter().collect());
    for (name, now) in counts(report) {
        let change = earlier.as_ref().map(|earlier| {
            // what a use of the image counts begins at 0 with the next one
            earlier.get(&name).and_then(|then| now.checked_sub(*then)).map_or_else(String::new, grouped)
        });
        let mut row = vec![name, grouped(now)];
        row.extend(change);
        table.push(row);
    }
    let change = before.map(|before| before.write_amplification(report));
    let shown = change.map(|change| change.map_or_else(String::new, |change| format!("{change:.2}")));
    let mut row =
        vec!["write amplification".to_owned(), format!("{:.2}", report.drive().write_amplification)];
    row.extend(shown);
    table.push(row);
    for (name, value) in levels(report) {
        let mut row = vec![name.to_owned(), value];
        row.extend(before.map(|_| String::new()));
        table.push(row);
    }
    table
}

/// The reclaim unit handles that were written with, of a drive that has some.
fn handles(report: &Report, before: Option<&Before>) -> Option<Table> {
    let mut columns = vec![
        ("handle", Align::Left),
        ("units written", Align::Right),
        ("units programmed", Align::Right),
        ("of these moved", Align::Right),
        ("write amplification", Align::Right),
    ];
    columns.extend(before.map(|before| (before.since, Align::Right)));
    let mut table = Table::new(&columns);
    let handles = &report.drive().handles;
    for handle in handles.iter().filter(|handle| handle.host_units_written > 0) {
        let shown =
            |amplification: Option<f64>| amplification.map_or_else(String::new, |of| format!("{of:.2}"));
        let mut row = vec![
            handle.handle.to_string(),
            grouped(handle.host_units_written),
            grouped(handle.flash_host_units + handle.flash_copies),
            grouped(handle.flash_copies),
            shown(handle.write_amplification),
        ];
        row.extend(before.map(|before| shown(before.write_amplification_of(handle))));
        table.push(row);
    }
    (!handles.is_empty()).then_some(table)
}

/// How long the drive lasts: at the write amplification since the earlier report, if enough was written since.
fn life(report: &Report, before: Option<&Before>, load: &LoadOptions) -> String {
    let change = before.and_then(|before| Some((before.since, before.write_amplification(report)?)));
    let (of, write_amplification) = change.unwrap_or(("so far", report.drive().write_amplification));
    let lines = report.life(write_amplification, load).lines();
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = format!("life, at the write amplification {of}\n");
    for (name, value) in lines {
        text.push_str(&format!("  {name:<width$}  {value}\n"));
    }
    text
}

/// Values that only grow: the drive's counters, including programs by cause, and the volume's.
fn counts(report: &Report) -> Vec<(String, u64)> {
    let counters = &report.drive().smart.counters;
    let named = |(name, count): (&str, u64)| (name.to_owned(), count);
    let mut counts = vec![named(("flash units programmed", counters.flash_units.total()))];
    counts.extend(counters.flash_units.each().map(|(name, units)| (format!("  {name}"), units)));
    counts.extend(counters.each().map(named));
    match report {
        Report::Mounted(report) => {
            counts.push(named(("duplicates remapped", report.volume.units_remapped)));
            counts.push(named(("writes without duplicate", report.volume.units_without_duplicate)));
            counts.extend(report.volume.log.iter().flat_map(of_log).map(named));
        }
        Report::Served(report) => {
            counts.push(named(("connections", report.served.connections_accepted)));
            counts.push(named(("commands that failed", report.served.commands_failed)));
            counts.push(named(("power cuts", report.served.power_losses)));
            counts.push(named(("duplicates remapped", report.served.units_remapped)));
            counts.push(named(("writes without duplicate", report.served.units_without_duplicate)));
        }
    }
    counts
}

/// What only a log-structured file system counts.
fn of_log(log: &LogStatistics) -> [(&'static str, u64); 9] {
    [
        ("written since the mount", log.units_written),
        ("  contents of files", log.content_units_written),
        ("  of these in place", log.units_in_place),
        ("  of these in holes", log.units_in_holes),
        ("syncs of contents alone", log.syncs_listed),
        ("syncs of contents and index", log.syncs_indexed),
        ("checkpoints of the file system", log.checkpoints),
        ("copied by the cleaner", log.units_copied),
        ("moved for the cleaner", log.units_moved),
    ]
}

/// Values that go up and down.
fn levels(report: &Report) -> Vec<(&'static str, String)> {
    let unit = tantalum::UNIT_BYTES as u64;
    let drive = report.drive();
    let smart = &drive.smart;
    let erases = format!(
        "{} to {}, mean {:.1} of {}",
        smart.erase_count_min,
        smart.erase_count_max,
        smart.erase_count_mean,
        grouped(drive.endurance_cycles.into())
    );
    let mut levels = vec![
        ("erases of a block", erases),
        ("bad blocks", grouped(smart.bad_blocks.into())),
        ("units mapped", grouped(drive.mapped_units)),
    ];
    levels.extend(drive.zones.iter().flat_map(info_zones::lines));
    match report {
        Report::Mounted(report) => {
            let volume = &report.volume;
            if let Some(amplification) = volume.log.and_then(|log| log.file_write_amplification()) {
                levels.push(("file write amplification", format!("{amplification:.2}")));
            }
            let (free, all) = (bytes(volume.free_units * unit), bytes(volume.units * unit));
            levels.push(("free space", format!("{free} of {all}")));
            levels.push(("files", grouped(volume.files)));
        }
        Report::Served(report) => {
            levels.push(("hosts' controllers", grouped(report.served.controllers as u64)));
            levels.push(("open connections", grouped(report.served.connections as u64)));
        }
    }
    levels
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
    let latency = &report.drive().latency;
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
