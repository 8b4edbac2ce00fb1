//! Marks of a plot that show a tooltip and that a page can hide; neither needs a script.
//!
//! plotters draws axes and text. Bars and curves are added to its SVG as elements with a title, which browsers show. Marks
//! of one series have the class of its number (`k0`, `k1`, ...); the page's style hides a class when its box is unticked.

use std::fmt::Write;

use plotters::style::RGBColor;

use super::colours::css;

/// Series that a page can hide.
pub(crate) const SERIES_WITH_SWITCH: usize = 12;

/// A place in a plot, in its pixels.
pub(crate) type Pixel = (i32, i32);

/// Marks to be added to a plot.
#[derive(Debug, Default)]
pub(crate) struct Marks(String);

impl Marks {
    /// A bar between two corners, of a series if it can be hidden.
    pub fn bar(&mut self, series: Option<usize>, colour: RGBColor, corners: [Pixel; 2], title: &str) {
        let [(a_x, a_y), (b_x, b_y)] = corners;
        let (class, title) = (class(series), escaped(title));
        writeln!(
            self.0,
            "<rect{class} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>{title}</title></rect>",
            a_x.min(b_x),
            a_y.min(b_y),
            a_x.abs_diff(b_x),
            a_y.abs_diff(b_y),
            css(colour)
        )
        .expect("writing to a String cannot fail");
    }

    /// A curve of a series.
    pub fn curve(&mut self, series: usize, colour: RGBColor, points: &[Pixel], title: &str) {
        let points: String = points.iter().map(|(x, y)| format!("{x},{y} ")).collect();
        let (class, title) = (class(Some(series)), escaped(title));
        writeln!(
            self.0,
            "<polyline{class} points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"><title>{title}</title></polyline>",
            points.trim_end(),
            css(colour)
        )
        .expect("writing to a String cannot fail");
    }

    /// A point on a curve that is easy to hit.
    pub fn point(&mut self, series: usize, colour: RGBColor, (x, y): Pixel, title: &str) {
        let (class, title) = (class(Some(series)), escaped(title));
        writeln!(
            self.0,
            "<circle{class} cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"{}\"><title>{title}</title></circle>",
            css(colour)
        )
        .expect("writing to a String cannot fail");
    }

    /// The plot with the marks in front.
    pub fn added_to(self, mut svg: String) -> String {
        let end = svg.rfind("</svg>").unwrap_or(svg.len());
        svg.insert_str(end, &self.0);
        svg
    }
}

fn class(series: Option<usize>) -> String {
    series
        .filter(|number| *number < SERIES_WITH_SWITCH)
        .map_or_else(String::new, |number| format!(" class=\"k{number}\""))
}

/// Text, escaped for SVG and HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_in_the_plot_and_say_what_they_are() {
        let mut marks = Marks::default();
        marks.bar(Some(3), RGBColor(1, 2, 3), [(10, 40), (5, 20)], "a < b");
        marks.bar(None, RGBColor(1, 2, 3), [(0, 0), (1, 1)], "plain");
        marks.curve(40, RGBColor(1, 2, 3), &[(1, 2), (3, 4)], "c");
        marks.point(0, RGBColor(1, 2, 3), (7, 8), "d");
        let svg = marks.added_to("<svg>\n</svg>\n".to_owned());
        assert!(
            svg.starts_with("<svg>\n<rect class=\"k3\" x=\"5\" y=\"20\" width=\"5\" height=\"20\""),
            "{svg}"
        );
        assert!(svg.contains("<title>a &lt; b</title>") && svg.contains("points=\"1,2 3,4\""), "{svg}");
        assert!(svg.contains("<rect x=\"0\"") && !svg.contains("k40") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
