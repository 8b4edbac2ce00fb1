//! `tantalum create`.

use std::fs;
use std::path::Path;

use tantalum::{Device, Effective, Size};
use tantalum_filesystem::FileSystem;
use tantalum_fuse::report::Report;
use tantalum_report::table::bytes;
use tantalum_volume::{FileId, MetadataChange, Volume};
use tantalum_workloads::ageing::{Ageing, age, age_leaving, fill_leaving};

use crate::arguments::CreateOptions;
use crate::drive::{check, created, give_handles, note_small_fill, promise_atomic_writes};
use crate::failure::Failure;
use crate::{baseline, interrupt, output};

/// Bytes of the page cache of a volume that is filled: its data bypass it.
const CACHE_BYTES: u64 = 16 << 20;

/// Creates an image, shut down and ready to be opened.
pub fn run(options: &CreateOptions) -> Result<(), Failure> {
    let mut profile = options.drive.load(None, options.over_provisioning_percent)?;
    if let Some(Size(bytes)) = options.index_dram {
        profile.limits.index_dram_bytes = Some(bytes);
        check(&profile, "--index-dram")?;
    }
    promise_atomic_writes(&mut profile, options.atomic_write)?;
    give_handles(&mut profile, options.handles)?;
    let path = &options.image;
    let device = created(path, &profile)?;
    let use_so_far = if options.aged || options.fill.is_some() {
        let done = used(options, device).inspect_err(|_| {
            // A partly aged drive is useless; the first error is the one that counts.
            let _ = fs::remove_file(path);
        })?;
        if options.aged && options.fill.is_none() {
            note_small_fill(&profile, ", or --fill 90");
        }
        done
    } else {
        shut_down(path, device)?;
        String::new()
    };
    output::print(&format!(
        "{}: {}, {} with {}{use_so_far}\n",
        options.image.display(),
        profile.name,
        bytes(profile.capacity_bytes),
        Effective::of(&profile),
    ))
}

/// Puts a volume on the drive, fills or ages it, and has `tantalum stat` count from there. Returns what was done.
fn used(options: &CreateOptions, device: Device) -> Result<String, Failure> {
    let (path, monitor) = (&options.image, interrupt::monitor());
    let failure = |error| Failure::Volume { path: path.clone(), error };
    let capacity_units = device.limits().capacity_units;
    let mut volume = Volume::format(device, CACHE_BYTES).map_err(failure)?;
    volume.change_metadata(FileId::ROOT, &MetadataChange::made_by_caller()).map_err(failure)?;
    let free = options.fill.map(|percent| capacity_units * u64::from(100 - percent) / 100);
    let done = match (options.aged, free) {
        (true, None) => aged(&age(&mut volume, options.seed, &monitor)?),
        (true, Some(free)) => aged(&age_leaving(&mut volume, free, options.seed, &monitor)?),
        (false, free) => {
            let filled = fill_leaving(&mut volume, free.unwrap_or(0), options.seed, &monitor)?;
            format!(", filled with {} of other data", bytes(filled))
        }
    };
    if let Some(file) = volume.find("other-data") {
        volume.change_metadata(file, &MetadataChange::made_now()).map_err(failure)?;
    }
    volume.sync_all().map_err(failure)?;
    let image = path.canonicalize().unwrap_or_else(|_| path.clone());
    let report = Report::of(&volume as &dyn FileSystem, image.clone());
    let client = volume.unmount().map_err(|failed| failure(failed.error))?;
    shut_down(path, client.into_device().expect("nobody shares the drive"))?;
    baseline::keep(&image, &report)?;
    Ok(done)
}

fn aged(ageing: &Ageing) -> String {
    let steady = if ageing.steady { "steady" } else { "not yet steady" };
    format!(
        ", filled with {} of other data and aged to write amplification {:.2} ({steady})",
        bytes(ageing.other_data_bytes),
        ageing.write_amplification
    )
}

fn shut_down(path: &Path, device: Device) -> Result<(), Failure> {
    let now_ns = device.time_ns();
    device.shutdown(now_ns).map_err(|status| Failure::Shutdown { path: path.to_path_buf(), status })
}
