//! Mounts a file system in memory, as `tantalum mount` mounts a volume: `cargo xtask e2e` runs third-party suites on it.
//! Its contents are lost with the mount; the drive, which is new, has none of them.
//!
//!     memory IMAGE FOLDER

mod file_system;

use std::error::Error;
use std::path::PathBuf;

use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_fuse::{Mounted, Options, Pacing, SYNC_INTERVAL};

use file_system::MemoryFileSystem;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [image, folder] = &arguments[..] else { return Err("usage: memory IMAGE FOLDER".into()) };
    let options = Options {
        image: image.clone(),
        folder: folder.clone(),
        pacing: Pacing::None,
        threads: 2,
        atomic_writes: false,
        sync_writes: false,
        write_back: false,
        sync_interval: SYNC_INTERVAL,
    };
    options.check()?;
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme")? };
    let client = Drive::new(Device::create(image, &profile)?).client();
    Mounted::mount(Box::new(MemoryFileSystem::new(client)), &options)?.wait(|_| ())?;
    Ok(())
}
