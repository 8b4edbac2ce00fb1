//! When a command is issued.

use tantalum::Nanoseconds;

/// When a command is issued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At a client's time.
    At(Nanoseconds),
    /// When everything that any client requested before is done. Where answers go out at once, this keeps a power loss
    /// from undoing what was already acknowledged to a client.
    AfterAll,
}

impl From<Nanoseconds> for When {
    fn from(at_ns: Nanoseconds) -> When {
        When::At(at_ns)
    }
}
