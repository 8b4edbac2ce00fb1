//! Tables of text for a terminal.

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table whose columns are as wide as their widest cell, two spaces apart.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let columns = columns.iter().map(|&(title, align)| (title.to_owned(), align)).collect();
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row: one cell for each column.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "a row has one cell for each column");
        self.rows.push(row);
    }

    /// The table with its titles underlined, if it has any; every line ends with a newline.
    pub fn render(&self) -> String {
        let widths = self.widths();
        let titles = self.titles();
        let rules: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let head = if titles.iter().all(String::is_empty) { vec![] } else { vec![&titles, &rules] };
        head.into_iter().chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    /// The titles of the columns.
    pub fn titles(&self) -> Vec<String> {
        self.columns.iter().map(|(title, _)| title.clone()).collect()
    }

    /// How the columns are aligned.
    pub(crate) fn alignments(&self) -> impl Iterator<Item = Align> {
        self.columns.iter().map(|(_, align)| *align)
    }

    /// The rows so far.
    pub fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn widths(&self) -> Vec<usize> {
        let width_of = |column: usize, title: &str| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(title.chars().count())
        };
        self.columns.iter().enumerate().map(|(column, (title, _))| width_of(column, title)).collect()
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .zip(&self.columns)
            .map(|((cell, &width), (_, align))| match align {
                Align::Left => format!("{cell:<width$}"),
                Align::Right => format!("{cell:>width$}"),
            })
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    }
}

/// A whole number with commas between the thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things: `1 seed`, `1,234 seeds`. `what` is one of them, a word or more; the last has a regular plural.
pub fn count(number: u64, what: &str) -> String {
    let plural = match number {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {what}{plural}", grouped(number))
}

/// Bytes in the largest binary unit that shows them with few digits.
pub fn bytes(bytes: u64) -> String {
    const NAMES: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..NAMES.len() - 1).take_while(|&power| bytes >> (10 * (power + 1)) > 0).count();
    let amount = bytes as f64 / (1u64 << (10 * power)) as f64;
    let digits = if amount.fract() == 0.0 { 0 } else { 1 };
    format!("{amount:.digits$} {}", NAMES[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("mode", Align::Left), ("tx/s", Align::Right)]);
        table.push(vec!["wal".into(), "9".into()]);
        table.push(vec!["rollback".into(), "1,234".into()]);
        assert_eq!(table.render(), "mode       tx/s\n--------  -----\nwal           9\nrollback  1,234\n");
    }

    #[test]
    fn a_table_without_titles_has_no_head() {
        let mut table = Table::new(&[("", Align::Left), ("", Align::Left)]);
        table.push(vec!["asked for".into(), "1 KiB".into()]);
        assert_eq!(table.render(), "asked for  1 KiB\n");
    }

    #[test]
    fn one_thing_has_no_plural() {
        assert_eq!([0, 1, 1234].map(|number| count(number, "seed")), ["0 seeds", "1 seed", "1,234 seeds"]);
        assert_eq!(
            [1, 2].map(|number| count(number, "atomic batch")),
            ["1 atomic batch", "2 atomic batches"]
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bytes_are_shown_in_their_unit() {
        let expected =
            [(0, "0 bytes"), (4096, "4 KiB"), (1 << 30, "1 GiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1 TiB")];
        for (number, text) in expected {
            assert_eq!(bytes(number), text);
        }
    }
}
