//! A served image is stopped, also while its drive loses power or its host fails: the user who stopped it learns how it ended,
//! and then the image can be served again at the same address.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use crate::common::{UNIT, names, pattern, serving, small};
use tantalum::{Access, Device, HostFailure, HostFault, Mapping, Plp, Profile, TestHost, UNIT_BYTES};
use tantalum_control::{Control, Ended};
use tantalum_drive::Pacing;
use tantalum_nvme::client::{Client, Options as Way, block_command};
use tantalum_nvme::ports::PortAccess;
use tantalum_nvme::serve::{Ending, ServeError, Served};
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

/// An image of a drive on a host that a test lets fail.
fn on_a_disk(image: &Path) -> (Device, TestHost) {
    Device::create(image, &small()).unwrap().shutdown(0).unwrap();
    let disk = TestHost::new(Mapping::Never, 1);
    (Device::open_on(image, Access::Write, &disk).unwrap(), disk)
}

const FULL: HostFault = HostFault { after: 0, failure: HostFailure::NoSpace, lasts: true };

/// Serves the drive, fills the disk if it is to, and stops. Returns how it ended for whoever asked, and the address. What belongs
/// to the server's process stays, as it does until the process has ended.
fn stop(device: Device, image: &Path, is_full: Option<&TestHost>) -> (Ended, SocketAddr) {
    let served = Served::start(device, &serving(image, Pacing::None)).unwrap();
    let (address, stopper) = (served.address(), served.stopper());
    is_full.inspect(|disk| disk.faults.fail(FULL));
    let end = Control::connect(image).unwrap().watch_end().unwrap();
    let serving = thread::spawn(move || served.wait(|_| {}));
    stopper.stop();
    let ended = end.wait().unwrap();
    // before the server's process could do anything else
    TcpListener::bind(address).unwrap_or_else(|error| panic!("after {ended:?} {address}: {error}"));
    let _ = serving.join().unwrap();
    (ended, address)
}

/// `tantalum stop` returned while the process that it had stopped still listened, so that a server started at once found its port
/// in use. If the image could not be closed, that process also had it locked.
#[test]
fn whoever_learns_of_the_end_can_serve_the_image_again_at_the_same_address() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let (device, disk) = on_a_disk(&image);
    let (ended, _) = stop(device, &image, None);
    assert_eq!(ended, Ended::Closed);
    let device = Device::open_on(&image, Access::Write, &disk).expect("it is not locked");
    let (ended, address) = stop(device, &image, Some(&disk));
    assert!(matches!(&ended, Ended::Failed(why) if why.contains("No space left")), "{ended:?}");
    disk.faults.heal();
    let device = Device::open(&image).expect("it is not locked");
    let options = tantalum_nvme::serve::Options {
        listen: vec![(address, PortAccess::Optimized)],
        ..serving(&image, Pacing::None)
    };
    drop(Served::start(device, &options).unwrap());
}

/// On a full disk the drive could not be closed either, and that was all that was said.
#[test]
fn why_an_image_cannot_be_served_is_said_also_if_it_cannot_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("drive.tant");
    let (device, disk) = on_a_disk(&image);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = tantalum_nvme::serve::Options {
        listen: vec![(taken.local_addr().unwrap(), PortAccess::Optimized)],
        ..serving(&image, Pacing::None)
    };
    disk.faults.fail(FULL);
    let refused = Served::start(device, &options).err().expect("somebody listens there");
    assert!(disk.faults.failed().is_some(), "the drive was to be closed");
    assert!(matches!(refused, ServeError::Listen { .. }), "{refused}");
}
