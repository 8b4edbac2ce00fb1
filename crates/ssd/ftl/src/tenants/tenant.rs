//! What every tenant of the flash does. Units and records share the drive's log, its map of places, its checkpoints and
//! its capacity; each defines how its own contents are packed and moved, folded, kept, audited and reserved for.

use std::collections::BTreeSet;
use std::sync::Arc;

use tantalum_nand::{Array, BlockId, Geometry, Nanoseconds, PageState, Ppn, UNIT_BYTES};

use crate::error::FtlError;
use crate::findings::Audit;
use crate::metadata::{CheckpointBytes, Record};
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::space::{FtlConfig, Target};
use crate::spare::{BatchMark, Kind, Spare};
use crate::types::Seq;

/// One kind of contents of the flash. It has no state of its own; that is in `state.rs`.
pub(crate) trait Tenant: Sync {
    /// Whether units of this kind belong to it.
    fn has(&self, kind: Kind) -> bool;

    // -- pack and move ------------------------------------------------------------------------------------------

    /// Moves its contents when garbage is collected. Called only for a tenant that packs its places.
    fn packer(&self) -> Box<dyn Packer> {
        unreachable!("garbage collection copies its units as they are")
    }

    /// Bytes of a unit that have contents; the rest is taken for zeros.
    fn filled_bytes(&self, _spare: &Spare) -> usize {
        UNIT_BYTES
    }

    // -- what waits in protected DRAM ---------------------------------------------------------------------------

    /// Whether a unit lost on its way to flash was acknowledged as durable and exists nowhere else. What garbage
    /// collection was moving is still at its old place.
    fn is_saved(&self, parts: &Parts, spare: &Spare) -> bool;

    /// What waits for a full page, as pages for the dump.
    fn waiting(&self, _parts: &mut Parts, _step: Seq) -> Result<Vec<PageImage>, FtlError> {
        Ok(Vec::new())
    }

    // -- keep in a checkpoint -----------------------------------------------------------------------------------

    /// Appends its contents for a checkpoint. Returns when everything that had to be read for it has been read.
    fn write_checkpoint(
        &self,
        parts: &mut Parts,
        bytes: &mut CheckpointBytes,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError>;

    /// The current number of these bytes.
    fn kept_bytes(&self, parts: &Parts) -> u64;

    /// The part of these bytes that the layout does not plan for, with this many more entries.
    fn unplanned_bytes(&self, _parts: &Parts, _more_entries: u64) -> u64 {
        0
    }

    /// A checkpoint is about to be programmed: anything that is not in it takes later steps.
    fn before_checkpoint(&self, _parts: &mut Parts) -> Result<(), FtlError> {
        Ok(())
    }

    /// The checkpoint stands.
    fn after_checkpoint(&self, _parts: &mut Parts) {}

    // -- fold ---------------------------------------------------------------------------------------------------

    /// A fold over its contents of the checkpoint at `step`, which are at the front of `kept`. None if they are not
    /// valid.
    fn fold(&self, kept: &mut CheckpointReader<'_>, step: Seq) -> Option<Box<dyn TenantFold>>;

    // -- audit and reserve --------------------------------------------------------------------------------------

    /// Compares its state in DRAM with itself and with P2L.
    fn audit(&self, parts: &Parts, audit: &mut Audit);

    /// Units of the drive's capacity that it takes, also after a cut.
    fn reserved_units(&self, parts: &Parts) -> u64;

    /// Fewer blocks are left.
    fn blocks_went_bad(&self, _parts: &mut Parts) {}

    /// The drive is back after a power cut.
    fn recovered(&self, _parts: &mut Parts) {}
}

/// Packs the contents in use of victims' units, across victims.
pub(crate) trait Packer {
    /// Takes over the contents in use of a unit. Returns the units that this fills.
    fn pack(
        &mut self,
        parts: &mut Parts,
        ppn: Ppn,
        at_ns: Nanoseconds,
    ) -> Result<Vec<Box<dyn PackedUnit>>, FtlError>;

    /// How many units are partly filled.
    fn open_units(&self) -> usize;

    /// The partly filled units.
    fn take_open(&mut self) -> Vec<Box<dyn PackedUnit>>;
}

/// A unit of packed contents in transit.
pub(crate) trait PackedUnit {
    /// Its destination stream.
    fn target(&self) -> Target;

    /// When all of it has been read.
    fn ready_ns(&self) -> Nanoseconds;

    /// Its data, a unit.
    fn bytes(&self) -> &[u8];

    /// Its spare area.
    fn spare(&self, step: Seq) -> Spare;

    /// It now has a place, and its contents no longer occupy the old ones.
    fn moved(&self, parts: &mut Parts, to: Ppn);
}

/// The part of a checkpoint still to be decoded.
pub(crate) struct CheckpointReader<'a> {
    /// The bytes, starting with the tenant's first.
    pub bytes: &'a [u8],
    /// The position of that byte in the checkpoint.
    pub first_byte: u64,
    /// The bytes of the whole checkpoint, for what is to stay there.
    pub checkpoint: &'a Arc<Array<u8>>,
    pub config: &'a FtlConfig,
    pub geometry: &'a Geometry,
}

/// Assertions gathered over a checkpoint. Their order does not matter, and seeing one twice changes nothing.
pub(crate) trait TenantFold {
    /// A unit of its kinds, programmed since the checkpoint.
    fn unit(&mut self, reader: &mut Reader, ppn: Ppn, spare: &Spare) -> Result<(), FtlError>;

    /// The journal since the checkpoint, after all units.
    fn journal(&mut self, records: &[Record]);

    /// The batches whose members were seen, with the members found.
    fn batches(&self) -> Vec<BatchMark>;

    /// The members of whole batches assert, the others do not.
    fn assert_batches(&mut self, whole: &BTreeSet<Seq>);

    /// Whether nothing was asserted since the checkpoint.
    fn is_empty(&self) -> bool;

    /// Decides what is conditional, and takes the maximum.
    fn finish(
        self: Box<Self>,
        reader: &mut Reader,
        report: &mut RecoveryReport,
    ) -> Result<Box<dyn TenantFound>, FtlError>;
}

/// The result of a fold.
pub(crate) trait TenantFound {
    /// Everything must be at a place that holds data.
    fn check(&self, data: &DataPlaces<'_>) -> Result<(), FtlError>;

    /// Makes it the running drive's state, after the tenants before it in the list. `clean` if nothing followed the
    /// checkpoint.
    fn restore(self: Box<Self>, parts: &mut Parts, clean: bool) -> Result<(), FtlError>;
}

/// The places of a drive that may hold data.
pub(crate) struct DataPlaces<'a> {
    pub reader: &'a Reader,
    /// Whether each block holds no data. Blocks beyond the end of the list may hold some.
    pub no_data: Vec<bool>,
}

impl DataPlaces<'_> {
    fn is_without(&self, block: BlockId) -> bool {
        self.no_data.get(block.index()).copied().unwrap_or(false)
    }

    /// Whether a place was programmed, in a block for data.
    pub fn has(&self, ppn: Ppn) -> bool {
        let nand = &self.reader.nand;
        let page = nand.geometry().page_of(ppn);
        nand.page_state(page) != PageState::Erased && !self.is_without(nand.geometry().block_of(page))
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Nand, PageId};

    use super::*;
    use crate::tenants::TENANTS;
    use crate::test_support::{GEOMETRY, TIMING};

    #[test]
    fn data_are_where_something_was_programmed_in_a_block_for_data() {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let place = |block, page| GEOMETRY.page(BlockId(block), page);
        for page in [place(1, 0), place(2, 0)] {
            let spare = Spare::new(Kind::Data, Seq(1));
            let image = PageImage::stage(&mut nand, &[1; UNIT_BYTES], &spare).unwrap();
            let (sources, spares) = image.parts(&GEOMETRY);
            nand.program(page, sources, spares, 0).unwrap();
        }
        let reader = Reader::new(nand, 128, 0);
        let data = DataPlaces { reader: &reader, no_data: vec![false, false, true] };
        let has = |page: PageId| data.has(GEOMETRY.unit(page, 0));
        assert_eq!(
            [place(1, 0), place(1, 1), place(2, 0), place(2, 1), place(3, 0)].map(has),
            [true, false, false, false, false]
        );
    }

    /// A dump saves no pages of the metadata log: it has the records themselves.
    #[test]
    fn units_and_records_have_one_tenant_each_and_the_metadata_log_has_none() {
        let kinds = [Kind::Data, Kind::Transaction, Kind::KeyValue, Kind::Journal, Kind::Checkpoint];
        let tenants = kinds.map(|kind| TENANTS.iter().filter(|tenant| tenant.has(kind)).count());
        assert_eq!(tenants, [1, 1, 1, 0, 0]);
        assert_eq!(kinds.map(|kind| TENANTS[1].has(kind)), [false, false, true, false, false]);
    }
}
