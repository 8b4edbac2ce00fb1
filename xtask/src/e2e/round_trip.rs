//! Files of every kind across unmount and mount.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use nix::unistd::geteuid;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

/// Entries of the large folder.
const MANY: usize = 2000;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "1GiB", &["--time", "none"])?;
    let reference = folder.join("reference");
    for place in [&reference, &mounted.folder] {
        fill(&place.join("tree"))?;
    }
    compare(&reference, &mounted.folder)?;
    mounted.remount(&["--time", "real"])?;
    compare(&reference, &mounted.folder)?;
    for mode in ["none", "real"] {
        mounted.remount(&["--time", mode])?;
        fs::write(mounted.path("tree/again"), mode)?;
        mounted.remount(&["--time", mode])?;
        ensure(fs::read_to_string(mounted.path("tree/again"))? == mode, || "a new file is lost".to_owned())?;
    }
    fs::remove_dir_all(mounted.path("tree"))?;
    let files = mounted.stat()?["volume"]["files"].as_u64();
    ensure(files <= Some(1), || format!("{files:?} files are left of none"))?;
    mounted.unmount()?;
    let checked = Shell::new(&context.tantalum).args(["check", "--json"]).args([&mounted.image]).run()?;
    let offline = Shell::new(&context.tantalum).args(["stat"]).args([&mounted.image]).run()?;
    ensure(offline.contains("not mounted"), || offline.clone())?;
    ensure(!checked.is_empty(), || "check said nothing".to_owned())?;
    Ok(Done::Passed)
}

/// Files of every kind.
fn fill(tree: &Path) -> Result<(), Failure> {
    fs::create_dir_all(tree.join("a/b/c"))?;
    fs::write(tree.join("a/file"), "content")?;
    fs::set_permissions(tree.join("a/file"), fs::Permissions::from_mode(0o4751))?;
    fs::hard_link(tree.join("a/file"), tree.join("a/b/link"))?;
    symlink("../file", tree.join("a/b/symbolic"))?;
    symlink("x".repeat(3000), tree.join("long"))?;
    fs::write(tree.join("a/n".to_owned() + &"ä".repeat(127)), "a name of 255 bytes")?;
    fs::rename(tree.join("a/b/c"), tree.join("moved"))?;
    let large: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    fs::write(tree.join("large"), large)?;
    let sparse = fs::File::create(tree.join("sparse"))?;
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 5 << 30)?;
    fs::create_dir(tree.join("many"))?;
    for number in 0..MANY {
        fs::write(tree.join(format!("many/{number}")), number.to_string())?;
    }
    Shell::new("mkfifo").args([tree.join("fifo")]).run()?;
    if geteuid().is_root() {
        Shell::new("mknod").args([tree.join("null")]).args(["c", "1", "3"]).run()?;
        std::os::unix::fs::chown(tree.join("moved"), Some(1), Some(2))?;
    }
    Ok(())
}

/// Both folders have the same contents.
fn compare(reference: &Path, folder: &Path) -> Result<(), Failure> {
    let wanted = listing(&reference.join("tree"), Path::new(""))?;
    let found = listing(&folder.join("tree"), Path::new(""))?;
    let missing = wanted.iter().find(|line| !found.contains(line));
    let added = found.iter().find(|line| !wanted.contains(line));
    ensure(missing.is_none() && added.is_none() && wanted.len() > MANY, || {
        format!("wanted {missing:?}, found {added:?}; {} and {} files", wanted.len(), found.len())
    })?;
    Shell::new("cmp").args([reference.join("tree/large"), folder.join("tree/large")]).run()?;
    let mut end = [0; 3];
    let sparse = fs::File::open(folder.join("tree/sparse"))?;
    std::os::unix::fs::FileExt::read_exact_at(&sparse, &mut end, 5 << 30)?;
    ensure(&end == b"end" && sparse.metadata()?.blocks() < 1000, || {
        format!(
            "a sparse file ends in {end:?} and takes {} blocks",
            sparse.metadata().map_or(0, |m| m.blocks())
        )
    })
}

/// One line for each file, without what may differ between file systems.
fn listing(folder: &Path, name: &Path) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder.join(name))? {
        let path = name.join(entry?.file_name());
        let metadata = fs::symlink_metadata(folder.join(&path))?;
        let kind = metadata.file_type();
        let content = if kind.is_symlink() {
            fs::read_link(folder.join(&path))?.display().to_string()
        } else if kind.is_file() && metadata.len() < 1000 {
            fs::read_to_string(folder.join(&path))?
        } else if kind.is_char_device() {
            metadata.rdev().to_string()
        } else {
            String::new()
        };
        let size = if kind.is_dir() { 0 } else { metadata.len() };
        lines.push(format!(
            "{} {:o} {} {} {} {size} {content}",
            path.display(),
            metadata.mode(),
            metadata.nlink(),
            metadata.uid(),
            metadata.gid(),
        ));
        if kind.is_dir() {
            lines.append(&mut listing(folder, &path)?);
        }
    }
    Ok(lines)
}
