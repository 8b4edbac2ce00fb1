//! What the FTL does only without one of its guards (`crate::canaries`), or one of the controller's.

use tantalum_nand::{Nand, Nanoseconds, Ppn, Source};

use super::Ftl;
use super::collect::{Moving, MovingPage};
use crate::error::FtlError;
use crate::spare;
use crate::types::{Lpn, Seq};

impl Ftl {
    /// Forgets where a unit is, like firmware that drops old copies early.
    pub fn give_up(&mut self, lpn: Lpn) {
        self.map.unmap(lpn);
    }

    /// Erases the last checkpoint.
    pub(crate) fn erase_last_checkpoint(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        for block in self.log.give_up_checkpoint() {
            self.nand.erase(block, at_ns)?;
            self.release_block(block);
        }
        Ok(())
    }
}

impl MovingPage {
    /// Adds a plain unit at a new version.
    pub(crate) fn take_renewed(
        &mut self,
        (ppn, lpn): (Ppn, Lpn),
        version: Seq,
        nand: &Nand,
    ) -> Result<(), FtlError> {
        let old = nand.spare(ppn)?;
        let handle = spare::handle(&old).unwrap_or_default();
        let spare = spare::plain(lpn, version, version, &spare::metadata(&old), handle);
        self.push(nand, (ppn, Moving::Plain(lpn)), (Source::Copy(ppn), spare))
    }
}
