//! A mounted volume that SQLite's connections share.

use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;

use tantalum_volume::Volume;

use crate::api::Api;
use crate::entropy::Entropy;
use crate::host::{Host, HostRef};
use crate::hosts::Hosts;
use crate::mode::Mode;
use crate::registration::Registration;

/// One mounted volume, shared by connections.
///
/// Dropping it, or what [`SharedVolume::into_volume`] returns, without unmounting is a crash of the host.
#[derive(Debug)]
pub struct SharedVolume {
    pub(crate) host: HostRef,
    seed: Option<u64>,
    #[cfg(feature = "bundled")]
    pub(crate) own: std::sync::OnceLock<Registration>,
}

/// Why an operation on a shared volume failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharedVolumeError {
    /// SQLite did not accept the VFS.
    #[error("SQLite could not register a VFS named {name:?}: code {code}")]
    Register {
        /// The name.
        name: String,
        /// SQLite's result code.
        code: i32,
    },
    /// The volume was requested while files on it are open.
    #[error("{handles} files of the volume are open, or a VFS is registered; close all connections first")]
    InUse {
        /// The number of open files.
        handles: usize,
    },
}

/// The volume, locked: connections wait until it is dropped.
#[derive(Debug)]
pub struct VolumeGuard<'a>(MutexGuard<'a, Host>);

impl Deref for VolumeGuard<'_> {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.0.volume
    }
}

impl DerefMut for VolumeGuard<'_> {
    fn deref_mut(&mut self) -> &mut Volume {
        &mut self.0.volume
    }
}

impl SharedVolume {
    /// A volume for connections that work in `mode`. With a seed, SQLite's time is the drive's and all randomness comes
    /// from the seed: the same statements write exactly the same bytes.
    pub fn new(volume: Volume, mode: Mode, seed: Option<u64>) -> SharedVolume {
        SharedVolume {
            host: HostRef::new(volume, mode),
            seed,
            #[cfg(feature = "bundled")]
            own: std::sync::OnceLock::new(),
        }
    }

    /// How connections use the volume.
    pub fn mode(&self) -> Mode {
        self.host.lock().mode
    }

    /// The seed.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// The volume, for counters, time and files. Do not access files that connections have open.
    pub fn volume(&self) -> VolumeGuard<'_> {
        VolumeGuard(self.host.lock())
    }

    /// Whether a request of SQLite panicked. SQLite got an I/O error (S4).
    pub fn has_panicked(&self) -> bool {
        self.host.has_panicked()
    }

    /// Returns the volume. Fails, and returns the shared volume, while files on it are open or a VFS of the program is
    /// registered.
    pub fn into_volume(mut self) -> Result<Volume, (SharedVolume, SharedVolumeError)> {
        let handles = self.host.lock().handles;
        if handles > 0 {
            return Err((self, SharedVolumeError::InUse { handles }));
        }
        #[cfg(feature = "bundled")]
        drop(self.own.take());
        match self.host.into_volume() {
            Ok(volume) => Ok(volume),
            Err(host) => {
                self.host = host;
                Err((self, SharedVolumeError::InUse { handles }))
            }
        }
    }

    /// Registers a VFS with a SQLite library under a name, for as long as the registration lives.
    pub fn register_with(&self, api: Api, name: &str) -> Result<Registration, SharedVolumeError> {
        let hosts = Hosts::One(self.host.clone());
        Registration::new(api, hosts, Entropy::new(self.seed), name)
            .map_err(|code| SharedVolumeError::Register { name: name.to_owned(), code })
    }
}
