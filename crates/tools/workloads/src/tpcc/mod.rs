//! TPC-C (revision 5.11) over MariaDB's protocol: its nine tables, five transactions and their mix.
//!
//! There are no keying and think times, as usual when looking for a server's limit; a client works for one warehouse.
//! Warehouses may have fewer rows than the standard's; the skewed draws are then equally skewed for their number. Names
//! that are never looked up have fewer columns than the standard's, padded to its row sizes.

mod client;
mod draw;
mod schema;
mod transactions;

pub use client::TpccClient;
pub use schema::{is_consistent, load};

/// The database's name.
pub const DATABASE: &str = "tpcc";

/// The transactions with their shares in percent (5.2.3), in the order of their numbers.
const SHARES: [(&str, f64); 5] =
    [("New-Order", 45.0), ("Payment", 43.0), ("Order-Status", 4.0), ("Delivery", 4.0), ("Stock-Level", 4.0)];

/// Kinds of transactions; the first is what tpmC counts.
pub const KINDS: usize = SHARES.len();

const DISTRICTS: u64 = 10;

/// The standard's customers of a district, items, and last names.
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;
const NAMES: u64 = 1000;

/// The numbers of rows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tables {
    /// Warehouses; a client works for one of them.
    pub warehouses: u64,
    /// Customers of a district, and also the orders with which it is loaded.
    customers: u64,
    items: u64,
}

impl Tables {
    /// A database of this many warehouses, each with a fraction of the standard's rows, from 0 to 1.
    pub fn new(warehouses: u64, share: f64) -> Tables {
        let rows = |full: u64, least: u64| ((full as f64 * share) as u64).clamp(least, full);
        Tables { warehouses, customers: rows(CUSTOMERS, 30), items: rows(ITEMS, 100) }
    }

    /// Last names that customers have.
    fn names(&self) -> u64 {
        self.customers.min(NAMES)
    }
}
