//! What `tantalum check` adds for a log-structured file system: whether its folders, files, index and segments agree.

use tantalum::Device;
use tantalum::check::{Check, CheckFinding, CheckedPart, Remedy};
use tantalum_filesystem::FileSystem;
use tantalum_lfs::{LfsError, LogFs};

const FILES: &str = "files of the file system";

const CACHE_BYTES: u64 = 16 << 20;

/// Checks the file system of a drive in which nothing was found, if it is such a one. What the mount recovers stays in memory.
pub fn add_to(check: &mut Check, device: Option<Device>) {
    let Some(device) = device.filter(|_| check.findings.is_empty()) else { return };
    let found = findings(device).unwrap_or_else(|error| Some((0, vec![error.to_string()])));
    if let Some((checked, details)) = found {
        check.parts.push(CheckedPart { part: FILES, checked });
        let finding = |detail| CheckFinding { part: FILES, detail, remedy: Remedy::None };
        check.findings.extend(details.into_iter().map(finding));
    }
}

/// How many files there are, and what is wrong; none if the drive holds no log-structured file system.
fn findings(mut device: Device) -> Result<Option<(u64, Vec<String>)>, LfsError> {
    if LogFs::kind_on(&mut device)?.is_none() {
        return Ok(None);
    }
    let mut fs = LogFs::mount(device, CACHE_BYTES)?;
    let found = fs.check()?.iter().map(ToString::to_string).collect();
    Ok(Some((fs.statistics().files, found)))
}
