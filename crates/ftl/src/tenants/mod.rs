//! The tenants of the flash, in one list. A third kind of contents is a folder here and a line in the list: its state in
//! [`Tenants`], and what it does in [`TENANTS`]. (What its units and journal records are called is in `spare` and
//! `metadata/record.rs`, as every kind's is.)

pub(crate) mod records;
mod tenant;
pub(crate) mod units;

use tantalum_nand::UNIT_BYTES;

pub(crate) use self::tenant::{DataPlaces, Kept, PackedUnit, Packer, Tenant, TenantFold, TenantFound};
use crate::spare::{Kind, Spare};
use crate::types::TenantId;

/// All tenants, in the order in which checkpoints have them. A place in P2L names its tenant by the number here.
pub(crate) const TENANTS: [&dyn Tenant; 2] = [&units::Units, &records::Records];

/// The state of those that keep more than the map does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenants {
    /// Weight that may be added before the free space is reckoned again.
    pub budget: u64,
    pub records: records::KeyValue,
}

/// Whose units of this kind are; nobody's if it is the metadata log's.
pub(crate) fn tenant_of(kind: Kind) -> Option<&'static dyn Tenant> {
    TENANTS.into_iter().find(|tenant| tenant.has(kind))
}

/// Bytes of a unit that say something; what is behind them is taken for zeros.
pub(crate) fn filled_bytes(spare: &Spare) -> usize {
    tenant_of(spare.kind).map_or(UNIT_BYTES, |tenant| tenant.filled_bytes(spare))
}

/// The tenant with this number.
pub(crate) fn tenant(id: TenantId) -> &'static dyn Tenant {
    TENANTS[usize::from(id.0)]
}
