//! Copies and commits that change the drive's mapping instead of writing data.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

const COPIED_UNITS: u64 = 1 << 18;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "20GiB", &["--time", "none"])?;
    let mut file = File::create(mounted.path("original"))?;
    for block in 0..1024u32 {
        let content: Vec<u8> = (0..1u32 << 18).flat_map(|word| (word ^ block << 18).to_le_bytes()).collect();
        file.write_all(&content)?;
    }
    file.sync_all()?;
    drop(file);
    let before = written(&mounted)?;
    Shell::new("cp").args([mounted.path("original"), mounted.path("copy")]).run()?;
    File::open(mounted.path("copy"))?.sync_all()?;
    let copying = written(&mounted)? - before;
    ensure(copying < COPIED_UNITS / 100, || {
        format!("a copy of {COPIED_UNITS} units wrote {copying}: they were not shared")
    })?;
    mounted.remount(&["--time", "none"])?;
    Shell::new("cmp").args([mounted.path("original"), mounted.path("copy")]).run()?;
    mounted.unmount()?;
    Ok(Done::Said(format!("               copying {COPIED_UNITS} units wrote {copying}")))
}

fn written(mounted: &Mounted<'_>) -> Result<u64, Failure> {
    let statistics = mounted.stat()?;
    let units = statistics["smart"]["host_units_written"].as_u64();
    units.ok_or_else(|| Failure::Wrong(format!("no host_units_written in {statistics}")))
}

/// The example in C, built in this folder.
pub fn commit_pages(context: &Context, folder: &Path) -> Result<PathBuf, Failure> {
    let crate_folder = context.root.join("crates/fronts/fuse");
    let program = folder.join("commit_pages");
    Shell::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .args([crate_folder.join("include")])
        .args(["-o".into(), program.clone(), crate_folder.join("examples/commit_pages.c")])
        .run()?;
    Ok(program)
}

pub fn ioctl(context: &Context, folder: &Path) -> Outcome {
    let program = commit_pages(context, folder)?;
    let mut mounted = Mounted::create(context, folder, "64M", &["--time", "none"])?;
    let (database, scratch) = (mounted.path("database"), mounted.path("scratch"));
    let said = Shell::new(&program).args([&database, &scratch]).run()?;
    ensure(said == "ok\n", || said.clone())?;
    mounted.remount(&["--time", "none"])?;
    let content = std::fs::read(&database)?;
    let pages: Vec<u8> = content.chunks(4096).map(|page| page[0]).collect();
    let is_new = |page: &usize| [0, 3, 10, 11].contains(page);
    let wanted: Vec<u8> = (0..64).map(|page| if is_new(&page) { 2 } else { 1 }).collect();
    ensure(pages == wanted, || format!("after a mount the pages are {pages:?}"))?;
    mounted.unmount()?;
    Ok(Done::Passed)
}
