//! The counters of an image at the last `tantalum stat --reset`, stored next to it: `IMAGE.stat`.
//!
//! A drive's counters start when it is created and no command resets them, like SMART's. So a reset stores a report, and later
//! ones show what has changed since, until a power cut takes the counters back to the last checkpoint. `tantalum create
//! --aged` resets, so that what ageing wrote is not counted as a program's writes.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
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

/// The stored report, as `parsed` reads it; `None` if there is none, and the reason if it cannot be read.
pub fn kept<T>(image: &Path, parsed: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    let path = baseline_path(image);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    parsed(&text).map(Some).map_err(|why| format!("{} is not a report: {why}", path.display()))
}
