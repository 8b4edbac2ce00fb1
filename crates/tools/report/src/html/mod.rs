//! Self-contained pages of HTML: no other file, script or address.

pub(crate) mod experiments;

use crate::plots::marks::SERIES_WITH_SWITCH;
pub use crate::plots::marks::escaped;
use crate::table::{Align, Table};

/// The style of every page, light and dark.
const STYLE: &str = include_str!("page.css");

/// A whole page. Everything except `title` and `heading` is raw HTML.
pub fn page(title: &str, heading: &str, lead: &str, contents: &str) -> String {
    let (title, heading, switches) = (escaped(title), escaped(heading), switch_rules());
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}{switches}</style>\n</head>\n<body>\n<main>\n\
         <h1>{heading}</h1>\n<p class=\"lead\">{lead}</p>\n{contents}</main>\n</body>\n</html>\n"
    )
}

/// Text in lines.
pub fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let lines: Vec<String> = lines.into_iter().map(|line| escaped(line.as_ref())).collect();
    lines.join("<br>\n")
}

/// A plot, with its legend, in its frame: `tall` beside two others, `wide` across the page, or without a class.
pub fn figure(class: &str, title: &str, caption: &str, plot: &str) -> String {
    let (title, caption) = (escaped(title), escaped(caption));
    format!(
        "<figure class=\"{class}\">\n<h2>{title}</h2>\n<figcaption>{caption}</figcaption>\n{plot}</figure>\n"
    )
}

/// The list of names and CSS colours above a plot.
pub fn legend(entries: impl Iterator<Item = (String, String)>) -> String {
    let items: String = entries
        .map(|(name, colour)| format!("<li><i style=\"background:{colour}\"></i>{name}</li>"))
        .collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// A legend with a checkbox for each (name, colour). Unticking it hides the marks of its series in the plot below.
pub fn switches(entries: impl Iterator<Item = (String, String)>) -> String {
    let item = |(number, (name, colour)): (usize, (String, String))| match number {
        number if number < SERIES_WITH_SWITCH => format!(
            "<li><label><input type=\"checkbox\" class=\"s{number}\" checked>\
             <i style=\"background:{colour}\"></i>{name}</label></li>"
        ),
        _ => format!("<li><i style=\"background:{colour}\"></i>{name}</li>"),
    };
    let items: String = entries.enumerate().map(item).collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// The rule that hides the marks whose box is unticked, within a figure.
fn switch_rules() -> String {
    let rule = |number| format!("figure:has(.s{number}:not(:checked)) .k{number} {{ display: none; }}\n");
    (0..SERIES_WITH_SWITCH).map(rule).collect()
}

/// A table, as on a terminal.
pub fn table(table: &Table) -> String {
    let words: Vec<bool> = table.alignments().map(|align| align == Align::Left).collect();
    let cells = |cells: &[String], tag: &str| -> String {
        let cell = |(cell, is_words): (&String, &bool)| {
            let class = if *is_words { " class=\"words\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(cell))
        };
        cells.iter().zip(&words).map(cell).collect()
    };
    let rows: String = table.rows().iter().map(|row| format!("<tr>{}</tr>\n", cells(row, "td"))).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        cells(&table.titles(), "th")
    )
}
