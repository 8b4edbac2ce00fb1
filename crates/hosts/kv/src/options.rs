//! Options for opening a store.

use std::path::Path;

use tantalum::{Access, Device, Profile};

use crate::error::Error;
use crate::files::{fill_empty, make_new};

/// What a commit survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// The loss of the machine: a commit returns when the disk has it. One sync serves all waiting commits.
    Host,
    /// Only the end of the process. The loss of the machine may damage the image beyond use; for experiments.
    None,
}

/// Options for opening a store; [`crate::Store::options`] creates them.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) profile: Option<String>,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) cache_bytes: usize,
    pub(crate) sync: Sync,
    pub(crate) records_per_lock: u32,
    pub(crate) snapshot_bytes: usize,
    pub(crate) read_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            profile: None,
            capacity_bytes: None,
            cache_bytes: 64 << 20,
            sync: Sync::Host,
            records_per_lock: 1,
            snapshot_bytes: 64 << 20,
            read_only: false,
        }
    }
}

/// The default drive of a store. It has a capacitor, so that small commits share a page and a commit writes little more
/// than its records, and few planes, so that open blocks take little space. Its latencies are not waited for.
const EMBEDDED: &str = include_str!("embedded.toml");

/// The least capacity of the default drive, in bytes: below, its reserves take more than there is.
const LEAST_BYTES: u64 = 15 << 20;

impl Options {
    /// The drive to create if there is no image: a built-in profile or a file. Otherwise it is not used.
    pub fn profile(mut self, name_or_path: &str) -> Options {
        self.profile = Some(name_or_path.to_owned());
        self
    }

    /// The size of the drive to create if there is no image, at least 15 MiB; the file is sparse. Default: 1 GiB. If there
    /// is an image of another capacity, opening it gives [`Error::Capacity`].
    pub fn capacity_bytes(mut self, bytes: u64) -> Options {
        self.capacity_bytes = Some(bytes);
        self
    }

    /// Bytes of records kept in memory. Default: 64 MiB.
    pub fn cache_bytes(mut self, bytes: usize) -> Options {
        self.cache_bytes = bytes;
        self
    }

    /// Bytes of memory for records overwritten while snapshots are open, including 128 bytes for each. Beyond that the
    /// oldest snapshot is lost ([`Error::SnapshotLost`]). Default: 64 MiB.
    pub fn snapshot_bytes(mut self, bytes: usize) -> Options {
        self.snapshot_bytes = bytes;
        self
    }

    /// What a commit survives. Default: [`Sync::Host`].
    pub fn sync(mut self, sync: Sync) -> Options {
        self.sync = sync;
        self
    }

    /// How many records with consecutive numbers as keys share a lock (KAML, section 3.3.2). Default: 1. The number is
    /// the last 8 bytes of a key, most significant byte first.
    pub fn records_per_lock(mut self, records: u32) -> Options {
        self.records_per_lock = records;
        self
    }

    /// Opens the store only to read it: the file is not changed, and need not be writable; changes fail with
    /// [`Error::ReadOnly`]. Several processes may read a store at once. While one of them has it open to change it, nobody
    /// else can open it: it changes the image in place, and readers would see parts of its changes. Default: false.
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Creates the image of a store if there is none, or only an empty file.
    pub(crate) fn ensure_image(&self, path: &Path) -> Result<(), Error> {
        self.check()?;
        match std::fs::metadata(path) {
            _ if self.read_only => Ok(()),
            Ok(found) if found.is_file() && found.len() == 0 => {
                let profile = self.new_profile()?;
                fill_empty(path, |unfinished| create(unfinished, &profile))
            }
            Ok(_) => Ok(()),
            Err(_) => self.create(path),
        }
    }

    /// How the image is opened.
    pub(crate) fn access(&self) -> Access {
        match self.sync {
            _ if self.read_only => Access::Overlay,
            Sync::Host => Access::Ordered,
            Sync::None => Access::Write,
        }
    }

    /// Opens the drive of a store that exists.
    pub(crate) fn open_drive(&self, path: &Path, access: Access) -> Result<Device, Error> {
        let device = Device::open_as(path, access)?;
        let has = device.profile().capacity_bytes;
        match self.capacity_bytes {
            Some(asked) if asked != has => Err(Error::Capacity { path: path.to_owned(), has, asked }),
            _ => Ok(device),
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.records_per_lock {
            0 => Err(Error::Option { what: "records per lock", asked: 0, expected: "at least 1" }),
            _ => Ok(()),
        }
    }

    /// The drive to create.
    pub(crate) fn new_profile(&self) -> Result<Profile, Error> {
        let mut profile = match &self.profile {
            Some(name) => Profile::load(name)?,
            None => Profile::from_toml(EMBEDDED, "embedded")?,
        };
        profile.capacity_bytes = self.capacity_bytes.unwrap_or(profile.capacity_bytes);
        let asked = profile.capacity_bytes;
        if self.profile.is_none() && asked < LEAST_BYTES {
            let expected = "at least 15 MiB (15728640)";
            return Err(Error::Option { what: "capacity in bytes", asked, expected });
        }
        Ok(profile)
    }

    /// Creates an image in such a way that the path never holds a partial one. If somebody else created it meanwhile,
    /// that is just as good.
    fn create(&self, path: &Path) -> Result<(), Error> {
        let profile = self.new_profile()?;
        make_new(path, |unfinished| create(unfinished, &profile)).map(drop)
    }
}

fn create(path: &Path, profile: &Profile) -> Result<(), Error> {
    let device = Device::create(path, profile)?;
    let now_ns = device.time_ns();
    Ok(device.shutdown(now_ns)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The drive's own message was about blocks, and named no size.
    #[test]
    fn a_store_that_is_too_small_is_told_the_least_size() {
        for bytes in [0, 4096, LEAST_BYTES - 4096] {
            let refused = Options::default().capacity_bytes(bytes).new_profile().unwrap_err().to_string();
            assert!(refused.contains(&format!("{bytes}; it must be at least 15 MiB")), "{refused}");
        }
        Options::default().capacity_bytes(LEAST_BYTES).new_profile().unwrap();
    }

    #[test]
    fn an_option_leaves_the_others_as_they_were() {
        let options =
            Options::default().records_per_lock(7).cache_bytes(5).capacity_bytes(9).sync(Sync::None);
        assert_eq!((options.records_per_lock, options.cache_bytes), (7, 5));
        assert_eq!((options.capacity_bytes, options.sync), (Some(9), Sync::None));
    }
}
