//! A plot of latency distributions: for each curve, how long the slowest operations take.

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::bars::short;
use super::colours::INK;
use super::marks::{Marks, Pixel};
use crate::error::ReportError;

const SIZE: (u32, u32) = (460, 580);
const FONT: (&str, i32) = ("sans-serif", 15);

/// Points of a curve between 90 and 99 %, and so on.
const POINTS_PER_NINE: u32 = 24;

/// The axis ends at 99.99 %: few runs have enough transactions for more.
const MOST_NINES: f64 = 4.0;

/// One distribution.
pub struct Curve<'a> {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: RGBColor,
    /// The latencies in nanoseconds.
    pub latencies: &'a Histogram<u64>,
}

/// Draws latency over percentile as SVG. The percentile's axis is stretched towards 100 %.
pub fn draw(curves: &[Curve<'_>]) -> Result<String, ReportError> {
    let mut svg = String::new();
    let marks = draw_into(&mut svg, curves).map_err(ReportError::plot("latency"))?;
    Ok(marks.added_to(svg))
}

fn draw_into(svg: &mut String, curves: &[Curve<'_>]) -> Result<Marks, Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let transactions = curves.iter().map(|curve| curve.latencies.len()).max().unwrap_or(0).max(10);
    let nines = (transactions as f64).log10().min(MOST_NINES);
    let points: Vec<Vec<(f64, f64)>> = curves.iter().map(|curve| points_of(curve.latencies, nines)).collect();
    let (lowest, highest) = bounds(&points);
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
        .x_desc("percentile")
        .y_desc("latency, us")
        .x_label_formatter(&|nines| percentile(*nines))
        .y_label_formatter(&|latency| short(*latency))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut marks = Marks::default();
    let pixel = |point: &(f64, f64)| chart.plotting_area().map_coordinate(point);
    for (series, (curve, points)) in curves.iter().zip(points).enumerate() {
        let pixels: Vec<Pixel> = points.iter().map(pixel).collect();
        marks.curve(series, curve.colour, &pixels, &curve.name);
        for whole in 0..=nines as u32 {
            let point = point_of(curve.latencies, f64::from(whole));
            let title = format!("{}: {} within {} us", curve.name, percentile(point.0), short(point.1));
            marks.point(series, curve.colour, pixel(&point), &title);
        }
    }
    area.present()?;
    Ok(marks)
}

/// The lowest and the highest latency to draw.
fn bounds(points: &[Vec<(f64, f64)>]) -> (f64, f64) {
    let latencies = || points.iter().flatten().map(|(_, latency)| *latency);
    let lowest = latencies().fold(f64::MAX, f64::min).clamp(1.0, 1e9);
    (lowest, latencies().fold(lowest, f64::max))
}

/// The point of a distribution at that many nines: (nines, microseconds).
fn point_of(latencies: &Histogram<u64>, nines: f64) -> (f64, f64) {
    let latency = latencies.value_at_quantile(1.0 - 10f64.powf(-nines)) as f64 / 1000.0;
    (nines, latency.max(1e-3))
}

/// Points of (nines, microseconds).
fn points_of(latencies: &Histogram<u64>, nines: f64) -> Vec<(f64, f64)> {
    let points = (nines * f64::from(POINTS_PER_NINE)).ceil() as u32;
    let at = |point: u32| nines * f64::from(point) / f64::from(points);
    (0..=points).map(|point| point_of(latencies, at(point))).collect()
}

/// The label on the axis: 1 is 90 %, 2 is 99 %.
fn percentile(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
    let digits = (nines.ceil() as usize).saturating_sub(2);
    format!("{percent:.digits$} %")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::histogram;

    #[test]
    fn percentiles_are_named_by_their_nines() {
        let expected = [(0.0, "0 %"), (1.0, "90 %"), (2.0, "99 %"), (3.0, "99.9 %"), (4.0, "99.99 %")];
        for (nines, name) in expected {
            assert_eq!(percentile(nines), name);
        }
    }

    #[test]
    fn each_distribution_has_a_curve() {
        let mut latencies = histogram();
        (1..=100).for_each(|number| latencies.saturating_record(number * 10_000));
        let curve = || Curve { name: "wal".into(), colour: INK, latencies: &latencies };
        let svg = draw(&[curve(), curve()]).unwrap();
        assert!(svg.matches("<polyline class=\"k").count() == 2, "{svg}");
        assert!(svg.contains("<title>wal: 90 % within 900 us</title>"), "{svg}");
    }
}
