//! Which volume a file name belongs to.

use crate::fault::Fault;
use crate::host::HostRef;
use crate::image::{Images, Parameters};

/// The volumes behind one VFS.
#[derive(Debug)]
pub(crate) enum Hosts {
    /// One volume, which the program opened.
    One(HostRef),
    /// Images named by URIs.
    Images(Images),
}

impl Hosts {
    /// The volume of a database about to be opened.
    pub fn for_database(
        &self,
        name: &str,
        parameters: impl FnOnce() -> Parameters,
    ) -> Result<HostRef, Fault> {
        match self {
            Hosts::One(host) => Ok(host.clone()),
            Hosts::Images(images) => Ok(images.for_database(name, &parameters())?),
        }
    }

    /// The volume of another file; none if no database of that name is open.
    pub fn for_name(&self, name: &str) -> Option<HostRef> {
        match self {
            Hosts::One(host) => Some(host.clone()),
            Hosts::Images(images) => images.for_name(name),
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
