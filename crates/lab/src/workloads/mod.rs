//! What works on a drive or a server in an experiment.

pub(crate) mod fsync_writes;
