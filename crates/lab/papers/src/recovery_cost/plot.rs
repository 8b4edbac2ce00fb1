//! Two plots side by side: recovery as drives grow, and the cost of keeping it short.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tantalum_report::plots::bars::short;
use tantalum_report::plots::colours::{INK, SERIES};
use tantalum_report::table::bytes;
use tantalum_report::{ReportError, save};

use super::outcome::{Growth, Interval, Outcome};
use super::summary::interval_name;

const SIZE: (u32, u32) = (1000, 440);
const FONT: (&str, i32) = ("sans-serif", 15);

/// The share of host writes that checkpoints may take.
const ALLOWED_SHARE_PERCENT: f64 = 2.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Writes the plots.
pub fn write_plots(outcome: &Outcome, path: &Path) -> Result<(), ReportError> {
    save(&draw(outcome)?, path)
}

/// Draws both as one SVG, readable on white and on black.
fn draw(outcome: &Outcome) -> Result<String, ReportError> {
    let mut svg = String::new();
    draw_into(&mut svg, outcome).map_err(ReportError::plot("recovery cost"))?;
    Ok(svg)
}

fn draw_into(svg: &mut String, outcome: &Outcome) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    growth(&left, &outcome.growth)?;
    intervals(&right, outcome)?;
    area.present()?;
    Ok(())
}

/// A range for a logarithmic axis that holds all values, with some room.
fn range(values: impl Iterator<Item = f64> + Clone, below: f64, above: f64) -> std::ops::Range<f64> {
    let least = values.clone().fold(f64::MAX, f64::min).clamp(1e-6, 1e12);
    let most = values.fold(least, f64::max);
    least / below..most * above
}

/// Device time over what was written since the checkpoint, a curve for each capacity.
fn growth(area: &Area<'_>, points: &[Growth]) -> Drawn {
    let mebibytes = |point: &Growth| point.written_bytes as f64 / f64::from(1 << 20);
    let seconds = |point: &Growth| point.recovery.device_ns as f64 / 1e9;
    let most_written = points.iter().map(mebibytes).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .caption("recovery after a power cut", FONT.into_font().color(&INK))
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .set_label_area_size(LabelAreaPosition::Left, 62)
        .build_cartesian_2d(
            0.0..most_written * 1.25,
            range(points.iter().map(seconds), 1.6, 1.6).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_labels(5)
        .x_desc("MiB written at random since the last checkpoint")
        .y_desc("device time, seconds")
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (curve, colour) in
        points.chunk_by(|a, b| a.capacity_bytes == b.capacity_bytes).zip(SERIES.iter().cycle())
    {
        let line: Vec<(f64, f64)> = curve.iter().map(|point| (mebibytes(point), seconds(point))).collect();
        chart.draw_series(LineSeries::new(line.clone(), colour.stroke_width(2)))?;
        chart.draw_series(line.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        let end = line[line.len() - 1];
        let style = FONT.into_font().color(colour).pos(Pos::new(HPos::Left, VPos::Center));
        let label = Text::new(bytes(curve[0].capacity_bytes), (8, 0), style);
        chart.plotting_area().draw(&(EmptyElement::at(end) + label))?;
    }
    Ok(())
}

/// Recovery time after an interval, in ms, and its checkpoints as a percentage of the host's writes.
fn point_of(interval: &Interval) -> (f64, f64) {
    (interval.recovery.device_ns as f64 / 1e6, 100.0 * interval.checkpoint_share)
}

/// The cost of checkpoints over recovery time, a point for each interval.
fn intervals(area: &Area<'_>, outcome: &Outcome) -> Drawn {
    let points: Vec<(f64, f64)> = outcome.intervals.iter().map(point_of).collect();
    let milliseconds = range(points.iter().map(|point| point.0), 1.15, 1.9);
    let percents = points.iter().map(|point| point.1).chain([ALLOWED_SHARE_PERCENT]);
    let title = format!("{}, full, random overwrite", bytes(outcome.interval_capacity_bytes));
    let mut chart = ChartBuilder::on(area)
        .margin(6)
        .caption(title, FONT.into_font().color(&INK))
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .set_label_area_size(LabelAreaPosition::Left, 62)
        .build_cartesian_2d(milliseconds.clone().log_scale(), range(percents, 1.6, 1.6).log_scale())?;
    chart
        .configure_mesh()
        .x_labels(6)
        .x_desc("recovery just before the next checkpoint, ms")
        .y_desc("checkpoints, % of host writes")
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let allowed = [milliseconds.start, milliseconds.end].map(|x| (x, ALLOWED_SHARE_PERCENT));
    chart.draw_series(LineSeries::new(allowed, INK.stroke_width(1)))?;
    for (interval, &point) in outcome.intervals.iter().zip(&points) {
        // the default lies close to one of the others, so its name is on the other side
        let (colour, side, aside) = match interval.interval_pages {
            None => (SERIES[0], HPos::Right, -6),
            Some(_) => (INK, HPos::Left, 6),
        };
        let style = FONT.into_font().color(&colour).pos(Pos::new(side, VPos::Bottom));
        let label = Text::new(interval_name(interval), (aside, -4), style);
        chart.draw_series([Circle::new(point, 4, colour.filled())])?;
        chart.plotting_area().draw(&(EmptyElement::at(point) + label))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcome;
    use super::*;

    #[test]
    fn each_capacity_and_each_interval_is_named() {
        let outcome = outcome();
        let svg = draw(outcome).unwrap();
        assert!(!svg.contains("NaN"), "{svg}");
        let names = outcome.intervals.iter().map(interval_name);
        for name in names.chain(["64 MiB".to_owned(), "4 GiB".to_owned()]) {
            assert!(svg.contains(&name), "{name} is not in the plot");
        }
    }
}
