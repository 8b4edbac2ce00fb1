//! What shares the flash: units of the block namespace, and records of key-value namespaces. They share the drive's log, its
//! map of places, its checkpoints and its capacity. Each of the two is a part of its own, [`units::Units`] and
//! [`records::Records`], with the fold that recovers it; this file has what both folds read. Zones have blocks of their own and need no
//! map ([`crate::zones`]).

pub(crate) mod records;
pub(crate) mod units;

use std::sync::Arc;

use tantalum_nand::{Array, BlockId, Geometry, PageState, Ppn, UNIT_BYTES};

use crate::reader::Reader;
use crate::space::FtlConfig;
use crate::spare::{Kind, Spare};
#[cfg(test)]
use crate::types::Seq;

/// Whose contents a unit on flash has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tenant {
    /// The block namespace's.
    Units,
    /// Those of key-value namespaces.
    Records,
    /// Those of zones.
    Zones,
}

impl Tenant {
    /// The owner of units of this kind; none if they belong to the metadata log.
    pub fn of(kind: Kind) -> Option<Tenant> {
        match kind {
            Kind::Data | Kind::Transaction => Some(Tenant::Units),
            Kind::KeyValue => Some(Tenant::Records),
            Kind::Zone => Some(Tenant::Zones),
            Kind::Padding | Kind::Journal | Kind::Checkpoint => None,
        }
    }
}

/// Bytes of a unit that have contents; the rest is taken for zeros.
pub(crate) fn filled_bytes(spare: &Spare) -> usize {
    match Tenant::of(spare.kind) {
        Some(Tenant::Records) => records::filled_bytes(spare),
        Some(Tenant::Units | Tenant::Zones) | None => UNIT_BYTES,
    }
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
    use crate::page_image::PageImage;
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
    fn units_records_and_zones_have_one_tenant_each_and_the_metadata_log_has_none() {
        let kinds =
            [Kind::Data, Kind::Transaction, Kind::KeyValue, Kind::Zone, Kind::Journal, Kind::Checkpoint];
        let (units, records) = (Some(Tenant::Units), Some(Tenant::Records));
        assert_eq!(kinds.map(Tenant::of), [units, units, records, Some(Tenant::Zones), None, None]);
    }
}
