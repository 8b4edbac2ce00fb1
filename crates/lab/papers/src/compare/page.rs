//! The page around the plots.

use std::fmt::Write;
use std::path::Path;

use tantalum::{Profile, UNIT_BYTES};
use tantalum_report::html::{escaped, figure, legend, lines, page, switches};
use tantalum_report::plots::bars::{self, Bar, short};
use tantalum_report::plots::colours::css;
use tantalum_report::plots::curves::{self, Curve};
use tantalum_report::{Endurance, ReportError, figure_text, save, terabytes};
use tantalum_sqlite::Mode;

use super::configuration::configuration;
use super::outcome::{Comparison, Run};
use super::{colours, summary};

/// Writes the report of a comparison.
pub fn write_report(comparison: &Comparison, path: &Path) -> Result<(), ReportError> {
    save(&render(comparison)?, path)
}

/// The whole page.
fn render(comparison: &Comparison) -> Result<String, ReportError> {
    let contents = format!(
        "{table}\n<div class=\"plots\">\n{figures}</div>\n<h2>Configuration</h2>\n{configuration}\n\
         <h2>How to read this</h2>\n{METHOD}\n",
        table = table(&comparison.runs),
        figures = figures(comparison)?,
        configuration = configuration(comparison),
    );
    let name = &comparison.profile.name;
    let lead = lines(summary::circumstances(comparison).lines());
    let contents = match headline(&comparison.runs) {
        Some(headline) => format!("<p class=\"headline\">{}</p>\n{contents}", escaped(&headline)),
        None => contents,
    };
    let short = summary::too_short(comparison).map(|text| format!("<p>{}</p>\n", lines(text.lines())));
    let contents = short.unwrap_or_default() + &contents;
    Ok(page(&format!("tantalum compare sqlite: {name}"), &format!("SQLite on {name}"), &lead, &contents))
}

/// The load for which a lifetime in years is stated, on a drive of [`STATED_BYTES`].
const STATED_RATE: f64 = 100.0;

const STATED_BYTES: u64 = 1 << 40;

const SECONDS_PER_YEAR: f64 = 365.0 * 24.0 * 3600.0;

const METHOD: &str = "<p>The same workload ran in each mode on its own copy of one drive, which had been filled \
and overwritten at random until garbage collection was steady. Time is the drive's, computed from the \
latencies of its flash, plus a constant for the host; it does not depend on the machine that ran this. \
Each measurement starts and ends with a checkpoint and a flush. After it, power was cut, the drive \
recovered, and all of the database was compared with what had been written.</p>\n\
<p><strong>rollback</strong>: SQLite's rollback journal. <strong>wal</strong>: its write-ahead log, the baseline. \
<strong>x-ftl</strong>: the drive's transactions. <strong>atomic</strong>: SQLite's batch-atomic writes. \
<strong>share</strong>: log frames shared with the database by a checkpoint. \
<strong>sw-wal</strong>: the same with hinted log frames, which need no record of it.</p>";

const THROUGHPUT: &str = "Transactions per second of the drive's time. Longer is better.";
const WRITES: &str = "Units of 4 KiB programmed for each transaction. Shorter is better.";
const LATENCY: &str = "Latency that a given percentage of the transactions did not exceed. Lower is better.";
const ERASES: &str = "Blocks erased in the run. Shorter is better.";
const LIFETIME: &str = "Years until the flash reaches its rated erase cycles, at 100 transactions per second day and night on \
1 TiB of such a drive, if all blocks wear equally. Longer is better. After it, at the mode's write amplification: what hosts may \
write to that drive (TBW), and how often a day for five years.";

/// All plots, each with its caption.
fn figures(comparison: &Comparison) -> Result<String, ReportError> {
    let runs = &comparison.runs;
    let writes = causes_legend(runs) + &flash_writes(runs)?;
    let latency = mode_switches(runs) + &latencies(runs)?;
    let figures = [
        figure("", "Throughput", THROUGHPUT, &throughput(runs)?),
        figure("", "Flash writes by cause", WRITES, &writes),
        figure("tall", "Latency", LATENCY, &latency),
        figure("", "Erases", ERASES, &erases(runs)?),
        figure("", "Lifetime", LIFETIME, &lifetime(comparison)?),
    ];
    Ok(figures.concat())
}

fn throughput(runs: &[Run]) -> Result<String, ReportError> {
    let rate = |run: &Run| run.transactions_per_second;
    bars::draw("throughput", "transactions per second", &bars_of(runs, rate))
}

fn latencies(runs: &[Run]) -> Result<String, ReportError> {
    let curves: Vec<Curve<'_>> = runs
        .iter()
        .map(|run| {
            let (name, colour) = (run.mode.to_string(), colours::of_mode(run.mode));
            Curve { name, colour, latencies: &run.latencies }
        })
        .collect();
    curves::draw(&curves)
}

fn erases(runs: &[Run]) -> Result<String, ReportError> {
    bars::draw("erases", "blocks erased", &bars_of(runs, |run| run.blocks_erased as f64))
}

fn lifetime(comparison: &Comparison) -> Result<String, ReportError> {
    let endurance = stated_endurance(&comparison.profile);
    let programs = rated_programs(&endurance);
    let mut bars = bars_of(&comparison.runs, |run| match run.flash_units_per_transaction() {
        0.0 => 0.0,
        units => programs / units / STATED_RATE / SECONDS_PER_YEAR,
    });
    for (bar, run) in bars.iter_mut().zip(&comparison.runs) {
        if let Some(life) = endurance.lifetime(run.write_amplification) {
            let (written, a_day) = (terabytes(life.host_bytes), figure_text(life.drive_writes_per_day));
            write!(bar.end, "; {written}, {a_day} a day").expect("a string takes all");
        }
    }
    bars::draw("lifetime", "years", &bars)
}

/// Units that can be programmed before all blocks have had their rated cycles.
fn rated_programs(endurance: &Endurance) -> f64 {
    endurance.flash_bytes as f64 / UNIT_BYTES as f64 * f64::from(endurance.cycles)
}

/// The endurance of a new drive of this profile whose capacity is [`STATED_BYTES`].
fn stated_endurance(profile: &Profile) -> Endurance {
    let over_provisioning = 1.0 + profile.over_provisioning_percent / 100.0;
    Endurance {
        flash_bytes: (STATED_BYTES as f64 * over_provisioning) as u64,
        capacity_bytes: STATED_BYTES,
        cycles: profile.flash.endurance_cycles,
        erases: 0.0,
    }
}

/// The main result of the comparison: the fastest mode, and the one under which the drive lasts longest. `None` if
/// there is nothing to compare.
fn headline(runs: &[Run]) -> Option<String> {
    // those that tell something have a ratio
    let told = || runs.iter().filter(|run| run.lifetime_ratio.is_some());
    let wal = told().find(|run| run.mode == Mode::Wal && run.transactions_per_second > 0.0)?;
    let others = || told().filter(|run| run.mode != Mode::Wal);
    let fastest = others().max_by(|a, b| a.transactions_per_second.total_cmp(&b.transactions_per_second))?;
    let life = |run: &Run| run.lifetime_ratio.unwrap_or(0.0);
    let longest = others().max_by(|a, b| life(a).total_cmp(&life(b)))?;
    let percent = (fastest.transactions_per_second / wal.transactions_per_second - 1.0) * 100.0;
    let speed = match percent.round() {
        0.0 => format!("No mode is faster than wal; {} is as fast", fastest.mode),
        percent if percent < 0.0 => {
            format!("No mode is faster than wal; {} comes closest, {:.0} % slower", fastest.mode, -percent)
        }
        percent => format!("{} is {percent:.0} % faster than wal", fastest.mode),
    };
    let ratio = life(longest);
    Some(match (longest.mode == fastest.mode, ratio > 1.0) {
        (true, true) => format!("{speed}, and the drive lives {ratio:.2} times as long."),
        (false, true) => format!("{speed}; with {} the drive lives {ratio:.2} times as long.", longest.mode),
        (_, false) => format!("{speed}; none makes the drive live longer."),
    })
}

fn bars_of(runs: &[Run], figure: impl Fn(&Run) -> f64) -> Vec<Bar> {
    let bar = |run: &Run| {
        let value = figure(run);
        Bar {
            label: run.mode.to_string(),
            pieces: vec![(colours::of_mode(run.mode), value)],
            end: short(value),
        }
    };
    runs.iter().map(bar).collect()
}

fn flash_writes(runs: &[Run]) -> Result<String, ReportError> {
    let bar = |run: &Run| {
        let share = |units: u64| units as f64 / run.transactions.max(1) as f64;
        Bar {
            label: run.mode.to_string(),
            pieces: colours::of_causes(&run.flash_units)
                .into_iter()
                .map(|(_, colour, units)| (colour, share(units)))
                .collect(),
            end: short(run.flash_units_per_transaction()),
        }
    };
    let bars: Vec<Bar> = runs.iter().map(bar).collect();
    let names = colours::of_causes(&tantalum::FlashUnits::default()).map(|(name, _, _)| name);
    bars::draw_stacked("flash writes", "units per transaction", &names, &bars)
}

/// The causes that occur.
fn causes_legend(runs: &[Run]) -> String {
    let mut total = tantalum::FlashUnits::default();
    for run in runs {
        let units = &run.flash_units;
        total.host += units.host;
        total.padding += units.padding;
        total.copyback += units.copyback;
        total.journal += units.journal;
        total.checkpoint += units.checkpoint;
        total.dump += units.dump;
    }
    let occurring = colours::of_causes(&total).into_iter().filter(|(_, _, units)| *units > 0);
    legend(occurring.map(|(name, colour, _)| (name.to_owned(), css(colour))))
}

fn mode_switches(runs: &[Run]) -> String {
    switches(runs.iter().map(|run| (run.mode.to_string(), css(colours::of_mode(run.mode)))))
}

fn table(runs: &[Run]) -> String {
    let (titles, rows) = summary::comparison_cells(runs);
    let mut html = String::from("<div class=\"wide\"><table>\n<thead><tr>");
    for title in titles {
        write!(html, "<th>{title}</th>").expect("writing to a String cannot fail");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (run, row) in runs.iter().zip(rows) {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        let title = escaped(&run.integrity);
        writeln!(html, "<tr title=\"contents: {title}\">{cells}</tr>")
            .expect("writing to a String cannot fail");
    }
    html.push_str("</tbody></table></div>");
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::outcome::tests::comparison;

    #[test]
    fn names_cannot_break_the_page() {
        let mut comparison = comparison();
        comparison.profile.name = "<script>\"&".to_owned();
        let page = render(&comparison).unwrap();
        assert!(page.contains("&lt;script&gt;&quot;&amp;") && !page.contains("<script>"));
    }

    #[test]
    fn only_causes_that_occur_are_in_the_legend() {
        let legend = causes_legend(&comparison().runs);
        assert!(legend.contains("copyback") && !legend.contains("dump"), "{legend}");
    }

    #[test]
    fn lifetime_follows_from_endurance() {
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load("femu-2021").unwrap() };
        assert_eq!(rated_programs(&stated_endurance(&profile)), 1024.0 * 262_144.0 * 1.125 * 3000.0);
        let plot = lifetime(&comparison()).unwrap();
        assert!(plot.contains(" TB, ") && plot.contains(" a day"), "{plot}");
    }

    #[test]
    fn the_headline_names_the_fastest_mode_and_the_longest_life() {
        let mut runs = comparison().runs;
        for (run, (rate, ratio)) in runs.iter_mut().zip([
            (50.0, 0.7),
            (100.0, 1.0),
            (80.0, 1.4),
            (111.0, 1.6),
            (121.0, 1.3),
            (95.0, 1.3),
        ]) {
            (run.transactions_per_second, run.lifetime_ratio) = (rate, Some(ratio));
        }
        let expected = "share is 21 % faster than wal; with atomic the drive lives 1.60 times as long.";
        assert_eq!(headline(&runs).unwrap(), expected);
        runs[4].lifetime_ratio = Some(2.0);
        let expected = "share is 21 % faster than wal, and the drive lives 2.00 times as long.";
        assert_eq!(headline(&runs).unwrap(), expected);
        let two = [runs[1].clone(), runs[0].clone()];
        let expected = "No mode is faster than wal; rollback comes closest, 50 % slower; none makes the drive live longer.";
        assert_eq!(headline(&two).unwrap(), expected);
        assert_eq!(headline(&runs[1..2]), None);
    }
}
