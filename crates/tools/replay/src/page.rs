//! A replay as a page.

use std::fmt::Write;
use std::path::Path;

use tantalum_report::html::{escaped, figure, lines, page, switches, table};
use tantalum_report::plots::bars::{self, Bar};
use tantalum_report::plots::curves::{self, Curve};
use tantalum_report::plots::{colours, steps};
use tantalum_report::table::bytes;
use tantalum_report::{ReportError, figure_text, save};
use tantalum_workloads::unit_bytes;

use crate::outcome::{Outcome, Requests};
use crate::text;

/// Writes the page.
pub fn write_report(outcome: &Outcome, path: &Path) -> Result<(), ReportError> {
    save(&render(outcome)?, path)
}

const METHOD: &str = "<h2>How to read this</h2>\n<p>The requests of a trace were given to a simulated drive in its own time, so \
the same trace and settings give the same figures on any machine. A latency is from the time that the host asks to the end of \
the request, with all that it waits for. The drive's units are of 4 KiB: it reads a unit that is written in part before it \
writes all of it. After the last request the drive is flushed, and what that programs is counted. Life is what is left of the \
flash's rated erases at the rate of this replay.</p>\n";

fn render(outcome: &Outcome) -> Result<String, ReportError> {
    let addresses = format!("Addresses: {}", outcome.replay.addresses);
    let lead = lines([text::heading(outcome), addresses].into_iter().chain(text::notes(outcome)));
    let (headline, plots) = (headline(outcome), plots(outcome)?.concat());
    let mut contents =
        format!("<p class=\"headline\">{headline}</p>\n<div class=\"plots\">\n{plots}</div>\n");
    for (title, figures) in text::tables(outcome) {
        let _ = write!(contents, "<h2>{}</h2>\n{}", escaped(&title), table(&figures));
    }
    contents.push_str(METHOD);
    let title = format!("tantalum replay: {}", outcome.trace.path);
    Ok(page(&title, "What the trace does to the drive", &lead, &contents))
}

/// The result of the replay, in a sentence or two.
fn headline(outcome: &Outcome) -> String {
    let counters = &outcome.counters;
    let mut text = format!(
        "{} went to the drive and {} to flash",
        bytes(unit_bytes(counters.host_units_written)),
        bytes(unit_bytes(counters.flash_units.total()))
    );
    if let Some(ratio) = outcome.amplification {
        let _ = write!(text, ": {} bytes for each byte", figure_text(ratio));
    }
    let _ = write!(text, ". At this rate the drive lives {}.", outcome.life.days_text());
    let of_kind = |requests: &Requests| {
        format!("{}s {} us", requests.kind.name(), figure_text(requests.latency_us.p99))
    };
    let slowest: Vec<String> = outcome.requests.iter().map(of_kind).collect();
    if !slowest.is_empty() {
        let _ = write!(text, " 99 % took at most: {}.", slowest.join(", "));
    }
    escaped(&text)
}

fn plots(outcome: &Outcome) -> Result<Vec<String>, ReportError> {
    let mut plots = Vec::new();
    if !outcome.latencies.is_empty() {
        plots.push(latencies(outcome)?);
    }
    plots.push(flash(outcome)?);
    if let Some(busy) = outcome.binds.first() {
        let row = busy.rows.first().map_or(&[][..], |row| &row.ours);
        let bars: Vec<Bar> = busy
            .columns
            .iter()
            .zip(row)
            .map(|(name, share)| Bar {
                label: name.clone(),
                pieces: vec![(colours::SERIES[3], *share)],
                end: format!("{} %", figure_text(*share)),
            })
            .collect();
        let plot = bars::draw("what binds", "percent of the time", &bars)?;
        plots.push(figure("", "What binds", "how busy the drive's parts were", &plot));
    }
    plots.push(over_time(outcome)?);
    Ok(plots)
}

fn latencies(outcome: &Outcome) -> Result<String, ReportError> {
    let colour = |index: usize| colours::SERIES[index % colours::SERIES.len()];
    let curves: Vec<Curve<'_>> = outcome
        .latencies
        .iter()
        .enumerate()
        .map(|(index, (kind, latencies))| Curve {
            name: kind.name().to_owned(),
            colour: colour(index),
            latencies,
        })
        .collect();
    let names = outcome.latencies.iter().enumerate();
    let names = names.map(|(index, (kind, _))| (kind.name().to_owned(), colours::css(colour(index))));
    let plot = format!("{}{}", switches(names), curves::draw(&curves)?);
    let caption = "of requests, from the time that the host asks";
    Ok(figure("tall", "Latency", caption, &plot))
}

fn flash(outcome: &Outcome) -> Result<String, ReportError> {
    let causes = outcome.counters.flash_units.each().filter(|(_, units)| *units > 0);
    let bars: Vec<Bar> = causes
        .map(|(name, units)| Bar {
            label: name.to_owned(),
            pieces: vec![(colours::SERIES[0], unit_bytes(units) as f64)],
            end: bytes(unit_bytes(units)),
        })
        .collect();
    let plot = bars::draw("flash", "bytes", &bars)?;
    Ok(figure("", "Flash", "bytes programmed, by cause", &plot))
}

fn over_time(outcome: &Outcome) -> Result<String, ReportError> {
    let mut from = 0.0;
    let mut rates = Vec::new();
    for (to, bytes) in &outcome.over_time {
        // requests at a single moment have no rate
        if *to > from {
            rates.push((*to, *bytes as f64 / (to - from)));
            from = *to;
        }
    }
    let plot =
        steps::draw("over time", "seconds of the drive", "bytes per second", colours::SERIES[1], &rates)?;
    let caption = "bytes of reads and writes in each second";
    Ok(figure("wide", "Over time", caption, &plot))
}
