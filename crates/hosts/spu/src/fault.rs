//! Why the system ends a program.

/// Why a program was ended.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The module trapped: an access beyond its memory, a full stack, a division by zero, and so on.
    #[error("{0}")]
    Trap(String),
    /// One call of a handler took more instructions than the profile allows.
    #[error("it reached the limit of {limit} instructions in one call")]
    Endless {
        /// The maximum.
        limit: u64,
    },
    /// It sent more requests on behalf of one request of the host than are allowed.
    #[error("it sent too many requests on behalf of one request of the host")]
    Flood,
    /// Its copy on a processor could not be created.
    #[error("its copy could not be created: {0}")]
    Install(String),
}
