//! What works on a drive or a server in an experiment.

pub(crate) mod clients;
pub(crate) mod distributions;
pub(crate) mod fsync_writes;
pub(crate) mod linkbench;
mod mariadb_retry;
