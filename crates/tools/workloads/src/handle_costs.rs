//! What a load cost by reclaim unit handle, on a drive that has some.

use serde::Serialize;
use tantalum::HandleState;
use tantalum_report::table::{Align, Table, grouped};

/// What was written with a handle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct HandleCost {
    /// Which one.
    pub handle: u8,
    /// Units of 4 KiB that the host wrote with it.
    pub host_units_written: u64,
    /// Units that were programmed for it, with those that were moved.
    pub flash_units: u64,
    /// Units that were moved.
    pub flash_copies: u64,
    /// Units programmed over units that the host wrote; none if it wrote none.
    pub write_amplification: Option<f64>,
}

/// The increase by handle.
pub fn handle_costs(before: &[HandleState], now: &[HandleState]) -> Vec<HandleCost> {
    let cost = |(before, now): (&HandleState, &HandleState)| {
        let change = now.counters.since(&before.counters);
        HandleCost {
            handle: now.handle.0,
            host_units_written: change.host_units_written,
            flash_units: change.flash_host_units + change.flash_copies,
            flash_copies: change.flash_copies,
            write_amplification: change.write_amplification(),
        }
    };
    before.iter().zip(now).map(cost).collect()
}

/// A row for each handle.
pub fn handle_table(costs: &[HandleCost]) -> Table {
    let mut table = Table::new(&[
        ("handle", Align::Left),
        ("units written", Align::Right),
        ("units programmed", Align::Right),
        ("of these moved", Align::Right),
        ("amplification", Align::Right),
    ]);
    for cost in costs {
        table.push(vec![
            cost.handle.to_string(),
            grouped(cost.host_units_written),
            grouped(cost.flash_units),
            grouped(cost.flash_copies),
            cost.write_amplification.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
        ]);
    }
    table
}
