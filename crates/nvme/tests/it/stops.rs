//! A served image is stopped while its drive loses power: the user who stopped it learns of that, and the next start
//! recovers.

use std::path::Path;
use std::thread;

use crate::common::{UNIT, names, pattern, serving, small};
use tantalum::{Device, Plp, Profile, UNIT_BYTES};
use tantalum_drive::Pacing;
use tantalum_drive::control::{Control, Ended};
use tantalum_nvme::client::{Client, Options as Way, block_command};
use tantalum_nvme::serve::{Ending, Served};
use tantalum_nvme::wire::opcode::nvm;

/// A drive that holds one flushed unit and one that waits in its cache. Its power fails by itself at this flash operation
/// from now, or at once, and then it is stopped.
fn stop_without_power(image: &Path, profile: &Profile, operation: Option<u64>) -> (Ended, Device) {
    let options = serving(image, Pacing::None);
    let served = Served::start(Device::create(image, profile).unwrap(), &options).unwrap();
    let (admin, id) = Client::admin(served.address(), Way::default(), &names(), 0).unwrap();
    let mut io = Client::io(served.address(), Way::default(), &names(), id, 1).unwrap();
    for (unit, is_flushed) in [(3, true), (4, false)] {
        let written = io.write_command(block_command(nvm::WRITE, unit, 1), &pattern(unit, UNIT)).unwrap();
        assert_eq!(written.code, 0);
        if is_flushed {
            assert_eq!(io.command(block_command(nvm::FLUSH, 0, 1)).unwrap().code, 0);
        }
    }
    let stopper = served.stopper();
    if operation.is_none() {
        // the stop is on its way before the loss
        stopper.stop();
    }
    assert_eq!(Control::connect(image).unwrap().cut(operation, 5).unwrap(), operation.is_some());
    let end = Control::connect(image).unwrap().watch_end().unwrap();
    stopper.stop();
    let serving = thread::spawn(move || served.wait(|_| {}));
    let (ended, ending) = (end.wait().unwrap(), serving.join().unwrap().unwrap());
    assert_eq!(ended == Ended::PowerLost, ending == Ending::PowerLost, "all who ask are told the same");
    drop((admin, io));
    let device = Device::open(image).unwrap();
    assert_eq!(device.recovery().clean, ended != Ended::PowerLost);
    (ended, device)
}

fn read(device: &mut Device, unit: u32) -> Vec<u8> {
    let (mut data, at_ns) = (vec![0; UNIT_BYTES], device.time_ns());
    let read = tantalum::Command::Read { lpn: tantalum::Lpn(unit), data: &mut data };
    device.submit(read, at_ns).unwrap();
    data
}

#[test]
fn power_that_goes_in_the_shutdown_is_told_and_recovered_from() {
    let folder = tempfile::tempdir().unwrap();
    for operation in 1.. {
        let image = folder.path().join(format!("{operation}.tant"));
        let (ended, mut device) = stop_without_power(&image, &small(), Some(operation));
        assert!(read(&mut device, 3) == pattern(3, UNIT), "operation {operation}: a flushed unit is lost");
        let waited = read(&mut device, 4);
        if ended != Ended::PowerLost {
            assert!(operation > 2, "a shutdown programs the unit that waits, and a checkpoint");
            assert!(waited == pattern(4, UNIT), "a unit is lost in a clean shutdown");
            return;
        }
        assert!(waited == pattern(4, UNIT) || waited == vec![0; UNIT], "operation {operation}");
    }
}

#[test]
fn a_drive_that_lost_power_just_before_the_stop_is_left_like_that() {
    let folder = tempfile::tempdir().unwrap();
    let protected = Profile { capacity_bytes: 1 << 30, ..Profile::load("tlc-nvme-plp").unwrap() };
    assert_eq!(protected.power.plp, Plp::Capacitor);
    for (name, profile) in [("plain.tant", small()), ("protected.tant", protected)] {
        let is_protected = profile.power.plp == Plp::Capacitor;
        let (ended, mut device) = stop_without_power(&folder.path().join(name), &profile, None);
        assert_eq!(ended, Ended::PowerLost);
        assert!(read(&mut device, 3) == pattern(3, UNIT));
        // a capacitor has dumped what waited
        assert!(!is_protected || read(&mut device, 4) == pattern(4, UNIT));
    }
}
