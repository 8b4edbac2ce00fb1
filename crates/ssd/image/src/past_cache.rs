//! Copies that bypass the processor's cache, for bytes that are not read again for a long time.
//!
//! A store to a line that is not in the cache first fetches that line, and evicts another. For a unit at a random place
//! in gigabytes of memory that is most of the cost of copying, and the waiting stores hold up everything after them.
//! Non-temporal stores of whole lines avoid both.

/// Bytes of a line of the processor's cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// A line to be written, which must be aligned, and what it will hold.
#[cfg(target_arch = "x86_64")]
type Line<'a> = (&'a mut [u8; LINE], &'a [u8; LINE]);

/// Copies `from` to `to`, which have the same length.
#[inline]
pub(crate) fn copy_past_cache(to: &mut [u8], from: &[u8]) {
    begin_copy_past_cache(to, from);
    end_copies();
}

/// As [`copy_past_cache`], one of several copies: other processors see it after [`end_copies`]. The processor stores one
/// copy while this thread reads for the next.
#[inline]
pub(crate) fn begin_copy_past_cache(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "a copy is as long as what it is of");
    #[cfg(target_arch = "x86_64")]
    if to.as_ptr().addr().is_multiple_of(LINE) && to.len().is_multiple_of(LINE) {
        return stream_lines(to, from);
    }
    to.copy_from_slice(from);
}

/// Nothing that follows becomes visible before the copies that were begun.
#[inline]
#[allow(unsafe_code)]
pub(crate) fn end_copies() {
    // SAFETY: every x86-64 processor has this instruction.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies whole lines to a line-aligned destination.
#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn stream_lines(to: &mut [u8], from: &[u8]) {
    let lines = lines(to, from);
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has these instructions.
        unsafe { stream_whole_lines(lines) }
    } else {
        stream_parts_of_lines(lines);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn lines<'a>(to: &'a mut [u8], from: &'a [u8]) -> impl Iterator<Item = Line<'a>> {
    to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0)
}

/// Stores each line at once: parts of one wait for each other in a buffer, of which the processor has few.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[allow(unsafe_code)]
fn stream_whole_lines<'a>(lines: impl Iterator<Item = Line<'a>>) {
    use std::arch::x86_64::{__m512i, _mm512_loadu_si512, _mm512_stream_si512};

    const _: () = assert!(size_of::<__m512i>() == LINE);
    for (to, from) in lines {
        // SAFETY: both are a line long, which is one vector; `to` is aligned to one, and a load may be anywhere.
        unsafe { _mm512_stream_si512(to.as_mut_ptr().cast(), _mm512_loadu_si512(from.as_ptr().cast())) }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code)]
fn stream_parts_of_lines<'a>(lines: impl Iterator<Item = Line<'a>>) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    const PARTS: usize = LINE / size_of::<__m128i>();
    for (to, from) in lines {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: both are a line long, which is PARTS vectors; the first vector of `to` is aligned to a line and the
        // others follow it; a load may be anywhere. Every x86-64 processor has these instructions.
        unsafe {
            let parts: [__m128i; PARTS] = std::array::from_fn(|part| _mm_loadu_si128(from.add(part)));
            (0..PARTS).for_each(|part| _mm_stream_si128(to.add(part), parts[part]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_whole_wherever_they_begin_and_end() {
        let from: Vec<u8> = (0..5_000).map(|at| (at % 251) as u8).collect();
        for length in [0, 1, 63, 64, 65, 256, 4096] {
            for (start, source) in [(0, 0), (1, 0), (64, 3), (96, 64), (63, 65)] {
                let mut to = vec![0xee; 5_000];
                copy_past_cache(&mut to[start..start + length], &from[source..source + length]);
                assert_eq!(to[start..start + length], from[source..source + length]);
                let around = to[..start].iter().chain(&to[start + length..]);
                assert!(around.into_iter().all(|byte| *byte == 0xee), "{length} bytes from {start} on");
            }
        }
    }

    /// A processor takes one of the ways.
    #[cfg(target_arch = "x86_64")]
    #[test]
    #[allow(unsafe_code)]
    fn lines_are_copied_at_once_or_in_parts() {
        let from: Vec<u8> = (0..5_000).map(|at| (at % 251) as u8).collect();
        for source in [0, 3] {
            let (mut room, from) = (vec![0; 5_000], &from[source..][..4096]);
            let start = room.as_ptr().align_offset(LINE);
            let to = &mut room[start..][..4096];
            stream_parts_of_lines(lines(to, from));
            assert!(*to == *from, "in parts, from {source} on");
            if is_x86_feature_detected!("avx512f") {
                to.fill(0);
                // SAFETY: the processor has these instructions.
                unsafe { stream_whole_lines(lines(to, from)) }
                assert!(*to == *from, "at once, from {source} on");
            }
        }
    }
}
