//! What a page of a zone says in its spare areas, in the place of a host's metadata: the zone, its generation, and the page. Units of a
//! tail have the same, and their logical page says which unit of the page each is.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::ZoneId;
use crate::spare::{Kind, Spare};
use crate::types::{METADATA_BYTES, Metadata, SEQ_LIMIT, Seq};

/// A page of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ZonePlace {
    pub zone: ZoneId,
    /// The step of the reset before it was written; 0 if there was none.
    pub generation: Seq,
    /// The page, counted within the zone.
    pub page: u32,
    /// Whether its data were lost before it was moved to where it is.
    pub is_lost: bool,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stored {
    generation: U64,
    zone: U32,
    page: U32,
    is_lost: U64,
}

const _: () = assert!(size_of::<Stored>() == METADATA_BYTES);

impl ZonePlace {
    /// The bytes of a unit's metadata.
    pub fn metadata(&self) -> Metadata {
        let stored = Stored {
            generation: self.generation.0.into(),
            zone: self.zone.0.into(),
            page: self.page.into(),
            is_lost: u64::from(self.is_lost).into(),
        };
        zerocopy::transmute!(stored)
    }

    /// Reads a unit's metadata.
    pub fn of(metadata: &Metadata) -> ZonePlace {
        let stored: Stored = zerocopy::transmute!(*metadata);
        ZonePlace {
            zone: ZoneId(stored.zone.get()),
            generation: Seq(stored.generation.get()),
            page: stored.page.get(),
            is_lost: stored.is_lost.get() != 0,
        }
    }

    /// The spare area of a unit of the page, programmed at a step.
    pub fn spare(&self, step: Seq) -> Spare {
        let mut spare = Spare::new(Kind::Zone, step);
        spare.metadata = self.metadata();
        spare
    }

    /// Whether a drive with this many zones of this many pages can have written it at a step.
    pub fn is_possible(&self, zones: u32, pages: u32, step: Seq) -> bool {
        self.zone.0 < zones && self.page < pages && self.generation < step && step < SEQ_LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        let place =
            ZonePlace { zone: ZoneId(0x0102_0304), generation: Seq(1 << 40), page: 77, is_lost: true };
        let metadata = place.metadata();
        assert_eq!(metadata[..8], (1u64 << 40).to_le_bytes());
        assert_eq!(metadata[8..17], [4, 3, 2, 1, 77, 0, 0, 0, 1]);
        assert_eq!(ZonePlace::of(&metadata), place);
        let decoded = Spare::decode(&place.spare(Seq(9)).encode()).unwrap();
        assert_eq!(
            (decoded.kind, decoded.step, ZonePlace::of(&decoded.metadata)),
            (Kind::Zone, Seq(9), place)
        );
    }
}
