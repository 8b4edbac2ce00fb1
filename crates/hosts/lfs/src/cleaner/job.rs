//! What the cleaner is doing in the background.

use crate::index::Resident;

/// A segment that is being cleaned in slices.
#[derive(Debug)]
pub(crate) struct Job {
    pub segment: u32,
    pub residents: Vec<Resident>,
    pub done: usize,
}
