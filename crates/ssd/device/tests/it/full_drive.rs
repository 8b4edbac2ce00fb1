//! A drive that is full to its last logical unit, with little spare flash, continues to work (hazard 11).

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Device, Lpn, Profile, ShareRange, Status, UNIT_BYTES};

fn device(capacity_bytes: u64, over_provisioning_percent: f64) -> Device {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = capacity_bytes;
    profile.over_provisioning_percent = over_provisioning_percent;
    Device::in_memory(&profile).unwrap()
}

fn write(device: &mut Device, lpn: u32, now_ns: &mut u64) {
    let data = [lpn as u8; UNIT_BYTES];
    let command = Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None };
    *now_ns = device.submit(command, *now_ns).unwrap_or_else(|error| panic!("unit {lpn}: {error}")).done_ns;
}

#[test]
fn a_full_drive_takes_random_overwrites_for_ever() {
    let mut device = device(128 << 20, 7.0);
    let units = device.limits().capacity_units as u32;
    let (mut now_ns, mut rng) = (0, Xoshiro256PlusPlus::seed_from_u64(1));
    for lpn in 0..units {
        write(&mut device, lpn, &mut now_ns);
    }
    for _ in 0..4 * units {
        let lpn = rng.random_range(0..units);
        write(&mut device, lpn, &mut now_ns);
    }
    device.audit();
    let smart = device.smart();
    assert!(smart.counters.flash_units.copyback > 0 && smart.counters.flash_units.checkpoint > 0);
    assert!(smart.write_amplification() < 25.0, "write amplification {}", smart.write_amplification());
}

#[test]
fn a_full_drive_still_trims_shares_flushes_and_shuts_down() {
    let mut device = device(128 << 20, 7.0);
    let units = device.limits().capacity_units as u32;
    let (mut now_ns, mut rng) = (0, Xoshiro256PlusPlus::seed_from_u64(2));
    for lpn in 0..units {
        write(&mut device, lpn, &mut now_ns);
    }
    let mut refused = 0;
    for round in 0..20_000 {
        let (src, dst) = (rng.random_range(0..units / 2), units / 2 + rng.random_range(0..units / 2));
        let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
        let command = match round % 4 {
            0 => Command::Share { ranges: &ranges, deferred: round % 8 == 0 },
            1 => Command::Flush,
            2 => Command::Trim { lpn: Lpn(dst), units: 1 },
            _ => {
                write(&mut device, src, &mut now_ns);
                write(&mut device, dst, &mut now_ns);
                continue;
            }
        };
        match device.submit(command, now_ns) {
            Ok(completion) => now_ns = completion.done_ns,
            // the table of shared units is bounded, and says so
            Err(Status::OverLimit { .. }) => refused += 1,
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    assert!(refused < 2_500, "{refused} of 5000 shares refused");
    device.audit();
    device.shutdown(now_ns).unwrap();
}

/// Nothing but shares, each durable: their journal pages must not take what garbage collection needs.
#[test]
fn a_full_drive_in_steady_state_takes_durable_shares() {
    let mut device = device(1 << 30, 7.0);
    let units = device.limits().capacity_units as u32;
    let (mut now_ns, mut rng) = (0, Xoshiro256PlusPlus::seed_from_u64(3));
    for lpn in 0..units {
        write(&mut device, lpn, &mut now_ns);
    }
    for _ in 0..units {
        let lpn = rng.random_range(0..units);
        write(&mut device, lpn, &mut now_ns);
    }
    for round in 0..30_000 {
        let (src, dst) = (rng.random_range(0..units / 2), units / 2 + rng.random_range(0..units / 2));
        let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
        let share = Command::Share { ranges: &ranges, deferred: false };
        match device.submit(share, now_ns) {
            Ok(completion) => now_ns = completion.done_ns,
            // the table of shared units is bounded
            Err(Status::OverLimit { .. }) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
    }
    device.audit();
}
