//! Statistics of a served image: the answer to `tantalum stat`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tantalum_control::DriveReport;

/// Statistics of a served image: the answer to `tantalum stat`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The drive's part.
    #[serde(flatten)]
    pub drive: DriveReport,
    /// The server's part.
    pub served: ServedReport,
}

/// Statistics of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServedReport {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The subsystem's name.
    pub name: String,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Units of the drive's flash, without spare areas.
    #[serde(default)]
    pub flash_units: u32,
    /// Controllers now.
    pub controllers: usize,
    /// Connections now.
    pub connections: usize,
    /// Connections accepted so far.
    pub connections_accepted: u64,
    /// Commands that failed.
    pub commands_failed: u64,
    /// Number of power losses.
    pub power_losses: u64,
    /// Units that were shared with an equal one instead of being written.
    pub units_remapped: u64,
    /// Units that were written although duplicates are remapped.
    pub units_without_duplicate: u64,
}
