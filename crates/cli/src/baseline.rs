//! The counters of an image at the last `tantalum stat --reset`, stored next to it: `IMAGE.stat`.
//!
//! A drive's counters start when it is created and never go back, like SMART's. So a reset stores a report, and later
//! ones show what has changed since. `tantalum create --aged` resets, so that what ageing wrote is not counted as a
//! program's writes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tantalum_report::ReportError;

/// The file next to an image.
pub fn baseline_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".stat");
    PathBuf::from(name)
}

/// Keeps a report.
pub fn keep(image: &Path, report: &impl Serialize) -> Result<(), ReportError> {
    let text = serde_json::to_string_pretty(report).expect("reports are plain data");
    tantalum_report::save(&text, &baseline_path(image))
}

/// Removes what was stored for an earlier image at this path.
pub fn forget(image: &Path) {
    let _ = fs::remove_file(baseline_path(image));
}

/// The stored report; `None` if there is none, and the reason if it cannot be read.
pub fn kept<T: DeserializeOwned>(image: &Path) -> Result<Option<T>, String> {
    let path = baseline_path(image);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    let report = serde_json::from_str(&text);
    report.map(Some).map_err(|error| format!("{} is not a report: {error}", path.display()))
}
