//! A command in progress.

use super::fabrics_command::FabricsCommand;
use crate::io::{IoCommand, Transfer};
use crate::wire::command::Submission;

/// What a command requests.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// About connections.
    Fabrics(FabricsCommand),
    /// About the controller.
    Admin,
    /// About blocks.
    Io(IoCommand),
    /// About programs in the drive.
    Program,
}

/// A command in progress.
#[derive(Debug)]
pub struct Pending {
    pub command: Submission,
    pub work: Work,
    pub transfer: Transfer,
    /// The number of bytes that it needs from the host.
    pub needed: usize,
    /// Bytes of the budget that it holds.
    pub held: usize,
}
