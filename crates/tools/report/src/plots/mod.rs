//! Plots as SVG, readable on white and on black.

pub mod bars;
pub mod colours;
pub mod curves;
pub mod grouped_bars;
pub(crate) mod marks;
pub mod steps;
