//! The state of the tenants: what each keeps in DRAM beyond the map.

use super::records::state::KeyValue;
use super::units::state::UnitState;

/// See the head of this file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenants {
    /// Weight that may be added before the free space is computed again.
    pub budget: u64,
    pub units: UnitState,
    pub records: KeyValue,
}
