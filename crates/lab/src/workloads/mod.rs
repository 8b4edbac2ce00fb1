//! What works on a drive or a server in an experiment.

pub(crate) mod clients;
mod database;
pub(crate) mod distributions;
pub(crate) mod fsync_writes;
mod inserts;
pub(crate) mod linkbench;
mod mariadb_retry;
pub(crate) mod tpcb;
pub(crate) mod tpcc;
pub(crate) mod ycsb;
