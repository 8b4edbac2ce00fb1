//! A plot of a quantity over time that is constant between two points: a line of steps.

use plotters::prelude::*;

use super::bars::short;
use super::colours::INK;
use crate::error::ReportError;

const SIZE: (u32, u32) = (460, 300);
const FONT: (&str, i32) = ("sans-serif", 15);

/// Draws the steps as SVG: each point gives the end of a step, and its height.
pub fn draw(
    plot: &'static str,
    x: &str,
    y: &str,
    colour: RGBColor,
    steps: &[(f64, f64)],
) -> Result<String, ReportError> {
    let mut svg = String::new();
    draw_into(&mut svg, x, y, colour, steps).map_err(ReportError::plot(plot))?;
    Ok(svg)
}

fn draw_into(
    svg: &mut String,
    x: &str,
    y: &str,
    colour: RGBColor,
    steps: &[(f64, f64)],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let longest = steps.last().map_or(0.0, |(to, _)| *to).max(f64::MIN_POSITIVE);
    let highest = steps.iter().map(|(_, height)| *height).fold(f64::MIN_POSITIVE, f64::max);
    let mut chart = ChartBuilder::on(&area)
        .margin(6)
        .margin_right(24)
        .set_label_area_size(LabelAreaPosition::Bottom, 44)
        .set_label_area_size(LabelAreaPosition::Left, 62)
        .build_cartesian_2d(0.0..longest, 0.0..highest * 1.08)?;
    chart
        .configure_mesh()
        .x_labels(6)
        .y_labels(5)
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .label_style(FONT.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .bold_line_style(INK.mix(0.25))
        .light_line_style(TRANSPARENT)
        .draw()?;
    let mut from = 0.0;
    let mut corners = Vec::with_capacity(2 * steps.len());
    for (to, height) in steps {
        corners.extend([(from, *height), (*to, *height)]);
        from = *to;
    }
    chart.draw_series(AreaSeries::new(corners, 0.0, colour.mix(0.3)).border_style(colour.stroke_width(2)))?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_nothing_can_be_drawn() {
        for steps in [&[][..], &[(0.01, 0.0)], &[(1.0, 5.0), (2.0, 0.0)]] {
            let svg = draw("test", "seconds", "bytes", INK, steps).unwrap();
            assert!(svg.contains("seconds") && !svg.contains("NaN"), "{svg}");
        }
    }
}
