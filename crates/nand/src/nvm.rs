//! Byte-addressable memory beside the flash that keeps its contents without power (NVM; Jin's thesis calls it BAM).
//!
//! - **Atomic** is a word: 8 bytes at a multiple of 8. Whatever is stored or loaded is whole words.
//! - A store is a list of parts, and is done as a whole at a time. Stores follow each other: one begins when the one
//!   before it is done. So at most one is in flight when power goes, and each of its words is there or not, in any
//!   combination.
//! - A load sees every store that was issued. It takes its own time and waits for no store.
//!
//! A store changes the contents when it is issued, and keeps what it replaced while it may be undone, as a program does.

use crate::error::{MediumError, NandError};
use crate::geometry::Nanoseconds;
use crate::image::Image;
use crate::issued::{Change, Issued};
use crate::nand::Nand;
use crate::schedule::Interval;

/// Bytes of a word, the unit of atomicity.
pub const WORD_BYTES: u64 = 8;

/// The most memory of a drive.
pub const MAX_NVM_BYTES: u64 = 64 << 30;

/// The longest latency: a second.
pub const MAX_NVM_LATENCY_NS: Nanoseconds = 1_000_000_000;

/// How large and how fast it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmShape {
    /// Its size in bytes, a multiple of 8.
    pub bytes: u64,
    /// Time of a store or load of no bytes, ns.
    pub latency_ns: Nanoseconds,
    /// Bytes per second beyond that.
    pub bytes_per_second: u64,
}

impl NvmShape {
    /// Checks that it can be built.
    pub fn validate(&self) -> Result<(), MediumError> {
        let bounded = |field, value, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(MediumError::Timing { field, value, least, most }),
        };
        bounded("nvm.bytes", self.bytes, WORD_BYTES, MAX_NVM_BYTES)?;
        bounded("nvm.bytes modulo 8", self.bytes % WORD_BYTES, 0, 0)?;
        bounded("nvm.latency_ns", self.latency_ns, 0, MAX_NVM_LATENCY_NS)?;
        bounded("nvm.bytes_per_second", self.bytes_per_second, 1, u64::MAX)
    }

    /// How long a store or load of this many bytes takes.
    pub fn takes_ns(&self, bytes: u64) -> Nanoseconds {
        let transfer_ns = (u128::from(bytes) * 1_000_000_000).div_ceil(self.bytes_per_second.into());
        self.latency_ns + transfer_ns as Nanoseconds
    }
}

/// The memory of a medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nvm {
    pub shape: NvmShape,
    /// When the last store is done.
    pub free_ns: Nanoseconds,
}

impl Nvm {
    pub fn new(shape: NvmShape) -> Nvm {
        Nvm { shape, free_ns: 0 }
    }
}

/// Words that a store replaced.
#[derive(Clone, Debug)]
pub(crate) struct Replaced {
    pub at: u64,
    pub bytes: Box<[u8]>,
}

impl Nand {
    /// The same medium, in memory and still without contents, with such a memory.
    pub fn with_nvm(mut self, shape: NvmShape) -> Result<Nand, MediumError> {
        shape.validate()?;
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

    /// Stores each part at its place, from `earliest_ns` on. Returns when all of it is done. A part has whole words.
    ///
    /// # Panics
    /// If a part is not made of words, or is beyond the end: a bug of the caller.
    pub fn nvm_store(
        &mut self,
        parts: &[(u64, &[u8])],
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        self.powered()?;
        let nvm = self.nvm.as_mut().expect("a medium with such a memory");
        let (mut replaced, mut bytes) = (Vec::with_capacity(parts.len()), 0);
        for &(at, data) in parts {
            assert_words(&nvm.shape, at, data.len());
            let mut old = vec![0; data.len()].into_boxed_slice();
            self.image.read_nvm(at, &mut old)?;
            self.image.write_nvm(at, data)?;
            replaced.push(Replaced { at, bytes: old });
            bytes += data.len() as u64;
        }
        let start_ns = earliest_ns.max(nvm.free_ns);
        let end_ns = start_ns + nvm.shape.takes_ns(bytes);
        nvm.free_ns = end_ns;
        self.time.done(end_ns);
        self.issue(Issued { interval: Interval { start_ns, end_ns }, change: Change::Store(replaced) })
    }

    /// Loads words from `at` on. Returns when they are there.
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

fn assert_words(shape: &NvmShape, at: u64, bytes: usize) {
    let whole = at.is_multiple_of(WORD_BYTES) && (bytes as u64).is_multiple_of(WORD_BYTES);
    let within = at.checked_add(bytes as u64).is_some_and(|end| end <= shape.bytes);
    assert!(whole && within, "{bytes} bytes at {at} are no words of a memory of {} bytes", shape.bytes);
}

/// Takes a store back: of each word all (`random` is none), or a half that is drawn.
pub(crate) fn undo_store(
    image: &mut dyn Image,
    replaced: &[Replaced],
    mut random: Option<&mut dyn FnMut() -> u64>,
) -> Result<(), NandError> {
    // from the last to the first, in case two parts have the same words
    for Replaced { at, bytes } in replaced.iter().rev() {
        let Some(random) = random.as_mut() else {
            image.write_nvm(*at, bytes)?;
            continue;
        };
        for (word, old) in (0..).zip(bytes.chunks_exact(WORD_BYTES as usize)) {
            if random() % 2 == 0 {
                image.write_nvm(at + word * WORD_BYTES, old)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issued::{Operation, Outcome};
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
            let mut random = crate::random::SplitMix64(seed);
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
    fn a_store_may_wait_for_a_program() {
        let mut nand = medium();
        let programmed_ns = program(&mut nand, 0, [1, 2], 0);
        assert_eq!(put(&mut nand, 0, 9, programmed_ns).unwrap(), programmed_ns + 108);
        nand.power_fail(programmed_ns - 1);
        nand.resolve(&mut |_| Outcome::Completed, &mut || 0).unwrap();
        assert_eq!(word(&nand, 0), 0);
    }

    #[test]
    #[should_panic(expected = "are no words")]
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
