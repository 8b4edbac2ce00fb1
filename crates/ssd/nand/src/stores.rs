//! Stores to memory beside the flash, and loads from it (M7; `nvm`).

use crate::in_flight::{Change, Issued};
use crate::nand::Nand;
use crate::nvm::{Nvm, Replaced, assert_words};
use crate::schedule::Interval;
use tantalum_image::Nanoseconds;
use tantalum_image::NvmShape;
use tantalum_image::{MediumError, NandError};

impl Nand {
    /// Adds such a memory to this medium, which must be in memory and still without contents.
    pub fn with_nvm(mut self, shape: NvmShape) -> Result<Nand, MediumError> {
        shape.validate()?;
        assert!(
            !self.outlives_process() && self.operations == 0,
            "memory is added after {} operations, or beside an image in a file",
            self.operations
        );
        self.nvm = Some(Nvm::new(shape));
        Ok(self)
    }

    /// The shape of its memory, if it has one.
    pub fn nvm(&self) -> Option<&NvmShape> {
        self.nvm.as_ref().map(|nvm| &nvm.shape)
    }

    /// When all stores issued so far are done.
    pub fn nvm_done_ns(&self) -> Nanoseconds {
        self.nvm.map_or(0, |nvm| nvm.free_ns)
    }

    /// Stores each part at its place, starting at or after `earliest_ns`. Returns when all parts are done. A part
    /// consists of whole words.
    ///
    /// # Panics
    /// If a part is not whole words, or is beyond the end: a bug of the caller.
    pub fn nvm_store(
        &mut self,
        parts: &[(u64, &[u8])],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.powered()?;
        let nvm = self.nvm.as_ref().expect("a medium with such a memory");
        let bytes = parts.iter().map(|(_, data)| data.len() as u64).sum();
        let start_ns = earliest_ns.max(nvm.free_ns);
        let end_ns = start_ns + nvm.shape.takes_ns(bytes);
        self.nvm_store_during(parts, start_ns, end_ns)
    }

    /// Stores each part at its place in a bank of the memory, which is busy from `start_ns` to `end_ns`. The caller
    /// keeps the banks' times: stores to one bank follow each other, those to different banks need not. Returns
    /// `end_ns`.
    ///
    /// # Panics
    /// As [`Nand::nvm_store`].
    pub fn nvm_store_during(
        &mut self,
        parts: &[(u64, &[u8])],
        start_ns: Nanoseconds,
        end_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.powered()?;
        let nvm = self.nvm.as_mut().expect("a medium with such a memory");
        let mut replaced = Vec::with_capacity(parts.len());
        for &(at, data) in parts {
            assert_words(&nvm.shape, at, data.len());
            let mut old = vec![0; data.len()].into_boxed_slice();
            self.image.read_nvm(at, &mut old)?;
            self.image.write_nvm(at, data)?;
            replaced.push(Replaced { at, bytes: old });
        }
        nvm.free_ns = nvm.free_ns.max(end_ns);
        self.time.done(end_ns);
        self.issue(Issued { interval: Interval { start_ns, end_ns }, change: Change::Store(replaced) })
    }

    /// Loads words, starting at `at`. Returns when they are there.
    ///
    /// # Errors
    /// [`NandError::NvmChecksum`] if the image's bytes were damaged.
    ///
    /// # Panics
    /// As [`Nand::nvm_store`].
    pub fn nvm_load(&self, at: u64, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, NandError> {
        let shape = self.nvm().expect("a medium with such a memory");
        assert_words(shape, at, data.len());
        self.image.read_nvm(at, data)?;
        Ok(at_ns + shape.takes_ns(data.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::{Operation, Outcome};
    use crate::test_support::{nand, program};

    const SHAPE: NvmShape = NvmShape { bytes: 1 << 16, latency_ns: 100, bytes_per_second: 1_000_000_000 };

    fn medium() -> Nand {
        nand().with_nvm(SHAPE).unwrap()
    }

    fn word(nand: &Nand, at: u64) -> u64 {
        let mut bytes = [0; 8];
        nand.nvm_load(at, &mut bytes, 0).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn put(nand: &mut Nand, at: u64, value: u64, at_ns: u64) -> Result<u64, NandError> {
        nand.nvm_store(&[(at, &value.to_le_bytes())], at_ns)
    }

    #[test]
    fn stores_take_latency_and_rate_and_follow_each_other() {
        let mut nand = medium();
        assert_eq!(nand.nvm_store(&[(0, &[1; 80]), (800, &[2; 16])], 50).unwrap(), 50 + 100 + 96);
        assert_eq!(put(&mut nand, 8, 7, 0).unwrap(), 246 + 108, "it waits for the first");
        let mut bytes = [0; 16];
        assert_eq!(nand.nvm_load(0, &mut bytes, 10).unwrap(), 10 + 116);
        assert_eq!(bytes[..8], [1; 8]);
        assert_eq!(bytes[8..], 7_u64.to_le_bytes());
        assert_eq!(nand.programs_done_ns(), 354);
        assert_eq!(word(&nand, 4096), 0, "what was never stored is zeros");
    }

    #[test]
    fn a_store_in_flight_leaves_any_of_its_words() {
        let mut combinations = std::collections::HashSet::new();
        for seed in 0..40 {
            let mut nand = medium();
            put(&mut nand, 0, 1, 0).unwrap();
            nand.nvm_store(&[(0, &2_u64.to_le_bytes()), (64, &2_u64.to_le_bytes())], 0).unwrap();
            put(&mut nand, 128, 2, 0).unwrap();
            nand.power_fail(150);
            let in_flight: Vec<_> = nand.in_flight().collect();
            assert_eq!(in_flight.len(), 1, "the first is done, and the third waits");
            assert_eq!(in_flight[0].operation, Operation::Store);
            let mut random = tantalum_image::SplitMix64(seed);
            nand.resolve(&mut |_| Outcome::Torn, &mut || random.next_u64()).unwrap();
            assert_eq!(word(&nand, 128), 0, "what was queued did not happen");
            combinations.insert((word(&nand, 0), word(&nand, 64)));
        }
        assert_eq!(combinations, [(1, 0), (1, 2), (2, 0), (2, 2)].into_iter().collect());
    }

    #[test]
    fn what_is_done_stays_and_what_was_not_started_is_undone() {
        for (outcome, expected) in [(Outcome::NotStarted, 1), (Outcome::Completed, 2)] {
            let mut nand = medium();
            put(&mut nand, 8, 1, 0).unwrap();
            nand.cut_after(Some(1));
            assert_eq!(put(&mut nand, 8, 2, 0), Err(NandError::PowerLost));
            assert_eq!(put(&mut nand, 8, 3, 0), Err(NandError::PowerLost));
            nand.resolve(&mut |_| outcome, &mut || 0).unwrap();
            assert_eq!(word(&nand, 8), expected);
            assert!(put(&mut nand, 8, 4, 0).is_ok());
        }
    }

    #[test]
    fn stores_to_different_banks_may_be_in_flight_together() {
        let mut nand = medium();
        let one = 1_u64.to_le_bytes();
        assert_eq!(nand.nvm_store_during(&[(0, &one)], 100, 300).unwrap(), 300);
        nand.nvm_store_during(&[(4096, &one)], 120, 220).unwrap();
        nand.nvm_store_during(&[(4104, &one)], 220, 320).unwrap();
        assert_eq!(nand.nvm_done_ns(), 320);
        nand.power_fail(210);
        assert_eq!(nand.in_flight().count(), 2, "the third waits for its bank");
        nand.resolve(&mut |_| Outcome::Completed, &mut || 0).unwrap();
        assert_eq!([0, 4096, 4104].map(|at| word(&nand, at)), [1, 1, 0]);
    }

    #[test]
    fn a_store_may_wait_for_a_program() {
        let mut nand = medium();
        let programmed_ns = program(&mut nand, 0, [1, 2], 0);
        assert_eq!(put(&mut nand, 0, 9, programmed_ns).unwrap(), programmed_ns + 108);
        nand.power_fail(programmed_ns - 1);
        nand.resolve(&mut |_| Outcome::Completed, &mut || 0).unwrap();
        assert_eq!(word(&nand, 0), 0);
    }

    #[test]
    #[should_panic(expected = "are not whole words")]
    fn half_a_word_is_a_bug() {
        let _ = medium().nvm_store(&[(4, &[0; 8])], 0);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let wrong = [
            NvmShape { bytes: 0, ..SHAPE },
            NvmShape { bytes: 12, ..SHAPE },
            NvmShape { bytes: u64::MAX, ..SHAPE },
            NvmShape { latency_ns: u64::MAX, ..SHAPE },
            NvmShape { bytes_per_second: 0, ..SHAPE },
        ];
        assert!(wrong.iter().all(|shape| matches!(shape.validate(), Err(MediumError::Timing { .. }))));
        assert!(SHAPE.validate().is_ok());
    }
}
