//! The controller's DRAM: buffers of a unit each, which a program takes over without a copy, and the part of it that
//! survives the end of the process.

use crate::faults::FailingStep;
use crate::nand::Nand;
use tantalum_image::NandError;
use tantalum_image::Slot;
use tantalum_image::UNIT_BYTES;

impl Nand {
    // -- DRAM buffers -----------------------------------------------------------------------------------------

    /// Copies a unit into a free buffer of the controller's DRAM.
    pub fn stage(&mut self, data: &[u8]) -> Result<Slot, NandError> {
        let slot = self.reserve()?;
        match self.fill(slot, data) {
            Ok(()) => Ok(slot),
            Err(error) => {
                self.slots.release(slot);
                Err(error)
            }
        }
    }

    /// Takes a free buffer of the controller's DRAM. It must be filled or given up before anything else is done with
    /// it.
    pub fn reserve(&mut self) -> Result<Slot, NandError> {
        self.powered()?;
        self.slots.take().or_else(|refused| self.reserve_unless_armed(refused))
    }

    /// A buffer was refused: because there is none, or because a test may let one be missing.
    #[cold]
    fn reserve_unless_armed(&mut self, refused: NandError) -> Result<Slot, NandError> {
        if !self.slots.refuses_all() || self.faults.step_fails(FailingStep::Buffer) {
            return Err(refused);
        }
        self.slots.refuse_all(false);
        let slot = self.slots.take();
        self.slots.refuse_all(true);
        slot
    }

    /// Copies a unit into a reserved buffer, once. If this fails, the buffer still belongs to the caller. A buffer written
    /// twice between two syncs would make the second one void after a crash of the host ([`Nand::sync_end`]).
    pub fn fill(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError> {
        assert_eq!(data.len(), UNIT_BYTES, "a unit has 4096 bytes");
        self.slots.assert_used(slot);
        self.image.write_slot(slot, data)
    }

    /// Gives up a buffer that was not programmed.
    pub fn release(&mut self, slot: Slot) {
        self.slots.release(slot);
    }

    /// Reads a buffer, even one that has been programmed since or has survived a cut.
    pub fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError> {
        self.slots.assert_used(slot);
        self.image.read_slot(slot, data)
    }

    /// Whether a buffer holds `data`.
    pub fn slot_holds(&self, slot: Slot, data: &[u8; UNIT_BYTES]) -> bool {
        self.slots.assert_used(slot);
        self.image.slot_holds(slot, data)
    }

    // -- protected DRAM ---------------------------------------------------------------------------------------

    /// Whether the medium is in a file, which outlives the process.
    pub fn outlives_process(&self) -> bool {
        self.image.outlives_process()
    }

    /// Bytes of DRAM that survive the end of the process; those of a medium in memory are not limited before
    /// [`crate::MAX_PROTECTED_BYTES`].
    pub fn protected_bytes(&self) -> u64 {
        self.image.protected_bytes()
    }

    /// Writes protected DRAM, starting at byte `offset`.
    pub fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError> {
        self.check_protected(offset, data.len())?;
        self.image.write_protected(offset, data)
    }

    /// Reads protected DRAM, starting at byte `offset`; zeros where it was never written.
    pub fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError> {
        self.check_protected(offset, data.len())?;
        self.image.read_protected(offset, data)
    }

    fn check_protected(&self, offset: u64, bytes: usize) -> Result<(), NandError> {
        let size = self.image.protected_bytes();
        if offset.checked_add(bytes as u64).is_none_or(|end| end > size) {
            return Err(NandError::ProtectedRange { offset, bytes, size });
        }
        Ok(())
    }
}
