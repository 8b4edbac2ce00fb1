//! `tantalum check`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tantalum::check::{Check, CheckFinding, CheckedPart, Remedy};
use tantalum::{Device, DeviceError, Status};
use tantalum_report::Interrupted;
use tantalum_report::table::{Align, Table, count, grouped};

use crate::arguments::CheckOptions;
use crate::drive::in_use;
use crate::failure::Failure;
use crate::recovery_info::{RecoveryInfo, last_shutdown};
use crate::{check_files, check_progress, check_store, interrupt, output};

/// Findings of one part that are listed in the text output; `--json` has them all.
const LISTED: usize = 20;

/// What was checked and found.
#[derive(Serialize)]
struct Outcome {
    command: &'static str,
    #[serde(with = "tantalum_control::path")]
    image: PathBuf,
    checked: Vec<CheckedPart>,
    findings: Vec<CheckFinding>,
    last_shutdown: Option<&'static str>,
    recovery: Option<RecoveryInfo>,
    /// What was repaired; `None` if repair was not requested.
    repaired: Option<Vec<String>>,
    /// Why nothing was repaired, if there was something to repair.
    refused: Option<&'static str>,
}

/// Checks the image, prints the findings, and fails if there are any.
pub fn run(options: &CheckOptions) -> Result<(), Failure> {
    let path = &options.image;
    let outcome = outcome(options)?;
    if options.json {
        output::print_json(&outcome)?
    } else {
        output::print(&outcome.text())?
    }
    if outcome.findings.is_empty() {
        return Ok(());
    }
    let findings = count(outcome.findings.len() as u64, "finding");
    Err(Failure::Damaged { path: path.clone(), findings })
}

fn outcome(options: &CheckOptions) -> Result<Outcome, Failure> {
    let (path, monitor) = (&options.image, interrupt::monitor());
    let failed = |error| match error {
        DeviceError::Interrupted => Interrupted.into(),
        error => in_use(Failure::Image { path: path.clone(), error }),
    };
    let check = || {
        let (mut check, device) = check_progress::check(path, &monitor).map_err(failed)?;
        add_contents(&mut check, device);
        Ok::<_, Failure>(check)
    };
    if !options.repair {
        return Ok(Outcome::of(path, check()?));
    }
    let (mut repair, device) = check_progress::repair(path, &monitor)
        .map_err(|error| not_repaired(&error).unwrap_or_else(|| failed(error)))?;
    let lost = add_contents(&mut repair.after, device);
    let beyond = repair.before.is_beyond_repair();
    if !beyond && !lost.is_empty() {
        let dropped = check_store::drop_lost(path, &lost);
        repair
            .done
            .extend(dropped.map_err(|error| Failure::Store { path: path.clone(), error: error.into() })?);
        repair.after = check()?;
    }
    Ok(Outcome {
        repaired: Some(repair.done),
        refused: beyond.then_some("some damage is beyond repair, so nothing was changed; restore a backup"),
        ..Outcome::of(path, repair.after)
    })
}

/// The failure of a host that has no room, or lets nobody write; with what to do.
fn not_repaired(error: &DeviceError) -> Option<Failure> {
    let host = match error {
        DeviceError::Shutdown(Status::Host(host)) => host,
        error => error.host()?,
    };
    let can_be_mended = matches!(
        host.kind,
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
    );
    can_be_mended.then(|| Failure::NotRepaired { error: Box::new(host.clone()) })
}

/// Checks what the drive holds, and returns what is lost of a key-value store.
fn add_contents(check: &mut Check, device: Option<Device>) -> Vec<tantalum_kv::Error> {
    let (lost, device) = check_store::add_to(check, device);
    check_files::add_to(check, device);
    lost
}

impl Outcome {
    fn of(path: &Path, check: Check) -> Outcome {
        Outcome {
            command: "check",
            image: path.to_path_buf(),
            checked: check.parts,
            findings: check.findings,
            last_shutdown: check.recovery.as_ref().map(last_shutdown),
            recovery: check.recovery.as_ref().map(RecoveryInfo::of),
            repaired: None,
            refused: None,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in self.repaired.iter().flatten() {
            text += &format!("repaired: {line}\n");
        }
        if self.repaired.as_ref().is_some_and(Vec::is_empty) {
            text += &format!("nothing repaired: {}\n", self.refused.unwrap_or("no finding can be repaired"));
        }
        text += &self.table();
        text += &self.listed();
        match self.last_shutdown {
            Some(how) => text += &format!("last shutdown: {how}\n"),
            None => text += "the drive was not opened: recovery would not know what to trust\n",
        }
        text + &format!("{}\n", count(self.findings.len() as u64, "finding"))
    }

    fn table(&self) -> String {
        let columns = [("checked", Align::Left), ("how many", Align::Right), ("findings", Align::Right)];
        let mut table = Table::new(&columns);
        let mut parts: Vec<(&str, String)> =
            self.checked.iter().map(|part| (part.part, grouped(part.checked))).collect();
        // parts that failed before anything could be counted
        for finding in &self.findings {
            if !parts.iter().any(|(part, _)| *part == finding.part) {
                parts.push((finding.part, "-".to_owned()));
            }
        }
        for (part, checked) in parts {
            let findings = self.findings.iter().filter(|finding| finding.part == part).count();
            table.push(vec![part.to_owned(), checked, grouped(findings as u64)]);
        }
        table.render()
    }

    fn listed(&self) -> String {
        let mut text = String::new();
        for finding in self.findings.iter().take(LISTED) {
            let remedy = match finding.remedy {
                // a repair changes nothing of an image with damage that is beyond it
                Remedy::Repair if self.refused.is_some() => "",
                Remedy::Repair => " (repair with --repair)",
                Remedy::Rewrite => " (reads as an error until it is written or trimmed)",
                Remedy::None => " (beyond repair)",
            };
            text += &format!("{}: {}{remedy}\n", finding.part, finding.detail);
        }
        if self.findings.len() > LISTED {
            text += &format!(
                "and {} more; --json lists them all\n",
                grouped((self.findings.len() - LISTED) as u64)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use tantalum::HostError;

    use super::*;

    #[test]
    fn a_repair_without_room_says_what_to_do() {
        let host = |kind| HostError {
            path: "g.tant".into(),
            action: "apply the redo log of the image",
            kind,
            reason: "No space left on device".to_owned(),
        };
        let error = DeviceError::Shutdown(Status::Host(host(ErrorKind::StorageFull)));
        assert_eq!(
            not_repaired(&error).unwrap().to_string(),
            "image g.tant: cannot apply the redo log of the image: No space left on device; make room on the disk, and open the \
             image again"
        );
        let missing = DeviceError::Shutdown(Status::Host(host(ErrorKind::NotFound)));
        assert!(not_repaired(&missing).is_none());
    }
}
