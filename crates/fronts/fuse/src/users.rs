//! The users of files in a folder, for a message to someone who tries to unmount it.

use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of programs named.
const MOST_NAMED: usize = 5;

/// The programs that have files open in a folder or work in it, and loop devices on its files, as text; none if this
/// user cannot see any. Nothing in the folder is accessed, because it may no longer answer.
pub(crate) fn users_of(folder: &Path) -> Option<String> {
    let programs = entries(Path::new("/proc")).filter_map(|process| program(&process, folder));
    let devices = entries(Path::new("/sys/block")).filter_map(|device| loop_device(&device, folder));
    let mut users: Vec<String> = programs.chain(devices).collect();
    let unnamed = users.len().saturating_sub(MOST_NAMED);
    users.truncate(MOST_NAMED);
    if unnamed > 0 {
        users.push(format!("{unnamed} more"));
    }
    (!users.is_empty()).then(|| users.join(", "))
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn program(process: &Path, folder: &Path) -> Option<String> {
    let number: u32 = process.file_name()?.to_str()?.parse().ok()?;
    let places = [process.join("cwd"), process.join("root"), process.join("exe")];
    let links =
        places.into_iter().chain(entries(&process.join("fd"))).chain(entries(&process.join("map_files")));
    links.filter_map(|link| fs::read_link(link).ok()).find(|path| path.starts_with(folder))?;
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    Some(format!("{} (process {number})", name.trim_end()))
}

fn loop_device(device: &Path, folder: &Path) -> Option<String> {
    let file = fs::read_to_string(device.join("loop/backing_file")).ok()?;
    let name = device.file_name()?.to_str()?;
    Path::new(file.trim_end()).starts_with(folder).then(|| format!("/dev/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_file_open_is_named_until_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        assert_eq!(users_of(&path), None);
        let file = fs::File::create(path.join("file")).unwrap();
        let users = users_of(&path).unwrap();
        assert!(users.contains(&format!("(process {})", std::process::id())), "{users}");
        drop(file);
        assert_eq!(users_of(&path), None);
    }
}
