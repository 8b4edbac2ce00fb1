//! Programs under `tantalum crash run`: those that lose data they called durable are found, and correct ones are not.
//! Findings can be examined again.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// Stores a number in a file in several ways, and says when it is durable.
const PROGRAM: &str = r#"
import ctypes, mmap, os, sys
folder, way = sys.argv[1:]
text = lambda number: b'%d' % number * 4096

def sync_folder():
    fd = os.open(folder, os.O_RDONLY); os.fsync(fd); os.close(fd)

def replace(number, sync_file=True, sync_name=True):
    fd = os.open(folder + '/new', os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
    os.write(fd, text(number))
    if sync_file: os.fsync(fd)
    os.close(fd)
    os.rename(folder + '/new', folder + '/state')
    if sync_name: sync_folder()

def mapped(number, sync):
    with open(folder + '/state', 'r+b') as file:
        with mmap.mmap(file.fileno(), 4096) as memory:
            memory[:] = text(number)
            if sync: memory.flush()

def direct(number, sync):
    buffer = mmap.mmap(-1, 4096); buffer[:] = text(number)
    fd = os.open(folder + '/state', os.O_WRONLY | os.O_DIRECT)
    os.write(fd, buffer)
    if sync: os.fdatasync(fd)
    os.close(fd)

def in_place(number, flags=0, write_flags=0, range_only=False):
    fd = os.open(folder + '/state', os.O_WRONLY | flags)
    os.pwritev(fd, [text(number)], 0, write_flags)
    # SYNC_FILE_RANGE_WAIT_BEFORE, WRITE and WAIT_AFTER
    if range_only: ctypes.CDLL(None).sync_file_range(fd, ctypes.c_long(0), ctypes.c_long(0), 7)
    os.close(fd)

ways = {
    'o-sync': lambda number: in_place(number, flags=os.O_SYNC),
    'o-dsync': lambda number: in_place(number, flags=os.O_DSYNC),
    'rwf-dsync': lambda number: in_place(number, write_flags=os.RWF_DSYNC),
    'sync-file-range': lambda number: in_place(number, range_only=True),
    'replace': replace,
    'replace-file': lambda number: replace(number, sync_file=False),
    'replace-name': lambda number: replace(number, sync_name=False),
    'mmap': lambda number: mapped(number, True), 'mmap-unsynced': lambda number: mapped(number, False),
    'direct': lambda number: direct(number, True), 'direct-unsynced': lambda number: direct(number, False),
}
replace(0)
for number in range(1, 4):
    ways[way](number)
    print('ack', number, flush=True)
"#;

/// The last number said to be durable, or a later one; intact, if it is not written in place.
const CHECK: &str = r#"
import os, sys
said = [int(line) for line in open(os.environ['TANTALUM_ACKS'])]
state = open('state', 'rb').read() if os.path.exists('state') else b''
if not said: sys.exit(0)
if len(state) != 4096: sys.exit('%d bytes after %d' % (len(state), said[-1]))
if min(state) < ord('%d' % said[-1]): sys.exit('older than %d' % said[-1])
"#;

const WAYS: [(&str, Option<&str>); 11] = [
    ("replace", None),
    ("replace-file", Some("fsync new after write")),
    ("replace-name", Some("fsync of the folder after rename new to state")),
    ("mmap", None),
    ("mmap-unsynced", Some("fsync state after write")),
    ("direct", None),
    ("direct-unsynced", Some("fsync state after write")),
    ("o-sync", None),
    ("o-dsync", None),
    ("rwf-dsync", None),
    ("sync-file-range", Some("fsync state after write")),
];

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let (program, check) = (folder.join("program.py"), folder.join("check.py"));
    fs::write(&program, PROGRAM)?;
    fs::write(&check, CHECK)?;
    let mut checked = 0;
    for (way, saved_by) in WAYS {
        let shell =
            crash_run(context, &check).args(["--json", "--", "python3"]).args([&program]).args(["{}", way]);
        let outcome = outcome(shell, way, saved_by.is_some())?;
        checked += outcome["checked"].as_u64().unwrap_or(0);
        let Some(expected) = saved_by else { continue };
        let findings = outcome["findings"].as_array().cloned().unwrap_or_default();
        let says = |finding: &Value| finding["saved_by"].to_string().contains(expected);
        ensure(findings.iter().any(says), || format!("{way}: no finding says {expected:?}: {outcome}"))?;
    }
    keeps_findings(context, folder, &program, &check)?;
    Ok(Done::Said(format!("               {} programs, {checked} outcomes checked", WAYS.len())))
}

fn crash_run(context: &Context, check: &Path) -> Shell {
    // without modules of the site, it starts in two thirds of the time
    let check = format!("python3 -S {}", check.display());
    Shell::new(&context.tantalum).args(["crash", "run", "--check"]).args([check])
}

fn outcome(mut shell: Shell, way: &str, fails: bool) -> Result<Value, Failure> {
    let output = shell.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.code() == Some(i32::from(fails)), || {
        format!("{way} ended with {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    serde_json::from_str(&text).map_err(|error| Failure::Wrong(format!("{error}: {text}")))
}

/// A page, and a saved finding: its check fails again, and its files can be mounted, read, and changed while mounted.
fn keeps_findings(context: &Context, folder: &Path, program: &Path, check: &Path) -> Result<(), Failure> {
    let (saved, page, mount) = (folder.join("saved"), folder.join("page.html"), folder.join("mount"));
    fs::create_dir(&mount)?;
    let shell =
        crash_run(context, check).args(["--json", "--save"]).args([&saved]).args(["--report"]).args([&page]);
    outcome(shell.args(["--", "python3"]).args([program]).args(["{}", "replace-file"]), "--save", true)?;
    let text = fs::read_to_string(&page)?;
    let is_whole = ["Does not survive power loss", "fsync new after write", "</html>"]
        .iter()
        .all(|part| text.contains(part));
    ensure(is_whole, || format!("the page lacks something: {text}"))?;
    let finding = saved.join("finding-1");
    // changes to the mounted files do not reach the saved ones
    for _ in 0..2 {
        let output = Shell::new(&context.tantalum).args(["crash", "replay"]).args([&finding]).output()?;
        ensure(output.status.code() == Some(1), || format!("the check passes again: {}", output.status))?;
        mounted(context, &finding, &mount)?;
    }
    Ok(())
}

/// Ends the mount in any case.
fn mounted(context: &Context, finding: &Path, mount: &Path) -> Result<(), Failure> {
    let mut replay = Command::new(&context.tantalum);
    replay.args(["crash", "replay"]).args([finding, mount]).stdout(Stdio::piped());
    let mut process = replay.spawn()?;
    let looked = look_at(&mut process, finding, mount);
    let unmounted = Shell::new("umount").args([mount]).run();
    let status = process.wait()?;
    looked?;
    unmounted?;
    ensure(status.success(), || format!("crash replay ended with {status}"))
}

fn look_at(process: &mut Child, finding: &Path, mount: &Path) -> Result<(), Failure> {
    let mut said = String::new();
    BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut said)?;
    ensure(said.contains("holds the files of the finding"), || format!("crash replay said {said:?}"))?;
    let state = |folder: &Path| fs::read(folder.join("state")).ok();
    ensure(state(mount) == state(&finding.join("files")), || "other files are mounted".to_owned())?;
    Ok(fs::write(mount.join("state"), "changed")?)
}
