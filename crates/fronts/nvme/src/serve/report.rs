//! Statistics of a served image: the answer to `tantalum stat`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tantalum_control::DriveReport;

use crate::namespaces::{Entry, Table};
use crate::ports::Port;

/// Statistics of a served image: the answer to `tantalum stat`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The drive's part.
    #[serde(flatten)]
    pub drive: DriveReport,
    /// The server's part.
    pub served: ServedReport,
}

/// A block namespace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockNamespace {
    /// Its number for hosts.
    pub number: u32,
    /// The first unit of the drive that it has.
    pub first_unit: u32,
    /// How many.
    pub units: u32,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Whether several controllers may have it at once.
    pub is_shared: bool,
    /// Its reclaim unit handles by placement handle; empty on a drive without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<u8>,
}

impl BlockNamespace {
    /// Those of a table, in the order of their numbers.
    pub fn all(table: &Table) -> Vec<BlockNamespace> {
        let told = |entry: &Entry| BlockNamespace {
            number: entry.number,
            first_unit: entry.first,
            units: entry.units,
            block_bytes: entry.space().block_bytes,
            is_shared: entry.is_shared,
            handles: entry.handles.list().iter().map(|handle| handle.0).collect(),
        };
        let mut all: Vec<BlockNamespace> = table.entries().map(|(_, entry)| told(entry)).collect();
        all.sort_unstable_by_key(|namespace| namespace.number);
        all
    }
}

/// Statistics of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServedReport {
    /// The address it listens on; the first one if there are several.
    pub address: SocketAddr,
    /// All of its ports.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// The subsystem's name.
    pub name: String,
    /// Its block namespaces.
    #[serde(default)]
    pub block_namespaces: Vec<BlockNamespace>,
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
