//! A plot of upright bars in groups: a group for each column of a table, a bar for each row.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bars::short;
use super::colours::{INK, SERIES};
use crate::error::LabError;
use crate::experiments::Figures;

const SIZE: (u32, u32) = (460, 300);
const FONT: (&str, i32) = ("sans-serif", 13);

/// How wide a group is; the rest is the gap to the next.
const GROUP_WIDTH: f64 = 0.8;

/// With figures further apart than this, the axis is logarithmic.
const LINEAR_UP_TO: f64 = 40.0;

/// The colour of the row of that number.
pub(super) fn colour(row: usize) -> RGBColor {
    SERIES[row % SERIES.len()]
}

/// Draws our figures as SVG.
pub(super) fn draw(figures: &Figures) -> Result<String, LabError> {
    let mut svg = String::new();
    draw_into(&mut svg, figures)
        .map_err(|error| LabError::Plot { plot: "an experiment", reason: error.to_string() })?;
    Ok(svg)
}

fn draw_into(svg: &mut String, figures: &Figures) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let shown = || figures.rows.iter().flat_map(|row| &row.ours).copied().filter(|figure| *figure > 0.0);
    let highest = shown().fold(f64::MIN_POSITIVE, f64::max);
    let lowest = shown().fold(highest, f64::min);
    let logarithmic = highest / lowest > LINEAR_UP_TO;
    // a logarithmic axis is drawn as a linear one of logarithms
    let floor = if logarithmic { lowest.log10().floor() } else { 0.0 };
    let height = move |figure: f64| match logarithmic {
        true => (figure.max(lowest).log10() - floor).max(0.0),
        false => figure.max(0.0),
    };
    let mut chart = ChartBuilder::on(&area)
        .margin(6)
        .set_label_area_size(LabelAreaPosition::Bottom, 30)
        .set_label_area_size(LabelAreaPosition::Left, 54)
        .build_cartesian_2d(0.0..figures.columns.len() as f64, 0.0..height(highest) * 1.08)?;
    let figure_at = |y: &f64| short(if logarithmic { 10f64.powf(y + floor) } else { *y });
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .y_desc(figures.unit)
        .y_label_formatter(&figure_at)
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let width = GROUP_WIDTH / figures.rows.len().max(1) as f64;
    for (number, row) in figures.rows.iter().enumerate() {
        let bar = |(column, figure): (usize, &f64)| {
            let left = column as f64 + (1.0 - GROUP_WIDTH) / 2.0 + number as f64 * width;
            Rectangle::new([(left, 0.0), (left + width * 0.94, height(*figure))], colour(number).filled())
        };
        chart.draw_series(row.ours.iter().enumerate().map(bar))?;
    }
    let style = FONT.into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    for (number, column) in figures.columns.iter().enumerate() {
        let label = Text::new(column.clone(), (0, 6), style.clone());
        chart.plotting_area().draw(&(EmptyElement::at((number as f64 + 0.5, 0.0)) + label))?;
    }
    area.present()?;
    Ok(())
}
