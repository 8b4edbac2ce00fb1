//! The shape of the medium, and the types that name places in it.
//!
//! All numbering is flat: planes across dies across channels, blocks within a plane, pages within a block, units within
//! a page. A [`Ppn`] names one unit; division gives the rest.

use std::fmt;

/// Bytes of one mapping unit.
pub const UNIT_BYTES: usize = 4096;

/// Bytes of spare area for one unit, as left by the error-correcting code.
pub const UNIT_SPARE_BYTES: usize = 128;

/// The most units that one page can hold (16 KiB pages).
pub const MAX_UNITS_PER_PAGE: usize = 4;

/// The spare area of one unit.
pub type UnitSpare = [u8; UNIT_SPARE_BYTES];

/// Bytes of each end of a spare area. A spare area with only zeros between its ends takes half the memory.
pub const SPARE_END_BYTES: usize = 32;

/// The first and the last bytes of a spare area.
pub type SpareEnds = [u8; 2 * SPARE_END_BYTES];

/// The first bytes of a spare area.
pub type SpareHead = [u8; 8];

/// The ends of a spare area.
#[inline]
pub fn spare_ends(spare: &UnitSpare) -> SpareEnds {
    let mut ends = [0; 2 * SPARE_END_BYTES];
    ends[..SPARE_END_BYTES].copy_from_slice(&spare[..SPARE_END_BYTES]);
    ends[SPARE_END_BYTES..].copy_from_slice(&spare[UNIT_SPARE_BYTES - SPARE_END_BYTES..]);
    ends
}

/// Nanoseconds, as points in device time and as durations.
pub type Nanoseconds = u64;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// The number as an index into an array.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

address!(
    /// Physical page number: the place of one unit in flash.
    Ppn
);
address!(
    /// A page, the unit of programming.
    PageId
);
address!(
    /// A block, the unit of erasing.
    BlockId
);
address!(
    /// A plane: the part of a die that works on one page or block at a time.
    PlaneId
);
address!(
    /// A die.
    DieId
);
address!(
    /// A channel: the bus that its dies share.
    ChannelId
);

/// The NAND hierarchy of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Buses between controller and dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes in each die. Each works independently, as in NAND with independent plane operations.
    pub planes_per_die: u32,
    /// Blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
    /// Data bytes of a page: 4, 8 or 16 KiB.
    pub page_bytes: u32,
}

/// Why a geometry is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GeometryError {
    /// A count is zero.
    #[error("{field} is 0; it must be at least 1")]
    Zero {
        /// The field's name.
        field: &'static str,
    },
    /// The page size is not supported.
    #[error("page_bytes is {page_bytes}; it must be 4096, 8192 or 16384")]
    PageBytes {
        /// The requested size.
        page_bytes: u32,
    },
    /// More units than a physical page number can name.
    #[error("the geometry has {units} units of 4 KiB; at most {limit} can be addressed")]
    TooLarge {
        /// Units of the geometry.
        units: u64,
        /// The limit.
        limit: u64,
    },
}

/// The most units a medium may have: two bits of a map's entry stay free for flags.
pub const MAX_UNITS: u64 = 1 << 30;

impl Geometry {
    /// Checks that the geometry can be built.
    pub fn validate(&self) -> Result<(), GeometryError> {
        for (field, value) in [
            ("channels", self.channels),
            ("dies_per_channel", self.dies_per_channel),
            ("planes_per_die", self.planes_per_die),
            ("blocks_per_plane", self.blocks_per_plane),
            ("pages_per_block", self.pages_per_block),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { field });
            }
        }
        if ![4096, 8192, 16384].contains(&self.page_bytes) {
            return Err(GeometryError::PageBytes { page_bytes: self.page_bytes });
        }
        let units = [self.dies_per_channel, self.planes_per_die, self.blocks_per_plane, self.pages_per_block]
            .iter()
            .fold(u64::from(self.channels), |product, &factor| product.saturating_mul(u64::from(factor)))
            .saturating_mul(u64::from(self.page_bytes / UNIT_BYTES as u32));
        if units >= MAX_UNITS {
            return Err(GeometryError::TooLarge { units, limit: MAX_UNITS - 1 });
        }
        Ok(())
    }

    /// Units in a page.
    #[inline]
    pub fn units_per_page(&self) -> u32 {
        self.page_bytes / UNIT_BYTES as u32
    }

    /// Units in a block.
    #[inline]
    pub fn units_per_block(&self) -> u32 {
        self.pages_per_block * self.units_per_page()
    }

    /// Dies in the drive.
    #[inline]
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Planes in the drive.
    #[inline]
    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Blocks in the drive.
    #[inline]
    pub fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane
    }

    /// Pages in the drive.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.blocks() * self.pages_per_block
    }

    /// Units in the drive.
    #[inline]
    pub fn units(&self) -> u32 {
        self.pages() * self.units_per_page()
    }

    /// The block of a page.
    #[inline]
    pub fn block_of(&self, page: PageId) -> BlockId {
        BlockId(page.0 / self.pages_per_block)
    }

    /// The block of a unit.
    #[inline]
    pub fn block_of_unit(&self, ppn: Ppn) -> BlockId {
        BlockId(ppn.0 / self.units_per_block())
    }

    /// The page of a unit.
    #[inline]
    pub fn page_of(&self, ppn: Ppn) -> PageId {
        // counts are powers of two, and the processor's division is slow
        PageId(ppn.0 >> self.units_per_page().trailing_zeros())
    }

    /// The page at `index` of a block; the first one after the block, if `index` is the number of its pages.
    #[inline]
    pub fn page(&self, block: BlockId, index: u32) -> PageId {
        debug_assert!(
            index <= self.pages_per_block,
            "page {index} of block {block}, which has {}",
            self.pages_per_block
        );
        PageId(block.0 * self.pages_per_block + index)
    }

    /// The unit at `index` of a page.
    #[inline]
    pub fn unit(&self, page: PageId, index: u32) -> Ppn {
        let units = self.units_per_page();
        debug_assert!(index < units, "unit {index} of page {page}, which has {units}");
        Ppn(page.0 * units + index)
    }

    /// The first unit of a block.
    #[inline]
    pub fn first_unit(&self, block: BlockId) -> Ppn {
        Ppn(block.0 * self.units_per_block())
    }

    /// The units of a page, as indexes into a table of units.
    pub fn units_of(&self, page: PageId) -> std::ops::Range<usize> {
        let units = self.units_per_page() as usize;
        page.index() * units..(page.index() + 1) * units
    }

    /// The pages of a block, as indexes into a table of pages.
    pub fn pages_of(&self, block: BlockId) -> std::ops::Range<usize> {
        let pages = self.pages_per_block as usize;
        block.index() * pages..(block.index() + 1) * pages
    }

    /// The units of a block, as indexes into a table of units.
    pub fn units_of_block(&self, block: BlockId) -> std::ops::Range<usize> {
        let units = self.units_per_block() as usize;
        block.index() * units..(block.index() + 1) * units
    }

    /// The plane of a block. Neighbouring block numbers are in the same plane.
    #[inline]
    pub fn plane_of(&self, block: BlockId) -> PlaneId {
        PlaneId(block.0 / self.blocks_per_plane)
    }

    /// The die of a plane. Neighbouring plane numbers are on different channels, then on different dies.
    #[inline]
    pub fn die_of(&self, plane: PlaneId) -> DieId {
        DieId(plane.0 % self.dies())
    }

    /// The channel of a die.
    #[inline]
    pub fn channel_of(&self, die: DieId) -> ChannelId {
        ChannelId(die.0 % self.channels)
    }
}
