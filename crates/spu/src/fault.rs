//! Why the system ends a program.

/// Why a program was ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The module trapped: an access beyond its memory, a stack that is full, a division by zero, and so on.
    #[error("{0}")]
    Trap(String),
    /// One call of a handler took more instructions than a profile allows.
    #[error("it executed {limit} instructions in one call, the most that are allowed")]
    Endless {
        /// The limit.
        limit: u64,
    },
    /// It sent more requests on behalf of one request of the host than are allowed.
    #[error("it sent too many requests for one of the host's")]
    Flood,
    /// A processor could not be given its copy.
    #[error("its copy could not be made: {0}")]
    Install(String),
}
