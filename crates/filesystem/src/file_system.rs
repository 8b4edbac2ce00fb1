//! A file system as a whole.

use std::error::Error;

use tantalum_drive::Client;

use crate::{Attributes, Content, Names, Outcome, Ranges, Statistics};

/// Why a file system could not be closed: said to whoever unmounts.
pub type UnmountFailure = Box<dyn Error + Send + Sync>;

/// What can be mounted. Dropping it without [`FileSystem::unmount`] is a crash of the host: what was not synced is lost.
pub trait FileSystem: Names + Attributes + Content + Ranges + Send {
    /// The drive's client that the file system is. What is written to the drive past the file system may damage it.
    fn client(&self) -> &Client;

    /// The same, to set its clock.
    fn client_mut(&mut self) -> &mut Client;

    /// What the file system holds and what it has room for.
    fn statistics(&self) -> Statistics;

    /// Makes durable what nobody has synced yet. Gives the drive no command if there is nothing.
    fn write_back(&mut self) -> Outcome<()>;

    /// Makes everything durable and gives the drive back. If that fails, what was not synced is lost.
    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure>;

    /// Gives the drive back as after a crash of the host: what was not synced is lost.
    fn into_client_without_sync(self: Box<Self>) -> Client;
}
