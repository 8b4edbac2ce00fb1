//! The page of `tantalum lab run --report`: for each experiment its tables, plots and the paper's claims. Pages of other
//! tables look the same.

use std::fmt::Write;
use std::path::Path;

use super::{escaped, lines, page, switches};
use crate::error::ReportError;
use crate::experiment::{Outcome, PaperClaim, Time};
use crate::figures::Figures;
use crate::file::save;
use crate::plots::{colours, grouped_bars};
use crate::text::{figure_text, span_text};

/// Writes the report of experiments.
pub fn write_experiments(outcomes: &[Outcome], path: &Path) -> Result<(), ReportError> {
    save(&render(outcomes)?, path)
}

/// Writes a report of tables, each with its plot.
pub fn write_figures(
    title: &str,
    lead: &[String],
    figures: &[Figures],
    path: &Path,
) -> Result<(), ReportError> {
    save(&render_figures(title, lead, figures)?, path)
}

/// The whole page.
fn render(outcomes: &[Outcome]) -> Result<String, ReportError> {
    let sections = outcomes.iter().map(section).collect::<Result<Vec<_>, _>>()?.concat();
    let lead = "Measured on Tantalum, next to the papers' figures. Plots show our measurements.";
    Ok(page("tantalum lab", "Experiments from papers", lead, &sections))
}

/// A page of tables and their plots.
fn render_figures(title: &str, lead: &[String], figures: &[Figures]) -> Result<String, ReportError> {
    let (tables, plots) = tables_and_plots(figures)?;
    Ok(page(title, title, &lines(lead), &format!("{plots}{tables}")))
}

fn section(outcome: &Outcome) -> Result<String, ReportError> {
    let clock = match outcome.time {
        Time::Virtual => "virtual time, the same on any machine",
        Time::Real => "real time: compare only within this run",
    };
    let run = format!("scale {}, seed {}; {clock}", outcome.scale, outcome.seed);
    let lead =
        [outcome.source].into_iter().chain(outcome.setup.iter().map(String::as_str)).chain([run.as_str()]);
    let (name, title) = (escaped(outcome.experiment), escaped(outcome.title));
    let mut html = format!("<h2>{name}: {title}</h2>\n<p class=\"lead\">{}</p>\n", lines(lead));
    let (tables, plots) = tables_and_plots(&outcome.figures)?;
    html.push_str(&tables);
    html.push_str(&claims(&outcome.claims));
    html.push_str(&plots);
    Ok(html)
}

fn tables_and_plots(all: &[Figures]) -> Result<(String, String), ReportError> {
    let mut plots = String::new();
    for figures in all {
        let names = figures.rows.iter().map(|row| escaped(&row.name));
        let colours = (0..).map(|number| colours::css(grouped_bars::colour(number)));
        write!(
            plots,
            "<figure>\n<h2>{}</h2>\n{}{}</figure>\n",
            escaped(&figures.title),
            switches(names.zip(colours)),
            grouped_bars::draw(figures)?
        )
        .expect("writing to a String cannot fail");
    }
    let plots = format!("<div class=\"plots\">\n{plots}</div>\n");
    Ok((all.iter().map(table).collect(), plots))
}

fn table(figures: &Figures) -> String {
    let cells = |figures: &[f64]| -> String {
        figures.iter().map(|&figure| format!("<td>{}</td>", figure_text(figure))).collect()
    };
    let titles: String = figures.columns.iter().map(|title| format!("<th>{}</th>", escaped(title))).collect();
    let mut rows = String::new();
    for row in &figures.rows {
        writeln!(rows, "<tr><td>{}</td>{}</tr>", escaped(&row.name), cells(&row.ours))
            .expect("writing to a String cannot fail");
        if let Some(paper) = &row.paper {
            writeln!(rows, "<tr class=\"paper\"><td>paper</td>{}</tr>", cells(paper))
                .expect("writing to a String cannot fail");
        }
    }
    format!(
        "<div class=\"wide\"><table>\n<thead><tr><th>{}, {}</th>{titles}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        escaped(&figures.title),
        escaped(figures.unit)
    )
}

fn claims(claims: &[PaperClaim]) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let row = |claim: &PaperClaim| {
        let span = |span| span_text(span, claim.quantity);
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escaped(&claim.what),
            span(claim.paper),
            span(claim.ours)
        )
    };
    let rows: String = claims.iter().map(row).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr><th>claim</th><th>paper</th><th>ours</th></tr></thead>\n\
         <tbody>\n{rows}</tbody></table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Span;
    use crate::figures::Row;

    #[test]
    fn a_page_of_tables_has_a_plot_and_a_table_for_each() {
        let figures = Figures {
            title: "rates & more".into(),
            unit: "1/s",
            columns: vec!["a".into()],
            rows: vec![Row { name: "<ours>".into(), ours: vec![2.0], paper: None }],
        };
        let page =
            render_figures("Stores", &["one".into(), "t < u".into()], &[figures.clone(), figures]).unwrap();
        assert_eq!((page.matches("<svg").count(), page.matches("<table").count()), (2, 2));
        assert!(page.contains("one<br>\nt &lt; u") && page.contains("&lt;ours&gt;"), "{page}");
        assert!(!page.contains("<ours>"), "{page}");
    }

    #[test]
    fn a_page_of_experiments_stands_alone() {
        let mut outcome =
            Outcome::new("writes", "a paper, figure 1", Time::Real, vec!["a drive <1 GiB>".into()]);
        outcome.figures.push(Figures {
            title: "writes".into(),
            unit: "IOPS",
            columns: vec!["1".into(), "none".into()],
            rows: vec![Row { name: "on".into(), ours: vec![0.0, 1e6], paper: Some(vec![5.0, 6.0]) }],
        });
        outcome.claims.push(PaperClaim::factor("on over off", Span::one(2.0), Span::new(1.5, 2.5)));
        let page = render(&[outcome.clone(), outcome]).unwrap();
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("&lt;1 GiB&gt;") && page.contains("1.50 to 2.50x"), "{page}");
        for outside in ["src=", "href=", "@import", "url(", "NaN", "inf"] {
            assert!(!page.contains(outside), "the page holds {outside}");
        }
    }
}
