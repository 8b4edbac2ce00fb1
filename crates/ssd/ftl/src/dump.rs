//! The dump: what a drive with a capacitor saves in its last moment (DuraSSD, section 3.4).
//!
//! The dump goes to blocks kept erased for it, as ordinary pages. Recovery folds their spare areas and journal records
//! like any others, so a second cut in recovery changes nothing. It saves cached units, units whose program did not
//! complete, and the journal records whose units were all on flash when power failed. Of atomic batches it saves only
//! acknowledged `put`s, with their marks, so that they count together with what is on flash.

use tantalum_nand::{LostProgram, Nanoseconds, Source};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::metadata::DumpPages;
use crate::parts::Parts;
use crate::spare::Spare;
use crate::tenants::{TENANTS, tenant_of};
use crate::types::Seq;

impl Parts {
    /// Whether a capacitor protects DRAM.
    pub fn has_plp(&self) -> bool {
        self.config.dump_units > 0
    }

    /// Saves what may be lost: `lost` from the medium, `cached` units, and the journal. Returns how many of these were
    /// units of data.
    ///
    /// # Panics
    /// If it exceeds the capacitor's budget, because the controller accepted too much (hazard 12).
    pub fn dump(
        &mut self,
        lost: Vec<LostProgram>,
        cached: impl Iterator<Item = HostUnit>,
        cut_ns: Nanoseconds,
    ) -> Result<u64, FtlError> {
        let mut dump = DumpPages::new(self.metadata.dump_blocks().to_vec());
        for (slot, bytes) in lost.into_iter().flat_map(|program| program.units) {
            let saved = !canary::out(Guard::ProgramsNotDumped)
                && Spare::decode(&bytes).is_some_and(|spare| self.is_saved(&spare));
            if saved {
                dump.push(&mut self.nand, slot, bytes, cut_ns)?;
            } else {
                self.nand.release(slot);
            }
        }
        let step = self.next_seq();
        for unit in cached {
            dump.push(&mut self.nand, unit.slot, unit.spare(step), cut_ns)?;
        }
        self.dump_waiting(&mut dump, step, cut_ns)?;
        dump.end_page(&mut self.nand, cut_ns)?;
        let saved = dump.units();
        self.dump_journal(&mut dump, cut_ns)?;
        assert!(
            dump.units() <= u64::from(self.config.dump_units),
            "{} units dumped; the capacitor has energy for {}",
            dump.units(),
            self.config.dump_units
        );
        self.counters.flash_units.dump += dump.units();
        self.metadata.restart_protected(&mut self.nand)?;
        Ok(saved)
    }

    /// What tenants have waiting for a full page.
    fn dump_waiting(&mut self, dump: &mut DumpPages, step: Seq, cut_ns: Nanoseconds) -> Result<(), FtlError> {
        for tenant in TENANTS {
            for page in tenant.waiting(self, step)? {
                for (source, spare) in page.sources.iter().zip(page.spares) {
                    if let Source::Staged(slot) = *source {
                        dump.push(&mut self.nand, slot, spare, cut_ns)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn dump_journal(&mut self, dump: &mut DumpPages, cut_ns: Nanoseconds) -> Result<(), FtlError> {
        let records = self.metadata.take_ready(cut_ns);
        let step = self.next_seq();
        dump.push_records(&mut self.nand, &records, step, cut_ns)
    }

    fn is_saved(&self, spare: &Spare) -> bool {
        tenant_of(spare.kind).is_some_and(|tenant| tenant.is_saved(self, spare))
    }
}
