//! Trimmed and flushed stays trimmed (D4), whatever had mapped the unit.

use tantalum::{Command, Device, Lpn, Outcome, PowerLoss, Profile, ShareRange, UNIT_BYTES, result_of};

/// A unit far from all others, so that nothing but the step under test has mapped anything near it.
const FAR: Lpn = Lpn(5000);

fn device() -> Device {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 64 << 20;
    Device::in_memory(&profile).unwrap()
}

/// Trims the unit, flushes, loses power, and reads it.
fn trimmed_and_flushed(mut device: Device) -> Vec<u8> {
    let mut now_ns = device.time_ns();
    for command in [Command::Trim { lpn: FAR, units: 3 }, Command::Flush] {
        now_ns = device.submit(command, now_ns).unwrap().done_ns;
    }
    device.cut_power(now_ns);
    device.power_on(&mut PowerLoss::all(Outcome::Completed)).unwrap();
    let mut data = vec![1; UNIT_BYTES];
    device.submit(Command::Read { lpn: FAR, data: &mut data }, device.time_ns()).unwrap();
    data
}

#[test]
fn a_unit_of_a_committed_transaction_stays_trimmed() {
    let mut device = device();
    let tx = result_of(|tx| device.submit(Command::Begin { tx }, 0)).unwrap();
    device.submit(Command::TxWrite { tx, lpn: FAR, data: &[7; UNIT_BYTES] }, 0).unwrap();
    device.submit(Command::Commit { tx }, 0).unwrap();
    assert_eq!(trimmed_and_flushed(device), [0; UNIT_BYTES]);
}

#[test]
fn a_shared_unit_stays_trimmed() {
    let mut device = device();
    device
        .submit(Command::Write { lpn: Lpn(1), data: &[7; UNIT_BYTES], fua: false, handle: None }, 0)
        .unwrap();
    let ranges = [ShareRange { dst: FAR, src: Lpn(1), units: 1 }];
    device.submit(Command::Share { ranges: &ranges, deferred: false }, 0).unwrap();
    assert_eq!(trimmed_and_flushed(device), [0; UNIT_BYTES]);
}

#[test]
fn a_written_unit_stays_trimmed() {
    let mut device = device();
    device.submit(Command::Write { lpn: FAR, data: &[7; UNIT_BYTES], fua: true, handle: None }, 0).unwrap();
    assert_eq!(trimmed_and_flushed(device), [0; UNIT_BYTES]);
}
