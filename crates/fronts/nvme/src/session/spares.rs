//! Buffers of commands that have ended, for the next ones: without them each command would allocate one and clear it.

/// Bytes kept even if no command is in progress.
const LEAST_BYTES: usize = 16 << 10;

/// The buffers.
#[derive(Debug, Default)]
pub struct Spares {
    buffers: Vec<Vec<u8>>,
    /// Total bytes of all of them.
    bytes: usize,
}

impl Spares {
    /// A buffer of `bytes` bytes with arbitrary contents.
    pub fn take(&mut self, bytes: usize) -> Vec<u8> {
        let fits = self.buffers.last().is_some_and(|buffer| buffer.len() >= bytes);
        let Some(mut buffer) = fits.then(|| self.buffers.pop()).flatten() else { return vec![0; bytes] };
        self.bytes -= buffer.capacity();
        self.assert_invariants();
        buffer.truncate(bytes);
        buffer
    }

    /// An empty buffer with room for `bytes` bytes.
    pub fn take_empty(&mut self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.take(bytes);
        buffer.clear();
        buffer
    }

    /// Keeps a buffer, unless more bytes would then be kept than commands in progress hold.
    pub fn give(&mut self, buffer: Vec<u8>, held: usize) {
        if !buffer.is_empty() && self.bytes + buffer.capacity() <= held.max(LEAST_BYTES) {
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
        self.assert_invariants();
    }

    /// Checks that the total is that of all buffers, if assertions of debug builds are on.
    fn assert_invariants(&self) {
        debug_assert_eq!(
            self.bytes,
            self.buffers.iter().map(Vec::capacity).sum::<usize>(),
            "bytes counted, and those of {} buffers",
            self.buffers.len()
        );
    }

    /// Keeps at most as much as commands in progress hold.
    pub fn shrink(&mut self, held: usize) {
        while self.bytes > held.max(LEAST_BYTES)
            && let Some(buffer) = self.buffers.pop()
        {
            self.bytes -= buffer.capacity();
        }
        self.assert_invariants();
        assert!(
            !self.buffers.is_empty() || self.bytes == 0,
            "no buffer is kept, but {} bytes are",
            self.bytes
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_no_more_is_kept_than_is_in_use() {
        let mut spares = Spares::default();
        spares.give(vec![7; 4096], 0);
        assert_eq!(spares.take(8192), vec![0; 8192], "it is too small");
        assert_eq!(spares.take(100), [7; 100]);
        for _ in 0..9 {
            spares.give(vec![7; 64 << 10], 128 << 10);
        }
        assert_eq!(spares.bytes, 128 << 10);
        spares.shrink(64 << 10);
        assert_eq!((spares.bytes, spares.buffers.len()), (64 << 10, 1));
        spares.shrink(0);
        assert_eq!((spares.bytes, spares.buffers.len()), (0, 0));
        assert_eq!(spares.take_empty(10).len(), 0);
    }
}
