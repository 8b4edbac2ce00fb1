//! The table: a row for each run and a column for each axis and figure; CSV.

use std::collections::HashMap;
use std::fmt::Write;

use crate::run::{Row, Run, Value};

/// The values of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ColumnType {
    Integer,
    Number,
    Text,
}

/// A column.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub kind: ColumnType,
    /// One for each row.
    pub values: Vec<Option<Value>>,
}

/// What a row is made of.
pub(crate) struct Line<'a> {
    pub run: &'a Run,
    /// Why it failed.
    pub failed: Option<&'a str>,
    pub figures: Row,
}

/// Columns of the same length.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    pub rows: usize,
}

impl Table {
    /// The table of runs in the order of their numbers, whatever the order in which they are given.
    pub(crate) fn of(mut rows: Vec<Line<'_>>) -> Table {
        rows.sort_by_key(|line| line.run.number);
        let mut table = Table { columns: Vec::new(), rows: rows.len() };
        let mut places: HashMap<String, usize> = HashMap::new();
        for (index, Line { run, failed, figures }) in rows.into_iter().enumerate() {
            let mut put = |name: &str, value: Option<Value>| {
                let place = *places.entry(name.to_owned()).or_insert_with(|| {
                    let values = vec![None; table.rows];
                    table.columns.push(Column { name: name.to_owned(), kind: ColumnType::Integer, values });
                    table.columns.len() - 1
                });
                table.columns[place].values[index] = value;
            };
            put("run", Some(Value::Integer(run.number as i64)));
            for (name, value) in &run.axes {
                put(name, Some(value.clone()));
            }
            put("seed", Some(Value::Integer(run.seed as i64)));
            put("failed", failed.map(|why| Value::Text(why.to_owned())));
            for (name, value) in figures {
                // a figure never hides a setting
                let name = if run.axes.contains_key(&name) { format!("{name}_measured") } else { name };
                put(&name, value);
            }
        }
        for column in &mut table.columns {
            column.kind = kind_of(&column.values);
        }
        table
    }

    /// As in RFC 4180, with a header line. Missing values are empty.
    pub(crate) fn csv(&self) -> String {
        let mut text = String::new();
        let titles: Vec<String> = self.columns.iter().map(|column| quoted(&column.name)).collect();
        let _ = writeln!(text, "{}", titles.join(","));
        for row in 0..self.rows {
            let cell = |column: &Column| {
                column.values[row].as_ref().map_or_else(String::new, |value| quoted(&value.to_string()))
            };
            let cells: Vec<String> = self.columns.iter().map(cell).collect();
            let _ = writeln!(text, "{}", cells.join(","));
        }
        text
    }
}

/// The narrowest type that fits all values. A column without values is text.
fn kind_of(values: &[Option<Value>]) -> ColumnType {
    let mut there = values.iter().flatten().peekable();
    if there.peek().is_none() {
        return ColumnType::Text;
    }
    there.fold(ColumnType::Integer, |kind, value| match (kind, value) {
        (ColumnType::Text, _) | (_, Value::Text(_)) => ColumnType::Text,
        (ColumnType::Number, _) | (_, Value::Number(_)) => ColumnType::Number,
        (ColumnType::Integer, Value::Integer(_)) => ColumnType::Integer,
    })
}

fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::Load;

    pub(crate) fn run(number: u64, axis: Value) -> Run {
        Run {
            number,
            axes: BTreeMap::from([("axis".to_owned(), axis)]),
            seed: 7,
            profile: String::new(),
            condition: String::new(),
            load: Load::Pattern { pattern: String::new(), requests: 1, request_bytes: 1 },
            queue_depth: None,
            speed: None,
            scale: String::new(),
        }
    }

    #[test]
    fn rows_are_in_the_order_of_the_grid_and_failures_are_among_them() {
        let runs = [
            run(0, Value::Integer(5)),
            run(1, Value::Number(2.5)),
            run(2, Value::Text("a,\"b\"".to_owned())),
        ];
        let row =
            |figure| vec![("figure".to_owned(), Some(Value::Number(figure))), ("axis".to_owned(), None)];
        let line = |run: usize, failed: Option<&'static str>, figures: Row| Line {
            run: &runs[run],
            failed,
            figures,
        };
        let failed = line(1, Some("no room"), Vec::new());
        let table = Table::of(vec![line(2, None, row(0.5)), failed, line(0, None, row(1.0))]);
        let csv = table.csv();
        let expected = "run,axis,seed,failed,figure,axis_measured\n0,5,7,,1,\n1,2.5,7,no room,,\n2,\"a,\"\"b\"\"\",7,,0.5,\n";
        assert_eq!(csv, expected);
        let kinds: Vec<ColumnType> = table.columns.iter().map(|column| column.kind).collect();
        use ColumnType::{Integer, Number, Text};
        assert_eq!(kinds, [Integer, Text, Integer, Text, Number, Text]);
    }
}
