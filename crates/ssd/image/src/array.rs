//! Large arrays, made for random access, or to be filled soon.
//!
//! A drive of gigabytes has arrays of megabytes. Random access to these costs a TLB miss unless the host backs them with
//! huge pages, which are also much cheaper to get. The arrays of a terabyte drive are left alone unless all of them is
//! filled: most of them is never touched, and untouched memory costs nothing.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use zerocopy::{FromBytes, Immutable, IntoBytes};

#[cfg(target_arch = "x86_64")]
use crate::prefetch::prefetch_lines;

/// Bytes of the host's huge pages.
const HUGE_PAGE: usize = 2 << 20;
/// Larger arrays are sparse, unless they are filled.
const MOST_HUGE: usize = 256 << 20;

/// Memory of zeros, of at least this many bytes, in huge pages if the host has them.
pub(crate) fn huge_pages(bytes: usize) -> io::Result<MmapMut> {
    // only memory of whole huge pages begins where one can, on Linux
    let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE))?;
    // a host without huge pages refuses this, and is merely slower
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    Ok(map)
}

/// What an array may have: numbers, or what consists of numbers.
pub trait Element: FromBytes + IntoBytes + Immutable + Copy {}

impl<T: FromBytes + IntoBytes + Immutable + Copy> Element for T {}

/// Elements, all zeros at first.
pub struct Array<T = u32>(Memory<T>);

enum Memory<T> {
    Plain(Vec<T>),
    /// With the number of elements: there is room for more.
    Huge(MmapMut, usize),
}

impl<T: Element> Array<T> {
    /// An array of `length` elements.
    pub fn zeroed(length: usize) -> Array<T> {
        Array::in_huge_pages(length, MOST_HUGE)
    }

    /// An array of `length` elements that is filled soon, or at random, so that huge pages pay at any size.
    pub fn to_fill(length: usize) -> Array<T> {
        Array::in_huge_pages(length, usize::MAX)
    }

    /// Asks for elements to be brought into the processor's cache, so that several misses overlap. The first of them must
    /// be there.
    #[inline]
    pub fn prefetch(&self, first: usize, length: usize) {
        let from = &self[first..];
        #[cfg(target_arch = "x86_64")]
        prefetch_lines(from.as_ptr().cast(), length.min(from.len()) * size_of::<T>());
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (length, std::hint::black_box(from[0]));
    }

    /// Appends zeros, which may copy all of it.
    pub fn extend(&mut self, length: usize) {
        let old = std::mem::replace(self, Array::to_fill(length));
        self[..old.len()].copy_from_slice(&old);
    }

    /// In huge pages, if there are enough bytes for one, and no more than `most`.
    fn in_huge_pages(length: usize, most: usize) -> Array<T> {
        let bytes = length * size_of::<T>();
        if (HUGE_PAGE..=most).contains(&bytes)
            && let Ok(map) = huge_pages(bytes)
        {
            return Array(Memory::Huge(map, length));
        }
        Array(Memory::Plain(vec![T::new_zeroed(); length]))
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(numbers: Vec<T>) -> Array<T> {
        Array(Memory::Plain(numbers))
    }
}

impl<T> Default for Array<T> {
    fn default() -> Array<T> {
        Array::from(Vec::new())
    }
}

impl<T: Element> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Plain(numbers) => numbers,
            Memory::Huge(map, length) => {
                <[T]>::ref_from_prefix_with_elems(map, *length).expect("room, at the start of a page").0
            }
        }
    }
}

impl<T: Element> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Plain(numbers) => numbers,
            Memory::Huge(map, length) => {
                <[T]>::mut_from_prefix_with_elems(map, *length).expect("room, at the start of a page").0
            }
        }
    }
}

impl<T: Element> Clone for Array<T> {
    fn clone(&self) -> Array<T> {
        match &self.0 {
            Memory::Plain(numbers) => Array(Memory::Plain(numbers.clone())),
            Memory::Huge(..) => {
                let mut copy = Array::<T>::in_huge_pages(self.len(), usize::MAX);
                copy.copy_from_slice(self);
                copy
            }
        }
    }
}

impl<T: Element> fmt::Debug for Array<T> {
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
            let mut array = Array::<u32>::zeroed(length);
            assert_eq!((array.len(), array.iter().max().copied().unwrap_or(0)), (length, 0));
            if let Some(last) = array.last_mut() {
                *last = 7;
            }
            let copy = array.clone();
            array.extend(length + 1);
            assert!(array[..length] == copy[..] && array[length..] == [0]);
            array.fill(1);
            assert_eq!(copy.iter().filter(|number| **number == 7).count(), length.min(1));
        }
    }

    #[test]
    fn few_and_many_bytes_are_zeros_and_keep_what_is_put_in() {
        for length in [0, 5, HUGE_PAGE - 1, HUGE_PAGE + 4097] {
            let mut bytes = Array::<u8>::to_fill(length);
            assert!(bytes.len() == length && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            assert_eq!(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 7 * length as u64);
        }
        assert_eq!(Array::from(vec![1_u8, 2])[..], [1, 2]);
        assert!(Array::<u8>::default().is_empty());
    }
}
