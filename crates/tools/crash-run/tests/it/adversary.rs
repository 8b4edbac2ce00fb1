//! The files that may be left: what POSIX allows is among the outcomes, and what no system does is not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::{create, entry, recording, rename, settings, write};
use tantalum_crash_run::operation::{Attribute, FolderName, Made, Operation, ROOT};
use tantalum_crash_run::{Check, Losses, Sector, Settings, check};
use tantalum_filesystem::{FileKind, RenameMode};
use tantalum_report::Monitor;

/// What was seen: all outcomes, and those after the program's last operation.
#[derive(Default)]
struct Seen {
    any: BTreeSet<String>,
    at_end: BTreeSet<String>,
}

impl Seen {
    fn has(&self, files: &str) -> bool {
        self.any.contains(files)
    }
}

fn seen_with(sector: Sector, setup: &[Operation], program: &[Operation]) -> Seen {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let into = Arc::clone(&seen);
    let look = move |folder: &Path, acks: &[String]| {
        let mut lines = Vec::new();
        describe(folder, "", &mut lines);
        let mut seen = into.lock().unwrap();
        if !acks.is_empty() {
            seen.at_end.insert(lines.join(" "));
        }
        seen.any.insert(lines.join(" "));
        Ok(())
    };
    let settings =
        Settings { losses: Losses::Posix(sector), check: Check::Function(Arc::new(look)), ..settings("") };
    let outcome = check(&recording(setup, program), &settings, &Monitor::silent()).unwrap();
    assert_eq!(outcome.failed, 0);
    let mut found = seen.lock().unwrap();
    std::mem::take(&mut *found)
}

fn seen(setup: &[Operation], program: &[Operation]) -> Seen {
    seen_with(Sector::Bytes512, setup, program)
}

/// `name=contents`, where contents are runs of a byte, and 0 for zeros; folders end with a slash.
fn describe(folder: &Path, prefix: &str, lines: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().display());
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            lines.push(format!("{name}/"));
            describe(&entry.path(), &format!("{name}/"), lines);
            continue;
        }
        let mode = metadata.permissions().mode() & 0o777;
        let mode = if mode == 0o644 { String::new() } else { format!(":{mode:o}") };
        lines.push(format!("{name}{mode}={}", runs(&fs::read(entry.path()).unwrap())));
    }
}

fn runs(bytes: &[u8]) -> String {
    let parts = bytes.chunk_by(|a, b| a == b);
    let texts = parts.map(|part| {
        let byte = if part[0] == 0 { '0' } else { char::from(part[0]) };
        if part.len() == 1 { byte.to_string() } else { format!("{byte}{}", part.len()) }
    });
    texts.collect::<Vec<_>>().join(",")
}

fn folder(name: FolderName, file: u64) -> Operation {
    let made = Made { kind: FileKind::Folder, permissions: 0o755, owner: 0, group: 0, target: Vec::new() };
    Operation::Create(name, file, made)
}

fn inside(folder: u64, name: &str) -> FolderName {
    FolderName { folder, name: name.as_bytes().to_vec() }
}

/// A file `a` of `A`.
fn a(bytes: usize) -> Vec<Operation> {
    vec![create("a", 1), write(1, 0, &"A".repeat(bytes))]
}

#[test]
fn a_rename_may_be_there_without_the_bytes_of_either_file() {
    let program = [
        create("a", 1),
        write(1, 0, "AA"),
        Operation::SyncFolder(ROOT),
        create("b", 2),
        write(2, 0, "BBB"),
        rename("b", "a"),
    ];
    let seen = seen(&[], &program);
    for files in ["a=", "a=03", "a=B3", "a=A2", "a= b=", "a=A2 b="] {
        assert!(seen.has(files), "{files} is not in {:?}", seen.any);
    }
}

#[test]
fn a_synced_file_is_lost_with_its_folder() {
    let program = [
        folder(entry("d"), 1),
        Operation::Create(inside(1, "f"), 2, file_made()),
        write(2, 0, "F"),
        Operation::Sync(2),
        Operation::SyncFolder(1),
    ];
    assert_eq!(seen(&[], &program).at_end, ["", "d/ d/f=F"].map(str::to_owned).into());
    let program = [&program[..], &[Operation::SyncFolder(ROOT)]].concat();
    assert_eq!(seen(&[], &program).at_end, ["d/ d/f=F".to_owned()].into());
}

fn file_made() -> Made {
    Made { kind: FileKind::File, permissions: 0o644, owner: 0, group: 0, target: Vec::new() }
}

/// The kernel takes a write page by page; a reader that trusts whatever is there of an append must notice.
#[test]
fn an_append_may_end_at_a_page_and_may_be_zeros() {
    let seen = seen(&a(100), &[write(1, 100, &"B".repeat(10_000))]);
    for files in ["a=A100", "a=A100,B3996", "a=A100,B8092", "a=A100,B10000", "a=A100,010000"] {
        assert!(seen.has(files), "{files} is not in {:?}", seen.any);
    }
    // within a page the size is either the program's new one or the old one
    let size = |files: &String| {
        files.split([',', '=']).skip(1).map(|run| run[1..].parse::<usize>().unwrap_or(1)).sum::<usize>()
    };
    let sizes: BTreeSet<usize> = seen.any.iter().map(size).collect();
    assert_eq!(sizes, [100, 4096, 8192, 10_100].into());
}

#[test]
fn sectors_are_as_large_as_the_disk_says() {
    let program = [write(1, 0, &"B".repeat(8192))];
    let torn = |seen: &Seen, bytes: usize| seen.has(&format!("a=B{bytes},A{}", 8192 - bytes));
    let small = seen(&a(8192), &program);
    assert!(torn(&small, 512) && torn(&small, 4096), "{:?}", small.any);
    let large = seen_with(Sector::KiB4, &a(8192), &program);
    assert_eq!(large.any, ["a=A8192", "a=B8192", "a=B4096,A4096", "a=A4096,B4096"].map(str::to_owned).into());
}

/// The kernel writes a sector as the program last saw it.
#[test]
fn of_two_writes_to_a_sector_the_later_is_not_alone() {
    let found = seen(&a(600), &[write(1, 0, "B"), write(1, 1, "C"), write(1, 520, "D")]);
    assert!(found.has("a=B,A599") && found.has("a=B,C,A598") && found.has("a=A520,D,A79"), "{:?}", found.any);
    assert!(!found.any.iter().any(|files| files.starts_with("a=A,C")), "{:?}", found.any);
    // after a sync, the later one is new
    let synced = [write(1, 0, "B"), Operation::Sync(1), write(1, 1, "C")];
    assert_eq!(seen(&a(2), &synced).at_end, ["a=B,A", "a=B,C"].map(str::to_owned).into());
}

#[test]
fn renames_are_in_any_order_and_never_half_done() {
    let setup = [create("a", 1), write(1, 0, "A"), create("b", 2), write(2, 0, "B")];
    let program = [rename("a", "c"), rename("b", "d")];
    let all = ["a=A b=B", "b=B c=A", "a=A d=B", "c=A d=B"];
    assert_eq!(seen(&setup, &program).any, all.map(str::to_owned).into());
    let exchange = [Operation::Rename(entry("a"), entry("b"), RenameMode::Exchange)];
    assert_eq!(seen(&setup, &exchange).any, ["a=A b=B", "a=B b=A"].map(str::to_owned).into());
}

#[test]
fn a_new_name_may_be_lost_while_the_old_one_is_gone() {
    let program = [Operation::Link(entry("b"), 1), Operation::Unlink(entry("a"))];
    let all = ["a=A", "a=A b=A", "", "b=A"];
    assert_eq!(seen(&a(1), &program).any, all.map(str::to_owned).into());
    // the same name again, for another file
    let program = [Operation::Unlink(entry("a")), create("a", 2), write(2, 0, "N")];
    for files in ["a=A", "", "a=", "a=0", "a=N"] {
        assert!(seen(&a(1), &program).has(files), "{files}");
    }
}

#[test]
fn a_file_may_be_shorter_without_what_was_written_then() {
    let program = [Operation::Resize(1, 0), write(1, 0, "NN")];
    let found = seen(&a(3), &program);
    for files in ["a=A3", "a=", "a=02", "a=N2", "a=N2,A"] {
        assert!(found.has(files), "{files} is not in {:?}", found.any);
    }
    let program = [Operation::Resize(1, 0), write(1, 0, "NN"), Operation::SyncData(1)];
    assert_eq!(seen(&a(3), &program).at_end, ["a=N2".to_owned()].into());
}

#[test]
fn room_is_there_or_not_and_a_hole_may_be_a_part() {
    let allocate = |keep_size| Operation::Allocate { file: 1, offset: 0, bytes: 5000, keep_size };
    assert_eq!(seen(&a(2), &[allocate(false)]).any, ["a=A2", "a=A2,04998"].map(str::to_owned).into());
    assert_eq!(seen(&a(2), &[allocate(true)]).any, ["a=A2".to_owned()].into());
    let punch = Operation::Zero { file: 1, offset: 4000, bytes: 5000, keep_size: true };
    let found = seen(&a(12_288), &[punch]);
    for files in ["a=A12288", "a=A4000,05000,A3288", "a=A4000,096,A8192", "a=A4096,04904,A3288"] {
        assert!(found.has(files), "{files} is not in {:?}", found.any);
    }
}

#[test]
fn fdatasync_leaves_permissions_and_fsync_does_not() {
    let chmod = Operation::Change(1, Attribute::Permissions(0o600));
    let data = seen(&a(1), &[chmod.clone(), Operation::SyncData(1)]);
    assert_eq!(data.at_end, ["a=A", "a:600=A"].map(str::to_owned).into());
    assert_eq!(seen(&a(1), &[chmod, Operation::Sync(1)]).at_end, ["a:600=A".to_owned()].into());
}

/// Was a false finding: nothing made the permissions of a folder durable.
#[test]
fn fsync_of_a_folder_makes_its_permissions_durable() {
    let modes: Arc<Mutex<BTreeSet<u32>>> = Arc::default();
    let into = Arc::clone(&modes);
    let look = move |path: &Path, acks: &[String]| {
        if !acks.is_empty() {
            into.lock().unwrap().insert(fs::metadata(path.join("d")).unwrap().mode() & 0o777);
        }
        Ok(())
    };
    let program = [Operation::Change(1, Attribute::Permissions(0o700)), Operation::SyncFolder(1)];
    let settings = Settings { check: Check::Function(Arc::new(look)), ..settings("") };
    check(&recording(&[folder(entry("d"), 1)], &program), &settings, &Monitor::silent()).unwrap();
    assert_eq!(*modes.lock().unwrap(), [0o700].into());
}

/// Everything lost from one file, and nothing else: twenty writes to each of two files, and then a name.
#[test]
fn a_file_may_lose_all_while_another_loses_nothing() {
    let setup = [create("a", 1), create("b", 2)];
    let mut program = Vec::new();
    for number in 0..20 {
        let at = 512 * number;
        program.extend([write(1, at, &"A".repeat(512)), write(2, at, &"B".repeat(512))]);
    }
    let found = seen(&setup, &program);
    assert!(found.has("a= b=B10240") && found.has("a=A10240 b="), "{:?}", found.any);
}
