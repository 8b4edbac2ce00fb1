//! The results: a line for each figure, a column for each store.

use std::fmt::Write;

use tantalum_report::table::{Align, Table};

use super::turn::{Sizes, Turn};

/// A figure of all turns of a store.
struct Figure {
    median: f64,
    least: f64,
    most: f64,
}

impl Figure {
    fn of(turns: &[Turn], quantity: impl Fn(&Turn) -> f64) -> Figure {
        let mut all: Vec<f64> = turns.iter().map(quantity).collect();
        all.sort_by(f64::total_cmp);
        Figure { median: all[all.len() / 2], least: all[0], most: all[all.len() - 1] }
    }

    /// The median, and the spread if it can be seen.
    fn text(&self) -> String {
        let [median, least, most] = [self.median, self.least, self.most].map(number);
        if least == most { median } else { format!("{median} ({least} to {most})") }
    }
}

fn number(number: f64) -> String {
    match number {
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// A line: its title, a figure for each store, and whether the first store is compared with the others by it.
type Line = (String, Vec<Figure>, bool);

fn lines(columns: &[(&str, &[Turn])]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let Some(first) = columns.first().and_then(|(_, turns)| turns.first()) else { return lines };
    let mut add = |title: String, is_time: bool, quantity: &dyn Fn(&Turn) -> f64| {
        let figures = columns.iter().map(|(_, turns)| Figure::of(turns, quantity)).collect();
        lines.push((title, figures, is_time));
    };
    for (at, (step, _)) in first.steps.iter().enumerate() {
        add(format!("{step}, ms"), true, &|turn| turn.steps[at].1 * 1000.0);
    }
    add("opening, until it is done, ms".into(), false, &|turn| turn.open_seconds * 1000.0);
    for (at, (when, _)) in first.disk.iter().enumerate() {
        add(format!("disk over data: {when}"), false, &|turn| turn.disk[at].1);
    }
    add("sent to the disk for each byte loaded".into(), false, &|turn| turn.sent_per_byte);
    add("memory, MB".into(), false, &|turn| turn.memory_bytes as f64 / 1e6);
    lines
}

fn faster(figures: &[Figure]) -> impl Iterator<Item = String> {
    let first = figures[0].median;
    figures[1..].iter().map(move |other| format!("{:.2}", other.median / first))
}

/// The table for a terminal.
pub fn text(columns: &[(&str, &[Turn])]) -> String {
    let mut titles = vec![("step", Align::Left)];
    titles.extend(columns.iter().map(|(name, _)| (*name, Align::Right)));
    let mut table = Table::new(&titles);
    for (title, figures, _) in lines(columns) {
        table.push([title].into_iter().chain(figures.iter().map(Figure::text)).collect());
    }
    format!("{}\nmedians of the rounds (least to most); ms of steps are time of processors\n", table.render())
}

/// A section for docs/: how it was made, and the figures; then the speed of the first store beside each other's.
pub fn markdown(columns: &[(&str, &[Turn])], command: &str, sizes: Sizes) -> String {
    let rounds = columns.first().map_or(0, |(_, turns)| turns.len());
    let mut page = format!(
        "Written by `{command}` on {} cores: {} records of 16 and {} bytes, {} in a transaction, a cache of {} MiB. Medians of \
         {rounds} rounds (least to most).\n",
        std::thread::available_parallelism().map_or(1, usize::from),
        sizes.records,
        sizes.value_bytes,
        sizes.batch,
        sizes.cache_bytes >> 20,
    );
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let lines = lines(columns);
    head(&mut page, &names);
    for (title, figures, _) in &lines {
        row(&mut page, title, figures.iter().map(Figure::text));
    }
    if let Some((first, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) {
        write!(page, "\nSpeed of {first} over the other's, by processor time:\n").expect("to a String");
        head(&mut page, others);
        for (title, figures, _) in lines.iter().filter(|(.., is_time)| *is_time) {
            row(&mut page, title.trim_end_matches(", ms"), faster(figures));
        }
    }
    page
}

fn head(page: &mut String, names: &[&str]) {
    let rules = "---:|".repeat(names.len());
    write!(page, "\n| | {} |\n|---|{rules}\n", names.join(" | ")).expect("to a String");
}

fn row(page: &mut String, title: &str, cells: impl Iterator<Item = String>) {
    let cells: String = cells.map(|cell| format!(" {cell} |")).collect();
    writeln!(page, "| {title} |{cells}").expect("to a String");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(seconds: f64) -> Turn {
        Turn {
            steps: vec![("load".into(), seconds)],
            disk: vec![("loaded".into(), 1.5)],
            sent_per_byte: 2.0,
            memory_bytes: 300_000_000,
            open_seconds: 0.05,
        }
    }

    #[test]
    fn each_line_has_the_median_its_spread_and_the_speed_beside_others() {
        let (ours, theirs) = ([turn(3.0), turn(1.0), turn(2.0)], [turn(1.0), turn(1.0), turn(1.0)]);
        let columns: [(&str, &[Turn]); 2] = [("ours", &ours), ("other", &theirs)];
        let sizes = Sizes {
            records: 1000,
            value_bytes: 100,
            batch: 10,
            cache_bytes: 256 << 20,
            is_shuffled: false,
            seed: 1,
        };
        let page = markdown(&columns, "a command", sizes);
        for expected in [
            "`a command`",
            "1000 records of 16 and 100 bytes, 10 in a transaction, a cache of 256 MiB. Medians of 3 rounds",
            "| | ours | other |\n|---|---:|---:|\n| load, ms | 2000 (1000 to 3000) | 1000 |\n",
            "| disk over data: loaded | 1.50 | 1.50 |\n",
            "| memory, MB | 300 | 300 |\n",
            "| | other |\n|---|---:|\n| load | 0.50 |\n",
        ] {
            assert!(page.contains(expected), "{expected:?} is not in\n{page}");
        }
        assert!(text(&columns).contains("2000 (1000 to 3000)"));
    }
}
