//! One write of 4 KiB on a mounted volume, and its fsync, for counting the files that they execute: `cargo build --profile
//! profiling -p tantalum-fuse --example counted_mount`, then, where folders can be mounted, `valgrind --tool=callgrind
//! --dump-line=yes --toggle-collect='*Requests as fuser::Filesystem>::write' --toggle-collect='*Requests as
//! fuser::Filesystem>::fsync' target/profiling/examples/counted_mount`. Another program writes, `dd`, so that the kernel asks
//! this one.

use std::error::Error;
use std::fs::{self, File};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_fuse::{Mounted, Options, Pacing};
use tantalum_volume::Volume;

/// Nothing is written back meanwhile.
const NEVER: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    let (folder, image) = (place.path().join("folder"), place.path().join("drive"));
    fs::create_dir(&folder)?;
    // the mount is known by the path of an image, and this drive is in memory
    File::create(&image)?;
    let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021")? };
    let mut volume = Volume::format(Drive::new(Device::in_memory(&profile)?).client(), 16 << 20)?;
    let file = volume.create("file")?;
    volume.write(file, 0, &[1; 1 << 20])?;
    volume.sync(file)?;
    let options = Options {
        image,
        folder: folder.clone(),
        pacing: Pacing::None,
        threads: 1,
        atomic_writes: false,
        sync_writes: false,
        write_back: false,
        sync_interval: NEVER,
    };
    options.check()?;
    let mounted = Mounted::mount(Box::new(volume), &options)?;
    let stopper = mounted.stopper();
    let mount = thread::spawn(move || mounted.wait(|_| ()));
    let written = Command::new("dd")
        .args(["if=/dev/zero", "bs=4096", "count=1", "seek=5", "conv=notrunc,fsync", "status=none"])
        .arg(format!("of={}", folder.join("file").display()))
        .status();
    stopper.stop();
    mount.join().expect("the mount does not panic")?;
    assert!(written?.success());
    Ok(())
}
