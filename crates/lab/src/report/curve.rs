//! The latency distribution: for each mode, how long the slowest transactions take.

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::bars::short;
use super::colours::{INK, of_mode};
use crate::error::LabError;
use crate::outcome::Run;

const SIZE: (u32, u32) = (460, 440);
const FONT: (&str, i32) = ("sans-serif", 15);

/// Points of a curve between 90 and 99 %, and so on.
const POINTS_PER_NINE: u32 = 24;

/// The axis ends at 99.99 %: few runs have enough transactions for more.
const MOST_NINES: f64 = 4.0;

/// Draws latency over percentile as SVG. The percentile's axis is stretched towards 100 %.
pub(super) fn draw(runs: &[Run]) -> Result<String, LabError> {
    let mut svg = String::new();
    draw_into(&mut svg, runs)
        .map_err(|error| LabError::Plot { plot: "latency", reason: error.to_string() })?;
    Ok(svg)
}

fn draw_into(svg: &mut String, runs: &[Run]) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let transactions = runs.iter().map(|run| run.transactions).max().unwrap_or(0).max(10);
    let nines = (transactions as f64).log10().min(MOST_NINES);
    let curves: Vec<Vec<(f64, f64)>> = runs.iter().map(|run| curve(&run.latencies, nines)).collect();
    let latencies = || curves.iter().flatten().map(|(_, latency)| *latency);
    let lowest = latencies().fold(f64::MAX, f64::min).clamp(1.0, 1e9);
    let highest = latencies().fold(lowest, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .margin(6)
        .margin_right(30)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .set_label_area_size(LabelAreaPosition::Left, 58)
        .build_cartesian_2d(0.0..nines, (lowest * 0.8..highest * 1.25).log_scale())?;
    chart
        .configure_mesh()
        .x_labels(5)
        .y_labels(6)
        .x_desc("percentile of transactions")
        .y_desc("latency, us")
        .x_label_formatter(&|nines| percentile(*nines))
        .y_label_formatter(&|latency| short(*latency))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (run, points) in runs.iter().zip(curves) {
        chart.draw_series(LineSeries::new(points, of_mode(run.mode).stroke_width(2)))?;
    }
    area.present()?;
    Ok(())
}

/// Points of (nines, microseconds).
fn curve(latencies: &Histogram<u64>, nines: f64) -> Vec<(f64, f64)> {
    let points = (nines * f64::from(POINTS_PER_NINE)).ceil() as u32;
    let at = |point: u32| nines * f64::from(point) / f64::from(points);
    let latency = |nines: f64| latencies.value_at_quantile(1.0 - 10f64.powf(-nines)) as f64 / 1000.0;
    (0..=points).map(|point| (at(point), latency(at(point)).max(1e-3))).collect()
}

/// What stands on the axis: 1 is 90 %, 2 is 99 %.
fn percentile(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
    let digits = (nines.ceil() as usize).saturating_sub(2);
    format!("{percent:.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::tests::comparison;

    #[test]
    fn percentiles_are_named_by_their_nines() {
        let expected = [(0.0, "0 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %")];
        for (nines, name) in expected {
            assert_eq!(percentile(nines), name);
        }
    }

    #[test]
    fn each_mode_has_a_curve() {
        let runs = comparison().runs;
        let svg = draw(&runs).unwrap();
        assert!(svg.matches("<polyline").count() >= runs.len());
    }
}
