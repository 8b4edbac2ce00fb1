//! TPC-C (revision 5.11) over MariaDB's protocol: its nine tables, five transactions and their mix.
//!
//! Without keying and think times, as drivers that look for a server's limit run it; a client works for one warehouse.
//! Names that nothing is looked up by hold fewer columns than the standard's, padded to its row sizes.

mod client;
mod draw;
mod schema;
mod transactions;

pub(crate) use client::TpccClient;
pub(crate) use schema::{is_consistent, load};

/// The database's name.
pub(crate) const DATABASE: &str = "tpcc";

/// The transactions with their shares in percent (5.2.3), in the order of their numbers.
const SHARES: [(&str, f64); 5] =
    [("New-Order", 45.0), ("Payment", 43.0), ("Order-Status", 4.0), ("Delivery", 4.0), ("Stock-Level", 4.0)];

/// Kinds of transactions; the first is what tpmC counts.
pub(crate) const KINDS: usize = SHARES.len();

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 3000;
const ITEMS: u64 = 100_000;
