//! An observer of an experiment on the device alone sees its drive while it is measured, too, not only while it is
//! aged.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tantalum_control::Look;
use tantalum_drive::{NewDrives, new_drives};
use tantalum_papers::experiments::{self, Settings};
use tantalum_report::Monitor;

/// Whether the drive has done what only the measurement does: ageing writes units, and nothing else.
type IsMeasured = fn(&Look) -> bool;

/// Measurements of milliseconds may be over before a busy machine has the watcher look: then the experiment runs again.
const RUNS: u64 = 20;

/// Runs the experiment, and watches its newest drive all the time.
fn is_seen(drives: NewDrives, name: &str, scale: f64, seed: u64, is_measured: IsMeasured) -> bool {
    let settings = Settings { scale: Some(scale), slower: None, seed, program: PathBuf::new() };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let look = || drives.newest().and_then(|(_, drive)| Look::at(&drive, name.into(), None));
            while !ended.load(Ordering::Relaxed) {
                if look().is_some_and(|look| is_measured(&look)) {
                    return true;
                }
                thread::sleep(Duration::from_millis(1));
            }
            false
        });
        experiments::run(experiments::find(name).unwrap(), &settings, &Monitor::silent()).unwrap();
        ended.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    })
}

#[test]
fn experiments_on_the_device_alone_are_seen_while_they_measure() {
    let drives = new_drives();
    let experiments: [(&str, f64, IsMeasured); 7] = [
        ("suspend-wuhe", 0.3, |look| !look.latency.read.is_empty()),
        ("durassd-table2", 0.1, |look| !look.latency.read.is_empty()),
        ("calibrate-openssd", 0.1, |look| !look.latency.read.is_empty()),
        ("pebble-fig6", 0.2, |look| !look.latency.map.is_empty()),
        ("kaml-fig6", 0.1, |look| !look.latency.get.is_empty()),
        ("kaml-conflicts", 0.1, |look| !look.latency.put.is_empty()),
        ("kaml-scale", 0.001, |look| !look.latency.put.is_empty()),
    ];
    for (name, scale, is_measured) in experiments {
        let is_seen = (0..RUNS).any(|seed| is_seen(drives, name, scale, seed, is_measured));
        assert!(is_seen, "nothing of {name} was seen but its ageing");
    }
}
