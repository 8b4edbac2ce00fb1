//! Byte-addressable memory beside the flash that keeps its contents without power (NVM; Jin's thesis calls it BAM).
//!
//! - **Atomicity**: a word, 8 bytes at a multiple of 8, is atomic. Stores and loads are of whole words.
//! - A store is a list of parts, which complete together. Stores to one bank follow each other, so at most one of each
//!   bank is in flight when power fails, and any combination of its words may have been stored.
//! - A load sees every store that was issued. It takes its own time and waits for no store.
//!
//! A store changes the contents when it is issued, and keeps what it replaced while it may be undone, as a program does.

use tantalum_image::{Image, NandError, Nanoseconds, NvmShape, WORD_BYTES};

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

/// Panics unless these are whole words within the memory.
pub(crate) fn assert_words(shape: &NvmShape, at: u64, bytes: usize) {
    let whole = at.is_multiple_of(WORD_BYTES) && (bytes as u64).is_multiple_of(WORD_BYTES);
    let within = at.checked_add(bytes as u64).is_some_and(|end| end <= shape.bytes);
    assert!(whole && within, "{bytes} bytes at {at} are not whole words within {} bytes", shape.bytes);
}

/// Undoes a store: all words (if `random` is `None`), or a random half of them.
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
