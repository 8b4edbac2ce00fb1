//! LinkBench: the database below a social graph (Armstrong et al., SIGMOD 2013), over MariaDB's protocol.
//!
//! Nodes, links between them, and counts of links; ten operations with the published mix, popularity by Zipf's
//! distribution with the published exponents, links of a node by the published distribution. Two things differ: there is
//! no second connection for retries, and which link of a node an operation is about is drawn evenly.

mod client;
mod graph;
mod operation;
mod schema;

pub use client::LinkBenchClient;
pub use graph::Graph;
pub use operation::NAMES;
pub use schema::load;

/// The database's name.
pub const DATABASE: &str = "linkbench";
