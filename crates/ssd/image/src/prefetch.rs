//! Brings bytes that are needed soon into the processor's second-level cache.
//!
//! A processor expects the lines that follow one, but not beyond the end of a page of 4 KiB. So a copy of a unit waits
//! for its first lines, unless they were asked for while the unit before it was copied. The first-level cache holds too
//! few units, and asking for them there is no faster than not asking.

/// Bytes of a line of the processor's cache.
const LINE: usize = 64;

/// Asks for all lines of these bytes, wherever they are, and does not wait for them. Does nothing on other processors than
/// those of x86-64.
#[inline]
pub fn prefetch_lines(start: *const u8, bytes: usize) {
    (0..bytes).step_by(LINE).for_each(|at| prefetch_line(start.wrapping_add(at)));
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn prefetch_line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    // SAFETY: a prefetch changes nothing but caches, and ignores addresses that cannot be read.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch_line(_at: *const u8) {}
