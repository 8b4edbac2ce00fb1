//! Sections of a page of figures that different commands write.

/// Where a section is in a page, from its heading up to the next one of its level.
fn place(page: &str, title: &str) -> Option<std::ops::Range<usize>> {
    let heading = format!("\n## {title}\n");
    let start = page.find(&heading)?;
    let body = start + heading.len();
    let end = page[body..].find("\n## ").map_or(page.len(), |at| body + at);
    Some(start..end)
}

/// The page with this body in its section of that title, which is added at the end if there is none.
pub fn with_section(page: &str, title: &str, body: &str) -> String {
    let section = format!("\n## {title}\n\n{}\n", body.trim_end());
    match place(page, title) {
        Some(place) => {
            let rest = &page[place.end..];
            format!("{}{section}{rest}", &page[..place.start])
        }
        None => format!("{}\n{section}", page.trim_end()),
    }
}

/// A page that replaces an earlier one, with a section that it does not have kept at its end.
pub fn keep_section(page: &str, earlier: &str, title: &str) -> String {
    match place(earlier, title) {
        Some(place) => format!("{}\n{}\n", page.trim_end(), earlier[place].trim_end()),
        None => page.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Figures\n\nlead\n\n## Rates\n\n| 1 |\n";

    #[test]
    fn a_section_is_added_replaced_and_kept() {
        let first = with_section(PAGE, "Small", "| 2 |\n\n");
        assert_eq!(first, "# Figures\n\nlead\n\n## Rates\n\n| 1 |\n\n## Small\n\n| 2 |\n");
        let between = with_section(&with_section(PAGE, "Small", "| 2 |"), "Last", "| 3 |");
        let again = with_section(&between, "Small", "| 4 |");
        assert_eq!(
            again,
            "# Figures\n\nlead\n\n## Rates\n\n| 1 |\n\n## Small\n\n| 4 |\n\n## Last\n\n| 3 |\n"
        );
        let new = "# Figures\n\nnew\n";
        assert_eq!(keep_section(new, &again, "Small"), "# Figures\n\nnew\n\n## Small\n\n| 4 |\n");
        assert_eq!(keep_section(new, PAGE, "Small"), new);
    }
}
