//! The owner of a place of the flash.

use tantalum_nand::Ppn;

use crate::types::{Lpn, Seq, TenantId, TxId};

/// Stands for a version that the place's spare area records, so that it need not be read for that.
pub const IN_SPARE: Seq = Seq(0);

/// The owner of a place that P2L alone cannot express.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claim {
    /// Logical pages with the versions at which they own the place, or [`IN_SPARE`]; never empty.
    Owners(Vec<(Lpn, Seq)>),
    /// A page of an open transaction.
    Transaction(TxId, Lpn),
}

/// The owner of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner<'a> {
    /// None.
    None,
    /// One logical page; the version is in the spare area.
    Plain(Lpn),
    /// According to the claim.
    Claim(&'a Claim),
    /// A tenant that packs its contents, and knows what is there.
    Packed(TenantId),
}

/// A place in use, of a block that is collected.
#[derive(Clone, Copy, Debug)]
pub struct ValidUnit {
    /// The place.
    pub ppn: Ppn,
    /// The only owner, if only the step must change in a copy's spare area.
    pub plain: Option<Lpn>,
}
