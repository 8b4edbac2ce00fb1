//! A plot of horizontal bars, one for each mode, each in one or more pieces.

use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::colours::INK;
use super::marks::Marks;
use crate::error::ReportError;

const WIDTH: u32 = 460;
const ROW_HEIGHT: u32 = 34;
const AXIS_HEIGHT: u32 = 56;
const FONT: (&str, i32) = ("sans-serif", 15);

/// The least room on the left, and roughly the width of a character.
const LEAST_LABEL_WIDTH: u32 = 80;
const CHARACTER_WIDTH: u32 = 8;

const MARGIN: u32 = 6;

/// One bar.
pub struct Bar {
    /// The label to its left.
    pub label: String,
    /// Its pieces from the left.
    pub pieces: Vec<(RGBColor, f64)>,
    /// The text at its end.
    pub end: String,
}

/// Draws the bars, the first on top, as SVG.
pub fn draw(plot: &'static str, axis: &str, bars: &[Bar]) -> Result<String, ReportError> {
    draw_stacked(plot, axis, &[], bars)
}

/// Draws bars in several pieces, which `names` tells, the first bar on top, as SVG.
pub fn draw_stacked(
    plot: &'static str,
    axis: &str,
    names: &[&str],
    bars: &[Bar],
) -> Result<String, ReportError> {
    let mut svg = String::new();
    let marks = draw_into(&mut svg, axis, names, bars).map_err(ReportError::plot(plot))?;
    Ok(marks.added_to(svg))
}

fn draw_into(
    svg: &mut String,
    axis: &str,
    names: &[&str],
    bars: &[Bar],
) -> Result<Marks, Box<dyn std::error::Error>> {
    let height = ROW_HEIGHT * bars.len() as u32 + AXIS_HEIGHT;
    let area = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .set_label_area_size(LabelAreaPosition::Left, label_width(bars))
        .build_cartesian_2d(0.0..axis_end(bars), bars.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .x_labels(5)
        .x_desc(axis)
        .x_label_formatter(&|x| short(*x))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut marks = Marks::default();
    let plane = chart.plotting_area();
    for (index, bar) in bars.iter().enumerate() {
        draw_bar(plane, &mut marks, bar, index as f64 + 0.5, axis, names)?;
    }
    area.present()?;
    Ok(marks)
}

/// Draws a bar around a height, with its label and the text at its end.
fn draw_bar<B: DrawingBackend<ErrorType: 'static>>(
    plane: &DrawingArea<B, Cartesian2d<RangedCoordf64, RangedCoordf64>>,
    marks: &mut Marks,
    bar: &Bar,
    middle: f64,
    axis: &str,
    names: &[&str],
) -> Result<(), Box<dyn std::error::Error>> {
    let mut from = 0.0;
    for (number, &(colour, value)) in bar.pieces.iter().enumerate() {
        let corners = [(from, middle - 0.32), (from + value, middle + 0.32)];
        let corners = corners.map(|corner| plane.map_coordinate(&corner));
        let title = match names.get(number) {
            Some(name) => format!("{}, {name}: {} of {} {axis}", bar.label, short(value), bar.end),
            None => format!("{}: {} {axis}", bar.label, bar.end),
        };
        marks.bar(None, colour, corners, &title);
        from += value;
    }
    let text = |horizontal| FONT.into_font().color(&INK).pos(Pos::new(horizontal, VPos::Center));
    let label = Text::new(bar.label.clone(), (-8, 0), text(HPos::Right));
    plane.draw(&(EmptyElement::at((0.0, middle)) + label))?;
    let end = Text::new(bar.end.clone(), (6, 0), text(HPos::Left));
    plane.draw(&(EmptyElement::at((from, middle)) + end))?;
    Ok(())
}

/// Room on the left for the longest label.
fn label_width(bars: &[Bar]) -> u32 {
    let characters = bars.iter().map(|bar| bar.label.chars().count() as u32).max().unwrap_or(0);
    (characters * CHARACTER_WIDTH).clamp(LEAST_LABEL_WIDTH, WIDTH / 2)
}

/// The axis is long enough for each bar with the text at its end.
fn axis_end(bars: &[Bar]) -> f64 {
    let plane = f64::from(WIDTH - 2 * MARGIN - label_width(bars));
    let needed = |bar: &Bar| {
        let text = f64::from((bar.end.chars().count() as u32 + 1) * CHARACTER_WIDTH);
        length(bar) * plane / (plane - text).max(plane / 4.0)
    };
    bars.iter().map(needed).fold(f64::MIN_POSITIVE, f64::max)
}

fn length(bar: &Bar) -> f64 {
    bar.pieces.iter().map(|(_, value)| value).sum()
}

/// A number with few characters: `1.5k`, `20M`.
pub fn short(value: f64) -> String {
    let (amount, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match amount.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        _ => 5,
    };
    let text = format!("{amount:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let expected = [
            (0.0, "0"),
            (0.005, "0.005"),
            (0.25, "0.25"),
            (12.34, "12.3"),
            (999.0, "999"),
            (1500.0, "1.5k"),
            (2e7, "20M"),
        ];
        for (value, text) in expected {
            assert_eq!(short(value), text);
        }
    }

    /// With long labels the text at the end of the longest bar was cut off.
    #[test]
    fn the_text_at_the_end_of_the_longest_bar_is_inside() {
        let end = "94.1 MiB";
        let label = "...00000010000000000000004".into();
        let svg =
            draw("test", "bytes", &[Bar { label, pieces: vec![(INK, 94.1)], end: end.into() }]).unwrap();
        let (before, _) = svg.split_once(&format!(">\n{end}\n")).unwrap();
        let (_, text) = before.rsplit_once("<text x=\"").unwrap();
        let from: u32 = text.split('"').next().unwrap().parse().unwrap();
        assert!(from + end.len() as u32 * CHARACTER_WIDTH <= WIDTH, "{from}");
    }

    #[test]
    fn bars_of_nothing_can_be_drawn() {
        let bar = Bar { label: "wal".into(), pieces: vec![(INK, 0.0)], end: "0".into() };
        let svg = draw("test", "nothing", &[bar]).unwrap();
        assert!(svg.contains("wal") && !svg.contains("NaN"), "{svg}");
    }
}
