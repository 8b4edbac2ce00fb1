//! What was measured, as a page.

use std::fmt::Write;
use std::path::Path;

use plotters::style::RGBColor;
use tantalum_report::html::{escaped, figure, legend, lines, page, table};
use tantalum_report::plots::bars::{self, Bar, short};
use tantalum_report::plots::{colours, steps};
use tantalum_report::table::bytes;
use tantalum_report::{ReportError, figure_text, save};
use tantalum_workloads::unit_bytes;

use crate::measurement::Measurement;
use crate::text;
use crate::write_purpose::WritePurpose;

/// Files in the plot.
const MOST_FILES: usize = 12;

/// Characters of a file's name in a plot; longer names lose their beginning.
const MOST_CHARACTERS: usize = 24;

/// Writes the page.
pub fn write_report(measurement: &Measurement, path: &Path) -> Result<(), ReportError> {
    save(&render(measurement)?, path)
}

fn render(measurement: &Measurement) -> Result<String, ReportError> {
    let incomplete = measurement.incomplete.as_ref().map(|why| format!("Not complete: {why}"));
    let lead = lines([text::heading(measurement)].into_iter().chain(incomplete));
    let (summary, plots) = (summary(measurement), plots(measurement)?.concat());
    let mut contents = format!("{summary}<div class=\"plots\">\n{plots}</div>\n");
    for (title, figures) in text::tables(measurement) {
        let _ = write!(contents, "<h2>{}</h2>\n{}", escaped(title), table(&figures));
    }
    contents.push_str(METHOD);
    let title = format!("tantalum measure: {}", measurement.measured);
    Ok(page(&title, "What it wrote", &lead, &contents))
}

const METHOD: &str = "<h2>How to read this</h2>\n<p>Everything that was done to the files was recorded. Bytes asked for are those \
of the program's writes. Bytes to the drive are whole units of 4 KiB, in the commands that the file system sent; which file they \
belong to is seen when the recording is done again on an equal drive. Bytes to flash are what the drive programmed for any \
reason. Metadata are what the file system wrote for itself. The other drives did the same recording: with atomic writes, \
images of data pages are left out of logs, as a program can that need not guard its pages; with duplicates shared, a unit that \
equals one written shortly before is mapped to it; with a capacitor, the drive's cache is durable and flushes wait for \
nothing.</p>\n";

/// The answer in one sentence.
fn summary(measurement: &Measurement) -> String {
    let counters = &measurement.counters;
    let amplification = &measurement.amplification;
    let mut text = format!(
        "<p class=\"headline\">It asked for <b>{}</b>; <b>{}</b> went to the drive and <b>{}</b> to flash",
        bytes(measurement.asked.bytes),
        bytes(unit_bytes(counters.host_units_written)),
        bytes(unit_bytes(counters.flash_units.total()))
    );
    if let Some(total) = amplification.total {
        let _ = write!(text, ": {} bytes for each byte", figure_text(total));
    }
    let _ = writeln!(text, ". At this rate the drive lives {}.</p>", escaped(&measurement.life.days_text()));
    text
}

fn plots(measurement: &Measurement) -> Result<Vec<String>, ReportError> {
    let mut plots = vec![files(measurement)?, flash(measurement)?, over_time(measurement)?];
    if measurement.rewritten.units > 0 {
        plots.push(rewritten(measurement)?);
    }
    if let Some(us) = &measurement.asked.sync_us {
        let percentiles = [("median", us.p50), ("95 %", us.p95), ("99 %", us.p99), ("longest", us.max)];
        let bars: Vec<Bar> = percentiles
            .into_iter()
            .map(|(name, us)| bar(name.to_owned(), colours::SERIES[3], us / 1000.0, figure_text(us / 1000.0)))
            .collect();
        let caption = "time of fsync and fdatasync, in the drive's time";
        plots.push(figure("", "Syncs", caption, &bars::draw("syncs", "milliseconds", &bars)?));
    }
    if measurement.replays.len() > 1 {
        plots.push(replays(measurement)?);
        plots.push(replayed_syncs(measurement)?);
    }
    Ok(plots)
}

fn bar(label: String, colour: RGBColor, value: f64, end: String) -> Bar {
    Bar { label, pieces: vec![(colour, value)], end }
}

fn colour(kind: WritePurpose) -> RGBColor {
    colours::SERIES[WritePurpose::ALL.iter().position(|other| *other == kind).unwrap_or(0)]
}

/// The end of a long name.
fn end_of(name: &str) -> String {
    let characters = name.chars().count();
    match characters > MOST_CHARACTERS {
        true => format!("…{}", name.chars().skip(characters - MOST_CHARACTERS + 1).collect::<String>()),
        false => name.to_owned(),
    }
}

fn files(measurement: &Measurement) -> Result<String, ReportError> {
    let to_drive = |bytes: Option<u64>, asked| bytes.unwrap_or(asked);
    let shown = measurement.files.iter().take(MOST_FILES);
    let mut bars: Vec<Bar> = shown
        .map(|file| {
            let written = to_drive(file.drive_bytes, file.bytes);
            bar(end_of(&file.path), colour(file.kind), written as f64, bytes(written))
        })
        .collect();
    if let Some(metadata) = measurement.kinds.iter().find(|kind| kind.kind == WritePurpose::Metadata)
        && let Some(written) = metadata.drive_bytes
    {
        bars.push(bar(
            "(metadata)".to_owned(),
            colour(WritePurpose::Metadata),
            written as f64,
            bytes(written),
        ));
    }
    let names =
        WritePurpose::ALL.into_iter().map(|kind| (kind.name().to_owned(), colours::css(colour(kind))));
    let svg = bars::draw("files", "bytes", &bars)?;
    Ok(figure("", "Files", "bytes to the drive", &format!("{}{svg}", legend(names))))
}

fn flash(measurement: &Measurement) -> Result<String, ReportError> {
    let causes = measurement.counters.flash_units.each().filter(|(_, units)| *units > 0);
    let bars: Vec<Bar> = causes
        .map(|(name, units)| {
            let amount = unit_bytes(units);
            bar(name.to_owned(), colours::SERIES[0], amount as f64, bytes(amount))
        })
        .collect();
    Ok(figure("", "Flash", "bytes programmed, by cause", &bars::draw("flash", "bytes", &bars)?))
}

fn over_time(measurement: &Measurement) -> Result<String, ReportError> {
    let mut from = 0.0;
    let mut rates = Vec::new();
    for (to, bytes) in &measurement.over_time {
        rates.push((*to, *bytes as f64 / (to - from).max(f64::MIN_POSITIVE)));
        from = *to;
    }
    let svg = steps::draw("writes over time", "seconds", "bytes per second", colours::SERIES[3], &rates)?;
    Ok(figure("wide", "Over time", "bytes asked for in each second", &svg))
}

fn rewritten(measurement: &Measurement) -> Result<String, ReportError> {
    let bars: Vec<Bar> = measurement
        .rewritten
        .histogram
        .iter()
        .map(|(from, to, units)| {
            let label = if from == to { "once".to_owned() } else { format!("{from} to {to}") };
            bar(label, colours::SERIES[1], *units as f64, short(*units as f64))
        })
        .collect();
    let caption = format!(
        "how often a unit of a file went to the drive: {} times on average",
        figure_text(measurement.rewritten.mean)
    );
    Ok(figure("", "Rewritten units", &caption, &bars::draw("rewritten units", "units", &bars)?))
}

fn replays(measurement: &Measurement) -> Result<String, ReportError> {
    let bars: Vec<Bar> = measurement
        .replays
        .iter()
        .map(|replay| {
            bar(replay.name.clone(), colours::SERIES[0], replay.flash_bytes as f64, bytes(replay.flash_bytes))
        })
        .collect();
    let caption = "bytes to flash when the same recording is replayed";
    Ok(figure("", "Other drives", caption, &bars::draw("replays", "bytes", &bars)?))
}

fn replayed_syncs(measurement: &Measurement) -> Result<String, ReportError> {
    let bars: Vec<Bar> = measurement
        .replays
        .iter()
        .map(|replay| {
            let ms = replay.sync_seconds * 1000.0;
            bar(replay.name.clone(), colours::SERIES[3], ms, figure_text(ms))
        })
        .collect();
    let caption = "time in syncs when the same recording is replayed";
    Ok(figure("", "Syncs on other drives", caption, &bars::draw("replayed syncs", "milliseconds", &bars)?))
}
