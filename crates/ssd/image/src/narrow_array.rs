//! Arrays of numbers that take as few bits as the largest one needs.
//!
//! Number `i` is in the bits from `i * width` on, in words of 32 bits, so it is in one word or in that and the next. These
//! are loaded and stored one by one: a load of both at once waits until earlier stores to either of them are in the
//! processor's cache, and random overwrites were a tenth slower.
//!
//! Invariants:
//! - Zeros are stored as zeros: untouched memory costs nothing, as in an [`Array`].
//! - A number that does not fit is never stored, not even in part: [`NarrowArray::set`] panics.
//! - A word is behind the last number, so that each has a next one.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};

use crate::array::Array;

/// Bits of a word.
const WORD_BITS: usize = 32;

/// Numbers up to a largest one, all zeros at first.
#[derive(Clone)]
pub struct NarrowArray<W = Array> {
    words: W,
    length: usize,
    /// Bits of a number: 1 to 32.
    width: usize,
    /// The lowest `width` bits.
    mask: u32,
}

impl NarrowArray {
    /// An array of `length` numbers up to `largest`.
    pub fn zeroed(length: usize, largest: u32) -> NarrowArray {
        let width = (u32::BITS - largest.leading_zeros()).max(1) as usize;
        let words = Array::zeroed((length * width).div_ceil(WORD_BITS) + 1);
        NarrowArray { words, length, width, mask: u32::MAX >> (WORD_BITS - width) }
    }

    /// Bytes of host memory that it may touch.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    /// A mutable view for many changes in a row, which looks up where the memory is only once.
    #[inline]
    pub fn view_mut(&mut self) -> NarrowArray<&mut [u32]> {
        let NarrowArray { ref mut words, length, width, mask } = *self;
        NarrowArray { words, length, width, mask }
    }
}

impl<W: Deref<Target = [u32]>> NarrowArray<W> {
    /// A number.
    #[inline(always)]
    pub fn get(&self, index: usize) -> u32 {
        let bit = index * self.width;
        match self.words.get(bit / WORD_BITS..).and_then(<[u32]>::first_chunk) {
            Some(&[low, high]) if index < self.length => {
                let shift = bit % WORD_BITS;
                // not an `or`, of which one instruction is made that some processors take six steps for
                let bits = low >> shift ^ (high << 1) << (WORD_BITS - 1 - shift);
                bits & self.mask
            }
            _ => beyond(index, self.length),
        }
    }

    /// Numbers that are next to each other. Each word is loaded once.
    #[inline]
    pub fn run(&self, range: Range<usize>) -> impl ExactSizeIterator<Item = u32> + '_ {
        assert!(range.end <= self.length, "numbers {range:?} of {}", self.length);
        let NarrowArray { width, mask, .. } = *self;
        let (first, shift) = (range.start * width / WORD_BITS, range.start * width % WORD_BITS);
        let mut words = self.words[first..].iter();
        let mut next_word = move || u64::from(*words.next().expect("a word is behind the last number"));
        // what was loaded and not yet taken
        let (mut bits, mut left) = (next_word() >> shift, WORD_BITS - shift);
        range.map(move |_| {
            if left < width {
                bits |= next_word() << left;
                left += WORD_BITS;
            }
            let number = bits as u32 & mask;
            bits >>= width;
            left -= width;
            number
        })
    }
}

impl<W: DerefMut<Target = [u32]>> NarrowArray<W> {
    /// Sets a number.
    ///
    /// Panics if it is too large for the array.
    #[inline]
    pub fn set(&mut self, index: usize, number: u32) {
        if index >= self.length || number > self.mask {
            impossible(index, self.length, number, self.width);
        }
        let bit = index * self.width;
        let (shift, end) = (bit % WORD_BITS, bit + self.width - 1);
        let (mask, bits) = (u64::from(self.mask) << shift, u64::from(number) << shift);
        let words = &mut *self.words;
        let low = &mut words[bit / WORD_BITS];
        *low = *low & !(mask as u32) | bits as u32;
        // the same word again, of which nothing changes, if all of the number is in that
        let high = &mut words[end / WORD_BITS];
        *high = *high & !((mask >> WORD_BITS) as u32) | (bits >> WORD_BITS) as u32;
    }
}

#[cold]
#[inline(never)]
fn beyond(index: usize, length: usize) -> ! {
    panic!("number {index} of {length}");
}

#[cold]
#[inline(never)]
fn impossible(index: usize, length: usize, number: u32, width: usize) -> ! {
    panic!("number {index} of {length} becomes {number:#x}, in {width} bits");
}

impl<W> fmt::Debug for NarrowArray<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NarrowArray { length, width, .. } = self;
        f.debug_struct("NarrowArray").field("length", length).field("width", width).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// The largest number of this many bits.
    fn largest_of(width: u32) -> u32 {
        u32::MAX >> (32 - width)
    }

    /// Every number, in each of the ways in which it can be read.
    fn assert_same(array: &NarrowArray, model: &[u32]) {
        let length = model.len();
        assert!((0..length).all(|index| array.get(index) == model[index]));
        assert!(array.run(0..length).eq(model.iter().copied()));
    }

    fn a_number(random: &mut SplitMix64, width: u32) -> u32 {
        match random.below(4) {
            0 => 0,
            1 => largest_of(width),
            _ => random.next_u64() as u32 & largest_of(width),
        }
    }

    /// Seeded: any changes, compared with a vector. Each change could reach its neighbours, and all numbers are looked at.
    #[test]
    fn numbers_of_every_width_are_kept_and_their_neighbours_untouched() {
        for width in 1..=32 {
            for length in [1, 2, 31, 32, 33, 64, 101] {
                let mut random = SplitMix64(u64::from(width) * 1000 + length as u64);
                let mut array = NarrowArray::zeroed(length, largest_of(width));
                assert_eq!(array.bytes(), (length * width as usize).div_ceil(32) * 4 + 4);
                let mut model = vec![0; length];
                assert_same(&array, &model);
                for index in [0, length - 1] {
                    array.set(index, largest_of(width));
                    model[index] = largest_of(width);
                    assert_same(&array, &model);
                }
                for _ in 0..300 {
                    change(&mut array, &mut model, &mut random, width);
                    assert_same(&array, &model);
                }
            }
        }
    }

    fn change(array: &mut NarrowArray, model: &mut [u32], random: &mut SplitMix64, width: u32) {
        let first = random.below(model.len() as u64) as usize;
        let run = first..first + random.below((model.len() - first) as u64 + 1) as usize;
        match random.below(8) {
            0 => {
                let mut view = array.view_mut();
                run.clone().for_each(|index| view.set(index, 0));
                model[run].fill(0);
            }
            1 => assert!(array.run(run.clone()).eq(model[run].iter().copied())),
            2 => {
                let copy = array.clone();
                run.for_each(|index| array.set(index, largest_of(width)));
                assert_same(&copy, model);
                *array = copy;
            }
            _ => {
                let number = a_number(random, width);
                array.set(first, number);
                model[first] = number;
            }
        }
    }

    #[test]
    fn a_number_has_the_bits_that_the_largest_one_needs() {
        let bits = |largest| NarrowArray::zeroed(32, largest).bytes() / 4 - 1;
        assert_eq!([0, 1, 2, 3, 4, u32::MAX / 2, u32::MAX].map(bits), [1, 1, 2, 2, 3, 31, 32]);
        assert_eq!(NarrowArray::zeroed(0, 7).bytes(), 4);
    }

    /// The array is large enough for huge pages.
    #[test]
    fn many_numbers_are_kept() {
        let length = 3 << 20;
        let mut array = NarrowArray::zeroed(length, 4_000_000);
        assert!(array.run(0..length).all(|number| number == 0));
        (0..length).for_each(|index| array.set(index, index as u32));
        assert!(array.clone().run(0..length).eq(0..length as u32));
    }

    #[test]
    #[should_panic(expected = "number 1 of 3 becomes 0x8, in 3 bits")]
    fn a_number_that_does_not_fit_panics() {
        NarrowArray::zeroed(3, 7).set(1, 8);
    }

    /// There are bits for it in the last word.
    #[test]
    #[should_panic(expected = "number 3 of 3")]
    fn a_number_beyond_the_last_panics() {
        NarrowArray::zeroed(3, 7).get(3);
    }

    #[test]
    #[should_panic(expected = "number 3 of 3")]
    fn setting_a_number_beyond_the_last_panics() {
        NarrowArray::zeroed(3, 7).set(3, 1);
    }
}
