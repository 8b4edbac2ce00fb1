//! The benchmark measures what it claims, and leaves nothing behind.

use std::time::Duration;

use crate::common::small;
use tantalum_drive::Pacing;
use tantalum_nvme::bench::{BenchError, CASES, Settings, bench};

fn settings(pacing: Pacing) -> Settings {
    Settings { profile: small(), image: None, pacing, round: Duration::from_millis(20), rounds: 1 }
}

#[test]
fn every_case_is_measured_on_both_drives_and_the_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("bench.tant");
    let settings = Settings { image: Some(image.clone()), ..settings(Pacing::None) };
    let mut told = Vec::new();
    let outcomes = bench(&settings, &mut |drive, case| {
        told.push((drive.to_owned(), case.name));
        true
    })
    .unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.drive).collect::<Vec<_>>(), ["memory", "file"]);
    assert_eq!(told.len(), 2 * CASES.len());
    for outcome in &outcomes {
        for row in &outcome.rows {
            assert!(row.served.per_second > 0.0 && row.limit.per_second > 0.0, "{row:?}");
            assert!(row.served.median_us > 0.0 && row.of_limit > 0.0 && row.drive_us.is_none(), "{row:?}");
        }
    }
    assert!(!image.exists());
    // a file that is there is not touched
    std::fs::write(&image, b"mine").unwrap();
    assert!(matches!(bench(&settings, &mut |_, _| true), Err(BenchError::Device(_))));
    assert_eq!(std::fs::read(&image).unwrap(), b"mine");
}

#[test]
fn hosts_see_at_least_the_drives_latency_in_real_time() {
    let outcomes = bench(&settings(Pacing::Real), &mut |_, _| true).unwrap();
    let row = &outcomes[0].rows[0];
    let drive_us = row.drive_us.expect("single reads have it");
    assert!(drive_us > 50.0, "a read of flash takes 50 us: {drive_us}");
    assert!(row.served.median_us >= drive_us, "{row:?}");
}

#[test]
fn it_can_be_interrupted() {
    let mut left = 3;
    let ended = bench(&settings(Pacing::None), &mut |_, _| {
        left -= 1;
        left > 0
    });
    assert!(matches!(ended, Err(BenchError::Interrupted)));
}
