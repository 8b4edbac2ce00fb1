//! Programs under `tantalum crash run`: those that lose what they said is durable are found, and right ones are not.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::failure::{Failure, ensure};
use super::shell::Shell;
use super::{Context, Done, Outcome};

/// Keeps a number in a file in several ways, and says when it is durable.
const PROGRAM: &str = r#"
import mmap, os, sys
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

ways = {
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

/// The number that was said last, or a later one; whole, if it is not written in place.
const CHECK: &str = r#"
import os, sys
said = [int(line) for line in open(os.environ['TANTALUM_ACKS'])]
state = open('state', 'rb').read() if os.path.exists('state') else b''
if not said: sys.exit(0)
if len(state) != 4096: sys.exit('%d bytes after %d' % (len(state), said[-1]))
if min(state) < ord('%d' % said[-1]): sys.exit('older than %d' % said[-1])
"#;

const WAYS: [(&str, Option<&str>); 7] = [
    ("replace", None),
    ("replace-file", Some("fsync new after write")),
    ("replace-name", Some("fsync of the folder after rename new to state")),
    ("mmap", None),
    ("mmap-unsynced", Some("fsync state after write")),
    ("direct", None),
    ("direct-unsynced", Some("fsync state after write")),
];

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let (program, check) = (folder.join("program.py"), folder.join("check.py"));
    fs::write(&program, PROGRAM)?;
    fs::write(&check, CHECK)?;
    let mut checked = 0;
    for (way, saved_by) in WAYS {
        let mut shell = Shell::new(&context.tantalum)
            .args(["crash", "run", "--json", "--check"])
            .args([format!("python3 {}", check.display())])
            .args(["--", "python3"])
            .args([&program])
            .args(["{}", way]);
        let output = shell.output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let code = i32::from(saved_by.is_some());
        ensure(output.status.code() == Some(code), || {
            format!("{way} ended with {}: {text}{}", output.status, String::from_utf8_lossy(&output.stderr))
        })?;
        let outcome: Value =
            serde_json::from_str(&text).map_err(|error| Failure::Wrong(format!("{error}: {text}")))?;
        checked += outcome["checked"].as_u64().unwrap_or(0);
        let Some(expected) = saved_by else { continue };
        let findings = outcome["findings"].as_array().cloned().unwrap_or_default();
        let says = |finding: &Value| finding["saved_by"].to_string().contains(expected);
        ensure(findings.iter().any(says), || format!("{way}: no finding says {expected:?}: {text}"))?;
    }
    Ok(Done::Said(format!("               {} programs, {checked} outcomes checked", WAYS.len())))
}
