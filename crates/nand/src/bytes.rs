//! Bytes that are all filled soon: many of them lie in huge pages of the host, which are much cheaper to get.

use std::fmt;
use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From here on they lie in huge pages.
const LEAST_HUGE: usize = 8 << 20;

/// A fixed number of bytes, all 0 at first.
pub struct Bytes(Memory);

enum Memory {
    Plain(Vec<u8>),
    Huge(MmapMut),
}

impl Bytes {
    /// This many.
    pub fn zeroed(length: usize) -> Bytes {
        if length >= LEAST_HUGE
            && let Ok(map) = MmapMut::map_anon(length)
        {
            // a host without huge pages refuses this, and is merely slower
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Bytes(Memory::Huge(map));
        }
        Bytes::from(vec![0; length])
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Memory::Plain(bytes))
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(Vec::new())
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Plain(bytes) => bytes,
            Memory::Huge(map) => map,
        }
    }
}

impl DerefMut for Bytes {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Plain(bytes) => bytes,
            Memory::Huge(map) => map,
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bytes").field("length", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_zeros_and_keep_what_is_put_in() {
        for length in [0, 5, LEAST_HUGE - 1, LEAST_HUGE + 4097] {
            let mut bytes = Bytes::zeroed(length);
            assert!(bytes.len() == length && bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
            assert_eq!(bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>(), 7 * length as u64);
        }
        assert_eq!(Bytes::from(vec![1, 2])[..], [1, 2]);
        assert!(Bytes::default().is_empty());
    }
}
