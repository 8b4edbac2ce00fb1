//! How far figures are from those that a paper prints.

use tantalum_report::{Figures, PaperClaim, Quantity, Row, Span};

/// Bounds within which a figure counts as close.
const CLOSE: [f64; 2] = [1.25, 1.5];

/// A table: for each part, its cells, how many are close, and how far the farthest is.
pub(super) fn summary(parts: &[(&str, Vec<f64>)]) -> Figures {
    let row = |(name, distances): &(&str, Vec<f64>)| {
        let within = |bound: f64| distances.iter().filter(|distance| **distance <= bound).count() as f64;
        let farthest = distances.iter().copied().fold(1.0, f64::max);
        Row {
            name: (*name).to_owned(),
            ours: vec![distances.len() as f64, within(CLOSE[0]), within(CLOSE[1]), farthest],
            paper: None,
        }
    };
    Figures {
        title: "how far ours are from the paper's: cells, those within a factor, and the farthest".to_owned(),
        unit: "cells or factor",
        columns: ["cells", "within 1.25", "within 1.5", "farthest"].map(str::to_owned).into(),
        rows: parts.iter().map(row).collect(),
    }
}

/// The factors by which a table's cells differ from the paper's, 1 or more each.
pub(super) fn of_figures(figures: &Figures) -> Vec<f64> {
    let with_paper = figures.rows.iter().filter_map(|row| Some((&row.ours, row.paper.as_ref()?)));
    with_paper
        .flat_map(|(ours, paper)| ours.iter().zip(paper))
        .map(|(ours, paper)| apart(*ours, *paper))
        .collect()
}

/// The factors, 1 or more each, by which measured values lie outside the claimed spans.
pub(super) fn of_claims(claims: &[PaperClaim]) -> Vec<f64> {
    claims.iter().map(of_claim).collect()
}

fn of_claim(claim: &PaperClaim) -> f64 {
    let as_factor = |figure: f64| match claim.quantity {
        Quantity::Factor => figure,
        Quantity::Percent => 1.0 + figure / 100.0,
    };
    let Span { low, high } = claim.paper;
    let outside = |ours: f64| apart(as_factor(ours), as_factor(ours.clamp(low, high)));
    outside(claim.ours.low).max(outside(claim.ours.high))
}

fn apart(ours: f64, paper: f64) -> f64 {
    (ours / paper).max(paper / ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_factors_in_either_direction_and_none_inside_a_span() {
        let claim = |paper, ours| PaperClaim::factor("", paper, ours);
        let claims = [
            claim(Span::new(2.0, 4.0), Span::new(2.5, 6.0)),
            claim(Span::one(2.0), Span::one(1.0)),
            PaperClaim::percent("", Span::one(-40.0), Span::one(-70.0)),
        ];
        let distances = of_claims(&claims);
        assert_eq!((distances[0], distances[1]), (1.5, 2.0));
        assert!((distances[2] - 2.0).abs() < 1e-9);
        let table = summary(&[("claims", distances), ("none", vec![])]);
        assert_eq!(table.row("claims")[..3], [3.0, 0.0, 1.0]);
        assert_eq!(table.row("none")[3], 1.0);
    }

    #[test]
    fn only_rows_that_the_paper_prints_are_cells() {
        let row = |paper: Option<Vec<f64>>| Row { name: String::new(), ours: vec![2.0, 1.0], paper };
        let rows = vec![row(Some(vec![1.0, 4.0])), row(None)];
        let figures = Figures { title: String::new(), unit: "", columns: Vec::new(), rows };
        assert_eq!(of_figures(&figures), [2.0, 4.0]);
    }
}
