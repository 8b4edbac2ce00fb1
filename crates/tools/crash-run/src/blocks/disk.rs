//! What a drive holds, as a file for a check.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tantalum::{Command, Device, Lpn, UNIT_BYTES};

use crate::error::RunError;

/// Units read at once.
const TOGETHER: u32 = 256;

/// A folder with the disk that a check gets, and what was acknowledged before.
#[derive(Debug)]
pub struct Disk {
    /// The folder with everything about it.
    pub place: PathBuf,
}

impl Disk {
    /// Writes what a drive holds. Units without contents become holes.
    pub fn write(place: PathBuf, device: &mut Device, acks: &[String]) -> Result<Disk, RunError> {
        let disk = Disk { place };
        fs::create_dir_all(disk.folder()).map_err(RunError::files(disk.folder()))?;
        let text: String = acks.iter().map(|line| format!("{line}\n")).collect();
        fs::write(disk.acks(), text).map_err(RunError::files(disk.acks()))?;
        let path = disk.folder().join("disk");
        let file = File::create(&path).map_err(RunError::files(&path))?;
        copy(device, &file, &path)?;
        Ok(disk)
    }

    /// Where the check runs: the folder of the file `disk`.
    pub fn folder(&self) -> PathBuf {
        self.place.join("dir")
    }

    /// The file with what was acknowledged.
    pub fn acks(&self) -> PathBuf {
        self.place.join("acks")
    }

    /// Removes it.
    pub fn remove(self) -> Result<(), RunError> {
        fs::remove_dir_all(&self.place).map_err(RunError::files(&self.place))
    }
}

fn copy(device: &mut Device, file: &File, path: &Path) -> Result<(), RunError> {
    let units = device.limits().capacity_units as u32;
    file.set_len(u64::from(units) * UNIT_BYTES as u64).map_err(RunError::files(path))?;
    let mut data = vec![0; TOGETHER as usize * UNIT_BYTES];
    for first in (0..units).step_by(TOGETHER as usize) {
        let count = TOGETHER.min(units - first);
        if !(first..first + count).any(|unit| device.is_mapped(Lpn(unit))) {
            continue;
        }
        let data = &mut data[..count as usize * UNIT_BYTES];
        let at_ns = device.time_ns();
        device
            .submit(Command::Read { lpn: Lpn(first), data }, at_ns)
            .map_err(|status| RunError::DiskUnreadable { unit: first, status })?;
        for (unit, data) in (first..).zip(data.chunks_exact(UNIT_BYTES)) {
            if data.iter().any(|byte| *byte != 0) {
                file.write_all_at(data, u64::from(unit) * UNIT_BYTES as u64)
                    .map_err(RunError::files(path))?;
            }
        }
    }
    Ok(())
}
