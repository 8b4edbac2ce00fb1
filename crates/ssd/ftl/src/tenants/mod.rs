//! The tenants of the flash, in one list. A third kind of contents needs a folder here and a line in the list: its
//! state in [`state::Tenants`], and its behaviour in [`TENANTS`]. (The names of its units and journal records are in
//! `spare` and `metadata/record.rs`, like those of every kind.)

pub(crate) mod records;
pub(crate) mod state;
mod tenant;
pub(crate) mod units;

use tantalum_nand::UNIT_BYTES;

pub(crate) use self::tenant::{
    CheckpointReader, DataPlaces, PackedUnit, Packer, Tenant, TenantFold, TenantFound,
};
use crate::spare::{Kind, Spare};
use crate::types::TenantId;

/// All tenants, in the order in which checkpoints have them. A place in P2L identifies its tenant by its number here.
pub(crate) const TENANTS: [&dyn Tenant; 2] = [&units::Units, &records::Records];

/// The owner of units of this kind; none if they belong to the metadata log.
pub(crate) fn tenant_of(kind: Kind) -> Option<&'static dyn Tenant> {
    TENANTS.into_iter().find(|tenant| tenant.has(kind))
}

/// Bytes of a unit that have contents; the rest is taken for zeros.
pub(crate) fn filled_bytes(spare: &Spare) -> usize {
    tenant_of(spare.kind).map_or(UNIT_BYTES, |tenant| tenant.filled_bytes(spare))
}

/// The tenant with this number.
pub(crate) fn tenant(id: TenantId) -> &'static dyn Tenant {
    TENANTS[usize::from(id.0)]
}
