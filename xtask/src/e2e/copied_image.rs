//! An image on XFS that was copied by reference, and then its disk is full: a store to the image needs space that it had
//! when it was made.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::errors::Disk;
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

const DISK_BYTES: u64 = 800 << 20;
const PIECE: usize = 1 << 20;
const PIECES: u64 = 48;
/// How often the file is written: more than the drive's flash has room for.
const ROUNDS: u64 = 5;
/// Room that is left, for some of the pieces.
const ROOM_BYTES: u64 = 64 << 20;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let known = fs::read_to_string("/proc/filesystems")?;
    if !Path::new("/dev/loop-control").exists() || !known.split_whitespace().any(|word| word == "xfs") {
        return Ok(Done::LeftOut("it needs loop devices, and a kernel with xfs".to_owned()));
    }
    let (file, disk) = (folder.join("disk.xfs"), Disk(folder.join("disk")));
    fs::create_dir(&disk.0)?;
    fs::File::create(&file)?.set_len(DISK_BYTES)?;
    Shell::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).args([&file]).run()?;
    Shell::new("mount").args(["-o", "loop"]).args([&file, &disk.0]).run()?;
    let mut mounted = Mounted::create(context, &disk.0, "128MiB", &["--time", "none"])?;
    let path = mounted.path("file");
    // until the image has room for all flash, so that the copy is why a store needs more
    for _ in 0..ROUNDS {
        fs::write(&path, vec![1; PIECES as usize * PIECE])?;
        fs::File::open(&path)?.sync_all()?;
    }

    let copy = disk.0.join("copy.tant");
    Shell::new("cp").args(["--reflink=always"]).args([&mounted.image, &copy]).run()?;
    let rubbish = disk.0.join("rubbish");
    fill(&rubbish)?;
    let (synced, error) = overwrite(&path)?;
    let is_refused =
        error.as_ref().is_some_and(|error| error.raw_os_error() == Some(nix::errno::Errno::EIO as i32));
    ensure(is_refused, || format!("a write for which the disk has no room says: {error:?}"))?;
    ensure(synced > 0, || format!("nothing fits into {ROOM_BYTES} bytes"))?;
    // it is alive, and says what is lost
    mounted.stat()?;
    mounted.unmount_badly()?;

    fs::remove_file(&rubbish)?;
    mounted.mount(&["--time", "none"])?;
    check(&path, synced)?;
    let (_, error) = overwrite(&path)?;
    ensure(error.is_none(), || format!("where the disk has room, a write says: {error:?}"))?;
    mounted.unmount()?;
    Shell::new(&context.tantalum).args(["check"]).args([&copy]).run()?;
    Ok(Done::Said(format!("               {synced} MiB were synced before the disk was full, and are there")))
}

/// Writes until the disk has little room.
fn fill(path: &Path) -> Result<(), Failure> {
    let mut file = fs::File::create(path)?;
    for bytes in [1 << 20, 4096] {
        let full = (0..DISK_BYTES / bytes).find_map(|_| file.write_all(&vec![3; bytes as usize]).err());
        let error = full.ok_or_else(|| Failure::Wrong("the disk does not become full".to_owned()))?;
        ensure(error.kind() == std::io::ErrorKind::StorageFull, || format!("filling the disk: {error}"))?;
    }
    let bytes = file.metadata()?.len();
    file.set_len(bytes - ROOM_BYTES)?;
    Ok(file.sync_all()?)
}

/// Overwrites the file and syncs each piece, until there is an error. Returns how many were synced, and the error.
fn overwrite(path: &Path) -> Result<(u64, Option<std::io::Error>), Failure> {
    let file = fs::File::options().write(true).open(path)?;
    let write =
        |piece: u64| file.write_all_at(&[2; PIECE], piece * PIECE as u64).and_then(|()| file.sync_all());
    Ok((0..PIECES).find_map(|piece| Some((piece, Some(write(piece).err()?)))).unwrap_or((PIECES, None)))
}

/// Synced pieces are new, later ones old, and units of the one between are either.
fn check(path: &Path, synced: u64) -> Result<(), Failure> {
    let content = fs::read(path)?;
    ensure(content.len() == PIECES as usize * PIECE, || format!("the file has {} bytes", content.len()))?;
    for (piece, bytes) in (0..).zip(content.chunks(PIECE)) {
        for (unit, bytes) in bytes.chunks(4096).enumerate() {
            let allowed: &[u8] = match piece {
                piece if piece < synced => &[2],
                piece if piece == synced => &[1, 2],
                _ => &[1],
            };
            let is_right = allowed.contains(&bytes[0]) && bytes.iter().all(|byte| *byte == bytes[0]);
            ensure(is_right, || {
                format!("unit {unit} of MiB {piece} is neither of {allowed:?}: {:?}", &bytes[..8])
            })?;
        }
    }
    Ok(())
}
