//! A drive in memory takes memory for what is written to it, not for what it could hold.
//!
//! `TANTALUM_TEST_MIB=4096 cargo test --release -p tantalum --test memory -- --nocapture` prints the figures of
//! docs/measurements.md.

#![cfg(target_os = "linux")]

use std::fs;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, Lpn, Profile, UNIT_BYTES};

const SMALL_BYTES: u64 = 8 << 30;
const LARGE_BYTES: u64 = 1 << 40;

/// The memory that the drive's maps and tables may take for empty blocks.
const TABLES_BYTES: u64 = 64 << 20;

/// A line of the system's account of this process, in bytes.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Peak resident memory of a new drive while this much is written to it, at random within its first `span_bytes`.
fn peak_bytes(capacity_bytes: u64, span_bytes: u64, written_bytes: u64) -> u64 {
    // resets the peak
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = status("VmRSS");
    let profile = Profile { capacity_bytes, ..Profile::load("tlc-nvme").unwrap() };
    let mut device = Device::in_memory(&profile).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut at_ns = 0;
    let data = [7; UNIT_BYTES];
    for _ in 0..written_bytes / UNIT_BYTES as u64 {
        let lpn = Lpn(random.random_range(0..span_bytes / UNIT_BYTES as u64) as u32);
        at_ns = device
            .submit(Command::Write { lpn, data: &data, fua: false, handle: None }, at_ns)
            .unwrap()
            .done_ns;
    }
    status("VmHWM") - before
}

#[test]
fn memory_follows_what_is_written_and_not_the_capacity() {
    let mib = std::env::var("TANTALUM_TEST_MIB").map_or(64, |text| text.parse().expect("a number of MiB"));
    let written = mib << 20;
    let span = (2 * written).min(SMALL_BYTES);
    let (small, large) = (peak_bytes(SMALL_BYTES, span, written), peak_bytes(LARGE_BYTES, span, written));
    println!(
        "{mib} MiB written within {} MiB: peak on 8 GiB {} MiB, on 1 TiB {} MiB",
        span >> 20,
        small >> 20,
        large >> 20
    );
    assert!(large < small + TABLES_BYTES, "1 TiB takes {large} bytes, 8 GiB {small}");
    let everywhere = peak_bytes(LARGE_BYTES, LARGE_BYTES, written);
    println!("{mib} MiB written anywhere on 1 TiB: peak {} MiB", everywhere >> 20);
    // each unit may be the first on its page of L2P
    let map = (LARGE_BYTES / 1024).min(written);
    assert!(everywhere < large + map + TABLES_BYTES, "anywhere: {everywhere} bytes, {large} within the span");
}
