//! An experiment's outcome as text for a terminal.

use std::fmt::Write;

use crate::experiment::{Outcome, PaperClaim, Quantity, Span, Time};
use crate::figures::Figures;
use crate::table::{Align, Table, grouped};

/// What was done, the tables, the claims.
pub fn of_experiment(outcome: &Outcome) -> String {
    let clock = match outcome.time {
        Time::Virtual => "virtual time: the same on any machine",
        Time::Real => "real time: compare only within this run",
    };
    let mut text = format!("{}: {}\n", outcome.experiment, outcome.title);
    for line in &outcome.setup {
        writeln!(text, "{line}").expect("writing to a String cannot fail");
    }
    writeln!(text, "scale {}, seed {}; {clock}", outcome.scale, outcome.seed)
        .expect("writing to a String cannot fail");
    for figures in &outcome.figures {
        let title = format!("{}, {}", figures.title, figures.unit);
        write!(text, "\n{title}\n\n{}", table(figures)).expect("writing to a String cannot fail");
    }
    if !outcome.claims.is_empty() {
        write!(text, "\n{}\n\n{}", outcome.source, claims(&outcome.claims))
            .expect("writing to a String cannot fail");
    }
    text
}

fn table(figures: &Figures) -> String {
    let mut columns = vec![("", Align::Left), ("", Align::Left)];
    columns.extend(figures.columns.iter().map(|title| (title.as_str(), Align::Right)));
    let mut table = Table::new(&columns);
    let mut push = |name: &str, whose: &str, figures: &[f64]| {
        let cells = figures.iter().map(|&figure| figure_text(figure));
        table.push([name.to_owned(), whose.to_owned()].into_iter().chain(cells).collect());
    };
    for row in &figures.rows {
        push(&row.name, "ours", &row.ours);
        if let Some(paper) = &row.paper {
            push("", "paper", paper);
        }
    }
    table.render()
}

fn claims(claims: &[PaperClaim]) -> String {
    let mut table = Table::new(&[("claim", Align::Left), ("paper", Align::Right), ("ours", Align::Right)]);
    for claim in claims {
        let span = |span| span_text(span, claim.quantity);
        table.push(vec![claim.what.clone(), span(claim.paper), span(claim.ours)]);
    }
    table.render()
}

/// `1.2 to 3.4x` or `-45 %`.
pub(crate) fn span_text(span: Span, quantity: Quantity) -> String {
    let (figure, unit): (fn(f64) -> String, _) = match quantity {
        Quantity::Factor => (figure_text, "x"),
        Quantity::Percent => (|percent| format!("{percent:+.1}"), " %"),
    };
    let (low, high) = (figure(span.low), figure(span.high));
    if low == high { format!("{low}{unit}") } else { format!("{low} to {high}{unit}") }
}

/// A figure with three significant digits, or all of its digits before the point.
pub fn figure_text(figure: f64) -> String {
    match figure.abs() {
        size if size >= 1000.0 => {
            format!("{}{}", if figure < 0.0 { "-" } else { "" }, grouped(size.round() as u64))
        }
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Row;

    #[test]
    fn figures_have_three_digits() {
        let expected =
            [(0.0, "0.00"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (-12_345.6, "-12,346")];
        for (figure, text) in expected {
            assert_eq!(figure_text(figure), text);
        }
    }

    #[test]
    fn the_papers_figures_stand_below_ours() {
        let row = Row { name: "on".into(), ours: vec![1.0, 2.0], paper: Some(vec![3.0, 4.0]) };
        let figures = Figures {
            title: "writes".into(),
            unit: "IOPS",
            columns: vec!["4 KiB".into(), "8 KiB".into()],
            rows: vec![row],
        };
        let text = table(&figures);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines, ["on  ours    1.00   2.00", "    paper   3.00   4.00"]);
    }

    #[test]
    fn spans_of_one_figure_are_one_figure() {
        assert_eq!(span_text(Span::one(2.0), Quantity::Factor), "2.00x");
        assert_eq!(span_text(Span::new(-45.0, -16.0), Quantity::Percent), "-45.0 to -16.0 %");
    }
}
