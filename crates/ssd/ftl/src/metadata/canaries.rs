//! What the metadata log does only without one of its guards (`crate::canaries`).

use tantalum_nand::BlockId;

use super::{MetadataLog, Record};
use crate::types::Seq;

impl MetadataLog {
    /// Gives the waiting records another step.
    pub(crate) fn set_steps(&mut self, new: Seq) {
        for waiting in &mut self.waiting {
            if let Record::Map { step, .. } | Record::Trim { step, .. } = &mut waiting.record {
                *step = new;
            }
        }
    }

    /// Pages that were issued count as programmed.
    pub(crate) fn forget_what_is_in_flight(&mut self) {
        self.stored_ns = 0;
    }

    /// Releases the last checkpoint's blocks before another one stands.
    pub(crate) fn give_up_checkpoint(&mut self) -> Vec<BlockId> {
        self.flash.replace_checkpoint(Vec::new())
    }
}
