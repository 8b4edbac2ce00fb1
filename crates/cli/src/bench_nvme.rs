//! `tantalum bench --nvme`.

use std::fmt::Write;
use std::time::Duration;

use tantalum::UNIT_BYTES;
use tantalum_fuse::Pacing;
use tantalum_nvme::bench::{CASES, Case, Outcome, Row, Settings, bench};

use crate::arguments::{BenchOptions, SERVED_CAPACITY};
use crate::drive::note_rounding;
use crate::failure::Failure;
use crate::{interrupt, output};

/// Turns of drive and limit.
const ROUNDS: u32 = 6;

/// Measures and prints the outcome.
pub fn run(options: &BenchOptions) -> Result<(), Failure> {
    let settings = Settings {
        profile: options.drive.load(Some(SERVED_CAPACITY), options.over_provisioning_percent)?,
        image: options.image.clone(),
        pacing: options.time.unwrap_or(Pacing::None),
        round: Duration::from_secs_f64(options.seconds) / (2 * ROUNDS),
        rounds: ROUNDS as usize,
    };
    note_rounding(&settings.profile);
    let drives = 1 + usize::from(settings.image.is_some());
    let monitor = interrupt::monitor();
    let bar = monitor.bar("served", (drives * CASES.len()) as u64);
    let mut tell = |drive: &str, case: &Case| {
        bar.say(format!("in {drive}: {}", case.name));
        bar.advance(1).is_ok()
    };
    let outcomes = bench(&settings, &mut tell)?;
    drop(bar);
    if options.json { output::print_json(&outcomes) } else { output::print(&tables(&outcomes)) }
}

fn tables(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let _ = writeln!(text, "drive in {}", outcome.drive);
        let _ = writeln!(
            text,
            "{:22}{:>12}{:>9}{:>12}{:>9}{:>12}{:>12}{:>12}",
            "", "commands/s", "MiB/s", "limit", "of it", "median us", "limit us", "drive us"
        );
        for row in &outcome.rows {
            line(&mut text, row);
        }
        text.push('\n');
    }
    text.push_str(
        "commands and depth; 4 x 32: four connections. The limit is the same server without a drive.\n",
    );
    text
}

fn line(text: &mut String, row: &Row) {
    let unit_mib = f64::from(row.case.units) * UNIT_BYTES as f64 / f64::from(1 << 20);
    let drive_us = row.drive_us.map_or_else(String::new, |us| format!("{us:.1}"));
    let _ = writeln!(
        text,
        "{:22}{:>12.0}{:>9.0}{:>12.0}{:>9.2}{:>12.1}{:>12.1}{:>12}",
        row.case.name,
        row.served.per_second,
        row.served.per_second * unit_mib,
        row.limit.per_second,
        row.of_limit,
        row.served.median_us,
        row.limit.median_us,
        drive_us
    );
}
