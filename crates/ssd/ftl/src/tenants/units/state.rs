//! What the drive keeps of units beyond the map.

use crate::map::{Logs, Transactions};
use crate::types::Seq;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitState {
    /// Hinted logs.
    pub logs: Logs,
    /// Open transactions.
    pub transactions: Transactions,
    /// The newest version at which anything was unmapped.
    pub last_unmap: Seq,
}
