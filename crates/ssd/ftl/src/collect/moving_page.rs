//! A page of units that garbage collection moves.

use std::collections::VecDeque;

use tantalum_nand::{Nand, Nanoseconds, Ppn, Source, UnitSpare};

use crate::error::FtlError;
use crate::page_image::PageImage;
use crate::space::Target;
use crate::spare;
use crate::tenants::PackedUnit;
use crate::types::{Lpn, Seq, TxId};

/// A unit in transit.
#[derive(Clone, Copy)]
pub(super) enum Moving {
    /// One owner, whose version the new spare area records.
    Plain(Lpn),
    /// Several owners, or versions that the old spare area does not record.
    Owners {
        /// How many of them its new spare area has no room for.
        spilled: u32,
    },
    /// A page of an open transaction.
    Transaction(TxId, Lpn),
    /// Packed by its tenant, in the order in which such units were put on the page.
    Packed,
}

/// A page of units in transit.
pub(super) struct MovingPage {
    pub target: Target,
    /// The page's contents, except the plain units that came last: a page that holds only plain units skips this.
    pub page: PageImage,
    pub units: Vec<(Ppn, Moving)>,
    pub packed: VecDeque<Box<dyn PackedUnit>>,
    pub earliest_ns: Nanoseconds,
    pub step: Seq,
    /// Whether an owner comes from a share, a remap or a commit that may not be on flash yet.
    pub waits_for_steps: bool,
}

impl MovingPage {
    pub fn new(target: Target, earliest_ns: Nanoseconds) -> MovingPage {
        MovingPage {
            target,
            page: PageImage::new(),
            units: Vec::with_capacity(4),
            packed: VecDeque::new(),
            earliest_ns,
            step: Seq(0),
            waits_for_steps: false,
        }
    }

    /// Puts the plain units that came last into the page image.
    pub fn place_plain(&mut self, nand: &Nand) -> Result<(), FtlError> {
        let head = spare::head(self.step);
        for &(ppn, _) in &self.units[self.page.used..] {
            let mut spare = nand.spare(ppn)?;
            spare[..head.len()].copy_from_slice(&head);
            self.page.push(Source::Copy(ppn), spare);
        }
        Ok(())
    }

    pub fn push(
        &mut self,
        nand: &Nand,
        (ppn, how): (Ppn, Moving),
        unit: (Source, UnitSpare),
    ) -> Result<(), FtlError> {
        self.place_plain(nand)?;
        self.page.push(unit.0, unit.1);
        self.units.push((ppn, how));
        Ok(())
    }
}
