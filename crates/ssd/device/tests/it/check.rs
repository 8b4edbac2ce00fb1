//! The check of a sound image and its repair: what they examine, what they report, and that they change nothing.

use crate::host;
use crate::small_drive;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use host::{Host, hint};
use small_drive::small_drive;
use tantalum::check::{Repair, check, repair};
use tantalum::{Device, Plp};

/// An image with ten units, one of them shared, two waiting hints and three records. It was shut down, or its process was
/// killed.
fn image(folder: &Path, shut_down: bool) -> PathBuf {
    let path = folder.join("drive.tantalum");
    let profile = small_drive("tlc-nvme", 4 << 20, 30.0, Plp::None);
    let mut host = Host { device: Device::create(&path, &profile).unwrap(), now_ns: 0 };
    (0..9).for_each(|lpn| host.write_through(lpn, 1));
    host.share(9, 0);
    let log = host.begin_log();
    for slot in 1..=2 {
        host.write_page(20 + slot, 2, hint(log, slot, slot)).unwrap();
    }
    let namespace = host.create_namespace();
    (0..3).for_each(|number| host.put(namespace, number, 100).unwrap());
    host.flush();
    if shut_down {
        let now_ns = host.device.time_ns();
        host.device.shutdown(now_ns).unwrap();
    }
    path
}

fn repaired(path: &Path) -> Repair {
    repair(path, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_check_names_each_part_once_with_how_many_it_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    let checked = check(&image(folder.path(), true), &mut |done, total| {
        told.push((done, total));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(checked.findings, []);
    let names: BTreeSet<_> = checked.parts.iter().map(|part| part.part).collect();
    assert_eq!(names.len(), checked.parts.len(), "each part is named once: {:?}", checked.parts);
    let of = |name: &str| {
        checked.parts.iter().find(|part| part.part.starts_with(name)).map_or(0, |part| part.checked)
    };
    assert_eq!(of("mapped unit"), 12, "{:?}", checked.parts);
    assert_eq!(
        of("places"),
        12,
        "one of these units is shared, and the records take one: {:?}",
        checked.parts
    );
    assert_eq!(of("records"), 3, "{:?}", checked.parts);
    for name in ["block entries", "page records", "spare areas", "blocks"] {
        assert!(of(name) > 0, "{name}: {:?}", checked.parts);
    }
    let (done, total) = *told.last().expect("progress is told");
    assert!(done == total && total >= 12, "{told:?}");
    assert!(told.is_sorted() && told.iter().all(|step| step.1 == total), "{told:?}");
}

#[test]
fn a_repair_of_a_sound_image_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), true);
    let before = std::fs::read(&path).unwrap();
    let repair = repaired(&path);
    assert!(repair.done.is_empty(), "{:?}", repair.done);
    assert_eq!(repair.after, repair.before);
    assert!(std::fs::read(&path).unwrap() == before, "the image changed");
}

#[test]
fn a_repair_recovers_a_drive_that_was_not_shut_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), false);
    let repair = repaired(&path);
    assert_eq!(repair.done, ["the drive was not shut down, and was recovered; a checkpoint was written"]);
    let clean = |of: &tantalum::check::Check| of.recovery.map(|report| report.clean);
    assert_eq!((clean(&repair.before), clean(&repair.after)), (Some(false), Some(true)));
}
