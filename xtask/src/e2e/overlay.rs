//! A mounted volume as the upper layer of overlayfs: the kernel creates whiteouts and its own extended attributes on it.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::ensure;
use super::image_on;
use super::mounted::Mounted;
use super::shell::Shell;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    if !fs::read_to_string("/proc/filesystems")?.lines().any(|line| line.ends_with("\toverlay")) {
        return Ok(Done::LeftOut("this kernel has no overlayfs".to_owned()));
    }
    let lower = folder.join("lower");
    fs::create_dir_all(lower.join("folder"))?;
    for name in ["kept", "changed", "removed", "moved", "folder/inner"] {
        fs::write(lower.join(name), name)?;
    }
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    for name in ["upper", "work"] {
        fs::create_dir(mounted.path(name))?;
    }
    let merged = folder.join("merged");
    fs::create_dir(&merged)?;
    overlay(&lower, &mounted, &merged)?;
    let changed = change(&merged).and_then(|()| image_on::round_trip(context, &merged.join("drive")));
    let unmounted = Shell::new("umount").args([&merged]).run();
    changed?;
    unmounted?;
    check_upper(&mounted)?;
    mounted.remount(&["--time", "none"])?;
    overlay(&lower, &mounted, &merged)?;
    let found = check_merged(&merged);
    Shell::new("umount").args([&merged]).run()?;
    found?;
    ensure(fs::read_to_string(lower.join("changed"))? == "changed", || "the lower layer changed".to_owned())?;
    mounted.unmount()?;
    Ok(Done::Passed)
}

fn overlay(lower: &Path, mounted: &Mounted<'_>, merged: &Path) -> Result<String, super::failure::Failure> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        mounted.path("upper").display(),
        mounted.path("work").display()
    );
    Shell::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).args([merged]).run()
}

/// Changes, removes and renames files of the lower layer.
fn change(merged: &Path) -> Result<(), super::failure::Failure> {
    fs::write(merged.join("changed"), "new")?;
    fs::remove_file(merged.join("removed"))?;
    fs::rename(merged.join("moved"), merged.join("elsewhere"))?;
    fs::remove_dir_all(merged.join("folder"))?;
    fs::create_dir(merged.join("folder"))?;
    Ok(())
}

/// What the kernel stores of that on the volume.
fn check_upper(mounted: &Mounted<'_>) -> Result<(), super::failure::Failure> {
    for name in ["removed", "moved"] {
        let whiteout = fs::symlink_metadata(mounted.path("upper").join(name))?;
        ensure(whiteout.file_type().is_char_device() && whiteout.rdev() == 0, || {
            format!("upper/{name} is not a whiteout: {whiteout:?}")
        })?;
    }
    Ok(())
}

fn check_merged(merged: &Path) -> Result<(), super::failure::Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(merged)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    ensure(names == ["changed", "elsewhere", "folder", "kept"], || format!("the layers show {names:?}"))?;
    let contents = |name: &str| fs::read_to_string(merged.join(name));
    ensure(contents("changed")? == "new" && contents("elsewhere")? == "moved", || {
        "a file has other contents".to_owned()
    })?;
    ensure(fs::read_dir(merged.join("folder"))?.next().is_none(), || {
        "what a removed folder held is back".to_owned()
    })
}
