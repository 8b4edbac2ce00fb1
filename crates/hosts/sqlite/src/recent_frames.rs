//! The frames of a log that were read last, which a checkpoint may be about to write home.

/// Number of remembered frames: other connections may read between a checkpoint's read and its write.
const RECENT: usize = 8;

/// The frames read last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RecentFrames {
    frames: [u32; RECENT],
    next: usize,
}

impl RecentFrames {
    /// A frame was read.
    pub fn note(&mut self, frame: u32) {
        self.frames[self.next] = frame;
        self.next = (self.next + 1) % RECENT;
    }

    /// The remembered frames, most recent first.
    pub fn latest(&self) -> impl Iterator<Item = u32> {
        let order = (1..=RECENT).map(|back| (self.next + RECENT - back) % RECENT);
        order.map(|index| self.frames[index]).filter(|&frame| frame != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_read_last_comes_first() {
        let mut recent = RecentFrames::default();
        assert_eq!(recent.latest().next(), None);
        for frame in 1..=10 {
            recent.note(frame);
        }
        assert_eq!(recent.latest().collect::<Vec<_>>(), [10, 9, 8, 7, 6, 5, 4, 3]);
    }
}
