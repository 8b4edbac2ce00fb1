//! Images that the extension opens when databases name them.
//!
//! A database's URI names its image, profile, capacity and mode. SQLite passes parameters only when it opens the
//! database file itself; the journal and the log are found by the database's name. So one name cannot be open in two
//! images at once. An image is shut down when the last of its files is closed.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tantalum::{Access, Device, Profile, Size, Status};
use tantalum_volume::{Volume, VolumeError};

use crate::host::HostRef;
use crate::image_error::ImageError;
use crate::mode::{Mode, UnknownMode};

/// Host memory of an image's page cache.
const CACHE_BYTES: u64 = 64 << 20;

/// The default image, without `image=` and the environment's `TANTALUM_IMAGE`.
const DEFAULT_IMAGE: &str = "tantalum.tant";

/// The default drive of a new image, without `profile=`.
const DEFAULT_PROFILE: &str = "tlc-nvme";

/// The contents of a database's URI.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parameters {
    pub image: Option<String>,
    pub profile: Option<String>,
    pub capacity: Option<String>,
    pub interface: Option<String>,
    pub time: Option<String>,
}

/// The parameters of a URI that SQLite itself knows.
const OWN_PARAMETERS: [&str; 7] = ["vfs", "mode", "cache", "psow", "nolock", "immutable", "modeof"];

/// The parameters of this VFS.
const PARAMETERS: [&str; 5] = ["image", "profile", "capacity", "interface", "time"];

impl Parameters {
    /// Refuses unknown parameters: a misspelt one would otherwise be ignored.
    pub fn check_names(mut names: impl Iterator<Item = String>) -> Result<(), ImageError> {
        let is_known = |name: &str| OWN_PARAMETERS.contains(&name) || PARAMETERS.contains(&name);
        match names.find(|name| !is_known(name)) {
            Some(name) => Err(ImageError::Parameter { name, known: &PARAMETERS }),
            None => Ok(()),
        }
    }

    fn path(&self) -> PathBuf {
        let path = match &self.image {
            Some(image) => PathBuf::from(image),
            None => std::env::var_os("TANTALUM_IMAGE").map_or_else(|| DEFAULT_IMAGE.into(), PathBuf::from),
        };
        std::path::absolute(&path).unwrap_or(path)
    }

    fn mode(&self) -> Result<Option<Mode>, UnknownMode> {
        self.interface.as_deref().map(str::parse).transpose()
    }

    /// Whether the drive's latencies are kept in the machine's time.
    fn in_real_time(&self) -> Result<bool, ImageError> {
        match self.time.as_deref() {
            None | Some("none") => Ok(false),
            Some("real") => Ok(true),
            Some(other) => Err(ImageError::Time(other.to_owned())),
        }
    }

    /// The drive of an image to be created.
    fn new_profile(&self) -> Result<Profile, ImageError> {
        let mut profile = Profile::load(self.profile.as_deref().unwrap_or(DEFAULT_PROFILE))?;
        if let Some(capacity) = &self.capacity {
            let size = capacity.parse::<Size>();
            let size = size.map_err(|error| ImageError::Capacity { text: capacity.clone(), error })?;
            profile.capacity_bytes = size.0;
        }
        Ok(profile)
    }
}

#[derive(Debug, Default)]
struct Open {
    images: HashMap<PathBuf, HostRef>,
    /// Databases and their images, including databases that were closed.
    databases: HashMap<String, PathBuf>,
    /// Images that were created, and in which no database has been opened yet.
    new: HashSet<PathBuf>,
}

impl Open {
    /// Opens an image; creates it if it does not exist and may be created.
    fn image(
        &mut self,
        path: &Path,
        parameters: &Parameters,
        mode: Option<Mode>,
        creates: bool,
    ) -> Result<HostRef, ImageError> {
        let in_real_time = parameters.in_real_time()?;
        let is_new = !path.exists();
        if is_new && !creates {
            return Err(ImageError::NoImage { path: path.to_owned() });
        }
        let (mut volume, only_read) = open_volume(path, parameters)?;
        if is_new {
            self.new.insert(path.to_owned());
        }
        if in_real_time {
            volume.run_in_real_time();
        }
        let host = HostRef::new(volume, mode.unwrap_or(Mode::Share));
        host.lock().only_read = only_read;
        self.images.insert(path.to_owned(), host.clone());
        Ok(host)
    }
}

/// All open images.
#[derive(Debug, Default)]
pub(crate) struct Images {
    open: Mutex<Open>,
}

impl Images {
    /// The image of a database about to be opened; created if it does not exist and the database may be created. The
    /// caller reports the outcome with [`Images::opened`] or [`Images::abandon`].
    pub fn for_database(
        &self,
        name: &str,
        parameters: &Parameters,
        creates: bool,
    ) -> Result<HostRef, ImageError> {
        let (path, mode) = (parameters.path(), parameters.mode()?);
        let mut open = self.lock();
        if let Some(other) = open.databases.get(name)
            && *other != path
            && open.images.contains_key(other)
        {
            return Err(ImageError::OtherImage { name: name.to_owned(), path: other.clone() });
        }
        let host = match open.images.get(&path) {
            Some(host) => {
                let is = host.lock().mode;
                if let Some(asked) = mode.filter(|&asked| asked != is) {
                    return Err(ImageError::OtherMode { path, open: is, asked });
                }
                host.clone()
            }
            None => open.image(&path, parameters, mode, creates)?,
        };
        open.databases.insert(name.to_owned(), path);
        Ok(host)
    }

    /// The image of a database's journal or log, or of the database, while it is open.
    pub fn for_name(&self, name: &str) -> Option<HostRef> {
        let open = self.lock();
        let is_of = |database: &str| {
            name.strip_prefix(database).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let longest = open
            .databases
            .iter()
            .filter(|(database, path)| is_of(database) && open.images.contains_key(*path))
            .max_by_key(|(database, _)| database.len());
        longest.map(|(_, path)| open.images[path].clone())
    }

    /// A database of an image was opened, so the image stays.
    pub fn opened(&self, host: &HostRef) {
        let mut open = self.lock();
        let Open { images, new, .. } = &mut *open;
        new.retain(|path| !images.get(path).is_some_and(|image| image.is(host)));
    }

    /// A database of an image could not be opened: an image that was created for it is removed.
    pub fn abandon(&self, host: HostRef) {
        let path = {
            let open = self.lock();
            let is_its = |path: &&PathBuf| open.images.get(*path).is_some_and(|image| image.is(&host));
            open.new.iter().find(is_its).cloned()
        };
        // The opening has already failed, with its own error.
        let _ = self.release(host);
        let mut open = self.lock();
        if let Some(path) = path
            && !open.images.contains_key(&path)
            && open.new.remove(&path)
        {
            let _ = std::fs::remove_file(path);
        }
    }

    /// A file was closed. If it was the last one, its image is shut down.
    pub fn release(&self, host: HostRef) -> Result<(), ImageError> {
        let mut open = self.lock();
        if host.lock().handles > 0 {
            return Ok(());
        }
        let Some(path) = open.images.iter().find(|(_, image)| image.is(&host)).map(|(path, _)| path.clone())
        else {
            return Ok(());
        };
        open.images.remove(&path);
        open.databases.retain(|_, image| *image != path);
        let volume = host.into_volume().unwrap_or_else(|_| panic!("nobody else knows {}", path.display()));
        close_volume(volume).map_err(|error| match error {
            CloseError::Volume(error) => ImageError::Volume { path, error },
            CloseError::Shutdown(error) => ImageError::Shutdown { path, error },
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum CloseError {
    Volume(VolumeError),
    Shutdown(Status),
}

fn close_volume(volume: Volume) -> Result<(), CloseError> {
    let client = volume.unmount().map_err(|error| CloseError::Volume(error.error))?;
    // if others still have the drive, they continue to use it
    let Ok(device) = client.into_device() else { return Ok(()) };
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(CloseError::Shutdown)
}

/// Opens an image; creates it if there is none. Also why it can only be read, if it can.
fn open_volume(path: &Path, parameters: &Parameters) -> Result<(Volume, Option<Status>), ImageError> {
    match path.exists() {
        true => Device::or_read(Access::Write, |access| open_existing(path, access), ImageError::host),
        false => Ok((create_volume(path, parameters)?, None)),
    }
}

fn create_volume(path: &Path, parameters: &Parameters) -> Result<Volume, ImageError> {
    let device = Device::create(path, &parameters.new_profile()?);
    let device =
        device.map_err(|error| ImageError::Device { path: path.to_owned(), error: Box::new(error) })?;
    Volume::format(device, CACHE_BYTES).map_err(|error| {
        // A partial image is useless, and the first error is the one that counts.
        let _ = std::fs::remove_file(path);
        ImageError::Volume { path: path.to_owned(), error }
    })
}

fn open_existing(path: &Path, access: Access) -> Result<Volume, ImageError> {
    let device_error = |error| ImageError::Device { path: path.to_owned(), error: Box::new(error) };
    let volume_error = |error| ImageError::Volume { path: path.to_owned(), error };
    let mut device = Device::open_as(path, access).map_err(device_error)?;
    let is_formatted = Volume::is_formatted(&mut device).map_err(volume_error)?;
    // what is only read is not made
    let mount = if is_formatted || access == Access::Overlay { Volume::mount } else { Volume::format };
    mount(device, CACHE_BYTES).map_err(volume_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::{SQLITE_OPEN_CREATE, SQLITE_OPEN_MAIN_DB};
    use crate::handle::Handle;

    fn parameters(image: &Path) -> Parameters {
        Parameters {
            image: Some(image.to_str().expect("a temporary path is UTF-8").to_owned()),
            capacity: Some("64M".to_owned()),
            ..Parameters::default()
        }
    }

    #[test]
    fn an_image_is_made_shut_down_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = parameters(&folder.path().join("a.tant"));
        let images = Images::default();
        for _ in 0..2 {
            let host = images.for_database("app.db", &wanted, true).unwrap();
            let handle =
                Handle::open(&host, "app.db", SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB, None).unwrap();
            drop(host);
            assert!(images.for_name("app.db-wal").is_some());
            assert!(images.for_name("app.dbx").is_none());
            let host = handle.close(None).map_err(|(_, fault)| fault).unwrap();
            images.release(host).unwrap();
            assert!(images.for_name("app.db").is_none(), "the image is closed");
        }
    }

    #[test]
    fn what_cannot_be_opened_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = parameters(&folder.path().join("a.tant"));
        let images = Images::default();
        let refuse = |name, parameters| images.for_database(name, &parameters, true).unwrap_err().to_string();
        let error = refuse("app.db", Parameters { profile: Some("nix".into()), ..wanted.clone() });
        assert!(error.contains("tlc-nvme"), "{error}");
        let error = refuse("app.db", Parameters { capacity: Some("many".into()), ..wanted.clone() });
        assert!(error.contains("capacity=many: a size is a number and a unit"), "{error}");
        let error = refuse("app.db", Parameters { time: Some("slow".into()), ..wanted.clone() });
        assert!(error.contains("\"slow\" is neither"), "{error}");
        assert!(!folder.path().join("a.tant").exists(), "nothing was made");

        let _host = images.for_database("app.db", &wanted, true).unwrap();
        let error = refuse("app.db", parameters(&folder.path().join("b.tant")));
        assert!(error.contains("is open from image"), "{error}");
        let error = refuse("app.db", Parameters { interface: Some("wal".into()), ..wanted.clone() });
        assert!(error.contains("interface share"), "{error}");
        let error = Images::default().for_database("app.db", &wanted, true).unwrap_err().to_string();
        assert!(error.contains("a.tant"), "the image is locked: {error}");
    }

    /// Stores what waits in memory, and closes the image like a drive that is shut down.
    #[test]
    fn a_volume_that_is_closed_has_everything_on_its_drive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tant");
        let mut volume = open_volume(&path, &parameters(&path)).unwrap().0;
        let file = volume.create("app.db").unwrap();
        volume.write(file, 0, b"not synced").unwrap();
        close_volume(volume).unwrap_or_else(|_| panic!("the volume is in order"));
        let device = Device::open(&path).unwrap();
        assert!(device.recovery().clean);
        let mut volume = Volume::mount(device, CACHE_BYTES).unwrap();
        let (file, mut data) = (volume.find("app.db").expect("its name is stored"), [0; 10]);
        volume.read(file, 0, &mut data).unwrap();
        assert_eq!(&data, b"not synced");
    }

    /// Journals and logs of a database belong to its image, whatever else is closed.
    #[test]
    fn an_image_that_is_closed_leaves_the_others_with_their_databases() {
        let folder = tempfile::tempdir().unwrap();
        let images = Images::default();
        let [one, other] = ["one", "other"].map(|name| {
            let image = parameters(&folder.path().join(name));
            let host = images.for_database(&format!("{name}.db"), &image, true).unwrap();
            Handle::open(&host, &format!("{name}.db"), SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB, None)
                .unwrap()
        });
        let host = one.close(None).map_err(|(_, fault)| fault).unwrap();
        images.release(host).unwrap();
        assert!(images.for_name("one.db-journal").is_none() && images.for_name("other.db-journal").is_some());
        let host = other.close(None).map_err(|(_, fault)| fault).unwrap();
        images.release(host).unwrap();
        assert!(images.for_name("other.db-journal").is_none());
    }
}
