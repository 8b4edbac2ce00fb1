//! Which volume a file name belongs to.

use crate::fault::Fault;
use crate::ffi;
use crate::host::HostRef;
use crate::image::{Images, Parameters};
use crate::image_error::ImageError;

/// The volumes behind one VFS.
#[derive(Debug)]
pub(crate) enum Hosts {
    /// One volume, which the program opened.
    One(HostRef),
    /// Images named by URIs.
    Images(Images),
}

impl Hosts {
    /// The volume of a database about to be opened with SQLite's `SQLITE_OPEN_` flags.
    pub fn for_database(
        &self,
        name: &str,
        flags: i32,
        parameters: impl FnOnce() -> Result<Parameters, ImageError>,
    ) -> Result<HostRef, Fault> {
        match self {
            Hosts::One(host) => Ok(host.clone()),
            Hosts::Images(images) => {
                Ok(images.for_database(name, &parameters()?, flags & ffi::SQLITE_OPEN_CREATE != 0)?)
            }
        }
    }

    /// Whether files get the dates of their changes. Not on a volume that the program opened, where dates would add to
    /// what the modes write.
    pub fn dates_files(&self) -> bool {
        matches!(self, Hosts::Images(_))
    }

    /// The volume of another file; `None` if no database with that name is open.
    pub fn for_name(&self, name: &str) -> Option<HostRef> {
        match self {
            Hosts::One(host) => Some(host.clone()),
            Hosts::Images(images) => images.for_name(name),
        }
    }

    /// A file of a host was opened.
    pub fn opened(&self, host: &HostRef) {
        if let Hosts::Images(images) = self {
            images.opened(host);
        }
    }

    /// A file of a host could not be opened.
    pub fn abandon(&self, host: HostRef) {
        if let Hosts::Images(images) = self {
            images.abandon(host);
        }
    }

    /// A file was closed.
    pub fn release(&self, host: HostRef) -> Result<(), Fault> {
        match self {
            Hosts::One(_) => Ok(()),
            Hosts::Images(images) => Ok(images.release(host)?),
        }
    }

    /// The drive's time, if there is one drive.
    pub fn now_ns(&self) -> u64 {
        match self {
            Hosts::One(host) => host.lock().volume.now_ns(),
            Hosts::Images(_) => 0,
        }
    }
}
