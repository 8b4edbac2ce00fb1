//! A file system as a whole.

use std::error::Error;

use tantalum_drive::Client;

use crate::{Attributes, Content, Names, Outcome, Ranges, Statistics};

/// Why a file system could not be closed: reported to whoever unmounts it.
pub type UnmountFailure = Box<dyn Error + Send + Sync>;

/// A mountable file system. Dropping it without [`FileSystem::unmount`] is a crash of the host: what was not synced is
/// lost.
pub trait FileSystem: Names + Attributes + Content + Ranges + Send {
    /// The file system's client of the drive. Writing to the drive without the file system may damage it.
    fn client(&self) -> &Client;

    /// The file system's client of the drive, to set its clock.
    fn client_mut(&mut self) -> &mut Client;

    /// The contents of the file system, and its free space.
    fn statistics(&self) -> Statistics;

    /// Makes durable what nobody has synced yet. Sends no command to the drive if there is nothing.
    fn write_back(&mut self) -> Outcome<()>;

    /// Makes everything durable and returns the drive. If that fails, what was not synced is lost.
    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure>;

    /// Returns the drive as after a crash of the host: what was not synced is lost.
    fn into_client_without_sync(self: Box<Self>) -> Client;
}
