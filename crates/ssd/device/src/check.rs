//! The offline audit of an image, and its repair.
//!
//! [`check`] changes nothing: the image is opened under an overlay, the drive recovers there, and its state is then
//! compared with itself and with the flash. [`repair`] does what is possible without inventing anything: a page whose
//! record is damaged becomes uncorrectable, so that its units read as errors; a damaged tally is rebuilt; the drive
//! recovers, which frees slots that no place names, and is shut down with a checkpoint. Anything else is refused, and
//! nothing is changed.

use std::ops::ControlFlow;
use std::path::Path;

use serde::Serialize;
use tantalum_ftl::{Audit, Finding, FormatError, Ftl, FtlError, RecoveryReport};
use tantalum_nand::{Access, Examination, ImageFinding, Nand, NandError};

use crate::controller::Device;
use crate::lifecycle::DeviceError;
use crate::profile::Profile;

/// What can be done about a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remedy {
    /// A repair fixes it.
    Repair,
    /// The unit is lost: it reads as an error until it is written or trimmed.
    Rewrite,
    /// Nothing: the image is beyond repair.
    None,
}

/// Something wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CheckFinding {
    /// The part of the check that found it.
    pub part: &'static str,
    /// What is wrong.
    pub detail: String,
    /// What can be done.
    pub remedy: Remedy,
}

/// One part of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct CheckedPart {
    /// What was checked.
    pub part: &'static str,
    /// How many of them were checked.
    pub checked: u64,
}

/// What a check examined and found.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// The parts, in the order in which they were checked. Parts that earlier damage made inaccessible are missing.
    pub parts: Vec<CheckedPart>,
    /// What is wrong.
    pub findings: Vec<CheckFinding>,
    /// What recovery did, in memory; none if it was not tried or failed.
    pub recovery: Option<RecoveryReport>,
}

/// What a repair did.
#[derive(Clone, PartialEq, Debug)]
pub struct Repair {
    /// The findings before the repair.
    pub before: Check,
    /// What was done, step by step; empty if there was nothing to do, or something was beyond repair.
    pub done: Vec<String>,
    /// The findings after the repair.
    pub after: Check,
}

/// Called now and then with the number of units compared so far, and the total; a `Break` ends the check.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

const BLOCK_ENTRIES: &str = "block entries";
const PAGE_RECORDS: &str = "page records";
const NVM_LINES: &str = "lines of non-volatile memory";
const RECOVERY: &str = "spare areas read by recovery";
const PLACES: &str = "places in use";
const OWNERS: &str = "owners of shared places";
const BLOCKS: &str = "blocks and free lists";
const HINTS: &str = "living hints";
const UNITS: &str = "mapped units, spare area and data";
const RECORDS: &str = "records of key-value namespaces";

impl Check {
    /// Whether something is wrong that a repair cannot fix.
    pub fn is_beyond_repair(&self) -> bool {
        self.findings.iter().any(|finding| finding.remedy == Remedy::None)
    }

    /// Whether a repair would do anything: there is damage to repair, or the drive was not shut down.
    fn wants_repair(&self) -> bool {
        self.findings.iter().any(|finding| finding.remedy == Remedy::Repair)
            || self.recovery.is_some_and(|recovery| !recovery.clean)
    }

    fn looked_at(&mut self, part: &'static str, checked: u64) {
        self.parts.push(CheckedPart { part, checked });
    }

    fn found(&mut self, part: &'static str, detail: impl ToString, remedy: Remedy) {
        self.findings.push(CheckFinding { part, detail: detail.to_string(), remedy });
    }

    fn image(examination: &Examination) -> Check {
        let mut check = Check { parts: Vec::new(), findings: Vec::new(), recovery: None };
        check.looked_at(BLOCK_ENTRIES, examination.block_entries);
        check.looked_at(PAGE_RECORDS, examination.page_records);
        if examination.nvm_lines > 0 {
            check.looked_at(NVM_LINES, examination.nvm_lines);
        }
        for finding in &examination.findings {
            let part = match finding {
                ImageFinding::Block { .. } => BLOCK_ENTRIES,
                ImageFinding::NvmLine { .. } => NVM_LINES,
                _ => PAGE_RECORDS,
            };
            let remedy = if finding.is_repairable() { Remedy::Repair } else { Remedy::None };
            check.found(part, finding, remedy);
        }
        check
    }

    fn maps(&mut self, audit: &Audit) {
        self.looked_at(PLACES, audit.places);
        self.looked_at(OWNERS, audit.claims);
        self.looked_at(BLOCKS, audit.blocks);
        self.looked_at(HINTS, audit.hints);
        self.looked_at(UNITS, audit.units);
        self.looked_at(RECORDS, audit.records);
        audit.map_findings.iter().for_each(|finding| self.found(PLACES, finding, Remedy::None));
        for finding in &audit.unit_findings {
            self.found(part_of(finding), finding, remedy_of(finding));
        }
    }
}

fn part_of(finding: &Finding) -> &'static str {
    match finding {
        Finding::RecordsUnreadable { .. } | Finding::NotTheRecord { .. } => RECORDS,
        _ => UNITS,
    }
}

fn remedy_of(finding: &Finding) -> Remedy {
    match finding {
        Finding::Unreadable { .. } | Finding::RecordsUnreadable { .. } => Remedy::Rewrite,
        _ => Remedy::None,
    }
}

/// Checks an image without changing it.
///
/// # Errors
/// If it is not an image, or the host cannot read it. Damage is not an error but a finding.
pub fn check(path: &Path, watch: Watch<'_>) -> Result<Check, DeviceError> {
    check_and_open(path, watch).map(|(check, _)| check)
}

/// Checks an image as [`check`] does, and returns the drive as well, as it recovered; none if it did not. The image is only
/// read: everything that the drive writes stays in memory.
///
/// # Errors
/// As for [`check`].
pub fn check_and_open(path: &Path, watch: Watch<'_>) -> Result<(Check, Option<Device>), DeviceError> {
    let (mut nand, examination) = Nand::examine(path, Access::Overlay)?;
    let mut check = Check::image(&examination);
    let profile = Profile::from_toml(nand.description(), &path.display().to_string())?;
    if check.is_beyond_repair() {
        return Ok((check, None));
    }
    nand.set_scheduling(profile.scheduling());
    let (mut ftl, report) = match Ftl::recover(nand, profile.ftl_config(), 0) {
        Ok(recovered) => recovered,
        Err((_, FormatError::Ftl(FtlError::Nand(error @ NandError::Host(_))))) => return Err(error.into()),
        Err((_, error)) => {
            check.found(RECOVERY, error, Remedy::None);
            return Ok((check, None));
        }
    };
    check.looked_at(RECOVERY, report.pages_scanned);
    check.recovery = Some(report);
    let audit = audit(&mut ftl, watch)?;
    check.maps(&audit);
    let mut device = Device::without_power(profile);
    device.come_up(ftl, report);
    Ok((check, Some(device)))
}

pub(crate) fn audit(ftl: &mut Ftl, watch: Watch<'_>) -> Result<Audit, DeviceError> {
    let mut audit = ftl.audit_maps();
    let ranges: Vec<_> = ftl.map().touched().collect();
    let total = ranges.iter().map(|range| u64::from(range.end - range.start)).sum();
    let mut done = 0;
    for range in ranges {
        done += u64::from(range.end - range.start);
        ftl.audit_units(range, 0, &mut audit).map_err(FormatError::from)?;
        if watch(done, total).is_break() {
            return Err(DeviceError::Interrupted);
        }
    }
    ftl.audit_records_on_flash(&mut audit).map_err(FormatError::from)?;
    Ok(audit)
}

/// Repairs an image as far as that is sound.
///
/// # Errors
/// As for [`check`]; or if the host cannot write the image.
pub fn repair(path: &Path, watch: Watch<'_>) -> Result<Repair, DeviceError> {
    repair_and_open(path, watch).map(|(repair, _)| repair)
}

/// Repairs an image as [`repair`] does, and returns the drive of the last check, as [`check_and_open`] does.
///
/// # Errors
/// As for [`repair`].
pub fn repair_and_open(path: &Path, watch: Watch<'_>) -> Result<(Repair, Option<Device>), DeviceError> {
    let (before, device) = check_and_open(path, watch)?;
    if before.is_beyond_repair() || !before.wants_repair() {
        return Ok((Repair { after: before.clone(), before, done: Vec::new() }, device));
    }
    drop(device);
    let (nand, examination) = Nand::examine(path, Access::Write)?;
    let mut done: Vec<String> = examination.findings.iter().map(repaired).collect();
    let profile = Profile::from_toml(nand.description(), &path.display().to_string())?;
    let (ftl, report) = Ftl::recover(nand, profile.ftl_config(), 0).map_err(|(_, error)| error)?;
    let mut device = Device::without_power(profile);
    device.come_up(ftl, report);
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(DeviceError::Shutdown)?;
    let how = if report.clean { "needed no recovery" } else { "was not shut down, and was recovered" };
    done.push(format!("the drive {how}; a checkpoint was written"));
    let (after, device) = check_and_open(path, watch)?;
    Ok((Repair { before, done, after }, device))
}

/// What a repair does about a finding that it can fix.
fn repaired(finding: &ImageFinding) -> String {
    match finding {
        ImageFinding::Page { page, .. } => {
            format!("page {page} is now uncorrectable: its units read as errors, never as old data")
        }
        ImageFinding::NvmLine { line } => {
            format!("line {line} of the non-volatile memory, which the drive does not need, now holds zeros")
        }
        _ => "the tally was rebuilt from the block entries and page records".to_owned(),
    }
}
