//! Recordings of small programs.

use std::sync::Arc;

use tantalum_crash_run::operation::{FileNumber, FolderName, Made, Operation, ROOT, Recording};
use tantalum_crash_run::{Check, Losses, Outcome, Sector, Settings, check};
use tantalum_filesystem::{FileKind, RenameMode};
use tantalum_report::Monitor;

pub fn entry(name: &str) -> FolderName {
    FolderName { folder: ROOT, name: name.as_bytes().to_vec() }
}

pub fn create(name: &str, file: FileNumber) -> Operation {
    let made = Made { kind: FileKind::File, permissions: 0o644, owner: 0, group: 0, target: Vec::new() };
    Operation::Create(entry(name), file, made)
}

pub fn write(file: FileNumber, offset: u64, text: &str) -> Operation {
    Operation::Write(file, offset, Arc::from(text.as_bytes()))
}

pub fn rename(from: &str, to: &str) -> Operation {
    Operation::Rename(entry(from), entry(to), RenameMode::Replace)
}

/// `setup` is durable; the program says `done` at the end.
pub fn recording(setup: &[Operation], program: &[Operation]) -> Recording {
    let operations: Vec<Operation> = setup.iter().chain(program).cloned().collect();
    let acks = vec![(operations.len(), "done".to_owned())];
    Recording { operations, begins: setup.len(), acks }
}

pub fn settings(check: &str) -> Settings {
    Settings {
        losses: Losses::Posix(Sector::default()),
        check: Check::Command(check.to_owned()),
        check_seconds: 60,
        cuts: None,
        minutes: None,
        seed: 0,
        save: None,
    }
}

pub fn outcome(recording: &Recording, script: &str) -> Outcome {
    check(recording, &settings(script), &Monitor::silent()).unwrap()
}

pub fn old() -> Vec<Operation> {
    vec![create("config", 1), write(1, 0, "old-contents")]
}
