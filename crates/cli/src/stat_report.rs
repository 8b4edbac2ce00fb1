//! The report of an image for `tantalum stat`, and what has changed since an earlier one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::de::DeserializeOwned;
use tantalum::{Smart, UNIT_BYTES};
use tantalum_control::{DriveReport, HandleReport};
use tantalum_ftl::Counters;
use tantalum_fuse::report::Report as Mounted;
use tantalum_nvme::serve::Report as Served;
use tantalum_report::InvalidSetting;
use tantalum_report::table::grouped;

use crate::baseline;
use crate::failure::Failure;
use crate::life::{Life, LoadOptions, endurance};
use crate::output;

/// The report of an image, by how it is used.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(untagged)]
pub enum Report {
    /// The drive is served as NVMe namespaces.
    Served(Box<Served>),
    /// As a volume, mounted or only inspected.
    Mounted(Box<Mounted>),
}

impl Report {
    /// The drive's part.
    pub fn drive(&self) -> &DriveReport {
        match self {
            Report::Served(report) => &report.drive,
            Report::Mounted(report) => &report.drive,
        }
    }

    fn flash_units(&self) -> u32 {
        match self {
            Report::Served(report) => report.served.flash_units,
            Report::Mounted(report) => report.flash_units,
        }
    }

    /// Why a difference to an earlier report of the same image would be wrong, to follow "the drive" and be followed by what to
    /// do; none if it is right.
    pub fn went_back(&self, before: &Report) -> Option<String> {
        let counters = |report: &Report| report.drive().smart.counters;
        let (then, now) = (counters(before), counters(self));
        // recovery counts each loss, and keeps that in a checkpoint
        if now.unsafe_shutdowns > then.unsafe_shutdowns {
            return Some("lost power since then: its counters are those of its last checkpoint".to_owned());
        }
        // a look at an image that is not in use reads the volume there, and forgets it
        let named =
            |counters: &Counters| counters.flash_units.each().chain(counters.each()).collect::<Vec<_>>();
        let pairs = named(&then).into_iter().zip(named(&now));
        let mut smaller = pairs.filter(|((name, then), (_, now))| now < then && !name.contains("read"));
        let ((name, then), (_, now)) = smaller.next()?;
        Some(format!(
            "counted {} {name} then and {} now: after a loss of power, or if an older image was put back, counters are those of \
             then",
            grouped(then),
            grouped(now)
        ))
    }

    /// The life at a write amplification.
    pub fn life(&self, write_amplification: f64, load: &LoadOptions) -> Life {
        let drive = self.drive();
        let erases = drive.smart.erase_count_mean;
        let endurance = endurance(self.flash_units(), drive.capacity_units, drive.endurance_cycles, erases);
        Life::of(&endurance, write_amplification, load)
    }
}

/// An earlier report, and the name of the time since then.
pub struct Before {
    pub report: Report,
    pub since: &'static str,
}

/// Units that must be written before their write amplification is meaningful: a mount alone writes a few.
const LEAST_UNITS: u64 = 1000;

impl Before {
    /// The write amplification since then; `None` if too little was written.
    pub fn write_amplification(&self, now: &Report) -> Option<f64> {
        let change = self.change(now);
        let records = change.counters.record_bytes_put / UNIT_BYTES as u64;
        (change.counters.host_units_written + records >= LEAST_UNITS).then(|| change.write_amplification())
    }

    /// The same of a reclaim unit handle.
    pub fn write_amplification_of(&self, now: &HandleReport) -> Option<f64> {
        let then = self.report.drive().handles.iter().find(|then| then.handle == now.handle)?;
        let change = now.counters().since(&then.counters());
        change.write_amplification().filter(|_| change.host_units_written >= LEAST_UNITS)
    }

    /// The drive's counters since then.
    pub fn change(&self, now: &Report) -> Smart {
        let counters = now.drive().smart.counters.since(&self.report.drive().smart.counters);
        Smart { counters, ..now.drive().smart }
    }
}

/// What is printed as JSON.
#[derive(serde::Serialize)]
pub struct Shown<'a> {
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    life: Life,
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
}

/// What has changed since an earlier report.
#[derive(serde::Serialize)]
struct Change {
    since: &'static str,
    /// `None` if too little was written, as is the lifetime that follows from it.
    write_amplification: Option<f64>,
    counters: Counters,
    life: Option<Life>,
}

/// The report in a file that the caller names.
pub fn since(earlier: &Path, report: &Report) -> Result<Before, Failure> {
    let refused = |why: String| Failure::from(InvalidSetting::new("--since", earlier.display(), why));
    // what is not text is not JSON either
    let text = fs::read(earlier).map_err(|error| refused(error.to_string()))?;
    let text = String::from_utf8_lossy(&text);
    let before = parsed(&text)
        .map_err(|why| refused(format!("it must be the output of `tantalum stat --json`; {why}")))?;
    let Earlier { report: before, identity: then } = before;
    let (path, now) = (&report.drive().image, identity_of(&report.drive().image));
    let is_same = match (&then, &now) {
        (Some(then), Some(now)) => then == now,
        // written before reports had it, or by a host that has none
        _ => before.drive().image == *path,
    };
    if !is_same {
        let then = before.drive().image.display();
        let why = match before.drive().image == *path {
            true => format!("it must be a report of {then}; this one is of an earlier image there"),
            false => {
                format!("it must be a report of {}; this one is of another image, {then}", path.display())
            }
        };
        return Err(refused(why));
    }
    match report.went_back(&before) {
        Some(why) => Err(refused(format!("the drive {why}; take a new report"))),
        None => Ok(Before { report: before, since: "since then" }),
    }
}

/// What identifies an image, whatever it is called: its file's number on the host, and when the file was created.
fn identity_of(image: &Path) -> Option<String> {
    let file = fs::metadata(image).ok()?;
    let born = file.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{}-{}", file.ino(), born.as_nanos()))
}

/// A report that was printed earlier.
#[derive(serde::Deserialize)]
struct Earlier {
    #[serde(flatten)]
    report: Report,
    #[serde(default)]
    identity: Option<String>,
}

/// The report in a text, or why there is none, to follow a semicolon.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if text.trim().is_empty() {
        return Err("this file is empty".to_owned());
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let value = values.next().and_then(Result::ok).ok_or("this is no JSON, or its end is missing")?;
    if values.next().is_some() {
        return Err("this has more than one line of JSON: keep one".to_owned());
    }
    // serde would say which types it tried
    serde_json::from_value(value).map_err(|_| "this is JSON of something else".to_owned())
}

/// The report of the last reset. If a difference to it would be wrong, that is said, and there is none.
pub fn since_reset(image: &Path, report: &Report) -> Option<Before> {
    let before = baseline::kept(image, parsed::<Report>).and_then(|before| match before {
        Some(before) => match report.went_back(&before) {
            Some(why) => {
                let kept = baseline::baseline_path(image);
                Err(format!("{}: no changes since the reset: the drive {why}", kept.display()))
            }
            None => Ok(Some(Before { report: before, since: "since reset" })),
        },
        None => Ok(None),
    });
    before.unwrap_or_else(|why| {
        output::complain(&format!("{why}; `tantalum stat --reset` makes a new one"));
        None
    })
}

/// What is printed as JSON.
pub fn shown<'a>(report: &'a Report, before: Option<&Before>, load: &LoadOptions) -> Shown<'a> {
    let change = before.map(|before| {
        let write_amplification = before.write_amplification(report);
        Change {
            since: before.since,
            write_amplification,
            counters: before.change(report).counters,
            life: write_amplification.map(|amplification| report.life(amplification, load)),
        }
    });
    let life = report.life(report.drive().write_amplification, load);
    Shown { report, identity: identity_of(&report.drive().image), life, change }
}
