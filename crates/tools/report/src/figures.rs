//! Tables of figures, ours next to a paper's.

use serde::Serialize;

/// One table: a figure for each row and column.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The table's subject.
    pub title: String,
    /// The unit of its figures.
    pub unit: &'static str,
    /// What distinguishes the columns.
    pub columns: Vec<String>,
    /// The rows, each one line, or two with the paper's figures.
    pub rows: Vec<Row>,
}

impl Figures {
    /// How busy the machine's processors were: if saturated, they were the bottleneck.
    pub fn of_processors(columns: &[String], rows: impl IntoIterator<Item = (String, Vec<f64>)>) -> Figures {
        let row = |(name, ours)| Row { name, ours, paper: None };
        Figures {
            title: "processors busy meanwhile".to_owned(),
            unit: "percent",
            columns: columns.to_vec(),
            rows: rows.into_iter().map(row).collect(),
        }
    }

    /// The figures of the row of that name.
    pub fn row(&self, name: &str) -> &[f64] {
        let row = self.rows.iter().find(|row| row.name == name);
        &row.unwrap_or_else(|| panic!("{}: no row {name}", self.title)).ours
    }
}

/// A row of figures: as many as there are columns.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The row's name.
    pub name: String,
    /// What was measured.
    pub ours: Vec<f64>,
    /// The paper's figures; `None` if it has only a plot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper: Option<Vec<f64>>,
}
