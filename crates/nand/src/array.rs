//! Arrays with a few bytes for each unit of a drive, made for random access.
//!
//! A drive of gigabytes has arrays of megabytes. Random access to these costs a TLB miss unless the host backs them with
//! huge pages. The arrays of a terabyte drive are left alone: most of them is never touched, and untouched memory costs
//! nothing.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the host's huge pages.
const HUGE_PAGE: usize = 2 << 20;
/// Larger arrays are sparse.
const MOST_HUGE: usize = 256 << 20;

/// Numbers, all 0 at first.
pub struct Array(Memory);

enum Memory {
    Plain(Vec<u32>),
    Huge(MmapMut),
}

impl Array {
    /// An array of `length` numbers.
    pub fn zeroed(length: usize) -> Array {
        let bytes = length * size_of::<u32>();
        if (HUGE_PAGE..=MOST_HUGE).contains(&bytes)
            && let Ok(map) = MmapMut::map_anon(bytes)
        {
            // a host without huge pages refuses this, and is merely slower
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Array(Memory::Huge(map));
        }
        Array(Memory::Plain(vec![0; length]))
    }
}

impl Deref for Array {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match &self.0 {
            Memory::Plain(numbers) => numbers,
            Memory::Huge(map) => <[u32]>::ref_from_bytes(map).expect("whole numbers at the start of a page"),
        }
    }
}

impl DerefMut for Array {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        match &mut self.0 {
            Memory::Plain(numbers) => numbers,
            Memory::Huge(map) => <[u32]>::mut_from_bytes(map).expect("whole numbers at the start of a page"),
        }
    }
}

impl Clone for Array {
    fn clone(&self) -> Array {
        match &self.0 {
            Memory::Plain(numbers) => Array(Memory::Plain(numbers.clone())),
            Memory::Huge(map) => {
                let mut copy = Array::zeroed(self.len());
                copy.as_mut_bytes().copy_from_slice(map);
                copy
            }
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Array").field("length", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_are_zeros_and_keep_what_is_put_in() {
        for length in [0, 5, HUGE_PAGE / 4, 3 * HUGE_PAGE / 4 + 1] {
            let mut array = Array::zeroed(length);
            assert_eq!((array.len(), array.iter().max().copied().unwrap_or(0)), (length, 0));
            if let Some(last) = array.last_mut() {
                *last = 7;
            }
            let copy = array.clone();
            array.fill(1);
            assert_eq!(copy.iter().filter(|number| **number == 7).count(), length.min(1));
        }
    }
}
