//! What fills a drive that should become full.

/// What fills a drive that should become full: records while units are given up, and then units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tide {
    Records,
    Units,
}

impl Tide {
    /// The tide at a given command.
    pub fn at(index: u64) -> Tide {
        if (index / 96).is_multiple_of(2) { Tide::Records } else { Tide::Units }
    }
}
