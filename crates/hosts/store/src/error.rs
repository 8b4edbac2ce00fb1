//! How a store fails.

use tantalum::DeviceError;
use tantalum_spu::atomic_writes::AtomicWritesError;
use tantalum_spu::{InstallError, IoError, SpuError};

/// Why a store could not be created, run or recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The drive could not be created.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A program could not be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// Atomic-Writes could not be installed or recovered.
    #[error(transparent)]
    AtomicWrites(#[from] AtomicWritesError),
    /// A request could not be sent.
    #[error(transparent)]
    Sending(#[from] SpuError),
    /// A read or write failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The drive acknowledges what a power cut may undo.
    #[error(
        "the drive {profile} acknowledges writes that a power cut may undo: use one with a capacitor (tlc-nvme-plp) or with memory for its processors (willow)"
    )]
    Volatile {
        /// The profile's name.
        profile: String,
    },
    /// The tables do not fit.
    #[error(
        "log, tables and Atomic-Writes take {needed} bytes, and the drive has {capacity}: raise its capacity"
    )]
    TooSmall {
        /// What they take.
        needed: u64,
        /// The drive's capacity.
        capacity: u64,
    },
    /// There are more clients than transactions of Atomic-Writes.
    #[error("{clients} clients requested; a store has 1 to {most}")]
    Clients {
        /// The number given.
        clients: usize,
        /// The maximum number of clients.
        most: usize,
    },
    /// The drive or a program refused a request.
    #[error("request {request} was answered with status {status}")]
    Refused {
        /// The request.
        request: u64,
        /// The answer.
        status: i32,
    },
    /// The log's checkpoint cannot be found, so nothing can be recovered.
    #[error("the log names no checkpoint from which recovery could start")]
    NoCheckpoint,
    /// A record that recovery needs is not in the log.
    #[error("the log has no record at {lsn}, where recovery needs one")]
    BrokenLog {
        /// The position.
        lsn: u64,
    },
    /// Every task waits for another.
    #[error("at {at_ns} ns all {tasks} tasks are waiting, and nothing is in flight")]
    Stuck {
        /// When.
        at_ns: u64,
        /// The number of tasks.
        tasks: usize,
    },
    /// A check of the tables found something.
    #[error("{0}")]
    Inconsistent(String),
}
