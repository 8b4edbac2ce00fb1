//! A drive whose image lies on another file system, which decides how its bytes move.

use std::fs;
use std::path::Path;

use super::context::Context;
use super::cuts;
use super::failure::{Failure, ensure};
use super::mounted::Mounted;

const BYTES: u32 = 16 << 20;

/// What is written to a drive in this folder, twice, is there after another mount, and what was synced is there after the
/// process was killed.
pub fn round_trip(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "64M", &["--time", "none"])?;
    let file = mounted.path("file");
    for round in 0..2 {
        let content: Vec<u8> =
            (round..BYTES + round).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        fs::write(&file, &content)?;
        fs::File::open(&file)?.sync_all()?;
        mounted.remount(&["--time", "none"])?;
        let found = fs::read(&file)?;
        ensure(found == content, || format!("{} is not what was written in round {round}", file.display()))?;
    }
    mounted.unmount()?;
    cuts::killed_with(context, &folder.join("killed"), &["--time", "none"])?;
    Ok(fs::remove_dir_all(folder)?)
}
