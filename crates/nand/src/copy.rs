//! Copying a unit past the processor's cache.
//!
//! A unit that is written is not read again soon, and an arena of gigabytes is not in the cache: an ordinary copy would
//! first fetch every line that it is about to overwrite. Non-temporal stores leave that out.

/// Copies `source` over `target`, of the same length, as `copy_from_slice` does.
#[inline]
pub(crate) fn copy_past_cache(target: &mut [u8], source: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    x86::copy(target, source);
    #[cfg(not(target_arch = "x86_64"))]
    target.copy_from_slice(source);
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE_BYTES: usize = 64;

    pub fn copy(target: &mut [u8], source: &[u8]) {
        assert_eq!(target.len(), source.len(), "a copy has the length of its original");
        if !target.as_ptr().cast::<__m128i>().is_aligned() || !target.len().is_multiple_of(LINE_BYTES) {
            target.copy_from_slice(source);
            return;
        }
        let lines = target.chunks_exact_mut(LINE_BYTES).zip(source.chunks_exact(LINE_BYTES));
        for (target, source) in lines {
            let (to, from) = (target.as_mut_ptr().cast::<__m128i>(), source.as_ptr().cast::<__m128i>());
            for part in 0..LINE_BYTES / size_of::<__m128i>() {
                // SAFETY: both slices have LINE_BYTES bytes, `target` is aligned to 16 bytes as was checked above and
                // LINE_BYTES is a multiple of that; SSE2 is part of x86-64.
                unsafe { _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part))) };
            }
        }
        // SAFETY: as above. Another thread that is told of the copy must see it.
        unsafe { _mm_sfence() };
    }
}
