//! Self-contained pages of HTML: no other file, script or address.

pub(crate) mod experiments;

use crate::table::Table;

/// What every page looks like, light and dark.
const STYLE: &str = include_str!("page.css");

/// A whole page. All but `title` and `heading` is HTML as it is.
pub fn page(title: &str, heading: &str, lead: &str, contents: &str) -> String {
    let (title, heading) = (escaped(title), escaped(heading));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{heading}</h1>\n<p class=\"lead\">{lead}</p>\n{contents}</main>\n</body>\n</html>\n"
    )
}

/// The list of names and CSS colours above a plot.
pub fn legend(entries: impl Iterator<Item = (String, String)>) -> String {
    let items: String = entries
        .map(|(name, colour)| format!("<li><i style=\"background:{colour}\"></i>{name}</li>"))
        .collect();
    format!("<ul class=\"legend\">{items}</ul>\n")
}

/// A table, as on a terminal.
pub fn table(table: &Table) -> String {
    let cells = |cells: &[String], tag: &str| -> String {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect()
    };
    let rows: String = table.rows().iter().map(|row| format!("<tr>{}</tr>\n", cells(row, "td"))).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        cells(&table.titles(), "th")
    )
}

/// Text as it may stand in HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
