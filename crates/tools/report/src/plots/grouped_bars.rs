//! A plot of vertical bars in groups: a group for each column of a table, a bar for each row.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bars::short;
use super::colours::{INK, SERIES};
use super::marks::Marks;
use crate::error::ReportError;
use crate::figures::Figures;
use crate::file::save;
use crate::text::figure_text;

const SIZE: (u32, u32) = (460, 300);
const FONT: (&str, i32) = ("sans-serif", 13);

/// The height of the legend of the rows' colours, and the width of one entry.
const LEGEND_HEIGHT: u32 = 30;
const LEGEND_WIDTH: i32 = 110;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The width of a group; the rest is the gap to the next.
const GROUP_WIDTH: f64 = 0.8;

/// The axis is logarithmic if figures differ by more than this factor.
const LINEAR_UP_TO: f64 = 40.0;

/// The colour of the row of that number.
pub(crate) fn colour(row: usize) -> RGBColor {
    SERIES[row % SERIES.len()]
}

/// Draws our figures as SVG.
pub(crate) fn draw(figures: &Figures) -> Result<String, ReportError> {
    draw_with(SIZE, |area, marks| draw_into(area, marks, figures, false))
}

/// Writes the plots of tables that have the same rows, `across` side by side.
pub fn write_plots(figures: &[Figures], across: usize, path: &Path) -> Result<(), ReportError> {
    save(&draw_all(figures, across)?, path)
}

/// Draws several with the same rows in one SVG, `across` side by side, each below its title, with their colours on top.
fn draw_all(figures: &[Figures], across: usize) -> Result<String, ReportError> {
    let across = across.clamp(1, figures.len().max(1));
    let down = figures.len().div_ceil(across);
    let size = (SIZE.0 * across as u32, SIZE.1 * down as u32 + LEGEND_HEIGHT);
    draw_with(size, |area, marks| {
        let (top, rest) = area.split_vertically(LEGEND_HEIGHT);
        figures.first().map_or(Ok(()), |first| legend(&top, first))?;
        let panels = rest.split_evenly((down.max(1), across));
        panels.iter().zip(figures).try_for_each(|(panel, figures)| draw_into(panel, marks, figures, true))
    })
}

fn draw_with(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>, &mut Marks) -> Drawn,
) -> Result<String, ReportError> {
    let (mut svg, mut marks) = (String::new(), Marks::default());
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = draw(&area, &mut marks).and_then(|()| Ok(area.present()?));
    drop(area);
    drawn.map_err(ReportError::plot("an experiment"))?;
    Ok(marks.added_to(svg))
}

/// A square and a name for each row.
fn legend(area: &Area<'_>, figures: &Figures) -> Drawn {
    let style = FONT.into_font().color(&INK).pos(Pos::new(HPos::Left, VPos::Center));
    for (number, row) in figures.rows.iter().enumerate() {
        let (left, middle) = (12 + number as i32 * LEGEND_WIDTH, LEGEND_HEIGHT as i32 / 2);
        let corners = [(left, middle - 6), (left + 12, middle + 6)];
        area.draw(&Rectangle::new(corners, colour(number).filled()))?;
        area.draw(&Text::new(row.name.clone(), (left + 18, middle), style.clone()))?;
    }
    Ok(())
}

/// How high a figure is drawn. A logarithmic axis is drawn as a linear one of logarithms.
struct Scale {
    highest: f64,
    lowest: f64,
    /// The logarithm at the foot of a logarithmic axis.
    floor: Option<f64>,
}

impl Scale {
    /// The scale of all figures; logarithmic if they are far apart.
    fn of(figures: &Figures) -> Scale {
        let shown = || figures.rows.iter().flat_map(|row| &row.ours).copied().filter(|figure| *figure > 0.0);
        let highest = shown().fold(f64::MIN_POSITIVE, f64::max);
        let lowest = shown().fold(highest, f64::min);
        let floor = (highest / lowest > LINEAR_UP_TO).then(|| lowest.log10().floor());
        Scale { highest, lowest, floor }
    }

    fn height(&self, figure: f64) -> f64 {
        match self.floor {
            Some(floor) => (figure.max(self.lowest).log10() - floor).max(0.0),
            None => figure.max(0.0),
        }
    }

    /// The corners of a figure's bar: that of row `number` of `rows`, in the group of its column.
    fn bar(&self, column: usize, number: usize, rows: usize, figure: f64) -> [(f64, f64); 2] {
        let width = GROUP_WIDTH / rows.max(1) as f64;
        let left = column as f64 + (1.0 - GROUP_WIDTH) / 2.0 + number as f64 * width;
        [(left, 0.0), (left + width * 0.94, self.height(figure))]
    }

    fn figure_at(&self, height: f64) -> f64 {
        self.floor.map_or(height, |floor| 10f64.powf(height + floor))
    }
}

fn draw_into(area: &Area<'_>, marks: &mut Marks, figures: &Figures, titled: bool) -> Drawn {
    let scale = Scale::of(figures);
    let mut builder = ChartBuilder::on(area);
    if titled {
        builder.caption(&figures.title, FONT.into_font().color(&INK));
    }
    let mut chart = builder
        .margin(6)
        .set_label_area_size(LabelAreaPosition::Bottom, 30)
        .set_label_area_size(LabelAreaPosition::Left, 54)
        .build_cartesian_2d(0.0..figures.columns.len() as f64, 0.0..scale.height(scale.highest) * 1.08)?;
    let figure_at = |y: &f64| short(scale.figure_at(*y));
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
    for (number, row) in figures.rows.iter().enumerate() {
        for (column, (&figure, title)) in row.ours.iter().zip(&figures.columns).enumerate() {
            let corners = scale.bar(column, number, figures.rows.len(), figure);
            let corners = corners.map(|corner| chart.plotting_area().map_coordinate(&corner));
            let title = format!("{}, {title}: {} {}", row.name, figure_text(figure), figures.unit);
            marks.bar(Some(number), colour(number), corners, &title);
        }
    }
    let style = FONT.into_font().color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    for (number, column) in figures.columns.iter().enumerate() {
        let label = Text::new(column.clone(), (0, 6), style.clone());
        chart.plotting_area().draw(&(EmptyElement::at((number as f64 + 0.5, 0.0)) + label))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Row;

    #[test]
    fn plots_beside_each_other_have_their_titles_and_one_legend() {
        let plot = |title: &str| Figures {
            title: title.to_owned(),
            unit: "1/s",
            columns: vec!["a".into(), "b".into()],
            rows: ["ours", "theirs"]
                .map(|name| Row { name: name.into(), ours: vec![1.0, 2.0], paper: None })
                .to_vec(),
        };
        let svg = draw_all(&[plot("first"), plot("second"), plot("third")], 2).unwrap();
        for (text, times) in [("first", 1), ("third", 1), ("ours", 1), ("theirs", 1)] {
            assert_eq!(svg.lines().filter(|line| line.trim() == text).count(), times, "{text}");
        }
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(svg.contains("width=\"920\"") && !svg.contains("NaN"), "{svg}");
        assert!(!draw_all(&[], 2).unwrap().contains("NaN"));
    }
}
